// SPDX-License-Identifier: GPL-2.0
//! Functions that wait, each with a limit.
#![expect(
    clippy::disallowed_methods,
    reason = "they are called here alone, within a wait that has a name"
)]

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::mpsc::{Receiver, RecvError};
use std::sync::Barrier;
use std::thread;

use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use super::Waiting;

/// The end of a command.
fn end_of(command: &Command) -> Waiting {
    Waiting::for_(format_args!("the end of {command:?}"))
}

/// [`Command::output`].
pub fn output(command: &mut Command) -> io::Result<Output> {
    let _waiting = end_of(command);
    command.output()
}

/// [`Command::status`].
pub fn status(command: &mut Command) -> io::Result<ExitStatus> {
    let _waiting = end_of(command);
    command.status()
}

/// [`Child::wait`]. `what` is the child's end.
pub fn child(child: &mut Child, what: &str) -> io::Result<ExitStatus> {
    let _waiting = Waiting::for_(what);
    child.wait()
}

/// waitpid(2), of a child or of any. `what` is what happens to the process.
pub fn process(
    pid: impl Into<Option<Pid>>,
    flags: Option<WaitPidFlag>,
    what: &str,
) -> nix::Result<WaitStatus> {
    let _waiting = Waiting::for_(what);
    waitpid(pid.into(), flags)
}

/// [`Receiver::recv`].
pub fn receive<T>(receiver: &Receiver<T>, what: &str) -> Result<T, RecvError> {
    let _waiting = Waiting::for_(what);
    receiver.recv()
}

/// [`Barrier::wait`].
pub fn meet(barrier: &Barrier, what: &str) {
    let _waiting = Waiting::for_(what);
    barrier.wait();
}

/// [`Child::wait_with_output`]. `what` is the child's end.
pub fn rest_of(child: Child, what: &str) -> io::Result<Output> {
    let _waiting = Waiting::for_(what);
    child.wait_with_output()
}

/// Waits until a task sleeps, and is off its CPU.
///
/// The state in /proc is S from when the task has decided to sleep, but not for a task that was woken and has
/// yet to run. /proc/TASK/syscall says `running` until the task is off its CPU, but no longer once it was
/// woken (collect_syscall() in lib/syscall.c). So both are needed, in this order.
pub fn asleep(task: Pid) -> io::Result<()> {
    let file = |name: &str| fs::read_to_string(format!("/proc/{task}/{name}"));
    let _waiting = Waiting::for_(format_args!("task {task} to sleep"));
    while !file("status")?.contains("State:\tS") || file("syscall")?.starts_with("running") {
        thread::yield_now();
    }
    Ok(())
}

/// What has become of a child, or of any child. Does not wait.
pub fn look_at(pid: Option<Pid>) -> nix::Result<WaitStatus> {
    waitpid(pid, Some(WaitPidFlag::WNOHANG))
}
