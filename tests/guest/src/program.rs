// SPDX-License-Identifier: GPL-2.0
//! The static programs of `programs/`: every user instruction from the first to
//! the exit system call is known.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{bail, ensure, Context, Result};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use tempfile::TempDir;

macro_rules! program {
    ($name:literal, $instructions:expr) => {
        Program {
            name: $name,
            elf: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            instructions: $instructions,
        }
    };
}

/// One tight loop.
pub const LOOP: Program = program!("loop", 2 * 10_000_000 + 4);
/// Page faults, REP strings, system calls, calls.
pub const MIXED: Program = program!("mixed", 2 + 4 * 256 + 4 + 1 + 6 * 1000 + 3);
/// Three quarters of its instructions in `three`, one in `one`.
pub const THREE_TO_ONE: Program = program!("three_to_one", 10_000 * (4 + 6006 + 2002) + 4);
/// Forks, and waits for its children: their sum.
pub const FAMILY: Program = program!("family", FAMILY_PARENT + 5 * FAMILY_CHILD);
/// Those of the parent.
pub const FAMILY_PARENT: u64 = 1 + 5 * 6 + 1 + 5 * 8 + 1 + 3;
/// Those of each of its five children.
pub const FAMILY_CHILD: u64 = 4_000_006;
/// Stops itself; the count is from there on.
pub const STOPPED_LOOP: Program = program!("stopped_loop", 2 * 5_000_000 + 4);

/// Stops itself; from there on, one loop, and after an exec of itself another.
pub const AGAIN: Program = program!("again", AGAIN_ONCE + 2 + 2 * 1_000_000 + 4);
/// What of that is before the exec.
pub const AGAIN_ONCE: u64 = 2 * 1_000_000 + 9;

/// Reads general counters: exits with 0 if that faults, with 1 if it finds
/// something, with 2 if not. What it retires is of no interest.
pub const PEEK: Program = program!("peek", 0);

/// A program of ours.
pub struct Program {
    name: &'static str,
    elf: &'static [u8],
    /// User instructions it retires.
    pub instructions: u64,
}

impl Program {
    /// Writes it to where it can be run from, as long as the result lives.
    pub fn install(&self) -> Result<Installed> {
        let dir = TempDir::new()?;
        let path = dir.path().join(self.name);
        fs::write(&path, self.elf)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Installed { path, dir })
    }
}

/// A program as a file.
pub struct Installed {
    path: PathBuf,
    dir: TempDir,
}

impl Installed {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its directory, for other files that belong to it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A process that is about to run it, stopped until [`Stopped::finish`].
    pub fn stopped(&self) -> Result<Stopped> {
        let mut command = Command::new("sh");
        command
            .args(["-c", "kill -STOP $$; exec \"$0\""])
            .arg(&self.path);
        Stopped::spawn(command)
    }

    /// Starts one that stops itself.
    pub fn spawn_self_stopping(&self) -> Result<Stopped> {
        Stopped::spawn(Command::new(&self.path))
    }
}

/// A stopped child.
pub struct Stopped(Child);

impl Stopped {
    fn spawn(mut command: Command) -> Result<Self> {
        let child = command.spawn().context("spawn")?;
        let stopped = Self(child);
        match waitpid(stopped.pid(), Some(WaitPidFlag::WUNTRACED))? {
            WaitStatus::Stopped(..) => Ok(stopped),
            status => bail!("did not stop: {status:?}"),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    /// Lets it run on.
    pub fn proceed(&self) -> Result<()> {
        kill(self.pid(), Signal::SIGCONT).context("SIGCONT")
    }

    /// Lets it run to its end.
    pub fn finish(mut self) -> Result<()> {
        self.proceed()?;
        let status = self.0.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Gone already when all went well: nothing to do about an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
