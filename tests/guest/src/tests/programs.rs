// SPDX-License-Identifier: GPL-2.0
//! Programs of Debian's archive that use the PMU, unchanged.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use anyhow::{ensure, Context, Result};
use tempfile::TempDir;

use crate::ctx::{Ctx, Test};
use crate::program::LOOP;
use crate::setting::Setting;
use crate::tests;
use crate::tool::check;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, ExactCounts];
    rr_replays_a_shell,
    rr_replays_threads,
    rr_replays_with_checksums,
    rr_replays_many,
    papi,
    stress_ng,
    bpftrace,
];

/// Runs a command, which must succeed, and returns its standard output.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    Ok(String::from_utf8(check(command, output)?.stdout)?)
}

/// Recordings of rr.
struct Recordings(TempDir);

impl Recordings {
    fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    fn rr(&self, arguments: &[&str]) -> Command {
        let mut rr = Command::new("rr");
        rr.env("_RR_TRACE_DIR", self.0.path()).args(arguments);
        rr
    }

    /// Records a command with these options of rr, and replays it: the replay must print the same.
    /// rr fails if it diverges. It finds the place of each event by the number of conditional
    /// branches.
    fn record_and_replay(&self, options: &[&str], command: &[&str]) -> Result<String> {
        let recorded = output(self.rr(options).arg("record").args(command))?;
        let replayed = output(&mut self.rr(&["replay", "-a"]))?;
        ensure!(
            replayed == recorded,
            "{command:?} printed {recorded:?}, and in the replay {replayed:?}"
        );
        Ok(recorded)
    }
}

fn rr_replays_a_shell(_: &Ctx) -> Result<()> {
    let count = "i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done; echo $i";
    let printed = Recordings::new()?.record_and_replay(&[], &["busybox", "sh", "-c", count])?;
    ensure!(printed == "2000\n", "{printed:?}");
    Ok(())
}

/// A file to compress, whose contents are always the same.
fn numbers(dir: &TempDir) -> Result<String> {
    let path = dir.path().join("numbers");
    let text: Vec<_> = (0..50_000).map(|i: u32| i.to_string()).collect();
    fs::write(&path, text.join("\n"))?;
    Ok(path.display().to_string())
}

fn rr_replays_threads(_: &Ctx) -> Result<()> {
    let dir = TempDir::new()?;
    let file = numbers(&dir)?;
    let xz = ["xz", "-1", "-k", "-T2", "--block-size=65536", &file];
    Recordings::new()?.record_and_replay(&[], &xz)?;
    let compressed = format!("{file}.xz");
    let restored = output(Command::new("xz").args(["-d", "-c", &compressed]))?;
    ensure!(restored == fs::read_to_string(&file)?, "xz lost something");
    Ok(())
}

/// rr compares all memory at each event.
fn rr_replays_with_checksums(_: &Ctx) -> Result<()> {
    let dir = TempDir::new()?;
    let file = numbers(&dir)?;
    let options = ["--checksum=on-all-events"];
    Recordings::new()?.record_and_replay(&options, &["busybox", "md5sum", &file])?;
    Ok(())
}

fn rr_replays_many(_: &Ctx) -> Result<()> {
    for _ in 0..20 {
        Recordings::new()?.record_and_replay(&[], &["busybox", "date"])?;
    }
    Ok(())
}

/// PAPI's presets, which have raw events of this CPU. PAPI is disabled if `perf_event_paranoid`
/// is above 2, for root, too.
fn papi(_: &Ctx) -> Result<()> {
    const PRESETS: [&str; 3] = ["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_BR_CN"];
    let _paranoid = Setting::change("/proc/sys/kernel/perf_event_paranoid", "1")?;
    let available = output(Command::new("papi_avail").arg("-a"))?;
    let counted = output(Command::new("papi_command_line").args(PRESETS))?;
    let count = |preset| -> Result<u64> {
        ensure!(available.contains(preset), "no {preset}:\n{available}");
        let lines = counted.lines().filter_map(|line| line.split_once(':'));
        let of_preset = lines.filter(|(name, _)| name.trim() == preset);
        let values = of_preset.filter_map(|(_, value)| value.trim().parse().ok());
        let last = values.last();
        last.with_context(|| format!("no count of {preset}:\n{counted}"))
    };
    let [instructions, cycles, conditional] = PRESETS.map(count);
    let (instructions, cycles, conditional) = (instructions?, cycles?, conditional?);
    // The program that PAPI measures is a loop of 20,000,000 rounds, and what prepares it.
    ensure!(
        (20_000_000..20_100_000).contains(&conditional),
        "{conditional} conditional branches:\n{counted}"
    );
    ensure!(
        cycles > instructions && instructions > 2 * conditional,
        "{counted}"
    );
    Ok(())
}

/// stress-ng counts with its own list of generic events.
fn stress_ng(_: &Ctx) -> Result<()> {
    let mut stress_ng = Command::new("stress-ng");
    stress_ng.args(["--perf", "--cpu", "1", "--cpu-ops", "10", "--stdout"]);
    let printed = output(&mut stress_ng)?;
    for event in ["CPU Cycles", "Instructions", "Branch Instructions"] {
        let row = printed.lines().find_map(|line| line.split_once(event));
        let (before, _) = row.with_context(|| format!("no {event}:\n{printed}"))?;
        let count = before.split_whitespace().last().unwrap_or_default();
        let count: u64 = count
            .parse()
            .with_context(|| format!("{event}:\n{printed}"))?;
        ensure!(count > 0, "{event}:\n{printed}");
    }
    Ok(())
}

/// A BPF program that runs at every millionth instruction of [`LOOP`].
fn bpftrace(_: &Ctx) -> Result<()> {
    let program = LOOP.install()?;
    let name = program.path().file_name().and_then(OsStr::to_str);
    let name = name.context("no name")?;
    let script = format!(
        "hardware:instructions:1000000 /comm == \"{name}\"/ {{ @ = count(); }} \
         END {{ printf(\"%d\\n\", (int64)@); clear(@); }}"
    );
    let mut bpftrace = Command::new("bpftrace");
    let path = program.path().display().to_string();
    bpftrace.args(["-q", "-c", &path, "-e", &script]);
    let printed = output(&mut bpftrace)?;
    let count = printed
        .lines()
        .find_map(|line| line.trim().parse::<u64>().ok());
    let count = count.with_context(|| format!("no count: {printed:?}"))?;
    // The kernel's instructions for the program count as well, and those of other tasks may
    // complete a million that the program has begun.
    let in_program = LOOP.instructions / 1_000_000;
    ensure!(
        count >= in_program / 2,
        "{count} samples, expected about {in_program} or more"
    );
    Ok(())
}
