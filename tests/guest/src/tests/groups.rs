// SPDX-License-Identifier: GPL-2.0
//! More events than counters: what fits, what takes turns, what is refused.

use anyhow::{ensure, Context, Result};
use perf_event::events::Software;
use perf_event::{Builder, Counter};

use super::{expect, need_general};
use crate::ctx::{Ctx, Test};
use crate::pmu::{ArchPerfmon, Event, Mode, Pmu};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    every_counter_counts,
    full_group,
    group_too_large,
    group_with_software_events,
    fixed_counters_first,
    multiplexed,
    multiplexed_groups,
    pinned,
];

/// As many branch events as there are general counters: branches have no fixed
/// counter to go to.
fn branch_group(pmu: &Pmu, n: u32) -> Result<Vec<Counter>> {
    pmu.open_group(&vec![(Event::Branches, Mode::User); n as usize])
}

/// Events on their own, all at once.
fn every_counter_counts(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut events = Vec::new();
    for _ in 0..ArchPerfmon::probe().general {
        events.push(pmu.open(Event::Branches, Mode::User)?);
    }
    for event in &mut events {
        event.enable()?;
    }
    workload::tight_loop(1_000_000).run();
    for event in &mut events {
        event.disable()?;
    }
    for event in &mut events {
        let data = event.read_full()?;
        ensure!(
            data.time_running() == data.time_enabled(),
            "it had to wait for a counter"
        );
        ensure!(data.count() >= 1_000_000, "only {} branches", data.count());
    }
    Ok(())
}

fn full_group(ctx: &Ctx) -> Result<()> {
    let workload = workload::branches(100_000);
    let mut group = branch_group(&ctx.pmu()?, ArchPerfmon::probe().general)?;
    workload.measure(&group[0])?;
    for event in &mut group {
        expect("full group", "branches", event.read()?, workload.branches())?;
    }
    Ok(())
}

/// The first event that has no counter left gets EINVAL, those before it work.
fn group_too_large(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::branches(100_000);
    let mut group = branch_group(&pmu, ArchPerfmon::probe().general)?;
    let one_more = pmu
        .event(Event::Branches)
        .enabled(true)
        .build_with_group(&mut group[0]);
    let error = one_more
        .err()
        .context("a group with more events than counters")?;
    ensure!(
        error.raw_os_error() == Some(libc::EINVAL),
        "{error}, not EINVAL"
    );
    workload.measure(&group[0])?;
    for event in &mut group {
        expect(
            "after EINVAL",
            "branches",
            event.read()?,
            workload.branches(),
        )?;
    }
    Ok(())
}

/// Software events need no counter.
fn group_with_software_events(ctx: &Ctx) -> Result<()> {
    const PAGES: u64 = 300;
    let workload = workload::touch(PAGES)?;
    let mut group = branch_group(&ctx.pmu()?, ArchPerfmon::probe().general)?;
    let mut software = |event| {
        Builder::new(event)
            .include_kernel()
            .enabled(true)
            .build_with_group(&mut group[0])
    };
    let mut faults = software(Software::PAGE_FAULTS)?;
    let mut clock = software(Software::TASK_CLOCK)?;
    workload.measure(&group[0])?;
    for event in &mut group {
        expect(
            "with software events",
            "branches",
            event.read()?,
            workload.branches(),
        )?;
    }
    expect("in the group", "page faults", faults.read()?, PAGES)?;
    ensure!(clock.read()? > 0, "no time has passed");
    Ok(())
}

