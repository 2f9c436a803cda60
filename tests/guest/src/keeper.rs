// SPDX-License-Identifier: GPL-2.0
//! Runs the tests in another process, and leaves the machine as it was however that ends.
//!
//! The tests undo what they change. If a signal ends them, this process ends those that they have
//! started, writes back the settings ([`undo`]), and removes their temporary files. Their mounts
//! are in a mount namespace of their own, and vanish with it.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{bail, Context, Result};
use nix::errno::Errno;
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::sys::prctl;
use nix::sys::signal::{kill, killpg, raise, SigSet, Signal};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

use crate::undo;
use crate::waiting;

/// Names the directory of the run to the process that runs the tests.
const DIRECTORY: &str = "RUST_PERF_TESTS_DIRECTORY";
/// The file of that directory with what is to be undone.
const JOURNAL: &str = "journal";
/// The signals that ask to end.
const ENDS: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
];

/// The directory of the run, if this process is the one to run the tests.
pub fn directory() -> Option<PathBuf> {
    env::var_os(DIRECTORY).map(PathBuf::from)
}

/// The signals that [`run`] waits for.
fn signals() -> SigSet {
    let mut signals = SigSet::from(Signal::SIGCHLD);
    signals.extend(ENDS);
    signals
}

/// Prepares the process that runs the tests.
pub fn enter(directory: &Path) -> Result<()> {
    // It has inherited them as blocked.
    signals().thread_unblock()?;
    undo::open(&directory.join(JOURNAL))?;
    unshare(CloneFlags::CLONE_NEWNS).context("unshare the mounts")?;
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none).context("make the mounts private")?;
    Ok(())
}

/// Starts this program once more, to run the tests, and waits for its end.
pub fn run() -> Result<ExitCode> {
    let directory = tempfile::Builder::new()
        .prefix("rust-perf-tests-")
        .tempdir()
        .context("temporary directory")?;
    // The orphans of the tests become children of this process.
    prctl::set_child_subreaper(true)?;
    let signals = signals();
    signals.thread_block()?;

    // It gets Ctrl-C by this process only.
    let program = env::current_exe().context("this program")?;
    let tests = Command::new(program)
        .args(env::args_os().skip(1))
        .env(DIRECTORY, directory.path())
        // perf keeps what it has seen there.
        .env("HOME", directory.path())
        .env("TMPDIR", directory.path())
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .context("start the tests")?;
    let tests = Pid::from_raw(tests.id() as i32);
    let (status, end) = wait(tests, &signals)?;
    end_children()?;

    let killed_by = match (status, end) {
        (WaitStatus::Exited(_, code), None) => return Ok(ExitCode::from(code as u8)),
        (_, Some(signal)) | (WaitStatus::Signaled(_, signal, _), None) => signal,
        (status, None) => bail!("the tests: {status:?}"),
    };
    println!("Bail out! {killed_by} ended the tests");
    let failures = undo::replay(&directory.path().join(JOURNAL));
    directory.close().context("temporary directory")?;
    if !failures.is_empty() {
        bail!("{}", failures.join("; "));
    }
    if end.is_some() {
        // Who started this program sees what ended it.
        signals.thread_unblock()?;
        raise(killed_by)?;
    }
    Ok(ExitCode::FAILURE)
}

/// Waits until the tests end. If this process is asked to end, it ends them.
fn wait(tests: Pid, signals: &SigSet) -> Result<(WaitStatus, Option<Signal>)> {
    let mut end = None;
    loop {
        let signal = signals.wait()?;
        if signal != Signal::SIGCHLD {
            end = Some(signal);
            // It may have ended just now.
            let _ = killpg(tests, Signal::SIGKILL);
            continue;
        }
        // One signal may stand for several children.
        loop {
            match waiting::look_at(None) {
                Ok(WaitStatus::StillAlive) => break,
                Ok(status) if status.pid() == Some(tests) => return Ok((status, end)),
                Ok(_) => {}
                Err(error) => return Err(error).context("wait for the tests"),
            }
        }
    }
}

/// Ends what the tests have left running.
fn end_children() -> Result<()> {
    loop {
        let pid = std::process::id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let _ = kill(Pid::from_raw(child.parse()?), Signal::SIGKILL);
        }
        match waiting::process(None, None, "the end of a child that was killed") {
            Ok(_) => {}
            Err(Errno::ECHILD) => return Ok(()),
            Err(error) => return Err(error).context("wait for a child"),
        }
    }
}
