// SPDX-License-Identifier: GPL-2.0
//! Threads of a core that disturb each other's counters: errata BJ122 (Sandy Bridge), BV98 (Ivy
//! Bridge) and HSD29 (Haswell). Both drivers keep the events that do so, called exclusive here,
//! off the counters of the other thread.
//!
//! The emulated CPU has the erratum: the counter of the same number gets an error of [`ERROR`].
//!
//! While events take turns, the in-tree driver's counts have that error, too: if an event finds no
//! counter, `intel_put_excl_constraints()` forgets that the counter that this event had before is
//! in use, by whatever event. So counts are those of rust_pmu only.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use fastrand::Rng;
use perf_event::{Builder, Counter, ReadFormat};

use super::compare::case::eventsel::{CMASK_1, EVENT_UMASK};
use super::extra_registers::{is_on_counter, siblings};
use super::{expect, expect_count};
use crate::ctx::{Ctx, Test, IN_TREE};
use crate::kmsg::Kmsg;
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::Pmu;
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [InTree, EmulatedPmu, Cpus(2), General(4)];
    threads_of_a_core,
    emulated_erratum: [Msrs, Root],
    who_gets_a_counter,
    never_the_same_counter: [Msrs],
    exact_beside_exclusive_events: [ExactCounts, Module],
    exact_in_a_storm: [ExactCounts, Module],
    all_get_their_turn,
];

/// What a counter that was disturbed has too much (qemu/README.md).
const ERROR: u64 = 1 << 40;

/// Instructions, by a code that no fixed counter counts: cycles with at least one of them.
const PLAIN: u64 = 0xc0 | CMASK_1;

/// Exclusive events. The model counts instructions with all of them.
const EXCLUSIVE: [u64; 6] = [0x11d0, 0x12d0, 0x01d1, 0x04d1, 0x01d2, 0x01d3];

fn is_exclusive(config: u64) -> bool {
    (0xd0..=0xd3).contains(&(config & 0xff))
}

/// Both drivers.
fn drivers(ctx: &Ctx) -> Result<[Pmu; 2]> {
    Ok([ctx.pmu()?, ctx.in_tree()?])
}

/// An event of a CPU that is on a counter at once, or never.
fn pinned(pmu: &Pmu, config: u64, cpu: usize) -> Result<Counter> {
    let mut builder = pmu.raw(config);
    builder.any_pid().one_cpu(cpu).pinned(true).enabled(true);
    builder.build().context("a pinned event")
}

/// The CPUs are threads of one core, and the in-tree driver knows that it has the erratum.
fn threads_of_a_core(_: &Ctx) -> Result<()> {
    let threads = siblings()?;
    ensure!(threads == [0, 1], "{threads:?}");
    let log = Kmsg::from_boot()?.lines()?;
    let found = log.iter().any(|line| line.contains("BJ122"));
    ensure!(found, "the in-tree driver does not work around the erratum");
    Ok(())
}

/// Without a driver that keeps them apart, the counts are wrong: the other tests could fail.
fn emulated_erratum(ctx: &Ctx) -> Result<()> {
    const EN_USR_OS: u64 = 0x43_0000;
    // The driver reserves the counters, and uses none.
    let _holder = ctx.pmu()?.raw(PLAIN).build()?;
    let registers = PmuMsrs::of_this_cpu();
    let global_ctrl = registers.global_ctrl.context("no GLOBAL_CTRL")?;
    let [first, second] = [Msrs::of_cpu(0)?, Msrs::of_cpu(1)?];
    let program = |msrs: &Msrs, counter: usize, code: u64| -> Result<()> {
        msrs.write(global_ctrl, 0)?;
        msrs.write(registers.eventsels[counter], EN_USR_OS | code)?;
        msrs.write(registers.counters[counter], 0)
    };
    let mut counts = Vec::new();
    for (counter, code) in [(2, PLAIN), (1, EXCLUSIVE[0]), (2, EXCLUSIVE[0])] {
        program(&first, 2, PLAIN)?;
        program(&second, counter, code)?;
        first.write(global_ctrl, 1 << 2)?;
        second.write(global_ctrl, 1 << counter)?;
        for msrs in [&second, &first] {
            msrs.write(global_ctrl, 0)?;
        }
        counts.push(first.read(registers.counters[2])?);
        for (msrs, counter) in [(&first, 2), (&second, counter)] {
            msrs.write(registers.eventsels[counter], 0)?;
            msrs.write(registers.counters[counter], 0)?;
        }
    }
    let wrong: Vec<bool> = counts.iter().map(|count| *count >= ERROR).collect();
    ensure!(wrong == [false, false, true], "{counts:x?}");
    Ok(())
}

