// SPDX-License-Identifier: GPL-2.0

//! Reads of metrics and their slots.
//!
//! perf reads the events of a group one after the other, the leader first. Within such a
//! transaction the first read settles all of them. So the counts of a group are from one time,
//! and the registers are accessed once, however many metrics there are.
//!
//! An NMI that arrives meanwhile reads for itself: its handler begins outside the transaction.
//! Nothing here allocates, locks, sleeps, prints or panics.

use crate::system::local::LocalWord;

/// How far perf's read of a group has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// perf reads no group.
    None,
    /// perf reads a group.
    Begun,
    /// perf reads a group, whose metrics and slots have been settled.
    Settled,
}

/// How far perf's read of a group has come on a CPU: a [`Progress`].
#[derive(Default)]
pub(super) struct GroupRead(LocalWord);

/// What an NMI has interrupted, see [`GroupRead::interrupt`]: the word of a [`GroupRead`].
#[must_use]
pub(in crate::core_pmu) struct Interrupted(u64);

impl GroupRead {
    fn get(&self) -> Progress {
        match self.0.get() {
            1 => Progress::Begun,
            2 => Progress::Settled,
            _ => Progress::None,
        }
    }

    fn set(&self, progress: Progress) {
        self.0.set(progress as u64);
    }

    /// perf begins to read a group.
    pub(super) fn begin(&self) {
        self.set(Progress::Begun);
    }

    /// perf reads no group any more.
    pub(super) fn end(&self) {
        self.set(Progress::None);
    }

    /// An NMI begins, whose handler reads for itself. The result is for [`Self::resume`].
    #[inline(always)]
    pub(super) fn interrupt(&self) -> Interrupted {
        let progress = self.0.get();
        self.end();
        Interrupted(progress)
    }

    /// The NMI ends.
    #[inline(always)]
    pub(super) fn resume(&self, interrupted: Interrupted) {
        self.0.set(interrupted.0);
    }

    /// Whether metrics have been settled in this read. If perf reads a group, they are from now
    /// on.
    pub(super) fn take_settled(&self) -> bool {
        let progress = self.get();
        if progress == Progress::Begun {
            self.set(Progress::Settled);
        }
        progress == Progress::Settled
    }
}
