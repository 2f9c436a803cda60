// SPDX-License-Identifier: GPL-2.0
//! Runs tests and reports in KTAP version 1 (Documentation/dev-tools/ktap.rst).
//!
//! Above the line of a failed test stand diagnostic lines: the rest of the reason,
//! then the source lines that led to the check that failed.

use std::backtrace::Backtrace;
use std::env;
use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Error, Result};
use suites::log::Machine;

use crate::ctx::{Ctx, Skipped, Test};
use crate::kmsg::{self, Kmsg};
use crate::waiting::{self, Limits};

/// Where this program's source is in the checkout.
const SOURCE: &str = "tests/guest/src/";

/// Which cores [`about`] is about.
static CORES: Mutex<Option<&'static str>> = Mutex::new(None);

/// Says something of this CPU. docs/results/cpus.md is made of that.
pub fn about(what: &str, text: impl Display) {
    match *CORES.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(cores) => println!("# about {cores}/{what}: {text}"),
        None => println!("# about {what}: {text}"),
    }
}

/// Does this while [`about`] is about these cores of a hybrid CPU.
pub fn about_cores<T>(cores: &'static str, work: impl FnOnce() -> T) -> T {
    let set = |cores| *CORES.lock().unwrap_or_else(PoisonError::into_inner) = cores;
    set(Some(cores));
    let result = work();
    set(None);
    result
}

/// What the panic hook saw last.
static PANIC: Mutex<Option<Failure>> = Mutex::new(None);

/// Why a test failed, and where.
#[derive(Debug, PartialEq)]
struct Failure {
    why: String,
    /// Lines of this program, the innermost first.
    places: Vec<String>,
}

impl Failure {
    fn new(why: String, backtrace: &str) -> Self {
        Self {
            why,
            places: places(backtrace),
        }
    }

    /// Prints all but the first line of the reason, and returns that.
    fn diagnose(&self) -> &str {
        let mut lines = self.why.lines();
        let first = lines.next().unwrap_or_default();
        for line in lines {
            println!("# {line}");
        }
        if !self.places.is_empty() {
            println!("# at {}", self.places.join(", called at "));
        }
        first
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(format!("{error:#}"), &error.backtrace().to_string())
    }
}

/// Has errors and panics record where they happen. Must be called before the
/// first of them.
pub fn record_locations() {
    // Makes anyhow capture a backtrace in each error.
    env::set_var("RUST_LIB_BACKTRACE", "1");
    panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| text.to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        let mut failure = Failure::new(
            format!("panicked: {message}"),
            &Backtrace::force_capture().to_string(),
        );
        // A backtrace shows the frame that a #[track_caller] function panics in.
        if let Some(location) = info.location() {
            let place = format!("{}:{}", location.file(), location.line());
            if failure.places.first() != Some(&place) {
                failure.places.insert(0, place);
            }
        }
        eprintln!(
            "guest-tests: {} at {}",
            failure.why,
            failure.places.join(", ")
        );
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }));
}

/// The lines of this program in a backtrace, without those that run the tests.
fn places(backtrace: &str) -> Vec<String> {
    backtrace
        .lines()
        .filter_map(|line| line.trim().strip_prefix("at "))
        .filter_map(|path| Some(&path[path.find(SOURCE)?..]))
        .take_while(|place| !place.contains("/ktap.rs:"))
        // Without the column.
        .map(|place| place.rsplit_once(':').map_or(place, |(line, _)| line))
        .map(str::to_owned)
        .collect()
}

/// The file of a module.
fn source(module: &str) -> String {
    let path = module.split("::").skip(1).collect::<Vec<_>>().join("/");
    format!("{SOURCE}{path}.rs")
}

/// A test that is to be run.
pub struct Entry<'a> {
    /// What it is given.
    pub ctx: &'a Ctx,
    /// The test.
    pub test: &'static Test,
    /// Its name in the report.
    pub title: String,
}

/// How many tests ended how.
#[derive(Default)]
pub struct Totals {
    /// Those that passed.
    pub passed: usize,
    /// Those that did not apply.
    pub skipped: usize,
    /// Those that failed.
    pub failed: usize,
}

/// Reports that no test can be run.
pub fn skip_all(why: &str) {
    println!("KTAP version 1\n1..0 # SKIP {why}");
}

