// SPDX-License-Identifier: GPL-2.0
//! The process that looks at the clock while the tests wait.
//!
//! It is no child of the tests, of which some wait for all their children, and no thread: some need to be
//! alone in their process. It sleeps as long as no limit is over, so that it disturbs no count.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::WaitStatus;
use nix::time::{clock_gettime, ClockId};
use nix::unistd::{fork, getpid, ForkResult, Pid};

use super::memory::Shared;
use super::{calls, tasks, Limits};

/// How often it looks whether the tests go on after their processes were ended.
const INTERVAL: Duration = Duration::from_millis(50);

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    now.as_nanos() as u64
}

/// Starts it. This process must have one thread.
pub fn start(shared: Shared, limits: Limits) -> Result<()> {
    let tests = Tests::this_process()?;
    // SAFETY: this process has one thread, so that no lock is held in the child.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Child => {
            // SAFETY: as above.
            match unsafe { fork() } {
                Ok(ForkResult::Child) => watch(&tests, shared, limits),
                Ok(ForkResult::Parent { .. }) => end(0),
                Err(_) => end(1),
            }
        }
        ForkResult::Parent { child } => {
            let status = calls::process(child, None, "the watchdog to start")?;
            anyhow::ensure!(
                status == WaitStatus::Exited(child, 0),
                "the watchdog does not start: {status:?}"
            );
            Ok(())
        }
    }
}

/// Ends this process at once. Nothing is dropped: what is there, is the parent's.
fn end(status: i32) -> ! {
    // SAFETY: _exit() ends the process without running code of this program.
    unsafe { libc::_exit(status) }
}

/// The process that runs the tests.
struct Tests {
    pid: Pid,
    /// Of pidfd_open(2).
    handle: OwnedFd,
}

impl Tests {
    fn this_process() -> Result<Self> {
        let pid = getpid();
        // SAFETY: the arguments are numbers.
        let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
        let handle = Errno::result(handle).context("pidfd_open")?;
        Ok(Self {
            pid,
            // SAFETY: the system call has just made the descriptor, which nobody else owns.
            handle: unsafe { OwnedFd::from_raw_fd(handle as i32) },
        })
    }

    /// Sleeps for `time` or until the tests have ended. Returns whether they have.
    fn have_ended_after(&self, time: Duration) -> bool {
        let mut poll = libc::pollfd {
            fd: self.handle.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // Not before the time is over.
        let milliseconds = time.as_millis().saturating_add(1);
        let milliseconds = milliseconds.try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: `poll` is one `pollfd` and lives during the call.
        unsafe { libc::poll(&mut poll, 1, milliseconds) > 0 }
    }
}

/// Looks at the clock until the tests end.
fn watch(tests: &Tests, shared: Shared, limits: Limits) -> ! {
    loop {
        // Nobody wakes it when a wait begins. The limit of such a wait is no sooner over than this.
        let longest = limits.wait.min(limits.test);
        let left = shared.deadline().map_or(longest, |deadline| {
            Duration::from_nanos(deadline.saturating_sub(now())).min(longest)
        });
        if tests.have_ended_after(left) {
            end(0);
        }
        let over = shared.deadline().filter(|deadline| *deadline <= now());
        if let Some(what) = over.and_then(|deadline| shared.expire(deadline)) {
            expired(tests, shared, limits, &what);
        }
    }
}

/// A limit is over.
fn expired(tests: &Tests, shared: Shared, limits: Limits, what: &str) {
    let watchdog = process::id() as i32;
    let mut started = tasks::started_by(tests.pid.as_raw(), watchdog);
    let mut report = format!("waited too long for {what}; the tasks of the test:\n");
    for pid in [tests.pid.as_raw()].iter().chain(&started) {
        report += &tasks::describe(*pid);
    }
    print(&comment(&report));
    if limits.with_timers {
        // It is long, and belongs to the log that nobody needs if no test fails.
        let timers = fs::read_to_string("/proc/timer_list").unwrap_or_default();
        let _ = io::stderr().write_all(timers.as_bytes());
    }
    let until = now() + limits.grace.as_nanos() as u64;
    // A process may start another one while it is ended, so look again. Those that were found while the limit was
    // over are the present test's: the next one starts its own later.
    while shared.is_expired() && now() < until {
        for pid in started {
            // It may have ended.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        started = tasks::started_by(tests.pid.as_raw(), watchdog);
        if tests.have_ended_after(INTERVAL) {
            end(0);
        }
    }
    if shared.is_expired() {
        print(&format!(
            "not ok {} # waited too long for {what}\n\
             Bail out! The test waits on although its processes were ended.\n",
            shared.test()
        ));
        let _ = kill(tests.pid, Signal::SIGKILL);
    }
}

/// Makes each line a diagnostic of KTAP.
fn comment(text: &str) -> String {
    let lines = text.lines().map(|line| format!("# {line}\n"));
    lines.collect()
}

/// Prints in one piece. The tests print whole lines.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}
