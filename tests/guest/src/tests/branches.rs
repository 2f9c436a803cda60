// SPDX-License-Identifier: GPL-2.0
//! Branch records in samples of rust_pmu, and of the in-tree driver: they are the last branches of a
//! program whose branches are known, entry by entry.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use perf_event::{Builder, SampleBranchFlag, SampleFlag, Sampler};

mod call_stacks;
mod children;
mod generated;
mod hardware;
mod last_event;
mod logging;
mod random;
mod threads;

use self::call_stacks::call_stacks;
use self::children::call_chains_of_children;
use self::hardware::{request, Hardware, Selects};
use self::last_event::last_event_record;
use self::logging::{logged_counts, logged_event_moves, not_logged};
use self::random::random_programs;
use self::threads::{both_threads_of_a_core, different_requests_in_a_group};
use super::expect;
use super::sampling::{for_each_sample, RING};
use crate::ctx::{Ctx, Test};
use crate::pmu::{CpuPmu, Event, Pmu};
use crate::tests;
use crate::workload::{self, BranchKind, Workload};

pub const TESTS: &[Test] = tests![
    all need [ExactCounts, InTreeCounts];
    known_branches,
    filters,
    of_two_events,
    of_two_tasks,
    of_a_cpu,
    after_debug_exceptions,
    different_filters,
    random_programs,
    call_stacks,
    call_chains_of_children,
    logged_counts,
    not_logged,
    last_event_record: [Intel, Root, Msrs],
    refused,
];

/// On a model that logs, and has events that only one counter counts.
pub const MOVED_TESTS: &[Test] = tests![
    all need [ExactCounts];
    logged_event_moves,
];

/// On a model whose threads share the register that selects branches.
pub const TESTS_OF_THREADS: &[Test] = tests![
    all need [ExactCounts, Root, Msrs];
    both_threads_of_a_core,
    different_requests_in_a_group,
];

const ITERATIONS: u64 = 20_000;
/// A sample comes after more branches of each kind than there are records.
const PERIOD: u64 = 1_009;

/// Whether a CPU that records branches has call stacks.
pub fn has_call_stacks(pmu: &Pmu) -> Result<bool> {
    Ok(Hardware::of(pmu)?.has_call_stack)
}

/// The driver, and the one to compare it with.
fn drivers(ctx: &Ctx) -> Result<[(&'static str, Pmu); 2]> {
    Ok([("rust_pmu", ctx.pmu()?), ("in-tree", ctx.in_tree()?)])
}

/// An event that samples branches of these kinds to user mode.
fn event(pmu: &Pmu, flags: u64, period: u64) -> Builder<'static> {
    with_branches(pmu.event(Event::Instructions), flags, period)
}

