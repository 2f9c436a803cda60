// SPDX-License-Identifier: GPL-2.0
//! `perf test`, perf's tests of itself. One suite runs them with the in-tree driver, another one with
//! the module in its place. Both expect the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::iter;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{ensure, Context, Result};
use tempfile::TempDir;

use super::compare::case::Mount;
use crate::ctx::{Ctx, Test};
use crate::tests;
use crate::tool::Perf;
use crate::waiting::{self, Waiting};

pub const TESTS: &[Test] = tests![
    all need [Root, PerfTool, ExactCounts];
    all_entries,
];

/// What perf says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Ok,
    Skip,
    Failed,
}

impl Outcome {
    fn parse(text: &str) -> Option<Self> {
        let starts = |word| text.trim_start().starts_with(word);
        match () {
            () if starts("Ok") => Some(Self::Ok),
            () if starts("Skip") => Some(Self::Skip),
            () if starts("FAILED!") => Some(Self::Failed),
            () => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "Ok",
            Self::Skip => "Skip",
            Self::Failed => "FAILED!",
        })
    }
}

/// Entries that do not run here, by their names, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    // The emulated CPU may be too slow for them.
    ("Object code reading", READS_MAPS),
    ("Lookup mmap thread", READS_MAPS),
    ("Test dwarf unwind", READS_MAPS),
    // Chance decides whether it passes.
    ("Breakpoint overflow sampling", RF),
    // They open one event or metric after another.
    ("perf all metricgroups test", MINUTES),
    ("perf all metrics test", MINUTES),
    ("perf all PMU test", MINUTES),
    // They would be skipped, which takes long.
    ("vmlinux symtab matches kallsyms", "needs the file vmlinux"),
    ("perf annotate basic tests", SYMBOLS),
    ("perf diff tests", SYMBOLS),
    ("perf inject --aslr test", SYMBOLS),
    ("perf pipe recording and injection test", SYMBOLS),
    ("perf record tests", SYMBOLS),
    // The driver has no part in what they test, and all of them together take minutes.
    ("PMU JSON event tests", NO_EVENTS),
    ("dlfilter C API", NO_EVENTS),
    ("test addr2line inline unwinding", NO_EVENTS),
    ("build id cache operations", NO_EVENTS),
    ("daemon operations", NO_EVENTS),
    (
        "Test that perf report includes file offsets and event type names in diagnostic \
         messages.",
        NO_EVENTS,
    ),
    (
        "Test that perf report handles truncated perf.data gracefully (no crash, no segfault \
         — clean error exit).",
        NO_EVENTS,
    ),
    ("perf ftrace tests", NO_EVENTS),
    (
        "perf inject to convert DWARF callchains to regular ones",
        NO_EVENTS,
    ),
    ("python profiling with jitdump", NO_EVENTS),
    ("perf kallsyms tests", NO_EVENTS),
    ("perf kwork tests", NO_EVENTS),
    ("perf list tests", NO_EVENTS),
    ("perf sched stats tests", NO_EVENTS),
    ("'import perf' in python", NO_EVENTS),
    ("Zstd perf.data compression/decompression", NO_EVENTS),
    (
        "Zstd perf.data compression/decompression of multi-record data",
        NO_EVENTS,
    ),
    ("perf sched tests", NO_EVENTS),
    ("perf script tests", NO_EVENTS),
    ("perf script --dlfilter tests", NO_EVENTS),
    ("perf script perl tests", NO_EVENTS),
    ("perf script python tests", NO_EVENTS),
    ("perf stat events uniquifying", NO_EVENTS),
    ("BPF metadata collection test", NO_EVENTS),
    ("Test java symbol", NO_EVENTS),
    ("'perf data convert --to-ctf' command test", NO_EVENTS),
    ("'perf data convert --to-json' command test", NO_EVENTS),
    ("perf test junit XML output validation", NO_EVENTS),
    ("test perf probe of function from different CU", NO_EVENTS),
    ("perf timechart tests", NO_EVENTS),
    ("perf trace enum augmentation tests", NO_EVENTS),
    ("perf trace exit race", NO_EVENTS),
    ("perf trace record and replay", NO_EVENTS),
    ("perftool-testsuite_probe", NO_EVENTS),
    ("perftool-testsuite_report", NO_EVENTS),
    (
        "Add vfs_getname probe to get syscall args filenames",
        NO_EVENTS,
    ),
    ("probe libc's inet_pton & backtrace it with ping", NO_EVENTS),
    (
        "Use vfs_getname probe to get syscall args filenames",
        NO_EVENTS,
    ),
    ("perf record offcpu profiling tests", NO_EVENTS),
    (
        "Test libdw unwinding of multi-threaded processes",
        NO_EVENTS,
    ),
    ("perf script task-analyzer tests", NO_EVENTS),
    ("perf top tests", NO_EVENTS),
    (
        "Check open filename arg using perf trace + vfs_getname",
        NO_EVENTS,
    ),
    ("perf trace BTF general tests", NO_EVENTS),
    ("perf trace summary", NO_EVENTS),
];

