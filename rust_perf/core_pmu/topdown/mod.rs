// SPDX-License-Identifier: GPL-2.0

//! Top-down analysis: metrics, and the slots that they are fractions of.
//!
//! Fixed counter 3 counts slots, and PERF_METRICS has the part of them that was used in
//! each way, in 255ths. So the events of metrics need the event of slots as their leader.
//! All of them are *settled* together: both registers are read while they are stopped,
//! and what has been counted since they were settled last is added to the events.
//! Slots without metrics are an ordinary event.
//!
//! The part of a long time, in eight bits, says little about what was added to it last. So
//! both registers begin at 0 again whenever the events are settled.
//!
//! If the leader is mapped for RDPMC, they do so only when the events are read. A context
//! switch saves and restores them, so that user mode can subtract what it has read before.
//! Each time, a metric may lose up to a 255th of the slots that are saved.
//!
//! If the leader asks for `metrics_clear`, RDPMC of PERF_METRICS clears both registers, so that
//! user mode need not subtract. What it has read then is not counted here.
//!
//! | file | concern |
//! |---|---|
//! | `attr.rs` | what such an event asks for |
//! | `event.rs` | their start and stop |
//! | `settle.rs` | adding what the registers have counted |
//! | `group_read.rs` | reads of a whole group |
//!
//! # An event's words
//!
//! [`Event::scratch`](crate::perf::Event::scratch) is, for the leader, the number of times that it
//! has been settled, which is not 0 if it has metrics, and the saved PERF_METRICS. The saved slots
//! are in `prev_count`. A metric's first word is the leader's number when both were settled
//! together; if it is another, the metric missed something, and begins anew. Its
//! `prev_count` is the part of the saved slots that it has counted already.
//!
//! # NMIs
//!
//! Settling takes several steps, so an NMI that arrives meanwhile does not settle: the
//! counters are stopped, and some counts of the group in its samples may be from before.
//! Nothing here allocates, locks, sleeps, prints or panics, except for `attr.rs`, which runs when an
//! event is opened.

mod attr;
mod event;
mod group_read;
mod settle;

pub(super) use self::settle::AfterSettling;

use self::group_read::{
    GroupRead,
    Interrupted, //
};
use crate::system::local::LocalFlag;

/// The state of a CPU's metrics and of their slots.
///
/// Used on that CPU only, with interrupts disabled or in an NMI. NMIs leave it as it is.
#[derive(Default)]
pub(super) struct TopDown {
    /// Whether fixed counter 3 counts slots for metrics, from the start of that event until it
    /// leaves the CPU.
    leads: LocalFlag,
    /// Whether metrics are being settled.
    settling: LocalFlag,
    group_read: GroupRead,
}

impl TopDown {
    /// Whether fixed counter 3 counts slots for metrics.
    #[inline(always)]
    pub(super) fn leads(&self) -> bool {
        self.leads.get()
    }

    /// Fixed counter 3 counts slots for metrics from now on.
    fn begin_leading(&self) {
        self.leads.set(true);
    }

    /// The event on fixed counter 3 has no metrics, or leaves the CPU.
    pub(super) fn end_leading(&self) {
        self.leads.set(false);
    }

    /// perf begins to read a group.
    pub(super) fn begin_group_read(&self) {
        self.group_read.begin();
    }

    /// perf reads no group any more.
    pub(super) fn end_group_read(&self) {
        self.group_read.end();
    }

    /// An NMI begins, whose handler reads for itself. The result is for [`Self::resume_read`].
    #[inline(always)]
    pub(super) fn interrupt_read(&self) -> Interrupted {
        self.group_read.interrupt()
    }

    /// The NMI ends.
    #[inline(always)]
    pub(super) fn resume_read(&self, interrupted: Interrupted) {
        self.group_read.resume(interrupted);
    }
}
