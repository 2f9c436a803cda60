// SPDX-License-Identifier: GPL-2.0
//! One set of counters, two drivers: whoever comes first has them, and gives
//! them back with the last event.

use std::io;

use anyhow::{ensure, Context, Result};
use perf_event::Counter;

use super::expect_exact;
use crate::ctx::{skip, Ctx, Test};
use crate::pmu::{CpuPmu, Event, Mode, Pmu};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    in_tree_first,
    module_first,
    by_turns,
    last_of_many_events,
    refusals_hold_nothing,
];

/// The in-tree PMU, where its driver keeps others from the counters that it uses.
fn in_tree(ctx: &Ctx) -> Result<Pmu> {
    // Its registers are then at numbers that the kernel keeps no reservations of.
    if CpuPmu::probe().version >= 6 {
        return skip("from version 6 on the in-tree driver reserves no counters");
    }
    ctx.in_tree()
}

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
        "{who}: {error}, not EBUSY"
    );
    Ok(())
}

/// The module says once, and in one line, who may hold the counters.
fn in_tree_first(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, in_tree(ctx)?);
    let mut log = ctx.module_log()?;
    let holder = in_tree.open(Event::Instructions, Mode::User)?;
    expect_busy(open(&pmu), "rust_pmu")?;
    expect_busy(open(&pmu), "rust_pmu")?;
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1,
        "{} lines in the kernel log: {lines:?}",
        lines.len()
    );
    ensure!(
        lines[0].contains("watchdog"),
        "no hint at the likely holder: {lines:?}"
    );
    drop(holder);
    expect_exact(&pmu, &workload::tight_loop(10_000)).context("after the holder has gone")
}

fn module_first(ctx: &Ctx) -> Result<()> {
    ctx.need_module()?;
    ctx.in_tree_counts()?;
    let (pmu, in_tree) = (ctx.pmu()?, in_tree(ctx)?);
    let holder = pmu.open(Event::Instructions, Mode::User)?;
    expect_busy(open(&in_tree), "the in-tree PMU")?;
    drop(holder);
    expect_exact(&in_tree, &workload::tight_loop(10_000)).context("after the holder has gone")
}

fn by_turns(ctx: &Ctx) -> Result<()> {
    let pmus = [ctx.pmu()?, ctx.in_tree_counts()?];
    let workload = workload::branches(1_000);
    for _ in 0..100 {
        for pmu in &pmus {
            expect_exact(pmu, &workload)?;
        }
    }
    Ok(())
}

/// The counters come back with the last event, not with the first.
fn last_of_many_events(ctx: &Ctx) -> Result<()> {
    ctx.need_module()?;
    let (pmu, in_tree) = (ctx.pmu()?, in_tree(ctx)?);
    let mut events = (0..5).map(|_| open(&pmu)).collect::<io::Result<Vec<_>>>()?;
    while let Some(event) = events.pop() {
        expect_busy(open(&in_tree), "the in-tree PMU")?;
        drop(event);
    }
    open(&in_tree).context("in-tree after the last event")?;
    Ok(())
}

/// A refused open leaves nothing reserved.
fn refusals_hold_nothing(ctx: &Ctx) -> Result<()> {
    ctx.need_module()?;
    ctx.in_tree_counts()?;
    let (pmu, in_tree) = (ctx.pmu()?, in_tree(ctx)?);
    for (first, second) in [(&pmu, &in_tree), (&in_tree, &pmu)] {
        for _ in 0..10 {
            let holder = open(first)?;
            for _ in 0..10 {
                expect_busy(open(second), &second.name)?;
            }
            drop(holder);
        }
    }
    // A refusal for another reason leaves nothing reserved either.
    for _ in 0..10 {
        let mut builder = pmu.event(Event::Instructions);
        builder.attrs_mut().set_precise_ip(3);
        ensure!(builder.build().is_err(), "precise_ip=3");
    }
    expect_exact(&in_tree, &workload::tight_loop(1_000))
}
