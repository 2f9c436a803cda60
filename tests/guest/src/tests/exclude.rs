// SPDX-License-Identifier: GPL-2.0
//! `exclude_host` and `exclude_guest`: the same errno and the same effect on this, the
//! host's side as with the in-tree driver.
//!
//! The in-tree driver for Intel leaves the counter of an event with `exclude_host` out of
//! GLOBAL_CTRL, or without EN on version 1, until KVM enters a guest
//! (arch/x86/events/intel/core.c). On AMD two bits of PERF_CTL do this in hardware
//! (arch/x86/events/amd/core.c):
//!
//! | `exclude_host` | `exclude_guest` | PERF_CTL |
//! |---|---|---|
//! | 0 | 0 | |
//! | 1 | 0 | GuestOnly |
//! | 0 | 1 | HostOnly, but not while SVM is disabled: nothing would be counted |
//! | 1 | 1 | neither USR nor OS |

use std::io;

use anyhow::{ensure, Context, Result};
use perf_event::Counter;

use crate::ctx::{Ctx, Test};
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::{BuilderExt, CpuPmu, Event, Mode, Pmu};
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [InTreeCounts, ExactCounts];
    same_errno_and_count,
    same_bits_of_perf_ctl: [Amd, Root, Msrs],
];

/// `exclude_host` and `exclude_guest`.
const COMBINATIONS: [(bool, bool); 4] =
    [(false, false), (true, false), (false, true), (true, true)];

fn open(pmu: &Pmu, mode: Mode, (host, guest): (bool, bool)) -> io::Result<Counter> {
    let mut builder = pmu.event(Event::Branches);
    builder.filter(mode).exclude_host(host).exclude_guest(guest);
    builder.build()
}

/// The outcome of an event, in an order in which the first difference tells the most.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    errno: i32,
    count: u64,
    /// Whether the event was on a counter all the time.
    on_counter: bool,
}

/// Opens an event and counts a workload of user instructions with it.
fn outcome(pmu: &Pmu, excluded: (bool, bool)) -> Result<Outcome> {
    let workload = workload::branches(10_000);
    let mut counter = match open(pmu, Mode::User, excluded) {
        Ok(counter) => counter,
        Err(error) => {
            return Ok(Outcome {
                errno: error.raw_os_error().context("an error without errno")?,
                count: 0,
                on_counter: false,
            })
        }
    };
    workload.measure(&counter)?;
    let data = counter.read_full()?;
    Ok(Outcome {
        errno: 0,
        count: data.count(),
        on_counter: data.time_running() == data.time_enabled(),
    })
}

/// Each combination of `exclude_host` and `exclude_guest` has the in-tree driver's errno and count.
fn same_errno_and_count(ctx: &Ctx) -> Result<()> {
    for excluded in COMBINATIONS {
        let theirs = outcome(&ctx.in_tree()?, excluded)?;
        let ours = outcome(&ctx.pmu()?, excluded)?;
        let (host, guest) = excluded;
        ensure!(
            ours == theirs,
            "exclude_host={host}, exclude_guest={guest}: {ours:?}, in-tree {theirs:?}"
        );
    }
    Ok(())
}

const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
const EN: u64 = 1 << 22;
const GUEST_ONLY: u64 = 1 << 40;
const HOST_ONLY: u64 = 1 << 41;

/// The bits of PERF_CTL that decide when an event counts, while it is enabled.
fn perf_ctl(pmu: &Pmu, mode: Mode, excluded: (bool, bool)) -> Result<u64> {
    const EVENT: u64 = 0xf_0000_00ff;
    const CPU: usize = 0;
    let _affinity = Affinity::pinned_to(CPU)?;
    let msrs = Msrs::of_cpu(CPU)?;
    let mut counter = open(pmu, mode, excluded)?;
    counter.enable()?;
    let event = pmu.config(Event::Branches) & EVENT;
    for address in PmuMsrs::of_this_cpu().eventsels {
        let value = msrs.read(address)?;
        if value & EN != 0 && value & EVENT == event {
            return Ok(value & (USR | OS | GUEST_ONLY | HOST_ONLY));
        }
    }
    // An event that counts nothing here need not be on a counter.
    Ok(0)
}

/// Each combination of the excluded modes sets the in-tree driver's bits of PERF_CTL.
fn same_bits_of_perf_ctl(ctx: &Ctx) -> Result<()> {
    for mode in [Mode::User, Mode::Kernel, Mode::Both] {
        for excluded in COMBINATIONS {
            let theirs = perf_ctl(&ctx.in_tree()?, mode, excluded)?;
            let ours = perf_ctl(&ctx.pmu()?, mode, excluded)?;
            let (host, guest) = excluded;
            ensure!(
                ours == theirs,
                "{mode:?}, exclude_host={host}, exclude_guest={guest}: \
                 bits {ours:#x} of PERF_CTL, in-tree {theirs:#x}"
            );
        }
    }
    ensure!(CpuPmu::probe().is_amd(), "PERF_CTL is AMD's");
    Ok(())
}
