// SPDX-License-Identifier: GPL-2.0
//! What a hit of a trace point costs, in instructions, and what is left when all events
//! are closed. With `-icount` the TSC counts instructions.

use std::hint::black_box;

use anyhow::{ensure, Result};
use perf_event::{Counter, SampleFlag, Sampler};

use super::sampling::RING;
use crate::ctx::{Ctx, Test};
use crate::tests;
use crate::trace::Event;

pub const TESTS: &[Test] = tests![
    all need [Module, Root, Icount];
    cost_of_a_hit,
    nothing_attached_after_the_last_event,
    samples_at_a_frequency,
];

/// A trace point and what hits it once.
const WORK: [(&str, fn()); 2] = [
    ("sys_enter", || {
        // SAFETY: the system call has no arguments.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }),
    ("task_rename", || {
        // SAFETY: the name is a string that ends before the kernel stops reading.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"name".as_ptr()) };
    }),
];

/// The instructions of one round of `work`. Interrupts disturb some measurements.
fn instructions(work: fn()) -> f64 {
    const ROUNDS: u32 = 200;
    // SAFETY: RDTSC only reads the time-stamp counter.
    let now = || unsafe { core::arch::x86_64::_rdtsc() };
    let once = || {
        let start = now();
        for _ in 0..ROUNDS {
            black_box(work)();
        }
        now() - start
    };
    once();
    let least = (0..15).map(|_| once()).min().unwrap_or(0);
    least as f64 / f64::from(ROUNDS)
}

/// Events that are open while something is measured.
#[expect(dead_code, reason = "they count until they are dropped")]
enum Open {
    Counters(Vec<Counter>),
    Sampler(Box<Sampler>),
}

/// Opens events of one kind.
type Opener = fn(Event) -> Result<Open>;

fn counters(event: Event, n: usize) -> Result<Open> {
    let mut counters = Vec::new();
    for _ in 0..n {
        counters.push(event.builder().enabled(true).build()?);
    }
    Ok(Open::Counters(counters))
}

fn sampler(event: Event, fields: SampleFlag) -> Result<Open> {
    let mut builder = event.builder();
    builder.enabled(true).sample_period(1).sample(fields);
    Ok(Open::Sampler(Box::new(builder.build()?.sampled(4 * RING)?)))
}

/// No hit costs more than with the in-tree PMU.
fn cost_of_a_hit(_: &Ctx) -> Result<()> {
    let rows: [(&str, Opener); 4] = [
        ("1 event", |event| counters(event, 1)),
        ("16 events", |event| counters(event, 16)),
        ("sampled", |event| {
            sampler(event, SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME)
        }),
        ("raw", |event| {
            let fields = SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME;
            sampler(event, fields | SampleFlag::RAW)
        }),
    ];
    let mut dearer = Vec::new();
    for (name, work) in WORK {
        let without = instructions(work);
        for (what, open) in rows {
            let mut costs = [0.0; 2];
            for (cost, event) in costs
                .iter_mut()
                .zip([Event::rust(name)?, Event::in_tree(name)?])
            {
                let _open = open(event)?;
                *cost = instructions(work) - without;
            }
            let [ours, theirs] = costs;
            let row = format!("{name}, {what}: {ours:.1} instructions, in-tree {theirs:.1}");
            println!("# {row}");
            if ours > theirs {
                dearer.push(row);
            }
        }
    }
    ensure!(dearer.is_empty(), "{}", dearer.join("\n"));
    Ok(())
}

/// When the last event is closed, a trace point costs what it did before the first.
fn nothing_attached_after_the_last_event(_: &Ctx) -> Result<()> {
    for (name, work) in WORK {
        let event = Event::rust(name)?;
        // It brings what stays, such as the work that all system calls have from then on.
        drop(counters(event, 1)?);
        let before = instructions(work);
        for round in 0..5 {
            let open = counters(event, 3)?;
            let with = instructions(work);
            ensure!(with > before, "{name}: nothing is attached");
            drop(open);
            let after = instructions(work);
            ensure!(
                // Where the loop begins and ends differs by one or two.
                (after - before).abs() < 0.5,
                "{name}, round {round}: {after} instructions, before {before}"
            );
        }
    }
    Ok(())
}

/// The number of samples per second is what the user asks for, as far as perf gets there.
fn samples_at_a_frequency(_: &Ctx) -> Result<()> {
    const HITS: u64 = 400_000;
    let (name, work) = WORK[0];
    let mut numbers = Vec::new();
    for event in [Event::rust(name)?, Event::in_tree(name)?] {
        let mut builder = event.builder();
        builder.sample_frequency(1_000).sample(SampleFlag::PERIOD);
        let mut sampler = builder.build()?.sampled(RING)?;
        sampler.enable()?;
        for _ in 0..HITS {
            work();
        }
        sampler.disable()?;
        let mut samples = 0_u64;
        while sampler.next_record().is_some() {
            samples += 1;
        }
        numbers.push(samples);
    }
    println!("# {numbers:?} samples of {HITS} hits at 1000 Hz");
    let [ours, theirs] = numbers[..] else {
        unreachable!("two PMUs");
    };
    // Time goes by instructions. Few samples more or less are those of the beginning, where
    // perf learns how many hits there are.
    ensure!(
        ours.abs_diff(theirs) * 20 <= theirs,
        "{ours} samples, in-tree {theirs}"
    );
    Ok(())
}
