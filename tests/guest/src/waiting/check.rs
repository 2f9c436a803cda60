// SPDX-License-Identifier: GPL-2.0
//! Tests that wait too long, to see what comes of that.

use std::io::Read;
use std::process::{Command, ExitCode, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use suites::NO_SUITE;

use super::Limits;
use crate::ctx::{Ctx, Test, RUST_PMU};
use crate::ktap::{self, Entry};
use crate::program::Running;
use crate::tests;

/// They run in this order. The last one ends the program.
const TESTS: &[Test] = tests![
    for_a_child,
    for_an_orphan,
    without_a_name,
    not_at_all,
    for_ever
];

/// The limits that are tried, one after the other, in seconds. On a busy host the programs may not even have
/// started when the first is over.
const LIMITS: [u64; 3] = [1, 8, 64];

fn for_a_child(_: &Ctx) -> Result<()> {
    super::output(Command::new("sleep").arg("1000"))?;
    Ok(())
}

/// The child's child has the pipe.
fn for_an_orphan(_: &Ctx) -> Result<()> {
    super::output(Command::new("sh").args(["-c", "sleep 1001 & true"]))?;
    Ok(())
}

fn without_a_name(_: &Ctx) -> Result<()> {
    let mut sleep = Command::new("sleep");
    let mut sleep = Running(sleep.arg("1002").stdout(Stdio::piped()).spawn()?);
    let mut pipe = sleep.0.stdout.take().context("no pipe")?;
    pipe.read_to_end(&mut Vec::new())?;
    Ok(())
}

fn not_at_all(_: &Ctx) -> Result<()> {
    Ok(())
}

fn for_ever(_: &Ctx) -> Result<()> {
    let _waiting = super::Waiting::for_("nobody");
    loop {
        thread::sleep(Duration::from_secs(1_000));
    }
}

/// Runs the tests with this limit for each wait, for each test, and for what follows.
pub fn run(limit: Duration) -> Result<ExitCode> {
    let ctx = Ctx {
        suite: &NO_SUITE,
        pmu: RUST_PMU.to_owned(),
        seed: 1,
        no_counters: None,
        cpus: None,
    };
    let entry = |test: &'static Test| Entry {
        ctx: &ctx,
        test,
        title: test.title(),
    };
    super::start(Limits {
        wait: limit,
        test: limit,
        grace: limit,
        with_timers: false,
    })?;
    ktap::run_each(&TESTS.iter().map(entry).collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}

/// Has the tests run with one limit after the other, until they print and end as they should.
pub fn check(mut run: impl FnMut(u64) -> Result<Output>) -> Result<Output> {
    let mut result = Err(anyhow!("no limit"));
    for seconds in LIMITS {
        let output = run(seconds)?;
        result = verify(&output).map(|()| output);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Checks what the tests printed, and how they ended.
fn verify(output: &Output) -> Result<()> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut rest = &*text;
    // In this order.
    for part in [
        "# waited too long for the end of \"sleep\" \"1000\"; the tasks of the test:\n",
        " sleep: S, in ",
        "not ok 1 check::for_a_child # waited too long for the end of \"sleep\" \"1000\"\n",
        " sleep: S, in ",
        "not ok 2 check::for_an_orphan # waited too long for the end of \"sh\" ",
        "# waited too long for the end of the test, or ",
        "not ok 3 check::without_a_name # waited too long for the end of the test, or ",
        "ok 4 check::not_at_all\n",
        "# waited too long for nobody; ",
        "not ok 5 check::for_ever # waited too long for nobody\n",
        "Bail out! ",
    ] {
        let at = rest.find(part);
        let at = at.with_context(|| format!("no {part:?} at its place in\n{text}"))?;
        rest = &rest[at + part.len()..];
    }
    ensure!(output.status.code().is_none(), "{}", output.status);
    Ok(())
}

#[cfg(test)]
mod unit_tests {
    use super::*;
    use nix::sys::prctl;
    use std::env;
    use std::os::unix::process::CommandExt;

    /// Has the limit of the child, in seconds.
    const VARIABLE: &str = "RUST_PERF_WAIT_SECONDS";

    /// What the child of [`waits_have_limits`] runs.
    #[test]
    #[ignore = "it waits too long"]
    fn waits_too_long() {
        let seconds = env::var(VARIABLE).unwrap().parse().unwrap();
        run(Duration::from_secs(seconds)).unwrap();
    }

    /// A process that this one has started meanwhile, in its own group, goes on. On the host this is
    /// `make test`, which starts QEMU.
    #[test]
    fn waits_have_limits() {
        check(|seconds| Ok(with_limit(seconds))).unwrap();
    }

    fn with_limit(seconds: u64) -> Output {
        // The orphans of the child become children of this process.
        prctl::set_child_subreaper(true).unwrap();
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "--nocapture", "--test-threads=1"]);
        child.arg("waiting::check::unit_tests::waits_too_long");
        child.env(VARIABLE, seconds.to_string());
        // The watchdog takes those orphans for the tests' that are in their group.
        child.process_group(0);
        let (output, mut other) = thread::scope(|scope| {
            let other = scope.spawn(|| {
                // It must be younger than the child, by a tick.
                thread::sleep(Duration::from_secs(seconds) / 2);
                Running(Command::new("sleep").arg("1003").spawn().unwrap())
            });
            let output = super::super::output(&mut child);
            (output, other.join().unwrap())
        });
        prctl::set_child_subreaper(false).unwrap();
        assert_eq!(other.0.try_wait().unwrap(), None);
        output.unwrap()
    }
}
