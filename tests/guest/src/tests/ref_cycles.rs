// SPDX-License-Identifier: GPL-2.0
//! Reference cycles that are the cycles of the TSC: QEMU runs with `pmu-ref-cycles=tsc`.
//!
//! With `-icount` each instruction is one cycle of the TSC, so that counts and the places of
//! samples are exact.

use std::arch::asm;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use perf_event::events::Software;
use perf_event::{Builder, Counter};

use super::sampling::{drain, open, record};
use super::user_read::Page;
use super::{expect, expect_count, switches};
use crate::ctx::{Ctx, Test};
use crate::pmu::{BuilderExt, CpuPmu, Event, Mode, Pmu};
use crate::setting::Affinity;
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [EmulatedPmu, General(4)];
    between_two_tscs: [InTree],
    exact: [InTree, Icount],
    not_while_halted: [InTree, Icount],
    read_is_exact: [Icount],
    no_skid: [Icount],
    samples_of_both_modes: [Icount],
    samples_arrive,
];

/// The CPU of the tests.
const CPU: usize = 0;

/// Reference cycles, as a general counter counts them.
pub(super) fn config(pmu: &Pmu) -> u64 {
    match CpuPmu::probe().is_amd() {
        true => pmu.config(Event::RefCycles),
        false => 0x013c,
    }
}

/// Events on CPU 0, with a fixed counter for reference cycles as well if there is one.
struct Events {
    counters: Vec<Counter>,
    pages: Vec<Page>,
}

/// The indices in [`Events`].
const ALL: usize = 0;
const USER: usize = 1;
const KERNEL: usize = 2;
const INSTRUCTIONS: usize = 3;
const FIXED: usize = 4;
const EVENTS: usize = 5;

impl Events {
    fn open(pmu: &Pmu) -> Result<Self> {
        let mut events = Self {
            counters: Vec::new(),
            pages: Vec::new(),
        };
        let code = config(pmu);
        let mode = |code, mode| {
            let mut builder = pmu.raw(code);
            builder.filter(mode);
            builder
        };
        let mut all = pmu.raw(code);
        all.include_kernel();
        events.add(&mut all)?;
        events.add(&mut mode(code, Mode::User))?;
        events.add(&mut mode(code, Mode::Kernel))?;
        events.add(&mut mode(pmu.config(Event::Instructions), Mode::User))?;
        if pmu.has(Event::RefCycles) {
            events.add(pmu.event(Event::RefCycles).include_kernel())?;
        }
        Ok(events)
    }

    fn add(&mut self, builder: &mut Builder<'static>) -> Result<()> {
        builder.any_pid().one_cpu(CPU).pinned(true).enabled(true);
        let counter = builder.build().context("an event on CPU 0")?;
        self.pages.push(Page::map(&counter)?);
        self.counters.push(counter);
        Ok(())
    }

    /// The indices for RDPMC. If there is no fixed counter, that is the first one.
    fn indices(&self) -> Result<[u32; EVENTS]> {
        let mut indices = [self.pages[ALL].index()?; EVENTS];
        for (index, page) in indices.iter_mut().zip(&self.pages) {
            *index = page.index()?;
        }
        Ok(indices)
    }
}

/// Four instructions that read a counter, whose index and value are at these offsets.
macro_rules! rdpmc {
    ($index:literal, $value:literal) => {
        concat!(
            "mov ecx, [{indices} + ",
            $index,
            "]\n",
            "rdpmc\n",
            "mov [{reading} + ",
            $value,
            "], eax\n",
            "mov [{reading} + ",
            $value,
            " + 4], edx",
        )
    };
}

/// All counters, between two readings of the TSC.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Reading {
    before: u64,
    counters: [u64; EVENTS],
    after: u64,
}

/// From one RDTSC of a [`Reading`] to the other: two stores, four instructions a counter, and
/// the second RDTSC.
const READING_INSTRUCTIONS: u64 = 2 + 4 * EVENTS as u64 + 1;

