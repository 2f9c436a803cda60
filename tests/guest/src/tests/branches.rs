// SPDX-License-Identifier: GPL-2.0
//! Branch records in samples of rust_pmu, and of the in-tree driver: they are the last branches of a
//! program whose branches are known, entry by entry.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use perf_event::{Builder, SampleBranchFlag, SampleFlag, Sampler};

use super::expect;
use super::sampling::{for_each_sample, RING};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Pmu};
use crate::tests;
use crate::workload::{self, Branch, BranchKind, Workload};

pub const TESTS: &[Test] = tests![
    all need [ExactCounts, InTreeCounts];
    known_branches,
    filters,
    of_two_events,
    of_two_tasks,
    of_a_cpu,
    after_debug_exceptions,
    different_filters,
    call_stacks,
    refused,
];

/// The highest number of records.
const DEPTH: usize = 32;
const ITERATIONS: u64 = 20_000;
/// A sample comes after more branches of each kind than there are records.
const PERIOD: u64 = 1_009;

/// The driver, and the one to compare it with.
fn drivers(ctx: &Ctx) -> Result<[(&'static str, Pmu); 2]> {
    Ok([("rust_pmu", ctx.pmu()?), ("in-tree", ctx.in_tree()?)])
}

/// An event that samples branches of these kinds to user mode.
fn event(pmu: &Pmu, flags: SampleBranchFlag, period: u64) -> Builder<'static> {
    let mut event = pmu.event(Event::Instructions);
    event
        .sample_period(period)
        // The crate does not parse a sample that ends with an empty stack: the weight comes behind it.
        .sample(SampleFlag::BRANCH_STACK | SampleFlag::WEIGHT)
        .branch_sample_type(flags | SampleBranchFlag::USER);
    event
}

fn sampler(pmu: &Pmu, flags: SampleBranchFlag, period: u64) -> Result<Sampler> {
    let event = event(pmu, flags, period).build().context("open")?;
    Ok(event.sampled(RING)?)
}

/// How many of the expected records a sample may lack.
#[derive(Clone, Copy)]
enum Missing {
    /// Far branches take a record of the return from an interrupt, which the kernel drops because its
    /// source is hidden. With -icount there is hardly more than one interrupt.
    FarBranches,
    /// Another task has run in between.
    Switches,
}

/// Compares the records of each sample, of which there is one each `period` instructions, with the last
/// branches of `iterations` of the workload that `is_recorded`.
fn compare(
    sampler: &mut Sampler,
    iterations: u64,
    period: u64,
    missing: Missing,
    is_recorded: impl Fn(&Branch) -> bool,
) -> Result<()> {
    let mut k = 0;
    let mut short = 0;
    for_each_sample(sampler, |sample| {
        k += 1;
        let what = format!("sample {k}");
        let records = sample.lbr().context("no branch stack")?;
        let expected = workload::last_branches(iterations, k * period);
        let expected: Vec<_> = expected.filter(&is_recorded).take(DEPTH).collect();
        ensure!(records.len() <= expected.len(), "{what} has more records");
        short += u32::from(records.len() < expected.len());
        for (i, (record, branch)) in records.iter().zip(&expected).enumerate() {
            let what = format!("{what}, record {i}");
            expect(&what, "as its source", record.from(), branch.from)?;
            expect(&what, "as its target", record.to(), branch.to)?;
        }
        Ok(())
    })?;
    if let Missing::FarBranches = missing {
        ensure!(short <= 2, "{short} samples have too few records");
    }
    let workload = workload::branches(iterations);
    expect("in total", "samples", k, workload.instructions() / period)
}

/// Samples the workload with one event.
fn check(pmu: &Pmu, flags: SampleBranchFlag, is_recorded: impl Fn(&Branch) -> bool) -> Result<()> {
    let mut sampler = sampler(pmu, flags, PERIOD)?;
    workload::branches(ITERATIONS).measure(&sampler)?;
    compare(
        &mut sampler,
        ITERATIONS,
        PERIOD,
        Missing::FarBranches,
        is_recorded,
    )
}

/// Each record has the addresses of a branch, and none is missing.
fn known_branches(ctx: &Ctx) -> Result<()> {
    for (name, pmu) in drivers(ctx)? {
        check(&pmu, SampleBranchFlag::ANY, |_| true).context(name)?;
    }
    Ok(())
}

/// What users ask for, and the kinds of branches of the workload that this is.
const FILTERS: [(SampleBranchFlag, &[BranchKind]); 5] = {
    use BranchKind::{Call, Conditional, Return};
    [
        (SampleBranchFlag::COND, &[Conditional]),
        (SampleBranchFlag::CALL, &[Call]),
        (SampleBranchFlag::ANY_CALL, &[Call]),
        (SampleBranchFlag::ANY_RETURN, &[Return]),
        (
            SampleBranchFlag::COND.union(SampleBranchFlag::ANY_RETURN),
            &[Conditional, Return],
        ),
    ]
};

