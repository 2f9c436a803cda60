// SPDX-License-Identifier: GPL-2.0
//! Thousands of calls of perf_event_open(), each for rust_clock and for the in-tree clocks.
//! They return the same errno, and so do the ioctls of events that are opened. There is no
//! intended difference. clock.rs compares the counts.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{ensure, Result};
use fastrand::Rng;
use nix::errno::Errno;
use perf_event_open_sys::ioctls;

use super::compare::attr;
use super::compare::calls::{self, CHANGES};
use super::compare::case::{self, Case, Group, Opened, Side, Whose, World};
use super::compare::report::{name, Report};
use crate::clocks::{Clock, Clocks};
use crate::ctx::{Ctx, Test};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root];
    every_field,
    pairs_of_fields,
    random_attrs,
    other_numbers,
    arguments,
    rights,
];

/// Makes calls for both PMUs, and collects the unexpected results.
struct Comparison {
    world: World,
    ours: Side,
    theirs: Side,
    report: Report,
}

impl Comparison {
    fn new(ctx: &Ctx) -> Result<Self> {
        let Clocks { ours, theirs } = Clocks::find()?;
        let clocks = Clock::ALL.map(|clock| (clock as u64, clock as u64));
        Ok(Self {
            world: World::new()?,
            ours: Side::new(ours, Clock::Cpu as u64),
            // The in-tree PMU has other events, too.
            theirs: Side::with_configs(theirs, &clocks, u64::MAX),
            report: Report::new(ctx),
        })
    }

    /// Makes a call for each PMU. If both open an event, compares what its ioctls return
    /// and whether it counts.
    fn call(&mut self, case: Case) -> Result<()> {
        let Self {
            world,
            ours,
            theirs,
            report,
        } = self;
        let on_ours = world.opened(&case, ours, theirs);
        let on_theirs = world.opened(&case, theirs, ours);
        let errno = |opened: &Result<Opened, i32>| opened.as_ref().err().copied().unwrap_or(0);
        report.called(errno(&on_ours));
        if errno(&on_ours) != errno(&on_theirs) {
            let (ours, theirs) = (name(errno(&on_ours)), name(errno(&on_theirs)));
            report.wrong(format!("{ours}, in-tree {theirs}: {case}"));
        }
        let (Ok(on_ours), Ok(on_theirs)) = (on_ours, on_theirs) else {
            return Ok(());
        };
        for (what, ioctl) in IOCTLS {
            if *what == "REFRESH" && case.attr.has(attr::SIGTRAP) {
                // It starts the event, whose samples would kill this process.
                continue;
            }
            let [ours, theirs] = [&on_ours, &on_theirs].map(|opened| ioctl(&opened.event));
            if ours != theirs {
                let (ours, theirs) = (name(ours), name(theirs));
                report.wrong(format!("{what}: {ours}, in-tree {theirs}: {case}"));
            }
        }
        if counts(&case) {
            let format = case.attr.get(attr::READ_FORMAT);
            let [ours, theirs] = [
                count(&on_ours.event, format)?,
                count(&on_theirs.event, format)?,
            ];
            report.counted += 1;
            if (ours == 0) != (theirs == 0) {
                report.wrong(format!("counted {ours}, in-tree {theirs}: {case}"));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        self.report.finish()
    }
}

/// The errno of a call, 0 if it succeeds.
fn errno(status: libc::c_int) -> i32 {
    if status < 0 {
        Errno::last_raw()
    } else {
        0
    }
}

type Ioctl = fn(&OwnedFd) -> i32;

/// Calls with the ioctls of an event. The last one leaves it disabled.
const IOCTLS: &[(&str, Ioctl)] = &[
    ("ID", |event| {
        let mut id = 0;
        // SAFETY: the event is open, and `id` is valid for writes.
        errno(unsafe { ioctls::ID(event.as_raw_fd(), &mut id) })
    }),
    ("PERIOD", |event| set_period(event, 1_000_000)),
    ("PERIOD 0", |event| set_period(event, 0)),
    ("PERIOD 2^63", |event| set_period(event, 1 << 63)),
    ("SET_FILTER", |event| {
        let filter = c"common_pid == 1";
        // SAFETY: the event is open. The kernel reads the string.
        errno(unsafe { ioctls::SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) })
    }),
    ("SET_OUTPUT", |event| {
        // SAFETY: the event is open, and the argument is a number.
        errno(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), -1) })
    }),
    ("PAUSE_OUTPUT", |event| {
        // SAFETY: the event is open, and the argument is a number.
        errno(unsafe { ioctls::PAUSE_OUTPUT(event.as_raw_fd(), 1) })
    }),
    ("SET_BPF", |event| {
        // SAFETY: the event is open, and the argument is a number.
        errno(unsafe { ioctls::SET_BPF(event.as_raw_fd(), u32::MAX) })
    }),
    ("REFRESH", |event| {
        // SAFETY: the event is open, and the argument is a number.
        errno(unsafe { ioctls::REFRESH(event.as_raw_fd(), 1) })
    }),
    ("DISABLE", |event| {
        // SAFETY: the event is open, and the argument is a number.
        errno(unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) })
    }),
    ("RESET", |event| {
        // SAFETY: the event is open, and the argument is a number.
        errno(unsafe { ioctls::RESET(event.as_raw_fd(), 0) })
    }),
];

