// SPDX-License-Identifier: GPL-2.0

//! What came of the guest of a suite.

use anyhow::{Context as _, Result};
use std::fs;
use std::time::Duration;
use suites::log::complaint;

use crate::context::GuestLogs;
use crate::guest::{End, Guest, Outcome, Times};
use crate::ktap::Results;
use crate::step::{indent, last_lines};

/// What came of a guest with tests.
#[derive(Default)]
pub struct Ran {
    /// What it reported.
    pub results: Results,
    /// What is wrong besides the tests that failed.
    pub trouble: Option<String>,
    /// Whether it was stopped because it reported nothing any more.
    pub hung: bool,
    /// Where its time went.
    pub times: Times,
}

/// What came of a suite.
pub struct Verdict {
    /// What it reported.
    pub results: Results,
    /// What is wrong besides the tests that failed.
    pub trouble: Option<String>,
    /// How long it took.
    pub elapsed: Duration,
    /// Where the time of the guest went.
    pub times: Times,
}

impl Verdict {
    /// How many tests count as failed.
    pub fn failed(&self) -> usize {
        let failed = self.results.failures.len() + self.results.missing();
        failed.max(usize::from(self.trouble.is_some()))
    }
}

/// The results of a guest that has run guest-tests, and what is wrong besides.
pub fn judge(guest: &Guest, end: &End) -> Result<(Results, Option<String>)> {
    let results = read_results(guest.logs)?;
    let trouble = match end.outcome {
        Outcome::Exited(0) => results.trouble(),
        Outcome::Exited(_) if !results.failures.is_empty() && results.missing() == 0 => {
            results.trouble()
        }
        Outcome::Exited(status) => {
            let stderr = fs::read(guest.logs.stderr())?;
            let stderr = String::from_utf8_lossy(&stderr);
            Some(format!(
                "guest-tests exited with {status}:\n{}",
                indent(last_lines(&stderr, 15))
            ))
        }
        Outcome::TimedOut | Outcome::Unread | Outcome::Died(_) => Some(guest.explain(end)),
    };
    let trouble = trouble.or_else(|| {
        // The kernel may complain after the tests have ended.
        complaint(&end.console)
            .map(|complaint| format!("the kernel complained:\n{}", indent(&complaint)))
    });
    Ok((results, trouble))
}

/// Reads a suite's report.
pub fn read_results(logs: &GuestLogs) -> Result<Results> {
    let file = logs.ktap();
    let ktap = fs::read(&file).with_context(|| file.display().to_string())?;
    Ok(Results::parse(&String::from_utf8_lossy(&ktap)))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What came of a suite that reported this.
    pub fn verdict(text: &str, trouble: Option<&str>) -> Verdict {
        Verdict {
            results: Results::parse(text),
            trouble: trouble.map(str::to_owned),
            elapsed: Duration::ZERO,
            times: Times::default(),
        }
    }

    #[test]
    fn a_suite_that_ends_early_has_failed() {
        assert_eq!(verdict("1..3\nok 1 a\n", None).failed(), 2);
        assert_eq!(verdict("", Some("panic")).failed(), 1);
        assert_eq!(verdict("1..1\nok 1 a\n", None).failed(), 0);
    }
}