/// What happens in [`who_gets_a_counter`].
#[derive(Clone, Copy)]
enum Step {
    /// An event is opened on a CPU: whether it is on a counter.
    Opened(usize, u64, bool),
    /// The oldest event on a CPU is closed.
    Closed(usize),
}

/// Which events are on counters: the same ones on both drivers.
fn who_gets_a_counter(ctx: &Ctx) -> Result<()> {
    use Step::{Closed, Opened};
    const EXCL: u64 = EXCLUSIVE[0];
    // On counter 2 only (L1D_PEND_MISS).
    const ON_2: u64 = 0x0148;
    let scenarios: &[&[Step]] = &[
        // A thread has half of the counters if there is an exclusive event.
        &[
            Opened(0, EXCL, true),
            Opened(0, EXCL, true),
            Opened(0, EXCL, false),
            Opened(0, PLAIN, false),
            Opened(1, PLAIN, true),
            Opened(1, EXCL, true),
            Opened(1, PLAIN, false),
        ],
        // Fixed counters are not limited.
        &[
            Opened(0, EXCL, true),
            Opened(0, EXCL, true),
            Opened(0, 0xc0, true),
            Opened(0, 0x3c, true),
            Opened(1, EXCL, true),
            Opened(1, EXCL, true),
            Opened(1, 0xc0, true),
        ],
        // All counters, while there is none.
        &[
            Opened(1, PLAIN, true),
            Opened(1, PLAIN, true),
            Opened(1, PLAIN, true),
            Opened(1, PLAIN, true),
            Opened(0, PLAIN, true),
            Opened(0, PLAIN, true),
            Opened(0, PLAIN, true),
            Opened(0, PLAIN, true),
        ],
        // An exclusive event needs a counter that the other thread leaves, which then gets no
        // other one for it.
        &[
            Opened(1, PLAIN, true),
            Opened(1, PLAIN, true),
            Opened(1, PLAIN, true),
            Opened(1, PLAIN, true),
            Opened(0, EXCL, false),
            Closed(1),
            Opened(0, EXCL, true),
            Opened(1, PLAIN, false),
        ],
        // The counter that an event needs.
        &[
            Opened(0, ON_2, true),
            Opened(1, ON_2, true),
            Closed(0),
            Opened(0, EXCL, true),
            Opened(0, EXCL, true),
            Closed(1),
            Opened(1, ON_2, true),
        ],
    ];
    for pmu in drivers(ctx)? {
        for (number, steps) in scenarios.iter().enumerate() {
            let mut open: [Vec<Counter>; 2] = Default::default();
            for (i, step) in steps.iter().enumerate() {
                match *step {
                    Opened(cpu, config, expected) => {
                        let mut event = pinned(&pmu, config, cpu)?;
                        let found = is_on_counter(&mut event)?;
                        ensure!(
                            found == expected,
                            "{}, scenario {number}, step {i}: {config:#x} on CPU {cpu}: {found}",
                            pmu.name
                        );
                        // One that is not would keep nothing from the others.
                        open[cpu].extend(found.then_some(event));
                    }
                    Closed(cpu) => drop(open[cpu].remove(0)),
                }
            }
        }
    }
    Ok(())
}

