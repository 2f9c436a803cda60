// SPDX-License-Identifier: GPL-2.0
//! A group of generic hardware events and software events, as perf tutorials open
//! it. It is enabled, disabled and read as a whole.

use std::time::Instant;

use anyhow::{ensure, Context, Result};
use perf_event::events::Software;
use perf_event::{Builder, Counter, ReadFormat};
use perf_event_open_sys::bindings::{PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CPU_CYCLES};

use super::{alone, expect};
use crate::ctx::{Ctx, Test};
use crate::generic_events::PERF_TYPE_HARDWARE;
use crate::pmu::Pmu;
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [General(2), EmulatedPmu];
    group_of_all_kinds,
    group_with_page_faults,
];

/// The events of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Cycles,
    CacheMisses,
    PageFaults,
    CpuClock,
    TaskClock,
}

use Member::*;

/// The order of the tutorials. The tests also use its rotations.
const GROUP: [Member; 5] = [Cycles, CacheMisses, PageFaults, CpuClock, TaskClock];

impl Member {
    /// The event of the calling thread, disabled. A generic hardware event is that of the PMU.
    fn builder(self, pmu: &Pmu) -> Result<Builder<'static>> {
        let hardware = |event: u32| pmu.generic(PERF_TYPE_HARDWARE, event.into());
        let software = |event| {
            let mut builder = Builder::new(event);
            builder.include_kernel();
            Ok(builder)
        };
        match self {
            Cycles => hardware(PERF_COUNT_HW_CPU_CYCLES),
            CacheMisses => hardware(PERF_COUNT_HW_CACHE_MISSES),
            PageFaults => software(Software::PAGE_FAULTS),
            CpuClock => software(Software::CPU_CLOCK),
            TaskClock => software(Software::TASK_CLOCK),
        }
    }

    /// The count of the event outside of a group.
    fn by_itself(self, pmu: &Pmu, workload: impl Fn() -> Result<Workload>) -> Result<u64> {
        let mut counter = self.builder(pmu)?.build()?;
        alone(|| {
            let workload = workload()?;
            counter.reset()?;
            workload.measure(&counter)
        })?;
        Ok(counter.read()?)
    }
}

/// Opens the group in the given order, measures it, and reads it with one read().
fn measure(
    pmu: &Pmu,
    order: &[Member],
    workload: impl Fn() -> Result<Workload>,
) -> Result<Vec<u64>> {
    let format = ReadFormat::GROUP
        | ReadFormat::ID
        | ReadFormat::TOTAL_TIME_ENABLED
        | ReadFormat::TOTAL_TIME_RUNNING;
    let mut group: Vec<Counter> = Vec::new();
    for member in order {
        let mut builder = member.builder(pmu)?;
        builder.read_format(format);
        let counter = match group.first_mut() {
            None => builder.build(),
            Some(leader) => builder.build_with_group(leader),
        };
        group.push(counter.with_context(|| format!("open {member:?} in {order:?}"))?);
    }
    let (leader, members) = group.split_first_mut().context("an empty group")?;
    let mut outside = 0;
    alone(|| {
        let workload = workload()?;
        leader.reset_group()?;
        let start = Instant::now();
        workload.measure_group(&*leader)?;
        outside = start.elapsed().as_nanos() as u64;
        Ok(())
    })?;
    let data = leader.read_group()?;
    ensure!(
        data.time_running() == data.time_enabled(),
        "the group was multiplexed: {data:?}"
    );
    expect("in the group", "values", data.len() as u64, 5)?;
    let values: Vec<u64> = std::iter::once(&*leader)
        .chain(&*members)
        .map(|counter| Ok(data.get(counter).context("no value with this id")?.value()))
        .collect::<Result<_>>()?;
    for (member, value) in order.iter().zip(&values) {
        if [CpuClock, TaskClock].contains(member) {
            ensure!(
                (1..=outside).contains(value),
                "{member:?}: {value} ns, expected 1 to {outside} ns"
            );
        }
    }
    Ok(values)
}

/// The orders of the group, each with another leader.
fn orders() -> impl Iterator<Item = Vec<Member>> {
    (0..GROUP.len()).map(|first| {
        let mut order = GROUP.to_vec();
        order.rotate_left(first);
        order
    })
}

/// Hardware events count the same in the group as outside of it.
fn group_of_all_kinds(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let periods = || Ok(workload::whole_periods(50));
    let workload = periods()?;
    let truth = |member: Member| match member {
        // By the model's formulas.
        Cycles => Some(workload.instructions() + 15 * (workload.branches() / 64) + 100 * 50),
        CacheMisses => Some(50),
        PageFaults => Some(0),
        CpuClock | TaskClock => None,
    };
    for member in GROUP {
        if let Some(truth) = truth(member) {
            let what = format!("{member:?} alone");
            let count = member.by_itself(&pmu, periods)?;
            expect(&what, "events", count, truth)?;
        }
    }
    for order in orders() {
        let values = measure(&pmu, &order, periods)?;
        for (member, value) in order.iter().zip(values) {
            if let Some(truth) = truth(*member) {
                let what = format!("{member:?} in {order:?}");
                expect(&what, "events", value, truth)?;
            }
        }
    }
    Ok(())
}

/// With page faults, too, events count the same in the group as outside of it. The workload is no
/// multiple of the derived events' steps, so their counts may differ by one step.
fn group_with_page_faults(ctx: &Ctx) -> Result<()> {
    const PAGES: u64 = 300;
    let pmu = ctx.pmu()?;
    let touch = || workload::touch(PAGES);
    for order in orders() {
        let values = measure(&pmu, &order, touch)?;
        for (member, value) in order.iter().zip(values) {
            let step = match member {
                // One mispredicted branch and one cache miss.
                Cycles => 15 + 100,
                CacheMisses => 1,
                PageFaults => 0,
                CpuClock | TaskClock => continue,
            };
            let by_itself = member.by_itself(&pmu, touch)?;
            ensure!(
                value.abs_diff(by_itself) <= step,
                "{member:?} in {order:?}: {value}, but {by_itself} alone"
            );
            if *member == PageFaults {
                expect("in the group", "page faults", value, PAGES)?;
            }
        }
    }
    Ok(())
}
