// SPDX-License-Identifier: GPL-2.0
//! Groups and multiplexing: which events fit on the counters, which are
//! multiplexed, and which are refused.

use anyhow::{ensure, Context, Result};
use perf_event::events::Software;
use perf_event::{Builder, Counter};

use super::{expect, has_run, measure_alone, repeat};
use crate::ctx::{Ctx, Test};
use crate::pmu::{CpuPmu, Event, Mode, Pmu};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Counters];
    every_counter_counts,
    full_group: [ExactCounts],
    group_too_large: [ExactCounts],
    group_with_software_events: [ExactCounts],
    too_large_with_software_events,
    fixed_counters_first: [EmulatedPmu],
    moves_to_fixed_counter: [Fixed(1)],
    multiplexed,
    multiplexed_groups: [General(2)],
    pinned,
];

/// A group of `n` branch events, which no fixed counter can count.
fn branch_group(pmu: &Pmu, n: u32) -> Result<Vec<Counter>> {
    pmu.open_group(&vec![(Event::Branches, Mode::User); n as usize])
}

/// As many branch events as there are general counters, without a group, count all the time.
fn every_counter_counts(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut events = Vec::new();
    for _ in 0..CpuPmu::probe().general {
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
            "the event was multiplexed"
        );
        ensure!(data.count() >= 1_000_000, "only {} branches", data.count());
    }
    Ok(())
}

/// A group with as many branch events as there are general counters counts each exactly.
fn full_group(ctx: &Ctx) -> Result<()> {
    let workload = workload::branches(100_000);
    let mut group = branch_group(&ctx.pmu()?, CpuPmu::probe().general)?;
    workload.measure(&group[0])?;
    for event in &mut group {
        expect("full group", "branches", event.read()?, workload.branches())?;
    }
    Ok(())
}