/// With a filter there are the branches of these kinds alone.
fn filters(ctx: &Ctx) -> Result<()> {
    for (name, pmu) in drivers(ctx)? {
        for (flags, kinds) in FILTERS {
            let bits = flags.bits();
            check(&pmu, flags, |it| kinds.contains(&it.kind))
                .with_context(|| format!("{name}, branch_sample_type {bits:#x}"))?;
        }
    }
    Ok(())
}

/// Two events that agree on the filter are on the CPU at the same time, as members of a group.
fn of_two_events(ctx: &Ctx) -> Result<()> {
    const SECOND: u64 = 4_001;
    for (name, pmu) in drivers(ctx)? {
        let is_call = |it: &Branch| it.kind == BranchKind::Call;
        let mut first = sampler(&pmu, SampleBranchFlag::CALL, PERIOD)?;
        let mut second = event(&pmu, SampleBranchFlag::CALL, SECOND);
        second.enabled(true);
        let mut second = second.build_with_group(&mut *first)?.sampled(RING)?;
        workload::branches(ITERATIONS).measure(&first)?;
        for (sampler, period) in [(&mut first, PERIOD), (&mut second, SECOND)] {
            compare(sampler, ITERATIONS, period, Missing::FarBranches, is_call)
                .with_context(|| format!("{name}, period {period}"))?;
        }
    }
    Ok(())
}

/// The records of a task hold no branch of another one, which runs on the CPU in between.
fn of_two_tasks(ctx: &Ctx) -> Result<()> {
    const ITERATIONS: u64 = 4_000_000;
    const PERIOD: u64 = 100_003;
    for (name, pmu) in drivers(ctx)? {
        let mut sampler = sampler(&pmu, SampleBranchFlag::ANY, PERIOD)?;
        with_another_task(busy, || workload::branches(ITERATIONS).measure(&sampler))?;
        compare(&mut sampler, ITERATIONS, PERIOD, Missing::Switches, |_| {
            true
        })
        .context(name)?;
    }
    Ok(())
}

/// Each sample of an event of a CPU holds branches of one task, though another one has just left the CPU.
fn of_a_cpu(ctx: &Ctx) -> Result<()> {
    const TURNS: usize = 500;
    const PERIOD: u64 = 5_003;
    let here = workload::branches(2_000);
    let there = workload::block(500);
    for (name, pmu) in drivers(ctx)? {
        let mut event = event(&pmu, SampleBranchFlag::ANY, PERIOD);
        event.any_pid().one_cpu(0);
        let mut sampler = event.build()?.sampled(1 << 22)?;
        let other = || {
            workload::block(500).run();
            thread::yield_now();
        };
        with_another_task(other, || -> Result<()> {
            sampler.enable()?;
            for _ in 0..TURNS {
                here.run();
                thread::yield_now();
            }
            Ok(sampler.disable()?)
        })?;
        let mut of_both = [0, 0];
        for_each_sample(&mut sampler, |sample| {
            let records = sample.lbr().context("no branch stack")?;
            let any = |workload: &Workload| {
                let mut sources = records.iter().map(|record| record.from());
                sources.any(|from| workload.has_code_at(from))
            };
            let is_of = [any(&here), any(&there)];
            ensure!(
                is_of != [true, true],
                "{name}: a sample has branches of both tasks"
            );
            for (n, is_of) in of_both.iter_mut().zip(is_of) {
                *n += u32::from(is_of);
            }
            Ok(())
        })?;
        ensure!(
            !of_both.contains(&0),
            "{name}: samples of both tasks: {of_both:?}"
        );
    }
    Ok(())
}

/// Whether a branch of this kind of the workload is at `address`.
fn is_known(workload: &Workload, address: u64, kind: BranchKind) -> bool {
    let mut all = workload::last_branches(2, workload.instructions());
    all.any(|branch| branch.kind == kind && branch.from == address)
}

/// A debug exception stops recording, which goes on with the next sample.
fn after_debug_exceptions(ctx: &Ctx) -> Result<()> {
    let mut sampler = sampler(&ctx.pmu()?, SampleBranchFlag::ANY, PERIOD)?;
    let workload = workload::branches(ITERATIONS);
    sampler.enable()?;
    workload::single_step(10)?.run();
    workload.run();
    sampler.disable()?;
    let mut full = 0;
    for_each_sample(&mut sampler, |sample| {
        let records = sample.lbr().context("no branch stack")?;
        let mut sources = records.iter().map(|record| record.from());
        full += u64::from(sources.len() == DEPTH && sources.all(|it| workload.has_code_at(it)));
        Ok(())
    })?;
    // The first sample in the workload may be the one after the exception, and hold older branches.
    let expected = 7 * ITERATIONS / PERIOD;
    ensure!(
        full + 2 >= expected,
        "{full} of {expected} samples have all records"
    );
    Ok(())
}

