// SPDX-License-Identifier: GPL-2.0
//! What a hit of a trace point costs, in instructions, and what is left when all events
//! are closed. With `-icount` the TSC counts instructions.

use anyhow::{ensure, Result};
use perf_event::SampleFlag;

use super::cost::{counters, expect_no_row_above, per_round, rows_of_hits};
use super::sampling::RING;
use crate::ctx::{Ctx, Test};
use crate::tests;
use crate::trace::Event;

pub const TESTS: &[Test] = tests![
    all need [Module, Root, Icount, TracePoints];
    cost_of_a_hit,
    nothing_attached_after_the_last_event,
    samples_at_a_frequency: [NoChecks],
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

/// No hit costs more than with the in-tree PMU.
fn cost_of_a_hit(_: &Ctx) -> Result<()> {
    let mut rows = Vec::new();
    for (name, work) in WORK {
        let sides = [Event::rust(name)?, Event::in_tree(name)?];
        rows.extend(rows_of_hits(name, sides, |it| Ok(it.builder()), work)?);
    }
    expect_no_row_above(&rows)
}

/// When the last event is closed, a trace point costs what it did before the first.
fn nothing_attached_after_the_last_event(_: &Ctx) -> Result<()> {
    for (name, work) in WORK {
        let event = Event::rust(name)?;
        // It brings what stays, such as the work that all system calls have from then on.
        drop(counters(event.builder(), 1)?);
        let before = per_round(work);
        for round in 0..5 {
            let open = counters(event.builder(), 3)?;
            let with = per_round(work);
            ensure!(with > before, "{name}: nothing is attached");
            drop(open);
            let after = per_round(work);
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