impl Reading {
    /// # Safety
    ///
    /// CR4.PCE must be set and the counters must exist, or the process gets SIGSEGV.
    unsafe fn take(indices: &[u32; EVENTS]) -> Self {
        let mut reading = Self::default();
        // SAFETY: RDTSC and RDPMC change EAX and EDX only. RDPMC does not fault, because CR4.PCE
        // is set and the counters exist. `indices` has `EVENTS` elements, which are read, and
        // `reading` has two more of twice the size, which are written.
        unsafe {
            asm!(
                "rdtsc",
                "mov [{reading}], eax",
                "mov [{reading} + 4], edx",
                rdpmc!(0, 8),
                rdpmc!(4, 16),
                rdpmc!(8, 24),
                rdpmc!(12, 32),
                rdpmc!(16, 40),
                "rdtsc",
                "mov [{reading} + 48], eax",
                "mov [{reading} + 52], edx",
                reading = in(reg) &raw mut reading,
                indices = in(reg) indices,
                out("eax") _,
                out("ecx") _,
                out("edx") _,
            );
        }
        reading
    }

    /// Whether no interrupt came in between, if the TSC counts instructions.
    fn is_undisturbed(&self) -> bool {
        self.after - self.before == READING_INSTRUCTIONS
    }
}

/// Readings of all counters before and after a workload.
fn around(events: &Events, workload: &Workload) -> Result<[Reading; 2]> {
    let indices = events.indices()?;
    // SAFETY: the pages have indices, so the kernel allows RDPMC of these counters.
    let take = || unsafe { Reading::take(&indices) };
    // The memory and the code are there when it counts.
    take();
    let first = take();
    workload.run();
    let last = take();
    ensure!(events.indices()? == indices, "an event moved");
    Ok([first, last])
}

fn gain([first, last]: &[Reading; 2], counter: usize) -> u64 {
    let width = CpuPmu::probe().width;
    let mask = u64::MAX >> (64 - width);
    last.counters[counter].wrapping_sub(first.counters[counter]) & mask
}

/// Whatever the clock is: no fewer cycles than between two RDTSCs inside, and no more than
/// between two outside.
fn between_two_tscs(ctx: &Ctx) -> Result<()> {
    let _affinity = Affinity::pinned_to(CPU)?;
    let events = Events::open(&ctx.pmu()?)?;
    for round in 1..=20 {
        let readings = around(&events, &workload::tight_loop(10_000 * round))?;
        let [first, last] = &readings;
        let inside = last.before - first.after;
        let outside = last.after - first.before;
        for counter in [ALL, FIXED] {
            let found = gain(&readings, counter);
            ensure!(
                (inside..=outside).contains(&found),
                "counter {counter}: {found} in {inside} to {outside}"
            );
        }
        let [user, kernel] = [USER, KERNEL].map(|mode| gain(&readings, mode));
        ensure!(
            user > 0 && user <= outside,
            "{user} of {outside} in user mode"
        );
        ensure!(
            (inside..=outside).contains(&(user + kernel)),
            "{user} and {kernel} in {inside} to {outside}"
        );
    }
    Ok(())
}

/// All cycles are those of the TSC. Those of a mode are those that pass in it: in user mode as
/// many as instructions.
///
/// perf's own clock interrupts each round, which is shorter than a time slice: tasks that the
/// kernel started at boot may still run.
fn exact(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 40;
    const ATTEMPTS: u64 = 100 * ROUNDS;
    let _affinity = Affinity::pinned_to(CPU)?;
    let events = Events::open(&ctx.pmu()?)?;
    let mut clock = Builder::new(Software::CPU_CLOCK);
    clock.any_pid().one_cpu(CPU).enabled(true);
    let _interrupts = clock.sample_period(20_000).build()?;
    let mut exact = 0;
    for attempt in 0..ATTEMPTS {
        let rounds = 20_000 * (1 + attempt % 10);
        let workload = workload::tight_loop(rounds);
        let before = switches()?;
        let readings = around(&events, &workload)?;
        let [first, last] = &readings;
        if switches()? != before || !first.is_undisturbed() || !last.is_undisturbed() {
            continue;
        }
        let [all, fixed, user, kernel, instructions] =
            [ALL, FIXED, USER, KERNEL, INSTRUCTIONS].map(|counter| gain(&readings, counter));
        expect(
            workload.name(),
            "of all cycles",
            all,
            last.before - first.before,
        )?;
        expect("fixed counter", "cycles", fixed, all)?;
        expect("both modes", "cycles", user + kernel, all)?;
        expect("user mode", "cycles", user, instructions)?;
        ensure!(user > 2 * rounds, "only {user} in user mode");
        ensure!(kernel > 0, "no interrupt");
        exact += 1;
        if exact == ROUNDS {
            println!("# {ROUNDS} of {} rounds compared", attempt + 1);
            return Ok(());
        }
    }
    bail!("{exact} of {ATTEMPTS} rounds compared")
}

