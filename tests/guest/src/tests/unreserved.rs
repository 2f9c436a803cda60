// SPDX-License-Identifier: GPL-2.0
//! Version 6 beside the NMI watchdog (kernel command line nmi_watchdog=1). The kernel
//! cannot reserve version 6's MSRs, so nothing keeps two users apart: the module refuses
//! to load, unless a parameter insists.

use std::fs;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;

use super::expect_exact;
use crate::ctx::{Ctx, Test};
use crate::module;
use crate::pmu::CpuPmu;
use crate::setting::Setting;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, InTree];
    watchdog_is_on,
    refused_beside_the_watchdog,
    loaded_if_unreserved_is_set,
    loaded_without_the_watchdog: [ExactCounts],
];

const SWITCH: &str = "/proc/sys/kernel/nmi_watchdog";

/// The guest is the one for these tests.
fn watchdog_is_on(_: &Ctx) -> Result<()> {
    let version = CpuPmu::probe().version;
    ensure!(version == 6, "version {version}, expected 6");
    let on = fs::read_to_string(SWITCH)?;
    ensure!(on.trim() == "1", "{SWITCH} is {on}");
    Ok(())
}

/// On version 6 the module does not load beside the NMI watchdog: EBUSY, and a line with what to
/// do.
fn refused_beside_the_watchdog(ctx: &Ctx) -> Result<()> {
    let mut log = ctx.module_log()?;
    let result = module::insert(ctx)?;
    if result.is_ok() {
        module::remove().context("rmmod")?;
    }
    ensure!(
        result == Err(Errno::EBUSY),
        "insmod: {result:?}, expected EBUSY"
    );
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1,
        "{} lines in the kernel log, expected 1: {lines:?}",
        lines.len()
    );
    for word in ["nmi_watchdog", "unreserved=1"] {
        ensure!(
            lines[0].contains(word),
            "the kernel log does not mention {word}: {lines:?}"
        );
    }
    ensure!(!module::is_loaded(), "the module is loaded");
    Ok(())
}

/// A user who knows better gets the counters.
fn loaded_if_unreserved_is_set(ctx: &Ctx) -> Result<()> {
    let mut log = ctx.module_log()?;
    module::insert_with(ctx, c"unreserved=1")?.context("insmod unreserved=1")?;
    let pmu = ctx.pmu();
    module::remove().context("rmmod")?;
    pmu.context("the module is loaded, but has no PMU")?;
    let lines = log.lines()?;
    ensure!(
        !lines.iter().any(|line| line.contains("unknown parameter")),
        "the module does not know the parameter: {lines:?}"
    );
    Ok(())
}

/// Without the NMI watchdog the module loads on version 6, and counts exactly.
fn loaded_without_the_watchdog(ctx: &Ctx) -> Result<()> {
    let _off = Setting::change(SWITCH, 0)?;
    module::insert(ctx)?.context("insmod")?;
    let result = ctx
        .pmu()
        .and_then(|pmu| expect_exact(&pmu, &workload::branches(10_000)));
    module::remove().context("rmmod")?;
    result
}
