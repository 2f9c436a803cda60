// SPDX-License-Identifier: GPL-2.0
//! The tests, by theme.

pub mod accesses;
pub mod attr;
pub mod beside;
pub mod bounds;
pub mod branch_tools;
pub mod branches;
pub mod clock;
pub mod clock_compare;
pub mod clock_icount;
pub mod codes;
pub mod compare;
pub mod constraints;
pub mod contents;
pub mod cost;
pub mod counting;
pub mod delivery;
pub mod event_zero;
pub mod events;
pub mod example;
pub mod exclude;
pub mod extra_registers;
pub mod fail_nth;
pub mod faults;
pub mod foreign_fault;
pub mod foreign_writes;
pub mod garbage;
pub mod generic;
pub mod gp_fault;
pub mod groups;
pub mod hotplug;
pub mod hybrid;
pub mod kernel_selftests;
pub mod kexec;
pub mod kinds;
pub mod late_nmis;
pub mod lifecycle;
pub mod limits;
pub mod load_faults;
pub mod lockup;
pub mod lvtpc;
pub mod memory_map;
pub mod metrics;
pub mod mixed;
pub mod model_events;
pub mod modes;
pub mod no_pmu;
pub mod offline;
pub mod overflow;
pub mod pairs;
pub mod parameters;
pub mod perf_test;
pub mod perf_tool;
pub mod primary;
pub mod probes;
pub mod processor;
pub mod programs;
pub mod random_groups;
pub mod rdpmc_orders;
pub mod ref_cycles;
pub mod rotation;
pub mod sampling;
pub mod saved;
pub mod security;
pub mod shared_registers;
pub mod sharing;
pub mod siblings;
pub mod sleep;
pub mod svm;
pub mod sysfs;
pub mod tasks;
pub mod throttled;
pub mod topdown;
pub mod trace;
pub mod trace_compare;
pub mod trace_cost;
pub mod unreserved;
pub mod user_read;
pub mod waits;
pub mod watchdog;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use nix::sys::resource::{getrusage, UsageWho};
use perf_event::events::Software;
use perf_event::{Builder, Counter};

use crate::need::checks_itself;
use crate::pmu::{CpuPmu, Event, Mode, Pmu};
use crate::workload::{self, Workload};

/// Counts a workload's user instructions and branches; both must be exact.
pub fn expect_exact(pmu: &Pmu, workload: &Workload) -> Result<()> {
    let mut instructions = pmu.open(Event::Instructions, Mode::User)?;
    let mut branches = if CpuPmu::probe().general >= 2 {
        pmu.event(Event::Branches)
            .enabled(true)
            .build_with_group(&mut instructions)?
    } else {
        // There is only one counter: measure twice.
        let branches = pmu.open(Event::Branches, Mode::User)?;
        workload.measure(&branches)?;
        branches
    };
    workload.measure(&instructions)?;
    expect_count(workload, instructions.read()?)?;
    expect(
        workload.name(),
        "branches",
        branches.read()?,
        workload.branches(),
    )
}

/// Counts a loop again and again, on each of the PMUs. Returns how many counts were compared: if
/// they are `exact`, those of loops during which the event had a counter all the time.
pub fn count_until(pmus: &[Pmu], exact: bool, done: &AtomicBool) -> Result<u64> {
    let code = workload::tight_loop(100_000);
    let mut compared = 0;
    while !done.load(SeqCst) {
        for pmu in pmus {
            let mut counter = pmu.open(Event::Instructions, Mode::User)?;
            code.measure(&counter)?;
            let data = counter.read_full()?;
            if exact && data.time_enabled() == data.time_running() {
                expect_count(&code, data.count()).with_context(|| pmu.name.clone())?;
                compared += 1;
            }
        }
    }
    Ok(compared)
}

/// Measures a workload without a context switch, for events that the model
/// derives from instructions and branches.
///
/// The model steps such an event once every N instructions of a CPU, whichever
/// task retires them. If another task ran meanwhile, the count could be off by
/// one step.
fn measure_alone(workload: &Workload, leader: &mut Counter) -> Result<()> {
    alone(|| {
        leader.reset_group()?;
        workload.measure(leader)
    })
    .with_context(|| workload.name().to_string())
}

