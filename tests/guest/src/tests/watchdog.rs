// SPDX-License-Identifier: GPL-2.0
//! The NMI watchdog (nmi_watchdog=1 on the kernel command line) uses a counter of
//! each CPU. So rust_pmu's events are refused until the watchdog is disabled.

use std::fs;

use anyhow::{ensure, Result};

use super::sharing::expect_busy;
use super::{expect_exact, interrupts};
use crate::ctx::{Ctx, Test};
use crate::pmu::Event;
use crate::setting::Setting;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, InTree];
    watchdog_is_on,
    busy_with_hint: [Module, InTreeReserves],
    free_when_switched_off: [ExactCounts],
    watchdog_comes_back,
];

const SWITCH: &str = "/proc/sys/kernel/nmi_watchdog";

/// The watchdog uses the in-tree driver, which must work on the emulated hardware.
fn watchdog_is_on(_: &Ctx) -> Result<()> {
    let on = fs::read_to_string(SWITCH)?;
    ensure!(on.trim() == "1", "{SWITCH} is {on}");
    Ok(())
}

/// While the NMI watchdog has the counters, opening an event is EBUSY, and one line of the kernel
/// log names `nmi_watchdog`.
fn busy_with_hint(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut log = ctx.module_log()?;
    for _ in 0..3 {
        expect_busy(pmu.event(Event::Instructions).build(), "rust_pmu")?;
    }
    let lines = log.lines()?;
    ensure!(
        lines.len() == 1,
        "{} lines in the kernel log, expected 1: {lines:?}",
        lines.len()
    );
    ensure!(
        lines[0].contains("nmi_watchdog"),
        "the kernel log does not mention nmi_watchdog: {lines:?}"
    );
    Ok(())
}

/// After the NMI watchdog is switched off, rust_pmu counts exactly.
fn free_when_switched_off(ctx: &Ctx) -> Result<()> {
    let _off = Setting::change(SWITCH, 0)?;
    expect_exact(&ctx.pmu()?, &workload::branches(100_000))
}

/// When it is enabled again, the watchdog gets its counters, and NMIs while a CPU is
/// busy.
fn watchdog_comes_back(ctx: &Ctx) -> Result<()> {
    // The watchdog's period is this many seconds at the CPU's calibrated clock rate.
    // The emulated CPU is much slower, so use the shortest.
    let watchdog = Setting::change(SWITCH, 0)?;
    let _thresh = Setting::change("/proc/sys/kernel/watchdog_thresh", 1)?;
    // The other watchdog, of tasks, would complain of a CPU that the host stops for two seconds.
    let _soft = Setting::change("/proc/sys/kernel/soft_watchdog", 0)?;
    watchdog.set(1)?;
    if ctx.is_rust_pmu() {
        expect_busy(ctx.pmu()?.event(Event::Instructions).build(), "rust_pmu")?;
    }
    let before = interrupts("NMI")?;
    let workload = workload::block(3_000_000);
    for _ in 0..1_000 {
        workload.run();
        if interrupts("NMI")? > before {
            return Ok(());
        }
    }
    anyhow::bail!("no NMI of the watchdog came")
}
