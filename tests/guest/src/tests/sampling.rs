// SPDX-License-Identifier: GPL-2.0
//! Sampling: one sample for each period, at the right address.

use anyhow::{bail, ensure, Context, Result};
use perf_event::data::{self, Record};
use perf_event::{Builder, ReadFormat, SampleFlag, Sampler};

use super::{expect, expect_count, interrupts, repeat};
use crate::ctx::{Ctx, Test};
use crate::pmu::{BuilderExt, Event, Mode, Pmu};
use crate::program::LOOP;
use crate::setting::SampleRate;
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [ExactCounts, ZeroSkid];
    one_sample_a_period,
    no_skid,
    no_skid_at_branches,
    other_events,
    nmi_a_sample,
    two_events_at_once: [General(2)],
    tiny_periods,
    long_periods,
    kernel_samples,
    new_period,
    stops_after_refresh,
    frequency,
    throttled: [Root],
    rate_is_lowered: [Root],
    period_in_record,
    sampled_counts_are_exact: [General(2)],
    moving_between_cpus: [Cpus(2)],
    many_programs,
];

/// A selection for suites that run on many machines.
pub const QUICK: &[Test] = tests![
    all need [ExactCounts, ZeroSkid];
    one_sample_a_period,
    no_skid,
    other_events,
    long_periods,
    new_period,
    sampled_counts_are_exact: [General(2)],
];

/// The size of the ring buffer, large enough that no sample is lost.
pub const RING: usize = 1 << 20;

/// The fields of a sample.
pub(super) const FLAGS: SampleFlag = SampleFlag::IP
    .union(SampleFlag::TID)
    .union(SampleFlag::CPU)
    .union(SampleFlag::PERIOD);

/// An event that samples with this period.
pub(super) fn sampler(pmu: &Pmu, event: Event, period: u64) -> Result<Sampler> {
    let mut builder = pmu.event(event);
    builder.sample_period(period);
    open(&mut builder)
}

pub(super) fn open(builder: &mut Builder) -> Result<Sampler> {
    let counter = builder.sample(FLAGS).build().context("open for sampling")?;
    counter.sampled(RING).context("map the ring buffer")
}

pub(super) struct Sample {
    pub ip: u64,
    pub tid: u32,
    pub period: u64,
}

#[derive(Default)]
pub(super) struct Records {
    pub samples: Vec<Sample>,
    throttled: u64,
    unthrottled: u64,
}

impl Records {
    fn add(&mut self, more: Self) {
        self.samples.extend(more.samples);
        self.throttled += more.throttled;
        self.unthrottled += more.unthrottled;
    }

    pub fn expect(&self, what: &str, samples: u64) -> Result<()> {
        expect(what, "samples", self.samples.len() as u64, samples)
    }
}

/// Takes all records out of the ring buffer. A lost record is an error.
pub(super) fn drain(sampler: &mut Sampler) -> Result<Records> {
    let mut records = Records::default();
    for_each_record(sampler, |record| {
        match record {
            Record::Sample(sample) => records.samples.push(Sample {
                ip: sample.ip().context("no IP")?,
                tid: sample.tid().context("no TID")?,
                period: sample.period().context("no PERIOD")?,
            }),
            Record::Throttle(_) => records.throttled += 1,
            Record::Unthrottle(_) => records.unthrottled += 1,
            other => bail!("unexpected record {other:?}"),
        }
        Ok(())
    })?;
    Ok(records)
}

