// SPDX-License-Identifier: GPL-2.0
//! The static programs of `programs/`. They have no C library, so that the number of
//! user instructions from the first to the exit system call is known.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{bail, ensure, Context, Result};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::waiting;

macro_rules! program {
    ($name:literal, $instructions:expr) => {
        Program {
            name: $name,
            elf: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            instructions: $instructions,
        }
    };
}

/// A tight loop.
pub const LOOP: Program = program!("loop", 2 * 10_000_000 + 4);

/// Page faults, a REP string instruction, system calls, calls and returns.
pub const MIXED: Program = program!("mixed", 2 + 4 * 256 + 4 + 1 + 6 * 1000 + 3);

/// Executes three quarters of its instructions in function `three`, one in `one`.
pub const THREE_TO_ONE: Program = program!("three_to_one", 10_000 * (4 + 6006 + 2002) + 4);

/// Forks five children, and waits for them. The number is that of all six processes.
pub const FORK_WAIT: Program = program!("fork_wait", FORK_WAIT_PARENT + 5 * FORK_WAIT_CHILD);
/// The instructions of the parent of [`FORK_WAIT`].
pub const FORK_WAIT_PARENT: u64 = 1 + 5 * 6 + 1 + 5 * 8 + 1 + 3;
/// The instructions of each child of [`FORK_WAIT`].
pub const FORK_WAIT_CHILD: u64 = 4_000_006;

/// Stops itself with SIGSTOP. The number is that of the loop that follows SIGCONT.
pub const STOPPED_LOOP: Program = program!("stopped_loop", 2 * 5_000_000 + 4);

/// Stops itself with SIGSTOP. After SIGCONT it runs a loop, executes itself, and runs
/// another loop. The number begins at SIGCONT.
pub const EXEC_SELF: Program = program!("exec_self", EXEC_SELF_BEFORE + 2 + 2 * 1_000_000 + 4);
/// The instructions of [`EXEC_SELF`] from SIGCONT to the exec.
pub const EXEC_SELF_BEFORE: u64 = 2 * 1_000_000 + 9;

/// Reads general counters with RDPMC. Exits with 0 if that faults, with 1 if a counter is
/// not 0, with 2 if all are 0. Its number of instructions is not used.
pub const RDPMC_PROBE: Program = program!("rdpmc_probe", 0);

/// Calls a function [`PROBED_CALLS`] times, with or without a child that makes some of
/// the calls. Its number of instructions is not used.
pub const PROBED: Program = program!("probed", 0);
/// The calls of the function of [`PROBED`].
pub const PROBED_CALLS: u64 = 1_000;
/// The calls if the program forks: of the parent, and of the child.
pub const PROBED_FORKING: (u64, u64) = (1_000, 500);

/// Branches, loads and stores of all kinds. Its numbers of instructions and of branches are whole
/// periods of the PMU model, so that each event grows by the same count wherever the program starts.
pub const PATTERN: Program = program!("pattern", 4096 + 32 * PATTERN_ROUNDS);
/// The rounds of the loop of [`PATTERN`].
pub const PATTERN_ROUNDS: u64 = 131_072;

/// Code in another order than it mostly runs in. BOLT may move it.
pub const DETOURS: Program = program!("detours", 2 + 320 * 5 + 280 * 3 + 40 * 2 + 5);

/// A loop in four calls, for the tests of call stacks: `_start` calls `first`, and so on.
pub const NESTED: Program = program!("nested", 2 * NESTED_ROUNDS + 12);
/// The rounds of the loop of [`NESTED`].
pub const NESTED_ROUNDS: u64 = 2_000_000;
/// The calls of [`NESTED`], the last one first: where they are in the code and where they lead.
pub const NESTED_CALLS: [(u64, u64); 4] = [(0x1a, 0x20), (0x14, 0x1a), (0xe, 0x14), (0, 0xe)];
/// Where the two instructions of the loop of [`NESTED`] are in its code.
pub const NESTED_LOOP: [u64; 2] = [0x25, 0x27];

/// A static program.
pub struct Program {
    name: &'static str,
    elf: &'static [u8],
    /// The user instructions that it retires.
    pub instructions: u64,
}

impl Program {
    /// Writes it to a file, which exists as long as the result.
    pub fn install(&self) -> Result<Installed> {
        let dir = TempDir::new()?;
        let path = dir.path().join(self.name);
        fs::write(&path, self.elf)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Installed { path, dir })
    }
}

/// A program in a temporary directory.
pub struct Installed {
    path: PathBuf,
    dir: TempDir,
}

impl Installed {
    /// The program's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, for other temporary files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The address of its code, which begins at the entry in the ELF header.
    pub fn entry(&self) -> Result<u64> {
        let elf = fs::read(&self.path)?;
        let entry = elf.get(24..32).context("no ELF header")?;
        Ok(u64::from_le_bytes(entry.try_into()?))
    }

    /// Starts a process that executes the program once it is continued.
    pub fn stopped(&self) -> Result<Stopped> {
        let mut command = Command::new("sh");
        command
            .args(["-c", "kill -STOP $$; exec \"$0\""])
            .arg(&self.path);
        Stopped::spawn(command)
    }

    /// As [`Self::stopped`], with an argument.
    pub fn stopped_with(&self, argument: &str) -> Result<Stopped> {
        let mut command = Command::new("sh");
        command
            .args(["-c", "kill -STOP $$; exec \"$0\" \"$1\""])
            .arg(&self.path)
            .arg(argument);
        Stopped::spawn(command)
    }

    /// Where the bytes are that follow `marker` in the program's file.
    pub fn offset_behind(&self, marker: &[u8]) -> Result<u64> {
        let elf = fs::read(&self.path)?;
        let mut windows = elf.windows(marker.len());
        let start = windows.position(|bytes| bytes == marker);
        Ok((start.context("no marker")? + marker.len()) as u64)
    }

    /// Starts the program, which must stop itself.
    pub fn spawn_self_stopping(&self) -> Result<Stopped> {
        Stopped::spawn(Command::new(&self.path))
    }
}

/// A child process. It is killed on drop.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if the child has been waited for.
        let _ = self.0.kill();
        let _ = waiting::child(&mut self.0, "the end of a child that was killed");
    }
}

/// A child process that has stopped. It is killed on drop.
pub struct Stopped(Running);

impl Stopped {
    fn spawn(mut command: Command) -> Result<Self> {
        let child = command.spawn().context("spawn")?;
        let stopped = Self(Running(child));
        let status = waiting::process(
            stopped.pid(),
            Some(WaitPidFlag::WUNTRACED),
            "the program to stop itself",
        )?;
        match status {
            WaitStatus::Stopped(..) => Ok(stopped),
            status => bail!("the program did not stop: {status:?}"),
        }
    }

    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.0 .0.id() as i32)
    }

    /// Continues it.
    pub fn proceed(&self) -> Result<()> {
        kill(self.pid(), Signal::SIGCONT).context("SIGCONT")
    }

    /// Continues it and waits for its end, which must be a success.
    pub fn finish(mut self) -> Result<()> {
        self.proceed()?;
        let status = waiting::child(&mut self.0 .0, "the end of the program")?;
        ensure!(status.success(), "the program ended with {status}");
        Ok(())
    }
}
