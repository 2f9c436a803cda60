// SPDX-License-Identifier: GPL-2.0

//! Waiting for a guest's end, for a limited time.

use anyhow::{bail, Context as _, Result};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::Outcome;
use crate::pump::News;

/// What a guest's time limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOf {
    /// The guest's whole time.
    Guest,
    /// The time from one output to the next. A guest that reports the results of tests may
    /// take as long as a busy host makes it take.
    Silence,
}

/// A guest's time limit.
pub struct Limit {
    time: Duration,
    of: LimitOf,
    started: Instant,
}

impl Limit {
    /// A limit that counts from `started` on.
    pub fn new(time: Duration, of: LimitOf, started: Instant) -> Self {
        Self { time, of, started }
    }

    /// Takes note of an output.
    fn heard(&mut self, now: Instant) {
        if self.of == LimitOf::Silence {
            self.started = now;
        }
    }

    /// The time that is left.
    fn left(&self, now: Instant) -> Duration {
        self.time.saturating_sub(now - self.started)
    }
}

/// How a child ended.
pub enum Ended {
    /// It was killed.
    Stopped(Outcome),
    /// It ended by itself, or something else killed it.
    Itself(ExitStatus),
}

/// Waits for a child's end. Kills it if that takes too long or nobody reads its output. Calls `save` with its PID before it kills it for taking
/// too long.
pub fn wait(
    mut child: Child,
    limit: &mut Option<Limit>,
    tell: Sender<News>,
    news: &Receiver<News>,
    save: impl FnOnce(u32),
) -> Result<Ended> {
    let id = child.id();
    let pid = Pid::from_raw(id.try_into()?);
    let waiter = thread::spawn(move || {
        let status = child.wait();
        // The receiver is there until this thread is joined.
        let _ = tell.send(News::Ended);
        status
    });
    let stopped = loop {
        let next = match limit {
            Some(limit) => news.recv_timeout(limit.left(Instant::now())),
            None => news.recv().map_err(RecvTimeoutError::from),
        };
        match next {
            Ok(News::Output) => {
                if let Some(limit) = limit {
                    limit.heard(Instant::now());
                }
            }
            Ok(News::Ended) => break None,
            Ok(News::Unread) => break Some(Outcome::Unread),
            Err(_) => {
                save(id);
                break Some(Outcome::TimedOut);
            }
        }
    };
    if stopped.is_some() {
        // ESRCH if it has just ended.
        let _ = kill(pid, Signal::SIGKILL);
    }
    match waiter.join() {
        Ok(status) => {
            let status = status.context("waiting for QEMU")?;
            Ok(stopped.map_or(Ended::Itself(status), Ended::Stopped))
        }
        Err(_) => bail!("the thread that waits for QEMU panicked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;
    use std::sync::mpsc;

    #[test]
    fn a_child_that_takes_too_long_is_killed_after_its_state_is_saved() {
        let run = |time: &str, limit| {
            let limit = Limit::new(limit, LimitOf::Guest, Instant::now());
            let child = Command::new("sleep").arg(time).spawn().unwrap();
            let (tell, news) = mpsc::channel();
            let mut state = String::new();
            let save = |pid| state = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
            let outcome = wait(child, &mut Some(limit), tell, &news, save).unwrap();
            (outcome, state)
        };
        let (outcome, state) = run("60", Duration::from_millis(100));
        assert!(matches!(outcome, Ended::Stopped(Outcome::TimedOut)));
        assert_eq!(state, "sleep\n");
        let (outcome, state) = run("0", Duration::from_secs(30));
        assert!(matches!(outcome, Ended::Itself(status) if status.success()));
        assert!(state.is_empty());
    }

    #[test]
    fn output_gives_a_suite_more_time() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        for (of, left) in [(LimitOf::Guest, 3), (LimitOf::Silence, 8)] {
            let mut limit = Limit::new(10 * second, of, start);
            limit.heard(start + 5 * second);
            assert_eq!(limit.left(start + 7 * second), left * second);
            assert_eq!(limit.left(start + 30 * second), Duration::ZERO);
        }
    }
}
