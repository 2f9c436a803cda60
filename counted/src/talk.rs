// SPDX-License-Identifier: GPL-2.0

//! What host and guest say to each other, by virtio ports.
//!
//! At the port [`CONTROL`] each line is a message in JSON. First the guest says that it is ready. Then the
//! host sends a [`Job`]. The other ports are the standard streams of the command, or its terminal.
//!
//! With `--exact` the job does not come at a port, because when it came would depend on the host. The guest
//! stops itself when it is ready, and is saved. One that is restored finds the job in a file of the
//! firmware.
//!
//! Standard input comes in pieces: the length of each in 4 bytes, little-endian, then the bytes. One of
//! length 0 is its end. The port stays open, because QEMU drops what it has not passed on when a port is
//! closed.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The name of the port for messages.
pub const CONTROL: &str = "control";
/// The names of the ports for standard input, output and error.
pub const STREAMS: [&str; 3] = ["stdin", "stdout", "stderr"];
/// The name of the port for a terminal.
pub const TERMINAL: &str = "terminal";
/// The names of all ports.
pub const PORTS: [&str; 5] = [CONTROL, STREAMS[0], STREAMS[1], STREAMS[2], TERMINAL];

/// The file of QEMU's firmware configuration that has the [`Job`] with `--exact`, padded with zeros. A file
/// of the host would have a number, and its directory a name, that are others in each run, and make the
/// kernel's hash tables differ.
pub const JOB_FILE: &str = "opt/counted/job";
/// The length of that. The kernel remembers it when a guest is restored.
pub const JOB_LENGTH: usize = 256 << 10;

/// The mount tag of the host's files.
pub const HOST_FILES: &str = "host";

/// The mount tag of directory `index` that the guest may write.
pub fn writable_tag(index: usize) -> String {
    format!("rw{index}")
}

/// What the guest has to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The command and its arguments. They need not be UTF-8.
    pub command: Vec<Vec<u8>>,
    /// The whole environment.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// The current directory.
    pub directory: PathBuf,
    /// The user, the group, and the further groups.
    pub user: u32,
    /// The group.
    pub group: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// The mask of the modes of new files.
    pub umask: u32,
    /// The directories that the guest may write, in the order of their mount tags.
    pub writable: Vec<PathBuf>,
    /// The size of the terminal, if the command gets one.
    pub terminal: Option<Size>,
    /// The parameters of rust_perf, if it is to be loaded.
    pub module: Option<Vec<String>>,
    /// The file that is standard input, if that comes by no port.
    pub input: Option<PathBuf>,
    /// Whether the command is to begin at a time that no host has influence on.
    pub exact: bool,
    /// The time since 1970. The clock of a guest that is restored says when it was saved.
    pub time: Duration,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// What the host says after the [`Job`].
#[derive(Debug, Serialize, Deserialize)]
pub enum ToGuest {
    /// The terminal has another size.
    Resized(Size),
    /// The command gets a signal.
    Signal(i32),
    /// Nobody reads this output of the command any more: 0 is standard output, 1 is standard error.
    Unread(usize),
}

/// What the guest says.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToHost {
    /// It waits for a [`Job`].
    Ready,
    /// It has the [`Job`], and reads the input.
    HasJob,
    /// The command has ended, and has written so many bytes to the ports of its output.
    Ended {
        /// How it ended.
        status: Status,
        /// What it wrote to standard output, or to the terminal.
        output: u64,
        /// What it wrote to standard error.
        error: u64,
        /// Why it could not be started.
        why: Option<String>,
    },
    /// The guest could not run the command.
    Failed(String),
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// By itself, with this exit status.
    Exited(i32),
    /// By a signal.
    Killed(i32),
    /// There is no such program.
    NotFound,
    /// The file cannot be executed.
    NotExecutable,
}

impl Status {
    /// The exit status that a shell would have.
    pub fn code(self) -> u8 {
        match self {
            Status::Exited(code) => code as u8,
            Status::Killed(signal) => 128_i32.saturating_add(signal) as u8,
            Status::NotExecutable => 126,
            Status::NotFound => 127,
        }
    }
}
