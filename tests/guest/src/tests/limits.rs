// SPDX-License-Identifier: GPL-2.0
//! What stops an event at an overflow, or keeps the overflow from being recorded, on each of the module's PMUs: the
//! limit of PERF_EVENT_IOC_REFRESH, throttling, `sigtrap`, and a BPF program that returns 0. None of them
//! changes a period.
//!
//! sampling.rs, delivery.rs and clock_icount.rs have those of rust_pmu and rust_clock that are not here.

use std::os::fd::AsRawFd;

use anyhow::{ensure, Context, Result};
use perf_event::data::Record;
use perf_event::{Builder, Counter, SampleFlag, Sampler};
use perf_event_open_sys::ioctls;

use super::sampling::{drain, for_each_record, for_each_sample, open, RING};
use super::{expect, find_undisturbed};
use crate::bpf::{OverflowCounter, Overflows};
use crate::clocks::{busy_until, event, sampler, Clock, Clocks, RUST_CLOCK};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Pmu};
use crate::setting::SampleRate;
use crate::signals::{Rearming, Traps};
use crate::tests;
use crate::trace;
use crate::workload;

/// rust_pmu and rust_trace.
pub const TESTS: &[Test] = tests![
    signals_enable_again: [ExactCounts, ZeroSkid],
    filtered_samples_are_not_limited: [ExactCounts, ZeroSkid, Root],
    trace_signals_enable_again: [Module, Root, TracePoints],
    trace_samples_are_filtered: [Module, Root, TracePoints],
    trace_traps: [Module, Root, TracePoints],
];

/// rust_trace, where one hit is many counts.
pub const TRACE: &[Test] = tests![
    all need [Module, Root, TracePoints];
    trace_throttled_again_and_again: [Btf],
];

/// rust_clock.
pub const CLOCK: &[Test] = tests![
    all need [Icount];
    clock_signals_enable_again,
    clock_samples_are_filtered: [Root],
    clock_traps,
];

/// How often a signal enables an event again.
const SIGNALS: usize = 100;

/// Enables an event for one more sample, of the samples that its limit counts.
fn refresh(event: &Counter) -> Result<()> {
    // SAFETY: the event is open, and the argument is a number.
    let status = unsafe { ioctls::REFRESH(event.as_raw_fd(), 1) };
    ensure!(status == 0, "REFRESH: {}", std::io::Error::last_os_error());
    Ok(())
}

/// The signal of an event's last sample enables it for as many again: at each signal the count is whole
/// periods, one for each sample. With one sample at a time, and with three.
fn signals_enable_again(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    for samples in [1, 3] {
        let mut sampler = open(pmu.event(Event::Instructions).sample_period(PERIOD))?;
        let rearming = Rearming::start(&sampler, samples, SIGNALS)?;
        // The handler's instructions count as well.
        workload::tight_loop(SIGNALS as u64 * u64::from(samples) * PERIOD).run();
        let counts = rearming.counts();
        drop(rearming);
        expect("at the end", "signals", counts.len() as u64, SIGNALS as u64)?;
        for (count, signal) in counts.into_iter().zip(1..) {
            let what = format!("signal {signal} after {samples} samples");
            expect(
                &what,
                "instructions",
                count,
                signal * u64::from(samples) * PERIOD,
            )?;
        }
        drain(&mut sampler)?.expect("in total", SIGNALS as u64 * u64::from(samples))?;
    }
    Ok(())
}

/// Samples that a BPF program discards do not count for the limit of PERF_EVENT_IOC_REFRESH: the event
/// goes on, with a whole number of periods.
fn filtered_samples_are_not_limited(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let mut sampler = open(ctx.pmu()?.event(Event::Instructions).sample_period(PERIOD))?;
    let program = OverflowCounter::load(false)?;
    sampler.set_bpf(program.as_raw_fd()).context("SET_BPF")?;
    let workload = workload::tight_loop(1_000_000);
    refresh(&sampler)?;
    workload.measure(&*sampler)?;
    let count = sampler.read()?;
    ensure!(
        count >= workload.instructions(),
        "{count} instructions: the event was stopped"
    );
    expect_filtered(&program, count / PERIOD, PERIOD)?;
    drain(&mut sampler)?.expect("discarded", 0)
}

