// SPDX-License-Identifier: GPL-2.0
//! `perf test`, perf's tests of itself. One suite runs them with the in-tree driver, another one with
//! the module in its place. Both expect the same.

mod entries;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::iter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{ensure, Context, Result};
use tempfile::TempDir;

use super::compare::case::Mount;
use crate::ctx::{Ctx, Test};
use crate::setting::SampleRate;
use crate::tests;
use crate::tool::{self, Perf};
use crate::waiting::{self, Waiting};
use entries::{BY_CHANCE, FAILING, LEFT_OUT, OF_BRANCHES, SKIPPED, WITH_SYMBOLS};

pub const TESTS: &[Test] = tests![
    all need [Root, PerfTool, ExactCounts];
    all_entries,
];

/// What needs branch records.
pub const BRANCHES: &[Test] = tests![
    all need [Root, PerfTool, ExactCounts];
    entries_of_branches,
    entries_with_symbols,
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
    expected: impl Fn(&str) -> Outcome,
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

/// Each entry of `perf test` passes, or fails or is skipped as the lists say.
fn all_entries(_: &Ctx) -> Result<()> {
    run(None, &[], |name| !is_in(LEFT_OUT, name), expected)
}

/// The entry about branch records that needs no symbols passes.
fn entries_of_branches(_: &Ctx) -> Result<()> {
    // perf would take 4,000 samples a second. The entry has it record nineteen times and print each recording
    // twice, with all records: on the emulated CPU each takes several seconds.
    let _rate = SampleRate::fixed(1_000)?;
    run_named(None, &[OF_BRANCHES])
}

/// The entries that look for functions of perf pass. They need a perf that has symbols.
fn entries_with_symbols(_: &Ctx) -> Result<()> {
    let _rate = SampleRate::fixed(1_000)?;
    run_named(Some(&tool::kernel_programs()?), WITH_SYMBOLS)
}

/// Runs entries by their names. All must exist and pass.
fn run_named(directory: Option<&Path>, names: &[&str]) -> Result<()> {
    run(
        directory,
        names,
        |name| names.contains(&name),
        |_| Outcome::Ok,
    )
}

/// Runs the entries that are wanted, by perf in a directory or by Debian's. Each must have the expected
/// outcome, and some must exist.
fn run(
    directory: Option<&Path>,
    needed: &[&str],
    is_wanted: impl Fn(&str) -> bool,
    expected: impl Fn(&str) -> Outcome,
) -> Result<()> {
    let mut path = env::var("PATH")?;
    if let Some(directory) = directory {
        path = format!("{}:{path}", directory.display());
    }
    // Debian's perf has its tests there.
    let environment = [
        ("PATH", path.as_str()),
        ("PERF_EXEC_PATH", "/usr/lib/perf-core"),
    ];
    let mut list = Perf::new("test").args(["list"]);
    list.command().envs(environment);
    let list = list.run()?;
    let list = String::from_utf8([list.stdout, list.stderr].concat())?;
    let mut entries = entries(&list);
    entries.retain(|_, name| is_wanted(name));
    let exists = |name: &&str| entries.values().any(|it| it == name);
    let missing: Vec<_> = needed.iter().filter(|name| !exists(name)).collect();
    ensure!(
        !entries.is_empty() && missing.is_empty(),
        "perf test list has no {missing:?}: {list:?}"
    );
    // One of them counts for cgroups.
    let _cgroups = Mount::cgroup2()?;
    let dir = TempDir::new()?;
    let mut perf = Command::new("sh");
    perf.current_dir(dir.path())
        .env("LC_ALL", "C")
        .env("PAGER", "cat")
        .envs(environment)
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
    let wrong = wrong(lines.by_ref(), &list, &entries, expected);
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
        let wrong = |text: &str| {
            let lines = text.lines().map(str::to_owned);
            wrong(lines, LIST, &entries, expected)
        };
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
