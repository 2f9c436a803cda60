// SPDX-License-Identifier: GPL-2.0

//! SIGINT, SIGTERM and SIGHUP end all children and remove what is half made.
//!
//! This process is process 1 of its PID namespace, so every other process there is a
//! descendant. Mounts go with the mount namespace.

use anyhow::Result;
use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::sys::termios::{self, SetArg, Termios};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static STAGING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A directory that is removed when this is dropped, or on a signal.
pub struct Staging(PathBuf);

impl Staging {
    /// Makes the directory. If it is there, it becomes empty.
    pub fn create(path: PathBuf) -> Result<Self> {
        lock(&STAGING).push(path.clone());
        let staging = Self(path);
        staging.remove();
        fs::create_dir_all(&staging.0)?;
        Ok(staging)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Gives the complete directory its final name. A signal removes it before that, and
    /// leaves it alone afterwards.
    pub fn commit(&self, to: &Path) -> io::Result<()> {
        let mut list = lock(&STAGING);
        fs::rename(&self.0, to)?;
        list.retain(|path| path != &self.0);
        Ok(())
    }

    fn remove(&self) {
        // If this fails, the next use of the directory does too.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.remove();
        lock(&STAGING).retain(|path| path != &self.0);
    }
}

/// Restores the terminal's modes when this is dropped, or on a signal.
pub struct TerminalModes;

impl TerminalModes {
    /// Remembers the modes of standard input, if that is a terminal.
    pub fn save() -> Self {
        *lock(&TERMINAL) = termios::tcgetattr(io::stdin()).ok();
        Self
    }
}

impl Drop for TerminalModes {
    fn drop(&mut self) {
        restore_terminal();
    }
}

fn restore_terminal() {
    if let Some(modes) = lock(&TERMINAL).take() {
        // The terminal may be gone.
        let _ = termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &modes);
    }
}

/// Starts the thread that waits for signals.
pub fn install() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            INTERRUPTED.store(true, Ordering::SeqCst);
            end(signal);
        }
    });
    Ok(())
}

fn end(signal: i32) -> ! {
    // Another thread may start a process meanwhile.
    loop {
        // Every other process of the namespace. ESRCH if there is none.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => break,
            Ok(WaitStatus::StillAlive) => thread::sleep(Duration::from_millis(10)),
            _ => {}
        }
    }
    // Held until the end, so that no other thread can commit.
    let staging = lock(&STAGING);
    for path in staging.iter() {
        let _ = fs::remove_dir_all(path);
    }
    restore_terminal();
    // eprintln! would panic if nobody reads our output any more.
    let _ = writeln!(io::stderr(), "\nrust_perf: interrupted");
    process::exit(128 + signal);
}

/// Waits for the end of the process if a signal has come.
///
/// Called on an error, because a child that the signal's thread killed is no error to
/// report, and before a child is started.
pub fn park_if_interrupted() {
    if INTERRUPTED.load(Ordering::SeqCst) {
        loop {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_stays() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::create(dir.path().join("staging")).unwrap();
        fs::write(staging.path().join("a"), "").unwrap();
        staging.commit(&dir.path().join("entry")).unwrap();
        assert!(!lock(&STAGING).iter().any(|path| path == staging.path()));
        drop(staging);
        assert!(dir.path().join("entry/a").exists());
        assert!(!dir.path().join("staging").exists());
    }
}