/// Checks what a BPF program saw.
fn expect_filtered(program: &OverflowCounter, number: u64, period: u64) -> Result<()> {
    let want = Overflows {
        number,
        periods: number * period,
    };
    let got = program.read()?;
    ensure!(got == want, "the program saw {got:?}, expected {want:?}");
    Ok(())
}

/// Checks that the ring buffer has this many samples, and nothing else.
fn expect_samples(sampler: &mut Sampler, want: u64) -> Result<()> {
    let mut samples = 0;
    for_each_sample(sampler, |_| {
        samples += 1;
        Ok(())
    })?;
    expect("in the ring buffer", "samples", samples, want)
}

/// Hits a trace point of [`renames`].
fn rename() {
    // SAFETY: the name is a string.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"renamed".as_ptr()) };
}

/// An event of rust_trace that is hit by each change of a thread's name.
fn renames(period: u64) -> Result<Builder<'static>> {
    let mut builder = trace::Event::rust("task_rename")?.builder();
    // With PERIOD in its samples perf would take one at each hit.
    builder.sample_period(period).sample(SampleFlag::TID);
    Ok(builder)
}

/// The signal of an event's last sample enables it for as many again: at each signal the count is whole
/// periods, one for each sample, and no hit is missing.
fn trace_signals_enable_again(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 7;
    for samples in [1, 3] {
        let mut sampler = renames(PERIOD)?.build()?.sampled(RING)?;
        let rearming = Rearming::start(&sampler, samples, SIGNALS)?;
        let hits = SIGNALS as u64 * u64::from(samples) * PERIOD;
        (0..hits).for_each(|_| rename());
        let counts = rearming.counts();
        drop(rearming);
        expect("at the end", "signals", counts.len() as u64, SIGNALS as u64)?;
        for (count, signal) in counts.into_iter().zip(1..) {
            let what = format!("signal {signal} after {samples} samples");
            expect(&what, "hits", count, signal * u64::from(samples) * PERIOD)?;
        }
        expect_samples(&mut sampler, SIGNALS as u64 * u64::from(samples))?;
    }
    Ok(())
}

/// A BPF program sees each period, and what it discards is neither recorded nor limited.
fn trace_samples_are_filtered(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 7;
    let mut sampler = renames(PERIOD)?.build()?.sampled(RING)?;
    let program = OverflowCounter::load(false)?;
    sampler.set_bpf(program.as_raw_fd()).context("SET_BPF")?;
    refresh(&sampler)?;
    (0..1_000).for_each(|_| rename());
    expect("counted", "hits", sampler.read()?, 1_000)?;
    expect_filtered(&program, 1_000 / PERIOD, PERIOD)?;
    expect_samples(&mut sampler, 0)
}

/// With `sigtrap` each period ends with a SIGTRAP, before the system call that hits the trace point returns.
fn trace_traps(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 7;
    let mut builder = renames(PERIOD)?;
    let mut event = builder.remove_on_exec(true).sigtrap(true).build()?;
    let traps = Traps::start()?;
    event.enable()?;
    for hit in 1..=1_000 {
        rename();
        expect("so far", "traps", traps.number(), hit / PERIOD)?;
    }
    event.disable()?;
    expect("counted", "hits", event.read()?, 1_000)
}

