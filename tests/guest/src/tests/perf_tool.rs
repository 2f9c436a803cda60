// SPDX-License-Identifier: GPL-2.0
//! The perf tool: list, stat, record, report, script.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::{ensure, Context, Result};
use nix::sys::stat::Mode as FileMode;
use nix::unistd::mkfifo;

use super::{cpus, expect, repeat};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, APART};
use crate::program::{Installed, Program, LOOP, MIXED, STOPPED_LOOP, THREE_TO_ONE};
use crate::setting::Affinity;
use crate::tests;
use crate::tool::{check, parse_rows, without_kernel_symbols, Perf, Row};
use crate::waiting::{self, Waiting};

pub const TESTS: &[Test] = tests![
    all need [PerfTool, Counters];
    list: [Module],
    stat: [ExactCounts],
    stat_as_in_tree: [InTreeCounts, ExactCounts],
    stat_short_names: [EmulatedPmu],
    stat_group_with_software_events: [ExactCounts],
    stat_repeated: [ExactCounts],
    stat_system_wide,
    stat_one_cpu,
    stat_per_core,
    stat_per_cpu,
    stat_process: [ExactCounts],
    stat_intervals: [ExactCounts],
    stat_multiplexed,
    record_every_period: [ExactCounts, ZeroSkid],
    record_system_wide,
    report_three_to_one: [ExactCounts, ZeroSkid],
    report_by_frequency,
    script_shows_addresses: [ExactCounts, ZeroSkid],
    call_graph,
];

fn user_instructions(ctx: &Ctx) -> Result<String> {
    Ok(ctx.pmu()?.tool_event(Event::Instructions, "u"))
}

/// `perf list` shows each event of the PMU.
fn list(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let text = Perf::new("list").args(["--no-desc", "pmu", "hw"]).text()?;
    let rows: Vec<&str> = text.lines().collect();
    for event in pmu.events() {
        // perf lists the events of `cpu` by their generic names only.
        let row = match ctx.is_primary() {
            true => event.name().to_owned(),
            false => format!("{}/{APART}{}/", pmu.name, event.name()),
        };
        ensure!(
            rows.iter().any(|it| it.contains(&row)),
            "no {row} in\n{}",
            rows.join("\n")
        );
    }
    Ok(())
}

/// The row of an event.
fn row<'a>(rows: &'a [Row], event: &str) -> Result<&'a Row> {
    rows.iter()
        .find(|row| row.event == event)
        .with_context(|| format!("no {event} in {rows:?}"))
}

fn expect_row(rows: &[Row], event: &str, want: u64) -> Result<()> {
    let row = row(rows, event)?;
    expect(event, "counted", row.value as u64, want)?;
    ensure!(
        row.running == 100.0,
        "{event} counted only {} % of the time",
        row.running
    );
    Ok(())
}

/// `perf stat` counts the instructions of whole programs exactly.
fn stat(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    for program in [LOOP, MIXED] {
        let installed = program.install()?;
        let rows = Perf::stat()
            .args(["-e", &event])
            .args([installed.path()])
            .rows()?;
        expect_row(&rows, &event, program.instructions)?;
    }
    Ok(())
}

/// Both PMUs count the same, one after the other, because only one driver can hold
/// the counters.
fn stat_as_in_tree(ctx: &Ctx) -> Result<()> {
    for program in [LOOP, MIXED] {
        let installed = program.install()?;
        let mut counts = Vec::new();
        for pmu in [ctx.pmu()?, ctx.in_tree()?] {
            let event = pmu.tool_event(Event::Instructions, "u");
            let rows = Perf::stat()
                .args(["-e", &event])
                .args([installed.path()])
                .rows()?;
            counts.push(row(&rows, &event)?.value as u64);
        }
        expect(
            "against the in-tree PMU",
            "instructions",
            counts[0],
            counts[1],
        )?;
    }
    Ok(())
}

/// `cycles`, `instructions` and `branches` are names of events.
fn stat_short_names(ctx: &Ctx) -> Result<()> {
    let installed = LOOP.install()?;
    let events = ["cycles", "instructions", "branches"].map(|e| format!("{}/{e}/u", ctx.pmu));
    let rows = Perf::stat()
        .args(["-e", &events.join(",")])
        .args([installed.path()])
        .rows()?;
    expect_row(&rows, &events[1], LOOP.instructions)?;
    let branches = row(&rows, &events[2])?.value as u64;
    ensure!(
        (10_000_000..=10_000_001).contains(&branches),
        "{branches} branches in 10,000,000 rounds"
    );
    let cycles = row(&rows, &events[0])?.value as u64;
    ensure!(
        cycles > LOOP.instructions,
        "{cycles} cycles, expected more than instructions"
    );
    Ok(())
}

