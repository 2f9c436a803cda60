// SPDX-License-Identifier: GPL-2.0
//! The events that the PMU model derives from instructions and branches, and the
//! fields of EVENTSEL.

use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use perf_event::Counter;

use super::{cpus, expect, measure_alone};
use crate::ctx::{Ctx, Test};
use crate::pmu::{read_all, BuilderExt, CpuPmu, Event, Mode, Pmu, UNKNOWN_EVENT};
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [EmulatedPmu];
    derived_events,
    cycles_of_any_code: [General(4)],
    halted_cpu_counts_no_cycles: [General(4), GlobalControl],
    counter_mask,
    inverted,
    edges,
    unknown_event_counts_nothing,
];

/// The count that the model defines for [`workload::whole_periods`].
fn modelled(event: Event, instructions: u64, branches: u64) -> u64 {
    let branch_misses = branches / 64;
    let cache_misses = instructions / 4096;
    let cycles = instructions + 15 * branch_misses + 100 * cache_misses;
    match event {
        Event::Instructions => instructions,
        Event::Branches => branches,
        Event::BranchMisses => branch_misses,
        Event::CacheReferences => instructions / 256,
        Event::CacheMisses => cache_misses,
        Event::CpuCycles => cycles,
        Event::RefCycles | Event::BusCycles => cycles * 3 / 4,
    }
}

/// Each event of the PMU has exactly the count that the model defines for the instructions and
/// branches that retired.
fn derived_events(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    // Short enough to run between two timer ticks, with -icount too.
    for periods in [1, 100, 250] {
        let workload = workload::whole_periods(periods);
        for event in pmu.events() {
            let mut counter = pmu.open(event, Mode::User)?;
            measure_alone(&workload, &mut counter)?;
            let want = modelled(event, workload.instructions(), workload.branches());
            expect(workload.name(), event.name(), counter.read()?, want)?;
        }
    }
    Ok(())
}

/// Cycles, and the events from which the model derives them.
const CYCLE_PARTS: [Event; 4] = [
    Event::CpuCycles,
    Event::Instructions,
    Event::BranchMisses,
    Event::CacheMisses,
];

fn expect_cycles(what: &str, group: &mut [Counter]) -> Result<u64> {
    let counts = read_all(group)?;
    let want = counts[1] + 15 * counts[2] + 100 * counts[3];
    expect(what, "cycles", counts[0], want)?;
    Ok(counts[0])
}

/// The counts of one group satisfy the model's formula for cycles, for any code
/// and in any mode.
fn cycles_of_any_code(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let modes: &[Mode] = match CpuPmu::probe().global_control {
        true => &[Mode::User, Mode::Kernel, Mode::Both],
        // The counters do not start at once, so they agree in user mode only.
        false => &[Mode::User],
    };
    for &mode in modes {
        for workload in [workload::branches(12_345), workload::syscalls(1_234)] {
            let mut group = pmu.open_group(&CYCLE_PARTS.map(|event| (event, mode)))?;
            workload.measure(&group[0])?;
            let cycles = expect_cycles(workload.name(), &mut group)?;
            ensure!(cycles > 0, "{}: no cycles", workload.name());
        }
    }
    Ok(())
}

/// An idle CPU is in HLT, where cycles must not count: they would exceed what the
/// formula gives for its instructions.
fn halted_cpu_counts_no_cycles(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for cpu in 0..cpus()? {
        let mut group: Vec<Counter> = Vec::new();
        for event in CYCLE_PARTS {
            let mut builder = pmu.event(event);
            builder.filter(Mode::Both).any_pid().one_cpu(cpu);
            let counter = match group.first_mut() {
                None => builder.build(),
                Some(leader) => builder.enabled(true).build_with_group(leader),
            };
            group.push(counter.with_context(|| format!("on CPU {cpu}"))?);
        }
        group[0].enable()?;
        thread::sleep(Duration::from_millis(500));
        group[0].disable()?;
        expect_cycles("idle", &mut group)?;
    }
    Ok(())
}

/// Bits of EVENTSEL (SDM vol. 3B, "Performance Monitoring").
const EDGE: u64 = 1 << 18;
const INV: u64 = 1 << 23;

fn cmask(n: u64) -> u64 {
    n << 24
}

fn count_raw(pmu: &Pmu, config: u64, workload: &Workload) -> Result<u64> {
    let mut counter = pmu
        .raw(config)
        .build()
        .with_context(|| format!("config {config:#x}"))?;
    measure_alone(workload, &mut counter)?;
    Ok(counter.read()?)
}

/// In the model an event happens at most once per cycle, so cmask=1 changes
/// nothing and with cmask=2 nothing counts.
fn counter_mask(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(100);
    for event in [Event::Branches, Event::BranchMisses, Event::CpuCycles] {
        let want = modelled(event, workload.instructions(), workload.branches());
        let count = count_raw(&pmu, pmu.config(event) | cmask(1), &workload)?;
        expect("cmask=1", event.name(), count, want)?;
        let count = count_raw(&pmu, pmu.config(event) | cmask(2), &workload)?;
        expect("cmask=2", event.name(), count, 0)?;
    }
    Ok(())
}

/// `inv` counts the cycles in which the event does not happen.
fn inverted(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(100);
    let cycles = modelled(
        Event::CpuCycles,
        workload.instructions(),
        workload.branches(),
    );
    let count = count_raw(
        &pmu,
        pmu.config(Event::Branches) | INV | cmask(1),
        &workload,
    )?;
    expect(
        "inv,cmask=1",
        "branches",
        count,
        cycles - workload.branches(),
    )?;
    let count = count_raw(
        &pmu,
        pmu.config(Event::CpuCycles) | INV | cmask(1),
        &workload,
    )?;
    expect("inv,cmask=1", "cycles", count, 0)
}

/// Each branch is an edge. Cycles are continuous, so they have no edge.
fn edges(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(100);
    let count = count_raw(
        &pmu,
        pmu.config(Event::Branches) | EDGE | cmask(1),
        &workload,
    )?;
    expect("edge,cmask=1", "branches", count, workload.branches())?;
    let count = count_raw(
        &pmu,
        pmu.config(Event::CpuCycles) | EDGE | cmask(1),
        &workload,
    )?;
    expect("edge,cmask=1", "cycles", count, 0)
}

/// A code that the model has no event for counts 0.
fn unknown_event_counts_nothing(ctx: &Ctx) -> Result<()> {
    let count = count_raw(&ctx.pmu()?, UNKNOWN_EVENT, &workload::tight_loop(10_000))?;
    expect("an unknown event", "events", count, 0)
}