/// The TSC goes on while the CPU is halted, and reference cycles do not. What the kernel started
/// at boot may still run for a while.
fn not_while_halted(ctx: &Ctx) -> Result<()> {
    const ATTEMPTS: u64 = 50;
    let _affinity = Affinity::pinned_to(CPU)?;
    let events = Events::open(&ctx.pmu()?)?;
    let indices = events.indices()?;
    // SAFETY: the pages have indices, so the kernel allows RDPMC of these counters.
    let take = || unsafe { Reading::take(&indices) };
    take();
    for _ in 0..ATTEMPTS {
        let first = take();
        sleep(Duration::from_millis(500));
        let last = take();
        let (tsc, cycles) = (last.before - first.before, gain(&[first, last], ALL));
        println!("# {cycles} of {tsc}");
        ensure!(tsc >= 500_000_000, "slept for {tsc}");
        ensure!(cycles > 0 && cycles <= tsc, "{cycles} of {tsc}");
        if cycles < tsc / 10 {
            return Ok(());
        }
    }
    bail!("the CPU never was halted for nine tenths of half a second")
}

/// In user mode a program has as many cycles as instructions.
fn read_is_exact(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for workload in [
        workload::tight_loop(1_000_000),
        workload::branches(10_000),
        workload::syscalls(1_000),
        workload::block(100_000),
    ] {
        let mut event = pmu.raw(config(&pmu)).build()?;
        workload.measure(&event)?;
        expect_count(&workload, event.read()?)?;
    }
    Ok(())
}

/// A sample each period, and right after the instruction that completes it.
fn no_skid(ctx: &Ctx) -> Result<()> {
    const N: u64 = 100_000;
    let pmu = ctx.pmu()?;
    for period in [1_009, 4_001, 65_537] {
        let workload = workload::block(N);
        let mut sampler = open(pmu.raw(config(&pmu)).sample_period(period))?;
        let (records, count) = record(&mut sampler, &workload)?;
        expect_count(&workload, count)?;
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

/// Events of kernel mode and of both modes have a sample for each period.
fn samples_of_both_modes(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for (mode, period) in [(Mode::Kernel, 10_007), (Mode::Both, 20_011)] {
        let mut builder = pmu.raw(config(&pmu));
        builder.filter(mode).sample_period(period);
        let mut sampler = open(&mut builder)?;
        let (records, count) = record(&mut sampler, &workload::syscalls(20_000))?;
        ensure!(count / period >= 10, "{mode:?}: only {count}");
        records.expect(&format!("{mode:?}"), count / period)?;
    }
    Ok(())
}

/// With the host's clock as well. How late they are depends on the host.
fn samples_arrive(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_000_000;
    const SAMPLES: usize = 10;
    const ATTEMPTS: u64 = 10_000;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000_000);
    let mut sampler = open(pmu.raw(config(&pmu)).sample_period(PERIOD))?;
    let mut found = 0;
    for _ in 0..ATTEMPTS {
        let (records, count) = record(&mut sampler, &workload)?;
        found += records.samples.len();
        let most = count / PERIOD;
        ensure!(found as u64 <= most, "{found} samples of {count}");
        if found >= SAMPLES {
            return Ok(());
        }
    }
    drain(&mut sampler)?;
    bail!("{found} samples in {ATTEMPTS} attempts")
}
