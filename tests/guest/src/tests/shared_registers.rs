// SPDX-License-Identifier: GPL-2.0
//! Registers that the threads of a core share: each event counts with its own value.
//!
//! On the emulated CPU the event of such a register counts each instruction once, and once more
//! for each request that is set in the register (`pmu-model/src/event/mod.rs`). So a count shows with
//! which value it was counted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anyhow::{ensure, Context, Result};
use fastrand::Rng;
use perf_event::{Builder, Counter, ReadFormat};

use super::extra_registers::siblings;
use super::{expect, expect_count};
use crate::ctx::{Ctx, Test};
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::Pmu;
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [InTree, EmulatedPmu, ExactCounts, Cpus(2)];
    threads_of_a_core,
    emulated_register: [Msrs, Root],
    in_turns,
    at_the_same_time,
];

/// The event of MSR_OFFCORE_RSP_0.
const CODE: u64 = 0x01b7;
const MSR_OFFCORE_RSP_0: u32 = 0x1a6;

/// Values with different numbers of requests, all of which every model has.
const VALUES: [u64; 3] = [0x1, 0x3, 0x7];

/// How often the event counts an instruction.
fn factor(value: u64) -> u64 {
    1 + u64::from(value.count_ones())
}

/// An event of the calling thread, disabled.
fn event(pmu: &Pmu, value: u64) -> Builder<'static> {
    let mut builder = pmu.raw(CODE);
    builder.attrs_mut().__bindgen_anon_3.config1 = value;
    builder
}

/// The CPUs are all threads of one core.
fn threads_of_a_core(ctx: &Ctx) -> Result<()> {
    let threads = siblings()?;
    let expected: Vec<_> = (0..ctx.suite.threads as usize).collect();
    ensure!(threads == expected, "{threads:?}");
    Ok(())
}

/// A write by any thread changes what the first one counts: the other tests could fail.
fn emulated_register(ctx: &Ctx) -> Result<()> {
    const EN_USR_OS: u64 = 0x43_0000;
    const INSTRUCTIONS: u64 = 0xc0;
    // The driver reserves the counters, and uses none.
    let _holder = ctx.pmu()?.raw(INSTRUCTIONS).build()?;
    let registers = PmuMsrs::of_this_cpu();
    let global_ctrl = registers.global_ctrl.context("no GLOBAL_CTRL")?;
    let first = Msrs::of_cpu(0)?;
    // What Nehalem needs before counters count a new event (`pmu-model/src/selection.rs`).
    for (eventsel, event) in registers.eventsels.iter().zip([0xb5, 0xd2, 0xb1, 0xb1]) {
        first.write(*eventsel, EN_USR_OS | event)?;
    }
    first.write(global_ctrl, 0b1111)?;
    first.write(global_ctrl, 0)?;
    for (i, code) in [CODE, INSTRUCTIONS].into_iter().enumerate() {
        first.write(registers.eventsels[i], EN_USR_OS | code)?;
    }
    let mut wrong = Vec::new();
    for cpu in siblings()? {
        for value in VALUES {
            for counter in &registers.counters[..2] {
                first.write(*counter, 0)?;
            }
            Msrs::of_cpu(cpu)?.write(MSR_OFFCORE_RSP_0, value)?;
            first.write(global_ctrl, 0b11)?;
            first.write(global_ctrl, 0)?;
            let responses = first.read(registers.counters[0])?;
            let instructions = first.read(registers.counters[1])?;
            if instructions == 0 || responses != factor(value) * instructions {
                wrong.push((cpu, value, responses, instructions));
            }
        }
    }
    for (eventsel, counter) in registers.eventsels.iter().zip(&registers.counters) {
        first.write(*eventsel, 0)?;
        first.write(*counter, 0)?;
    }
    first.write(MSR_OFFCORE_RSP_0, 0)?;
    ensure!(wrong.is_empty(), "{wrong:x?}");
    Ok(())
}

/// An event with the times that it was enabled and running.
fn timed(mut builder: Builder<'static>) -> Result<Counter> {
    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    builder.read_format(times);
    builder.build().context("an event with times")
}

/// One thread after the other, with the same values again and again: each writes the register,
/// although its own value was the last one that it wrote.
fn in_turns(ctx: &Ctx) -> Result<()> {
    let threads = siblings()?;
    let workload = workload::branches(100);
    for pmu in [ctx.pmu()?, ctx.in_tree()?] {
        let mut events = Vec::new();
        for (cpu, value) in threads.iter().zip(VALUES.into_iter().cycle()) {
            events.push((*cpu, value, event(&pmu, value).build()?));
        }
        for _ in 0..3 {
            for (cpu, value, event) in &mut events {
                let _affinity = Affinity::pinned_to(*cpu)?;
                event.reset()?;
                workload.measure(&*event)?;
                let expected = factor(*value) * workload.instructions();
                expect(&pmu.name, "responses", event.read()?, expected)
                    .with_context(|| format!("CPU {cpu}, {value:#x}"))?;
            }
        }
    }
    Ok(())
}

/// Threads of the core count with different values. An event that was on a counter all the time
/// has the right count, and another event is not disturbed.
fn at_the_same_time(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 1_000;
    println!("# seed {}", ctx.seed);
    for pmu in [ctx.pmu()?, ctx.in_tree()?] {
        let failed = &AtomicBool::new(false);
        let count = |cpu: usize| -> Result<[usize; 2]> {
            let mut rng = Rng::with_seed(ctx.seed ^ cpu as u64);
            let _affinity = Affinity::pinned_to(cpu)?;
            let workload = workload::branches(300);
            let [mut exact, mut all] = [0; 2];
            for _ in 0..ROUNDS {
                if failed.load(Relaxed) {
                    break;
                }
                let value = VALUES[rng.usize(..VALUES.len())];
                let mut plain = pmu.raw(0xc0).enabled(true).build()?;
                let mut event = timed(event(&pmu, value))?;
                workload.measure(&event)?;
                let data = event.read_full()?;
                all += 1;
                if data.time_running() == data.time_enabled() {
                    exact += 1;
                    let expected = factor(value) * workload.instructions();
                    expect(&format!("{value:#x}"), "responses", data.count(), expected)?;
                }
                plain.disable()?;
                plain.reset()?;
                workload.measure(&plain)?;
                expect_count(&workload, plain.read()?)?;
            }
            Ok([exact, all])
        };
        let count = |cpu| {
            let result = count(cpu);
            failed.fetch_or(result.is_err(), Relaxed);
            result.with_context(|| format!("{}, CPU {cpu}", pmu.name))
        };
        let cpus = siblings()?;
        let results = thread::scope(|scope| {
            let threads: Vec<_> = cpus
                .iter()
                .map(|&cpu| scope.spawn(move || count(cpu)))
                .collect();
            let results = threads.into_iter();
            let results = results.map(|it| it.join().expect("a panic in a thread"));
            results.collect::<Vec<_>>()
        });
        for result in results {
            let [exact, all] = result?;
            println!("# {}: {exact} of {all} on a counter all the time", pmu.name);
            ensure!(exact > 0, "none of them");
        }
    }
    Ok(())
}
