// SPDX-License-Identifier: GPL-2.0
//! The results of the kernel's selftests.

use std::collections::BTreeMap;

use anyhow::{ensure, Result};

/// What a selftest says about a part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Passed,
    Skipped,
    Failed,
}

/// What a selftest says about its parts.
pub struct Outcomes {
    /// By name.
    parts: BTreeMap<String, Outcome>,
    /// How many it has, if it says so.
    planned: Option<usize>,
}

impl Outcomes {
    /// Parses what `kselftest_harness.h` prints: `ok 4 NAME # SKIP why`.
    pub fn of_harness(text: &str) -> Self {
        // The children of remove_on_exec print the number 42 in between, in binary.
        let text = text.replace("*\0\0\0", "");
        let mut plans = text.lines().filter_map(|line| line.strip_prefix("1.."));
        Self {
            parts: text.lines().filter_map(parse_tap).collect(),
            planned: plans.next().and_then(|number| number.parse().ok()),
        }
    }

    /// Parses what `test_progs` prints: `#7/1     TEST/SUBTEST:SKIP`. A line may be there again,
    /// because its children inherit the buffer.
    pub fn of_test_progs(text: &str) -> Self {
        Self {
            parts: text.lines().filter_map(parse_test_progs).collect(),
            planned: None,
        }
    }

    /// Checks that all parts passed, except that those of the list, each with a reason, must be
    /// skipped. Returns a reason if no part passed.
    pub fn check(&self, skipped: &[(&str, &'static str)]) -> Result<Option<&'static str>> {
        let found = self.parts.len();
        let planned = self.planned.unwrap_or(found);
        ensure!(found > 0, "no result");
        ensure!(found == planned, "{found} results of {planned}");
        let mut some_reason = None;
        let mut any_passed = false;
        for (name, outcome) in &self.parts {
            let known = skipped.iter().find(|(skipped, _)| skipped == name);
            let expected = match known {
                Some((_, reason)) => {
                    some_reason = Some(*reason);
                    Outcome::Skipped
                }
                None => {
                    any_passed = true;
                    Outcome::Passed
                }
            };
            ensure!(
                *outcome == expected,
                "{name}: {outcome:?}, expected {expected:?}"
            );
        }
        Ok(some_reason.filter(|_| !any_passed))
    }
}

fn parse_tap(line: &str) -> Option<(String, Outcome)> {
    let (good, rest) = match line.strip_prefix("not ") {
        Some(rest) => (false, rest),
        None => (true, line),
    };
    let (result, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
    let (_, name) = result.strip_prefix("ok ")?.split_once(' ')?;
    let outcome = match (good, directive.starts_with("SKIP")) {
        (false, _) => Outcome::Failed,
        (true, true) => Outcome::Skipped,
        (true, false) => Outcome::Passed,
    };
    Some((name.to_owned(), outcome))
}

fn parse_test_progs(line: &str) -> Option<(String, Outcome)> {
    let (_, rest) = line.strip_prefix('#')?.split_once(' ')?;
    let (name, outcome) = rest.trim_start().split_once(':')?;
    let outcome = match outcome {
        "SKIP" => Outcome::Skipped,
        // `OK (SKIP: 1/2)` if some of the subtests are skipped.
        _ if outcome.starts_with("OK") => Outcome::Passed,
        _ => Outcome::Failed,
    };
    Some((name.to_owned(), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harness() {
        let text = "TAP version 13\n1..4\n#  RUN           a.b ...\n*\0\0\0ok 1 a.b\n\
                    ok 2 a.c # SKIP No AUX event found.\nnot ok 3 a.d\n*\0\0\0*\0\0\0ok 4 a.e\n\
                    # Totals: pass:2 fail:1 xfail:0 xpass:0 skip:1 error:0\n";
        let Outcomes { parts, planned } = Outcomes::of_harness(text);
        let of = |name| parts[name];
        assert_eq!((parts.len(), planned), (4, Some(4)));
        assert_eq!((of("a.b"), of("a.e")), (Outcome::Passed, Outcome::Passed));
        assert_eq!((of("a.c"), of("a.d")), (Outcome::Skipped, Outcome::Failed));
    }

    #[test]
    fn test_progs() {
        let text =
            "#7/1     a/b:SKIP\n#7/1     a/b:SKIP\n#7/2     a/c:OK\n#7       a:OK (SKIP: 1/2)\n\
                    #8       d:FAIL\nSummary: 1/1 PASSED, 1 SKIPPED, 1/0 FAILED\n";
        let Outcomes { parts, .. } = Outcomes::of_test_progs(text);
        let of = |name| parts[name];
        assert_eq!(parts.len(), 4);
        assert_eq!((of("a/c"), of("a")), (Outcome::Passed, Outcome::Passed));
        assert_eq!((of("a/b"), of("d")), (Outcome::Skipped, Outcome::Failed));
    }

    #[test]
    fn all_parts_must_be_there() {
        let check = |text| Outcomes::of_harness(text).check(&[]);
        assert!(check("1..2\nok 1 a\nok 2 b\n").is_ok());
        assert!(check("1..2\nok 1 a\n").is_err());
    }

    #[test]
    fn only_what_is_known_may_be_skipped() {
        let check = |text| Outcomes::of_test_progs(text).check(&[("a", "why"), ("b/c", "because")]);
        assert_eq!(check("#1 a:SKIP\n").unwrap(), Some("why"));
        assert_eq!(check("#1/1 b/c:SKIP\n#1/2 b/d:OK\n").unwrap(), None);
        for bad in ["#1 a:OK\n", "#1 d:SKIP\n", "#1 d:FAIL\n", ""] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