/// Runs the tests, then checks what the kernel has logged meanwhile. This process must have one thread.
pub fn run(tests: &[Entry<'_>], machine: Machine, limits: Limits) -> Result<Totals> {
    let mut log = Kmsg::from_now()?;
    waiting::start(limits).context("the watchdog")?;
    println!("KTAP version 1\n1..{}", tests.len() + 1);

    let mut totals = run_each(tests);
    let result = catch(|| kmsg::check_clean(&mut log, machine));
    if let Outcome::Failed(_) = result {
        totals.failed += 1;
    }
    report(
        tests.len() + 1,
        "kernel_log_is_clean",
        result,
        Instant::now(),
    );
    Ok(totals)
}

/// Runs the tests.
pub fn run_each(tests: &[Entry<'_>]) -> Totals {
    let mut totals = Totals::default();
    for (Entry { ctx, test, title }, number) in tests.iter().zip(1..) {
        let started = Instant::now();
        waiting::begin_test(&format!("{number} {title}"));
        let mut result = catch(|| {
            let _affinity = ctx.enter()?;
            test.run(ctx)
        });
        if let Some(what) = waiting::end_test() {
            result = result.after_waiting_for(&what);
        }
        if let Outcome::Failed(failure) = &mut result {
            // A test that returns an error of the system's at once may leave no frame: the
            // compiler turns the call that makes the error into a jump.
            if failure.places.is_empty() {
                failure.places.push(source(test.module));
            }
        }
        totals.add(&result);
        report(number, title, result, started);
    }
    totals
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
            Outcome::Failed(_) => self.failed += 1,
        }
    }
}

/// What came of a test.
enum Outcome {
    Passed,
    Skipped(String),
    Failed(Failure),
}

impl Outcome {
    /// What came of a test that has waited too long. Its own error is the consequence.
    fn after_waiting_for(self, what: &str) -> Self {
        let mut failure = match self {
            Outcome::Failed(failure) => failure,
            Outcome::Passed | Outcome::Skipped(_) => Failure::new(String::new(), ""),
        };
        failure.why = format!("waited too long for {what}\n{}", failure.why);
        Outcome::Failed(failure)
    }
}

/// Runs a test; a panic is a failure.
fn catch(run: impl FnOnce() -> Result<()>) -> Outcome {
    match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => match error.downcast_ref::<Skipped>() {
            Some(why) => Outcome::Skipped(why.to_string()),
            None => Outcome::Failed(error.into()),
        },
        Err(_) => {
            let seen = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
            Outcome::Failed(seen.unwrap_or_else(|| Failure::new("panicked".to_owned(), "")))
        }
    }
}

/// Prints the result line of a test.
fn report(number: usize, name: &str, outcome: Outcome, started: Instant) {
    let elapsed = started.elapsed().as_millis();
    match outcome {
        Outcome::Passed => println!("ok {number} {name}\n# {name}: {elapsed} ms"),
        Outcome::Skipped(why) => println!("ok {number} {name} # SKIP {why}"),
        Outcome::Failed(failure) => {
            let first = failure.diagnose();
            println!("not ok {number} {name} # {first}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn places_in_a_backtrace() {
        let backtrace = "   0: anyhow::error::msg\n             \
                         at /cargo/anyhow/src/error.rs:83:36\n   \
                         1: guest_tests::tests::expect\n             \
                         at /checkout/tests/guest/src/tests/mod.rs:134:5\n   \
                         2: guest_tests::tests::counting::branches\n             \
                         at ./tests/guest/src/tests/counting.rs:60:9\n   \
                         3: guest_tests::ktap::run\n             \
                         at /checkout/tests/guest/src/ktap.rs:50:5\n   \
                         4: guest_tests::main\n             \
                         at /checkout/tests/guest/src/main.rs:70:5\n";
        assert_eq!(
            places(backtrace),
            [
                "tests/guest/src/tests/mod.rs:134",
                "tests/guest/src/tests/counting.rs:60"
            ]
        );
        assert_eq!(places("disabled backtrace"), [""; 0]);
        assert_eq!(
            source("guest_tests::tests::counting"),
            "tests/guest/src/tests/counting.rs"
        );
    }

    #[test]
    fn a_panic_and_an_error_have_a_place() {
        record_locations();
        let Outcome::Failed(failure) = catch(|| panic!("no {}", 1)) else {
            panic!("a panic is a failure");
        };
        assert_eq!(failure.why, "panicked: no 1");
        assert!(failure.places[0].starts_with("tests/guest/src/ktap.rs:"));

        let Outcome::Failed(failure) = catch(|| Err(anyhow!("no"))) else {
            panic!("an error is a failure");
        };
        assert_eq!(failure.why, "no");
    }
}
