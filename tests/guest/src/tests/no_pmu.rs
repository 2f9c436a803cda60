// SPDX-License-Identifier: GPL-2.0
//! A CPU without a PMU (-cpu …,pmu=off).

use std::path::Path;

use anyhow::{ensure, Result};
use nix::errno::Errno;

use crate::ctx::{Ctx, Test};
use crate::module;
use crate::pmu::CpuPmu;
use crate::tests;

pub const TESTS: &[Test] = tests![refuses_to_load];

fn refuses_to_load(ctx: &Ctx) -> Result<()> {
    let cpu = CpuPmu::probe();
    ensure!(cpu.version == 0, "this guest was to have no PMU: {cpu:?}");
    let mut log = ctx.module_log()?;
    let result = module::insert(ctx)?;
    ensure!(
        result == Err(Errno::ENODEV),
        "insmod: {result:?}, not ENODEV"
    );
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1,
        "{} lines in the kernel log: {lines:?}",
        lines.len()
    );
    ensure!(!module::is_loaded(), "the module is there all the same");
    let device = Path::new("/sys/bus/event_source/devices/rust_pmu");
    ensure!(!device.exists(), "the PMU is there all the same");
    Ok(())
}
