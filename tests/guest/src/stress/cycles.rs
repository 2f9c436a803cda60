// SPDX-License-Identifier: GPL-2.0
//! Many cycles of one thing: loads of the module, and CPUs that go offline.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use anyhow::{ensure, Context, Result};
use fastrand::Rng;
use nix::errno::Errno;
use perf_event::Counter;

use super::quiet::{nothing_refers_to_the_module, Quiet};
use super::slot::perf_event_open;
use super::world::World;
use crate::ctx::Ctx;
use crate::module;
use crate::pmu::Event;
use crate::setting::{online_file, Setting};
use crate::tests::compare::attr::{self, Attr};
use crate::tests::{count_until, expect_exact};
use crate::workload;

/// How often the progress is printed, in cycles.
const SHOWN: u64 = 50;

/// Unloads and loads the module so many times, every fourth time with events that count.
pub fn loads(
    ctx: &Ctx,
    world: &mut World,
    quiet: &mut Quiet,
    seed: u64,
    cycles: u64,
) -> Result<()> {
    ensure!(
        world.is_module,
        "the module is in the place of the in-tree driver"
    );
    let mut rng = Rng::with_seed(seed);
    let code = workload::tight_loop(10_000);
    let start = Instant::now();
    let mut counted = 0u64;
    for cycle in 1..=cycles {
        module::remove().with_context(|| format!("rmmod {cycle}"))?;
        module::insert(ctx)?.with_context(|| format!("insmod {cycle}"))?;
        if rng.u8(..4) == 0 {
            world.find_events(ctx)?;
            let held = hold_one_of_each(world).with_context(|| format!("load {cycle}"))?;
            let refused = module::remove();
            ensure!(
                matches!(refused, Err(Errno::EAGAIN | Errno::EBUSY)),
                "rmmod {cycle} with open events: {refused:?}"
            );
            drop(held);
            if world.exact && !world.is_hybrid {
                for pmu in &world.core {
                    expect_exact(pmu, &code).with_context(|| format!("load {cycle}"))?;
                }
            }
            nothing_refers_to_the_module()?;
            counted += 1;
        }
        if cycle % SHOWN == 0 || cycle == cycles {
            quiet
                .check(world)
                .with_context(|| format!("load {cycle}"))?;
            println!(
                "# stress: {cycle} loads, {counted} of them with events, {} s",
                start.elapsed().as_secs()
            );
        }
    }
    world.find_events(ctx)?;
    quiet.check_counters(world)
}

/// Opens an event of each kind, so that all PMUs and probes are in use.
fn hold_one_of_each(world: &World) -> Result<Vec<OwnedFd>> {
    world
        .events
        .iter()
        .filter(|event| event.is_ours)
        .map(|event| {
            let mut attr = Attr::default();
            attr.set(attr::SIZE, attr::LEN);
            event.set(&mut attr, 0);
            perf_event_open(attr, 0, -1, -1, 0).with_context(|| event.name.clone())
        })
        .collect()
}

/// Takes CPUs offline and online again so many times, while tasks and CPUs are counted.
pub fn hotplug(world: &World, quiet: &mut Quiet, seed: u64, cycles: u64) -> Result<()> {
    ensure!(
        !world.removable.is_empty(),
        "no CPU can go offline: SMP=2 or more"
    );
    let mut rng = Rng::with_seed(seed);
    let start = Instant::now();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let loads: Vec<_> = (0..world.cpus.len() + 1)
            .map(|_| scope.spawn(|| count_until(&world.core, world.exact, &done)))
            .collect();
        let result = (1..=cycles).try_for_each(|cycle| -> Result<()> {
            let cpu = world.removable[rng.usize(..world.removable.len())];
            let mut of_cpu = count_cpu(world, cpu)?;
            let online = Setting::change(online_file(cpu), 0)?;
            if rng.bool() {
                // Closed while the CPU is offline.
                of_cpu.clear();
            }
            online.restore()?;
            if cycle % SHOWN == 0 || cycle == cycles {
                println!(
                    "# stress: {cycle} times a CPU was offline, {} s",
                    start.elapsed().as_secs()
                );
            }
            Ok(())
        });
        done.store(true, SeqCst);
        let mut exact = 0;
        for load in loads {
            exact += load.join().expect("a load does not panic")?;
        }
        println!("# stress: {exact} exact counts meanwhile");
        result
    })?;
    quiet.check(world)?;
    quiet.check_counters(world)
}

/// Events of a CPU that count and sample.
fn count_cpu(world: &World, cpu: usize) -> Result<Vec<Counter>> {
    let mut counters = Vec::new();
    for pmu in &world.core {
        for period in [0, 100_000] {
            let mut builder = pmu.event(Event::Instructions);
            builder.any_pid().one_cpu(cpu).enabled(true);
            if period != 0 {
                builder.sample_period(period);
            }
            counters.push(builder.build().with_context(|| pmu.name.clone())?);
        }
    }
    Ok(counters)
}
