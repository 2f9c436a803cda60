// SPDX-License-Identifier: GPL-2.0
//! Limits of what a test waits for.
//!
//! Each wait has a name and a limit: [`Waiting::for_`]. Beside the tests runs a process, the [`watchdog`].
//! If a limit is over, it prints what the test waited for and what the processes of the test are doing.
//! Then it ends those that the test has started. That ends most waits, and the test fails. If the test
//! waits on, the watchdog ends the tests.
//!
//! A test that is not in a wait with a name has a limit, too. It begins anew after each wait.
//!
//! clippy.toml has the functions that must not be called but by way of [`calls`].

mod calls;
pub mod check;
mod memory;
mod tasks;
mod watchdog;

pub use self::calls::{asleep, child, look_at, meet, output, process, receive, rest_of, status};

use std::env;
use std::fmt::Display;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use suites::{Suite, Timing};

use self::memory::Shared;

/// How long waits may take.
#[derive(Clone, Copy)]
pub struct Limits {
    /// A wait with a name.
    wait: Duration,
    /// What a test does from one such wait to the next.
    test: Duration,
    /// What a test does after its processes were ended.
    grace: Duration,
    /// Whether the watchdog prints the kernel's timers as well.
    with_timers: bool,
}

impl Limits {
    /// Those in the guest of a suite: well below the time after which xtask stops a silent guest, which it
    /// passes in seconds.
    pub fn of(suite: &Suite) -> Self {
        const SILENCE: &str = "RUST_PERF_TIMEOUT";
        let silence = env::var(SILENCE).ok().and_then(|text| text.parse().ok());
        let silence = Duration::from_secs(silence.unwrap_or(600));
        // The clock of a guest with `-icount` runs ahead while the guest waits for the host: an idle guest
        // is at its next timer at once.
        let scale = match suite.timing {
            Timing::Icount => 1_000,
            _ => 1,
        };
        Self {
            wait: silence / 2 * scale,
            test: silence * 9 / 10 * scale,
            grace: silence / 20 * scale,
            with_timers: !suite.name.is_empty(),
        }
    }
}

/// The process whose waits count. Its children inherit what is here, but wait without a limit of their own.
static OWNER: AtomicU32 = AtomicU32::new(0);
static WAITS: Mutex<Option<Waits>> = Mutex::new(None);

/// The waits of the tests.
struct Waits {
    limits: Limits,
    shared: Shared,
    /// Several threads may wait.
    all: Vec<Wait>,
    /// The number of the next one.
    next: u64,
    /// What a test does without a wait that has a name.
    test: Option<Wait>,
    /// What the watchdog has been told.
    told: String,
    /// What the test has waited for too long.
    expired: Option<String>,
}

struct Wait {
    number: u64,
    what: String,
    /// In nanoseconds of CLOCK_MONOTONIC.
    deadline: u64,
}

/// Starts the watchdog. This process must have one thread.
pub fn start(limits: Limits) -> Result<()> {
    let shared = Shared::map()?;
    watchdog::start(shared, limits)?;
    *lock() = Some(Waits {
        limits,
        shared,
        all: Vec::new(),
        next: 0,
        test: None,
        told: String::new(),
        expired: None,
    });
    OWNER.store(process::id(), SeqCst);
    Ok(())
}

fn lock() -> MutexGuard<'static, Option<Waits>> {
    WAITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does this with the waits, if they are those of this process.
fn with<T>(work: impl FnOnce(&mut Waits) -> T) -> Option<T> {
    // The lock may have been held by another thread of the parent.
    (OWNER.load(SeqCst) == process::id()).then(|| lock().as_mut().map(work))?
}

/// A test begins. `line` is its number and its name.
pub fn begin_test(line: &str) {
    with(|waits| {
        waits.shared.set_test(line);
        waits.all.clear();
        waits.expired = None;
        waits.go_on();
        waits.tell();
    });
}

/// The test has ended. Returns what it has waited for too long.
pub fn end_test() -> Option<String> {
    with(|waits| {
        waits.all.clear();
        waits.test = None;
        waits.tell();
        waits.expired.take()
    })?
}

impl Waits {
    /// The test has done something.
    fn go_on(&mut self) {
        self.test = Some(Wait {
            number: u64::MAX,
            what: "the end of the test, or of the next wait that has a name".to_owned(),
            deadline: watchdog::now() + self.limits.test.as_nanos() as u64,
        });
    }

    fn add(&mut self, what: String, limit: Duration) -> u64 {
        let number = self.next;
        self.next += 1;
        self.all.push(Wait {
            number,
            what,
            deadline: watchdog::now() + limit.as_nanos() as u64,
        });
        self.tell();
        number
    }

    fn remove(&mut self, number: u64) {
        self.all.retain(|wait| wait.number != number);
        if self.test.is_some() {
            self.go_on();
        }
        self.tell();
    }

    /// Tells the watchdog which wait is the next whose limit will be over.
    fn tell(&mut self) {
        if self.shared.clear() {
            self.expired.get_or_insert_with(|| self.told.clone());
        }
        let first = self.all.iter().min_by_key(|wait| wait.deadline);
        if let Some(wait) = first.or(self.test.as_ref()) {
            self.told.clone_from(&wait.what);
            self.shared.set(&wait.what, wait.deadline);
        }
    }
}

/// While this exists, the test waits for something.
#[must_use]
pub struct Waiting(Option<u64>);

impl Waiting {
    /// For `what`, as in "perf top to show busybox".
    pub fn for_(what: impl Display) -> Self {
        Self(with(|waits| waits.add(what.to_string(), waits.limits.wait)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            with(|waits| waits.remove(number));
        }
    }
}
