// SPDX-License-Identifier: GPL-2.0
//! A register of the PMU changes while counters count, by `pmu-fault=foreign:…`, as firmware, a
//! hypervisor or another driver may write it: in each so many instructions. The counts from then
//! until the event leaves the CPU are lost. The module says so, and later events count right.
//!
//! `foreign_writes.rs` has what is repaired without a loss.

use anyhow::{bail, ensure, Result};
use suites::{Defect, Foreign};

use super::faults::defect;
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Mode, Pmu};
use crate::setting::Affinity;
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [Module, ExactCounts];
    a_loss_is_said,
    later_events_count_right,
];

/// What the module says, once.
pub const REPORT: &str = "someone else has written registers of counters";

/// Which register changes, and after how many instructions.
fn fault(ctx: &Ctx) -> Result<(Foreign, u64)> {
    match defect(ctx) {
        Some(Defect::Foreign { what, every, .. }) => Ok((what, every.get())),
        other => bail!("this test needs a PMU whose registers change, not {other:?}"),
    }
}

/// Measures a workload with a new event. Returns whether the count is right.
fn is_counted_right(pmu: &Pmu, register: Foreign, workload: &Workload) -> Result<bool> {
    // Branches are never on a fixed counter, instructions are if there is one.
    let (event, truth) = match register {
        Foreign::FixedCtrCtrl => (Event::Instructions, workload.instructions()),
        _ => (Event::Branches, workload.branches()),
    };
    let mut counter = pmu.open(event, Mode::User)?;
    workload.measure(&counter)?;
    Ok(counter.read()? == truth)
}

/// The module looks at the registers now and then, so that not every loss is noticed. But one
/// that happens again and again is.
fn a_loss_is_said(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 500;
    let _affinity = Affinity::pinned_to(0)?;
    let (register, every) = fault(ctx)?;
    let pmu = ctx.pmu()?;
    let workload = workload::branches(every);
    ensure!(
        workload.instructions() > 2 * every,
        "the workload is too short"
    );
    let mut log = ctx.module_log()?;
    let mut wrong = 0;
    let mut lines = Vec::new();
    for round in 1..=ROUNDS {
        wrong += usize::from(!is_counted_right(&pmu, register, &workload)?);
        lines.extend(log.lines()?);
        if !lines.is_empty() {
            println!("# {wrong} of {round} counts were wrong until then");
            break;
        }
    }
    ensure!(
        wrong > 0,
        "all counts are right: is this the guest for this test?"
    );
    for _ in 0..10 {
        is_counted_right(&pmu, register, &workload)?;
    }
    lines.extend(log.lines()?);
    ensure!(
        lines.len() == 1 && lines[0].contains(REPORT),
        "{wrong} counts of {ROUNDS} are wrong, and the module says: {lines:?}"
    );
    Ok(())
}

/// Events that are opened after the loss count right. The register changes once at most meanwhile.
fn later_events_count_right(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 20;
    let _affinity = Affinity::pinned_to(0)?;
    let (register, every) = fault(ctx)?;
    let pmu = ctx.pmu()?;
    let workload = workload::branches(every / 1_000);
    let mut right = 0;
    for _ in 0..ROUNDS {
        right += u64::from(is_counted_right(&pmu, register, &workload)?);
    }
    ensure!(right >= ROUNDS - 1, "{right} of {ROUNDS} counts are right");
    Ok(())
}