/// Takes all records out of the ring buffer.
pub(super) fn for_each_record(
    sampler: &mut Sampler,
    mut each: impl FnMut(Record<'_>) -> Result<()>,
) -> Result<()> {
    while let Some(record) = sampler.next_record() {
        let record = record
            .parse_record()
            .context("cannot parse a record of the ring buffer")?;
        each(record)?;
    }
    Ok(())
}

/// Takes all records out of the ring buffer. Each must be a sample.
pub(super) fn for_each_sample(
    sampler: &mut Sampler,
    mut each: impl FnMut(data::Sample<'_>) -> Result<()>,
) -> Result<()> {
    for_each_record(sampler, |record| match record {
        Record::Sample(sample) => each(*sample),
        other => bail!("unexpected record {other:?}"),
    })
}

/// Runs a workload under a sampling event. Returns the records and the count.
pub(super) fn record(sampler: &mut Sampler, workload: &Workload) -> Result<(Records, u64)> {
    workload.measure(&*sampler)?;
    let count = sampler.read()?;
    Ok((drain(sampler)?, count))
}

/// The count is exact, and there is one sample for each period, at four periods.
fn one_sample_a_period(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(5_000_000);
    for period in [5_000, 9_973, 100_000, 1 << 20] {
        let mut sampler = sampler(&pmu, Event::Instructions, period)?;
        let (records, count) = record(&mut sampler, &workload)?;
        expect_count(&workload, count)?;
        records.expect(&format!("period {period}"), count / period)?;
        let tid = nix::unistd::gettid().as_raw() as u32;
        ensure!(
            records.samples.iter().all(|sample| sample.tid == tid),
            "a sample of another thread"
        );
    }
    Ok(())
}

/// Sample k has the address of the instruction after number k * period. The
/// periods have no common divisor with the length of the loop, so that the samples
/// hit each of its instructions.
fn no_skid(ctx: &Ctx) -> Result<()> {
    const N: u64 = 200_000;
    let pmu = ctx.pmu()?;
    for period in [1_009, 4_001, 65_537] {
        let workload = workload::block(N);
        let mut sampler = sampler(&pmu, Event::Instructions, period)?;
        let (records, count) = record(&mut sampler, &workload)?;
        records.expect(&format!("period {period}"), count / period)?;
        for (sample, k) in records.samples.iter().zip(1..) {
            let want = workload::block_ip(N, k * period).context("a sample after the loop")?;
            ensure!(
                sample.ip == want,
                "sample {k} of period {period}: IP {:#x}, expected {want:#x}",
                sample.ip
            );
        }
    }
    Ok(())
}

/// Each sample of branches has the address of the branch's target.
fn no_skid_at_branches(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_001;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000_000);
    let mut sampler = sampler(&pmu, Event::Branches, PERIOD)?;
    let (records, _) = record(&mut sampler, &workload)?;
    records.expect("branches", workload.branches() / PERIOD)?;
    let head = workload::tight_loop_head();
    for sample in &records.samples {
        ensure!(
            sample.ip == head,
            "IP {:#x} is not the target of the branch",
            sample.ip
        );
    }
    Ok(())
}

/// Cycles, branch misses, cache events and reference cycles have one sample for each period.
fn other_events(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(1_000);
    for (event, period) in [
        (Event::CpuCycles, 20_011),
        (Event::BranchMisses, 101),
        (Event::CacheReferences, 99),
        (Event::CacheMisses, 7),
        (Event::RefCycles, 30_011),
    ] {
        if !pmu.has(event) {
            continue;
        }
        let mut sampler = sampler(&pmu, event, period)?;
        let (records, count) = record(&mut sampler, &workload)?;
        ensure!(count > period, "{}: only {count}", event.name());
        records.expect(event.name(), count / period)?;
    }
    Ok(())
}

/// Each sample takes exactly one NMI, and adds one to the row PMI of /proc/interrupts.
fn nmi_a_sample(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(10_000_000);
    let mut sampler = sampler(&pmu, Event::Instructions, PERIOD)?;
    let before = [interrupts("NMI")?, interrupts("PMI")?];
    let (records, count) = record(&mut sampler, &workload)?;
    let nmis = interrupts("NMI")? - before[0];
    let pmis = interrupts("PMI")? - before[1];
    records.expect("period", count / PERIOD)?;
    expect("one per sample", "NMIs", nmis, count / PERIOD)?;
    expect("one per sample", "PMIs", pmis, count / PERIOD)
}

/// Two events whose overflows are close together, or at the same instruction, have exact counts and
/// all their samples.
fn two_events_at_once(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for (first, second) in [(10_000, 10_000), (10_000, 10_001), (3_001, 50_000)] {
        let workload = workload::tight_loop(2_000_000);
        let mut leader = sampler(&pmu, Event::Instructions, first)?;
        let mut builder = pmu.event(Event::Branches);
        builder.sample_period(second).enabled(true).sample(FLAGS);
        let mut member = builder.build_with_group(&mut *leader)?.sampled(RING)?;
        let (records, count) = record(&mut leader, &workload)?;
        expect_count(&workload, count)?;
        records.expect("instructions", count / first)?;
        let count = member.read()?;
        expect(workload.name(), "branches", count, workload.branches())?;
        drain(&mut member)?.expect("branches", count / second)?;
    }
    Ok(())
}

/// Periods of 2 to 50 instructions have all their samples, and the count is exact.
fn tiny_periods(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(2_000);
    for period in [2, 3, 7, 50] {
        let mut sampler = sampler(&pmu, Event::Instructions, period)?;
        let (records, count) = record(&mut sampler, &workload)?;
        expect_count(&workload, count)?;
        records.expect(&format!("period {period}"), count / period)?;
    }
    // A driver may round period 1 up to 2.
    let mut sampler = sampler(&pmu, Event::Instructions, 1)?;
    let (records, count) = record(&mut sampler, &workload)?;
    expect_count(&workload, count)?;
    let samples = records.samples.len() as u64;
    ensure!(
        (count / 2..=count).contains(&samples),
        "period 1: {samples} samples of {count}"
    );
    Ok(())
}

/// Periods about as long as the range of a counter, and longer ones, give no
/// sample here, and the count is exact.
fn long_periods(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(100_000);
    for shift in [31, 32, 40, 47, 48, 62] {
        let mut sampler = sampler(&pmu, Event::Instructions, 1 << shift)?;
        let (records, count) = record(&mut sampler, &workload)?;
        expect_count(&workload, count)?;
        records.expect(&format!("period 2^{shift}"), 0)?;
    }
    Ok(())
}

/// An event of the kernel has a sample for each period, with an address of the kernel.
fn kernel_samples(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let mut builder = pmu.event(Event::Instructions);
    builder.filter(Mode::Kernel).sample_period(PERIOD);
    let mut sampler = open(&mut builder)?;
    let (records, count) = record(&mut sampler, &workload::syscalls(20_000))?;
    ensure!(count / PERIOD >= 10, "only {count} kernel instructions");
    records.expect("kernel", count / PERIOD)?;
    // If SYSRET overflows, the next instruction is in user mode.
    let back = workload::syscall_return();
    for sample in &records.samples {
        ensure!(
            sample.ip >> 63 == 1 || sample.ip == back,
            "IP {:#x} is not in the kernel",
            sample.ip
        );
    }
    Ok(())
}

/// PERF_EVENT_IOC_PERIOD starts a new period.
fn new_period(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000_000);
    let mut sampler = sampler(&pmu, Event::Instructions, 10_000)?;
    let (records, count) = record(&mut sampler, &workload)?;
    records.expect("the first period", count / 10_000)?;
    set_period(&sampler, 7_000)?;
    sampler.reset()?;
    let (records, count) = record(&mut sampler, &workload)?;
    records.expect("the second period", count / 7_000)
}

