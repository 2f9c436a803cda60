// SPDX-License-Identifier: GPL-2.0
//! The real perf tool: list, stat, record, report, script.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::{ensure, Context, Result};
use nix::sys::stat::Mode as FileMode;
use nix::unistd::mkfifo;

use super::{cpus, expect};
use crate::ctx::{Ctx, Test};
use crate::pmu::Event;
use crate::program::{Installed, Program, LOOP, MIXED, STOPPED_LOOP, THREE_TO_ONE};
use crate::tests;
use crate::tool::{check, parse_rows, Perf, Row};

pub const TESTS: &[Test] = tests![
    list,
    stat,
    stat_as_in_tree,
    stat_short_names,
    stat_group_with_software_events,
    stat_repeated,
    stat_system_wide,
    stat_one_cpu,
    stat_per_core,
    stat_per_cpu,
    stat_process,
    stat_intervals,
    stat_multiplexed,
    record_every_period,
    record_system_wide,
    report_three_to_one,
    report_by_frequency,
    script_shows_addresses,
    call_graph,
];

fn user_instructions(ctx: &Ctx) -> Result<String> {
    Ok(ctx.pmu()?.tool_event(Event::Instructions, "u"))
}

fn list(ctx: &Ctx) -> Result<()> {
    // perf lists the in-tree PMU's events by their generic names only.
    ctx.need_module()?;
    let pmu = ctx.pmu()?;
    let text = Perf::new("list").args(["--no-desc", "pmu"]).text()?;
    let rows: Vec<&str> = text.lines().filter(|row| row.contains(&pmu.name)).collect();
    for event in pmu.events() {
        let row = pmu.tool_event(event, "");
        ensure!(
            rows.iter().any(|it| it.contains(&row)),
            "no {row} in\n{}",
            rows.join("\n")
        );
    }
    Ok(())
}

/// The one row of an event.
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
        "{event} counted {} % of the time",
        row.running
    );
    Ok(())
}

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

/// Both PMUs, one after the other as they share the counters.
fn stat_as_in_tree(ctx: &Ctx) -> Result<()> {
    for program in [LOOP, MIXED] {
        let installed = program.install()?;
        let mut counts = Vec::new();
        for pmu in [ctx.pmu()?, ctx.in_tree_counts()?] {
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

/// The names that people type.
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
    ensure!(cycles > LOOP.instructions, "{cycles} cycles");
    Ok(())
}

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
    // 512 pages that the program touches, and those it consists of.
    ensure!((512.0..600.0).contains(&faults), "{faults} page faults");
    row(&rows, "task-clock").map(drop)
}

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
        "the runs differ: {rows:?}"
    );
    Ok(())
}

/// What all CPUs counted while a program ran, by the place that perf names.
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
    // The rest is perf itself, and whoever else had something to do.
    ensure!(
        (least..least + 50e6).contains(&sum),
        "{sum} instructions, {least} in the program"
    );
    Ok(rows)
}

fn stat_system_wide(ctx: &Ctx) -> Result<()> {
    let rows = system_wide(ctx, &[], &LOOP)?;
    expect("rows", "rows", rows.len() as u64, 1)
}

fn stat_per_core(ctx: &Ctx) -> Result<()> {
    let rows = system_wide(ctx, &["--per-core"], &LOOP)?;
    ensure!(
        rows.iter().all(|row| row.place.starts_with('S')),
        "no cores: {rows:?}"
    );
    Ok(())
}

fn stat_per_cpu(ctx: &Ctx) -> Result<()> {
    let rows = system_wide(ctx, &["-A"], &LOOP)?;
    expect("-A", "rows", rows.len() as u64, cpus()? as u64)?;
    for (row, cpu) in rows.iter().zip(0..) {
        ensure!(row.place == format!("CPU{cpu}"), "no CPU{cpu}: {rows:?}");
    }
    Ok(())
}

