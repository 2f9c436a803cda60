// SPDX-License-Identifier: GPL-2.0
//! Others write the PMU's registers without reserving them: KVM's mediated vPMU loads a
//! guest's values and leaves zeros, KVM on AMD writes GLOBAL_CTL when it is loaded and
//! unloaded, and so do the interrupt of Intel PT and BPF programs that take a snapshot
//! of the branch stack.
//!
//! These tests write the same registers. Counts must be exact from the next time on that
//! perf enables the PMU. If no event is on the CPU, the module trusts the registers for another tick.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::{clock_gettime, ClockId};
use perf_event::Counter;

use super::sampling::{drain, sampler};
use super::{expect, expect_count, switches};
use crate::ctx::{Ctx, Test};
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::{CpuPmu, Event, Mode, Pmu};
use crate::setting::Affinity;
use crate::tests;
use crate::waiting::Waiting;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [Root, Msrs, ExactCounts];
    zeroed_between_counts,
    zeroed_between_counts_of_a_group: [General(2)],
    zeroed_between_samples: [ZeroSkid],
    global_ctrl_set_between_counts: [GlobalControl],
    global_ctrl_set_between_samples: [GlobalControl, ZeroSkid],
    global_ctrl_cleared_until_enabled: [GlobalControl],
    global_ctrl_cleared_until_context_switch: [GlobalControl],
];

/// Someone else who writes the registers of the CPU that this thread is bound to.
struct OtherUser {
    msrs: Msrs,
    pmu: PmuMsrs,
    _affinity: Affinity,
}

impl OtherUser {
    const CPU: usize = 0;

    fn new() -> Result<Self> {
        Ok(Self {
            _affinity: Affinity::pinned_to(Self::CPU)?,
            msrs: Msrs::of_cpu(Self::CPU)?,
            pmu: PmuMsrs::of_this_cpu(),
        })
    }

    /// Stops all counters and clears all registers, as KVM does after a guest has run.
    fn zero_all(&self) -> Result<()> {
        let first = self.pmu.global_ctrl.into_iter();
        for address in first
            .chain(self.pmu.controls())
            .chain(self.pmu.all_counters())
        {
            self.msrs.write(address, 0)?;
        }
        Ok(())
    }

    fn write_global_ctrl(&self, value: u64) -> Result<()> {
        let address = self.pmu.global_ctrl.context("no GLOBAL_CTRL")?;
        self.msrs.write(address, value)
    }

    /// Lets all counters count that are programmed.
    fn set_global_ctrl(&self) -> Result<()> {
        self.write_global_ctrl(self.pmu.all)
    }
}

/// An event, and what it counts in a workload.
type Counted = (Event, fn(&Workload) -> u64);

/// Instructions use a fixed counter if there is one, branches always a general counter.
const EVENTS: [Counted; 2] = [
    (Event::Instructions, Workload::instructions),
    (Event::Branches, Workload::branches),
];