/// Instructions and cycles can go to fixed counters, so they fit beside a group
/// that takes all general ones.
fn fixed_counters_first(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let ArchPerfmon { general, fixed, .. } = ArchPerfmon::probe();
    let mut events = vec![(Event::Branches, Mode::User); general as usize];
    if fixed >= 1 {
        events.push((Event::Instructions, Mode::User));
    }
    if fixed >= 2 {
        events.push((Event::CpuCycles, Mode::User));
    }
    let workload = workload::whole_periods(50);
    let mut group = pmu.open_group(&events)?;
    workload.measure(&group[0])?;
    for (counter, (event, _)) in group.iter_mut().zip(&events) {
        let want = match event {
            Event::Branches => workload.branches(),
            Event::Instructions => workload.instructions(),
            // By the table in tools/pmu-model.
            _ => workload.instructions() + 15 * (workload.branches() / 64) + 100 * 50,
        };
        expect("with fixed counters", event.name(), counter.read()?, want)?;
    }
    Ok(())
}

/// What a counter that ran some of the time would have counted all the time.
fn scaled(counter: &mut Counter) -> Result<(f64, f64)> {
    let data = counter.read_full()?;
    let enabled = data
        .time_enabled()
        .context("no time_enabled")?
        .as_secs_f64();
    let running = data
        .time_running()
        .context("no time_running")?
        .as_secs_f64();
    ensure!(running > 0.0, "it never ran");
    Ok((data.count() as f64 * enabled / running, running / enabled))
}

/// Checks that events took turns, and that each had a fair share.
fn expect_shared(counters: &mut [Counter], truth: u64) -> Result<()> {
    let mut waited = 0;
    for counter in counters.iter_mut() {
        let (value, share) = scaled(counter)?;
        if share < 0.99 {
            waited += 1;
        }
        let ratio = value / truth as f64;
        // The emulator's speed varies from turn to turn, on a busy host widely.
        ensure!(
            (0.7..1.3).contains(&ratio),
            "{value:.0} scaled from {:.0} % of the time, {truth} in truth",
            share * 100.0
        );
    }
    ensure!(waited > 0, "none of {} had to wait", counters.len());
    Ok(())
}

fn multiplexed(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(100_000_000);
    let mut events = Vec::new();
    for _ in 0..ArchPerfmon::probe().general * 2 + 1 {
        events.push(pmu.open(Event::Branches, Mode::User)?);
    }
    for event in &mut events {
        event.enable()?;
    }
    workload.run();
    for event in &mut events {
        event.disable()?;
    }
    expect_shared(&mut events, workload.branches())
}

/// A group takes its turn whole: its members always agree.
fn multiplexed_groups(ctx: &Ctx) -> Result<()> {
    need_general(2)?;
    let pmu = ctx.pmu()?;
    let general = ArchPerfmon::probe().general;
    let workload = workload::tight_loop(100_000_000);
    let mut groups = (0..3)
        .map(|_| branch_group(&pmu, general.div_ceil(2) + 1))
        .collect::<Result<Vec<_>>>()?;
    for group in &mut groups {
        group[0].enable()?;
    }
    workload.run();
    for group in &mut groups {
        group[0].disable()?;
    }
    for group in &mut groups {
        let first = group[0].read()?;
        for member in &mut group[1..] {
            expect("a group of equals", "branches", member.read()?, first)?;
        }
    }
    let mut leaders: Vec<Counter> = groups
        .into_iter()
        .map(|mut group| group.remove(0))
        .collect();
    expect_shared(&mut leaders, workload.branches())
}

/// A pinned event takes the counter from those that take turns, and one that
/// finds none because of other pinned events is in error: it reads nothing.
fn pinned(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let general = ArchPerfmon::probe().general;
    let workload = workload::tight_loop(10_000_000);
    let mut events = Vec::new();
    for _ in 0..=general {
        events.push(pmu.event(Event::Branches).pinned(true).build()?);
    }
    for event in &mut events {
        event.enable()?;
    }
    workload.run();
    for event in &mut events[..general as usize] {
        let data = event.read_full()?;
        ensure!(
            data.time_running() == data.time_enabled(),
            "a pinned event had to wait"
        );
    }
    ensure!(
        events[general as usize].read().is_err(),
        "a pinned event without a counter reads"
    );
    Ok(())
}
