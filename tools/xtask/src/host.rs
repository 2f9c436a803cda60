// SPDX-License-Identifier: GPL-2.0

//! The part of `make test` that needs no guest: formatting, lints and host tests.

use anyhow::Result;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::callgraph;
use crate::context::Context;
use crate::event_lists;
use crate::in_tree;
use crate::kernel::Kernel;
use crate::module;
use crate::planted;
use crate::step::{indent, Step};
use crate::test::Tally;

/// Cargo in the checkout.
pub fn cargo(ctx: &Context, subcommand: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .arg(subcommand)
        .current_dir(&ctx.top)
        .env("CARGO_TARGET_DIR", target(ctx));
    command
}

/// Where cargo builds what is in the checkout.
pub fn target(ctx: &Context) -> PathBuf {
    ctx.out.join("target")
}

/// Runs all of it.
pub fn test(ctx: &Context, kernel: &Kernel, tally: &mut Tally) -> Result<()> {
    tally.check(|| {
        let step = Step::start(ctx, "rustfmt", "rustfmt")?;
        step.run(cargo(ctx, "fmt").args(["--all", "--check"]))?;
        // The module is not a member of the workspace. rustfmt finds its files from here.
        step.run(
            Command::new("rustfmt")
                .args(["--check", "--edition", "2021", "rust_perf/rust_perf.rs"])
                .args(
                    module::examples(ctx)?
                        .iter()
                        .map(|name| module::source(name)),
                )
                .current_dir(&ctx.top),
        )?;
        step.done();
        Ok(())
    });
    tally.check(|| {
        let step = Step::start(ctx, "clippy", "clippy")?;
        step.run(cargo(ctx, "clippy").args([
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "--deny=warnings",
        ]))?;
        step.done();
        Ok(())
    });
    tally.check(|| planted::check(ctx));
    tally.check(|| in_tree::check(ctx));
    tally.check(|| module::lint(ctx, kernel));
    tally.check(|| callgraph::check(&module::for_kernel(ctx, kernel)?));

    // Without them the test that reads them says what to do.
    if let Err(error) = event_lists::link(ctx, kernel) {
        tally.check(|| Err(error));
    }
    let step = Step::start(ctx, "cargo-test", "host tests")?;
    let ran = step.run(cargo(ctx, "test").args(["--workspace", "--locked", "--no-fail-fast"]));
    report(step, ran, tally, |it| it.again())
}

/// Says what came of `cargo test`, and counts it. `again` is the command that runs a test alone.
pub fn report(
    step: Step,
    ran: Result<()>,
    tally: &mut Tally,
    again: impl Fn(&Failure<'_>) -> String,
) -> Result<()> {
    let log = fs::read_to_string(step.log())?;
    let (passed, failed) = counts(&log);
    match &ran {
        Ok(()) => step.done(),
        Err(error) if failed == 0 => eprintln!("{error:#}"),
        Err(_) => {
            step.end(&format!("{passed} passed, {failed} failed"));
            for failure in failures(&log) {
                let again = again(&failure);
                eprintln!("{}", failure.text(&again));
                tally.again.push(again);
            }
        }
    }
    tally.passed += passed;
    // cargo fails without a test that fails if something does not compile.
    tally.failed += failed.max(usize::from(ran.is_err()));
    Ok(())
}

/// The sums of the "test result:" lines of `cargo test`: passed and failed.
pub fn counts(log: &str) -> (usize, usize) {
    let count = |line: &str, what: &str| {
        line.split([';', '.'])
            .find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok())
            .unwrap_or(0)
    };
    log.lines()
        .filter(|line| line.starts_with("test result:"))
        .fold((0, 0), |(passed, failed), line| {
            (
                passed + count(line, "passed"),
                failed + count(line, "failed"),
            )
        })
}

/// A host test that failed.
#[derive(Debug, PartialEq)]
pub struct Failure<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it printed.
    pub output: String,
}

impl Failure<'_> {
    fn again(&self) -> String {
        format!(
            "tools/bootstrap run cargo test --target-dir out/target --workspace -- --exact {}",
            self.name
        )
    }

    fn text(&self, again: &str) -> String {
        format!(
            "  not ok: {}\n{}\n  | again: {again}",
            self.name,
            indent(&self.output)
        )
    }
}

/// The tests whose output `cargo test` shows because they failed. The output has the
/// file and line of the panic.
pub fn failures(log: &str) -> Vec<Failure<'_>> {
    let mut failures: Vec<Failure<'_>> = Vec::new();
    let mut inside = false;
    for line in log.lines() {
        let head = line.strip_prefix("---- ").and_then(|rest| {
            rest.strip_suffix(" stdout ----")
                .or_else(|| rest.strip_suffix(" ----"))
        });
        if let Some(name) = head {
            inside = true;
            failures.push(Failure {
                name,
                output: String::new(),
            });
        } else if line == "failures:" || line.starts_with("test result:") {
            inside = false;
        } else if let (true, Some(failure)) = (inside, failures.last_mut()) {
            let noise = line.is_empty() || line.starts_with("note: run with `RUST_BACKTRACE");
            if !noise {
                failure.output += line;
                failure.output.push('\n');
            }
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_cargo_test() {
        let log = "running 3 tests\n\
                   test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s\n\
                   test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s\n";
        assert_eq!(counts(log), (4, 2));
        assert_eq!(counts("error: could not compile"), (0, 0));
    }

    #[test]
    fn failures_of_cargo_test() {
        let log = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\n\n\
                   thread 'a::b' panicked at src/a.rs:5:9:\nassertion failed: x\n\
                   note: run with `RUST_BACKTRACE=1` environment variable\n\n\n\
                   failures:\n    a::b\n\ntest result: FAILED. 0 passed; 1 failed\n";
        let failures = failures(log);
        assert_eq!(
            failures,
            [Failure {
                name: "a::b",
                output: "thread 'a::b' panicked at src/a.rs:5:9:\nassertion failed: x\n".to_owned(),
            }]
        );
        assert!(failures[0].text("").contains("src/a.rs:5:9"));
        assert!(failures[0].again().ends_with("--exact a::b"));
    }
}
