// SPDX-License-Identifier: GPL-2.0
//! The system sleeps while events are open.
//!
//! Neither virtio's 9p nor its ports survive that. So what this program needs is
//! in memory before, it reports on the serial console, and ends by powering off.

use std::fs::{self, File};

use anyhow::{ensure, Context, Result};
use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::sys::mman::{mlockall, MlockAllFlags};
use nix::unistd::{dup2_stderr, dup2_stdout, gettid, sync};

use super::counting::pin;
use super::{cpus, expect, expect_exact, interrupts};
use crate::ctx::{Ctx, Test};
use crate::pmu::Event;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![to_ram, to_idle, counts_as_before];

/// What the runner reads when the guest has ended.
const STATUS: &str = "/run/xtask/status";

const CONSOLE: &str = "/dev/ttyS0";

const RTC: &str = "/sys/class/rtc/rtc0";

/// Gets ready to sleep.
pub fn prepare() -> Result<()> {
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).context("mlockall")?;
    // How it went the report says.
    fs::write(STATUS, "0").context(STATUS)?;
    sync();
    let console = File::options().write(true).open(CONSOLE).context(CONSOLE)?;
    dup2_stdout(&console)?;
    dup2_stderr(&console).context(CONSOLE)
}

/// Ends the guest.
pub fn power_off() {
    // SAFETY: all that was to be kept has been written.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_POWER_OFF) };
}

fn set(file: &str, value: &str) -> Result<()> {
    fs::write(file, value).with_context(|| format!("echo {value} >{file}"))
}

/// Sleeps in this way till the clock wakes the system up.
fn sleep(how: &str) -> Result<()> {
    set("/sys/power/mem_sleep", how)?;
    set(&format!("{RTC}/device/power/wakeup"), "enabled")?;
    set(&format!("{RTC}/wakealarm"), "0")?;
    // So long that a busy host does not let it go off before the system sleeps.
    set(&format!("{RTC}/wakealarm"), "+10")?;
    set("/sys/power/state", "mem")
}

/// Events of the task and of the CPU that stays on, open all the time, count
/// before and after alike, and their overflows arrive.
fn across(ctx: &Ctx, how: &str) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000_000);
    let due = workload.instructions();
    let thread = gettid();
    let affinity = sched_getaffinity(thread)?;
    let mut task = pmu
        .event(Event::Instructions)
        .sample_period(PERIOD)
        .build()?;
    let mut builder = pmu.event(Event::Instructions);
    builder.any_pid().one_cpu(0).enabled(true);
    let mut on_cpu = builder.build()?;

    let mut round = |cpu| -> Result<()> {
        pin(thread, cpu)?;
        let before = (interrupts("NMI")?, task.read()?, on_cpu.read()?);
        workload.measure(&task)?;
        let counted = task.read()? - before.1;
        expect("the task's", "instructions", counted, due)?;
        let seen = on_cpu.read()? - before.2;
        ensure!(
            if cpu == 0 {
                seen >= due && seen < due + due / 10
            } else {
                seen < due / 10
            },
            "CPU 0 has {seen} instructions where the task on CPU {cpu} has {due}"
        );
        // What is left of a period is for the next round.
        let nmis = interrupts("NMI")? - before.0;
        ensure!(
            (due / PERIOD..=due / PERIOD + 1).contains(&nmis),
            "CPU {cpu} has {nmis} NMIs"
        );
        Ok(())
    };
    let mut everywhere = || (0..cpus()?).try_for_each(&mut round);
    everywhere().context("before")?;
    sleep(how)?;
    everywhere().context("after")?;
    sched_setaffinity(thread, &affinity).context("sched_setaffinity")
}

/// The hardware loses what it holds (ACPI S3).
fn to_ram(ctx: &Ctx) -> Result<()> {
    across(ctx, "deep")
}

/// All of suspending to idle but the idling: the emulated clock cannot wake the
/// system up from there.
fn to_idle(ctx: &Ctx) -> Result<()> {
    set("/sys/module/suspend/parameters/pm_test_delay", "1")?;
    set("/sys/power/pm_test", "platform")?;
    let result = across(ctx, "s2idle");
    set("/sys/power/pm_test", "none")?;
    result
}

/// Events that are opened afterwards, on either PMU.
fn counts_as_before(ctx: &Ctx) -> Result<()> {
    for pmu in [ctx.pmu()?, ctx.in_tree()?, ctx.pmu()?] {
        expect_exact(&pmu, &workload::tight_loop(10_000)).with_context(|| pmu.name.clone())?;
    }
    Ok(())
}
