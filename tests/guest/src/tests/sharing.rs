// SPDX-License-Identifier: GPL-2.0
//! Two drivers share one set of counters. The first event of a driver reserves them,
//! and the last one releases them.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use perf_event::Counter;

use super::expect_exact;
use crate::ctx::{Ctx, Test};
use crate::pmu::{BuilderExt, Event, Mode, Pmu};
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [ExactCounts];
    in_tree_first: [Module, InTreeReserves],
    module_first: [Module, InTreeCounts, InTreeReserves],
    alternating: [InTreeCounts],
    last_of_many_events: [Module, InTreeReserves],
    refused_open_reserves_nothing: [Module, InTreeCounts, InTreeReserves],
    after_an_event_of_a_cpu: [Module, InTreeCounts, Root],
];

fn open(pmu: &Pmu) -> io::Result<Counter> {
    pmu.event(Event::Instructions).build()
}

/// Expects EBUSY.
pub fn expect_busy(result: io::Result<Counter>, who: &str) -> Result<()> {
    let error = result
        .err()
        .with_context(|| format!("{who} opened an event"))?;
    ensure!(
        error.raw_os_error() == Some(libc::EBUSY),
        "{who}: {error}, expected EBUSY"
    );
    Ok(())
}

/// The module logs one line that names the likely holder of the counters.
fn in_tree_first(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    let mut log = ctx.module_log()?;
    let holder = in_tree.open(Event::Instructions, Mode::User)?;
    expect_busy(open(&pmu), "rust_pmu")?;
    expect_busy(open(&pmu), "rust_pmu")?;
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1,
        "{} lines in the kernel log, expected 1: {lines:?}",
        lines.len()
    );
    ensure!(
        lines[0].contains("watchdog"),
        "the kernel log does not mention the watchdog: {lines:?}"
    );
    drop(holder);
    expect_exact(&pmu, &workload::tight_loop(10_000)).context("after the holder was closed")
}

/// The in-tree driver cannot open an event while rust_pmu has one, and counts exactly afterwards.
fn module_first(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    let holder = pmu.open(Event::Instructions, Mode::User)?;
    expect_busy(open(&in_tree), "the in-tree PMU")?;
    drop(holder);
    expect_exact(&in_tree, &workload::tight_loop(10_000)).context("after the holder was closed")
}

/// The two drivers count exactly in turns, 100 times.
fn alternating(ctx: &Ctx) -> Result<()> {
    let pmus = [ctx.pmu()?, ctx.in_tree()?];
    let workload = workload::branches(1_000);
    for _ in 0..100 {
        for pmu in &pmus {
            expect_exact(pmu, &workload)?;
        }
    }
    Ok(())
}

/// Only closing the last event releases the counters.
fn last_of_many_events(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    let mut events = (0..5).map(|_| open(&pmu)).collect::<io::Result<Vec<_>>>()?;
    while let Some(event) = events.pop() {
        expect_busy(open(&in_tree), "the in-tree PMU")?;
        drop(event);
    }
    open(&in_tree).context("open the in-tree PMU after the last event was closed")?;
    Ok(())
}

/// A refused open reserves nothing.
fn refused_open_reserves_nothing(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    for (first, second) in [(&pmu, &in_tree), (&in_tree, &pmu)] {
        for _ in 0..10 {
            let holder = open(first)?;
            for _ in 0..10 {
                expect_busy(open(second), &second.name)?;
            }
            drop(holder);
        }
    }
    // An open that is refused for another reason reserves nothing either.
    for _ in 0..10 {
        let mut builder = pmu.event(Event::Instructions);
        builder.attrs_mut().set_precise_ip(3);
        ensure!(builder.build().is_err(), "precise_ip=3 was not refused");
    }
    expect_exact(&in_tree, &workload::tight_loop(1_000))
}

/// After an event of a CPU, perf disables and enables the in-tree PMU whenever it schedules pinned
/// events on that CPU, whatever their PMU is. The in-tree driver then runs all counters. It must not
/// while they are ours: a counter that runs while it is programmed counts the kernel's instructions
/// for an event that excludes them.
fn after_an_event_of_a_cpu(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    let cpu = 0;
    let _affinity = Affinity::pinned_to(cpu)?;
    let of_cpu = in_tree
        .event(Event::Instructions)
        .any_pid()
        .one_cpu(cpu)
        .build()?;
    drop(of_cpu);

    let pinned = |mode| {
        let mut event = pmu.event(Event::Instructions);
        event.filter(mode).pinned(true).build()
    };
    let (with_kernel, mut user) = (pinned(Mode::Both)?, pinned(Mode::User)?);
    let workload = workload::tight_loop(10_000);
    for i in 1..=10 {
        workload.measure(&with_kernel)?;
        // The idle task has no events, so that perf schedules this task's events anew.
        sleep(Duration::from_millis(5));
        user.reset()?;
        workload.measure(&user)?;
        let (count, want) = (user.read()?, workload.instructions());
        ensure!(count == want, "{count} in round {i}, expected {want}");
    }
    drop((with_kernel, user));
    expect_exact(&in_tree, &workload).context("the in-tree PMU afterwards")
}