/// In a group with task-clock and page-faults, `perf stat` counts instructions exactly.
fn stat_group_with_software_events(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = MIXED.install()?;
    let group = format!("{{{event},task-clock,page-faults}}");
    let rows = Perf::stat()
        .args(["-e", &group])
        .args([installed.path()])
        .rows()?;
    expect_row(&rows, &event, MIXED.instructions)?;
    let faults = row(&rows, "page-faults")?.value;
    // The program touches 512 pages. Loading it takes page faults, too.
    ensure!((512.0..600.0).contains(&faults), "{faults} page faults");
    row(&rows, "task-clock").map(drop)
}

/// `perf stat -r 3` has an exact mean, and no deviation.
fn stat_repeated(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = LOOP.install()?;
    let rows = Perf::stat()
        .args(["-r", "3", "-e", &event])
        .args([installed.path()])
        .rows()?;
    expect_row(&rows, &event, LOOP.instructions)?;
    ensure!(
        row(&rows, &event)?.deviation == Some(0.0),
        "the counts of the runs differ: {rows:?}"
    );
    Ok(())
}

/// The rows of `perf stat -a` with these options while a program runs.
fn system_wide(ctx: &Ctx, options: &[&str], program: &Program) -> Result<Vec<Row>> {
    let event = user_instructions(ctx)?;
    let installed = program.install()?;
    let rows = Perf::stat()
        .args(["-a", "-e", &event])
        .args(options)
        .args([installed.path()])
        .rows()?;
    let sum: f64 = rows.iter().map(|row| row.value).sum();
    let least = program.instructions as f64;
    // The excess is perf itself and other tasks.
    ensure!(
        (least..least + 50e6).contains(&sum),
        "{sum} instructions, {least} of them in the program"
    );
    Ok(rows)
}

/// `perf stat -a` counts at least the program, in one row.
fn stat_system_wide(ctx: &Ctx) -> Result<()> {
    let rows = system_wide(ctx, &[], &LOOP)?;
    expect("rows", "rows", rows.len() as u64, 1)
}

/// `perf stat --per-core` has a row for each core.
fn stat_per_core(ctx: &Ctx) -> Result<()> {
    let rows = system_wide(ctx, &["--per-core"], &LOOP)?;
    ensure!(
        rows.iter().all(|row| row.place.starts_with('S')),
        "a row without a core: {rows:?}"
    );
    Ok(())
}

/// `perf stat -A` has a row for each CPU.
fn stat_per_cpu(ctx: &Ctx) -> Result<()> {
    let rows = system_wide(ctx, &["-A"], &LOOP)?;
    expect("-A", "rows", rows.len() as u64, cpus()? as u64)?;
    for (row, cpu) in rows.iter().zip(0..) {
        ensure!(
            row.place == format!("CPU{cpu}"),
            "no row of CPU{cpu}: {rows:?}"
        );
    }
    Ok(())
}

/// `perf stat -C` counts a program on its CPU, and not one on another CPU.
fn stat_one_cpu(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = LOOP.install()?;
    for cpu in 0..cpus()? {
        let cpu = cpu.to_string();
        for (program_cpu, here) in [(&cpu, true), (&other(&cpu)?, false)] {
            if cpu == *program_cpu && !here {
                continue; // There is only one CPU.
            }
            let rows = Perf::stat()
                .args(["-C", &cpu, "-e", &event, "taskset", "-c", program_cpu])
                .args([installed.path()])
                .rows()?;
            let counted = row(&rows, &event)?.value >= LOOP.instructions as f64;
            ensure!(
                counted == here,
                "-C {cpu}, program on {program_cpu}: {rows:?}"
            );
        }
    }
    Ok(())
}

fn other(cpu: &str) -> Result<String> {
    let cpu: usize = cpu.parse()?;
    Ok(((cpu + 1) % cpus()?).to_string())
}

/// `perf stat -p` of a process that is stopped at a known instruction, so that the
/// count is known.
fn stat_process(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = STOPPED_LOOP.install()?;
    let child = installed.spawn_self_stopping()?;
    let (control, ack) = (installed.dir().join("control"), installed.dir().join("ack"));
    let rw = FileMode::S_IRUSR | FileMode::S_IWUSR;
    mkfifo(&control, rw)?;
    mkfifo(&ack, rw)?;
    let fifos = format!("fifo:{},{}", control.display(), ack.display());
    let mut perf = Perf::stat().args([
        "-e",
        &event,
        "-D",
        "-1",
        "--control",
        &fifos,
        "-p",
        &child.pid().to_string(),
    ]);
    let running = perf
        .command()
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("perf")?;
    let _waiting = Waiting::for_("perf stat to answer through its FIFO");
    // perf opens both for reading and writing, so these opens do not block for long.
    File::options()
        .write(true)
        .open(&control)?
        .write_all(b"enable\n")?;
    let mut answer = String::new();
    BufReader::new(File::open(&ack)?).read_line(&mut answer)?;
    ensure!(answer.starts_with("ack"), "perf answered «{answer}»");
    child.finish()?;
    let output = waiting::rest_of(running, "the end of perf stat")?;
    let rows = parse_rows(&check(perf.command(), output)?)?;
    expect_row(&rows, &event, STOPPED_LOOP.instructions)
}

