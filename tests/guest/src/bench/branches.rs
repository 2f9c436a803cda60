// SPDX-License-Identifier: GPL-2.0
//! Operations with branch records.

use anyhow::Result;
use perf_event::{Builder, Counter, SampleBranchFlag, SampleFlag, Sampler};

use super::operations::{repeated, switch, Child, Operation, SAMPLES};
use super::Window;
use crate::pmu::{BuilderExt, Event, Mode, Pmu};
use crate::tests::sampling::RING;
use crate::workload::{self, Workload};

/// The depths of the calls that tasks are in while they are switched.
const DEPTHS: [u64; 2] = [4, 32];

/// The operations, in the order of the table.
pub fn all(has_call_stacks: bool) -> Vec<Operation> {
    let mut all = vec![
        Operation::new(
            "switch between two tasks with branch stacks",
            100,
            |pmu, times| {
                switch(
                    times,
                    || open(pmu, SampleBranchFlag::ANY, u64::MAX >> 1),
                    true,
                )
            },
        ),
        Operation::new(
            "switch, only one of the two has a branch stack",
            100,
            |pmu, times| {
                switch(
                    times,
                    || open(pmu, SampleBranchFlag::ANY, u64::MAX >> 1),
                    false,
                )
            },
        ),
    ];
    let depths = if has_call_stacks { &DEPTHS[..] } else { &[] };
    for &depth in depths {
        for (both, name) in [
            (true, "switch between two tasks in so many calls"),
            (false, "switch, only the task in so many calls has an event"),
        ] {
            all.push(Operation::new(
                format!("{name}: {depth}"),
                100,
                move |pmu, times| switch_call_stacks(pmu, times, depth, both),
            ));
        }
    }
    all.push(Operation::new(
        "PMI with a full branch stack",
        SAMPLES,
        |pmu, times| samples(pmu, times, SampleBranchFlag::ANY),
    ));
    // Only Intel's CPUs can be asked for transactions. There are none, and nothing else is recorded.
    if has_call_stacks {
        all.push(Operation::new(
            "PMI with an empty branch stack",
            SAMPLES,
            |pmu, times| samples(pmu, times, SampleBranchFlag::IN_TX),
        ));
    }
    all
}

/// An event of the calling task that samples branches in user mode, enabled.
fn builder(pmu: &Pmu, branches: SampleBranchFlag, period: u64) -> Builder<'static> {
    let mut builder = pmu.event(Event::Instructions);
    builder
        .filter(Mode::User)
        .sample_period(period)
        .sample(SampleFlag::IP | SampleFlag::BRANCH_STACK)
        .branch_sample_type(branches | SampleBranchFlag::USER)
        .enabled(true);
    builder
}

/// Opens an event with branches. Without a PMU there is none.
fn open(pmu: Option<&Pmu>, branches: SampleBranchFlag, period: u64) -> Result<Option<Counter>> {
    let open = |pmu| -> Result<Counter> { Ok(builder(pmu, branches, period).build()?) };
    pmu.map(open).transpose()
}

/// Switches while a task is in so many calls, each of which its branch records have.
fn switch_call_stacks(
    pmu: Option<&Pmu>,
    times: u32,
    depth: u64,
    both: bool,
) -> Result<Option<Window>> {
    let open = || open(pmu, SampleBranchFlag::CALL_STACK, u64::MAX >> 1);
    let _other = Child::fork(open, |_event, _| workload::yield_in_calls(depth, u64::MAX))?;
    let _event = both.then(open).transpose()?;
    repeated(1, || workload::yield_in_calls(depth, u64::from(times) / 2))
}

/// Samples of instructions in user mode.
fn samples(pmu: Option<&Pmu>, times: u32, branches: SampleBranchFlag) -> Result<Option<Window>> {
    const PERIOD: u64 = 20_000;
    let sampler =
        |pmu| -> Result<Sampler> { Ok(builder(pmu, branches, PERIOD).build()?.sampled(RING)?) };
    let _sampler = pmu.map(sampler).transpose()?;
    // A loop of two instructions.
    let periods: Workload = workload::tight_loop(PERIOD * u64::from(times) / 2);
    repeated(1, || {
        periods.run();
        Ok(())
    })
}
