// SPDX-License-Identifier: GPL-2.0
//! The PMU's registers start with garbage, by `pmu-fault=garbage:SEED`, as firmware or the kernel
//! before a kexec may leave them: counters run, with and without PMIs, and the status says that
//! they have overflowed or are frozen.
//!
//! The module says so if counters run that nobody has reserved. Counts are right. Other suites'
//! tests of counts and samples run after these.

use anyhow::{ensure, Result};
use suites::log::is_from_module;

use super::expect;
use crate::ctx::{Ctx, Test};
use crate::kmsg::{self, Kmsg, Record};
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::{CpuPmu, Event, Mode};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, Msrs, ExactCounts];
    counters_that_run_are_reported,
    all_counters_count,
    nothing_runs_afterwards,
];

/// What the module says when it is loaded.
const REPORT: &str = "[Firmware Bug]: counters count that nobody has reserved";

/// Whether any counter counts.
fn is_counting(msrs: &Msrs, pmu: &PmuMsrs) -> Result<bool> {
    let running = pmu.running(msrs)?;
    let fixed_ctrl = pmu.fixed_ctrl.map_or(Ok(0), |it| msrs.read(it))?;
    let fixed = |i: u32| running & (1 << (32 + i)) != 0 && (fixed_ctrl >> (4 * i)) & 0b11 != 0;
    Ok(!pmu.running_general(msrs)?.is_empty() || (0..4).any(fixed))
}

/// When it is loaded, the module says that counters run, if and only if they do. No event has been opened
/// yet, so that the registers are what the module has found.
fn counters_that_run_are_reported(_: &Ctx) -> Result<()> {
    const EN: u64 = 1 << 22;
    let (msrs, pmu) = (Msrs::of_cpu(0)?, PmuMsrs::of_this_cpu());
    let eventsels = pmu.eventsels.iter().map(|msr| msrs.read(*msr));
    let eventsels = eventsels.collect::<Result<Vec<_>>>()?;
    let enabled = eventsels.iter().filter(|it| **it & EN != 0).count();
    println!(
        "# EVENTSELs {eventsels:x?}, running {:#x}",
        pmu.running(&msrs)?
    );
    ensure!(
        enabled > 0,
        "no counter is enabled: is this the guest for this test?"
    );

    let log = Kmsg::from_boot()?.records()?;
    let reports = log.iter().filter(|it| it.text.contains(REPORT)).count();
    expect(
        "the module",
        "reports",
        reports as u64,
        is_counting(&msrs, &pmu)?.into(),
    )?;
    // Before the module is loaded, the in-tree driver does not claim their PMIs.
    let is_ours = |it: &Record| is_from_module(&it.text);
    let before: Vec<_> = log.into_iter().take_while(|it| !is_ours(it)).collect();
    kmsg::set_judged(&before);
    Ok(())
}

/// Counters of each kind count right, all at once.
fn all_counters_count(ctx: &Ctx) -> Result<()> {
    let cpu = CpuPmu::probe();
    let workload = workload::branches(10_000);
    let mut events = vec![(Event::Branches, Mode::User); cpu.general as usize];
    if cpu.fixed > 0 {
        events.push((Event::Instructions, Mode::User));
    }
    let mut group = ctx.pmu()?.open_group(&events)?;
    for round in 1..=3 {
        workload.measure(&group[0])?;
        for (counter, (event, _)) in group.iter_mut().zip(&events) {
            let once = match event {
                Event::Branches => workload.branches(),
                _ => workload.instructions(),
            };
            expect(event.name(), "events", counter.read()?, round * once)?;
        }
    }
    Ok(())
}

/// When the last event has been closed, no counter counts, and no overflow is in GLOBAL_STATUS.
fn nothing_runs_afterwards(_: &Ctx) -> Result<()> {
    let (msrs, pmu) = (Msrs::of_cpu(0)?, PmuMsrs::of_this_cpu());
    ensure!(
        !is_counting(&msrs, &pmu)?,
        "a counter runs without an event"
    );
    if let Some(status) = pmu.global_status {
        let status = msrs.read(status)? & pmu.all;
        ensure!(status == 0, "GLOBAL_STATUS is {status:#x} without an event");
    }
    Ok(())
}
