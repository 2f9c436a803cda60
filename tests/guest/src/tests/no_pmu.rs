// SPDX-License-Identifier: GPL-2.0
//! A CPU without a PMU (-cpu …,pmu=off): the module loads without rust_pmu.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;

use crate::ctx::{Ctx, Test, RUST_PMU};
use crate::module;
use crate::pmu::CpuPmu;
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Root, Module];
    loads_without_rust_pmu,
    loads_with_limits_on_counters,
    refuses_a_generation,
    refuses_the_place_of_the_in_tree_driver,
    refuses_bad_parameters,
];

pub const LOADED: &[Test] = tests![
    all need [Root, Module];
    has_the_software_pmus,
];

/// The module's PMUs that need no hardware.
const SOFTWARE_PMUS: &[&str] = &["rust_clock", "rust_trace"];

/// The directory of a PMU.
fn device(pmu: &str) -> PathBuf {
    Path::new("/sys/bus/event_source/devices").join(pmu)
}

/// Loads the module, which must have one line in the log: it says why there is no
/// rust_pmu. Then unloads it.
fn expect_loads(ctx: &Ctx, parameters: &CStr) -> Result<()> {
    let cpu = CpuPmu::probe();
    ensure!(cpu.version == 0, "this guest has a PMU: {cpu:?}");
    let mut log = ctx.module_log()?;
    module::insert_with(ctx, parameters)?.with_context(|| format!("insmod {parameters:?}"))?;
    let lines = log.lines();
    let loaded = module::is_loaded();
    let registered = device(RUST_PMU).exists();
    let missing: Vec<_> = SOFTWARE_PMUS
        .iter()
        .filter(|pmu| !device(pmu).exists())
        .collect();
    module::remove().context("rmmod")?;
    ensure!(loaded, "the module is not loaded");
    ensure!(
        missing.is_empty(),
        "these PMUs are not registered: {missing:?}"
    );
    ensure!(!registered, "{RUST_PMU} is registered");
    let lines = lines?;
    ensure!(
        lines.len() == 1,
        "{} lines in the kernel log, expected 1: {lines:?}",
        lines.len()
    );
    for words in ["no PMU: ", "rust_pmu is not registered"] {
        ensure!(
            lines[0].contains(words),
            "the kernel log does not say {words:?}: {lines:?}"
        );
    }
    ensure!(!module::is_loaded(), "the module is still loaded");
    Ok(())
}

/// Without a PMU the module loads, has its software PMUs, and says in one line why there is no
/// rust_pmu.
fn loads_without_rust_pmu(ctx: &Ctx) -> Result<()> {
    expect_loads(ctx, c"")
}

/// No counters are not more than the limit.
fn loads_with_limits_on_counters(ctx: &Ctx) -> Result<()> {
    expect_loads(ctx, c"general=2 fixed=0 unreserved=1")
}

/// Fails to load the module, with one line in the log that contains `words`.
fn expect_refused(ctx: &Ctx, parameters: &CStr, errno: Errno, words: &str) -> Result<()> {
    let mut log = ctx.module_log()?;
    module::expect_refused(ctx, parameters, errno)?;
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1 && lines[0].contains(words),
        "kernel log {lines:?}, expected one line with {words:?}"
    );
    ensure!(!module::is_loaded(), "the module is loaded");
    ensure!(!device(RUST_PMU).exists(), "the PMU is registered");
    Ok(())
}

/// Who asks for a generation asks for rust_pmu.
fn refuses_a_generation(ctx: &Ctx) -> Result<()> {
    for (parameters, words) in [
        (c"generation=1", "generation=1: "),
        (c"generation=200", "generation=200: "),
    ] {
        expect_refused(ctx, parameters, Errno::ENODEV, words)?;
    }
    Ok(())
}

/// Whoever asks for the place of the in-tree driver asks for counters.
fn refuses_the_place_of_the_in_tree_driver(ctx: &Ctx) -> Result<()> {
    expect_refused(ctx, c"primary=1", Errno::ENODEV, "primary=1: no PMU: ")
}

/// Bad parameters are EINVAL without a PMU as well, with a line that names the parameter.
fn refuses_bad_parameters(ctx: &Ctx) -> Result<()> {
    expect_refused(ctx, c"fixed=2", Errno::EINVAL, "fixed=2")?;
    expect_refused(ctx, c"unreserved=7", Errno::EINVAL, "unreserved=7")
}

/// Without a PMU, rust_clock and rust_trace are there and rust_pmu is not.
fn has_the_software_pmus(_: &Ctx) -> Result<()> {
    ensure!(module::is_loaded(), "the module is not loaded");
    ensure!(!device(RUST_PMU).exists(), "{RUST_PMU} is registered");
    for pmu in SOFTWARE_PMUS {
        ensure!(device(pmu).exists(), "{pmu} is not registered");
    }
    Ok(())
}
