// SPDX-License-Identifier: GPL-2.0

//! `make planted`: puts each bug of `tests/planted` in a copy of the checkout, and runs the
//! test that is to catch it.

mod bug;

use anyhow::{bail, ensure, Context as _, Result};
use clap::Args;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::cache;
use crate::context::Context;
use crate::copy;
use crate::guest::{self, Parts};
use crate::guest_tests;
use crate::host;
use crate::kernel;
use crate::ktap;
use crate::module;
use crate::qemu::Qemu;
use crate::select::{self, Selected};
use crate::signals;
use crate::step::{indent, Step};
use crate::test::{self, Ran};
use bug::{Bug, HostTests, Sign, Test};

/// Where the table of bugs is.
const PAGE: &str = "docs/results/planted-bugs.md";

/// The seconds after which a test counts as one that hangs.
const LIMIT: u64 = 600;

/// The seconds after which a test counts as one that hangs, if that is its bug.
const SHORT_LIMIT: u64 = 120;

/// How many lines of the reason for a verdict are shown.
const REASON_LINES: usize = 4;

/// The result that guest-tests adds to those of the tests.
const KERNEL_LOG: &str = "kernel_log_is_clean";

/// Which bugs to plant.
#[derive(Args)]
pub struct Options {
    /// Only the bugs that match a glob.
    #[arg(long, env = "RUST_PERF_PLANTED", value_name = "GLOB…")]
    planted: Option<String>,
}

/// What a run of tests came to.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
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
type Verdict = Result<String, String>;

impl Outcome {
    /// Whether the test has caught a bug that shows in this way.
    fn verdict(self, expected: Sign) -> Verdict {
        let (sign, why) = match self {
            Self::Failed(why) => (Sign::Failure, why),
            Self::Hung => (Sign::Hang, "no result in time".to_owned()),
            Self::Complaint(why) => (Sign::KernelLog, why),
            Self::Passed => return Err("the test passes".to_owned()),
            Self::None(why) => return Err(why),
        };
        if sign == expected {
            Ok(why)
        } else {
            Err(format!(
                "{sign}, but the header of the patch expects: {expected}\n{why}"
            ))
        }
    }
}

