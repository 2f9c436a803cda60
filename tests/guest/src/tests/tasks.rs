// SPDX-License-Identifier: GPL-2.0
//! Events of tasks and of CPUs: the ioctls, exec, inheritance.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use perf_event::Counter;

use super::{cpus, expect};
use crate::ctx::{Ctx, Test};
use crate::pmu::{BuilderExt, CpuPmu, Event, Mode};
use crate::program::{FORK_WAIT, FORK_WAIT_PARENT, MIXED};
use crate::setting::Affinity;
use crate::tests;
use crate::waiting;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Counters];
    off_till_enabled,
    enable_and_disable_again: [ExactCounts],
    reset: [ExactCounts],
    reading_while_counting: [ExactCounts],
    enabled_on_exec: [ExactCounts],
    inherited_by_children: [ExactCounts],
    not_inherited_unasked: [ExactCounts],
    inherited_by_threads,
    fork_with_a_group_that_does_not_fit: [Module, General(2)],
    event_of_one_cpu,
    event_of_task_on_one_cpu: [ExactCounts],
    closed_while_counting: [ExactCounts],
    many_events_opened_and_closed: [ExactCounts],
];

/// An event that was not enabled has counted nothing, for no time.
fn off_till_enabled(ctx: &Ctx) -> Result<()> {
    let mut counter = ctx.pmu()?.open(Event::Instructions, Mode::Both)?;
    workload::tight_loop(1_000).run();
    expect("disabled", "instructions", counter.read()?, 0)?;
    let time = counter.read_full()?.time_enabled();
    ensure!(time == Some(Duration::ZERO), "enabled for {time:?}");
    Ok(())
}

/// An event that is enabled 1000 times counts exactly what runs while it is enabled.
fn enable_and_disable_again(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(1_000);
    let mut counter = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    for round in 1..=1_000 {
        workload.measure(&counter)?;
        workload.run();
        let want = round * workload.instructions();
        expect("sum of the runs", "instructions", counter.read()?, want)?;
    }
    Ok(())
}

/// PERF_EVENT_IOC_RESET sets the count to 0, and the event goes on exactly.
fn reset(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(1_000);
    let mut counter = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    workload.measure(&counter)?;
    counter.reset()?;
    expect("after reset", "instructions", counter.read()?, 0)?;
    workload.measure(&counter)?;
    expect(
        "after reset",
        "instructions",
        counter.read()?,
        workload.instructions(),
    )
}

/// The code between each two readings is the same, so the differences must be equal.
fn reading_while_counting(ctx: &Ctx) -> Result<()> {
    let mut counter = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    counter.enable()?;
    let readings = read_often(&mut counter)?;
    let step = readings[1] - readings[0];
    ensure!(step > 2_000, "only {step} instructions between readings");
    for pair in readings.windows(2) {
        expect(
            "between two readings",
            "instructions",
            pair[1] - pair[0],
            step,
        )?;
    }
    Ok(())
}

#[inline(never)]
fn read_often(counter: &mut Counter) -> Result<[u64; 50]> {
    let workload = workload::tight_loop(1_000);
    let mut readings = [0; 50];
    for reading in &mut readings {
        *reading = counter.read()?;
        workload.run();
    }
    Ok(readings)
}

/// With `enable_on_exec` a program is counted exactly from its first instruction on.
fn enabled_on_exec(ctx: &Ctx) -> Result<()> {
    let installed = MIXED.install()?;
    let child = installed.stopped()?;
    let mut counter = ctx
        .pmu()?
        .event(Event::Instructions)
        .observe_pid(child.pid().as_raw())
        .enable_on_exec(true)
        .build()?;
    expect("before exec", "instructions", counter.read()?, 0)?;
    child.finish()?;
    expect(
        "after exec",
        "instructions",
        counter.read()?,
        MIXED.instructions,
    )
}

/// Counts a program that forks; `inherit` includes its children.
fn count_family(ctx: &Ctx, inherit: bool) -> Result<u64> {
    let installed = FORK_WAIT.install()?;
    let child = installed.stopped()?;
    let mut counter = ctx
        .pmu()?
        .event(Event::Instructions)
        .observe_pid(child.pid().as_raw())
        .inherit(inherit)
        .enable_on_exec(true)
        .build()?;
    child.finish()?;
    Ok(counter.read()?)
}