const READS_MAPS: &str = "perf reads a list of mappings for at most 0.5 s";
const RF: &str = "QEMU sets RF when an interrupt arrives, so that a breakpoint may be missed";
const MINUTES: &str = "takes minutes";
const SYMBOLS: &str = "Debian's perf has no symbols";
const NO_EVENTS: &str = "is not about hardware events";

/// Entries that perf skips here, and why. A part of an entry is `entry: part`.
const SKIPPED: &[(&str, &str)] = &[
    (
        "Parse event definition strings: Parsing of aliased events from sysfs",
        UNCORE,
    ),
    ("Uncore event sorting", UNCORE),
    ("Event groups", UNCORE),
    ("Watchpoint: Read Only Watchpoint", "x86 has none"),
    ("Probe SDT events", BUILD),
    (
        "Test libpfm4 support: test of individual --pfm-events",
        BUILD,
    ),
    ("Test libpfm4 support: test groups of --pfm-events", BUILD),
    ("PE file support", BUILD),
    ("perf all libpfm4 events test", BUILD),
    ("perf record sample filtering (by BPF) tests", BUILD),
    ("perf stat --bpf-counters --for-each-cgroup test", BUILD),
    ("perf stat --bpf-counters test", BUILD),
    ("Test data symbol", PEBS),
    ("perf c2c tests", PEBS),
    ("test Intel TPEBS counting mode", PEBS),
    ("perf record LBR tests", LBR),
    ("Check branch stack sampling", LBR),
    ("Miscellaneous Intel PT testing", "needs Intel PT"),
    ("Intel PT: Intel PT hybrid CPU compatibility", HYBRID),
    ("x86 hybrid", HYBRID),
    ("AMD IBS via core pmu", OTHER_CPU),
    ("AMD IBS software filtering", OTHER_CPU),
    ("AMD IBS sample period", OTHER_CPU),
    ("Check Arm64 callgraphs are complete in fp mode", OTHER_CPU),
    ("Check Arm SPE doesn't hang when there are forks", OTHER_CPU),
    ("CoreSight synthesized callchain", OTHER_CPU),
    ("CoreSight concurrent threads", OTHER_CPU),
    ("CoreSight context switch thread attribution", OTHER_CPU),
    ("CoreSight deterministic workload decode", OTHER_CPU),
    ("CoreSight raw dump stress", OTHER_CPU),
    (
        "Check Arm CoreSight trace data recording and synthesized samples",
        OTHER_CPU,
    ),
    (
        "Check Arm CoreSight disassembly script completes without errors",
        OTHER_CPU,
    ),
    (
        "Check Arm SPE trace data recording and synthesized samples",
        OTHER_CPU,
    ),
    ("DRM PMU", "needs a graphics card"),
    ("perf kvm tests", "needs QEMU"),
    ("kernel lock contention analysis test", "needs more CPUs"),
];

const UNCORE: &str = "needs an uncore PMU";
const BUILD: &str = "Debian builds perf without it";
const PEBS: &str = "the CPU has no PEBS";
const LBR: &str = "the CPU has no LBR";
const HYBRID: &str = "needs a hybrid CPU";
const OTHER_CPU: &str = "needs another CPU";

/// Entries that fail here whichever driver there is, and why.
const FAILING: &[(&str, &str)] = &[
    (
        "Simple expression parser",
        "reads the frequency of the TSC from the CPU's name",
    ),
    ("perf data type profiling tests", PEBS),
];

/// Beginnings of what entries print of a failure that is left to chance, and why.
const BY_CHANCE: &[(&str, &str)] = &[
    ("stat -D test [Failed", "it is about time"),
    (
        "stat -p test [Failed - command failed]",
        "the process that is to be counted ends after a second",
    ),
    (
        "Hide zero events stat test [Failed - zero event",
        "counts another run of a program, which may move to another CPU",
    ),
    (
        "Failed after retrying",
        "perf looks for the exit of a process 1,000 times, without waiting",
    ),
];

