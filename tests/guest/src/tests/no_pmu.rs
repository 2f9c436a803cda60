// SPDX-License-Identifier: GPL-2.0
//! A CPU without a PMU (-cpu …,pmu=off).

use std::path::Path;

use anyhow::{ensure, Result};
use nix::errno::Errno;

use crate::ctx::{Ctx, Test};
use crate::module;
use crate::pmu::CpuPmu;
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Root, Module];
    refuses_to_load,
];

fn refuses_to_load(ctx: &Ctx) -> Result<()> {
    let cpu = CpuPmu::probe();
    ensure!(cpu.version == 0, "this guest has a PMU: {cpu:?}");
    let mut log = ctx.module_log()?;
    let result = module::insert(ctx)?;
    ensure!(
        result == Err(Errno::ENODEV),
        "insmod: {result:?}, expected ENODEV"
    );
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1,
        "{} lines in the kernel log, expected 1: {lines:?}",
        lines.len()
    );
    ensure!(!module::is_loaded(), "the module is loaded");
    let device = Path::new("/sys/bus/event_source/devices/rust_pmu");
    ensure!(!device.exists(), "the PMU is registered");
    Ok(())
}