/// The general counters of a CPU that count, and those of them with exclusive events.
fn counting(msrs: &Msrs) -> Result<[u64; 2]> {
    const EN: u64 = 1 << 22;
    let registers = PmuMsrs::of_this_cpu();
    let global_ctrl = msrs.read(registers.global_ctrl.context("no GLOBAL_CTRL")?)?;
    let [mut all, mut exclusive] = [0; 2];
    for (i, address) in registers.eventsels.iter().enumerate() {
        let eventsel = msrs.read(*address)?;
        if global_ctrl & (1 << i) != 0 && eventsel & EN != 0 {
            all |= 1 << i;
            exclusive |= u64::from(is_exclusive(eventsel & EVENT_UMASK)) << i;
        }
    }
    Ok([all, exclusive])
}

/// Events come and go on both CPUs. The registers show which counters they are on.
fn never_the_same_counter(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 600;
    println!("# seed {}", ctx.seed);
    let mut rng = Rng::with_seed(ctx.seed);
    let msrs = [Msrs::of_cpu(0)?, Msrs::of_cpu(1)?];
    let pmu = ctx.pmu()?;
    // Some of them on certain counters only.
    let plain = [PLAIN, PLAIN, 0x00c4, 0x0148, 0x01c0, 0x01cd, 0xc0];
    let mut open: [Vec<Counter>; 2] = Default::default();
    let [mut refused, mut both] = [0; 2];
    for _ in 0..ROUNDS {
        let cpu = rng.usize(..2);
        if !open[cpu].is_empty() && rng.u8(..3) == 0 {
            let which = rng.usize(..open[cpu].len());
            open[cpu].swap_remove(which);
        } else {
            let config = match rng.bool() {
                true => EXCLUSIVE[rng.usize(..EXCLUSIVE.len())],
                false => plain[rng.usize(..plain.len())],
            };
            let mut event = pinned(&pmu, config, cpu)?;
            let is_on = is_on_counter(&mut event)?;
            refused += usize::from(!is_on);
            open[cpu].extend(is_on.then_some(event));
        }
        let [first, second] = [counting(&msrs[0])?, counting(&msrs[1])?];
        let [[all_0, exclusive_0], [all_1, exclusive_1]] = [first, second];
        let shared = (exclusive_0 & all_1) | (exclusive_1 & all_0);
        ensure!(shared == 0, "{first:x?} and {second:x?}");
        both += usize::from(exclusive_0 != 0 && exclusive_1 != 0);
    }
    println!("# {ROUNDS} rounds: {refused} events refused, exclusive events on both in {both}");
    ensure!(refused > 0 && both > 0, "it was too easy");
    Ok(())
}

/// Four exclusive events, more than may be counted at once, come and go on one thread. Those
/// of the other thread count every instruction, and no more.
fn exact_beside_exclusive_events(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 300;
    let workload = workload::branches(2_000);
    let pmu = ctx.pmu()?;
    for cpu in [0, 1] {
        let _affinity = Affinity::pinned_to(cpu)?;
        // Two events, which are always on a counter, whatever the other thread does.
        let mut leader = pmu.raw(PLAIN).build()?;
        let mut member = pmu
            .raw(EXCLUSIVE[1])
            .enabled(true)
            .build_with_group(&mut leader)?;
        for round in 0..ROUNDS {
            let mut beside = Vec::new();
            for config in EXCLUSIVE.iter().cycle().skip(round).take(4) {
                let mut builder = pmu.raw(*config);
                builder.any_pid().one_cpu(1 - cpu).include_kernel();
                beside.push(builder.enabled(true).build()?);
            }
            leader.reset_group()?;
            workload.measure(&leader)?;
            expect_count(&workload, leader.read()?)
                .and_then(|()| expect_count(&workload, member.read()?))
                .with_context(|| format!("CPU {cpu}, round {round}"))?;
            for event in &mut beside {
                let count = event.read()?;
                ensure!(count < ERROR, "{count:#x} beside it");
            }
        }
    }
    Ok(())
}

