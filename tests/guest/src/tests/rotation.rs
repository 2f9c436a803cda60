// SPDX-License-Identifier: GPL-2.0
//! Multiplexing of more events than counters under a steady load.
//!
//! [`STEADY`] needs a guest under `-icount`, whose clock advances with its
//! instructions. There a loop is a steady load, whatever the load of the host.

use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use perf_event::{Builder, Counter, SampleFlag};

use super::delivery::poll;
use super::expect;
use super::sampling::{drain, for_each_sample, open, RING};
use crate::ctx::{Ctx, Test};
use crate::pmu::{CpuPmu, Event, Mode, Pmu};
use crate::program::STOPPED_LOOP;
use crate::tests;
use crate::workload::{self, Workload};

pub const STEADY: &[Test] = tests![
    all need [Icount];
    twelve_events: [ExactCounts],
    eighty_four_events: [EmulatedPmu, NoChecks],
    turns_of_groups: [General(2)],
    exclusive: [General(2)],
    pinned_in_error: [ExactCounts],
    frequency: [ExactCounts],
];

pub const MANY: &[Test] = tests![
    all need [ExactCounts, ZeroSkid];
    many_processes,
];

/// The multiplexing interval of these tests.
const TURN: Duration = Duration::from_millis(1);

/// Runs `run` with a multiplexing interval of [`TURN`].
fn with_short_turns<T>(pmu: &Pmu, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let _turn = pmu.set_turn(TURN)?;
    run()
}

/// The number of counters that can count instructions.
fn instruction_counters() -> u32 {
    let CpuPmu { general, fixed, .. } = CpuPmu::probe();
    general + fixed.min(1)
}

/// The count of a multiplexed event, and its times in seconds.
struct Share {
    count: u64,
    enabled: f64,
    running: f64,
}

impl Share {
    /// Reads the event.
    fn of(counter: &mut Counter) -> Result<Self> {
        let data = counter.read_full()?;
        let enabled = data.time_enabled().context("no time_enabled")?;
        let running = data.time_running().context("no time_running")?;
        Ok(Self {
            count: data.count(),
            enabled: enabled.as_secs_f64(),
            running: running.as_secs_f64(),
        })
    }

    fn since(self, start: &Self) -> Self {
        Self {
            count: self.count - start.count,
            enabled: self.enabled - start.enabled,
            running: self.running - start.running,
        }
    }

    /// The estimate for the whole time that the event was enabled.
    fn scaled(&self) -> f64 {
        self.count as f64 * self.enabled / self.running
    }
}

/// Runs a workload with all events enabled. Returns the share of each event.
///
/// The shares do not include the time to enable and disable the events, which is
/// no steady load.
fn share(events: &mut [Counter], workload: &Workload) -> Result<Vec<Share>> {
    events.iter_mut().try_for_each(Counter::enable)?;
    let start = shares(events)?;
    workload.run();
    let end = shares(events)?;
    events.iter_mut().try_for_each(Counter::disable)?;
    let both = end.into_iter().zip(&start);
    Ok(both.map(|(end, start)| end.since(start)).collect())
}

fn shares(events: &mut [Counter]) -> Result<Vec<Share>> {
    events.iter_mut().map(Share::of).collect()
}

/// Checks that a value is within `percent` of the expected one.
fn expect_near(what: &str, got: f64, want: f64, percent: f64) -> Result<()> {
    let off = 100.0 * (got / want - 1.0);
    ensure!(
        off.abs() <= percent,
        "{what}: {got:.6}, expected {want:.6} ({off:+.2} %)"
    );
    Ok(())
}

