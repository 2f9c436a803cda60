// SPDX-License-Identifier: GPL-2.0
//! The module's parameters.

use std::ffi::CStr;
use std::fs;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use perf_event::Counter;

use super::{expect, expect_count};
use crate::ctx::{Ctx, Test};
use crate::module;
use crate::pmu::{CpuPmu, Event, Mode, Pmu, Vendor};
use crate::program::LOOP;
use crate::tests;
use crate::tool::Perf;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module];
    no_fixed_counters: [Fixed(1), ExactCounts],
    fewer_general_counters: [ExactCounts],
    general_is_an_upper_limit: [ExactCounts],
    an_older_generation: [ExactCounts, ZeroSkid],
    named_events_file: [Cpus(2)],
    named_events: [PerfTool, Amd, ExactCounts],
    refused_parameters,
    place_of_the_in_tree_driver: [InTree],
];

/// Loads the module with parameters, checks that it counts, calls `f`, and unloads the
/// module.
fn loaded(ctx: &Ctx, parameters: &CStr, f: impl FnOnce(&Pmu) -> Result<()>) -> Result<()> {
    module::insert_with(ctx, parameters)?.with_context(|| format!("insmod {parameters:?}"))?;
    let result = ctx.pmu().and_then(|pmu| {
        let code = workload::tight_loop(1_000);
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        code.measure(&event)?;
        let count = event.read()?;
        expect_count(&code, count)?;
        f(&pmu)
    });
    module::remove().context("rmmod")?;
    result.with_context(|| format!("{parameters:?}"))
}

/// Opens a group of `n` events. It is an error if they do not fit on the counters.
fn group(pmu: &Pmu, event: Event, n: u32) -> Result<Vec<Counter>> {
    pmu.open_group(&vec![(event, Mode::User); n as usize])
}

/// Checks that `n` events fit in a group, but not one more.
fn expect_most(pmu: &Pmu, event: Event, n: u32) -> Result<()> {
    group(pmu, event, n).with_context(|| format!("{n} events of {}", event.name()))?;
    ensure!(
        group(pmu, event, n + 1).is_err(),
        "{} events of {} fit in a group",
        n + 1,
        event.name()
    );
    Ok(())
}

/// With `fixed=0` no fixed counter is used, and `ref-cycles` is gone; with `fixed=1` all are used.
fn no_fixed_counters(ctx: &Ctx) -> Result<()> {
    let general = CpuPmu::probe().general;
    loaded(ctx, c"fixed=0", |pmu| {
        expect_most(pmu, Event::Instructions, general)?;
        ensure!(
            !pmu.event_file("ref-cycles").exists(),
            "events/ref-cycles exists, but no counter counts it"
        );
        Ok(())
    })?;
    loaded(ctx, c"fixed=1", |pmu| {
        expect_most(pmu, Event::Instructions, general + 1)
    })
}

/// With `general=1` and `general=2` a group fits as many branch events.
fn fewer_general_counters(ctx: &Ctx) -> Result<()> {
    for (parameters, n) in [(c"general=1", 1), (c"general=2", 2)] {
        loaded(ctx, parameters, |pmu| expect_most(pmu, Event::Branches, n))?;
    }
    Ok(())
}

/// `general=0` and more than there are leave all general counters in use.
fn general_is_an_upper_limit(ctx: &Ctx) -> Result<()> {
    let general = CpuPmu::probe().general;
    for parameters in [c"general=0", c"general=200"] {
        loaded(ctx, parameters, |pmu| {
            expect_most(pmu, Event::Branches, general)
        })?;
    }
    Ok(())
}

/// The name in the module's log of each value of `generation`, from 1 on.
fn generations(vendor: Vendor) -> &'static [&'static str] {
    match vendor {
        Vendor::Intel | Vendor::Zhaoxin => &[
            "architectural perfmon v1,",
            "architectural perfmon v2 ",
            "architectural perfmon v2 ",
        ],
        Vendor::Amd | Vendor::Hygon => &["AMD legacy", "AMD PerfCtrExtCore", "AMD PerfMonV2"],
    }
}

/// Newer hardware can be driven as each older generation, which counts and overflows.
fn an_older_generation(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    let CpuPmu {
        vendor, general, ..
    } = CpuPmu::probe();
    for (name, (parameters, most)) in generations(vendor).iter().zip([
        (c"generation=1", 4),
        (c"generation=2", 6),
        (c"generation=3", 15),
    ]) {
        // AMD's older generations have a fixed number of counters.
        let most = match vendor {
            Vendor::Intel | Vendor::Zhaoxin => general,
            Vendor::Amd | Vendor::Hygon => general.min(most),
        };
        let mut log = ctx.module_log()?;
        loaded(ctx, parameters, |pmu| {
            let lines = log.lines()?;
            ensure!(
                lines.iter().any(|line| line.contains(name)),
                "kernel log {lines:?}, expected a line with {name:?}"
            );
            expect_most(pmu, Event::Branches, most)?;
            let code = workload::tight_loop(100_000);
            let sampler = pmu
                .event(Event::Instructions)
                .sample_period(PERIOD)
                .build()?;
            let nmis = super::interrupts("NMI")?;
            code.measure(&sampler)?;
            let nmis = super::interrupts("NMI")? - nmis;
            expect(code.name(), "NMIs", nmis, code.instructions() / PERIOD)
        })?;
    }
    Ok(())
}

