// SPDX-License-Identifier: GPL-2.0
//! Counts between branches: each record says how often the events of a group have occurred since the record
//! before.

use std::ops::RangeInclusive;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use perf_event::{Builder, Sampler};

use super::super::expect;
use super::hardware::{request, Hardware};
use super::{drivers, errno, event, with_branches, ITERATIONS, PERIOD};
use crate::ctx::Ctx;
use crate::pmu::{Event, Pmu};
use crate::setting::Affinity;
use crate::workload::{self, Branch, BranchKind};

/// Branches of every kind, and the counts between them.
const LOGGED: u64 = request::ANY | request::COUNTERS;

/// A record: source, target, flags, and the counts.
type Logged = ([u64; 3], u64);

/// The records of each sample. The crate does not know of the counts.
fn samples(sampler: &mut Sampler) -> Result<Vec<Vec<Logged>>> {
    let mut samples = Vec::new();
    while let Some(record) = sampler.next_record() {
        ensure!(record.ty() == perf_event_open_sys::bindings::PERF_RECORD_SAMPLE);
        let data = record.to_contiguous();
        let words = data
            .chunks_exact(8)
            .map(|word| word.try_into().map(u64::from_ne_bytes));
        let words: Vec<u64> = words.collect::<Result<_, _>>()?;
        // The weight comes last.
        let [len, rest @ .., _] = &words[..] else {
            anyhow::bail!("a sample of {} words", words.len());
        };
        expect("a sample", "as its words", rest.len() as u64, 4 * len)?;
        let (entries, counts) = rest.split_at(3 * *len as usize);
        let entries = entries.chunks_exact(3).map(|it| [it[0], it[1], it[2]]);
        samples.push(entries.zip(counts.iter().copied()).collect());
    }
    Ok(samples)
}

/// What is counted from one taken branch of the workload to this one: instructions and branches.
fn since_last(branch: Branch) -> [u64; 2] {
    match branch.kind {
        BranchKind::Jump => [3, 2],
        BranchKind::Conditional => [2, 1],
        // A call or a return: the workload has no others.
        _ => [1, 1],
    }
}

/// An event without samples of its own.
fn member(pmu: &Pmu, counted: Event, flags: u64) -> Builder<'static> {
    let mut member = with_branches(pmu.event(counted), flags, 0);
    member.enabled(true);
    member
}

/// The counts are those of the events of the group, in the order in which these have joined it. A member that
/// is disabled has none.
pub fn logged_counts(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    if !Hardware::of(&pmu)?.logs {
        return Ok(());
    }
    for (name, pmu) in drivers(ctx)? {
        let mut leader = event(&pmu, LOGGED, PERIOD).build()?.sampled(super::RING)?;
        let join = |counted, flags, leader: &mut Sampler| {
            member(&pmu, counted, flags).build_with_group(&mut **leader)
        };
        let branches = join(Event::Branches, LOGGED, &mut leader)?;
        // The in-tree driver shifts by its counter, which is -1: see docs/upstream/findings.md.
        let mut disabled = match name {
            "rust_pmu" => Some(join(Event::Branches, LOGGED, &mut leader)?),
            _ => None,
        };
        disabled.iter_mut().try_for_each(|it| it.disable())?;
        let place = 2 + usize::from(disabled.is_some());
        let instructions = join(Event::Instructions, request::COUNTERS, &mut leader)?;
        workload::branches(ITERATIONS).measure(&leader)?;
        drop((branches, disabled, instructions));

        let mut compared = 0;
        let samples = samples(&mut leader)?;
        for (k, records) in (1..).zip(&samples) {
            let last = workload::last_branches(ITERATIONS, k * PERIOD);
            for (i, ((entry, counts), branch)) in records.iter().zip(last).enumerate() {
                let what = format!("{name}, sample {k}, record {i}");
                expect(&what, "as its source", entry[0], branch.from)?;
                let [instructions, branches] = since_last(branch);
                let expected = instructions | (branches << 2) | (instructions << (2 * place));
                expect(&what, "as its counts", *counts, expected)?;
                compared += 1;
            }
        }
        // The first record of the program, and that of the return from an interrupt, may have others.
        ensure!(compared > 30 * samples.len(), "{name}: {compared} records");
    }
    Ok(())
}