/// Whether a table has an entry.
fn is_in(table: &[(&str, &str)], name: &str) -> bool {
    table.iter().any(|(it, _)| *it == name)
}

/// The outcome that is right for an entry, or for a part of one.
fn expected(name: &str) -> Outcome {
    if is_in(SKIPPED, name) {
        Outcome::Skip
    } else if is_in(FAILING, name) {
        Outcome::Failed
    } else {
        Outcome::Ok
    }
}

/// A line of `perf test list`: `  5: name` of an entry, `  5.1: name` of its part. Returns the label
/// and the name.
fn list_line(line: &str) -> Option<(&str, &str)> {
    let (label, name) = line.split_once(": ")?;
    let label = label.trim();
    let is_label = label.starts_with(|c: char| c.is_ascii_digit());
    is_label.then_some((label, name.trim()))
}

/// The number of an entry, in the label of it or of its part. The numbers differ from one version of
/// perf to the next.
fn number(label: &str) -> Option<u32> {
    label.split('.').next()?.parse().ok()
}

/// The entries of `perf test list`, by their numbers, without their parts.
fn entries(list: &str) -> BTreeMap<u32, &str> {
    let entry = |line| {
        let (label, name) = list_line(line)?;
        Some((label.parse().ok()?, name))
    };
    list.lines().filter_map(entry).collect()
}

/// What must have an outcome: the labels of the parts of these entries, and of entries without
/// parts.
fn labels(list: &str, entries: &BTreeMap<u32, &str>) -> BTreeSet<String> {
    let all: BTreeSet<_> = list.lines().filter_map(list_line).map(|it| it.0).collect();
    let runs = |label: &&str| number(label).is_some_and(|number| entries.contains_key(&number));
    let has_parts = |label: &str| all.iter().any(|it| it.starts_with(&format!("{label}.")));
    let labels = all.iter().copied().filter(runs);
    let labels = labels.filter(|label| !has_parts(label));
    labels.map(str::to_owned).collect()
}

/// What perf says of an entry, or of a part of one.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    label: String,
    name: String,
    outcome: Outcome,
}

impl Line {
    /// Parses `  5: name  : Ok`, `  5.1: part  : Ok`.
    fn parse(line: &str, entries: &BTreeMap<u32, &str>) -> Option<Self> {
        let (label, rest) = line.split_once(": ")?;
        let (name, outcome) = rest.rsplit_once(" : ").or_else(|| rest.rsplit_once(": "))?;
        let label = label.trim();
        // perf may print another name of an entry than in the list.
        let entry = entries.get(&number(label)?)?;
        Some(Self {
            label: label.to_owned(),
            name: match label.contains('.') {
                true => format!("{entry}: {}", name.trim()),
                false => (*entry).to_owned(),
            },
            outcome: Outcome::parse(outcome)?,
        })
    }
}

/// Whether failures were printed, all of which are left to chance.
fn failed_by_chance(printed: &[String]) -> bool {
    let is_failure = |line: &&String| line.contains("[Failed") || line.starts_with("Failed ");
    let mut failures = printed.iter().filter(is_failure);
    let by_chance = |line: &String| BY_CHANCE.iter().any(|(it, _)| line.starts_with(it));
    let first = failures.next();
    first.is_some_and(by_chance) && failures.all(by_chance)
}

/// What is wrong with what perf prints while it runs these entries of its list.
fn wrong(
    lines: impl IntoIterator<Item = String>,
    list: &str,
    entries: &BTreeMap<u32, &str>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut missing = labels(list, entries);
    let mut printed = Vec::new();
    let mut since = Instant::now();
    for line in lines {
        // A process that an entry leaves behind may keep the pipe open.
        if line == "=== Test Summary ===" {
            break;
        }
        let Some(Line {
            label,
            name,
            outcome,
        }) = Line::parse(&line, entries)
        else {
            printed.push(line);
            continue;
        };
        // Tells xtask, too, that the guest does not hang.
        eprintln!("{name}: {outcome}, {} ms", since.elapsed().as_millis());
        let expected = expected(&name);
        let by_chance = outcome == Outcome::Failed && failed_by_chance(&printed);
        if outcome != expected && !by_chance {
            eprintln!("{}", printed.join("\n"));
            wrong.push(format!("{name}: {outcome}, expected {expected}"));
        }
        missing.remove(&label);
        printed.clear();
        since = Instant::now();
    }
    wrong.extend(missing.iter().map(|label| format!("{label}: no outcome")));
    wrong
}

