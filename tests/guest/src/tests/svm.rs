// SPDX-License-Identifier: GPL-2.0
//! AMD's counters that count on the host or in guests only.
//!
//! APM vol. 2, "Performance Event-Select Registers", the field HG_ONLY: while EFER.SVME is
//! clear, a counter with one of the two bits counts nothing. KVM sets EFER.SVME.

use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use perf_event::events::Software;
use perf_event::{Builder, Counter};

use super::expect;
use super::lockup::Watched;
use crate::accesses::Since;
use crate::ctx::{Ctx, Test};
use crate::kvm::{Guest, Kvm};
use crate::module;
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::{BuilderExt, Event, Mode, Pmu};
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Amd, Root, Msrs, ExactCounts, KernelModule("kvm_amd")];
    bits_of_perf_ctl,
    events_of_the_host,
    events_of_a_guest,
    counters_of_others,
    beside_an_event_that_stays,
    an_event_that_counts_meanwhile,
];

/// For a guest whose kernel has no in-tree driver, so that the module is in its place. The tests load it.
pub const PRIMARY: &[Test] = tests![
    all need [Amd, Root, KernelModule("kvm_amd")];
    beside_the_hard_lockup_detector,
];

const GUEST_ONLY: u64 = 1 << 40;
const HOST_ONLY: u64 = 1 << 41;

/// The bits count on the host as the table of the manual says.
fn bits_of_perf_ctl(_: &Ctx) -> Result<()> {
    const CPU: usize = 0;
    /// EN, USR, branches.
    const BRANCHES: u64 = (1 << 22) | (1 << 16) | 0xc2;
    let _affinity = Affinity::pinned_to(CPU)?;
    let msrs = Msrs::of_cpu(CPU)?;
    let pmu = PmuMsrs::of_this_cpu();
    let ctl = *pmu.eventsels.last().context("no counter")?;
    let ctr = *pmu.counters.last().context("no counter")?;
    let workload = workload::branches(10_000);
    let counts = |bits: u64| -> Result<bool> {
        if let Some(address) = pmu.global_ctrl {
            msrs.write(address, pmu.all)?;
        }
        msrs.write(ctr, 0)?;
        msrs.write(ctl, BRANCHES | bits)?;
        workload.run();
        msrs.write(ctl, 0)?;
        let count = msrs.read(ctr)?;
        let possible = count == 0 || count >= workload.branches();
        ensure!(possible, "{bits:#x}: {count} of {}", workload.branches());
        Ok(count != 0)
    };
    let all = || [0, HOST_ONLY, GUEST_ONLY, HOST_ONLY | GUEST_ONLY].map(counts);
    let check = |what: &str, expected: [bool; 4]| -> Result<()> {
        let found: Vec<bool> = all().into_iter().collect::<Result<_>>()?;
        ensure!(found == expected, "{what}: {found:?}, not {expected:?}");
        Ok(())
    };
    check("without SVM", [true, false, false, false])?;
    let kvm = Kvm::load()?;
    check("with SVM", [true, true, false, true])?;
    kvm.unload()?;
    check("without SVM again", [true, false, false, false])
}

fn open(pmu: &Pmu, mode: Mode, host: bool, guest: bool) -> Result<Counter> {
    let mut builder = pmu.event(Event::Branches);
    builder
        .filter(mode)
        .exclude_host(!host)
        .exclude_guest(!guest);
    Ok(builder.build()?)
}

/// An event that excludes guests counts the host exactly, and one that excludes the host
/// counts nothing there.
fn events_of_the_host(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let kvm = Kvm::load()?;
    let workload = workload::branches(10_000);
    for (host, guest, want) in [
        (true, true, workload.branches()),
        (true, false, workload.branches()),
        (false, true, 0),
    ] {
        let mut counter = open(&pmu, Mode::User, host, guest)?;
        workload.measure(&counter)?;
        let what = format!("host {host}, guest {guest}");
        expect(&what, "branches", counter.read()?, want)?;
    }
    kvm.unload()
}

/// An event that excludes the host counts a guest exactly. The guest runs at CPL 0.
fn events_of_a_guest(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let kvm = Kvm::load()?;
    let guest = Guest::new()?;
    for branches in [1, 1_000, 60_000] {
        let mut counter = open(&pmu, Mode::Kernel, false, true)?;
        counter.enable()?;
        guest.run(branches)?;
        counter.disable()?;
        let what = format!("{branches} in the guest");
        expect(&what, "branches", counter.read()?, branches.into())?;

        let mut counter = open(&pmu, Mode::User, false, true)?;
        counter.enable()?;
        guest.run(branches)?;
        counter.disable()?;
        expect("user mode", "branches", counter.read()?, 0)?;
    }
    drop(guest);
    kvm.unload()
}

/// KVM writes registers on all CPUs. Where the module has no event, it does not write them again: the
/// counters may be the in-tree driver's.
fn counters_of_others(ctx: &Ctx) -> Result<()> {
    // At boot the kernel opens an event of the in-tree driver on CPU 0, which writes GLOBAL_CTRL whenever
    // perf enables it there.
    const CPU: usize = 1;
    let _affinity = Affinity::pinned_to(CPU)?;
    // From the first event of a CPU on, perf keeps a PMU in the list of those that it enables there.
    let mut event = ctx.pmu()?.event(Event::Branches);
    drop(event.any_pid().one_cpu(CPU).build()?);
    let kvm = Kvm::load()?;
    let since = Since::now()?;
    // At a switch to a task with a pinned event perf disables and enables all PMUs of the list.
    let mut pinned = Builder::new(Software::DUMMY).pinned(true).build()?;
    pinned.enable()?;
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(1));
    }
    let accesses = since.until_now()?;
    ensure!(accesses.is_empty(), "{accesses:?}");
    kvm.unload()
}

