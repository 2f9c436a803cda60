// SPDX-License-Identifier: GPL-2.0
//! What the module asks the kernel for while it is loaded, or when an event is opened, is not to be
//! had: someone else has it. claims.ko is that someone.
//!
//! The call fails with an errno that says so and leaves nothing behind, or the module does without.
//! Failing allocations are in `fail_nth.rs`.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;

use super::sharing::expect_busy;
use super::{expect_exact, interrupts, user_read};
use crate::ctx::{Ctx, Test};
use crate::kmsg::{self, Kmsg, Record};
use crate::module;
use crate::msr::PmuMsrs;
use crate::pmu::{CpuPmu, Event};
use crate::setting::Setting;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, ExactCounts];
    name_of_rust_pmu_is_taken,
    name_of_rust_clock_is_taken,
    name_of_rust_trace_is_taken,
    no_hotplug_state_is_left,
    no_function_can_be_hooked: [InTree],
    each_register_is_reserved_while_the_module_is_loaded,
    each_register_is_reserved_while_an_event_is_opened,
];

/// For a guest whose kernel has no in-tree driver.
pub const PRIMARY: &[Test] = tests![
    all need [Root];
    another_pmu_needs_the_in_tree_driver,
];

/// claims.ko, until dropped.
struct Claims;

impl Claims {
    fn new(parameters: &str) -> Result<Self> {
        let parameters = CString::new(parameters)?;
        module::insert_of_tests(&parameters)?
            .with_context(|| format!("claims.ko {parameters:?}"))?;
        Ok(Self)
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        if let Err(error) = module::remove_named(c"claims") {
            eprintln!("rmmod claims: {error}");
        }
    }
}

const DEVICES: &str = "/sys/bus/event_source/devices";
const PMUS: [&str; 3] = ["rust_pmu", "rust_clock", "rust_trace"];

/// The hotplug states that are set up, which all CPUs have.
fn hotplug_states() -> Result<String> {
    let states = "/sys/devices/system/cpu/hotplug/states";
    fs::read_to_string(states).context(states)
}

/// The addresses of kprobes, for which the module looks up functions.
fn kprobes() -> Result<String> {
    let list = "/sys/kernel/debug/kprobes/list";
    fs::read_to_string(list).context(list)
}

/// Loads the module, which must fail and leave nothing. Then loads it again without `claims`, and
/// it counts.
fn expect_refused(ctx: &Ctx, claims: &str, errno: Errno) -> Result<()> {
    let probes = kprobes()?;
    let before = hotplug_states()?;
    let mut log = Kmsg::from_now()?;
    let claimed = Claims::new(claims)?;
    let pmus = || PMUS.map(|pmu| Path::new(DEVICES).join(pmu).exists());
    let (devices, states) = (pmus(), hotplug_states()?);
    module::expect_refused(ctx, c"", errno)?;
    judge_warning(&mut log)?;
    ensure!(!module::is_loaded(), "the module is loaded");
    ensure!(pmus() == devices, "PMUs: {devices:?}, then {:?}", pmus());
    ensure!(hotplug_states()? == states, "a hotplug state is left");
    ensure!(kprobes()? == probes, "a kprobe is left");
    drop(claimed);
    ensure!(hotplug_states()? == before, "a hotplug state is left");

    // No handler of NMIs is left: the next one is the only one.
    module::insert(ctx)?.context("insmod")?;
    let counts = ctx.pmu().and_then(|pmu| {
        let nmis = interrupts("NMI")?;
        let mut event = pmu.event(Event::Instructions);
        let event = event.sample_period(10_000).build()?;
        workload::tight_loop(100_000).measure(&event)?;
        ensure!(interrupts("NMI")? > nmis, "no NMI");
        expect_exact(&pmu, &workload::branches(10_000))
    });
    let removed = module::remove().context("rmmod");
    counts.and(removed)
}

/// The kernel warns of a name in sysfs that is taken, and of states that run out, with a stack
/// trace.
fn judge_warning(log: &mut Kmsg) -> Result<()> {
    const WARNINGS: [&str; 2] = [
        "cannot create duplicate filename",
        "No more dynamic states available for CPU hotplug",
    ];
    let records = log.records()?;
    let is_expected = |it: &Record| WARNINGS.iter().any(|words| it.text.contains(words));
    ensure!(records.iter().any(is_expected), "the kernel does not warn");
    kmsg::set_judged(&records);
    Ok(())
}

/// perf says `EEXIST`. For insmod that means that the module is loaded already, so the kernel makes it
/// `EBUSY`.
const NAME_TAKEN: Errno = Errno::EBUSY;

/// insmod fails with EBUSY if there is a PMU of the name rust_pmu, and leaves nothing behind.
fn name_of_rust_pmu_is_taken(ctx: &Ctx) -> Result<()> {
    expect_refused(ctx, "pmu_name=rust_pmu", NAME_TAKEN)
}

/// insmod fails with EBUSY if there is a PMU of the name rust_clock, and leaves nothing behind: rust_pmu,
/// which is registered before it, goes away again.
fn name_of_rust_clock_is_taken(ctx: &Ctx) -> Result<()> {
    expect_refused(ctx, "pmu_name=rust_clock", NAME_TAKEN)
}

