// SPDX-License-Identifier: GPL-2.0
//! The module in the place of the in-tree driver: what programs do without naming a PMU.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware, Raw};
use perf_event::Builder;
use suites::Suite;

use super::user_read::{expect_child_faults, rdpmc, Page};
use super::{expect, expect_count, find_undisturbed};
use crate::ctx::{Ctx, Test, RUST_PMU};
use crate::module;
use crate::pmu::{self, BuilderExt, CpuPmu, Mode, Pmu, Vendor};
use crate::program::{LOOP, MIXED};
use crate::setting::Affinity;
use crate::tests;
use crate::tool::{without_kernel_symbols, Perf, Row};
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, ExactCounts];
    types,
    attrs_without_a_pmu,
    stat_without_events: [PerfTool],
    events_without_a_pmu: [PerfTool],
    cache_events: [PerfTool],
    named_events: [PerfTool],
    software_events: [PerfTool],
    record_without_events: [PerfTool],
    no_rdpmc,
    loaded_again,
];

/// `PERF_TYPE_RAW`.
const RAW: u32 = 4;

/// The names of the PMUs: one, or one for each type of core.
fn names(suite: &Suite) -> Vec<&'static str> {
    let machine = &suite.machine;
    let of = [
        (machine.efficient == 0 && machine.low_power == 0, "cpu"),
        (machine.efficient > 0, "cpu_core"),
        (machine.efficient > 0, "cpu_atom"),
        (machine.low_power > 0, "cpu_lowpower"),
    ];
    of.iter().filter(|it| it.0).map(|it| it.1).collect()
}

/// Keeps the thread on CPU 0, which is a performance core of a hybrid CPU.
fn on_a_performance_core() -> Result<Affinity> {
    Affinity::pinned_to(0)
}

