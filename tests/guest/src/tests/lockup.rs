// SPDX-License-Identifier: GPL-2.0
//! The kernel's detector of hard lockups with the module in the place of the in-tree driver.

use std::ffi::CString;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;

use crate::ctx::{skip, Ctx, Test};
use crate::kmsg::{set_judged, Kmsg};
use crate::module;
use crate::pmu::Pmu;
use crate::setting::{Affinity, Setting};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module];
    not_available_by_default,
    starts_with_the_module,
    a_locked_up_cpu_is_reported,
    on_a_cpu_that_comes_back: [Cpus(2)],
    on_a_cpu_that_failed_to_come_up: [Cpus(2)],
];

const SWITCH: &str = "/proc/sys/kernel/nmi_watchdog";
const THRESHOLD: &str = "/proc/sys/kernel/watchdog_thresh";
const SOFT: &str = "/proc/sys/kernel/soft_watchdog";

/// The kernel has looked for a PMU at boot, when there was none.
fn not_available_by_default(_: &Ctx) -> Result<()> {
    let on = fs::read_to_string(SWITCH)?;
    ensure!(on.trim() == "0", "{SWITCH} is {on}");
    // ENOTSUPP, which user mode should not see.
    let error = fs::write(SWITCH, "1").err().context("set")?;
    ensure!(error.raw_os_error() == Some(524), "{error}");
    Ok(())
}

/// The module with `watchdog=1`, and the detector running. When this is dropped, the detector is not
/// available, as before. That it was stopped then outlasts the module.
pub(super) struct Watched<'a> {
    ctx: &'a Ctx,
    _soft: Setting,
}

/// The kernel command line has `nmi_watchdog=1`.
fn starts_with_the_module(ctx: &Ctx) -> Result<()> {
    module::remove().context("rmmod")?;
    module::insert_with(ctx, c"primary=1 watchdog=1")?.context("insmod watchdog=1")?;
    let on = fs::read_to_string(SWITCH)?;
    // The detector's events keep the module.
    let busy = module::remove();
    fs::write(SWITCH, "0").context(SWITCH)?;
    module::remove().context("rmmod")?;
    module::insert_with(ctx, c"primary=1")?.context("insmod")?;
    ensure!(on.trim() == "1", "{SWITCH} is {on}");
    ensure!(busy == Err(Errno::EAGAIN), "rmmod: {busy:?}");
    Ok(())
}

impl<'a> Watched<'a> {
    /// The module must be loaded. It is loaded again.
    pub(super) fn new(ctx: &'a Ctx) -> Result<Self> {
        // What is locked up does not schedule either, which is for others to test.
        let soft = Setting::change(SOFT, 0)?;
        module::remove().context("rmmod")?;
        module::insert_with(ctx, c"primary=1 watchdog=1")?.context("insmod watchdog=1")?;
        let watched = Self { ctx, _soft: soft };
        fs::write(SWITCH, "1").context(SWITCH)?;
        Ok(watched)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let again = fs::write(SWITCH, "0")
            .context(SWITCH)
            .and_then(|()| module::remove().context("rmmod"))
            .and_then(|()| module::insert_with(self.ctx, c"primary=1"));
        if !matches!(again, Ok(Ok(()))) {
            eprintln!("the module cannot be loaded again: {again:?}");
        }
    }
}

/// The clock rate that the kernel has found, which it takes the detector's period from.
fn cycles_in_a_second() -> Result<u64> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let mhz = cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "cpu MHz").then(|| value.trim().parse::<f64>())
    });
    Ok((mhz.context("no cpu MHz")?? * 1e6) as u64)
}

/// How long a CPU is busy.
#[derive(Clone, Copy)]
struct Busy {
    /// Cycles each time, at least.
    cycles: u64,
    /// How many times.
    times: u32,
}

impl Busy {
    /// The time from one to the next. The detector ignores an overflow that comes less than 0.8 seconds
    /// after the last one that it has looked at, with a threshold of a second.
    const APART: Duration = Duration::from_millis(850);

    /// So long that the detector looks at two overflows, however fast the emulated CPU is: it may be slower
    /// or faster than it says, and change while it runs. Each time its event overflows. The detector looks at
    /// the second overflow or has looked at another one since the first, and likewise for the third.
    fn two_looks() -> Result<Self> {
        Ok(Self {
            cycles: cycles_in_a_second()? * 9 / 8,
            times: 3,
        })
    }