/// The first event for which the group has no counter is EINVAL. Those before it
/// work.
fn group_too_large(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::branches(100_000);
    let mut group = branch_group(&pmu, CpuPmu::probe().general)?;
    let one_more = pmu
        .event(Event::Branches)
        .enabled(true)
        .build_with_group(&mut group[0]);
    let error = one_more
        .err()
        .context("a group with more events than counters")?;
    ensure!(
        error.raw_os_error() == Some(libc::EINVAL),
        "{error}, expected EINVAL"
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

/// Software events need no counter: a group of all general counters has room for them, and counts
/// exactly.
fn group_with_software_events(ctx: &Ctx) -> Result<()> {
    const PAGES: u64 = 300;
    let workload = workload::touch(PAGES)?;
    let mut group = branch_group(&ctx.pmu()?, CpuPmu::probe().general)?;
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
    ensure!(clock.read()? > 0, "task-clock reads 0");
    Ok(())
}

/// The first event for which the group has no counter is EINVAL, too, if the others have joined after many
/// software events.
fn too_large_with_software_events(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut leader = pmu.open(Event::Branches, Mode::User)?;
    let mut members = Vec::new();
    for _ in 0..100 {
        members.push(Builder::new(Software::DUMMY).build_with_group(&mut leader)?);
    }
    let join = |leader: &mut Counter| {
        pmu.event(Event::Branches)
            .enabled(true)
            .build_with_group(leader)
    };
    for _ in 1..CpuPmu::probe().general {
        members.push(join(&mut leader)?);
    }
    let error = join(&mut leader)
        .err()
        .context("a group with more events than counters")?;
    ensure!(
        error.raw_os_error() == Some(libc::EINVAL),
        "{error}, expected EINVAL"
    );
    Ok(())
}

/// Instructions and cycles use fixed counters, so they fit into a group that uses
/// all general ones.
fn fixed_counters_first(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let CpuPmu { general, fixed, .. } = CpuPmu::probe();
    let mut events = vec![(Event::Branches, Mode::User); general as usize];
    if fixed >= 1 {
        events.push((Event::Instructions, Mode::User));
    }
    if fixed >= 2 {
        events.push((Event::CpuCycles, Mode::User));
    }
    let workload = workload::whole_periods(50);
    let mut group = pmu.open_group(&events)?;
    measure_alone(&workload, &mut group[0])?;
    for (counter, (event, _)) in group.iter_mut().zip(&events) {
        let want = match event {
            Event::Branches => workload.branches(),
            Event::Instructions => workload.instructions(),
            // Cycles, by the model's formula.
            _ => workload.instructions() + 15 * (workload.branches() / 64) + 100 * 50,
        };
        expect("with fixed counters", event.name(), counter.read()?, want)?;
    }
    Ok(())
}

/// An event moves from a general to a freed fixed counter if another event needs
/// the general one.
fn moves_to_fixed_counter(ctx: &Ctx) -> Result<()> {
    const N: u64 = 1_000_000;
    let pmu = ctx.pmu()?;
    let general = CpuPmu::probe().general;
    let loop_once = workload::tight_loop(N);
    let start = |event| -> Result<Counter> {
        let mut counter = pmu.open(event, Mode::User)?;
        counter.enable()?;
        Ok(counter)
    };
    let on_fixed = start(Event::Instructions)?;
    let mut moved = start(Event::Instructions)?;
    let mut branches = (1..general)
        .map(|_| start(Event::Branches))
        .collect::<Result<Vec<_>>>()?;
    loop_once.run();
    drop(on_fixed);
    let mut last = start(Event::Branches)?;
    loop_once.run();

    let expect = |what: &str, counter: &mut Counter, least: u64| -> Result<()> {
        counter.disable()?;
        let data = counter.read_full()?;
        ensure!(
            data.time_running() == data.time_enabled(),
            "{what} was multiplexed"
        );
        // The excess is what runs between the ioctls.
        let count = data.count();
        let good = (least..least + 200_000).contains(&count);
        ensure!(good, "{what}: {count}, {least} of them in the loops");
        Ok(())
    };
    expect("the last event", &mut last, N)?;
    expect("the moved event", &mut moved, 4 * N)?;
    for event in &mut branches {
        expect("an event that stayed", event, 2 * N)?;
    }
    Ok(())
}

/// Checks multiplexed events, of which `at_once` count at any time, while `truth` branches were taken in
/// so many rounds.
///
/// However they are scheduled, `at_once` events count each branch. So the sum of
/// the counts does not depend on the emulator's speed. The scaled counts do, because the
/// speed varies: rotation.rs has them, where time goes by instructions.
fn expect_shared(events: &mut [Counter], at_once: u64, (rounds, truth): (u64, u64)) -> Result<()> {
    let mut sum = 0;
    let mut waited = 0;
    for event in events.iter_mut() {
        let data = event.read_full()?;
        let enabled = data
            .time_enabled()
            .context("no time_enabled")?
            .as_secs_f64();
        let running = data
            .time_running()
            .context("no time_running")?
            .as_secs_f64();
        ensure!(running > 0.0, "an event never ran");
        if running < 0.99 * enabled {
            waited += 1;
        }
        sum += data.count();
    }
    ensure!(waited > 0, "none of the {} was multiplexed", events.len());
    let least = at_once * truth;
    // The excess is what runs between the ioctls, and between the rounds.
    let most = least + 2_000 * (events.len() as u64 + rounds * at_once);
    ensure!(
        (least..=most).contains(&sum),
        "{sum} branches in total, {least} of them in the loops"
    );
    Ok(())
}

/// Of more events than counters, each is on a counter some of the time, and their running times add
/// up.
fn multiplexed(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(100_000_000);
    let general = CpuPmu::probe().general;
    let mut events = Vec::new();
    for _ in 0..general * 2 + 1 {
        events.push(pmu.open(Event::Branches, Mode::User)?);
    }
    for event in &mut events {
        event.enable()?;
    }
    let rounds = repeat("the turn of the last event", || {
        workload.run();
        has_run(events.last_mut().context("no event")?)
    })?;
    for event in &mut events {
        event.disable()?;
    }
    expect_shared(&mut events, general.into(), (rounds, rounds * 100_000_000))
}

/// A group is scheduled as a whole, so the counts of its members always agree.
fn multiplexed_groups(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    // More than half of the counters, so that only one group fits.
    let size = CpuPmu::probe().general / 2 + 1;
    let workload = workload::tight_loop(100_000_000);
    let mut groups = (0..3)
        .map(|_| branch_group(&pmu, size))
        .collect::<Result<Vec<_>>>()?;
    for group in &mut groups {
        group[0].enable()?;
    }
    let rounds = repeat("the turn of the last group", || {
        workload.run();
        has_run(&mut groups[2][0])
    })?;
    for group in &mut groups {
        group[0].disable()?;
    }
    for group in &mut groups {
        let first = group[0].read()?;
        for member in &mut group[1..] {
            expect("a member of the group", "branches", member.read()?, first)?;
        }
    }
    let mut leaders: Vec<Counter> = groups
        .into_iter()
        .map(|mut group| group.remove(0))
        .collect();
    expect_shared(&mut leaders, 1, (rounds, rounds * 100_000_000))
}

/// Pinned events are never multiplexed. A pinned event that gets no counter goes
/// into the error state, and its read() fails.
fn pinned(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let general = CpuPmu::probe().general;
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
            "a pinned event was multiplexed"
        );
    }
    ensure!(
        events[general as usize].read().is_err(),
        "read() of a pinned event without a counter succeeded"
    );
    Ok(())
}
