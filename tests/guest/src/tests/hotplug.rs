// SPDX-License-Identifier: GPL-2.0
//! CPU hotplug.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use perf_event::{Builder, Counter, SampleFlag};

use super::{cpus, expect, expect_exact};
use crate::clocks::{Clock, RUST_CLOCK};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Mode, Pmu};
use crate::setting::{online_file, Affinity, Setting};
use crate::tests;
use crate::trace;
use crate::waiting;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Cpus(2), ExactCounts, ZeroSkid];
    counts_and_samples_on_all_cpus,
    while_nothing_counts,
    while_the_task_counts,
    while_the_cpu_counts,
    while_another_cpu_counts,
    group_of_a_cpu_that_was_offline: [Module, General(2)],
    in_tree_driver_afterwards: [Module, InTreeCounts],
    the_last_event_is_closed_meanwhile: [Module, InTreeCounts],
];

/// Whether a CPU is online: 0 or 1.
pub fn online(cpu: usize) -> Result<Setting> {
    Setting::save(online_file(cpu))
}

/// Takes CPU 1 offline, calls `between`, and brings the CPU online again.
pub(super) fn replug<T>(between: impl FnOnce() -> Result<T>) -> Result<T> {
    let online = online(1)?;
    online.set(0)?;
    let result = between();
    online.restore()?;
    result
}

/// Counts and PMIs are right on each CPU.
fn counts_and_samples_on_all_cpus(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let affinity = Affinity::save()?;
    let workload = workload::tight_loop(1_000_000);
    for cpu in 0..cpus()? {
        affinity.pin(cpu)?;
        expect_exact(&pmu, &workload).with_context(|| format!("on CPU {cpu}"))?;
        let nmis = super::interrupts("NMI")?;
        let mut sampler = pmu
            .event(Event::Instructions)
            .sample_period(PERIOD)
            .build()?;
        workload.measure(&sampler)?;
        let count = sampler.read()?;
        expect(
            "sampling event",
            "instructions",
            count,
            workload.instructions(),
        )?;
        let nmis = super::interrupts("NMI")? - nmis;
        expect(&format!("on CPU {cpu}"), "NMIs", nmis, count / PERIOD)?;
    }
    Ok(())
}

/// A CPU that was offline while nothing counted counts and samples exactly.
fn while_nothing_counts(ctx: &Ctx) -> Result<()> {
    replug(|| Ok(()))?;
    counts_and_samples_on_all_cpus(ctx)
}

/// The counted task may have to migrate because its CPU goes offline.
fn while_the_task_counts(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(10_000_000);
    let mut counter = pmu.open(Event::Instructions, Mode::User)?;
    let affinity = Affinity::save()?;
    thread::scope(|scope| {
        let plug = scope.spawn(|| (0..3).try_for_each(|_| replug(|| Ok(()))));
        let mut runs = 0;
        while !plug.is_finished() || runs == 0 {
            workload.measure(&counter)?;
            runs += 1;
            // With one CPU less, what the hotplug waits for must get its turn.
            thread::sleep(Duration::from_millis(1));
        }
        plug.join().expect("the plugging thread does not panic")?;
        expect(
            "during hotplug",
            "instructions",
            counter.read()?,
            runs * workload.instructions(),
        )
    })?;
    drop(affinity);
    counts_and_samples_on_all_cpus(ctx)
}

fn count_cpu(pmu: &Pmu, cpu: usize) -> Result<Counter> {
    let mut event = pmu.event(Event::Instructions);
    Ok(event.any_pid().one_cpu(cpu).enabled(true).build()?)
}

/// A CPU-wide event counts on after another CPU was offline.
fn while_another_cpu_counts(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let _affinity = Affinity::pinned_to(0)?;
    let workload = workload::tight_loop(100_000);
    let mut counter = count_cpu(&pmu, 0)?;
    // No event is enabled before the count is read: that could start all counters again.
    replug(|| Ok(()))?;
    let before = counter.read()?;
    workload.run();
    let counted = counter.read()? - before;
    // Other tasks of the CPU are counted, too.
    ensure!(
        counted >= workload.instructions(),
        "{counted} of {} instructions were counted",
        workload.instructions()
    );
    Ok(())
}