/// With `inherit` a process and its children are counted exactly.
fn inherited_by_children(ctx: &Ctx) -> Result<()> {
    expect(
        "parent and children",
        "instructions",
        count_family(ctx, true)?,
        FORK_WAIT.instructions,
    )
}

/// Without `inherit` a process is counted exactly without its children.
fn not_inherited_unasked(ctx: &Ctx) -> Result<()> {
    expect(
        "parent",
        "instructions",
        count_family(ctx, false)?,
        FORK_WAIT_PARENT,
    )
}

/// fork() succeeds although an inherited group does not fit any more: members have been enabled that
/// were disabled when others joined.
fn fork_with_a_group_that_does_not_fit(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    // No fixed counter counts branches.
    let mut event = pmu.event(Event::Branches);
    let mut leader = event.inherit(true).build()?;
    let members = (0..CpuPmu::probe().general).map(|_| event.build_with_group(&mut leader));
    let mut members = members.collect::<Result<Vec<_>, _>>()?;
    members.iter_mut().try_for_each(Counter::enable)?;
    let status = waiting::status(&mut Command::new("true")).context("fork")?;
    ensure!(status.success(), "true: {status}");
    Ok(())
}

/// Each thread inherits its own copy of the event.
fn inherited_by_threads(ctx: &Ctx) -> Result<()> {
    const THREADS: u64 = 4;
    let mut counter = ctx
        .pmu()?
        .event(Event::Instructions)
        .inherit(true)
        .build()?;
    counter.enable()?;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| workload::tight_loop(1_000_000).run());
        }
    });
    counter.disable()?;
    let count = counter.read()?;
    let least = THREADS * 2_000_000;
    ensure!(
        (least..least + 1_000_000).contains(&count),
        "{count} instructions, {least} of them in the threads' loops"
    );
    Ok(())
}

/// A CPU-wide event counts every task on its CPU, and nothing on others.
fn event_of_one_cpu(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(10_000_000);
    let affinity = Affinity::save()?;
    let cpus = cpus()?;
    for here in 0..cpus {
        let mut counters = (0..cpus)
            .map(|cpu| {
                pmu.event(Event::Instructions)
                    .any_pid()
                    .one_cpu(cpu)
                    .build()
            })
            .collect::<Result<Vec<_>, _>>()?;
        affinity.pin(here)?;
        for counter in &mut counters {
            counter.enable()?;
        }
        workload.run();
        for counter in &mut counters {
            counter.disable()?;
        }
        for (cpu, counter) in counters.iter_mut().enumerate() {
            let count = counter.read()?;
            let counted = count >= 20_000_000;
            ensure!(
                counted == (cpu == here),
                "{count} instructions on CPU {cpu}, with a loop of 20,000,000 on CPU {here}"
            );
        }
    }
    Ok(())
}

/// An event of a task and a CPU counts the task only on this CPU.
fn event_of_task_on_one_cpu(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000_000);
    let affinity = Affinity::save()?;
    let cpus = cpus()?;
    for here in 0..cpus {
        affinity.pin(here)?;
        for cpu in 0..cpus {
            let mut counter = pmu.event(Event::Instructions).one_cpu(cpu).build()?;
            workload.measure(&counter)?;
            let want = if cpu == here {
                workload.instructions()
            } else {
                0
            };
            expect("on one CPU", "instructions", counter.read()?, want)?;
        }
    }
    Ok(())
}

/// Closing a running event frees its counter for the next event.
fn closed_while_counting(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000);
    for _ in 0..100 {
        let mut counter = pmu
            .event(Event::Branches)
            .filter(Mode::Both)
            .sample_period(1_000)
            .build()?;
        counter.enable()?;
        workload.run();
        drop(counter);
        let mut counter = pmu.open(Event::Branches, Mode::User)?;
        workload.measure(&counter)?;
        expect(
            "the next event",
            "branches",
            counter.read()?,
            workload.branches(),
        )?;
    }
    Ok(())
}

/// After 1000 events were opened and closed, counts are exact.
fn many_events_opened_and_closed(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let events: Vec<Event> = pmu.events().collect();
    for _ in 0..20 {
        let counters = events
            .iter()
            .cycle()
            .take(50)
            .map(|event| pmu.open(*event, Mode::User))
            .collect::<Result<Vec<_>>>()?;
        drop(counters);
    }
    super::expect_exact(&pmu, &workload::tight_loop(1_000))
}
