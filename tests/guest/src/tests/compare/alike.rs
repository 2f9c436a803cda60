// SPDX-License-Identifier: GPL-2.0
//! Calls for a PMU that is to behave as another one does: which events open, what they
//! count, and what their ioctls return.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{ensure, Result};
use nix::errno::Errno;
use perf_event_open_sys::ioctls;

use super::attr;
use super::case::{self, Case, Group, Opened, Side, Whose, World};
use super::report::{name, Report};
use crate::ctx::Ctx;

/// An intended difference: ours is refused with `EINVAL`.
#[derive(Clone, Copy)]
pub enum Difference {
    /// An event with such attributes.
    Open(&'static str, fn(&Case) -> bool),
    /// This ioctl.
    Ioctl(&'static str),
}

impl Difference {
    fn name(&self) -> &'static str {
        match self {
            Self::Open(name, _) | Self::Ioctl(name) => name,
        }
    }
}

/// How counts are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Both are 0, or neither is.
    Alike,
    /// They are the same.
    Same,
}

/// Two PMUs, and how to compare them.
pub struct Pair {
    pub ours: Side,
    pub theirs: Side,
    /// What is counted.
    pub load: fn(),
    pub counts: Counts,
    /// The `config` of the events whose counts are compared.
    pub counted: Vec<u64>,
    pub differences: &'static [Difference],
}

/// Makes calls for both PMUs, and collects the unexpected results.
pub struct Comparison {
    world: World,
    pair: Pair,
    /// Which of the differences have been seen.
    seen: Vec<bool>,
    report: Report,
}

impl Comparison {
    pub fn new(ctx: &Ctx, pair: Pair) -> Result<Self> {
        Ok(Self {
            world: World::new()?,
            seen: vec![false; pair.differences.len()],
            pair,
            report: Report::new(ctx),
        })
    }

    /// Whether these results are the same, or one of the differences is the reason that they
    /// are not.
    fn is_right(&mut self, ours: i32, theirs: i32, is_it: impl Fn(&Difference) -> bool) -> bool {
        if ours == theirs {
            return true;
        }
        let found = self.pair.differences.iter().position(is_it);
        match found {
            Some(i) if ours == libc::EINVAL => {
                self.seen[i] = true;
                true
            }
            _ => false,
        }
    }

    /// Makes a call for each PMU. If both open an event, compares what it counts and what its
    /// ioctls return.
    pub fn call(&mut self, case: Case) -> Result<()> {
        let Pair { ours, theirs, .. } = &self.pair;
        let on_ours = self.world.opened(&case, ours, theirs);
        let on_theirs = self.world.opened(&case, theirs, ours);
        let errno = |opened: &Result<Opened, i32>| opened.as_ref().err().copied().unwrap_or(0);
        let (ours, theirs) = (errno(&on_ours), errno(&on_theirs));
        self.report.called(ours);
        let is_it = |it: &Difference| matches!(it, Difference::Open(_, applies) if applies(&case));
        if !self.is_right(ours, theirs, is_it) {
            let (ours, theirs) = (name(ours), name(theirs));
            self.report
                .wrong(format!("{ours}, in-tree {theirs}: {case}"));
        }
        let (Ok(on_ours), Ok(on_theirs)) = (on_ours, on_theirs) else {
            return Ok(());
        };
        if self.is_countable(&case) {
            let format = case.attr.get(attr::READ_FORMAT);
            let ours = self.count(&on_ours.event, format)?;
            let theirs = self.count(&on_theirs.event, format)?;
            self.report.counted += 1;
            let right = match self.pair.counts {
                Counts::Alike => (ours == 0) == (theirs == 0),
                Counts::Same => ours == theirs,
            };
            if !right {
                self.report
                    .wrong(format!("counted {ours}, in-tree {theirs}: {case}"));
            }
        }
        for (what, ioctl) in IOCTLS {
            if *what == "REFRESH" && case.attr.has(attr::SIGTRAP) {
                // It starts the event, whose samples would kill this process.
                continue;
            }
            let [ours, theirs] = [&on_ours, &on_theirs].map(|opened| ioctl(&opened.event));
            let is_it = |it: &Difference| matches!(it, Difference::Ioctl(name) if name == what);
            if !self.is_right(ours, theirs, is_it) {
                let (ours, theirs) = (name(ours), name(theirs));
                self.report
                    .wrong(format!("{what}: {ours}, in-tree {theirs}: {case}"));
            }
        }
        Ok(())
    }

    /// Whether the event can be tried on this thread.
    fn is_countable(&self, case: &Case) -> bool {
        self.pair.counted.contains(&case.config())
            && case.whose == Whose::Caller
            && case.cpu == -1
            && case.group == Group::Alone
            && case.paranoid.is_none()
            && case.attr.has(attr::DISABLED)
            && !case.attr.has(attr::SIGTRAP)
    }

    /// Counts the load.
    fn count(&self, event: &OwnedFd, read_format: u64) -> Result<u64> {
        // SAFETY: the event is open, and the argument is a number.
        let status = unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) };
        ensure!(status == 0, "enable: {}", Errno::last());
        (self.pair.load)();
        // SAFETY: as above.
        let status = unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) };
        ensure!(status == 0, "disable: {}", Errno::last());
        case::read(event, read_format)
    }

    /// Returns an error if there were unexpected results.
    pub fn finish(self) -> Result<()> {
        self.report.finish()
    }

    /// Returns an error if there were unexpected results, or if one of the differences was not seen.
    pub fn finish_with_all_differences(self) -> Result<()> {
        let all = self.pair.differences.iter().zip(&self.seen);
        let stale: Vec<_> = all
            .filter(|(_, seen)| !**seen)
            .map(|(it, _)| it.name())
            .collect();
        self.report.finish()?;
        ensure!(stale.is_empty(), "no longer different: {stale:?}");
        Ok(())
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

/// Calls with the ioctls of an event. The last ones leave it disabled, with a count of 0.
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
        // It lets all hits pass.
        let filter = c"common_pid != 0";
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

pub fn set_period(event: &impl AsRawFd, period: u64) -> i32 {
    // The kernel takes a pointer, although the binding's type is u64.
    let pointer = std::ptr::from_ref(&period) as u64;
    // SAFETY: the event is open. `period` outlives the call, and the kernel only reads it.
    errno(unsafe { ioctls::PERIOD(event.as_raw_fd(), pointer) })
}
