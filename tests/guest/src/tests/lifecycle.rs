// SPDX-License-Identifier: GPL-2.0
//! Loading and unloading the module, which leaves the hardware as it was.

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use suites::log::is_trouble;

use super::{expect, expect_exact};
use crate::ctx::{Ctx, Test, RUST_PMU};
use crate::kmsg::Kmsg;
use crate::module;
use crate::pmu::{Event, Mode, Pmu};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module];
    load_use_unload: [ExactCounts],
    forty_times: [ExactCounts],
    in_use: [ExactCounts],
    not_twice,
    in_tree_as_before: [InTreeCounts, ExactCounts],
];

fn insert(ctx: &Ctx) -> Result<()> {
    module::insert(ctx)?.context("insmod")
}

fn remove() -> Result<()> {
    module::remove().context("rmmod")
}

/// The module can be loaded, counts exactly, and leaves no PMU behind when it is unloaded.
fn load_use_unload(ctx: &Ctx) -> Result<()> {
    insert(ctx)?;
    let result = expect_exact(&ctx.pmu()?, &workload::tight_loop(100_000));
    remove()?;
    ensure!(!module::is_loaded(), "the module is still loaded");
    ensure!(Pmu::find(RUST_PMU).is_err(), "the PMU is still in sysfs");
    result
}

/// Of forty loads every other one has a sampling event, which counts exactly. The kernel warns of
/// nothing.
fn forty_times(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(10_000);
    let mut log = Kmsg::from_now()?;
    for _ in 0..20 {
        insert(ctx)?;
        remove()?;
        insert(ctx)?;
        let result = ctx.pmu().and_then(|pmu| {
            let mut counter = pmu
                .event(Event::Instructions)
                .sample_period(1_000)
                .build()?;
            workload.measure(&counter)?;
            expect(
                "after loading again",
                "instructions",
                counter.read()?,
                workload.instructions(),
            )
        });
        remove()?;
        result?;
    }
    let trouble: Vec<String> = log
        .lines()?
        .into_iter()
        .filter(|line| is_trouble(line))
        .collect();
    ensure!(
        trouble.is_empty(),
        "warnings in the kernel log\n{}",
        trouble.join("\n")
    );
    Ok(())
}

/// While an event is open, the module cannot be unloaded, and the event counts.
fn in_use(ctx: &Ctx) -> Result<()> {
    insert(ctx)?;
    let workload = workload::tight_loop(100_000);
    let result = ctx.pmu().and_then(|pmu| {
        let mut counter = pmu.open(Event::Instructions, Mode::User)?;
        let refused = module::remove();
        ensure!(
            matches!(refused, Err(Errno::EAGAIN | Errno::EBUSY)),
            "rmmod with an open event: {refused:?}"
        );
        workload.measure(&counter)?;
        expect(
            "after rmmod",
            "instructions",
            counter.read()?,
            workload.instructions(),
        )
    });
    if module::is_loaded() {
        remove()?;
    }
    result
}

/// Loading the module twice is EEXIST.
fn not_twice(ctx: &Ctx) -> Result<()> {
    insert(ctx)?;
    let again = module::insert(ctx)?;
    remove()?;
    ensure!(again == Err(Errno::EEXIST), "insmod again: {again:?}");
    Ok(())
}

/// The in-tree PMU counts after rmmod as before insmod.
fn in_tree_as_before(ctx: &Ctx) -> Result<()> {
    let in_tree = ctx.in_tree()?;
    let workload = workload::branches(100_000);
    let check = || -> Result<()> {
        expect_exact(&in_tree, &workload)?;
        for event in [Event::CpuCycles, Event::CacheReferences] {
            let mut counter = in_tree.open(event, Mode::User)?;
            workload.measure(&counter)?;
            ensure!(
                counter.read()? > 0,
                "in-tree {} counts nothing",
                event.name()
            );
        }
        Ok(())
    };
    check().context("before insmod")?;
    insert(ctx)?;
    let between = check().context("while the module is loaded but not in use");
    let used = ctx.pmu().and_then(|pmu| expect_exact(&pmu, &workload));
    remove()?;
    between?;
    used?;
    check().context("after rmmod")
}