/// An event, with such samples.
fn with_branches(mut event: Builder<'static>, flags: u64, period: u64) -> Builder<'static> {
    event
        .sample_period(period)
        // The crate does not parse a sample that ends with an empty stack: the weight comes behind it.
        .sample(SampleFlag::BRANCH_STACK | SampleFlag::WEIGHT)
        .branch_sample_type(SampleBranchFlag::from_bits_retain(flags | request::USER));
    event
}

fn sampler(pmu: &Pmu, flags: u64, period: u64) -> Result<Sampler> {
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
/// branches of `iterations` of the workload that an event with these `flags` shows.
fn compare(
    sampler: &mut Sampler,
    hardware: Hardware,
    flags: u64,
    (iterations, period): (u64, u64),
    missing: Missing,
) -> Result<()> {
    let mut k = 0;
    let mut short = 0;
    for_each_sample(sampler, |sample| {
        k += 1;
        let what = format!("sample {k}");
        let records = sample.lbr().context("no branch stack")?;
        let last = workload::last_branches(iterations, k * period);
        let expected: Vec<_> = hardware.shown(flags, last).collect();
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
fn check(pmu: &Pmu, hardware: Hardware, flags: u64) -> Result<()> {
    let mut sampler = sampler(pmu, flags, PERIOD)?;
    workload::branches(ITERATIONS).measure(&sampler)?;
    compare(
        &mut sampler,
        hardware,
        flags,
        (ITERATIONS, PERIOD),
        Missing::FarBranches,
    )
}

/// Each record has the addresses of a branch, and none is missing.
fn known_branches(ctx: &Ctx) -> Result<()> {
    let hardware = Hardware::of(&ctx.pmu()?)?;
    for (name, pmu) in drivers(ctx)? {
        check(&pmu, hardware, request::ANY).context(name)?;
    }
    Ok(())
}

/// What users ask for.
const FILTERS: [u64; 5] = [
    request::COND,
    request::CALL,
    request::ANY_CALL,
    request::ANY_RETURN,
    request::COND | request::ANY_RETURN,
];

/// Whether a driver leaves out branches of a request: the in-tree one direct calls, where they need jumps
/// (`nhm_lbr_sel_map`), unless something else asks for them.
fn leaves_out(driver: &str, hardware: Hardware, flags: u64) -> bool {
    let asks = flags & request::CALL != 0 && flags & (request::ANY | request::ANY_CALL) == 0;
    driver == "in-tree" && hardware.selects == Selects::WithJumps && asks
}

/// With a filter there are the branches of these kinds alone.
fn filters(ctx: &Ctx) -> Result<()> {
    let hardware = Hardware::of(&ctx.pmu()?)?;
    for (name, pmu) in drivers(ctx)? {
        for flags in FILTERS {
            if !leaves_out(name, hardware, flags) {
                check(&pmu, hardware, flags)
                    .with_context(|| format!("{name}, branch_sample_type {flags:#x}"))?;
            }
        }
    }
    Ok(())
}

/// Two events that agree on the filter are on the CPU at the same time, as members of a group.
fn of_two_events(ctx: &Ctx) -> Result<()> {
    const SECOND: u64 = 4_001;
    const FLAGS: u64 = request::CALL;
    let hardware = Hardware::of(&ctx.pmu()?)?;
    for (name, pmu) in drivers(ctx)? {
        if leaves_out(name, hardware, FLAGS) {
            continue;
        }
        let mut first = sampler(&pmu, FLAGS, PERIOD)?;
        let mut second = event(&pmu, FLAGS, SECOND);
        second.enabled(true);
        let mut second = second.build_with_group(&mut *first)?.sampled(RING)?;
        workload::branches(ITERATIONS).measure(&first)?;
        for (sampler, period) in [(&mut first, PERIOD), (&mut second, SECOND)] {
            let run = (ITERATIONS, period);
            compare(sampler, hardware, FLAGS, run, Missing::FarBranches)
                .with_context(|| format!("{name}, period {period}"))?;
        }
    }
    Ok(())
}

/// The records of a task hold no branch of another one, which runs on the CPU in between.
fn of_two_tasks(ctx: &Ctx) -> Result<()> {
    const ITERATIONS: u64 = 4_000_000;
    const PERIOD: u64 = 100_003;
    let hardware = Hardware::of(&ctx.pmu()?)?;
    for (name, pmu) in drivers(ctx)? {
        let mut sampler = sampler(&pmu, request::ANY, PERIOD)?;
        with_another_task(busy, || workload::branches(ITERATIONS).measure(&sampler))?;
        let run = (ITERATIONS, PERIOD);
        let flags = request::ANY;
        compare(&mut sampler, hardware, flags, run, Missing::Switches).context(name)?;
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
        let mut event = event(&pmu, request::ANY, PERIOD);
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
    let depth = Hardware::of(&ctx.pmu()?)?.depth;
    let mut sampler = sampler(&ctx.pmu()?, request::ANY, PERIOD)?;
    let workload = workload::branches(ITERATIONS);
    sampler.enable()?;
    workload::single_step(10)?.run();
    workload.run();
    sampler.disable()?;
    let mut full = 0;
    for_each_sample(&mut sampler, |sample| {
        let records = sample.lbr().context("no branch stack")?;
        let mut sources = records.iter().map(|record| record.from());
        full += u64::from(sources.len() == depth && sources.all(|it| workload.has_code_at(it)));
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
    let hardware = Hardware::of(&pmu)?;
    let mut conditional = sampler(&pmu, request::COND, PERIOD)?;
    let mut calls = sampler(&pmu, request::CALL, PERIOD)?;
    let workload = workload::branches(ITERATIONS);
    conditional.enable()?;
    workload.measure(&calls)?;
    conditional.disable()?;
    for (sampler, flags, kind) in [
        (&mut conditional, request::COND, BranchKind::Conditional),
        (&mut calls, request::CALL, BranchKind::Call),
    ] {
        let last = workload::last_branches(ITERATIONS, workload.instructions());
        let expected = hardware.shown(flags, last).count();
        let mut full = 0;
        for_each_sample(sampler, |sample| {
            let records = sample.lbr().context("no branch stack")?;
            for record in records {
                let known = is_known(&workload, record.from(), kind);
                ensure!(known, "{:#x} is no {kind:?}", record.from());
            }
            full += u32::from(records.len() == expected);
            Ok(())
        })?;
        ensure!(full > 0, "no sample has all records of {kind:?}");
    }
    Ok(())
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

/// The error of an event that could not be opened, 0 if it could.
fn errno<T>(event: io::Result<T>) -> u64 {
    let error = event.err().and_then(|it| it.raw_os_error());
    error.unwrap_or(0) as u64
}

/// What cannot be had is refused with the in-tree driver's errno.
fn refused(ctx: &Ctx) -> Result<()> {
    let hardware = Hardware::of(&ctx.pmu()?)?;
    let is_amd = CpuPmu::probe().is_amd();
    let contradiction = match hardware.has_call_stack {
        true => Errno::EINVAL,
        false => Errno::EOPNOTSUPP,
    };
    for (name, pmu) in drivers(ctx)? {
        let is_ours = name == "rust_pmu";
        // On AMD's CPUs it is accepted and ignored.
        let counters = (request::ANY | request::COUNTERS, Errno::EINVAL);
        let counters = (!is_amd && !hardware.logs).then_some(counters);
        let others = [
            (request::ANY | request::CALL_STACK, contradiction),
            (request::CALL_STACK | request::COND, contradiction),
        ];
        for (bits, expected) in counters.into_iter().chain(others) {
            let found = errno(event(&pmu, bits, PERIOD).build());
            let what = format!("{name}, branch_sample_type {bits:#x}");
            expect(&what, "as its errno", found, expected as u64)?;
        }
        // Two events of a group that could never be counted at once. AMD's driver accepts them, too, and
        // shows branches of one of them.
        let is_possible = hardware.selects == Selects::Nothing || is_amd && !is_ours;
        let expected = match is_possible {
            true => 0,
            false => Errno::EINVAL as u64,
        };
        let mut leader = event(&pmu, request::COND, PERIOD).build()?;
        let member = event(&pmu, request::CALL, PERIOD);
        let found = errno(member.build_with_group(&mut leader));
        expect(name, "for a group, errno", found, expected)?;
    }
    Ok(())
}
