// SPDX-License-Identifier: GPL-2.0

//! `make planted`: puts each bug of `tests/planted` in a copy of the checkout, and runs the
//! test that is to catch it.

mod bug;
pub mod header;
pub mod outcome;

use anyhow::{ensure, Context as _, Result};
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
use crate::module;
use crate::qemu::Qemu;
use crate::select::{self, Selected};
use crate::signals;
use crate::step::Step;
use crate::test;
use bug::{Bug, HostTests, Test};
use header::{check_table, Sign};
use outcome::{of_guest, of_host, sum, tell, Outcome, Verdict};

/// Where the table of bugs is.
const PAGE: &str = "docs/results/planted-bugs.md";

/// The seconds after which a test counts as one that hangs.
const LIMIT: u64 = 600;

/// The seconds after which a test counts as one that hangs, if that is its bug.
const SHORT_LIMIT: u64 = 120;

/// Which bugs to plant.
#[derive(Args)]
pub struct Options {
    /// Only the bugs that match a glob.
    #[arg(long, env = "RUST_PERF_PLANTED", value_name = "GLOB…")]
    planted: Option<String>,
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
        missed += usize::from(verdict.is_err());
        tell(&bug.name, "caught", &verdict, started, &bug.test);
    }
    Ok(sum("caught", bugs.len(), missed))
}

/// Checks that all patches apply, and that the table in the documentation is theirs.
pub fn check(ctx: &Context) -> Result<()> {
    let step = Step::start(ctx, "planted", "planted bugs: patches and table")?;
    let bugs = bug::all(ctx)?;
    for bug in &bugs {
        step.run(patch(&ctx.top, &bug.patch).arg("--dry-run"))?;
    }
    check_table(ctx, PAGE, "planted bugs", &bug::table(&bugs))?;
    step.done();
    Ok(())
}

/// The command that applies a patch, each hunk exactly.
pub fn patch(top: &Path, patch: &Path) -> Command {
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
        let limit = match bug.signs[..] {
            [Sign::Hang] => SHORT_LIMIT,
            _ => LIMIT,
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
        Ok(outcome.verdict(&bug.signs))
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
