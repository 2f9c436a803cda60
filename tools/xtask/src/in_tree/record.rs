// SPDX-License-Identifier: GPL-2.0

//! What the tests say of the driver in Debian's kernel, and how another kernel differs from that.

use anyhow::{bail, ensure, Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Mutex, PoisonError};

use crate::context::Context;
use crate::ktap::{Failure, Outcome};
use crate::select::Selected;
use crate::test::Ran;

/// Where the record is.
const FILE: &str = "tests/regressions/record.txt";

/// The lines before the record.
const HEAD: &str = "\
# SPDX-License-Identifier: GPL-2.0
# By suite, how many tests pass with the driver of Debian's kernel, and which fail. Those behind a ? fail now
# and then; they are marked by hand.
# BLESS=1 make test-in-tree ALL=1 makes this file.
";

/// The result that guest-tests adds to those of the tests. It is never recorded: another complaint of the
/// kernel would not be seen.
const KERNEL_LOG: &str = "kernel_log_is_clean";

/// What is known of a suite.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    passed: usize,
    /// The titles of tests that fail, or `?` and the titles of those that fail now and then.
    failing: BTreeSet<String>,
}

impl Known {
    fn fails(&self, title: &str) -> bool {
        self.failing.contains(title)
    }

    fn fails_at_times(&self, title: &str) -> bool {
        self.failing.contains(&format!("?{title}"))
    }

    /// The titles that [`fails_at_times`](Self::fails_at_times) knows, with their marks.
    fn marked(&self) -> impl Iterator<Item = &String> {
        self.failing.iter().filter(|it| it.starts_with('?'))
    }
}

/// By the names of suites.
type Suites = BTreeMap<String, Known>;

/// The record, and what is found beside it.
#[derive(Default)]
pub struct Record {
    known: Suites,
    seen: Mutex<Seen>,
}

/// What a run has found.
#[derive(Default)]
struct Seen {
    suites: Suites,
    /// How many tests fail here and in the record.
    as_recorded: usize,
    /// Tests that fail in the record, and pass here.
    mended: Vec<String>,
    /// Suites that are not in the record.
    unknown: Vec<String>,
    /// Suites that did not run to their end.
    troubled: Vec<String>,
}

impl Record {
    /// Reads the record.
    pub fn read(ctx: &Context) -> Result<Self> {
        let path = ctx.top.join(FILE);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Self {
            known: parse(&text).with_context(|| path.display().to_string())?,
            seen: Mutex::default(),
        })
    }

    /// Compares what came of a suite with the record. Failures that the record has are taken out. If fewer
    /// tests pass than in the record, and no failure says why, that is a failure.
    pub fn compare(&self, selected: &Selected, ran: &mut Ran) {
        let suite = selected.suite.name;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let none = Known::default();
        let known = self.known.get(suite).unwrap_or(&none);
        let failing = ran.results.failures.iter().map(|it| it.name.clone());
        let failing = failing.filter(|it| it != KERNEL_LOG && !known.fails_at_times(it));
        let now = Known {
            passed: ran.results.passed(),
            failing: failing.chain(known.marked().cloned()).collect(),
        };
        if ran.trouble.is_some() || ran.results.missing() > 0 {
            seen.troubled.push(suite.to_owned());
        }
        let failures = &mut ran.results.failures;
        if self.known.contains_key(suite) {
            let before = failures.len();
            let fewer = known.passed.saturating_sub(now.passed);
            let at_times = failures
                .iter()
                .filter(|it| known.fails_at_times(&it.name))
                .count();
            failures.retain(|it| !known.fails(&it.name) && !known.fails_at_times(&it.name));
            seen.as_recorded += before - failures.len();
            if selected.tests.is_none() && fewer > failures.len() + at_times {
                failures.push(Failure {
                    name: "as_many_tests_pass".to_owned(),
                    why: vec![format!(
                        "{} tests pass, {} in the record: others are skipped",
                        now.passed, known.passed
                    )],
                });
            }
            let passes = |(name, outcome): &(String, Outcome)| {
                (*outcome == Outcome::Passed && known.fails(name))
                    .then(|| format!("{suite} {name}"))
            };
            seen.mended
                .extend(ran.results.outcomes.iter().filter_map(passes));
        } else {
            seen.unknown.push(suite.to_owned());
        }
        seen.suites.insert(suite.to_owned(), now);
    }

    /// What differs from the record, but for new failures.
    pub fn compared(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = format!("{} tests fail as in the record", seen.as_recorded);
        for (what, names) in [
            ("pass, but fail in the record", &seen.mended),
            ("suites are not in the record", &seen.unknown),
        ] {
            if !names.is_empty() {
                text += &format!("\n{} {what}:\n  {}", names.len(), names.join("\n  "));
            }
        }
        text
    }

    /// Replaces the record by what was found; if not all suites were run, what it has of those.
    pub fn write(&self, ctx: &Context, all: bool) -> Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            seen.troubled.is_empty(),
            "not recorded, because these suites did not run to their end: {}",
            seen.troubled.join(", ")
        );
        let mut suites = match all {
            true => Suites::new(),
            false => self.known.clone(),
        };
        suites.extend(seen.suites.clone());
        let path = ctx.top.join(FILE);
        fs::write(&path, format(&suites)).with_context(|| path.display().to_string())
    }
}