/// The records from before a logged event has moved to another counter say nothing of it, and are gone. In
/// each record that is left both events have occurred: a branch is an instruction.
pub fn logged_event_moves(_: &Ctx) -> Result<()> {
    /// With so many iterations before the event moves, samples are taken in every place around that. An
    /// iteration has seven instructions.
    const BEFORE: RangeInclusive<u64> = 1..=PERIOD / 7 + 1;
    /// TOPDOWN.BAD_SPEC_SLOTS and TOPDOWN.MEMORY_BOUND_SLOTS of Lion Cove, which only counters 0 and 3 count.
    /// Two logged events cannot be on others then but 1 and 2. In-tree: `intel_lnc_event_constraints`.
    const OF_COUNTERS_0_AND_3: [u64; 2] = [0x04a4, 0x10a4];
    // The performance core is CPU 0. The module is in the in-tree driver's place, with its names.
    let _affinity = Affinity::pinned_to(0)?;
    let pmu = Pmu::find("cpu_core")?;
    let depth = Hardware::of(&pmu)?.depth;
    let (mut whole, mut short) = (0, 0);
    for before in BEFORE {
        // perf takes others off the CPU before it adds an event, and leaves pinned ones.
        let mut leader = event(&pmu, LOGGED, PERIOD);
        let mut leader = leader.pinned(true).build()?.sampled(super::RING)?;
        let _branches = member(&pmu, Event::Branches, LOGGED).build_with_group(&mut leader)?;
        let [first, mut second] = OF_COUNTERS_0_AND_3.map(|code| pmu.raw(code));
        let mut others = first.build().context("an event of counter 0")?;
        let _second = second
            .enabled(true)
            .build_with_group(&mut others)
            .context("an event of counter 3")?;
        leader.enable()?;
        workload::branches(before).run();
        // This enables the two events, so that the logged ones move.
        workload::branches(100).measure(&others)?;
        leader.disable()?;

        for records in samples(&mut leader)? {
            for (i, (entry, counts)) in records.iter().enumerate() {
                let [instructions, branches] = [counts & 3, (counts >> 2) & 3];
                ensure!(
                    instructions > 0 && branches > 0,
                    "{before} iterations before, record {i}: {counts:#x} behind {:#x}",
                    entry[0]
                );
            }
            match records.len() {
                0 => {}
                len if len < depth => short += 1,
                _ => whole += 1,
            }
        }
    }
    ensure!(
        whole > 0 && short > 0,
        "{whole} samples are whole, {short} have lost records"
    );
    Ok(())
}

/// What cannot be logged is refused with the in-tree driver's errno.
pub fn not_logged(ctx: &Ctx) -> Result<()> {
    if !Hardware::of(&ctx.pmu()?)?.logs {
        return Ok(());
    }
    for (name, pmu) in drivers(ctx)? {
        let refused = |what: &str, found| {
            expect(
                &format!("{name}, {what}"),
                "as its errno",
                found,
                Errno::EINVAL as u64,
            )
        };
        let with_call_stack = event(&pmu, request::CALL_STACK | request::COUNTERS, PERIOD).build();
        refused("a call stack", errno(with_call_stack))?;
        let without_branches = event(&pmu, request::COUNTERS, PERIOD).build();
        refused("no branches", errno(without_branches))?;
        let modified = with_branches(pmu.raw(0x0100_00c0), LOGGED, PERIOD);
        refused("CMASK", errno(modified.build()))?;

        let mut leader = event(&pmu, LOGGED, PERIOD).build()?;
        let mut members = Vec::new();
        for _ in 0..3 {
            let next = member(&pmu, Event::Branches, LOGGED).build_with_group(&mut leader);
            members.push(next.context("a member")?);
        }
        let fifth = member(&pmu, Event::Branches, LOGGED).build_with_group(&mut leader);
        refused("a fifth event", errno(fifth))?;

        let mut leader = pmu.event(Event::Branches).build()?;
        let of_counting_leader =
            member(&pmu, Event::Branches, LOGGED).build_with_group(&mut leader);
        refused("a leader without branches", errno(of_counting_leader))?;
    }
    Ok(())
}
