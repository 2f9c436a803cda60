// SPDX-License-Identifier: GPL-2.0
//! Tests that wait too long, to see what comes of that.

use std::io::Read;
use std::process::{Command, ExitCode, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
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

const LIMIT: Duration = Duration::from_secs(1);

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

/// Runs the tests.
pub fn run() -> Result<ExitCode> {
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
        wait: LIMIT,
        test: LIMIT,
        grace: LIMIT,
        with_timers: false,
    })?;
    ktap::run_each(&TESTS.iter().map(entry).collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}

/// Checks what the tests printed, and how they ended.
pub fn verify(output: &Output) -> Result<()> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut rest = &*text;
    // In this order. Of several texts, any: on a busy host a program may still be loading its libraries, or be
    // the shell that starts it.
    let parts: [&[&str]; 11] = [
        &["# waited too long for the end of \"sleep\" \"1000\"; the tasks of the test:\n"],
        &[" sleep: S, in ", " sleep: D, in ", " sleep: R, in "],
        &["not ok 1 check::for_a_child # waited too long for the end of \"sleep\" \"1000\"\n"],
        &[
            " sleep: S, in ",
            " sleep: D, in ",
            " sleep: R, in ",
            " sh: ",
        ],
        &["not ok 2 check::for_an_orphan # waited too long for the end of \"sh\" "],
        &["# waited too long for the end of the test, or "],
        &["not ok 3 check::without_a_name # waited too long for the end of the test, or "],
        &["ok 4 check::not_at_all\n"],
        &["# waited too long for nobody; "],
        &["not ok 5 check::for_ever # waited too long for nobody\n"],
        &["Bail out! "],
    ];
    for part in parts {
        let ends = part
            .iter()
            .filter_map(|text| Some(rest.find(text)? + text.len()));
        let end = ends.min();
        let end = end.with_context(|| format!("no {part:?} at its place in\n{text}"))?;
        rest = &rest[end..];
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

    /// What the child of [`waits_have_limits`] runs.
    #[test]
    #[ignore = "it waits too long"]
    fn waits_too_long() {
        run().unwrap();
    }

    /// A process that this one has started meanwhile, in its own group, goes on. On the host this is
    /// `make test`, which starts QEMU.
    #[test]
    fn waits_have_limits() {
        // The orphans of the child become children of this process.
        prctl::set_child_subreaper(true).unwrap();
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "--nocapture", "--test-threads=1"]);
        child.arg("waiting::check::unit_tests::waits_too_long");
        // The watchdog takes those orphans for the tests' that are in their group.
        child.process_group(0);
        let (output, mut other) = thread::scope(|scope| {
            let other = scope.spawn(|| {
                // It must be younger than the child, by a tick.
                thread::sleep(LIMIT / 2);
                Running(Command::new("sleep").arg("1003").spawn().unwrap())
            });
            let output = super::super::output(&mut child);
            (output, other.join().unwrap())
        });
        prctl::set_child_subreaper(false).unwrap();
        verify(&output.unwrap()).unwrap();
        assert_eq!(other.0.try_wait().unwrap(), None);
    }
}
