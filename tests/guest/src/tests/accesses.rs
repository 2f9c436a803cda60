// SPDX-License-Identifier: GPL-2.0
//! Which registers of the PMU an operation accesses, and how often: each access may cost an exit to a
//! hypervisor.
//!
//! The operations are those of `guest-tests bench`, on one CPU. The other driver's are not asserted.

use anyhow::{ensure, Context, Result};
use pmu_model::msr::{
    IA32_A_PMC0, IA32_FIXED_CTR0, IA32_PERFEVTSEL0, IA32_PERF_GLOBAL_CTRL, IA32_PERF_GLOBAL_STATUS,
    IA32_PERF_GLOBAL_STATUS_RESET, IA32_PMC0, PERF_CNTR_GLOBAL_CTL, PERF_CNTR_GLOBAL_STATUS,
    PERF_CNTR_GLOBAL_STATUS_CLR, PERF_CTL0, PERF_CTR0,
};

use crate::accesses::{Access, Accesses};
use crate::bench::operations;
use crate::ctx::{Ctx, Test};
use crate::pmu::CpuPmu;
use crate::setting::SampleRate;
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Root, Icount, EmulatedPmu];
    switch_is_a_read_of_each_counter,
    switch_to_a_task_without_events_is_half_of_that,
    inherited_events_stay,
    group_is_disabled_and_enabled_like_a_switch,
    event_is_opened_and_closed_like_a_switch,
    group_is_read_by_a_read_of_each_counter,
    pmi_accesses_the_counter_that_overflowed,
];

/// The registers of this CPU's counters.
struct Registers(CpuPmu);

impl Registers {
    fn probe() -> Self {
        Self(CpuPmu::probe())
    }

    /// The ECX of RDPMC for the counters of the first `n` events. Fixed counters count the first
    /// two of them, if there are any.
    fn counters(&self, n: u32) -> impl Iterator<Item = u32> {
        let fixed = self.0.fixed.min(2).min(n);
        (0..fixed).map(|i| (1 << 30) | i).chain(0..n - fixed)
    }

    /// The EVENTSEL of a GP counter.
    fn eventsel(&self, counter: u32) -> Access {
        Access::Wrmsr(if self.0.is_amd() {
            PERF_CTL0 + 2 * counter
        } else {
            IA32_PERFEVTSEL0 + counter
        })
    }

    /// The register through which a counter is written.
    fn counter(&self, counter: u32) -> Access {
        Access::Wrmsr(match counter.checked_sub(1 << 30) {
            Some(fixed) => IA32_FIXED_CTR0 + fixed,
            None if self.0.is_amd() => PERF_CTR0 + 2 * counter,
            None if self.0.version == 1 => IA32_PMC0 + counter,
            None => IA32_A_PMC0 + counter,
        })
    }

    /// GLOBAL_CTRL, GLOBAL_STATUS and the register that clears it.
    fn global(&self) -> [Access; 3] {
        let [ctrl, status, clear] = if self.0.is_amd() {
            [
                PERF_CNTR_GLOBAL_CTL,
                PERF_CNTR_GLOBAL_STATUS,
                PERF_CNTR_GLOBAL_STATUS_CLR,
            ]
        } else {
            [
                IA32_PERF_GLOBAL_CTRL,
                IA32_PERF_GLOBAL_STATUS,
                IA32_PERF_GLOBAL_STATUS_RESET,
            ]
        };
        [
            Access::Wrmsr(ctrl),
            Access::Rdmsr(status),
            Access::Wrmsr(clear),
        ]
    }

    /// What it takes to stop `n` events, read their counters, and start as many others.
    fn stop_and_start(&self, n: u32) -> Accesses {
        let mut accesses: Accesses = self.reads(n);
        if self.0.global_control {
            let [ctrl, ..] = self.global();
            accesses.insert(ctrl, 2);
        } else {
            accesses.extend(self.counters(n).map(|it| (self.eventsel(it), 2)));
        }
        accesses
    }

    /// A read of each of the counters of `n` events.
    fn reads(&self, n: u32) -> Accesses {
        self.counters(n).map(|it| (Access::Rdpmc(it), 1)).collect()
    }
}

/// Checks what an operation accesses in so many times.
fn expect(ctx: &Ctx, name: &str, times: u32, expected: &Accesses) -> Result<()> {
    let operations = operations::of_one_cpu();
    let operation = operations.iter().find(|it| it.name == name);
    let operation = operation.with_context(|| format!("no operation {name}"))?;
    let _rate = SampleRate::fixed(1_000_000_000)?;
    let window = operation.measure(Some(&ctx.pmu()?))?;
    let window = window.context("the PMU cannot do this")?;
    let all: Accesses = expected
        .iter()
        .map(|(access, n)| (*access, n * operation.times / times))
        .collect();
    let shown = |accesses: &Accesses| -> Vec<_> {
        let shown = accesses.iter().map(|(access, n)| format!("{access}: {n}"));
        shown.collect()
    };
    ensure!(
        window.accesses == all,
        "{name}, {} times: {:?}, expected {:?}",
        operation.times,
        shown(&window.accesses),
        shown(&all)
    );
    Ok(())
}

/// A switch between two tasks with the same number of events is a read of each counter, and two
/// writes of GLOBAL_CTRL; without that, two writes of each EVENTSEL.
fn switch_is_a_read_of_each_counter(ctx: &Ctx) -> Result<()> {
    for n in [1, 2, 4] {
        let name = format!("switch between two tasks, events each: {n}");
        expect(ctx, &name, 1, &Registers::probe().stop_and_start(n))?;
    }
    Ok(())
}

/// A switch to a task without events, and one back, are together as many accesses as one switch
/// between tasks that have some.
fn switch_to_a_task_without_events_is_half_of_that(ctx: &Ctx) -> Result<()> {
    let name = "switch, only one of the two has 4 events";
    expect(ctx, name, 2, &Registers::probe().stop_and_start(4))
}

/// A switch between tasks with events that one has inherited from the other accesses nothing.
fn inherited_events_stay(ctx: &Ctx) -> Result<()> {
    let name = "switch, the same 4 events inherited";
    expect(ctx, name, 1, &Accesses::new())
}

/// Disabling and enabling a group is as many accesses as one switch.
fn group_is_disabled_and_enabled_like_a_switch(ctx: &Ctx) -> Result<()> {
    let name = "disable and enable a group of 4";
    expect(ctx, name, 1, &Registers::probe().stop_and_start(4))
}

/// So is opening and closing an event, while another task has one.
fn event_is_opened_and_closed_like_a_switch(ctx: &Ctx) -> Result<()> {
    let name = "open and close an event";
    expect(ctx, name, 1, &Registers::probe().stop_and_start(1))
}

/// A read of a group is a read of each counter.
fn group_is_read_by_a_read_of_each_counter(ctx: &Ctx) -> Result<()> {
    let name = "read a group of 4";
    expect(ctx, name, 1, &Registers::probe().reads(4))
}

/// A PMI is a read and a write of its counter; with GLOBAL_CTRL also two writes of that, and a read
/// and a write of the status.
fn pmi_accesses_the_counter_that_overflowed(ctx: &Ctx) -> Result<()> {
    let registers = Registers::probe();
    let mut accesses = registers.reads(1);
    accesses.extend(registers.counters(1).map(|it| (registers.counter(it), 1)));
    if registers.0.global_control {
        let [ctrl, status, clear] = registers.global();
        accesses.extend([(ctrl, 2), (status, 1), (clear, 1)]);
    }
    expect(ctx, "PMI with a sample of IP", 1, &accesses)
}
