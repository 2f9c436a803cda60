// SPDX-License-Identifier: GPL-2.0
//! Counts of user mode, of kernel mode, and of both.

use anyhow::{ensure, Result};

use super::{expect, expect_exact};
use crate::ctx::{Ctx, Test};
use crate::pmu::{read_all, Event, Mode, Pmu};
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [Counters];
    instructions_add_up: [ExactCounts, General(3), GlobalControl],
    branches_add_up: [ExactCounts, General(3), GlobalControl],
    user_only_in_user: [ExactCounts],
    kernel_only_in_kernel,
    both_excluded,
];

/// Workloads that run in user mode and in the kernel.
fn both_sides() -> Result<[Workload; 4]> {
    Ok([
        workload::syscalls(20_000),
        workload::touch(1_000)?,
        workload::rep_stosb(1 << 20)?,
        workload::tight_loop(5_000_000),
    ])
}

/// All events of a group count over the same interval. So the user and the kernel
/// count add up exactly, although the kernel count is not known.
fn add_up(pmu: &Pmu, event: Event, user: fn(&Workload) -> u64) -> Result<()> {
    for workload in both_sides()? {
        let mut group = pmu.open_group(&[
            (event, Mode::Both),
            (event, Mode::User),
            (event, Mode::Kernel),
        ])?;
        workload.measure(&group[0])?;
        let counts = read_all(&mut group)?;
        let what = format!("{} in user mode", workload.name());
        expect(&what, event.name(), counts[1], user(&workload))?;
        let what = format!("{}, user + kernel", workload.name());
        expect(&what, event.name(), counts[1] + counts[2], counts[0])?;
    }
    Ok(())
}

/// The instructions of user mode are exact, and with those of the kernel they add up to those of
/// both.
fn instructions_add_up(ctx: &Ctx) -> Result<()> {
    add_up(&ctx.pmu()?, Event::Instructions, Workload::instructions)
}

/// The branches of user mode are exact, and with those of the kernel they add up to those of both.
fn branches_add_up(ctx: &Ctx) -> Result<()> {
    add_up(&ctx.pmu()?, Event::Branches, Workload::branches)
}

/// User counts are exact, however much the kernel runs meanwhile.
fn user_only_in_user(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    both_sides()?
        .iter()
        .try_for_each(|workload| expect_exact(&pmu, workload))
}

/// System calls retire many kernel instructions, a loop hardly any.
fn kernel_only_in_kernel(ctx: &Ctx) -> Result<()> {
    const N: u64 = 10_000;
    let mut counter = ctx.pmu()?.open(Event::Instructions, Mode::Kernel)?;
    workload::syscalls(N).measure(&counter)?;
    let calls = counter.read()?;
    ensure!(
        calls > 20 * N,
        "only {calls} kernel instructions in {N} system calls"
    );
    counter.reset()?;
    workload::tight_loop(N).measure(&counter)?;
    let idle = counter.read()?;
    ensure!(idle < calls / 4, "{idle} kernel instructions in a loop");
    Ok(())
}

/// An event that excludes both user and kernel mode counts nothing.
fn both_excluded(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut counter = pmu
        .event(Event::Instructions)
        .exclude_user(true)
        .exclude_kernel(true)
        .build()?;
    workload::syscalls(1_000).measure(&counter)?;
    expect("both excluded", "instructions", counter.read()?, 0)
}