fn stat_one_cpu(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = LOOP.install()?;
    for cpu in 0..cpus()? {
        let cpu = cpu.to_string();
        for (program_cpu, here) in [(&cpu, true), (&other(&cpu)?, false)] {
            if cpu == *program_cpu && !here {
                continue; // There is no other CPU.
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

/// Attaches to a process that is stopped at a known place, so that the count is
/// known too.
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
    // perf opens them for reading and writing: neither open waits for long.
    File::options()
        .write(true)
        .open(&control)?
        .write_all(b"enable\n")?;
    let mut answer = String::new();
    BufReader::new(File::open(&ack)?).read_line(&mut answer)?;
    ensure!(answer.starts_with("ack"), "perf said «{answer}»");
    child.finish()?;
    let output = running.wait_with_output()?;
    let rows = parse_rows(&check(perf.command(), output)?)?;
    expect_row(&rows, &event, STOPPED_LOOP.instructions)
}

/// The intervals are parts of the whole. perf itself loses the last one now and
/// then, when the program ends while a row is printed: with any PMU.
fn stat_intervals(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = THREE_TO_ONE.install()?;
    let rows = Perf::stat()
        .args(["-I", "20", "-e", &event])
        .args([installed.path()])
        .rows()?;
    ensure!(rows.len() >= 2, "only {} intervals", rows.len());
    let sum = rows.iter().map(|row| row.value).sum::<f64>() as u64;
    let whole = THREE_TO_ONE.instructions;
    ensure!(
        (whole / 2..=whole).contains(&sum),
        "{sum} instructions of {whole}: {rows:?}"
    );
    Ok(())
}

fn stat_multiplexed(ctx: &Ctx) -> Result<()> {
    let event = ctx.pmu()?.tool_event(Event::Branches, "u");
    let installed = THREE_TO_ONE.install()?;
    let events = vec![event.as_str(); 20].join(",");
    let rows = Perf::stat()
        .args(["-e", &events])
        .args([installed.path()])
        .rows()?;
    expect("-e", "rows", rows.len() as u64, 20)?;
    ensure!(
        rows.iter().any(|row| row.running < 99.0),
        "nobody had to wait: {rows:?}"
    );
    Ok(())
}

/// Records a program into a file beside it.
fn record(installed: &Installed, event: &str, options: &[&str]) -> Result<String> {
    let data = installed.dir().join("perf.data").display().to_string();
    Perf::new("record")
        .args(["-q", "-o", &data, "-e", event])
        .args(options)
        .args([installed.path()])
        .run()?;
    Ok(data)
}

/// The numbers of `perf report --stats`: how many records of each kind.
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

fn record_every_period(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    for period in [20_011, 100_000] {
        let installed = LOOP.install()?;
        let data = record(&installed, &event, &["-c", &period.to_string()])?;
        expect_samples(&data, Some(LOOP.instructions / period))?;
    }
    Ok(())
}

fn record_system_wide(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    let event = user_instructions(ctx)?;
    let installed = LOOP.install()?;
    let data = record(&installed, &event, &["-a", "-c", &PERIOD.to_string()])?;
    expect_samples(&data, None)?;
    let text = Perf::new("script")
        .args(["-i", &data, "--comms", "loop", "-F", "comm,ip"])
        .text()?;
    let samples = text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
    // It shares each CPU's periods with all others there, so one more or less.
    let want = LOOP.instructions / PERIOD;
    ensure!(
        samples.abs_diff(want) <= 2,
        "{samples} samples of the program, {want} were due"
    );
    Ok(())
}

/// Percent by symbol, from `perf report`.
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
            "{symbol} has {got} %, {want} were due: {overheads:?}"
        );
    }
    Ok(())
}

fn report_three_to_one(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = THREE_TO_ONE.install()?;
    let data = record(&installed, &event, &["-c", "20011"])?;
    expect_samples(&data, Some(THREE_TO_ONE.instructions / 20_011))?;
    expect_three_to_one(&data)
}

/// The default of `perf record`, with kernel samples among the others.
fn report_by_frequency(ctx: &Ctx) -> Result<()> {
    let event = ctx.pmu()?.tool_event(Event::CpuCycles, "");
    let installed = THREE_TO_ONE.install()?;
    let data = record(&installed, &event, &["-F", "5000"])?;
    expect_samples(&data, None)?;
    let overheads = overheads(&data)?;
    let (three, one) = (overheads.get("three"), overheads.get("one"));
    let (three, one) = (three.context("no three")?, one.context("no one")?);
    let share = 100.0 * three / (three + one);
    // By time now, whose samples are fewer and beat with the program's rounds.
    ensure!(
        (share - 75.0).abs() <= 8.0,
        "three has {share} % of the two: {overheads:?}"
    );
    Ok(())
}

fn script_shows_addresses(ctx: &Ctx) -> Result<()> {
    let event = user_instructions(ctx)?;
    let installed = LOOP.install()?;
    let data = record(&installed, &event, &["-c", "100003"])?;
    let text = Perf::new("script")
        .args(["-i", &data, "-F", "ip,sym,period"])
        .text()?;
    let (start, end) = symbols(installed.path())?;
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

/// Where a program's code is, by its ELF header: its entry to the segment's end.
fn symbols(path: &Path) -> Result<(u64, u64)> {
    let elf = fs::read(path)?;
    let entry = elf.get(24..32).context("no ELF header")?;
    let entry = u64::from_le_bytes(entry.try_into()?);
    // The program is shorter than that.
    Ok((entry, entry + 64))
}

/// The kernel walks the stack for each sample, from the NMI.
fn call_graph(ctx: &Ctx) -> Result<()> {
    let event = ctx.pmu()?.tool_event(Event::Instructions, "");
    let installed = MIXED.install()?;
    let data = record(&installed, &event, &["-g", "-c", "20011"])?;
    expect_samples(&data, None)?;
    let text = Perf::new("script")
        .args(["-i", &data, "-F", "ip,sym"])
        .text()?;
    // Half of what the kernel does for this program is to serve its faults.
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