/// `make planted`.
pub fn planted(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    let globs = options.planted.as_deref();
    let bugs = select::chosen("planted bug", bug::all(ctx)?, globs, |bug| &bug.name)?;
    let _lock = cache::lock(&ctx.out.join(".lock-planted"), "make planted")?;
    let bench = Bench::new(ctx, kernel, &bugs)?;
    let started = Instant::now();
    let sound = bench.without_bugs(&bugs);
    let passing = |test: &Test| sound.get(test) == Some(&Outcome::Passed);
    let (passed, seconds) = (
        sound.keys().filter(|test| passing(test)).count(),
        started.elapsed().as_secs(),
    );
    println!(
        "{passed} of {} tests pass without a bug, {seconds} s",
        sound.len()
    );
    let mut missed = 0;
    for bug in &bugs {
        let started = Instant::now();
        let verdict = match sound.get(&bug.test) {
            Some(Outcome::Passed) => bench.with_bug(bug)?,
            other => Err(format!("does not pass without the bug: {other:?}")),
        };
        let (word, why) = match &verdict {
            Ok(why) => ("caught", why),
            Err(why) => ("MISSED", why),
        };
        missed += usize::from(verdict.is_err());
        let seconds = started.elapsed().as_secs();
        println!("{:38} {word} {seconds:4} s  {}", bug.name, bug.test);
        println!("{}", indent(&first_lines(why)));
    }
    println!("{} caught, {missed} missed", bugs.len() - missed);
    Ok(match missed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Checks that all patches apply, and that the table in the documentation is theirs.
pub fn check(ctx: &Context) -> Result<()> {
    let step = Step::start(ctx, "planted", "planted bugs: patches and table")?;
    let bugs = bug::all(ctx)?;
    for bug in &bugs {
        step.run(patch(&ctx.top, &bug.patch).arg("--dry-run"))?;
    }
    let table = bug::table(&bugs);
    if !fs::read_to_string(ctx.top.join(PAGE))?.contains(&table) {
        let file = ctx.logs.join("planted-table.md");
        fs::write(&file, table)?;
        bail!(
            "the table of planted bugs in {PAGE} is not that of the patches' headers.\n  \
             try: put the table of {} there",
            file.display()
        );
    }
    step.done();
    Ok(())
}

/// The command that applies a patch, each hunk exactly.
fn patch(top: &Path, patch: &Path) -> Command {
    let mut command = Command::new("patch");
    command
        .args([
            "--strip=1",
            "--fuzz=0",
            "--batch",
            "--no-backup-if-mismatch",
        ])
        .arg("--input")
        .arg(patch)
        .current_dir(top);
    command
}

/// The copy of the checkout, and what its tests need.
struct Bench {
    /// The copy.
    copy: Context,
    guests: Option<Guests>,
}

/// What guests need. Their QEMU and their tests are those of the checkout.
struct Guests {
    parts: Parts,
    program: PathBuf,
}

impl Bench {
    fn new(ctx: &Context, kernel: &kernel::Options, bugs: &[Bug]) -> Result<Self> {
        let has_guests = bugs.iter().any(|bug| matches!(bug.test, Test::Guest(..)));
        let guests = match has_guests {
            true => Some(Guests {
                parts: Parts::prepare(ctx, kernel, Qemu::patched(ctx)?)?,
                program: guest_tests::build(ctx)?,
            }),
            false => None,
        };
        let copy = copy::checkout(ctx, "planted")?;
        Ok(Self { copy, guests })
    }

    /// Runs the tests of all bugs while there is no bug, each program and each suite once. Only
    /// if that fails, each test alone.
    fn without_bugs(&self, bugs: &[Bug]) -> HashMap<Test, Outcome> {
        let mut outcomes = HashMap::new();
        for bug in bugs {
            if outcomes.contains_key(&bug.test) {
                continue;
            }
            let mut alike: Vec<&Test> = bugs.iter().map(|it| &it.test).collect();
            alike.retain(|test| test.runs_with(&bug.test));
            alike.sort();
            alike.dedup();
            let all = self.run("without-bugs", &alike, LIMIT);
            for test in &alike {
                let outcome = match all {
                    Outcome::Passed => Outcome::Passed,
                    _ => self.run("without-bugs", &[test], LIMIT),
                };
                outcomes.insert((*test).clone(), outcome);
            }
        }
        outcomes
    }

    /// Plants a bug, runs its test, and removes the bug. Returns whether the test has caught it,
    /// and why.
    fn with_bug(&self, bug: &Bug) -> Result<Verdict> {
        let apply = patch(&self.copy.top, &bug.patch).output()?;
        if !apply.status.success() {
            let why = String::from_utf8_lossy(&apply.stdout).into_owned();
            return Ok(Err(format!("the patch does not apply:\n{why}")));
        }
        let limit = match bug.sign {
            Sign::Hang => SHORT_LIMIT,
            Sign::Failure | Sign::KernelLog => LIMIT,
        };
        let outcome = self.run(&bug.name, &[&bug.test], limit);
        let remove = patch(&self.copy.top, &bug.patch)
            .arg("--reverse")
            .output()?;
        ensure!(
            remove.status.success(),
            "{} cannot be removed from the copy: {}",
            bug.name,
            String::from_utf8_lossy(&remove.stdout)
        );
        Ok(outcome.verdict(bug.sign))
    }

    /// Runs tests of one program or of one suite. `name` is that of the logs. After
    /// `limit` seconds they hang; those of a guest if it reports nothing for so long.
    fn run(&self, name: &str, tests: &[&Test], limit: u64) -> Outcome {
        let names: Vec<_> = tests.iter().map(|test| test.name()).collect();
        let outcome = match tests.first() {
            Some(Test::Host(program, _)) => self.host(name, program, &names, limit),
            Some(Test::Guest(suite, _)) => self.guest(suite, &names, limit),
            None => Ok(Outcome::Passed),
        };
        signals::park_if_interrupted();
        outcome.unwrap_or_else(|error| Outcome::None(format!("{error:#}")))
    }

    fn host(&self, log: &str, program: &HostTests, names: &[&str], limit: u64) -> Result<Outcome> {
        let step = Step::start(&self.copy, log, &format!("{log}: {program}"))?;
        let arguments = program.cargo_arguments();
        let build = ["--locked", "--no-run"];
        step.run(host::cargo(&self.copy, "test").args(&arguments).args(build))?;
        let ran = Command::new("timeout")
            .args(["--kill-after=5", &limit.to_string()])
            .args(["cargo", "test", "--locked"])
            .args(&arguments)
            .args(["--", "--exact"])
            .args(names)
            .current_dir(&self.copy.top)
            .env("CARGO_TARGET_DIR", host::target(&self.copy))
            .env("RUST_BACKTRACE", "0")
            .output()?;
        step.done();
        let text = String::from_utf8_lossy(&ran.stdout);
        fs::write(self.copy.logs.join(format!("{log}.tests.log")), &*text)?;
        Ok(of_host(ran.status.code(), &text, names.len()))
    }

    fn guest(&self, suite: &str, titles: &[&str], limit: u64) -> Result<Outcome> {
        let guests = self.guests.as_ref().context("guests were not prepared")?;
        let module = module::for_kernel(&self.copy, &guests.parts.kernel)?;
        let selected = Selected {
            suite: select::suite(suite)?,
            tests: Some(titles.iter().map(|title| (*title).to_owned()).collect()),
        };
        let user = guest::Options {
            timeout: Some(limit),
            ..guest::Options::default()
        };
        let ran = test::tests_with(
            &self.copy,
            &guests.parts,
            &guests.program,
            &module,
            &user,
            &selected,
        )?;
        Ok(of_guest(&ran, titles))
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
fn of_host(status: Option<i32>, text: &str, tests: usize) -> Outcome {
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
fn of_guest(ran: &Ran, titles: &[&str]) -> Outcome {
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
    use crate::ktap::Results;

    #[test]
    fn a_bug_is_caught_by_what_its_header_says() {
        let failed = || Outcome::Failed("5, not 4".to_owned());
        assert_eq!(failed().verdict(Sign::Failure), Ok("5, not 4".to_owned()));
        assert!(failed().verdict(Sign::Hang).is_err());
        assert!(Outcome::Hung.verdict(Sign::Hang).is_ok());
        assert!(Outcome::Hung.verdict(Sign::Failure).is_err());
        let complaint = || Outcome::Complaint("NMI".to_owned());
        assert!(complaint().verdict(Sign::KernelLog).is_ok());
        assert!(complaint().verdict(Sign::Failure).is_err());
        for sign in [Sign::Failure, Sign::Hang, Sign::KernelLog] {
            assert!(Outcome::Passed.verdict(sign).is_err());
            assert!(Outcome::None("x".to_owned()).verdict(sign).is_err());
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