/// The PMUs have the names and types of the in-tree driver's, and there are no others.
fn types(ctx: &Ctx) -> Result<()> {
    let devices = fs::read_dir("/sys/bus/event_source/devices")?;
    let devices: BTreeSet<_> = devices
        .map(|device| Ok(device?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    let is_core = |name: &&String| name.starts_with("cpu") || name.starts_with(RUST_PMU);
    let found: BTreeSet<_> = devices.iter().filter(is_core).map(String::as_str).collect();
    let names = names(ctx.suite);
    ensure!(
        found == names.iter().copied().collect(),
        "{found:?}, expected {names:?}"
    );
    for (i, name) in names.iter().enumerate() {
        let pmu = Pmu::find(name)?;
        ensure!((pmu.type_ == RAW) == (i == 0), "{name}: type {}", pmu.type_);
        let hybrid = names.len() > 1;
        let cpus = pmu.dir().join("cpus").exists();
        ensure!(cpus == hybrid, "{name}: cpus: {cpus}");
    }
    for other in ["intel_pt", "intel_bts"] {
        ensure!(!devices.contains(other), "there is {other}");
    }
    Ok(())
}

/// Counts a workload with an event that names no PMU.
fn counted(event: impl Event, workload: &workload::Workload) -> Result<u64> {
    let mut builder = Builder::new(event);
    builder.exclude_hv(false);
    let mut counter = builder.filter(Mode::User).build()?;
    workload.measure(&counter)?;
    Ok(counter.read()?)
}

/// Generic and raw events are counted, as `perf_event_open(2)` has them.
fn attrs_without_a_pmu(ctx: &Ctx) -> Result<()> {
    let _affinity = on_a_performance_core()?;
    let pmu = Pmu::find(names(ctx.suite)[0])?;
    let code = workload::tight_loop(10_000);
    expect_count(&code, counted(Hardware::INSTRUCTIONS, &code)?)?;
    let raw = Raw::new(pmu.config(pmu::Event::Instructions));
    expect_count(&code, counted(raw, &code)?)?;
    let branches = counted(Hardware::BRANCH_INSTRUCTIONS, &code)?;
    expect(code.name(), "branches", branches, code.branches())?;
    // Every CPU that is known has this cache event. What it counts is compared with the in-tree
    // driver on each CPU (model_events.rs).
    let loads = Cache {
        which: CacheId::DTLB,
        operation: CacheOp::READ,
        result: CacheResult::MISS,
    };
    counted(loads, &code).context("dTLB read misses")?;
    Ok(())
}

/// Runs `perf stat` of a program on a performance core, and returns the rows. An event that is not
/// counted is an error, unless it is one of another type of core.
fn rows(ctx: &Ctx, stat: Perf) -> Result<Vec<Row>> {
    let _affinity = on_a_performance_core()?;
    match names(ctx.suite).len() {
        1 => stat.rows(),
        _ => stat.counted_rows(),
    }
}

/// What perf counts by default is all counted; some of it in turns.
fn stat_without_events(ctx: &Ctx) -> Result<()> {
    let program = LOOP.install()?;
    let _affinity = on_a_performance_core()?;
    let stat = || Perf::stat().args([program.path()]);
    let rows = match names(ctx.suite).len() {
        1 => find_undisturbed(|| stat().rows_if_all_ran())?,
        _ => stat().counted_rows()?,
    };
    for event in ["instructions", "cpu-cycles", "branches", "branch-misses"] {
        let of_event = rows.iter().filter(|row| {
            let name = row.event.split('/').nth(1).unwrap_or(&row.event);
            name.trim_end_matches(":u") == event
        });
        let rows = of_event.count();
        ensure!(rows == 1, "{event}: {rows} rows");
    }
    let counted = rows.iter().find(|row| row.event.contains("instructions"));
    let Row { value, running, .. } = counted.context("no instructions")?;
    // Without enough counters it is an estimate. The excess is that of the kernel.
    let least = if *running == 100.0 {
        LOOP.instructions
    } else {
        1
    };
    ensure!(
        *value as u64 >= least,
        "{value} instructions, expected {least} or more"
    );
    Ok(())
}

/// perf's spellings of an event that needs no name of a PMU, and one that does.
fn events_without_a_pmu(ctx: &Ctx) -> Result<()> {
    let pmu = Pmu::find(names(ctx.suite)[0])?;
    let config = pmu.config(pmu::Event::Instructions);
    let raw = format!("r{config:x}:u");
    let terms = format!("{}/event={:#x}/u", pmu.name, config & 0xff);
    for program in [LOOP, MIXED] {
        let installed = program.install()?;
        for event in ["instructions:u", &raw, &terms] {
            let stat = Perf::stat().args(["-e", event]).args([installed.path()]);
            let rows = rows(ctx, stat)?;
            expect(event, "rows", rows.len() as u64, 1)?;
            expect(event, "counted", rows[0].value as u64, program.instructions)?;
        }
    }
    Ok(())
}

/// Each of perf's names of cache events opens one event.
fn cache_events(ctx: &Ctx) -> Result<()> {
    let program = LOOP.install()?;
    for event in ["dTLB-load-misses:u", "L1-dcache-loads:u"] {
        let stat = Perf::stat().args(["-e", event]).args([program.path()]);
        expect(event, "rows", rows(ctx, stat)?.len() as u64, 1)?;
    }
    Ok(())
}

/// perf's own names of events of the CPU: instructions, and conditional branches, of which
/// [`LOOP`] has one in two instructions.
fn named_events(ctx: &Ctx) -> Result<()> {
    let hybrid = names(ctx.suite).len() > 1;
    let [instructions, conditional] = match CpuPmu::probe().vendor {
        Vendor::Intel if hybrid => ["inst_retired.any:u", "br_inst_retired.cond:u"],
        Vendor::Intel => ["inst_retired.any:u", "br_inst_retired.conditional:u"],
        _ => ["ex_ret_instr:u", "ex_ret_cond:u"],
    };
    let program = LOOP.install()?;
    for (event, want) in [(instructions, LOOP.instructions), (conditional, 10_000_000)] {
        let stat = Perf::stat().args(["-e", event]).args([program.path()]);
        let rows = rows(ctx, stat)?;
        expect(event, "rows", rows.len() as u64, 1)?;
        expect(event, "counted", rows[0].value as u64, want)?;
    }
    Ok(())
}

/// A software event is the kernel's alone, and has one row.
fn software_events(ctx: &Ctx) -> Result<()> {
    for event in [
        "cpu-clock",
        "task-clock",
        "context-switches",
        "cpu-migrations",
        "page-faults",
    ] {
        let stat = Perf::stat().args(["-e", event]).args(["true"]);
        expect(event, "rows", rows(ctx, stat)?.len() as u64, 1)?;
    }
    Ok(())
}

/// What `perf record` samples by default: cycles, in all modes, at a frequency.
fn record_without_events(_: &Ctx) -> Result<()> {
    let program = LOOP.install()?;
    let data = program.dir().join("perf.data");
    let hidden = without_kernel_symbols()?;
    let record = Perf::record().args(["-o"]).args([&data]);
    record.args([program.path()]).run()?;
    drop(hidden);
    let script = |fields: &str| -> Result<String> {
        let script = Perf::new("script").args(["-i"]).args([&data]);
        script.args(["-F", fields]).text()
    };
    let samples = script("event,comm,ip")?;
    let of_loop = samples.lines().filter(|line| line.contains("loop"));
    ensure!(of_loop.count() > 0, "no sample of the program:\n{samples}");
    let bad = samples.lines().find(|line| !line.contains("cycles"));
    ensure!(bad.is_none(), "{bad:?}");
    Ok(())
}

/// User mode cannot know the width of the counters, so it must not read them either.
fn no_rdpmc(ctx: &Ctx) -> Result<()> {
    let pmu = Pmu::find(names(ctx.suite)[0])?;
    let _affinity = on_a_performance_core()?;
    expect_child_faults(|| {
        let mut event = pmu.open(pmu::Event::Instructions, Mode::User)?;
        let _page = Page::map(&event)?;
        event.enable()?;
        // SAFETY: This must fault, and the SIGSEGV handler of `expect_child_faults` ends the
        // process.
        unsafe { rdpmc(0) };
        Ok(())
    })
}

/// The PMU goes with the module, and is there again when that is loaded again.
fn loaded_again(ctx: &Ctx) -> Result<()> {
    let name = names(ctx.suite)[0];
    let code = workload::tight_loop(1_000);
    let _affinity = on_a_performance_core()?;
    for _ in 0..3 {
        module::remove().context("rmmod")?;
        let gone = !Path::new("/sys/bus/event_source/devices")
            .join(name)
            .exists();
        let refused = counted(Hardware::INSTRUCTIONS, &code);
        module::insert_with(ctx, c"primary=1")?.context("insmod primary=1")?;
        ensure!(gone, "{name} is still in sysfs");
        let error = refused.err().context("counted without a driver")?;
        let errno = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        ensure!(errno == Some(libc::ENOENT), "without a driver: {error}");
        expect_count(&code, counted(Hardware::INSTRUCTIONS, &code)?)?;
    }
    Ok(())
}