/// An event with the times that it was enabled and running.
fn timed(mut builder: Builder<'static>) -> Result<Counter> {
    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    builder.read_format(times);
    builder.build().context("an event with times")
}

/// Random events of tasks on both threads. An event that was on a counter all the time has the
/// right count, and no event has much too large a one.
fn exact_in_a_storm(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 1_500;
    println!("# seed {}", ctx.seed);
    let (pmu, failed) = (&ctx.pmu()?, &AtomicBool::new(false));
    let storm = |cpu: usize| -> Result<[usize; 2]> {
        let mut rng = Rng::with_seed(ctx.seed ^ cpu as u64);
        let _affinity = Affinity::pinned_to(cpu)?;
        let workload = workload::branches(200);
        let [mut exact, mut all] = [0; 2];
        for _ in 0..ROUNDS {
            if failed.load(Relaxed) {
                break;
            }
            let configs: Vec<u64> = (0..rng.usize(1..=4))
                .map(|_| match rng.u8(..3) {
                    0 => PLAIN,
                    _ => EXCLUSIVE[rng.usize(..EXCLUSIVE.len())],
                })
                .collect();
            let mut events = Vec::new();
            for config in &configs {
                let mut builder = pmu.raw(*config);
                builder.enabled(true);
                events.push(timed(builder)?);
            }
            // This one is enabled for the workload alone.
            let mut last = timed(pmu.raw(EXCLUSIVE[rng.usize(..EXCLUSIVE.len())]))?;
            workload.measure(&last)?;
            let data = last.read_full()?;
            all += 1;
            if data.time_running() == data.time_enabled() {
                exact += 1;
                let (got, want) = (data.count(), workload.instructions());
                expect("beside others", "instructions", got, want)?;
            }
            for event in &mut events {
                let count = event.read_full()?.count();
                ensure!(count < ERROR, "{count:#x} of {configs:x?}");
            }
        }
        Ok([exact, all])
    };
    let storm = |cpu| {
        let result = storm(cpu);
        failed.fetch_or(result.is_err(), Relaxed);
        result.with_context(|| format!("CPU {cpu}"))
    };
    let results = thread::scope(|scope| {
        let threads = [0, 1].map(|cpu| scope.spawn(move || storm(cpu)));
        threads.map(|thread| thread.join().expect("a panic in a thread"))
    });
    for result in results {
        let [exact, all] = result?;
        println!("# {exact} of {all} on a counter all the time");
        ensure!(exact > 0 && exact < all, "all of them, or none");
    }
    Ok(())
}

/// Four exclusive events on each thread: all of them are counted some of the time, and none of them all the
/// time.
fn all_get_their_turn(ctx: &Ctx) -> Result<()> {
    const ATTEMPTS: usize = 3_000;
    for pmu in drivers(ctx)? {
        let _turn = pmu.set_turn(Duration::from_millis(1))?;
        let mut events = Vec::new();
        for config in &EXCLUSIVE[..4] {
            for cpu in [0, 1] {
                let mut builder = pmu.raw(*config);
                builder.any_pid().one_cpu(cpu).include_kernel();
                builder.enabled(true);
                events.push(timed(builder)?);
            }
        }
        // Of each event, how long it was enabled and on a counter.
        let mut times = Vec::new();
        let took_turns =
            |[enabled, running]: &[Duration; 2]| !running.is_zero() && running < enabled;
        for _ in 0..ATTEMPTS {
            times.clear();
            for event in &mut events {
                let data = event.read_full()?;
                let enabled = data.time_enabled().context("no time_enabled")?;
                let running = data.time_running().context("no time_running")?;
                times.push([enabled, running]);
                if pmu.name != IN_TREE {
                    ensure!(data.count() < ERROR, "{:#x}", data.count());
                }
            }
            if times.iter().all(took_turns) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        ensure!(times.iter().all(took_turns), "{}: {times:?}", pmu.name);
    }
    Ok(())
}
