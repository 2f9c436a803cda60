// SPDX-License-Identifier: GPL-2.0
//! Corner cases of overflows: several counters at once, while an event is being
//! stopped, on every instruction, and periods wider than the counter.

use std::io;
use std::os::fd::AsRawFd;

use anyhow::{ensure, Context, Result};
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use perf_event_open_sys::ioctls;

use super::sampling::{drain, open, record, sampler, set_period, with_sample_rate, RING};
use super::{expect, expect_count, expect_exact, interrupts, kernel_period};
use crate::ctx::{Ctx, Test};
use crate::pmu::{BuilderExt, Event, Mode, Pmu};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [ExactCounts, ZeroSkid];
    three_at_once: [General(3)],
    in_the_last_instructions,
    while_disabling,
    while_closing,
    while_switching,
    every_instruction: [Module],
    small_periods,
    long_periods_shortened,
];

/// The tests whose outcome may depend on the generation of the hardware.
pub const QUICK: &[Test] = tests![
    all need [ExactCounts, ZeroSkid];
    three_at_once: [General(3)],
    in_the_last_instructions,
    while_disabling,
    while_switching,
    every_instruction: [Module],
    small_periods,
    long_periods_shortened,
];

/// The tests whose outcome may depend on the width of the counters.
pub const WIDTH: &[Test] = tests![
    all need [ExactCounts, ZeroSkid];
    small_periods,
    long_periods_shortened,
    longer_than_the_counter: [General(2), WidthAtMost(32)],
];

/// More instructions than the kernel runs to disable or close an event.
const DISABLE_INSTRUCTIONS: u64 = 1_500;
/// A maximum sample rate that no period exceeds.
const UNLIMITED: u64 = 1_000_000_000;

/// Three counters that overflow on the same instruction share one NMI and give a
/// sample each.
fn three_at_once(ctx: &Ctx) -> Result<()> {
    const N: u64 = 100_000;
    const PERIOD: u64 = 4_001;
    let pmu = ctx.pmu()?;
    let workload = workload::block(N);
    let mut leader = sampler(&pmu, Event::Instructions, PERIOD)?;
    let mut members = Vec::new();
    for _ in 0..2 {
        let flags = SampleFlag::IP | SampleFlag::TID | SampleFlag::CPU | SampleFlag::PERIOD;
        let member = pmu
            .event(Event::Instructions)
            .sample_period(PERIOD)
            .enabled(true)
            .sample(flags)
            .build_with_group(&mut *leader)?;
        members.push(member.sampled(RING)?);
    }
    let before = interrupts("NMI")?;
    let (records, count) = record(&mut leader, &workload)?;
    let nmis = interrupts("NMI")? - before;
    expect_count(&workload, count)?;
    expect("one for all three events", "NMIs", nmis, count / PERIOD)?;
    let mut all = vec![records];
    for member in &mut members {
        expect("group member", "instructions", member.read()?, count)?;
        all.push(drain(member)?);
    }
    for records in all {
        records.expect("each event", count / PERIOD)?;
        for (sample, k) in records.samples.iter().zip(1..) {
            let want = workload::block_ip(N, k * PERIOD).context("a sample after the loop")?;
            expect("sample", "as IP", sample.ip, want)?;
        }
    }
    Ok(())
}

/// An event that samples user and kernel mode, first with a period that is too
/// long to end.
fn both_sides(pmu: &Pmu, event: Event) -> Result<Sampler> {
    let mut builder = pmu.event(event);
    open(builder.filter(Mode::Both).sample_period(1 << 40))
}

/// The period ends on one of the last user instructions, or shortly after them.
fn in_the_last_instructions(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(1_000);
    let total = workload.instructions();
    let mut sampler = sampler(&ctx.pmu()?, Event::Instructions, total)?;
    for period in total - 20..=total + 20 {
        set_period(&sampler, period)?;
        sampler.reset()?;
        let (records, count) = record(&mut sampler, &workload)?;
        expect(&format!("period {period}"), "instructions", count, total)?;
        records.expect(&format!("period {period} of {total}"), total / period)?;
    }
    Ok(())
}

/// The period ends on each of the kernel instructions that disable the event, in
/// turn. However late the overflow is, there is a sample.
fn while_disabling(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    // The periods must be longer than the counted part of an NMI, or each NMI
    // would cause the next.
    let workload = workload::tight_loop(5_000);
    for event in [Event::Instructions, Event::Branches] {
        let mut sampler = both_sides(&pmu, event)?;
        let mut total = u64::MAX;
        for _ in 0..20 {
            sampler.reset()?;
            workload.measure(&*sampler)?;
            total = total.min(sampler.read()?);
        }
        let mut outlived = false;
        for period in total - DISABLE_INSTRUCTIONS..total + 20 {
            set_period(&sampler, period)?;
            sampler.reset()?;
            let (records, count) = record(&mut sampler, &workload)?;
            let what = format!("{} of {count}, period {period}", event.name());
            records.expect(&what, count / period)?;
            outlived |= count < period;
        }
        // The longest periods must end after the event was disabled.
        ensure!(outlived, "no period outlasted the event");
    }
    Ok(())
}