pub(super) fn set_period(sampler: &Sampler, period: u64) -> Result<()> {
    // The kernel takes a pointer, although the binding's type is u64.
    let pointer = std::ptr::from_ref(&period) as u64;
    ioctl(sampler, |fd| {
        // SAFETY: `fd` is an open event. `pointer` is the address of `period`,
        // which outlives the call, and the kernel only reads it.
        unsafe { perf_event_open_sys::ioctls::PERIOD(fd, pointer) }
    })
    .context("PERF_EVENT_IOC_PERIOD")
}

pub(super) fn ioctl(
    sampler: &Sampler,
    call: impl FnOnce(libc::c_int) -> libc::c_int,
) -> Result<()> {
    use std::os::fd::AsRawFd;
    let status = call(sampler.as_raw_fd());
    ensure!(status == 0, std::io::Error::last_os_error());
    Ok(())
}

/// PERF_EVENT_IOC_REFRESH enables an event for a number of overflows.
fn stops_after_refresh(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_000;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(100_000);
    for limit in [1, 3] {
        let mut sampler = sampler(&pmu, Event::Instructions, PERIOD)?;
        ioctl(&sampler, |fd| {
            // SAFETY: `fd` is an open event, and the argument is a number.
            unsafe { perf_event_open_sys::ioctls::REFRESH(fd, limit as libc::c_int) }
        })
        .context("PERF_EVENT_IOC_REFRESH")?;
        workload.run();
        let count = sampler.read()?;
        drain(&mut sampler)?.expect("refresh", limit)?;
        expect("refresh", "instructions", count, limit * PERIOD)?;
    }
    Ok(())
}

/// With `freq`, the kernel adjusts the period, and each sample has the one that it ended.
/// The rate depends on how fast the host is: `rotation::frequency` checks it by the
/// guest's instructions.
fn frequency(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut builder = pmu.event(Event::CpuCycles);
    builder.sample_frequency(1_000);
    let mut sampler = open(&mut builder)?;
    workload::tight_loop(100_000_000).measure(&sampler)?;
    let records = drain(&mut sampler)?;
    let periods: Vec<u64> = records.samples.iter().map(|sample| sample.period).collect();
    ensure!(
        periods.windows(2).any(|pair| pair[0] != pair[1]),
        "the period was never adjusted: {periods:?}"
    );
    let sum: u64 = periods.iter().sum();
    let count = sampler.read()?;
    ensure!(
        sum <= count,
        "the periods sum up to {sum}, more than the count {count}"
    );
    Ok(())
}

/// Runs `run` with another maximum sample rate.
pub(super) fn with_sample_rate<T>(limit: u64, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let _rate = SampleRate::limit(limit)?;
    run()
}

