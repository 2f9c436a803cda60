// SPDX-License-Identifier: GPL-2.0
//! Programs of Debian's archive that use the PMU, unchanged.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{bail, ensure, Context, Result};
use tempfile::TempDir;

use super::expect;
use crate::ctx::{Ctx, Test};
use crate::pmu::{CpuPmu, Vendor};
use crate::program::{Running, LOOP};
use crate::setting::{Affinity, Setting};
use crate::tests;
use crate::tool::{output, without_kernel_symbols, Perf};
use crate::waiting::Waiting;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, ExactCounts];
    rr_replays_a_shell,
    rr_replays_threads,
    rr_replays_with_checksums,
    rr_replays_many,
    papi,
    libpfm4_names,
    stress_ng,
    bpftrace,
    perf_record_variants: [PerfTool],
    perf_annotate: [PerfTool],
    perf_top: [PerfTool],
    perf_sched: [PerfTool],
    perf_trace: [PerfTool],
];

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

/// rr records and replays a shell's loop, with the same output.
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

/// rr records and replays xz with two threads, whose output is right.
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

/// rr records and replays a short program 20 times.
fn rr_replays_many(_: &Ctx) -> Result<()> {
    for _ in 0..20 {
        Recordings::new()?.record_and_replay(&[], &["busybox", "date"])?;
    }
    Ok(())
}

/// PAPI is disabled if `perf_event_paranoid` is above 2, for root, too.
fn allow_papi() -> Result<Setting> {
    Setting::change("/proc/sys/kernel/perf_event_paranoid", "1")
}

/// What PAPI counts of its own loop, which has 20,000,000 rounds.
fn papi_counts(events: &[&str]) -> Result<Vec<u64>> {
    let counted = output(Command::new("papi_command_line").args(events))?;
    let count = |event: &&str| -> Result<u64> {
        // The names have colons, too.
        let lines = counted.lines().filter_map(|line| line.rsplit_once(':'));
        let of_event = lines.filter(|(name, _)| name.trim() == *event);
        let values = of_event.filter_map(|(_, value)| value.trim().parse().ok());
        let last = values.last();
        last.with_context(|| format!("no count of {event}:\n{counted}"))
    };
    events.iter().map(count).collect()
}

/// The rounds of PAPI's loop, and what prepares it, have so many conditional branches.
fn expect_rounds(conditional: u64) -> Result<()> {
    ensure!(
        (20_000_000..20_100_000).contains(&conditional),
        "{conditional} conditional branches"
    );
    Ok(())
}

/// PAPI's presets, which have raw events of this CPU.
fn papi(_: &Ctx) -> Result<()> {
    const PRESETS: [&str; 3] = ["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_BR_CN"];
    let _paranoid = allow_papi()?;
    let available = output(Command::new("papi_avail").arg("-a"))?;
    for preset in PRESETS {
        ensure!(available.contains(preset), "no {preset}:\n{available}");
    }
    let counts = papi_counts(&PRESETS)?;
    let [instructions, cycles, conditional] = counts[..] else {
        bail!("{counts:?}");
    };
    expect_rounds(conditional)?;
    ensure!(
        cycles > instructions && instructions > 2 * conditional,
        "{counts:?}"
    );
    Ok(())
}