/// Events that need different branches take turns, and each shows its own. The in-tree driver shows
/// hardly any: see docs/upstream/findings.md.
fn different_filters(ctx: &Ctx) -> Result<()> {
    const ITERATIONS: u64 = 4_000_000;
    const PERIOD: u64 = 100_003;
    let pmu = ctx.pmu()?;
    let mut conditional = sampler(&pmu, SampleBranchFlag::COND, PERIOD)?;
    let mut calls = sampler(&pmu, SampleBranchFlag::CALL, PERIOD)?;
    let workload = workload::branches(ITERATIONS);
    conditional.enable()?;
    workload.measure(&calls)?;
    conditional.disable()?;
    for (sampler, kind) in [
        (&mut conditional, BranchKind::Conditional),
        (&mut calls, BranchKind::Call),
    ] {
        let mut full = 0;
        for_each_sample(sampler, |sample| {
            let records = sample.lbr().context("no branch stack")?;
            for record in records {
                let known = is_known(&workload, record.from(), kind);
                ensure!(known, "{:#x} is no {kind:?}", record.from());
            }
            full += u32::from(records.len() == DEPTH);
            Ok(())
        })?;
        ensure!(full > 0, "no sample has all records of {kind:?}");
    }
    Ok(())
}

/// The call stacks of a program that is in a known number of calls, alone on the CPU and with another
/// task in between: each call, the last one first.
fn call_stacks(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 6_000_000;
    const PERIOD: u64 = 100_003;
    for (name, pmu) in drivers(ctx)? {
        for (depth, is_alone) in [(0, true), (5, true), (31, true), (5, false), (40, false)] {
            let mut sampler = sampler(&pmu, SampleBranchFlag::CALL_STACK, PERIOD)?;
            let workload = workload::nested_calls(depth, ROUNDS);
            match is_alone {
                true => workload.measure(&sampler)?,
                false => with_another_task(busy, || workload.measure(&sampler))?,
            }
            let what = format!("{name}, {depth} calls, alone: {is_alone}");
            compare_calls(&mut sampler, depth, PERIOD, ROUNDS).context(what)?;
        }
    }
    Ok(())
}

/// Compares the records of each sample in the loop of [`workload::nested_calls`] with its calls. The event
/// has been enabled after the test has called what it measures, so there are no others.
fn compare_calls(sampler: &mut Sampler, depth: u64, period: u64, rounds: u64) -> Result<()> {
    let start = workload::before_nested_loop(depth);
    let mut k = 0;
    for_each_sample(sampler, |sample| {
        k += 1;
        let is_in_loop = (start..start + 2 * rounds).contains(&(k * period));
        ensure!(is_in_loop, "sample {k} is not in the loop");
        let records = sample.lbr().context("no branch stack")?;
        let what = format!("sample {k}");
        // That of the function itself is the first call.
        let complete = (depth + 1).min(DEPTH as u64);
        expect(&what, "records", records.len() as u64, complete)?;
        let (from, to) = workload::nested_call();
        for (i, record) in records.iter().enumerate() {
            let what = format!("{what}, record {i}");
            expect(&what, "as its target", record.to(), to)?;
            if i < depth as usize {
                expect(&what, "as its source", record.from(), from)?;
            }
        }
        Ok(())
    })?;
    expect("in total", "samples", k, (start + 2 * rounds) / period)
}

/// What another task does, again and again, if only its taking time matters.
fn busy() {
    workload::block(1_000).run();
}

/// Calls `f` while another task calls `other` again and again on the same CPU.
fn with_another_task<R>(other: impl Fn() + Send, f: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            while !done.load(Relaxed) {
                other();
            }
        });
        let result = f();
        done.store(true, Relaxed);
        result
    })
}

/// What cannot be had is refused with the in-tree driver's errno.
fn refused(ctx: &Ctx) -> Result<()> {
    /// PERF_SAMPLE_BRANCH_COUNTERS, which the crate does not have.
    const COUNTERS: u64 = 1 << 19;
    let any = SampleBranchFlag::ANY.bits();
    let call_stack = SampleBranchFlag::CALL_STACK.bits();
    for (name, pmu) in drivers(ctx)? {
        for bits in [
            any | COUNTERS,
            any | call_stack,
            call_stack | SampleBranchFlag::COND.bits(),
        ] {
            let flags = SampleBranchFlag::from_bits_retain(bits);
            let error = event(&pmu, flags, PERIOD).build().err();
            let found = error.and_then(|it| it.raw_os_error()).unwrap_or(0);
            let what = format!("{name}, branch_sample_type {bits:#x}");
            expect(&what, "as its errno", found as u64, Errno::EINVAL as u64)?;
        }
        // Two events of a group that could never be counted at once.
        let mut leader = event(&pmu, SampleBranchFlag::COND, PERIOD).build()?;
        let member = event(&pmu, SampleBranchFlag::CALL, PERIOD).build_with_group(&mut leader);
        let found = member.err().and_then(|it| it.raw_os_error()).unwrap_or(0);
        expect(
            name,
            "for a group, errno",
            found as u64,
            Errno::EINVAL as u64,
        )?;
    }
    Ok(())
}
