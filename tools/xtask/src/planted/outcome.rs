// SPDX-License-Identifier: GPL-2.0

//! What a run of tests came to, and whether that is how a bug is to show.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Instant;

use super::header::{list, Sign};
use crate::host;
use crate::ktap;
use crate::step::indent;
use crate::test::Ran;

/// How many lines of the reason for a verdict are shown.
const REASON_LINES: usize = 4;

/// The result that guest-tests adds to those of the tests.
const KERNEL_LOG: &str = "kernel_log_is_clean";

/// What a run of tests came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All passed.
    Passed,
    /// At least one failed, and why.
    Failed(String),
    /// They did not end.
    Hung,
    /// They passed, but there is a complaint in the kernel log.
    Complaint(String),
    /// There is no result, and why.
    None(String),
}

/// How a test caught a bug, or why it did not.
pub type Verdict = Result<String, String>;

impl Outcome {
    /// Whether the test has caught a bug that shows in one of these ways.
    pub fn verdict(self, expected: &[Sign]) -> Verdict {
        let (sign, why) = match self {
            Self::Failed(why) => (Sign::Failure, why),
            Self::Hung => (Sign::Hang, "no result in time".to_owned()),
            Self::Complaint(why) => (Sign::KernelLog, why),
            Self::Passed => return Err("the test passes".to_owned()),
            Self::None(why) => return Err(why),
        };
        if expected.contains(&sign) {
            Ok(why)
        } else {
            Err(format!(
                "{sign}, but the header of the patch expects: {}\n{why}",
                list(expected)
            ))
        }
    }
}

/// Prints the verdict on a bug that was tried since then. `found` is the word for one that the test has found.
pub fn tell(name: &str, found: &str, verdict: &Verdict, started: Instant, test: &impl Display) {
    let (word, why) = match verdict {
        Ok(why) => (found, why),
        Err(why) => ("MISSED", why),
    };
    let seconds = started.elapsed().as_secs();
    println!("{name:38} {word} {seconds:4} s  {test}");
    println!("{}", indent(&first_lines(why)));
}

/// Prints how many bugs were found and missed, and returns the exit status.
pub fn sum(found: &str, all: usize, missed: usize) -> ExitCode {
    println!("{} {found}, {missed} missed", all - missed);
    match missed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The first lines of a reason. That of a host test begins behind the place of the panic.
fn first_lines(why: &str) -> String {
    let of_panic = why
        .split_once(" panicked at ")
        .map_or(why, |(_, rest)| rest);
    let lines: Vec<_> = of_panic.lines().take(REASON_LINES).collect();
    lines.join("\n")
}

/// What host tests came to: cargo's exit status, and its output.
pub fn of_host(status: Option<i32>, text: &str, tests: usize) -> Outcome {
    // timeout(1) exits with the first of them, or with the second if it had to kill.
    if matches!(status, Some(124 | 137)) {
        return Outcome::Hung;
    }
    let (passed, failed) = host::counts(text);
    if passed + failed != tests {
        return Outcome::None(format!("{} of {tests} tests were run", passed + failed));
    }
    match host::failures(text).first() {
        _ if failed == 0 => Outcome::Passed,
        Some(failure) => Outcome::Failed(failure.output.trim_end().to_owned()),
        None => Outcome::Failed("no reason is given".to_owned()),
    }
}

/// What guest tests came to.
pub fn of_guest(ran: &Ran, titles: &[&str]) -> Outcome {
    let results = &ran.results;
    let mut failures = results.failures.iter();
    if let Some(failure) = failures.find(|it| titles.contains(&it.name.as_str())) {
        return Outcome::Failed(failure.why.join("\n"));
    }
    if ran.hung {
        return Outcome::Hung;
    }
    for title in titles {
        let mut outcomes = results.outcomes.iter();
        let why = match outcomes.find(|(name, _)| name == title) {
            Some((_, ktap::Outcome::Passed)) => continue,
            Some((_, ktap::Outcome::Skipped(why))) => format!("{title} is skipped: {why}"),
            _ => format!("{title} has no result"),
        };
        let trouble = ran.trouble.as_deref().unwrap_or_default();
        return Outcome::None(format!("{why}\n{trouble}").trim_end().to_owned());
    }
    match results.failures.iter().find(|it| it.name == KERNEL_LOG) {
        Some(complaint) => Outcome::Complaint(complaint.why.join("\n")),
        None => Outcome::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::Times;
    use crate::ktap::Results;

    #[test]
    fn a_bug_is_caught_by_what_its_header_says() {
        let failed = || Outcome::Failed("5, not 4".to_owned());
        assert_eq!(
            failed().verdict(&[Sign::Failure]),
            Ok("5, not 4".to_owned())
        );
        assert!(failed().verdict(&[Sign::Hang]).is_err());
        assert!(Outcome::Hung.verdict(&[Sign::Hang]).is_ok());
        assert!(Outcome::Hung.verdict(&[Sign::Failure]).is_err());
        let complaint = || Outcome::Complaint("NMI".to_owned());
        assert!(complaint().verdict(&[Sign::KernelLog]).is_ok());
        assert!(complaint().verdict(&[Sign::Failure]).is_err());
        let either = [Sign::Failure, Sign::KernelLog];
        assert!(failed().verdict(&either).is_ok());
        assert!(complaint().verdict(&either).is_ok());
        assert!(Outcome::Hung.verdict(&either).is_err());
        for sign in [Sign::Failure, Sign::Hang, Sign::KernelLog] {
            assert!(Outcome::Passed.verdict(&[sign]).is_err());
            assert!(Outcome::None("x".to_owned()).verdict(&[sign]).is_err());
        }
    }

    #[test]
    fn host_tests() {
        let line = |passed, failed| {
            format!("test result: x. {passed} passed; {failed} failed; 0 ignored; finished in 1s")
        };
        assert_eq!(of_host(Some(0), &line(2, 0), 2), Outcome::Passed);
        assert_eq!(of_host(Some(124), "", 1), Outcome::Hung);
        // The name is that of no test, or the program did not get so far.
        for text in [line(0, 0), String::new()] {
            assert!(matches!(of_host(Some(101), &text, 1), Outcome::None(_)));
        }
        let text = format!(
            "---- a::b stdout ----\npanicked at a.rs:1:2:\n{}",
            line(0, 1)
        );
        let failed = Outcome::Failed("panicked at a.rs:1:2:".to_owned());
        assert_eq!(of_host(Some(101), &text, 1), failed);
    }

    #[test]
    fn guest_tests() {
        let outcome = |text: &str, hung| {
            let ran = Ran {
                results: Results::parse(text),
                trouble: Some("panic".to_owned()),
                hung,
                times: Times::default(),
            };
            of_guest(&ran, &["a::b"])
        };
        assert_eq!(outcome("1..1\nok 1 a::b\n", false), Outcome::Passed);
        let failed = Outcome::Failed("5, not 4".to_owned());
        assert_eq!(outcome("1..1\nnot ok 1 a::b # 5, not 4\n", true), failed);
        assert_eq!(outcome("1..1\n", true), Outcome::Hung);
        let text = "1..2\nok 1 a::b\nnot ok 2 kernel_log_is_clean # NMI\n";
        let complaint = Outcome::Complaint("NMI".to_owned());
        assert_eq!(outcome(text, false), complaint);
        // Another failure is none of this test.
        for text in ["1..1\n", "1..1\nok 1 a::b # SKIP x\n", "not ok 1 log\n"] {
            let outcome = outcome(text, false);
            assert!(matches!(&outcome, Outcome::None(why) if why.ends_with("panic")));
        }
    }
}
