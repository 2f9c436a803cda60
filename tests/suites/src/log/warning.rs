// SPDX-License-Identifier: GPL-2.0

//! Warnings of known faults of the kernel, in a kernel log.

/// The first and the last line of a warning.
const FIRST: &str = "[ cut here ]";
const LAST: &str = "---[ end trace";

/// What warnings of known faults have, each all of these.
const KNOWN: &[&[&str]] = &[
    // A task exits while an event with call stacks is closed: docs/upstream/findings.md, "Call stacks and
    // a task that exits". It happens without the module, too.
    &["refcount_warn_saturate+", "detach_task_ctx_data+"],
];

/// For each line, whether it belongs to the warning of a known fault.
pub fn in_known_warnings<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<bool> {
    let lines: Vec<_> = lines.into_iter().collect();
    let mut flags = vec![false; lines.len()];
    let mut start = None;
    for (at, line) in lines.iter().enumerate() {
        if line.contains(FIRST) {
            start = Some(at);
        }
        if !line.contains(LAST) {
            continue;
        }
        let Some(first) = start.take() else { continue };
        let report = &lines[first..=at];
        let has = |words: &&str| report.iter().any(|line| line.contains(*words));
        if KNOWN.iter().any(|words| words.iter().all(has)) {
            flags[first..=at].fill(true);
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_warning_has_all_words() {
        let report = |function: &str| {
            let lines = [
                "before",
                "------------[ cut here ]------------",
                "refcount_t: underflow; use-after-free.",
                "WARNING: at refcount_warn_saturate+0x7c/0xb0, CPU#0: guest-tests/1",
                function,
                "---[ end trace 0000000000000000 ]---",
                "after",
            ];
            in_known_warnings(lines)
        };
        let known = report(" detach_task_ctx_data+0xe5/0xf0");
        assert_eq!(known, [false, true, true, true, true, true, false]);
        assert_eq!(report(" put_event+0x4a/0x60"), [false; 7]);
        // The end is missing.
        let open = [FIRST, "refcount_warn_saturate+", "detach_task_ctx_data+"];
        assert_eq!(in_known_warnings(open), [false; 3]);
    }
}
