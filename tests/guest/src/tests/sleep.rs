// SPDX-License-Identifier: GPL-2.0
//! System sleep while events are open.
//!
//! Neither 9p over virtio nor virtio ports survive it. So this program locks itself
//! into memory, reports on the serial console, and powers the guest off at the end.

use std::backtrace::Backtrace;
use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use anyhow::{ensure, Context, Result};
use nix::sys::mman::{mlockall, MlockAllFlags};
use nix::sys::termios::tcdrain;
use nix::unistd::{dup2_stderr, dup2_stdout, sync};

use super::{count_until, cpus, expect, expect_exact, interrupts};
use crate::ctx::{Ctx, Test};
use crate::pmu::Event;
use crate::setting::{Affinity, Setting};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, ExactCounts, ZeroSkid];
    to_ram: [Resumes],
    to_idle,
    under_load: [Resumes],
    counts_as_before: [InTree, Resumes],
];

/// The file from which xtask reads the exit status after the guest has ended.
const STATUS: &str = "/run/xtask/status";

const CONSOLE: &str = "/dev/ttyS0";

const RTC: &str = "/sys/class/rtc/rtc0";

const WAKEUP_COUNT: &str = "/sys/power/wakeup_count";

/// Prepares this program for sleep.
pub fn prepare() -> Result<()> {
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).context("mlockall")?;
    // Reads this program's debug information into memory, which a failure needs later.
    let _ = Backtrace::force_capture().to_string();
    // Written now, because it cannot be written later. The report tells which tests
    // failed.
    fs::write(STATUS, "0").context(STATUS)?;
    sync();
    let console = File::options().write(true).open(CONSOLE).context(CONSOLE)?;
    dup2_stdout(&console)?;
    dup2_stderr(&console).context(CONSOLE)
}

/// Powers the guest off.
pub fn power_off() {
    // The serial line sends the report by interrupts. On a busy host its end may not have been
    // sent yet.
    if let Err(error) = tcdrain(io::stdout()) {
        eprintln!("tcdrain: {error}");
    }
    // SAFETY: this ends all processes without a shutdown. `prepare` has synced the files,
    // and the report has left the console.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_POWER_OFF) };
}

fn set(file: &str, value: &str) -> Result<()> {
    fs::write(file, value).with_context(|| format!("echo {value} >{file}"))
}

/// Suspends the system until the RTC wakes it. `how` is a state of
/// `/sys/power/mem_sleep`.
///
/// On a busy host the alarm may expire before the system sleeps. Then the kernel does not let it sleep, and it
/// gets a later alarm.
fn sleep(how: &str) -> Result<()> {
    const LATEST: u32 = 80;
    let _mem_sleep = Setting::change("/sys/power/mem_sleep", how)?;
    let _wakeup = Setting::change(format!("{RTC}/device/power/wakeup"), "enabled")?;
    let mut seconds = 10;
    loop {
        let events = wakeup_events()?;
        let result = suspend(&events, seconds);
        let has_expired = wakeup_events()? != events;
        if result.is_ok() || !has_expired || seconds == LATEST {
            return result.with_context(|| format!("an alarm after {seconds} s"));
        }
        seconds *= 2;
    }
}

/// The number of events that wake the system, as the kernel counts them. Waits until it handles none.
fn wakeup_events() -> Result<String> {
    fs::read_to_string(WAKEUP_COUNT).context(WAKEUP_COUNT)
}

/// Suspends the system, with an alarm after so many seconds. Fails if an event has come that would have
/// waked it, since there were as many of them as `events` says: it would sleep for ever.
fn suspend(events: &str, seconds: u32) -> Result<()> {
    set(WAKEUP_COUNT, events.trim())?;
    set(&format!("{RTC}/wakealarm"), "0")?;
    set(&format!("{RTC}/wakealarm"), &format!("+{seconds}"))?;
    let result = set("/sys/power/state", "mem");
    // No alarm is left if the system did not sleep.
    set(&format!("{RTC}/wakealarm"), "0")?;
    result
}

/// Events of a task and of CPU 0 stay open across sleep. They count and overflow
/// afterwards as before.
fn across(ctx: &Ctx, how: &str) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000_000);
    let due = workload.instructions();
    let affinity = Affinity::save()?;
    let mut task = pmu
        .event(Event::Instructions)
        .sample_period(PERIOD)
        .build()?;
    let mut builder = pmu.event(Event::Instructions);
    builder.any_pid().one_cpu(0).enabled(true);
    let mut on_cpu = builder.build()?;

    let mut round = |cpu| -> Result<()> {
        affinity.pin(cpu)?;
        let before = (interrupts("NMI")?, task.read()?, on_cpu.read()?);
        workload.measure(&task)?;
        let counted = task.read()? - before.1;
        expect("task event", "instructions", counted, due)?;
        let seen = on_cpu.read()? - before.2;
        ensure!(
            if cpu == 0 {
                seen >= due && seen < due + due / 10
            } else {
                seen < due / 10
            },
            "{seen} instructions on CPU 0, with {due} of the task on CPU {cpu}"
        );
        // An unfinished period ends in the next round.
        let nmis = interrupts("NMI")? - before.0;
        ensure!(
            (due / PERIOD..=due / PERIOD + 1).contains(&nmis),
            "{nmis} NMIs with the task on CPU {cpu}, expected {} or one more",
            due / PERIOD
        );
        Ok(())
    };
    let mut everywhere = || (0..cpus()?).try_for_each(&mut round);
    everywhere().context("before sleep")?;
    sleep(how)?;
    everywhere().context("after sleep")
}

/// Suspend to RAM (ACPI S3), in which the CPUs lose their state.
fn to_ram(ctx: &Ctx) -> Result<()> {
    across(ctx, "deep")
}

/// Suspend to idle, up to the last step. The CPUs do not idle, because the emulated RTC
/// cannot wake the system from there.
fn to_idle(ctx: &Ctx) -> Result<()> {
    let _delay = Setting::change("/sys/module/suspend/parameters/pm_test_delay", 1)?;
    let _test = Setting::change("/sys/power/pm_test", "platform")?;
    across(ctx, "s2idle")
}

/// Tasks count while the system is suspended again and again, up to the last step: the other CPUs are
/// offline by then, and the driver sleeps as well.
fn under_load(ctx: &Ctx) -> Result<()> {
    const CYCLES: u32 = 5;
    let pmus = [ctx.pmu()?];
    let _delay = Setting::change("/sys/module/suspend/parameters/pm_test_delay", 0)?;
    let _test = Setting::change("/sys/power/pm_test", "core")?;
    let loads = 2 * cpus()?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let loads: Vec<_> = (0..loads)
            .map(|_| scope.spawn(|| count_until(&pmus, true, &done)))
            .collect();
        let result = (1..=CYCLES)
            .try_for_each(|cycle| sleep("deep").with_context(|| format!("cycle {cycle}")));
        done.store(true, SeqCst);
        for load in loads {
            let compared = load.join().expect("a load does not panic")?;
            ensure!(compared > 0, "a task has no count that could be compared");
        }
        result
    })
}

/// Events of both PMUs that are opened after sleep count exactly.
fn counts_as_before(ctx: &Ctx) -> Result<()> {
    for pmu in [ctx.pmu()?, ctx.in_tree()?, ctx.pmu()?] {
        expect_exact(&pmu, &workload::tight_loop(10_000)).with_context(|| pmu.name.clone())?;
    }
    Ok(())
}