/// Repeats a measurement until no other task ran meanwhile.
fn alone(measure: impl FnMut() -> Result<()>) -> Result<()> {
    alone_by(&mut context_switches()?, measure)
}

/// [`alone`], by one of [`context_switches`]. It serves all attempts: the kernel's work for closing one may
/// disturb the next attempt.
fn alone_by(switches: &mut Counter, mut measure: impl FnMut() -> Result<()>) -> Result<()> {
    find_undisturbed(|| {
        let before = switches.read()?;
        measure()?;
        Ok((switches.read()? == before).then_some(()))
    })
}

/// Counts the context switches of this thread from now on.
fn context_switches() -> Result<Counter> {
    let mut switches = Builder::new(Software::CONTEXT_SWITCHES)
        .include_kernel()
        .build()?;
    switches.enable()?;
    Ok(switches)
}

/// Repeats an attempt until it returns a result. An attempt that another task has
/// disturbed returns `None`.
fn find_undisturbed<T>(mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    for _ in 0..200 {
        if let Some(result) = attempt()? {
            return Ok(result);
        }
    }
    bail!("each of 200 attempts was disturbed by another task")
}

/// Measures once. Returns whether there was no context switch meanwhile.
fn undisturbed(measure: impl FnOnce() -> Result<()>) -> Result<bool> {
    let mut switches = context_switches()?;
    measure()?;
    switches.disable()?;
    Ok(switches.read()? == 0)
}

/// A period of kernel instructions that is longer than the part of an NMI that is counted. Several
/// shorter ones would end in one NMI, and have one sample.
///
/// That part is longer on a kernel that checks itself.
fn kernel_period(usual: u64) -> u64 {
    match checks_itself() {
        true => 10 * usual,
        false => usual,
    }
}

/// Calls `round` until it says that the guest's timer has done what the test needs. On a busy host timer
/// interrupts come late, while the guest's code goes on. Returns how often it was called.
fn repeat(what: &str, mut round: impl FnMut() -> Result<bool>) -> Result<u64> {
    const ROUNDS: u64 = 200;
    for n in 1..=ROUNDS {
        if round()? {
            return Ok(n);
        }
    }
    bail!("{what}: not in {ROUNDS} rounds")
}

/// Whether an event, which is read with its times, has been on a counter.
fn has_run(event: &mut Counter) -> Result<bool> {
    let running = event.read_full()?.time_running();
    Ok(running.context("no time_running")? > Duration::ZERO)
}

/// The number of context switches of this process.
fn switches() -> Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(usage.voluntary_context_switches() + usage.involuntary_context_switches())
}

/// Checks a count of a workload's user instructions.
fn expect_count(workload: &Workload, count: u64) -> Result<()> {
    let want = workload.instructions();
    expect(workload.name(), "instructions", count, want)
}

fn expect(what: &str, unit: &str, got: u64, want: u64) -> Result<()> {
    let off = got as i128 - want as i128;
    ensure!(
        got == want,
        "{what}: {got} {unit}, expected {want} ({off:+})"
    );
    Ok(())
}

/// The sum of a row of /proc/interrupts over all CPUs.
fn interrupts(row: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/interrupts")?;
    let label = format!("{row}:");
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(&label))
        .with_context(|| format!("no {row} in /proc/interrupts"))?;
    Ok(line
        .split_whitespace()
        .map_while(|n| n.parse::<u64>().ok())
        .sum())
}

/// A row of /proc/interrupts for one CPU.
fn interrupts_of(row: &str, cpu: usize) -> Result<u64> {
    let text = fs::read_to_string("/proc/interrupts")?;
    let mut lines = text.lines();
    // Each CPU that is online has a column.
    let heading = lines.next().context("/proc/interrupts is empty")?;
    let name = format!("CPU{cpu}");
    let column = heading.split_whitespace().position(|it| it == name);
    let label = format!("{row}:");
    let line = lines.find_map(|line| line.trim_start().strip_prefix(&label));
    let line = line.with_context(|| format!("no {row} in /proc/interrupts"))?;
    let number = column.and_then(|column| line.split_whitespace().nth(column));
    Ok(number
        .with_context(|| format!("no {name} in /proc/interrupts"))?
        .parse()?)
}

/// The number of online CPUs.
pub fn cpus() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}
