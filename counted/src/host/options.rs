// SPDX-License-Identifier: GPL-2.0

//! The command line.

use clap::{Parser, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

use super::tarball;

/// Runs a command in a guest whose CPU has performance counters.
///
/// It needs neither root, nor KVM, nor counters of the host. The guest sees the files of the host, in the
/// same places. What the command writes is lost, but for what it writes below the directories of --rw.
#[derive(Debug, Parser)]
#[command(version, about, after_help = AFTER)]
pub struct Options {
    /// The CPU: skylake, sapphire-rapids, zen4 and others, or what QEMU's -cpu takes
    #[arg(long, value_name = "CPU", default_value = "skylake")]
    pub cpu: String,
    /// How many CPUs the guest has [default: 2, or 1 with --exact]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub smp: Option<u32>,
    /// The guest's memory, as QEMU's -m takes it
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub memory: String,
    /// The image of the guest's kernel [default: that of the tarball, or the newest in /boot]
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// A directory where the command may change the files of the host. May be given several times
    #[arg(long, value_name = "DIR")]
    pub rw: Vec<PathBuf>,
    /// The guest's clock counts instructions, so that two runs are alike
    #[arg(long)]
    pub exact: bool,
    /// Load rust_perf, which must be installed for the guest's kernel: beside the kernel's own driver of the
    /// counters, or with =primary in its place
    #[arg(
        long,
        value_name = "PLACE",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "beside"
    )]
    pub module: Option<Place>,
    /// Boot the guest, and neither use nor save one that has booted
    #[arg(long)]
    pub boot: bool,
    /// Run the command as root
    #[arg(long)]
    pub root: bool,
    /// After so many seconds the command is stopped, and the exit status is 124
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// QEMU [default: qemu-system-x86_64-pmu beside this program, or in PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub qemu: Option<PathBuf>,
    /// The command, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Options {
    /// The program of QEMU, which may have to be looked for in PATH.
    pub fn qemu(&self) -> PathBuf {
        let beside = || tarball::find(tarball::QEMU);
        let named = self.qemu.clone().or_else(beside);
        named.unwrap_or_else(|| "qemu-system-x86_64-pmu".into())
    }
}

/// Where rust_perf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// Beside the kernel's own driver.
    Beside,
    /// In the place of the kernel's own driver.
    Primary,
}

/// What the help ends with.
const AFTER: &str = "\
The exit status is that of the command; 124 if it took too long; 125 if the guest could not run it; 126 if it
is not a program; 127 if it does not exist; 128 and its number if a signal ended it.

Examples:
  counted -- perf stat ls
  counted --exact --cpu zen4 -- perf stat -e instructions:u ./benchmark
  counted --rw . -- perf record -o perf.data ./program";
