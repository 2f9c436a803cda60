// SPDX-License-Identifier: GPL-2.0
//! Bounds of counts that hold on any CPU. A CPU may count an instruction more for each interrupt and
//! page fault, and a sample may come some instructions late.

use anyhow::{ensure, Result};
use perf_event::SampleFlag;

use super::expect;
use super::sampling::{for_each_sample, RING};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Mode};
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [Counters];
    no_instruction_is_missed,
    few_instructions_too_many,
    no_branch_is_missed,
    cycles_for_instructions,
    nothing_while_disabled,
    samples_of_all_periods,
];

/// How often a workload is measured.
const ATTEMPTS: usize = 50;

/// Counts of an event in user mode.
fn counts(ctx: &Ctx, event: Event, workload: &Workload) -> Result<Vec<u64>> {
    let mut counter = ctx.pmu()?.open(event, Mode::User)?;
    let mut measure = || -> Result<u64> {
        counter.reset()?;
        workload.measure(&counter)?;
        Ok(counter.read()?)
    };
    (0..ATTEMPTS).map(|_| measure()).collect()
}

/// Checks that no count is lower.
fn expect_at_least(counts: &[u64], least: u64, unit: &str) -> Result<()> {
    for count in counts {
        ensure!(*count >= least, "{count} {unit}, at least {least} retired");
    }
    Ok(())
}

/// Of loops, system calls and page faults, each of 50 counts of instructions in user mode has
/// all that retired.
fn no_instruction_is_missed(ctx: &Ctx) -> Result<()> {
    for workload in [
        workload::tight_loop(100_000),
        workload::block(10_000),
        workload::syscalls(1_000),
        workload::touch(100)?,
    ] {
        let counts = counts(ctx, Event::Instructions, &workload)?;
        expect_at_least(&counts, workload.instructions(), workload.name())?;
    }
    Ok(())
}

/// The least of 50 counts of a loop's instructions exceeds them by a thousandth at most.
fn few_instructions_too_many(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(100_000);
    let counts = counts(ctx, Event::Instructions, &workload)?;
    let (least, retired) = (counts.iter().min(), workload.instructions());
    let limit = retired + retired / 1000;
    ensure!(
        least.is_some_and(|least| *least <= limit),
        "{least:?} instructions, {retired} retired"
    );
    Ok(())
}

/// Each of 50 counts of a loop's branches in user mode has all that retired.
fn no_branch_is_missed(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 100_000;
    let counts = counts(ctx, Event::Branches, &workload::tight_loop(ROUNDS))?;
    expect_at_least(&counts, ROUNDS, "branches")
}

/// A loop takes at least a cycle for each 16 instructions, more than any CPU retires in one.
fn cycles_for_instructions(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(100_000);
    let counts = counts(ctx, Event::CpuCycles, &workload)?;
    expect_at_least(&counts, workload.instructions() / 16, "cycles")
}

/// A loop that runs while the event is disabled does not change the count.
fn nothing_while_disabled(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(100_000);
    let mut counter = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    workload.measure(&counter)?;
    let before = counter.read()?;
    workload.run();
    expect("while disabled", "instructions", counter.read()?, before)
}

/// A loop of 100 million instructions gives a sample for each million that is counted, but for one.
fn samples_of_all_periods(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_000_000;
    let pmu = ctx.pmu()?;
    let mut event = pmu.event(Event::Instructions);
    event.sample_period(PERIOD).sample(SampleFlag::IP);
    let mut sampler = event.build()?.sampled(RING)?;
    workload::tight_loop(50 * PERIOD).measure(&sampler)?;
    let count = sampler.read()?;
    let mut samples = 0_u64;
    for_each_sample(&mut sampler, |_| {
        samples += 1;
        Ok(())
    })?;
    ensure!(
        samples.abs_diff(count / PERIOD) <= 1,
        "{samples} samples of {PERIOD} in {count} instructions"
    );
    Ok(())
}
