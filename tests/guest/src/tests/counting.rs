// SPDX-License-Identifier: GPL-2.0
//! Counts of user instructions and branches are exact, whatever interrupts them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{bail, ensure, Result};
use perf_event::events::Software;
use perf_event::Builder;

use super::{cpus, expect, expect_exact, interrupts, repeat};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Mode, Pmu};
use crate::program::{Program, LOOP, MIXED};
use crate::setting::Affinity;
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [ExactCounts];
    window_alone,
    loops_of_all_lengths,
    twice_the_loop,
    branches,
    hundred_million,
    timer_interrupts,
    page_faults,
    rep_strings,
    rep_string_with_interrupts,
    faulting_instructions,
    traps,
    single_step,
    syscalls,
    system_instructions,
    fpu,
    atomics,
    self_modifying_code,
    moving_between_cpus: [Cpus(2)],
    program_alone,
    program_as_in_tree: [InTreeCounts],
    many_programs,
];

/// A selection for suites that run on many machines.
pub const QUICK: &[Test] = tests![
    all need [ExactCounts];
    window_alone,
    loops_of_all_lengths,
    twice_the_loop,
    branches,
    page_faults,
    rep_strings,
    faulting_instructions,
    syscalls,
    self_modifying_code,
    moving_between_cpus: [Cpus(2)],
];

/// The code around each workload is counted exactly by itself.
fn window_alone(ctx: &Ctx) -> Result<()> {
    expect_exact(&ctx.pmu()?, &workload::empty())
}

/// Loops of 1 to 7.8 million rounds are counted exactly.
fn loops_of_all_lengths(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for n in [1, 2, 3, 10, 511, 512, 513, 65_537, 1_000_000, 7_777_777] {
        expect_exact(&pmu, &workload::tight_loop(n))?;
    }
    Ok(())
}

/// A loop of twice the rounds has exactly as many instructions more. What `guest_measure` itself
/// adds does not matter.
fn twice_the_loop(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for n in [1_000, 100_000, 10_000_000] {
        let once = count(&pmu, &workload::tight_loop(n))?;
        let twice = count(&pmu, &workload::tight_loop(2 * n))?;
        expect("N against 2N", "instructions", twice - once, 2 * n)?;
    }
    Ok(())
}

fn count(pmu: &Pmu, workload: &Workload) -> Result<u64> {
    let mut counter = pmu.open(Event::Instructions, Mode::User)?;
    workload.measure(&counter)?;
    Ok(counter.read()?)
}

/// Code that consists of branches is counted exactly.
fn branches(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for n in [1, 1_000, 1_000_000] {
        expect_exact(&pmu, &workload::branches(n))?;
    }
    Ok(())
}

/// A loop of 50 million more rounds has 100 million more instructions.
fn hundred_million(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let once = count(&pmu, &workload::tight_loop(50_000_000))?;
    let twice = count(&pmu, &workload::tight_loop(100_000_000))?;
    expect(
        "50M against 100M rounds",
        "instructions",
        twice - once,
        100_000_000,
    )?;
    expect_exact(&pmu, &workload::block(6_666_666))
}

/// Counts a workload exactly, again and again until ten timer interrupts have come meanwhile.
fn expect_exact_with_interrupts(ctx: &Ctx, workload: &Workload) -> Result<()> {
    let pmu = ctx.pmu()?;
    repeat("ten timer interrupts", || {
        let before = interrupts("LOC")?;
        expect_exact(&pmu, workload)?;
        Ok(interrupts("LOC")? - before >= 10)
    })?;
    Ok(())
}

/// A loop in which ten timer interrupts come, or more, is counted exactly.
fn timer_interrupts(ctx: &Ctx) -> Result<()> {
    expect_exact_with_interrupts(ctx, &workload::tight_loop(100_000_000))
}

/// Code that takes up to 4000 page faults is counted exactly.
fn page_faults(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for pages in [1, 100, 4_000] {
        let workload = workload::touch(pages)?;
        let mut faults = Builder::new(Software::PAGE_FAULTS)
            .include_kernel()
            .build()?;
        faults.enable()?;
        expect_exact(&pmu, &workload)?;
        faults.disable()?;
        let faults = faults.read()?;
        ensure!(
            faults >= pages,
            "only {faults} page faults for {pages} pages"
        );
    }
    Ok(())
}

/// A REP string instruction counts as one, however long the string is.
fn rep_strings(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for len in [1, 7, 4_096, 1_000_001] {
        expect_exact(&pmu, &workload::rep_movsb(len)?)?;
        expect_exact(&pmu, &workload::rep_stosb(len)?)?;
        expect_exact(&pmu, &workload::repne_scasb(len)?)?;
    }
    expect_exact(&pmu, &workload::rep_nothing(10_000)?)
}

/// A REP string instruction counts as one, although timer interrupts come within it.
fn rep_string_with_interrupts(ctx: &Ctx) -> Result<()> {
    expect_exact_with_interrupts(ctx, &workload::rep_stosb(64 << 20)?)
}

/// An instruction that faults is not counted: UD2, and a division by zero.
fn faulting_instructions(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    expect_exact(&pmu, &workload::undefined(1_000)?)?;
    expect_exact(&pmu, &workload::divide_error(1_000)?)
}

/// Each INT3 raises one signal, and the code is counted exactly.
fn traps(ctx: &Ctx) -> Result<()> {
    const N: u64 = 1_000;
    let workload = workload::breakpoint(N)?;
    expect_exact(&ctx.pmu()?, &workload)?;
    expect("INT3", "signals", signals(&workload), N)
}

