// SPDX-License-Identifier: GPL-2.0

//! The sum of all results.

use anyhow::Result;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::guest::Times;
use crate::signals;

/// The sum of all results.
#[derive(Default)]
pub struct Tally {
    /// How many tests passed.
    pub passed: usize,
    /// How many tests failed.
    pub failed: usize,
    /// The commands that run those again that failed.
    pub again: Vec<String>,
    /// How many guests ran tests.
    guests: usize,
    /// Where the time of these went.
    times: Times,
}

impl Tally {
    /// Adds the results of another part of the run.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.again.extend(other.again);
        self.guests += other.guests;
        self.times += other.times;
    }

    /// Adds the time of a guest.
    pub fn add_guest(&mut self, times: Times) {
        self.guests += 1;
        self.times += times;
    }

    /// Prints the sum of a run that took so long, and returns the exit status.
    pub fn finish(&self, elapsed: Duration) -> ExitCode {
        if !self.again.is_empty() {
            println!("To run what failed again:\n  {}", self.again.join("\n  "));
        }
        if let Some(text) = self.where_time_went(elapsed) {
            println!("{text}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        match self.failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }

    /// Where the time of a run went that took so long, if it had guests.
    fn where_time_went(&self, elapsed: Duration) -> Option<String> {
        let guests = match self.guests {
            0 => return None,
            1 => "a guest".to_owned(),
            n => format!("{n} guests, some at the same time"),
        };
        let guests = match self.times.restored {
            0 => guests,
            n => format!("{guests}, {n} restored"),
        };
        let seconds = elapsed.as_secs_f64();
        Some(format!(
            "{seconds:.0} s in all. Of {guests}: {}",
            self.times
        ))
    }

    /// Counts a check that passes or fails as a whole, such as rustfmt.
    pub fn check(&mut self, check: impl FnOnce() -> Result<()>) {
        match check() {
            Ok(()) => self.passed += 1,
            Err(error) => {
                // After a signal the error would be noise.
                signals::park_if_interrupted();
                eprintln!("{error:#}");
                self.failed += 1;
            }
        }
    }

    /// Counts a check with a name, which passes or fails as a whole. `again` is the command that runs it
    /// alone.
    pub fn check_named(&mut self, name: &str, again: &str, check: impl FnOnce() -> Result<()>) {
        let started = Instant::now();
        let failed = self.failed;
        self.check(check);
        let result = match self.failed == failed {
            true => "PASS",
            false => {
                self.again.push(again.to_owned());
                "FAIL"
            }
        };
        eprintln!(
            "{name:43} {:5.0} s  {result}",
            started.elapsed().as_secs_f64()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_check_is_counted_and_can_be_run_again() {
        let mut tally = Tally::default();
        tally.check_named("a", "make a", || Ok(()));
        tally.check_named("b", "make b", || anyhow::bail!("no"));
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert_eq!(tally.again, ["make b"]);
    }

    #[test]
    fn the_times_of_guests_are_summed() {
        let mut tally = Tally::default();
        let told = |tally: &Tally| tally.where_time_went(Duration::from_secs(7));
        assert_eq!(told(&tally), None);
        tally.add_guest(Times::default());
        let mut other = Tally::default();
        other.add_guest(Times::default());
        tally.add(other);
        let text = told(&tally).unwrap();
        assert!(text.starts_with("7 s in all. Of 2 guests, some at the same time: "));
        tally.add_guest(Times::default().restored(true));
        let text = told(&tally).unwrap();
        assert!(text.starts_with("7 s in all. Of 3 guests, some at the same time, 1 restored: "));
    }
}