fn set_period(event: &OwnedFd, period: u64) -> i32 {
    // The kernel takes a pointer, although the binding's type is u64.
    let pointer = std::ptr::from_ref(&period) as u64;
    // SAFETY: the event is open. `period` outlives the call, and the kernel only reads it.
    errno(unsafe { ioctls::PERIOD(event.as_raw_fd(), pointer) })
}

/// Whether the event can be tried on this thread.
fn counts(case: &Case) -> bool {
    case.whose == Whose::Caller
        && case.group == Group::Alone
        && case.paranoid.is_none()
        && !case.attr.has(attr::SIGTRAP)
}

/// Counts a moment.
fn count(event: &OwnedFd, read_format: u64) -> Result<u64> {
    // SAFETY: the event is open, and the argument is a number.
    let status = unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) };
    ensure!(status == 0, "enable: {}", Errno::last());
    workload::tight_loop(100).run();
    // SAFETY: as above.
    let status = unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) };
    ensure!(status == 0, "disable: {}", Errno::last());
    case::read(event, read_format)
}

fn every_field(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    for clock in Clock::ALL {
        calls::every_field(Case::own(clock as u64), |case| comparison.call(case))?;
    }
    comparison.finish()
}

fn pairs_of_fields(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    for clock in Clock::ALL {
        for case in calls::pairs(Case::own(clock as u64), CHANGES) {
            comparison.call(case)?;
        }
    }
    comparison.finish()
}

fn random_attrs(ctx: &Ctx) -> Result<()> {
    const CALLS: usize = 4_000;
    let mut comparison = Comparison::new(ctx)?;
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    for _ in 0..CALLS {
        let mut case = Case::own(rng.u64(..3));
        calls::change_randomly(&mut rng, &mut case, CHANGES);
        comparison.call(case)?;
    }
    comparison.finish()
}

/// Numbers that neither PMU has a clock for, with the changes that could have another
/// error.
fn other_numbers(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let numbers = (0..16).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]);
    for number in numbers {
        comparison.call(Case::own(number))?;
        for change in CHANGES {
            let mut case = Case::own(number);
            change(&mut case);
            comparison.call(case)?;
        }
    }
    comparison.finish()
}

fn arguments(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    for case in calls::arguments(Case::own(Clock::Task as u64)) {
        comparison.call(case)?;
    }
    comparison.finish()
}

fn rights(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    for clock in Clock::ALL {
        calls::rights(Case::own(clock as u64), CHANGES, |case| {
            comparison.call(case)
        })?;
    }
    comparison.finish()
}