/// The period ends on each of the kernel instructions that close a running event,
/// in turn. A closed event cannot be read, so the test searches for the longest
/// period that still gives a sample.
fn while_closing(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    // A buffer of the event's own would keep it open.
    let mut buffer = open(&mut Builder::new(Software::DUMMY))?;
    let mut samples = |period| -> Result<u64> {
        let mut event = pmu
            .event(Event::Instructions)
            .filter(Mode::Both)
            .sample_period(period)
            .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::CPU | SampleFlag::PERIOD)
            .build()?;
        // SAFETY: both descriptors are open events, and the kernel accesses no
        // memory of ours.
        let status = unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), buffer.as_raw_fd()) };
        ensure!(status == 0, "SET_OUTPUT: {}", io::Error::last_os_error());
        event.enable()?;
        workload::around_close(event, 5_000).run();
        Ok(drain(&mut buffer)?.samples.len() as u64)
    };
    // An interrupt may add instructions, on a busy host in most attempts, but not in all of these.
    let mut ends_before = |period| -> Result<bool> {
        for _ in 0..50 {
            if samples(period)? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let (mut inside, mut outside) = (10_000, 500_000);
    ensure!(ends_before(inside)?, "no sample of period {inside}");
    ensure!(!ends_before(outside)?, "a sample of period {outside}");
    while outside - inside > 1 {
        let middle = (inside + outside) / 2;
        if ends_before(middle)? {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    // No overflow is lost while the event is being closed.
    for period in inside - DISABLE_INSTRUCTIONS..=inside {
        ensure!(
            samples(period)? > 0,
            "no sample of period {period}, but one of {inside}"
        );
    }
    // The closed events have left nothing behind.
    expect_exact(&pmu, &workload::tight_loop(1_000))
}

/// The period ends anywhere in a context switch to another task and back.
fn while_switching(ctx: &Ctx) -> Result<()> {
    let mut sampler = both_sides(&ctx.pmu()?, Event::Instructions)?;
    let workload = workload::around_sleep(1, 10);
    for period in (2_000..6_000).step_by(7) {
        let period = kernel_period(period);
        set_period(&sampler, period)?;
        sampler.reset()?;
        let (records, count) = record(&mut sampler, &workload)?;
        records.expect(&format!("period {period} of {count}"), count / period)?;
    }
    Ok(())
}

/// Period 1 gives a sample for each instruction, with the address of the next. The
/// in-tree driver rounds period 1 up to 2.
fn every_instruction(ctx: &Ctx) -> Result<()> {
    const N: u64 = 100;
    with_sample_rate(UNLIMITED, || {
        let workload = workload::block(N);
        let mut sampler = sampler(&ctx.pmu()?, Event::Instructions, 1)?;
        let (records, count) = record(&mut sampler, &workload)?;
        expect(
            "every instruction",
            "instructions",
            count,
            workload.instructions(),
        )?;
        records.expect("every instruction", count)?;
        for (sample, k) in records.samples.iter().zip(1..) {
            if let Some(want) = workload::block_ip(N, k) {
                expect("sample", "as IP", sample.ip, want)?;
            }
        }
        Ok(())
    })
}

/// Periods of 2 to 20 instructions have all their samples, each with the right address.
fn small_periods(ctx: &Ctx) -> Result<()> {
    const N: u64 = 200;
    let pmu = ctx.pmu()?;
    let workload = workload::block(N);
    with_sample_rate(UNLIMITED, || {
        for period in 2..=20 {
            let mut sampler = sampler(&pmu, Event::Instructions, period)?;
            let (records, count) = record(&mut sampler, &workload)?;
            expect(
                "small period",
                "instructions",
                count,
                workload.instructions(),
            )?;
            records.expect(&format!("period {period}"), count / period)?;
            for (sample, k) in records.samples.iter().zip(1..) {
                if let Some(want) = workload::block_ip(N, k * period) {
                    expect("sample", "as IP", sample.ip, want)?;
                }
            }
        }
        Ok(())
    })
}

/// Periods too long to end give no sample. If the period is shortened meanwhile,
/// the new one starts at that moment.
fn long_periods_shortened(ctx: &Ctx) -> Result<()> {
    const N: u64 = 50_000;
    const PERIOD: u64 = 1_009;
    let pmu = ctx.pmu()?;
    for long in [
        (1 << 31) - 1,
        1 << 31,
        (1 << 31) + 1,
        (1 << 32) - 1,
        (1 << 32) + 5,
        1 << 39,
        1 << 40,
        1 << 47,
        (1 << 48) + 1,
        (1 << 63) - 1,
    ] {
        let mut sampler = sampler(&pmu, Event::Instructions, long)?;
        let workload = workload::around_new_period(&*sampler, PERIOD, N);
        let (records, count) = record(&mut sampler, &workload)?;
        let what = format!("period {long}, then {PERIOD}");
        expect(&what, "instructions", count, workload.instructions())?;
        records.expect(&what, workload::after_call(N) / PERIOD)?;
    }
    Ok(())
}

/// A period longer than the range of the counter takes several overflows, and only
/// the last gives a sample. A count longer than the range is exact, too.
fn longer_than_the_counter(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = (1 << 32) + 5;
    const N: u64 = PERIOD / 15 + 1_000;
    let mut sampler = sampler(&ctx.pmu()?, Event::Instructions, PERIOD)?;
    let mut counter = ctx
        .pmu()?
        .event(Event::Instructions)
        .enabled(true)
        .build_with_group(&mut *sampler)?;
    let workload = workload::block(N);
    let (records, count) = record(&mut sampler, &workload)?;
    expect("sampling", "instructions", count, workload.instructions())?;
    expect("counting", "instructions", counter.read()?, count)?;
    records.expect("long period", 1)?;
    let want = workload::block_ip(N, PERIOD).context("a sample after the loop")?;
    expect("sample", "as IP", records.samples[0].ip, want)
}