/// An event that exceeds the sample rate is stopped until the next tick, and the
/// ring buffer has a record of both.
fn throttled(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    with_sample_rate(1_000, || {
        let mut sampler = sampler(&pmu, Event::Instructions, 20_000)?;
        let workload = workload::tight_loop(30_000_000);
        let mut records = Records::default();
        sampler.enable()?;
        let rounds = repeat("an UNTHROTTLE record", || {
            workload.run();
            records.add(drain(&mut sampler)?);
            Ok(records.unthrottled > 0)
        })?;
        sampler.disable()?;
        records.add(drain(&mut sampler)?);
        let count = sampler.read()?;
        ensure!(records.throttled > 0, "no THROTTLE record");
        let all = rounds * workload.instructions();
        ensure!(count < all, "counted while throttled");
        records.expect("throttled", count / 20_000)
    })
}

/// The kernel lowers the maximum sample rate if samples take too long. Here they
/// may take 1 % of a microsecond each, which is too short for any.
fn rate_is_lowered(ctx: &Ctx) -> Result<()> {
    const ALLOWED: u64 = 1_000_000;
    let pmu = ctx.pmu()?;
    let rate = SampleRate::limit(ALLOWED)?;
    rate.set_percent(1)?;
    let mut sampler = sampler(&pmu, Event::Instructions, 10_007)?;
    record(&mut sampler, &workload::tight_loop(5_000_000))?;
    let lowered = SampleRate::now()?;
    ensure!(lowered < ALLOWED, "the maximum rate is still {lowered}");
    Ok(())
}

/// Each sample names the period.
fn period_in_record(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 12_345;
    let mut sampler = sampler(&ctx.pmu()?, Event::Instructions, PERIOD)?;
    let (records, _) = record(&mut sampler, &workload::tight_loop(100_000))?;
    ensure!(!records.samples.is_empty(), "no sample");
    for sample in &records.samples {
        expect("period of a sample", "instructions", sample.period, PERIOD)?;
    }
    Ok(())
}

/// Overflows of one event do not disturb the counts of others.
fn sampled_counts_are_exact(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for workload in [
        workload::branches(300_000),
        workload::touch(500)?,
        workload::undefined(500)?,
    ] {
        let mut sampler = sampler(&pmu, Event::Instructions, 1_013)?;
        let mut branches = pmu
            .event(Event::Branches)
            .enabled(true)
            .build_with_group(&mut *sampler)?;
        let (_, count) = record(&mut sampler, &workload)?;
        expect_count(&workload, count)?;
        expect(
            workload.name(),
            "branches",
            branches.read()?,
            workload.branches(),
        )?;
    }
    Ok(())
}

/// A period continues on another CPU.
fn moving_between_cpus(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let mut sampler = sampler(&ctx.pmu()?, Event::Instructions, PERIOD)?;
    let workload = workload::tight_loop(10_000_000);
    super::counting::while_moving(|| workload.measure(&*sampler))?;
    let count = sampler.read()?;
    expect_count(&workload, count)?;
    drain(&mut sampler)?.expect("period", count / PERIOD)
}

/// Five processes that share the CPUs, each with its own event. Every sample is taken at
/// the end of its period.
fn many_programs(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    let pmu = ctx.pmu()?;
    let installed = LOOP.install()?;
    let mut samplers = Vec::new();
    let children = (0..5)
        .map(|_| {
            let child = installed.stopped()?;
            let mut builder = pmu.event(Event::Instructions);
            builder
                .observe_pid(child.pid().as_raw())
                .enable_on_exec(true)
                .sample_period(PERIOD)
                .sample(FLAGS | SampleFlag::TIME | SampleFlag::READ)
                .read_format(ReadFormat::empty());
            samplers.push(builder.build()?.sampled(RING)?);
            Ok(child)
        })
        .collect::<Result<Vec<_>>>()?;
    children.iter().try_for_each(|child| child.proceed())?;
    children.into_iter().try_for_each(|child| child.finish())?;
    for (sampler, number) in samplers.iter_mut().zip(1..) {
        let what = format!("process {number} of 5");
        expect(&what, "instructions", sampler.read()?, LOOP.instructions)?;
        let mut samples = 0;
        for_each_sample(sampler, |sample| {
            samples += 1;
            let mut values = sample.values().context("no READ")?.entries();
            let count = values.next().context("no count")?.value();
            expect(
                &format!("{what}, sample {samples}"),
                "instructions",
                count,
                samples * PERIOD,
            )
            .with_context(|| format!("CPU {:?}, time {:?}", sample.cpu(), sample.time()))
        })?;
        expect(&what, "samples", samples, LOOP.instructions / PERIOD)?;
    }
    Ok(())
}