/// libpfm4's names of the CPU's events, which PAPI takes as well.
fn libpfm4_names(_: &Ctx) -> Result<()> {
    let _paranoid = allow_papi()?;
    let names = match CpuPmu::probe().vendor {
        Vendor::Intel => ["INST_RETIRED:ANY_P", "BR_INST_RETIRED:CONDITIONAL"],
        _ => [
            "RETIRED_INSTRUCTIONS",
            "RETIRED_CONDITIONAL_BRANCH_INSTRUCTIONS",
        ],
    };
    let counts = papi_counts(&names)?;
    let [instructions, conditional] = counts[..] else {
        bail!("{counts:?}");
    };
    expect_rounds(conditional)?;
    ensure!(instructions > 2 * conditional, "{counts:?}");
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

/// Records [`LOOP`] with options of `perf record`, and returns what `perf script` prints of it.
fn recorded(options: &[&str], fields: &str) -> Result<String> {
    let program = LOOP.install()?;
    let data = program.dir().join("perf.data");
    let _hidden = without_kernel_symbols()?;
    let record = Perf::record().args(["-o"]).args([&data]);
    record.args(options).args([program.path()]).run()?;
    let script = Perf::new("script").args(["-i"]).args([&data]);
    script.args(["-F", fields]).text()
}

/// Ways to record that name no PMU. A raw event of instructions in user mode, 00C0H on all CPUs, has a
/// sample for each period.
fn perf_record_variants(_: &Ctx) -> Result<()> {
    for options in [
        &["-a", "-F", "500"][..],
        &["--call-graph", "dwarf", "-F", "500"],
    ] {
        let samples = recorded(options, "comm,ip")?;
        ensure!(samples.contains("loop"), "{options:?}:\n{samples}");
    }
    // perf opens an event on each CPU, and each has periods of its own.
    let _affinity = Affinity::pinned_to(0)?;
    let samples = recorded(&["-c", "100000", "-e", "r00c0:u"], "comm")?;
    let samples = samples.lines().filter(|line| line.contains("loop")).count();
    expect(
        "r00c0:u",
        "samples",
        samples as u64,
        LOOP.instructions / 100_000,
    )
}

/// `perf annotate` shows the two instructions of the loop.
fn perf_annotate(_: &Ctx) -> Result<()> {
    let program = LOOP.install()?;
    let data = program.dir().join("perf.data");
    let record = Perf::new("record").args(["-q", "-e", "cycles:u", "-o"]);
    record.args([&data]).args([program.path()]).run()?;
    let annotate = Perf::new("annotate").args(["--stdio", "-i"]).args([&data]);
    let text = annotate.text()?;
    ensure!(text.contains("dec ") && text.contains("jne "), "{text}");
    Ok(())
}

/// Whether a line that `perf top --sort comm` prints is the row of a program. perf pads the names
/// to the longest one, so that a row can end with blanks.
fn is_row_of(program: &str, line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|share| share.ends_with('%')) && words.eq([program])
}

/// A shell of this name that loops until it is dropped.
fn spinning(name: &str) -> Result<Running> {
    let script = format!("printf {name} >/proc/$$/comm; while :; do :; done");
    Ok(Running(
        Command::new("busybox")
            .args(["sh", "-c", &script])
            .spawn()?,
    ))
}

/// `perf top` shows a program that runs meanwhile, by its cycles, on one of its screens.
/// Another one with a longer name runs, too. Both start after the first screen, before which perf reads
/// the kernel's symbols.
fn perf_top(_: &Ctx) -> Result<()> {
    let mut top = Perf::new("top").args(["-F", "99", "--stdio", "--delay", "1", "--sort", "comm"]);
    // At the end of its standard input perf would ask for another key, again and again.
    let command = top.command().stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut top = Running(command.stderr(Stdio::null()).spawn().context("perf")?);
    let _waiting = Waiting::for_("perf top to show the program");
    let screen = top.0.stdout.take().context("no standard output")?;
    let mut printed = String::new();
    let mut programs = Vec::new();
    for line in BufReader::new(screen).lines() {
        let line = line?;
        if is_row_of("spin", &line) {
            // Without a PMU perf takes a clock.
            ensure!(printed.contains("cycles"), "{printed}");
            return Ok(());
        }
        if line.contains("PerfTop:") && programs.is_empty() {
            programs = vec![spinning("spin")?, spinning("spin-for-longer")?];
        }
        printed.push_str(&line);
        printed.push('\n');
    }
    bail!("perf top does not show the program:\n{printed}")
}

/// `perf sched` finds the program's own time slices in what it recorded. It names trace points,
/// which rust_trace has as well.
fn perf_sched(_: &Ctx) -> Result<()> {
    let program = LOOP.install()?;
    let data = program.dir().join("perf.data");
    let record = Perf::new("sched")
        .args(["record", "-q", "-o"])
        .args([&data]);
    record.args([program.path()]).run()?;
    let latency = Perf::new("sched").args(["latency", "-i"]).args([&data]);
    let text = latency.text()?;
    ensure!(text.contains("loop:"), "{text}");
    Ok(())
}

/// `perf trace` prints system calls, and samples of an event of cycles between them.
fn perf_trace(_: &Ctx) -> Result<()> {
    let program = LOOP.install()?;
    let trace = Perf::new("trace").args(["-e", "exit,cycles/period=1000000/u"]);
    let trace = trace.args([program.path()]).run()?;
    let text = String::from_utf8(trace.stderr)?;
    let samples = text.lines().filter(|line| line.contains("cycles/")).count();
    let exits = text.lines().filter(|line| line.contains("exit(")).count();
    ensure!(samples > 0 && exits == 1, "{text}");
    Ok(())
}

#[cfg(test)]
mod host_tests {
    use super::is_row_of;

    #[test]
    fn rows_may_be_padded() {
        assert!(is_row_of("spin", "    48.05%  spin"));
        assert!(is_row_of("spin", "    48.05%  spin        "));
        assert!(!is_row_of("spin", "    48.05%  spin-x"));
        assert!(!is_row_of(
            "spin",
            "   PerfTop:      99 irqs/sec  kernel: 2.0% spin"
        ));
    }
}
