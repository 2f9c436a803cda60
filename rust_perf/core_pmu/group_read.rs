// SPDX-License-Identifier: GPL-2.0

//! Reads of metrics and their slots.
//!
//! perf reads the events of a group one after the other, the leader first. Within such a
//! transaction the first read settles all of them. So the counts of a group are from one time,
//! and the registers are accessed once, however many metrics there are.
//!
//! An NMI that arrives meanwhile reads for itself: its handler begins outside the transaction.
//! Nothing here allocates, locks, sleeps, prints or panics.

use super::{
    topdown::Registers,
    CorePmu, //
};
use crate::{
    perf::OnCpu,
    pmc::counter::Counter, //
};
use core::sync::atomic::{
    AtomicU8,
    Ordering::Relaxed, //
};

/// How far perf's read of a group has come on a CPU.
#[derive(Default)]
pub(super) struct GroupRead(AtomicU8);

/// What an NMI has interrupted, see [`GroupRead::interrupt`].
#[must_use]
pub(super) struct Interrupted(u8);

/// perf reads no group.
const NONE: u8 = 0;
/// perf reads a group.
const BEGUN: u8 = 1;
/// The group's metrics and slots have been settled.
const SETTLED: u8 = 2;

impl GroupRead {
    /// perf begins to read a group.
    pub(super) fn begin(&self) {
        self.0.store(BEGUN, Relaxed);
    }

    /// perf reads no group any more.
    pub(super) fn end(&self) {
        self.0.store(NONE, Relaxed);
    }

    /// An NMI begins, whose handler reads for itself. The result is for [`Self::resume`].
    pub(super) fn interrupt(&self) -> Interrupted {
        let state = self.0.load(Relaxed);
        self.end();
        Interrupted(state)
    }

    /// The NMI ends.
    pub(super) fn resume(&self, interrupted: Interrupted) {
        self.0.store(interrupted.0, Relaxed);
    }

    /// Whether metrics have been settled in this read. If perf reads a group, they are from now
    /// on.
    fn has_settled(&self) -> bool {
        match self.0.load(Relaxed) {
            BEGUN => {
                self.0.store(SETTLED, Relaxed);
                false
            }
            state => state == SETTLED,
        }
    }
}

impl CorePmu {
    /// Updates the counts of this CPU's metrics and of their slots.
    #[inline(never)]
    pub(super) fn read_topdown(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        if cpu.group_read.has_settled() {
            return;
        }
        let Some(leader) = self.leader(&on) else {
            return;
        };
        // Outside a transaction perf may read one event after the other, too. What the first one
        // has settled is right for the others if the counter has not moved since, as in user mode
        // alone.
        let settled = leader.prev_count().get() as i64;
        let slots = self.counters(cpu).read(Counter::SLOTS);
        if leader.is_up_to_date() || self.extended(slots) == settled {
            return;
        }
        self.while_stopped(cpu, || self.settle(on, Registers::Clear));
    }
}