/// Over at least 100 intervals the scaled count of each event is right, and the
/// running times add up to the number of counters.
fn twelve_events(ctx: &Ctx) -> Result<()> {
    const N: u64 = 120_000_000;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(N);
    let mut events = (0..12)
        .map(|_| pmu.open(Event::Instructions, Mode::User))
        .collect::<Result<Vec<_>>>()?;
    let shares = with_short_turns(&pmu, || share(&mut events, &workload))?;
    let enabled = shares[0].enabled;
    ensure!(
        enabled >= 100.0 * TURN.as_secs_f64(),
        "enabled for {enabled} s, expected at least 100 times {TURN:?}"
    );
    let mut counters = 0.0;
    for share in &shares {
        ensure!(share.running < share.enabled, "not multiplexed");
        expect_near("scaled count", share.scaled(), 2.0 * N as f64, 2.0)?;
        counters += share.running / share.enabled;
    }
    expect_near("in use", counters, instruction_counters().into(), 0.1)
}

/// 84 CPU-wide events of all kinds, far more than any PMU has counters.
fn eighty_four_events(ctx: &Ctx) -> Result<()> {
    const N: u64 = 150_000_000;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(N);
    let kinds = Event::ALL
        .into_iter()
        .filter(|&event| event != Event::RefCycles);
    let kinds: Vec<Event> = kinds.collect();
    let mut events = (0..84)
        .map(|i| {
            let mut builder = pmu.event(kinds[i % kinds.len()]);
            builder.any_pid().one_cpu(0);
            builder.build().context("open for a CPU")
        })
        .collect::<Result<Vec<_>>>()?;
    let shares = with_short_turns(&pmu, || share(&mut events, &workload))?;
    let sum: f64 = shares.iter().map(|share| share.running).sum();
    let mean = sum / shares.len() as f64;
    for (share, i) in shares.iter().zip(0..) {
        let name = kinds[i % kinds.len()].name();
        ensure!(
            share.running >= mean / 3.0,
            "{name} (event {i}) ran {} s, the mean is {mean} s",
            share.running
        );
        // By the model's formulas.
        let cycles = 2 * N + 15 * (N / 64) + 100 * (2 * N / 4096);
        let truth = match kinds[i % kinds.len()] {
            Event::Instructions => 2 * N,
            Event::Branches => N,
            Event::BranchMisses => N / 64,
            Event::CacheReferences => 2 * N / 256,
            Event::CacheMisses => 2 * N / 4096,
            Event::BusCycles => cycles * 3 / 4,
            Event::CpuCycles | Event::RefCycles => cycles,
        };
        expect_near(name, share.scaled(), truth as f64, 2.0)?;
    }
    Ok(())
}

/// Groups that do not fit on the counters together get equal shares.
fn turns_of_groups(ctx: &Ctx) -> Result<()> {
    const N: u64 = 60_000_000;
    const GROUPS: usize = 3;
    let pmu = ctx.pmu()?;
    let size = CpuPmu::probe().general as usize / 2 + 1;
    let mut groups = (0..GROUPS)
        .map(|_| pmu.open_group(&vec![(Event::Branches, Mode::User); size]))
        .collect::<Result<Vec<_>>>()?;
    let workload = workload::tight_loop(N);
    with_short_turns(&pmu, || {
        for group in &mut groups {
            group[0].enable()?;
        }
        workload.run();
        for group in &mut groups {
            group[0].disable()?;
        }
        Ok(())
    })?;
    let mut counters = 0.0;
    for group in &mut groups {
        let leader = Share::of(&mut group[0])?;
        for member in &mut group[1..] {
            expect(
                "a member of the group",
                "branches",
                member.read()?,
                leader.count,
            )?;
        }
        expect_near("scaled count", leader.scaled(), N as f64, 2.0)?;
        counters += leader.running / leader.enabled;
    }
    expect_near("groups at once", counters, 1.0, 0.1)
}

/// An event with `exclusive` never counts at the same time as others.
fn exclusive(ctx: &Ctx) -> Result<()> {
    const N: u64 = 60_000_000;
    let pmu = ctx.pmu()?;
    let mut events = vec![
        pmu.event(Event::Branches).exclusive(true).build()?,
        pmu.open(Event::Branches, Mode::User)?,
    ];
    let workload = workload::tight_loop(N);
    let shares = with_short_turns(&pmu, || share(&mut events, &workload))?;
    for share in &shares {
        expect_near("scaled count", share.scaled(), N as f64, 2.0)?;
    }
    let at_once: f64 = shares
        .iter()
        .map(|share| share.running / share.enabled)
        .sum();
    expect_near("events at once", at_once, 1.0, 0.1)?;
    // One of the two events counted each branch of the loop.
    let sum = shares.iter().map(|share| share.count).sum::<u64>();
    expect_near("sum of the counts", sum as f64, N as f64, 0.1)
}