/// An event that excludes guests, and that a CPU counts all the time. As long as it is there, the driver
/// keeps the CPU's counters.
fn holder(pmu: &Pmu, cpu: usize) -> Result<Counter> {
    let mut builder = pmu.event(Event::Branches);
    builder.filter(Mode::User).exclude_guest(true);
    let mut holder = builder.any_pid().one_cpu(cpu).build()?;
    holder.enable()?;
    Ok(holder)
}

/// A new event that excludes guests counts user mode exactly.
fn expect_exact(pmu: &Pmu, what: &str) -> Result<()> {
    let workload = workload::branches(10_000);
    let mut counter = open(pmu, Mode::User, true, false)?;
    workload.measure(&counter)?;
    expect(what, "branches", counter.read()?, workload.branches())
}

/// Whether the counters of a CPU that count branches in user mode do so on the host only. It is an error
/// if they differ, or if there is none.
fn count_host_only(cpu: usize) -> Result<bool> {
    /// EN, USR and the event select.
    const BRANCHES: u64 = (1 << 22) | (1 << 16) | 0xc2;
    const OS: u64 = 1 << 17;
    let msrs = Msrs::of_cpu(cpu)?;
    let mut found = Vec::new();
    for address in PmuMsrs::of_this_cpu().eventsels {
        let eventsel = msrs.read(address)?;
        if eventsel & (BRANCHES | OS) == BRANCHES {
            found.push(eventsel & HOST_ONLY != 0);
        }
    }
    let first = *found.first().context("no counter counts branches")?;
    ensure!(found.iter().all(|it| *it == first), "host only: {found:?}");
    Ok(first)
}

/// While an event keeps the counters of a CPU, KVM is loaded and unloaded. The counters of events that
/// exclude guests have HOST_ONLY while SVM is enabled, and not otherwise, and a new event counts exactly
/// each time. This holds whether SVM was enabled when the first event came or not.
fn beside_an_event_that_stays(ctx: &Ctx) -> Result<()> {
    const CPU: usize = 1;
    let pmu = ctx.pmu()?;
    let _affinity = Affinity::pinned_to(CPU)?;
    let check = |enabled: bool| -> Result<()> {
        let what = format!("SVM enabled: {enabled}");
        // Its counter keeps what it was programmed to, until the next event has it.
        expect_exact(&pmu, &what)?;
        ensure!(count_host_only(CPU)? == enabled, "{what}");
        Ok(())
    };
    let first = holder(&pmu, CPU)?;
    check(false)?;
    let kvm = Kvm::load()?;
    check(true).context("the first event came without SVM")?;
    drop(first);
    let second = holder(&pmu, CPU)?;
    check(true)?;
    kvm.unload()?;
    check(false).context("the first event came with SVM")?;
    Kvm::load()?.unload()?;
    check(false).context("loaded and unloaded")?;
    drop(second);
    Ok(())
}

/// An event that counts while KVM is loaded and unloaded counts on: between two readings it has always
/// counted the same. Another event keeps the counters meanwhile.
fn an_event_that_counts_meanwhile(ctx: &Ctx) -> Result<()> {
    const CPU: usize = 1;
    let _affinity = Affinity::pinned_to(CPU)?;
    let pmu = ctx.pmu()?;
    let _holder = holder(&pmu, CPU)?;
    let workload = workload::branches(10_000);
    let mut counter = open(&pmu, Mode::User, true, false)?;
    counter.enable()?;
    let mut counts = Vec::new();
    let mut kvm = None;
    for load in [false, true, false, true, false] {
        match (load, kvm.take()) {
            (true, _) => kvm = Some(Kvm::load()?),
            (false, Some(loaded)) => Kvm::unload(loaded)?,
            (false, None) => {}
        }
        let before = counter.read()?;
        workload.run();
        counts.push(counter.read()? - before);
    }
    counter.disable()?;
    // What a reading takes in user mode.
    let most = workload.branches() + 100;
    let right = |it: &u64| *it == counts[0] && (workload.branches()..most).contains(it);
    ensure!(
        counts.iter().all(right),
        "{counts:?}, expected {} and a little more each time",
        workload.branches()
    );
    Ok(())
}

/// The kernel's detector of hard lockups keeps an event on each CPU all the time. An event that excludes
/// guests counts exactly before and after KVM is loaded or unloaded, whichever was there first.
fn beside_the_hard_lockup_detector(ctx: &Ctx) -> Result<()> {
    module::insert_with(ctx, c"primary=1")?.context("insmod primary=1")?;
    let result = beside_the_detector_of_the_module(ctx);
    module::remove().context("rmmod")?;
    result
}

fn beside_the_detector_of_the_module(ctx: &Ctx) -> Result<()> {
    let kvm = Kvm::load()?;
    let watched = Watched::new(ctx)?;
    let pmu = ctx.pmu()?;
    expect_exact(&pmu, "KVM came first")?;
    kvm.unload()?;
    expect_exact(&pmu, "KVM came first, and was unloaded")?;
    drop(watched);

    let watched = Watched::new(ctx)?;
    let pmu = ctx.pmu()?;
    expect_exact(&pmu, "the detector came first")?;
    let kvm = Kvm::load()?;
    expect_exact(&pmu, "the detector came first, and KVM was loaded")?;
    kvm.unload()?;
    expect_exact(&pmu, "KVM was unloaded again")?;
    drop(watched);
    Ok(())
}
