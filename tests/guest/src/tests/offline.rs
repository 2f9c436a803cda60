// SPDX-License-Identifier: GPL-2.0
//! A CPU that goes offline gives its counters back: none of its registers may still be
//! programmed when it is online again, or the in-tree driver runs the counter, too, as
//! soon as it sets GLOBAL_CTRL.

use anyhow::{ensure, Context, Result};
use perf_event::Counter;

use super::expect_exact;
use super::hotplug::replug;
use crate::ctx::{Ctx, Test};
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::{BuilderExt, Event, Mode};
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, Cpus(2), Msrs, ExactCounts];
    cpu_event_closed_while_offline,
    cpu_event_closed_after_online,
    task_event_closed_while_offline,
    with_an_event_on_another_cpu,
];

/// The CPU that goes offline.
const CPU: usize = 1;

/// Events of CPU 1 that count. Instructions use a fixed counter if there is one, branches
/// always use a general counter.
fn count_on_cpu(ctx: &Ctx) -> Result<Vec<Counter>> {
    let pmu = ctx.pmu()?;
    [Event::Instructions, Event::Branches]
        .into_iter()
        .map(|event| {
            let mut builder = pmu.event(event);
            builder.filter(Mode::Both).any_pid().one_cpu(CPU);
            Ok(builder.enabled(true).build()?)
        })
        .collect()
}

/// Checks that nothing is programmed on CPU 1, and that its counters hold nothing.
fn expect_given_back() -> Result<()> {
    let (msrs, pmu) = (Msrs::of_cpu(CPU)?, PmuMsrs::of_this_cpu());
    let mut left = Vec::new();
    for address in pmu.controls().chain(pmu.all_counters()) {
        let value = msrs.read(address)?;
        if value != 0 {
            left.push(format!("MSR {address:#x} is {value:#x}"));
        }
    }
    ensure!(
        left.is_empty(),
        "CPU {CPU} has not given its counters back\n{}",
        left.join("\n")
    );
    Ok(())
}

/// Checks that the counters of CPU 1 work.
fn expect_counting(ctx: &Ctx) -> Result<()> {
    let _affinity = Affinity::pinned_to(CPU)?;
    expect_exact(&ctx.pmu()?, &workload::branches(10_000)).context("after CPU 1 came online")
}

/// An event of a CPU that is closed while the CPU is offline gives the counters back.
fn cpu_event_closed_while_offline(ctx: &Ctx) -> Result<()> {
    let events = count_on_cpu(ctx)?;
    replug(|| {
        drop(events);
        Ok(())
    })?;
    expect_given_back()?;
    expect_counting(ctx)
}

/// An event of a CPU that went offline and came back gives the counters back when it is closed.
fn cpu_event_closed_after_online(ctx: &Ctx) -> Result<()> {
    let events = count_on_cpu(ctx)?;
    replug(|| Ok(()))?;
    expect_given_back().context("with open events")?;
    drop(events);
    expect_given_back()?;
    expect_counting(ctx)
}

/// The task migrates because its CPU goes offline.
fn task_event_closed_while_offline(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let affinity = Affinity::pinned_to(CPU)?;
    let mut events = Vec::new();
    for event in [Event::Instructions, Event::Branches] {
        let mut event = pmu.open(event, Mode::Both)?;
        event.enable()?;
        events.push(event);
    }
    workload::tight_loop(1_000_000).run();
    replug(|| {
        drop(events);
        Ok(())
    })?;
    drop(affinity);
    expect_given_back()?;
    expect_counting(ctx)
}

/// The reservation of the counters does not end with the events of CPU 1.
fn with_an_event_on_another_cpu(ctx: &Ctx) -> Result<()> {
    let mut builder = ctx.pmu()?.event(Event::Branches);
    let other = builder.any_pid().one_cpu(0).enabled(true).build()?;
    let events = count_on_cpu(ctx)?;
    replug(|| {
        drop(events);
        Ok(())
    })?;
    expect_given_back()?;
    expect_counting(ctx)?;
    drop(other);
    expect_given_back().context("after the last event was closed")
}
