// SPDX-License-Identifier: GPL-2.0

//! Reports of KCSAN, the kernel's detector of data races, in a kernel log.
//!
//! The kernel has races of its own, which it tolerates. A report is about this project if the
//! module is in one of its stacks, unless it is known that its call has no part in the race.

/// The first line of a report.
const FIRST: &str = "BUG: KCSAN:";
/// The line before a report, and its last one.
const RULE: &str = "====================";
/// What the kernel writes behind a function of the module, but for the bracket that ends it.
const MODULE: &str = "[rust_perf";

/// Races of the kernel with the module in a stack.
const OTHERS: &[&str] = &[
    // kernel/kprobes.c: a handler reads the flags of a kprobe that is being unregistered. It may still
    // run then, until unregister_kprobe() has waited for it.
    "data-race in __disable_kprobe / aggr_pre_handler",
];

/// For each line, whether it belongs to a report about something else than the module.
pub fn in_other_races<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<bool> {
    let mut flags = Vec::new();
    let mut start = None;
    let mut is_ours = false;
    let mut is_known = false;
    let mut is_after_rule = false;
    for (at, line) in lines.into_iter().enumerate() {
        flags.push(false);
        if line.contains(FIRST) {
            (start, is_ours) = (Some(at - usize::from(is_after_rule)), false);
            is_known = OTHERS.iter().any(|race| line.contains(race));
        }
        is_after_rule = line.contains(RULE);
        let Some(first) = start else { continue };
        is_ours |= line.contains(MODULE) && !is_known;
        if is_after_rule {
            flags[first..].fill(!is_ours);
            start = None;
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_of_the_kernel_is_not_ours() {
        let report = |function: &str| {
            format!(
                "before\n{RULE}\nBUG: KCSAN: data-race in a / b\n\n\
                 write to 0xff of 8 bytes by task 1 on cpu 0:\n {function}\n{RULE}\nafter"
            )
        };
        let flags = |text: &str| in_other_races(text.lines());
        let kernel = flags(&report("a+0x1/0x2"));
        assert_eq!(
            kernel,
            [false, true, true, true, true, true, true, false],
            "the report with the lines around it"
        );
        assert!(!flags(&report("a+0x1/0x2 [rust_perf]")).contains(&true));
        let known =
            report("a+0x1/0x2 [rust_perf]").replace("a / b", "__disable_kprobe / aggr_pre_handler");
        assert!(flags(&known).contains(&true));
        // The end is missing.
        assert!(!flags(&format!("{FIRST} data-race in a / b\n a+0x1/0x2")).contains(&true));
    }
}
