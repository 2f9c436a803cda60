// SPDX-License-Identifier: GPL-2.0
//! Runs tests and reports in KTAP version 1 (Documentation/dev-tools/ktap.rst).

use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;

use anyhow::{anyhow, Error, Result};

use crate::ctx::{Ctx, Skipped, Test};
use crate::kmsg::{self, Kmsg};

/// Runs the tests, then looks at what the kernel had to say meanwhile. Returns
/// whether all is well.
pub fn run(ctx: &Ctx, tests: &[&[Test]]) -> Result<bool> {
    let mut log = Kmsg::from_now()?;
    let count: usize = tests.iter().map(|group| group.len()).sum();
    println!("KTAP version 1\n1..{}", count + 1);

    let mut number = 0;
    let mut good = true;
    let mut report = |name: &str, result: Result<()>, started: Instant| {
        number += 1;
        good &= print(number, name, result, started);
    };
    for test in tests.iter().copied().flatten() {
        let started = Instant::now();
        report(&test.title(), catch(|| (test.run)(ctx)), started);
    }
    report(
        "kernel_log_is_clean",
        kmsg::check_clean(&mut log),
        Instant::now(),
    );
    Ok(good)
}

/// A test that panics has failed, and the others still run.
fn catch(run: impl FnOnce() -> Result<()>) -> Result<()> {
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(anyhow!("panicked")))
}

/// Prints one result line; a reason of many lines goes above it as diagnostics.
fn print(number: usize, name: &str, result: Result<()>, started: Instant) -> bool {
    let elapsed = started.elapsed().as_millis();
    match result {
        Ok(()) => println!("ok {number} {name}\n# {name}: {elapsed} ms"),
        Err(e) => match e.downcast_ref::<Skipped>() {
            Some(why) => println!("ok {number} {name} # SKIP {why}"),
            None => {
                let first = diagnose(&e);
                println!("not ok {number} {name} # {first}");
                return false;
            }
        },
    }
    true
}

/// Prints all but the first line of an error, and returns that.
fn diagnose(error: &Error) -> String {
    let text = format!("{error:#}");
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().to_string();
    for line in lines {
        println!("# {line}");
    }
    first
}
