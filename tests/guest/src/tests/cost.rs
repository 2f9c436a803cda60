// SPDX-License-Identifier: GPL-2.0
//! What the module's PMUs cost beside the in-tree ones, in instructions, which `-icount`
//! makes exact: there the TSC advances by one with each instruction.
//!
//! Each row of the table is a load with our event and with the in-tree one. Ours may not
//! cost more. The report shows the table.

use std::arch::x86_64::_rdtsc;

use anyhow::{ensure, Context, Result};
use perf_event::SampleFlag;

use super::sampling::for_each_record;
use crate::clocks::{event, sampler, Clock, Clocks};
use crate::ctx::{Ctx, Test};
use crate::pmu::Pmu;
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Icount];
    clock_samples,
    clock_reads,
];

/// How often each load is measured. The lowest figure counts: ticks and other interrupts
/// only add to it.
const ROUNDS: usize = 7;

/// The cost of one thing on our PMU and on the in-tree one, in instructions.
struct Row {
    what: String,
    ours: f64,
    theirs: f64,
}

impl Row {
    /// Measures with `measure`, which returns the cost with a PMU.
    fn new(
        what: impl Into<String>,
        [ours, theirs]: [&Pmu; 2],
        mut measure: impl FnMut(&Pmu) -> Result<f64>,
    ) -> Result<Self> {
        let what = what.into();
        let mut lowest = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for (lowest, pmu) in lowest.iter_mut().zip([ours, theirs]) {
                let cost = measure(pmu).with_context(|| format!("{what}, {}", pmu.name))?;
                *lowest = lowest.min(cost);
            }
        }
        let [ours, theirs] = lowest;
        Ok(Self { what, ours, theirs })
    }
}

/// Prints the rows. It is an error if ours is above the in-tree figure in any.
fn expect_no_row_above(rows: &[Row]) -> Result<()> {
    println!("# instructions                              ours  in-tree");
    for Row { what, ours, theirs } in rows {
        println!("# {what:<40} {ours:>7.0}  {theirs:>7.0}");
    }
    for Row { what, ours, theirs } in rows {
        ensure!(
            ours <= theirs,
            "{what}: {ours:.1} instructions, in-tree {theirs:.1}"
        );
    }
    Ok(())
}

/// The instructions that `run` takes, the kernel's included.
fn instructions(run: impl FnOnce() -> Result<()>) -> Result<f64> {
    // SAFETY: RDTSC only reads the time-stamp counter.
    let start = unsafe { _rdtsc() };
    run()?;
    // SAFETY: as above.
    let end = unsafe { _rdtsc() };
    Ok((end - start) as f64)
}

/// Runs in user mode for `duration` instructions. Returns the instructions that each
/// interrupt took meanwhile, in ascending order.
fn interrupts(duration: u64) -> Vec<u64> {
    /// More instructions than the loop takes from one RDTSC to the next.
    const LOOP: u64 = 200;
    let mut interrupts = Vec::with_capacity(1 << 16);
    // SAFETY: RDTSC only reads the time-stamp counter.
    let now = || unsafe { _rdtsc() };
    let start = now();
    let mut last = start;
    while last - start < duration {
        let next = now();
        if next - last > LOOP {
            interrupts.push(next - last);
        }
        last = next;
    }
    interrupts.sort_unstable();
    interrupts
}

/// A sample, from the interrupt of the timer to the return from it. The median leaves out
/// those that other work of the kernel has made longer.
fn clock_samples(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 50_000;
    let clocks = Clocks::find()?;
    let mut rows = Vec::new();
    for clock in Clock::ALL {
        for (what, fields) in [
            ("IP", SampleFlag::IP),
            ("call chain", SampleFlag::IP | SampleFlag::CALLCHAIN),
            (
                "as perf record",
                SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME | SampleFlag::PERIOD,
            ),
        ] {
            let what = format!("{clock:?} clock, a sample ({what})");
            rows.push(Row::new(what, clocks.both(), |pmu| {
                let mut builder = event(pmu, clock);
                let mut sampler = sampler(builder.sample_period(PERIOD), fields)?;
                sampler.enable()?;
                let interrupts = interrupts(20_000_000);
                sampler.disable()?;
                let mut samples = 0;
                for_each_record(&mut sampler, |_| {
                    samples += 1;
                    Ok(())
                })?;
                ensure!(
                    samples >= 100 && interrupts.len() < 2 * samples,
                    "{samples} samples, {} interrupts",
                    interrupts.len()
                );
                Ok(interrupts[interrupts.len() / 2] as f64)
            })?);
        }
    }
    expect_no_row_above(&rows)
}

/// A read of a running event, the system call included.
fn clock_reads(_: &Ctx) -> Result<()> {
    const READS: u32 = 200;
    let clocks = Clocks::find()?;
    let mut rows = Vec::new();
    for clock in Clock::ALL {
        rows.push(Row::new(
            format!("{clock:?} clock, a read"),
            clocks.both(),
            |pmu| {
                let mut counter = event(pmu, clock).build()?;
                counter.enable()?;
                let cost = instructions(|| {
                    for _ in 0..READS {
                        counter.read()?;
                    }
                    Ok(())
                })?;
                Ok(cost / f64::from(READS))
            },
        )?);
        let what = format!("{clock:?} clock, enable and disable");
        rows.push(Row::new(what, clocks.both(), |pmu| {
            let mut counter = event(pmu, clock).build()?;
            let cost = instructions(|| {
                for _ in 0..READS {
                    counter.enable()?;
                    counter.disable()?;
                }
                Ok(())
            })?;
            Ok(cost / f64::from(READS))
        })?);
    }
    expect_no_row_above(&rows)
}
