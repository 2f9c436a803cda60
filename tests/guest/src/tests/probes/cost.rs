// SPDX-License-Identifier: GPL-2.0
//! What a hit of a probe costs, in instructions. With `-icount` the TSC counts them.

use std::hint::black_box;

use anyhow::{ensure, Result};
use perf_event::{Counter, SampleFlag, Sampler};

use super::{own_calls, own_place, probed, system_calls, BEHIND_FTRACE, SYSTEM_CALL};
use crate::ctx::Ctx;
use crate::probe::{Probe, Side, SIDES};
use crate::tests::sampling::RING;

/// What hits a probe once a round.
const ROUNDS: u64 = 100;

/// The instructions of a round. Interrupts disturb some measurements.
fn instructions(work: Work) -> f64 {
    // SAFETY: RDTSC only reads the time-stamp counter.
    let now = || unsafe { core::arch::x86_64::_rdtsc() };
    let once = || {
        let start = now();
        black_box(work)(ROUNDS);
        now() - start
    };
    once();
    let least = (0..15).map(|_| once()).min().unwrap_or(0);
    least as f64 / ROUNDS as f64
}

/// Events that are open while something is measured.
#[expect(dead_code, reason = "they count until they are dropped")]
enum Open {
    Counters(Vec<Counter>),
    Sampler(Box<Sampler>),
}

fn counters(probe: &Probe, side: Side, n: usize) -> Result<Open> {
    let open = |_| Ok(probe.event(side)?.enabled(true).build()?);
    Ok(Open::Counters((0..n).map(open).collect::<Result<_>>()?))
}

fn sampler(probe: &Probe, side: Side, more: SampleFlag) -> Result<Open> {
    let mut builder = probe.event(side)?;
    builder
        .enabled(true)
        .sample_period(1)
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME | more);
    Ok(Open::Sampler(Box::new(builder.build()?.sampled(4 * RING)?)))
}

type Opener = fn(&Probe, Side) -> Result<Open>;
/// Hits a probe as often as the argument says.
type Work = fn(u64);

/// The instructions that a record may cost more than the in-tree PMU's, which has no registers.
const REGISTERS: f64 = 32.0;

/// No hit costs more than with the in-tree PMUs, but for the registers in records.
pub(super) fn cost_of_a_hit(_: &Ctx) -> Result<()> {
    let (path, offset) = own_place(probed())?;
    let rows: [(&str, Opener); 4] = [
        ("1 event", |probe, side| counters(probe, side, 1)),
        ("16 events", |probe, side| counters(probe, side, 16)),
        ("sampled", |probe, side| {
            sampler(probe, side, SampleFlag::empty())
        }),
        ("raw", |probe, side| sampler(probe, side, SampleFlag::RAW)),
    ];
    let kernel = Probe::symbol(SYSTEM_CALL, 0);
    let program = Probe::path(&path, offset);
    let own: Work = |rounds| {
        own_calls(rounds);
    };
    let places: [(&str, Probe, Work); 5] = [
        ("kprobe", kernel, system_calls),
        (
            "kprobe within",
            Probe::symbol(SYSTEM_CALL, BEHIND_FTRACE),
            system_calls,
        ),
        ("kretprobe", kernel.of_return(), system_calls),
        ("uprobe", program, own),
        ("uretprobe", program.of_return(), own),
    ];
    let mut dearer = Vec::new();
    for (name, probe, work) in places {
        let without = instructions(work);
        for (what, open) in rows {
            let mut costs = [0.0; 2];
            for (cost, side) in costs.iter_mut().zip(SIDES) {
                let _open = open(&probe, side)?;
                *cost = instructions(work) - without;
            }
            let [in_tree, ours] = costs;
            let row = format!("{name}, {what}: {ours:.1} instructions, in-tree {in_tree:.1}");
            println!("# {row}");
            let more = if what == "raw" { REGISTERS } else { 0.0 };
            if ours > in_tree + more {
                dearer.push(row);
            }
        }
    }
    ensure!(dearer.is_empty(), "{}", dearer.join("\n"));
    Ok(())
}