/// Each entry of `perf test` passes, or fails or is skipped as the list in this file says.
fn all_entries(_: &Ctx) -> Result<()> {
    let list = Perf::new("test").args(["list"]).run()?;
    let list = String::from_utf8([list.stdout, list.stderr].concat())?;
    let mut entries = entries(&list);
    entries.retain(|_, name| !is_in(LEFT_OUT, name));
    ensure!(!entries.is_empty(), "perf test list printed {list:?}");
    // One of them counts for cgroups.
    let _cgroups = Mount::cgroup2()?;
    let dir = TempDir::new()?;
    let mut perf = Command::new("sh");
    perf.current_dir(dir.path())
        .env("LC_ALL", "C")
        .env("PAGER", "cat")
        .args(["-c", "exec perf test --sequential -v \"$@\" 2>&1", "sh"])
        .args(entries.keys().map(u32::to_string))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut perf = perf.spawn().context("perf test")?;
    // It stays open until perf has ended, which prints a summary at last.
    let output = BufReader::new(perf.stdout.take().context("no pipe")?);
    let lines = output.split(b'\n').map_while(Result::ok);
    let mut lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    let mut lines = iter::from_fn(|| {
        let _waiting = Waiting::for_("perf test to print another line");
        lines.next()
    });
    let wrong = wrong(lines.by_ref(), &list, &entries);
    let status = waiting::child(&mut perf, "the end of perf test")?;
    ensure!(
        wrong.is_empty(),
        "{} of perf's tests\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    ensure!(status.success(), "perf test: {status}");
    Ok(())
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    const LIST: &str = "  2: One\n 21: Watchpoint\n 21.1: Read\n 21.2: Write\n175: a: b\n";

    #[test]
    fn entries_of_a_list() {
        let expected = [(2, "One"), (21, "Watchpoint"), (175, "a: b")];
        assert_eq!(entries(LIST), BTreeMap::from(expected));
    }

    #[test]
    fn labels_of_entries() {
        let mut entries = entries(LIST);
        assert_eq!(
            Vec::from_iter(labels(LIST, &entries)),
            ["175", "2", "21.1", "21.2"]
        );
        entries.remove(&21);
        assert_eq!(Vec::from_iter(labels(LIST, &entries)), ["175", "2"]);
    }

    #[test]
    fn outcomes() {
        let entries = entries(LIST);
        let outcome = |line| Line::parse(line, &entries);
        let some = |label: &str, name: &str, outcome| {
            Some(Line {
                label: label.to_owned(),
                name: name.to_owned(),
                outcome,
            })
        };
        assert_eq!(outcome("  2: One    : Running (1 active)"), None);
        assert_eq!(outcome(" 21: Watchpoint    :"), None);
        assert_eq!(outcome("176: another : Ok"), None);
        assert_eq!(outcome("---- end(-2) ----"), None);
        assert_eq!(outcome("  2: one  : Ok"), some("2", "One", Outcome::Ok));
        assert_eq!(
            outcome("175: a long name: Ok"),
            some("175", "a: b", Outcome::Ok)
        );
        assert_eq!(
            outcome(" 21.1: Read / Write   : Skip (missing hardware support)"),
            some("21.1", "Watchpoint: Read / Write", Outcome::Skip)
        );
    }

    #[test]
    fn what_is_wrong() {
        let entries = entries(LIST);
        let wrong = |text: &str| wrong(text.lines().map(str::to_owned), LIST, &entries);
        assert_eq!(
            wrong("  2: One : Ok\n 21.1: Some : Ok\n 21.2: Other : Ok\n175: b : Ok\n"),
            [""; 0]
        );
        assert_eq!(
            wrong("  2: One : FAILED!\n 21.1: Some : Skip\n\n=== Test Summary ===\n"),
            [
                "One: FAILED!, expected Ok",
                "Watchpoint: Some: Skip, expected Ok",
                "175: no outcome",
                "21.2: no outcome"
            ]
        );
    }

    #[test]
    fn failures_by_chance() {
        let by_chance = |lines: &[&str]| {
            let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
            failed_by_chance(&lines)
        };
        assert!(by_chance(&["a [Success]", "stat -D test [Failed - it]"]));
        assert!(!by_chance(&["stat -D test [Failed - it]", "a [Failed]"]));
        assert!(!by_chance(&["a [Success]"]));
    }
}