/// insmod fails with EBUSY if there is a PMU of the name rust_trace, which is registered last, and leaves
/// nothing behind.
fn name_of_rust_trace_is_taken(ctx: &Ctx) -> Result<()> {
    expect_refused(ctx, "pmu_name=rust_trace", NAME_TAKEN)
}

/// insmod fails with ENOSPC if no state of CPU hotplug is free, and leaves nothing behind.
fn no_hotplug_state_is_left(ctx: &Ctx) -> Result<()> {
    // Whoever watches the console would take the kernel's warning for a failure.
    let _console = Setting::change("/proc/sys/kernel/printk", 1)?;
    expect_refused(ctx, "hotplug=1", Errno::ENOSPC)
}

/// Without hooks the module says once what that costs. Its events count, and user mode finds no counts of
/// other tasks in the counters.
fn no_function_can_be_hooked(ctx: &Ctx) -> Result<()> {
    // The errno follows, as a name or a number.
    const SAID: &str = "rust_perf: functions of the kernel cannot be hooked (";
    let claimed = Claims::new("hooks=1")?;
    let mut log = Kmsg::from_now()?;
    module::insert(ctx)?.context("insmod without hooks")?;
    drop(claimed);
    let result = ctx.pmu().and_then(|pmu| {
        let lines = log.lines()?;
        let said = lines.iter().filter(|line| line.contains(SAID)).count();
        ensure!(said == 1, "said {said} times: {SAID}");
        expect_exact(&pmu, &workload::branches(10_000))?;
        user_read::rdpmc_is_exact(ctx)?;
        user_read::dirty_counters_are_cleared(ctx)?;
        user_read::dirty_counters_are_cleared_for_children(ctx)?;
        user_read::dirty_counters_are_cleared_for_threads(ctx)
    });
    let removed = module::remove().context("rmmod");
    result.and(removed)
}

/// The registers of the general counters, each as claims.ko's parameter.
fn registers() -> Vec<String> {
    let msrs = PmuMsrs::of_this_cpu();
    let mut counters = msrs.counters;
    if !CpuPmu::probe().is_amd() {
        // The kernel does not arbitrate the addresses through which they are written at full width.
        counters.clear();
    }
    let counters = counters.iter().map(|msr| format!("perfctr={msr}"));
    let eventsels = msrs.eventsels.iter().map(|msr| format!("evntsel={msr}"));
    counters.chain(eventsels).collect()
}

/// While someone else has a register, the module can be loaded, and its events fail with EBUSY. They
/// count when the register is free.
fn each_register_is_reserved_while_the_module_is_loaded(ctx: &Ctx) -> Result<()> {
    for register in registers() {
        let claimed = Claims::new(&register)?;
        module::insert(ctx)?.with_context(|| format!("insmod with {register}"))?;
        let result = ctx.pmu().and_then(|pmu| {
            expect_busy(pmu.event(Event::Instructions).build(), "rust_pmu")?;
            drop(claimed);
            expect_exact(&pmu, &workload::branches(10_000))
        });
        let removed = module::remove().context("rmmod");
        result.and(removed).with_context(|| register)?;
    }
    Ok(())
}

/// An event is refused, and the registers that it could reserve are free again: each of them can
/// be reserved by someone else.
fn each_register_is_reserved_while_an_event_is_opened(ctx: &Ctx) -> Result<()> {
    module::insert(ctx)?.context("insmod")?;
    let all = registers();
    let result = ctx.pmu().and_then(|pmu| {
        for register in &all {
            let claimed = Claims::new(register)?;
            expect_busy(pmu.event(Event::Instructions).build(), "rust_pmu")?;
            drop(claimed);
            for other in &all {
                drop(Claims::new(other).context("after an event that was refused")?);
            }
        }
        expect_exact(&pmu, &workload::branches(10_000))
    });
    let removed = module::remove().context("rmmod");
    result.and(removed)
}

/// With `primary=1` insmod fails with EBUSY if there is a PMU of the name intel_pt or intel_bts, whose
/// interrupts the in-tree driver would handle. One line of the log names the PMU and the boot parameter
/// without which there is none. With other PMUs the module loads.
fn another_pmu_needs_the_in_tree_driver(ctx: &Ctx) -> Result<()> {
    for name in ["intel_pt", "intel_bts"] {
        let claimed = Claims::new(&format!("pmu_name={name}"))?;
        let mut log = ctx.module_log()?;
        module::expect_refused(ctx, c"primary=1", Errno::EBUSY).context(name)?;
        let lines = log.lines()?;
        ensure!(lines.len() == 1, "{name}: {lines:?}");
        for word in [
            name,
            "initcall_blacklist=init_hw_perf_events,pt_init,bts_init",
        ] {
            ensure!(lines[0].contains(word), "{lines:?} without {word}");
        }
        drop(claimed);
    }
    let claimed = Claims::new("pmu_name=intel")?;
    module::insert_with(ctx, c"primary=1")?.context("insmod primary=1")?;
    let counts = ctx
        .pmu()
        .and_then(|pmu| expect_exact(&pmu, &workload::branches(10_000)));
    let removed = module::remove().context("rmmod");
    drop(claimed);
    counts.and(removed)
}
