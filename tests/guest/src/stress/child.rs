// SPDX-License-Identifier: GPL-2.0
//! The children of a worker.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::SeqCst;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::WaitStatus;
use nix::unistd::{execv, fork, pause, pipe, ForkResult, Pid};

use super::op::Childhood;
use super::open::TIMES;
use super::slot::{perf_event_open, read};
use super::worker::{Outcome, Worker};
use super::world::Class;
use crate::program::MIXED;
use crate::tests::compare::attr::{self, Attr};
use crate::waiting;
use crate::workload;

/// The children of a worker that have not been waited for, at most.
const MOST: usize = 4;

/// Ends this process at once. Nothing is dropped: what is there, is the parent's.
fn end(status: i32) -> ! {
    // SAFETY: _exit() ends the process without running code of this program.
    unsafe { libc::_exit(status) }
}

/// Waits for a child. It may have been `killed`, but by SIGKILL only.
pub fn reap(child: Pid, kill_it: bool) -> Result<()> {
    if kill_it {
        // It may wait for that, see `Childhood::Killed`.
        let _ = kill(child, Signal::SIGKILL);
    }
    let status = waiting::process(child, None, "the end of a child").context("waitpid")?;
    let good = matches!(
        status,
        WaitStatus::Exited(_, 0) | WaitStatus::Signaled(_, Signal::SIGKILL | Signal::SIGTRAP, _)
    );
    ensure!(good, "a child has ended: {status:?}");
    Ok(())
}

/// Forks a child that does something.
pub fn fork_one(worker: &mut Worker, childhood: Childhood) -> Result<Outcome> {
    if worker.children.len() == MOST {
        let oldest = worker.children.remove(0);
        reap(oldest, true)?;
    }
    let program = CString::new(worker.world.program.path().as_os_str().as_bytes())?;
    // SAFETY: the child only makes system calls, and drops what needs no lock, until it ends.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Parent { child } => {
            worker.children.push(child);
            Ok(Outcome::Done)
        }
        ForkResult::Child => {
            if set_pdeathsig(Signal::SIGKILL).is_err() {
                end(1);
            }
            match childhood {
                Childhood::Loop(rounds) => workload::tight_loop(rounds.into()).run(),
                Childhood::Close(first) => close_all(worker, first),
                Childhood::Fork(rounds) => {
                    // SAFETY: as above.
                    if let Ok(ForkResult::Child) = unsafe { fork() } {
                        let _ = set_pdeathsig(Signal::SIGKILL);
                        workload::tight_loop(rounds.into()).run();
                    }
                }
                Childhood::Unshare(flags) => {
                    // SAFETY: the system call takes a number.
                    unsafe { libc::unshare(flags) };
                    // SAFETY: as above. It is the first process of a new PID namespace.
                    if let Ok(ForkResult::Child) = unsafe { fork() } {
                        workload::tight_loop(1_000).run();
                    }
                }
                Childhood::Killed => {
                    pause();
                }
                Childhood::Exec => {
                    let _ = execv(&program, &[c"mixed"]);
                    end(1);
                }
            }
            end(0)
        }
    }
}

/// Reads and closes the events that the child has from its parent.
fn close_all(worker: &mut Worker, first: u8) {
    let number = worker.slots.len();
    for i in 0..number {
        let slot = (i + first as usize) % number;
        if let Some(event) = worker.slots[slot].take() {
            let _ = read(&event.file, &mut [0; 64]);
        }
    }
}

/// Counts the instructions of a program, from exec to exit.
pub fn count_program(worker: &mut Worker, event: usize, inherit: bool) -> Result<Outcome> {
    let choice = &worker.world.events[event];
    let program = CString::new(worker.world.program.path().as_os_str().as_bytes())?;
    let (go, mut tell) = {
        let (go, tell) = pipe().context("pipe")?;
        (File::from(go), File::from(tell))
    };
    // SAFETY: the child only makes system calls until it executes the program or ends.
    let child = match unsafe { fork() }.context("fork")? {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let _ = set_pdeathsig(Signal::SIGKILL);
            let mut byte = [0];
            if (&go).read(&mut byte).is_ok_and(|len| len == 1) {
                let _ = execv(&program, &[c"mixed"]);
            }
            end(1)
        }
    };
    let mut attr = Attr::default();
    attr.set(attr::SIZE, attr::LEN);
    attr.set(attr::DISABLED, 1);
    attr.set(attr::ENABLE_ON_EXEC, 1);
    attr.set(attr::EXCLUDE_KERNEL, 1);
    attr.set(attr::INHERIT, inherit.into());
    attr.set(attr::READ_FORMAT, TIMES);
    choice.set(&mut attr, 0);
    let opened = perf_event_open(attr, child.as_raw(), -1, -1, 0);
    tell.write_all(&[1])?;
    let status = waiting::process(child, None, "the end of the program").context("waitpid")?;
    // An event that the child has inherited may send this signal, and the program has no handler.
    let trapped = matches!(status, WaitStatus::Signaled(_, Signal::SIGTRAP, _));
    ensure!(
        trapped || status == WaitStatus::Exited(child, 0),
        "the program ended: {status:?}"
    );
    let event = match opened {
        Ok(event) => event,
        // The other driver has the counters.
        Err(Errno::EBUSY) if worker.is_shared() => return Ok(Outcome::Refused),
        Err(errno) => return Err(errno).with_context(|| choice.name.clone()),
    };
    let mut words = [0; 3];
    let len = read(&event, &mut words).context("read")?;
    ensure!(len == 24, "read() returned {len}, expected 24");
    let [count, enabled, running] = words;
    let want = MIXED.instructions;
    let exact = worker.world.exact && !trapped && choice.class == Class::Core;
    if exact && enabled == running {
        ensure!(
            count == want,
            "{} of fd {}: {count}, expected {want}; enabled {enabled} ns",
            choice.name,
            event.as_raw_fd()
        );
        worker.lane.exact.fetch_add(1, SeqCst);
    }
    Ok(Outcome::Done)
}