    /// A tenth of a period of the detector.
    fn a_tenth() -> Result<Self> {
        Ok(Self {
            cycles: cycles_in_a_second()? / 10,
            times: 1,
        })
    }
}

/// Locks up a CPU, and returns how many reports of it there are.
fn reports(cpu: usize, busy: Busy) -> Result<usize> {
    let mut log = Kmsg::from_now()?;
    let _affinity = Affinity::pinned_to(cpu)?;
    // Each instruction takes a cycle or more.
    let Busy { cycles, times } = busy;
    let apart = Busy::APART.as_millis();
    let parameters = format!("instructions={cycles} times={times} ms={apart}");
    let result = module::insert_of_tests(&CString::new(parameters)?)?;
    ensure!(
        result == Err(Errno::ECANCELED),
        "insmod lockup.ko: {result:?}"
    );
    let records = log.records()?;
    let report = format!("CPU{cpu}: Watchdog detected hard LOCKUP on cpu {cpu}");
    let found = records.iter().filter(|it| it.text.contains(&report));
    let found = found.count();
    if found == 1 {
        set_judged(&records);
    }
    Ok(found)
}

/// A CPU is reported if it handles no interrupts while the detector looks at two overflows of its event. It is
/// not if it does so for a tenth of a period.
fn expect_reports(cpu: usize) -> Result<()> {
    let short = reports(cpu, Busy::a_tenth()?)?;
    ensure!(short == 0, "{short} reports of a lockup that was short");
    let long = reports(cpu, Busy::two_looks()?)?;
    ensure!(long == 1, "{long} reports of a lockup that was long");
    Ok(())
}

/// Lets a CPU handle its interrupts while the detector looks at two overflows of its event. A lock-up is
/// reported once, until an overflow finds that there is none, and the one after a start is not looked at.
fn forget_the_report(cpu: usize) -> Result<()> {
    let _affinity = Affinity::pinned_to(cpu)?;
    let Busy { cycles, times } = Busy::two_looks()?;
    let workload = workload::block(1_000_000);
    for _ in 0..times {
        let mut executed = 0;
        while executed < cycles {
            workload.run();
            executed += workload.instructions();
        }
        thread::sleep(Busy::APART);
    }
    Ok(())
}

/// A CPU that handles no interrupts is reported by the NMI watchdog that the module provides, and
/// not while that is off.
fn a_locked_up_cpu_is_reported(ctx: &Ctx) -> Result<()> {
    let watched = Watched::new(ctx)?;
    let threshold = Setting::change(THRESHOLD, 1)?;
    expect_reports(0)?;
    fs::write(SWITCH, "0").context(SWITCH)?;
    let off = reports(0, Busy::two_looks()?)?;
    ensure!(off == 0, "{off} reports although {SWITCH} is 0");
    fs::write(SWITCH, "1").context(SWITCH)?;
    drop(threshold);
    drop(watched);
    not_available_by_default(ctx)
}

const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";

/// A CPU that was offline is watched again.
fn on_a_cpu_that_comes_back(ctx: &Ctx) -> Result<()> {
    let _watched = Watched::new(ctx)?;
    let _threshold = Setting::change(THRESHOLD, 1)?;
    Setting::change(ONLINE, 0)?.restore()?;
    expect_reports(1)
}

/// A CPU that was offline when the module was loaded is watched, although the detector had an event
/// there before when the CPU could not come online.
fn on_a_cpu_that_failed_to_come_up(ctx: &Ctx) -> Result<()> {
    if Pmu::find("cpu_atom").is_ok() {
        return skip("a core that the module has not seen yet has no PMU: docs/in-place.md");
    }
    let offline = Setting::change(ONLINE, 0)?;
    let _watched = Watched::new(ctx)?;
    let _threshold = Setting::change(THRESHOLD, 1)?;
    let states = fs::read_to_string("/sys/devices/system/cpu/hotplug/states")?;
    // It comes after that of the detector, and before that of the module.
    let state = states
        .lines()
        .find_map(|line| line.strip_suffix(": workqueue:online"));
    let state = state.context("no such state")?.trim();
    fs::write("/sys/devices/system/cpu/cpu1/hotplug/fail", state).context("fail")?;
    let failed = fs::write(ONLINE, "1");
    ensure!(failed.is_err(), "CPU 1 came online");
    offline.restore()?;
    forget_the_report(1)?;
    expect_reports(1)
}
