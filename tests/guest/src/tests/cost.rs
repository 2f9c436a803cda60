// SPDX-License-Identifier: GPL-2.0
//! What the module's PMUs cost beside the in-tree ones, in instructions, which `-icount`
//! makes exact: there the TSC advances by one with each instruction.
//!
//! Each row of the table is a load with our event and with the in-tree one. Ours may not
//! cost more. The report shows the table.

use std::arch::x86_64::_rdtsc;
use std::fmt;
use std::hint::black_box;

use anyhow::{ensure, Context, Result};
use perf_event::{Builder, Counter, SampleFlag, Sampler};

use super::sampling::{for_each_record, RING};
use crate::clocks::{event, sampler, Clock, Clocks};
use crate::ctx::{Ctx, Test};
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Icount, NoChecks];
    clock_samples,
    clock_reads,
];

/// How often each load is measured. The lowest figure counts: ticks and other interrupts
/// only add to it.
const ROUNDS: usize = 7;

/// The cost of one thing on our PMU and on the in-tree one, in instructions.
pub struct Row {
    what: String,
    ours: f64,
    theirs: f64,
}

impl Row {
    /// Measures with `measure`, which returns the cost on one side: ours, then theirs.
    pub fn new<S: fmt::Debug>(
        what: impl Into<String>,
        sides: [S; 2],
        mut measure: impl FnMut(&S) -> Result<f64>,
    ) -> Result<Self> {
        let what = what.into();
        let mut lowest = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for (lowest, side) in lowest.iter_mut().zip(&sides) {
                let cost = measure(side).with_context(|| format!("{what}, {side:?}"))?;
                *lowest = lowest.min(cost);
            }
        }
        let [ours, theirs] = lowest;
        Ok(Self { what, ours, theirs })
    }
}

/// Prints the rows. It is an error if ours is above the in-tree figure in any.
pub fn expect_no_row_above(rows: &[Row]) -> Result<()> {
    expect_no_row_above_by(rows, 0.0)
}

/// Prints the rows. It is an error if ours is above the in-tree figure by more than `more`
/// instructions in any.
fn expect_no_row_above_by(rows: &[Row], more: f64) -> Result<()> {
    println!("# instructions                              ours  in-tree");
    for Row { what, ours, theirs } in rows {
        println!("# {what:<40} {ours:>7.0}  {theirs:>7.0}");
    }
    for Row { what, ours, theirs } in rows {
        ensure!(
            *ours <= theirs + more,
            "{what}: {ours:.1} instructions, in-tree {theirs:.1}"
        );
    }
    Ok(())
}

/// Events that are open while something is measured.
#[expect(dead_code, reason = "they count until they are dropped")]
pub enum Open {
    Counters(Vec<Counter>),
    Sampler(Box<Sampler>),
}

/// Opens enabled events from what it builds them with.
pub type Opener = fn(Builder<'static>) -> Result<Open>;

/// What is open while a hit is measured: events that only count, and one that samples each
/// hit.
pub const HITS: [(&str, Opener); 4] = [
    ("1 event", |builder| counters(builder, 1)),
    ("16 events", |builder| counters(builder, 16)),
    ("sampled", |builder| {
        sampler_of_hits(builder, SampleFlag::empty())
    }),
    ("raw", |builder| sampler_of_hits(builder, SampleFlag::RAW)),
];

/// Opens `n` events.
pub fn counters(mut builder: Builder<'static>, n: usize) -> Result<Open> {
    let open = |_| Ok(builder.enabled(true).build()?);
    Ok(Open::Counters((0..n).map(open).collect::<Result<_>>()?))
}

fn sampler_of_hits(mut builder: Builder<'static>, more: SampleFlag) -> Result<Open> {
    builder
        .enabled(true)
        .sample_period(1)
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME | more);
    Ok(Open::Sampler(Box::new(builder.build()?.sampled(4 * RING)?)))
}

/// The instructions of one round of `work`. The lowest of several figures counts.
pub fn per_round(work: impl Fn()) -> f64 {
    const ROUNDS: u32 = 200;
    let work = black_box(work);
    let once = || {
        let start = now();
        (0..ROUNDS).for_each(|_| work());
        now() - start
    };
    once();
    let least = (0..15).map(|_| once()).min().unwrap_or(0);
    least as f64 / f64::from(ROUNDS)
}

/// The cost of each of [`HITS`]. `event` builds a disabled event of a side, and `work` hits
/// it once.
pub fn rows_of_hits<S: fmt::Debug>(
    what: &str,
    sides: [S; 2],
    event: impl Fn(&S) -> Result<Builder<'static>>,
    work: impl Fn(),
) -> Result<Vec<Row>> {
    let without = per_round(&work);
    let row = |(kind, open): (&str, Opener)| {
        let [ours, theirs] = [&sides[0], &sides[1]].map(|side| -> Result<f64> {
            let _open = open(event(side)?).with_context(|| format!("{what}, {side:?}"))?;
            Ok(per_round(&work) - without)
        });
        Ok(Row {
            what: format!("{what}, {kind}"),
            ours: ours?,
            theirs: theirs?,
        })
    };
    HITS.into_iter().map(row).collect()
}

/// The instructions that `run` takes, the kernel's included.
pub fn instructions(run: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = now();
    run()?;
    Ok((now() - start) as f64)
}

/// The instructions so far: a TSC of 1 GHz counts them.
pub fn now() -> u64 {
    // SAFETY: RDTSC only reads the time-stamp counter.
    unsafe { _rdtsc() }
}

/// Runs in user mode for `duration` instructions. Returns the instructions that each
/// interrupt took meanwhile, in ascending order.
fn interrupts(duration: u64) -> Vec<u64> {
    /// More instructions than the loop takes from one RDTSC to the next.
    const LOOP: u64 = 200;
    let mut interrupts = Vec::with_capacity(1 << 16);
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
            rows.push(Row::new(what, clocks.both(), |&pmu| {
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
///
/// It may take three instructions more: an NMI may read the event meanwhile, and the exchange
/// allows for that without a lock. The in-tree CPU clock does not allow for it.
fn clock_reads(_: &Ctx) -> Result<()> {
    const READS: u32 = 200;
    let clocks = Clocks::find()?;
    let (mut reads, mut changes) = (Vec::new(), Vec::new());
    for clock in Clock::ALL {
        reads.push(Row::new(
            format!("{clock:?} clock, a read"),
            clocks.both(),
            |&pmu| {
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
        changes.push(Row::new(what, clocks.both(), |&pmu| {
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
    expect_no_row_above_by(&reads, 3.0)?;
    expect_no_row_above(&changes)
}