/// The intervals add up to the summary. perf loses the last interval if the program ends
/// while it prints a row, so that this may be less than the program's count.
fn stat_intervals(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = THREE_TO_ONE.install()?;
    repeat("two intervals", || {
        let mut rows = Perf::stat()
            .args(["-I", "20", "--summary", "-e", &event])
            .args([installed.path()])
            .counted_rows()?;
        let summary = rows.pop().context("no rows")?;
        ensure!(summary.place.trim() == "summary", "{summary:?}");
        let sum = rows.iter().map(|row| row.value).sum::<f64>() as u64;
        expect("-I", "instructions", sum, summary.value as u64)?;
        let whole = THREE_TO_ONE.instructions;
        ensure!(sum <= whole, "{sum} instructions of {whole}: {rows:?}");
        Ok(rows.len() >= 2)
    })?;
    Ok(())
}

/// Of 20 events all have a row of `perf stat`, and some were counted in turns.
fn stat_multiplexed(ctx: &Ctx) -> Result<()> {
    // Many times longer than 20 events take turns, on a kernel that checks itself as well.
    const BUSY: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let event = ctx.pmu()?.tool_event(Event::Branches, "u");
    let events = vec![event.as_str(); 20].join(",");
    let rows = Perf::stat()
        .args(["-e", &events, "sh", "-c", BUSY])
        .rows()?;
    expect("-e", "rows", rows.len() as u64, 20)?;
    ensure!(
        rows.iter().any(|row| row.running < 99.0),
        "no event was multiplexed: {rows:?}"
    );
    Ok(())
}

/// Records a program, without the symbols of the kernel. Returns the path of `perf.data`, which is in the
/// program's directory.
fn record(installed: &Installed, event: &str, options: &[&str]) -> Result<String> {
    let _hidden = without_kernel_symbols()?;
    record_with_kernel_symbols(installed, event, options)
}

fn record_with_kernel_symbols(
    installed: &Installed,
    event: &str,
    options: &[&str],
) -> Result<String> {
    let data = installed.dir().join("perf.data").display().to_string();
    Perf::record()
        .args(["-o", &data, "-e", event])
        .args(options)
        .args([installed.path()])
        .run()?;
    Ok(data)
}

/// The number of records of each type, from `perf report --stats`.
fn stats(data: &str) -> Result<HashMap<String, u64>> {
    let text = Perf::new("report").args(["-i", data, "--stats"]).text()?;
    Ok(text
        .lines()
        .filter_map(|line| line.trim().split_once(" events:"))
        .filter_map(|(kind, rest)| {
            Some((
                kind.trim().to_string(),
                rest.split_whitespace().next()?.parse().ok()?,
            ))
        })
        .collect())
}

fn expect_samples(data: &str, samples: Option<u64>) -> Result<()> {
    let stats = stats(data)?;
    let count = |kind| stats.get(kind).copied().unwrap_or(0);
    for kind in ["LOST", "LOST_SAMPLES", "THROTTLE"] {
        expect(data, kind, count(kind), 0)?;
    }
    match samples {
        Some(samples) => expect(data, "samples", count("SAMPLE"), samples),
        None => {
            ensure!(count("SAMPLE") > 0, "no samples: {stats:?}");
            Ok(())
        }
    }
}

/// `perf record -c` has exactly a sample for each period of a program.
fn record_every_period(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    // perf opens an event for each CPU, and each has periods of its own.
    let _affinity = Affinity::pinned_to(0)?;
    for period in [20_011, 100_000] {
        let installed = LOOP.install()?;
        let data = record(&installed, &event, &["-c", &period.to_string()])?;
        expect_samples(&data, Some(LOOP.instructions / period))?;
    }
    Ok(())
}

/// `perf record -a` has the program's samples, but for two at most.
fn record_system_wide(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    let event = user_instructions(ctx)?;
    let installed = LOOP.install()?;
    // perf on one CPU, and the program on another: each time that perf runs in between, the program can
    // have a sample more or less.
    let _affinity = Affinity::pinned_to(0)?;
    let (period, last) = (PERIOD.to_string(), (cpus()? - 1).to_string());
    let options = ["-a", "-c", &period, "--", "taskset", "-c", &last];
    let data = record(&installed, &event, &options)?;
    expect_samples(&data, None)?;
    let text = Perf::new("script")
        .args(["-i", &data, "--comms", "loop", "-F", "comm,ip"])
        .text()?;
    let samples = text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
    // A CPU-wide event's periods span all tasks, so the last one may be another's.
    let want = LOOP.instructions / PERIOD;
    ensure!(
        samples.abs_diff(want) <= 2,
        "{samples} samples of the program, expected about {want}"
    );
    Ok(())
}