/// Waits until the module does not trust the registers any more, as it does until jiffies change.
///
/// If the CPU that counts them does not run, on a busy host, they stand still for up to five ticks
/// (`MAX_STALLED_JIFFIES` in kernel/time/tick-sched.c), but sleeps end. After each change of jiffies the
/// kernel sets its coarse clock. So when that has changed twice, jiffies have changed since the call.
fn let_pass_a_tick() -> Result<()> {
    let _waiting = Waiting::for_("two ticks");
    let now = || clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE);
    for _ in 0..2 {
        let before = now()?;
        while now()? == before {
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Counts a workload again and again, and calls `disturb` in between, when the event is
/// disabled and not on the CPU.
fn count_with(pmu: &Pmu, disturb: impl Fn() -> Result<()>) -> Result<()> {
    const ROUNDS: u64 = 5;
    let workload = workload::branches(1_000);
    for (event, truth) in EVENTS {
        let mut counter = pmu.open(event, Mode::User)?;
        for round in 1..=ROUNDS {
            workload.measure(&counter)?;
            let what = format!("after {} writes", round - 1);
            expect(
                &what,
                event.name(),
                counter.read()?,
                round * truth(&workload),
            )?;
            disturb()?;
            let_pass_a_tick()?;
        }
    }
    Ok(())
}

/// An event counts exactly after another user of the PMU has zeroed all its registers.
fn zeroed_between_counts(ctx: &Ctx) -> Result<()> {
    let other = OtherUser::new()?;
    count_with(&ctx.pmu()?, || other.zero_all())
}

/// A group on all general counters counts exactly after another user of the PMU has zeroed all its
/// registers.
fn zeroed_between_counts_of_a_group(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 3;
    let other = OtherUser::new()?;
    let workload = workload::branches(1_000);
    let events = vec![(Event::Branches, Mode::User); CpuPmu::probe().general as usize];
    let mut group = ctx.pmu()?.open_group(&events)?;
    for round in 1..=ROUNDS {
        workload.measure(&group[0])?;
        for (counter, i) in group.iter_mut().zip(0..) {
            let what = format!("member {i} after {} writes", round - 1);
            let want = round * workload.branches();
            expect(&what, "branches", counter.read()?, want)?;
        }
        other.zero_all()?;
        let_pass_a_tick()?;
    }
    Ok(())
}

/// Samples a workload again and again, and calls `disturb` in between. An unfinished
/// period goes on in the next round.
fn sample_with(pmu: &Pmu, disturb: impl Fn() -> Result<()>) -> Result<()> {
    const ROUNDS: u64 = 5;
    const PERIOD: u64 = 1_009;
    let workload = workload::tight_loop(10_000);
    let mut sampler = sampler(pmu, Event::Instructions, PERIOD)?;
    let mut samples = 0;
    for round in 1..=ROUNDS {
        workload.measure(&*sampler)?;
        let what = format!("after {} writes", round - 1);
        let want = round * workload.instructions();
        expect(&what, "instructions", sampler.read()?, want)?;
        samples += drain(&mut sampler)?.samples.len() as u64;
        expect(&what, "samples", samples, want / PERIOD)?;
        disturb()?;
        let_pass_a_tick()?;
    }
    Ok(())
}

/// An event has all its samples after another user of the PMU has zeroed all its registers.
fn zeroed_between_samples(ctx: &Ctx) -> Result<()> {
    let other = OtherUser::new()?;
    sample_with(&ctx.pmu()?, || other.zero_all())
}

/// A counter that an event has left must not count on, or the event must not believe
/// that it holds what it held.
fn global_ctrl_set_between_counts(ctx: &Ctx) -> Result<()> {
    let other = OtherUser::new()?;
    count_with(&ctx.pmu()?, || {
        other.set_global_ctrl()?;
        workload::branches(777).run();
        Ok(())
    })
}

/// An event has all its samples, and no others, after another user of the PMU has set all bits of
/// GLOBAL_CTRL.
fn global_ctrl_set_between_samples(ctx: &Ctx) -> Result<()> {
    let other = OtherUser::new()?;
    sample_with(&ctx.pmu()?, || {
        other.set_global_ctrl()?;
        workload::tight_loop(7_777).run();
        Ok(())
    })
}

/// What is not counted meanwhile is lost, but no more than that.
fn global_ctrl_cleared_until_enabled(ctx: &Ctx) -> Result<()> {
    let other = OtherUser::new()?;
    let workload = workload::branches(10_000);
    let mut counter = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    for _ in 0..5 {
        counter.enable()?;
        other.write_global_ctrl(0)?;
        workload.run();
        counter.disable()?;
        counter.reset()?;
        workload.measure(&counter)?;
        expect_count(&workload, counter.read()?)?;
    }
    Ok(())
}

/// The user instructions of a workload and of reading the counter. They are the same
/// each time.
#[inline(never)]
fn count_between_reads(counter: &mut Counter, workload: &Workload) -> Result<u64> {
    let before = counter.read()?;
    workload.run();
    Ok(counter.read()? - before)
}

/// Perf takes the task's events off the CPU when the task sleeps, and puts them on again
/// when it wakes.
fn global_ctrl_cleared_until_context_switch(ctx: &Ctx) -> Result<()> {
    let other = OtherUser::new()?;
    let workload = workload::branches(10_000);
    let mut counter = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    counter.enable()?;
    count_between_reads(&mut counter, &workload)?;
    let want = count_between_reads(&mut counter, &workload)?;
    for _ in 0..5 {
        other.write_global_ctrl(0)?;
        // On a busy host the time can be over before the task is switched out.
        let before = switches()?;
        while switches()? == before {
            thread::sleep(Duration::from_millis(1));
        }
        let count = count_between_reads(&mut counter, &workload)?;
        expect("after a context switch", "instructions", count, want)?;
    }
    Ok(())
}