/// A CPU-wide event stops when its CPU goes offline.
fn while_the_cpu_counts(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut counter = count_cpu(&pmu, 1)?;
    replug(|| {
        let (first, second) = (counter.read()?, counter.read()?);
        expect("CPU offline", "instructions", second, first)
    })?;
    drop(counter);
    ensure!(cpus()? >= 2, "CPU 1 did not come online again");
    counts_and_samples_on_all_cpus(ctx)
}

/// No event joins the group of one whose CPU was offline since: perf would leave it in the list of a
/// leader that has been closed. Before, and by itself, it can be opened. If all events of the group have
/// been software events, perf moves it when another joins, which is safe.
fn group_of_a_cpu_that_was_offline(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let core = || pmu.event(Event::Branches);
    let clock = Pmu::find(RUST_CLOCK)?;
    let clock = || clock.raw(Clock::Cpu as u64);
    let cases: [(&str, Builder, Builder, bool, bool); 4] = [
        ("core in core", core(), core(), true, false),
        ("clock in clock", clock(), clock(), true, false),
        ("core in clock, again", clock(), core(), true, false),
        ("core in clock", clock(), core(), false, true),
    ];
    for (what, mut leader, mut member, joins_before, joins) in cases {
        let mut leader = leader.any_pid().one_cpu(1).include_kernel().build()?;
        member.any_pid().one_cpu(1).include_kernel();
        let join = |leader: &mut Counter| member.build_with_group(leader).map(drop);
        if joins_before {
            join(&mut leader).with_context(|| format!("{what}, at first"))?;
        }
        replug(|| Ok(()))?;
        let errno = join(&mut leader).err().and_then(|it| it.raw_os_error());
        let expected = (!joins).then_some(libc::ENODEV);
        ensure!(errno == expected, "{what}: {errno:?}");
        drop(member.build().with_context(|| format!("{what}, alone"))?);
    }
    Ok(())
}

/// The in-tree driver counts on each CPU again, whether the last event of a CPU that was offline is
/// closed before or after it is online again.
fn in_tree_driver_afterwards(ctx: &Ctx) -> Result<()> {
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    let workload = workload::tight_loop(10_000);
    let affinity = Affinity::save()?;
    let counter = count_cpu(&pmu, 1)?;
    replug(|| {
        drop(counter);
        Ok(())
    })?;
    let counter = count_cpu(&pmu, 1)?;
    replug(|| Ok(()))?;
    drop(counter);
    for cpu in 0..cpus()? {
        affinity.pin(cpu)?;
        expect_exact(&in_tree, &workload).with_context(|| format!("on CPU {cpu}"))?;
    }
    Ok(())
}

/// Events that make an interrupt of another CPU by this thread take long: each takes a sample at the
/// trace point before it.
fn slow_interrupts() -> Result<Vec<Counter>> {
    const EVENTS: usize = 300;
    let event = trace::Event::in_tree("ipi_send_cpu")?;
    let open = |_| {
        let mut builder = event.builder();
        builder.sample_period(1).sample(SampleFlag::CALLCHAIN);
        Ok(builder.enabled(true).build()?)
    };
    (0..EVENTS).map(open).collect()
}

/// The last event is closed while its CPU goes offline. The CPU gives its counters back once, whether it
/// is because of the one or the other. Afterwards the in-tree driver counts as ever.
fn the_last_event_is_closed_meanwhile(ctx: &Ctx) -> Result<()> {
    // From an event that is closed before the CPU begins to go offline, to one that is closed after. All
    // CPUs share this code. The suite of planted bug 26 tries more times of closing than the others.
    let rounds = match ctx.suite.name {
        "default" => 40,
        _ => 10,
    };
    let (pmu, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
    let affinity = Affinity::pinned_to(0)?;
    let begin = Instant::now();
    replug(|| Ok(()))?;
    let replugged = begin.elapsed();
    for round in 0..rounds {
        let counter = count_cpu(&pmu, 1)?;
        let online = online(1)?;
        let ready = Barrier::new(2);
        thread::scope(|scope| {
            let close = scope.spawn(|| -> Result<()> {
                let slow = slow_interrupts();
                waiting::meet(&ready, "the thread that takes the CPU offline");
                let _slow = slow?;
                thread::sleep(replugged * round / rounds);
                drop(counter);
                Ok(())
            });
            waiting::meet(&ready, "the thread that closes the event");
            online.set(0)?;
            close.join().expect("the closing thread does not panic")
        })?;
        online.restore()?;
    }
    affinity.pin(1)?;
    expect_exact(&in_tree, &workload::tight_loop(10_000)).context("on CPU 1")
}