/// By its file `cpus` perf knows the PMU of a kind of core. It lists the CPUs that are
/// online.
fn named_events_file(ctx: &Ctx) -> Result<()> {
    let online = || fs::read_to_string("/sys/devices/system/cpu/online").context("online CPUs");
    let listed = |pmu: &Pmu| fs::read_to_string(pmu.dir().join("cpus")).context("cpus");
    loaded(ctx, c"named_events=1", |pmu| {
        let all = online()?;
        ensure!(listed(pmu)? == all, "cpus: {:?}", listed(pmu)?);
        super::hotplug::replug(|| {
            ensure!(online()? != all, "CPU 1 is still online");
            ensure!(listed(pmu)? == online()?, "cpus: {:?}", listed(pmu)?);
            Ok(())
        })?;
        ensure!(listed(pmu)? == all, "cpus: {:?}", listed(pmu)?);
        Ok(())
    })?;
    loaded(ctx, c"named_events=0", |pmu| {
        ensure!(!pmu.dir().join("cpus").exists(), "there is a file cpus");
        Ok(())
    })
}

/// perf offers its own names of this CPU's events. It has the first for AMD's Zen, and those of generic
/// events for every CPU, in any spelling of their case. While rust_pmu has the counters, the in-tree
/// driver cannot count: so they are counted by rust_pmu.
fn named_events(ctx: &Ctx) -> Result<()> {
    const EVENT: &str = "rust_pmu/ex_ret_instr/u";
    let program = LOOP.install()?;
    let stat = || {
        let stat = Perf::stat();
        stat.args(["-e", EVENT]).args([program.path()]).rows()
    };
    loaded(ctx, c"named_events=1", |_| {
        let rows = stat()?;
        let row = rows.iter().find(|row| row.event == EVENT);
        let row = row.with_context(|| format!("no {EVENT} in {rows:?}"))?;
        expect(EVENT, "counted", row.value as u64, LOOP.instructions)?;
        let _holds_the_counters = ctx.pmu()?.open(Event::CpuCycles, Mode::User)?;
        for event in [
            "rust_pmu/instructions/u",
            "rust_pmu/branches/u",
            "rust_pmu/l1-dcache-loads/u",
            "rust_pmu/L1-dcache-loads/u",
            "rust_pmu/dTLB-load-misses/u",
        ] {
            let stat = Perf::stat().args(["-e", event]).args([program.path()]);
            let rows = stat.rows().context(event)?;
            expect(event, "rows", rows.len() as u64, 1)?;
        }
        Ok(())
    })?;
    loaded(ctx, c"named_events=0", |_| {
        ensure!(stat().is_err(), "perf knows {EVENT}");
        Ok(())
    })
}

/// Values that a parameter does not have are EINVAL, and a generation that the CPU does not have is
/// ENODEV.
fn refused_parameters(ctx: &Ctx) -> Result<()> {
    for (parameters, errno) in [
        (c"fixed=2", Errno::EINVAL),
        (c"fixed=yes", Errno::EINVAL),
        (c"named_events=2", Errno::EINVAL),
        (c"primary=2", Errno::EINVAL),
        (c"watchdog=2", Errno::EINVAL),
        // It needs primary=1.
        (c"watchdog=1", Errno::EINVAL),
        (c"general=-1", Errno::EINVAL),
        // A generation that this CPU does not have, and one that does not exist.
        (c"generation=5", Errno::ENODEV),
        (c"generation=200", Errno::ENODEV),
    ] {
        module::expect_refused(ctx, parameters, errno)?;
    }
    Ok(())
}

/// The module does not take the place of the in-tree driver while that is there.
fn place_of_the_in_tree_driver(ctx: &Ctx) -> Result<()> {
    const HINT: &str = suites::WITHOUT_IN_TREE;
    let mut log = ctx.module_log()?;
    module::expect_refused(ctx, c"primary=1", Errno::EBUSY)?;
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1 && lines[0].contains("primary=1: ") && lines[0].contains(HINT),
        "kernel log {lines:?}, expected one line that names {HINT}"
    );
    loaded(ctx, c"primary=0", |_| Ok(()))
}