/// Code that is single-stepped by EFLAGS.TF has a signal for each instruction, and is counted
/// exactly.
fn single_step(ctx: &Ctx) -> Result<()> {
    const N: u64 = 500;
    let workload = workload::single_step(N)?;
    expect("EFLAGS.TF", "signals", signals(&workload), 2 * N + 3)?;
    expect_exact(&ctx.pmu()?, &workload)
}

/// The number of signals that a workload raises.
fn signals(workload: &Workload) -> u64 {
    let before = workload::signals_counted();
    workload.run();
    workload::signals_counted() - before
}

/// 10,000 system calls are counted exactly in user mode.
fn syscalls(ctx: &Ctx) -> Result<()> {
    expect_exact(&ctx.pmu()?, &workload::syscalls(10_000))
}

/// CPUID, RDTSC and PAUSE are counted exactly.
fn system_instructions(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    expect_exact(&pmu, &workload::cpuid(10_000))?;
    expect_exact(&pmu, &workload::rdtsc(10_000))?;
    // Each lets another thread of the host run.
    expect_exact(&pmu, &workload::pause(100))
}

/// Floating-point code is counted exactly.
fn fpu(ctx: &Ctx) -> Result<()> {
    expect_exact(&ctx.pmu()?, &workload::fpu(100_000))
}

/// Atomics, for which TCG may stop all other vCPUs, are counted exactly while another thread runs
/// them too.
fn atomics(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let rival = scope.spawn(|| -> Result<()> {
            let (split, wide) = (workload::split_lock(100)?, workload::cmpxchg16b(100)?);
            while !done.load(Ordering::Relaxed) {
                split.run();
                wide.run();
            }
            Ok(())
        });
        let result = (0..10).try_for_each(|_| {
            expect_exact(&pmu, &workload::split_lock(10_000)?)?;
            expect_exact(&pmu, &workload::cmpxchg16b(10_000)?)
        });
        done.store(true, Ordering::Relaxed);
        rival.join().expect("the rival thread does not panic")?;
        result
    })
}

/// Code that changes itself is counted exactly.
fn self_modifying_code(ctx: &Ctx) -> Result<()> {
    expect_exact(&ctx.pmu()?, &workload::self_modifying(1_000)?)
}

/// A thread that moves between CPUs while it counts is counted exactly.
fn moving_between_cpus(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    while_moving(|| move_while_counting(&pmu))
}

/// Runs `work` while another thread keeps moving this one to the next CPU.
pub fn while_moving<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let cpus = cpus()?;
    let affinity = Affinity::save()?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let mover = scope.spawn(|| -> Result<()> {
            for cpu in (0..cpus).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                affinity.pin(cpu)?;
                thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        mover.join().expect("the moving thread does not panic")?;
        result
    })
}

/// Goes on until the thread has been moved ten times, which takes more rounds on a slow kernel.
fn move_while_counting(pmu: &Pmu) -> Result<()> {
    let mut migrations = Builder::new(Software::CPU_MIGRATIONS)
        .include_kernel()
        .build()?;
    migrations.enable()?;
    const N: u64 = 10_000_000;
    for _ in 0..100 {
        expect_exact(pmu, &workload::tight_loop(N))?;
        let once = count(pmu, &workload::tight_loop(N))?;
        let twice = count(pmu, &workload::tight_loop(2 * N))?;
        expect("N against 2N", "instructions", twice - once, 2 * N)?;
        if migrations.read()? >= 10 {
            return Ok(());
        }
    }
    bail!("only {} migrations", migrations.read()?)
}

/// A static program is counted exactly, from its first instruction to its exit.
fn program_alone(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for program in [LOOP, MIXED] {
        let count = count_program(&pmu, &program)?;
        expect(
            "static program",
            "instructions",
            count,
            program.instructions,
        )?;
    }
    Ok(())
}

fn count_program(pmu: &Pmu, program: &Program) -> Result<u64> {
    let installed = program.install()?;
    let child = installed.stopped()?;
    let mut counter = pmu
        .event(Event::Instructions)
        .observe_pid(child.pid().as_raw())
        .enable_on_exec(true)
        .build()?;
    child.finish()?;
    Ok(counter.read()?)
}

/// Programs have the same number of instructions as with the in-tree driver.
fn program_as_in_tree(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    for program in [LOOP, MIXED] {
        let theirs = count_program(&in_tree, &program)?;
        let ours = count_program(&pmu, &program)?;
        expect("against the in-tree PMU", "instructions", ours, theirs)?;
    }
    Ok(())
}

/// Six processes that share the CPUs are counted exactly, each by its own event.
fn many_programs(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let installed = LOOP.install()?;
    let mut counters = Vec::new();
    let children = (0..6)
        .map(|_| {
            let child = installed.stopped()?;
            let counter = pmu
                .event(Event::Instructions)
                .observe_pid(child.pid().as_raw())
                .enable_on_exec(true)
                .build()?;
            counters.push(counter);
            Ok(child)
        })
        .collect::<Result<Vec<_>>>()?;
    // All at once, so that they preempt each other.
    children.iter().try_for_each(|child| child.proceed())?;
    children.into_iter().try_for_each(|child| child.finish())?;
    for counter in &mut counters {
        expect(
            "one of six",
            "instructions",
            counter.read()?,
            LOOP.instructions,
        )?;
    }
    Ok(())
}