/// The overhead of each symbol in percent, from `perf report`.
fn overheads(data: &str) -> Result<HashMap<String, f64>> {
    let text = Perf::new("report")
        .args(["-i", data, "--stdio", "-q", "-F", "overhead,sym", "-t", ","])
        .text()?;
    text.lines()
        .filter_map(|line| line.trim().split_once(','))
        .map(|(percent, symbol)| {
            let percent = percent.trim().trim_end_matches('%').parse()?;
            let symbol = symbol
                .trim()
                .trim_start_matches("[.]")
                .trim_start_matches("[k]");
            Ok((symbol.trim().to_string(), percent))
        })
        .collect::<Result<_>>()
        .with_context(|| format!("perf report printed\n{text}"))
}

fn expect_three_to_one(data: &str) -> Result<()> {
    let overheads = overheads(data)?;
    for (symbol, want) in [("three", 75.0), ("one", 25.0)] {
        let got = overheads.get(symbol).copied().unwrap_or(0.0);
        ensure!(
            (got - want).abs() <= 2.0,
            "{symbol} has {got} %, expected {want} %: {overheads:?}"
        );
    }
    Ok(())
}

/// `perf report` shows two functions with three quarters and one quarter of the samples.
fn report_three_to_one(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    // As in `record_every_period`.
    let _affinity = Affinity::pinned_to(0)?;
    let installed = THREE_TO_ONE.install()?;
    let data = record(&installed, &event, &["-c", "20011"])?;
    expect_samples(&data, Some(THREE_TO_ONE.instructions / 20_011))?;
    expect_three_to_one(&data)
}

/// Sampling by frequency, perf's default, in user mode and the kernel.
fn report_by_frequency(ctx: &Ctx) -> Result<()> {
    let event = ctx.pmu()?.tool_event(Event::CpuCycles, "");
    let installed = THREE_TO_ONE.install()?;
    let data = record(&installed, &event, &["-F", "5000"])?;
    expect_samples(&data, None)?;
    let overheads = overheads(&data)?;
    let (three, one) = (overheads.get("three"), overheads.get("one"));
    let (three, one) = (
        three.context("no samples in `three`")?,
        one.context("no samples in `one`")?,
    );
    let share = 100.0 * three / (three + one);
    // There are fewer samples than by period, and they may beat with the program's
    // rounds, so the tolerance is wider.
    ensure!(
        (share - 75.0).abs() <= 8.0,
        "`three` has {share} % of both, expected 75 %: {overheads:?}"
    );
    Ok(())
}

/// `perf script` shows each sample with its period and an address in the program.
fn script_shows_addresses(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = LOOP.install()?;
    let data = record(&installed, &event, &["-c", "100003"])?;
    let text = Perf::new("script")
        .args(["-i", &data, "-F", "ip,sym,period"])
        .text()?;
    let start = installed.entry()?;
    // The code is shorter than 64 bytes.
    let end = start + 64;
    let mut samples = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        expect(
            "perf script",
            "period",
            words.next().unwrap_or_default().parse()?,
            100_003,
        )?;
        let ip = u64::from_str_radix(words.next().unwrap_or_default(), 16)?;
        ensure!(
            (start..end).contains(&ip),
            "«{line}» is not in {start:#x}..{end:#x}"
        );
        samples += 1;
    }
    expect(
        "perf script",
        "samples",
        samples,
        LOOP.instructions / 100_003,
    )
}

/// `perf record -g` has call chains of the kernel.
fn call_graph(ctx: &Ctx) -> Result<()> {
    let event = ctx.pmu()?.tool_event(Event::Instructions, "");
    let installed = MIXED.install()?;
    let data = record_with_kernel_symbols(&installed, &event, &["-g", "-c", "20011"])?;
    expect_samples(&data, None)?;
    let text = Perf::new("script")
        .args(["-i", &data, "-F", "ip,sym"])
        .text()?;
    // The kernel handles page faults for about half of the time that it spends on
    // this program.
    let chains = text.split("\n\n");
    let faults = chains.filter(|chain| {
        let mut frames = chain.lines().filter(|line| !line.trim().is_empty());
        frames.next().is_some() && frames.any(|frame| frame.contains("exc_page_fault"))
    });
    ensure!(
        faults.count() >= 3,
        "no call chains from page faults in\n{text}"
    );
    Ok(())
}
