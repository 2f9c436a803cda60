// SPDX-License-Identifier: GPL-2.0
//! The NMI watchdog holds a counter of each CPU (kernel command line
//! nmi_watchdog=1): rust_pmu has to wait until it is switched off.

use std::fs;

use anyhow::{ensure, Context, Result};

use super::sharing::expect_busy;
use super::{expect_exact, interrupts};
use crate::ctx::{Ctx, Test};
use crate::pmu::Event;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    watchdog_is_on,
    busy_and_said_so,
    free_when_switched_off,
    watchdog_comes_back,
];

const SWITCH: &str = "/proc/sys/kernel/nmi_watchdog";

fn switch(on: bool) -> Result<()> {
    fs::write(SWITCH, if on { "1" } else { "0" }).context(SWITCH)
}

/// It is the in-tree driver that drives it: the emulated hardware must do.
fn watchdog_is_on(_: &Ctx) -> Result<()> {
    let on = fs::read_to_string(SWITCH)?;
    ensure!(on.trim() == "1", "{SWITCH} is {on}");
    Ok(())
}

fn busy_and_said_so(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut log = ctx.module_log()?;
    for _ in 0..3 {
        expect_busy(pmu.event(Event::Instructions).build(), "rust_pmu")?;
    }
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1,
        "{} lines in the kernel log: {lines:?}",
        lines.len()
    );
    ensure!(
        lines[0].contains("nmi_watchdog"),
        "no hint at what to do: {lines:?}"
    );
    Ok(())
}

fn free_when_switched_off(ctx: &Ctx) -> Result<()> {
    switch(false)?;
    expect_exact(&ctx.pmu()?, &workload::branches(100_000))
}

/// Switched on again it gets its counters, and interrupts while a CPU is busy.
fn watchdog_comes_back(ctx: &Ctx) -> Result<()> {
    // It counts cycles for so many seconds of the clock rate that the kernel
    // calibrated. By the instruction, that is long enough.
    fs::write("/proc/sys/kernel/watchdog_thresh", "1")?;
    switch(true)?;
    if ctx.need_module().is_ok() {
        expect_busy(ctx.pmu()?.event(Event::Instructions).build(), "rust_pmu")?;
    }
    let before = interrupts("NMI")?;
    let workload = workload::tight_loop(20_000_000);
    for _ in 0..1_000 {
        workload.run();
        if interrupts("NMI")? > before {
            return Ok(());
        }
    }
    anyhow::bail!("the watchdog's NMI never came")
}