fn format(suites: &Suites) -> String {
    let mut text = HEAD.to_owned();
    for (suite, known) in suites {
        text += &format!("{suite} {}", known.passed);
        for title in &known.failing {
            text += &format!(" {title}");
        }
        text += "\n";
    }
    text
}

fn parse(text: &str) -> Result<Suites> {
    let mut suites = Suites::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(suite), Some(Ok(passed))) = (words.next(), words.next().map(|it| it.parse()))
        else {
            bail!("not \"SUITE PASSED TITLE…\": {line}");
        };
        let failing = words.collect();
        suites.insert(suite, Known { passed, failing });
    }
    Ok(suites)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ktap::Results;

    fn record(text: &str) -> Record {
        Record {
            known: parse(text).unwrap(),
            seen: Mutex::default(),
        }
    }

    /// The names of the failures that are left of a report.
    fn left(record: &Record, report: &str) -> Vec<String> {
        let selected = Selected {
            suite: suites::find("hw-v3").unwrap(),
            tests: None,
        };
        let mut ran = Ran {
            results: Results::parse(report),
            ..Ran::default()
        };
        record.compare(&selected, &mut ran);
        ran.results.failures.into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn a_record_is_read_back() {
        let text = format!("{HEAD}hw-v2 4\nhw-v3 3 a::b a::c\n");
        assert_eq!(format(&parse(&text).unwrap()), text);
        assert!(parse("hw-v3 a::b\n").is_err());
    }

    #[test]
    fn only_new_failures_are_left() {
        let record = record("hw-v3 1 a::b a::c\n");
        let report = "1..4\nnot ok 1 a::b\nok 2 a::c\nok 3 a::d\nnot ok 4 a::e\n";
        assert_eq!(left(&record, report), ["a::e"]);
        assert_eq!(
            record.compared(),
            "1 tests fail as in the record\n1 pass, but fail in the record:\n  hw-v3 a::c"
        );
    }

    #[test]
    fn a_complaint_of_the_kernel_is_always_left() {
        let record = record("hw-v3 1\n");
        let report = "1..2\nok 1 a::b\nnot ok 2 kernel_log_is_clean\n";
        assert_eq!(left(&record, report), [KERNEL_LOG]);
    }

    #[test]
    fn tests_that_are_skipped_are_a_failure() {
        let report = "1..2\nok 1 a::b\nok 2 a::c # SKIP no PMU\n";
        assert_eq!(left(&record("hw-v3 2\n"), report), ["as_many_tests_pass"]);
        assert_eq!(left(&record("hw-v3 1\n"), report), [""; 0]);
    }

    #[test]
    fn a_test_may_fail_now_and_then() {
        let record = record("hw-v3 2 ?a::b\n");
        assert_eq!(left(&record, "1..2\nnot ok 1 a::b\nok 2 a::c\n"), [""; 0]);
        assert_eq!(left(&record, "1..2\nok 1 a::b\nok 2 a::c\n"), [""; 0]);
        assert_eq!(record.compared(), "1 tests fail as in the record");
        let seen = record.seen.lock().unwrap();
        assert_eq!(seen.suites, record.known);
    }

    #[test]
    fn a_new_suite_is_named() {
        let record = record("");
        left(&record, "1..1\nok 1 a::b\n");
        assert!(record.compared().ends_with("not in the record:\n  hw-v3"));
    }
}