/// `sched_stat_runtime` counts nanoseconds, so that one hit ends many periods and perf throttles the
/// event. It goes on after each tick, wherever the task was switched meanwhile.
fn trace_throttled_again_and_again(_: &Ctx) -> Result<()> {
    const TIMES: u64 = 50;
    let _rate = SampleRate::fixed(5_000)?;
    let mut builder = trace::Event::rust("sched_stat_runtime")?.builder();
    let builder = builder.sample_period(10_000).sample(SampleFlag::TID);
    let mut sampler = builder.build()?.sampled(RING)?;
    let (mut throttled, mut unthrottled) = (0, 0);
    sampler.enable()?;
    for _ in 0..100 * TIMES {
        workload::tight_loop(1_000_000).run();
        for_each_record(&mut sampler, |record| {
            match record {
                Record::Throttle(_) => throttled += 1,
                Record::Unthrottle(_) => unthrottled += 1,
                _ => {}
            }
            Ok(())
        })?;
        if throttled >= TIMES {
            break;
        }
    }
    ensure!(
        throttled >= TIMES && throttled - unthrottled <= 1,
        "throttled {throttled} times, and unthrottled {unthrottled} times"
    );
    Ok(())
}

/// The periods of a clock that have passed. The timer's clock and that of the count may drift apart a
/// little.
fn periods(count: u64, period: u64) -> u64 {
    (count + period / 4) / period
}

/// The signal of each sample enables an event again: at each signal one more period has been counted, as
/// with the in-tree clocks. Other signals would come early, or at once.
fn clock_signals_enable_again(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 500_000;
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        for pmu in clocks.both() {
            let what = format!("{}, {clock:?}", pmu.name);
            let event = event(pmu, clock).sample_period(PERIOD).build()?;
            let rearming = Rearming::start(&event, 1, SIGNALS)?;
            while !rearming.is_done() {
                workload::tight_loop(1_000).run();
            }
            let counts = rearming.counts();
            for (count, signal) in counts.into_iter().zip(1..) {
                let what = format!("{what}, signal {signal}, {count} ns");
                expect(&what, "periods", periods(count, PERIOD), signal)?;
            }
        }
    }
    Ok(())
}

/// Runs until an event has counted some periods and a half. Returns its count if the kernel had no other
/// work to do in the end, so that no further sample was due.
fn count_periods(event: &mut Counter, period: u64, number: u64) -> Result<Option<u64>> {
    let ns = number * period + period / 2;
    event.enable()?;
    busy_until(event, ns)?;
    event.disable()?;
    let count = event.read()?;
    Ok((count - ns < period * 9 / 20).then_some(count))
}

/// Calls `test` for each clock of both PMUs until it returns a result: nothing has disturbed it.
fn for_each_clock(test: impl Fn(&Pmu, Clock) -> Result<Option<u64>>, want: u64) -> Result<()> {
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        for pmu in clocks.both() {
            let number = find_undisturbed(|| test(pmu, clock))?;
            let what = format!("{}, {clock:?}", pmu.name);
            expect(&what, "overflows", number, want)?;
        }
    }
    ensure!(clocks.ours.name == RUST_CLOCK, "{}", clocks.ours.name);
    Ok(())
}

/// A BPF program sees each period of the clocks, and what it discards is neither recorded nor limited.
fn clock_samples_are_filtered(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 500_000;
    let test = |pmu: &Pmu, clock| {
        let mut builder = event(pmu, clock);
        let mut sampler = sampler(builder.sample_period(PERIOD), SampleFlag::TID)?;
        let program = OverflowCounter::load(false)?;
        sampler.set_bpf(program.as_raw_fd()).context("SET_BPF")?;
        refresh(&sampler)?;
        let alone = count_periods(&mut sampler, PERIOD, 50)?;
        expect_samples(&mut sampler, 0)?;
        let number = program.read()?.number;
        Ok(alone.map(|_| number))
    };
    for_each_clock(test, 50)
}

/// With `sigtrap` each period of the clocks ends with a SIGTRAP.
fn clock_traps(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 500_000;
    let test = |pmu: &Pmu, clock| {
        let mut builder = event(pmu, clock);
        let builder = builder.sample_period(PERIOD).remove_on_exec(true);
        let mut event = builder.sigtrap(true).build()?;
        let traps = Traps::start()?;
        let alone = count_periods(&mut event, PERIOD, 50)?;
        Ok(alone.map(|_| traps.number()))
    };
    for_each_clock(test, 50)
}
