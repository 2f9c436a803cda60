// SPDX-License-Identifier: GPL-2.0

//! What the user reads about suites.

use suites::Suite;

use super::verdict::Verdict;
use crate::guest;
use crate::kernel;
use crate::ktap::Failure;
use crate::step::indent;

/// Writes what the user reads about suites.
pub struct Reporter<'a> {
    /// The command that runs suites.
    pub command: String,
    /// What the user chose about the guests.
    pub user: &'a guest::Options,
    /// The kernel, by the name that the user chose it by.
    pub kernel: &'a kernel::Options,
}

impl Reporter<'_> {
    /// The command that runs tests of a suite again.
    fn command(&self, suite: &Suite, tests: &[&str]) -> String {
        let mut command = format!("{} SUITE={}", self.command, suite.name);
        if !tests.is_empty() {
            // No title has a character that a shell would expand.
            let quote = if tests.len() > 1 { "'" } else { "" };
            command += &format!(" TEST={quote}{}{quote}", tests.join(" "));
        }
        command + &self.user.variables() + &self.kernel.variable()
    }

    /// The command that runs again what failed in a suite.
    pub fn again(&self, suite: &Suite, verdict: &Verdict) -> String {
        let failed: Vec<_> = verdict
            .results
            .failures
            .iter()
            .map(|failure| failure.name.as_str())
            .collect();
        // The other failures are not of one test: the kernel log, a guest that died.
        let all = failed.iter().all(|name| is_title(name)) && failed.len() == verdict.failed();
        self.command(suite, if all { &failed } else { &[] })
    }

    /// What the user reads about a suite.
    pub fn text(&self, suite: &Suite, verdict: &Verdict) -> String {
        let results = &verdict.results;
        let mut text = format!(
            "{:43} {:5.0} s  {} passed, {} failed",
            format!("suite {}{}", suite.name, self.kernel.suffix()),
            verdict.elapsed.as_secs_f64(),
            results.passed(),
            verdict.failed()
        );
        if results.skipped() > 0 {
            text += &format!(", {} skipped", results.skipped());
        }
        for failure in &results.failures {
            text += &self.failure(suite, failure);
        }
        if results.missing() > 0 {
            text += &format!("\n  {} tests have no result", results.missing());
        }
        if let Some(trouble) = &verdict.trouble {
            text += &format!("\n{trouble}\n  | again: {}", self.command(suite, &[]));
        }
        text
    }

    /// A test that failed: the reason, with file and line, and how to run it again.
    fn failure(&self, suite: &Suite, failure: &Failure) -> String {
        let name = failure.name.as_str();
        let tests: &[&str] = if is_title(name) { &[name] } else { &[] };
        format!(
            "\n  not ok: {name}\n{}\n  | again: {}",
            indent(&failure.why.join("\n")),
            self.command(suite, tests)
        )
    }
}

/// Whether a result is that of a test, not of the program that runs the tests.
fn is_title(name: &str) -> bool {
    name.contains("::")
}

#[cfg(test)]
mod tests {
    use super::super::verdict::tests::verdict;
    use super::*;

    fn with_reporter(user: guest::Options, check: impl FnOnce(&Reporter)) {
        check(&Reporter {
            command: "make test".to_owned(),
            user: &user,
            kernel: &kernel::Options::default(),
        });
    }

    #[test]
    fn a_failure_has_a_place_and_a_command() {
        let verdict = verdict(
            "1..3\nok 1 a::b\n# expected 5\n# at tests/guest/src/tests/a.rs:7\n\
             not ok 2 a::c # 4 instructions\nok 3 kernel_log_is_clean\n",
            None,
        );
        let suite = suites::find("hw-v2").unwrap();
        with_reporter(guest::Options::default(), |reporter| {
            let text = reporter.text(suite, &verdict);
            let (_, failure) = text.split_once('\n').unwrap();
            assert_eq!(
                failure,
                "  not ok: a::c\n  | 4 instructions\n  | expected 5\n  \
                 | at tests/guest/src/tests/a.rs:7\n  \
                 | again: make test SUITE=hw-v2 TEST=a::c"
            );
            assert_eq!(
                reporter.again(suite, &verdict),
                "make test SUITE=hw-v2 TEST=a::c"
            );
        });
    }

    #[test]
    fn commands_to_run_again() {
        let suite = suites::find("hw-v2").unwrap();
        let user = guest::Options {
            smp: Some(4),
            ..guest::Options::default()
        };
        with_reporter(user, |reporter| {
            let again = |text, trouble| reporter.again(suite, &verdict(text, trouble));
            assert_eq!(
                again("1..2\nnot ok 1 a::b\nnot ok 2 a::c\n", None),
                "make test SUITE=hw-v2 TEST='a::b a::c' SMP=4"
            );
            // What is wrong is not, or not only, a test.
            for (text, trouble) in [
                ("1..1\nnot ok 1 kernel_log_is_clean\n", None),
                ("1..2\nnot ok 1 a::b\n", None),
                ("", Some("panic")),
            ] {
                assert_eq!(again(text, trouble), "make test SUITE=hw-v2 SMP=4");
            }
        });
    }
}