/// A pinned event that gets no counter goes into the error state: read() returns 0
/// (end of file), and poll() POLLERR.
fn pinned_in_error(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let general = CpuPmu::probe().general;
    let mut events = Vec::new();
    for _ in 0..=general {
        let mut event = pmu.event(Event::Branches).pinned(true).build()?;
        event.enable()?;
        events.push(event);
    }
    let mut last = events.pop().context("no events")?;
    let mut values = [0u64; 5];
    // SAFETY: `values` is a buffer of `size_of_val(&values)` bytes, for which any
    // bytes are valid.
    let read = unsafe {
        libc::read(
            last.as_raw_fd(),
            values.as_mut_ptr().cast(),
            size_of_val(&values),
        )
    };
    ensure!(read == 0, "read() returned {read}, expected 0");
    let events_of_poll = poll(&last, 0)?;
    ensure!(
        events_of_poll == libc::POLLERR,
        "poll() returned {events_of_poll:#x}, expected POLLERR"
    );

    // It can be enabled again once there is a counter.
    events.pop();
    last.enable()?;
    let workload = workload::tight_loop(1_000);
    last.disable()?;
    last.reset()?;
    workload.measure(&last)?;
    expect(
        "with a counter",
        "branches",
        last.read()?,
        workload.branches(),
    )
}

/// With `freq`, the kernel finds a period that gives the frequency.
fn frequency(ctx: &Ctx) -> Result<()> {
    const HZ: u64 = 1_000;
    let pmu = ctx.pmu()?;
    let mut builder = pmu.event(Event::Instructions);
    builder.sample_frequency(HZ).sample(SampleFlag::TIME);
    let mut sampler = open(&mut builder)?;
    workload::tight_loop(200_000_000).measure(&*sampler)?;
    let mut samples = Vec::new();
    for_each_sample(&mut sampler, |sample| {
        samples.push((
            sample.time().context("no TIME")?,
            sample.period().context("no PERIOD")?,
        ));
        Ok(())
    })?;
    // The kernel adjusts the period during the first samples.
    let settled = samples.get(100..).context("fewer than 100 samples")?;
    let (first, last) = (settled[0], settled[settled.len() - 1]);
    let seconds = (last.0 - first.0) as f64 / 1e9;
    let rate = (settled.len() - 1) as f64 / seconds;
    expect_near("samples per second", rate, HZ as f64, 1.0)
}

/// 128 processes that share the CPUs have exact counts and all their samples, each by its own
/// event.
fn many_processes(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_000_003;
    const PROCESSES: usize = 128;
    let pmu = ctx.pmu()?;
    let installed = STOPPED_LOOP.install()?;
    let mut samplers = Vec::new();
    let children = (0..PROCESSES)
        .map(|_| {
            let child = installed.spawn_self_stopping()?;
            let mut builder: Builder = pmu.event(Event::Instructions);
            builder
                .observe_pid(child.pid().as_raw())
                .enabled(true)
                .sample_period(PERIOD)
                .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::PERIOD);
            samplers.push(builder.build()?.sampled(RING / 256)?);
            Ok(child)
        })
        .collect::<Result<Vec<_>>>()?;
    children.iter().try_for_each(|child| child.proceed())?;
    children.into_iter().try_for_each(|child| child.finish())?;
    for sampler in &mut samplers {
        let count = sampler.read()?;
        expect(
            "one process of many",
            "instructions",
            count,
            STOPPED_LOOP.instructions,
        )?;
        drain(sampler)?.expect("one process of many", count / PERIOD)?;
    }
    Ok(())
}
