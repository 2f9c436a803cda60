// SPDX-License-Identifier: GPL-2.0

//! Which counters of a CPU are dirty: a dirty counter holds the count of an event that has left it, or
//! what somebody else has left.
//!
//! All are dirty when the driver takes them over. The in-tree driver clears its counters before a task
//! may use RDPMC, but not PERF_METRICS.
//!
//! An event that runs on from there may be on a dirty counter. [`user_read`](super::user_read) says
//! when dirty counters are cleared.

use crate::{
    pmc::counter::{
        Counter,
        CounterSet, //
    },
    system::local::LocalWord, //
};

/// The dirty counters of a CPU, a [`CounterSet`]. PERF_METRICS counts as one.
///
/// Used on that CPU only, with interrupts disabled or in an NMI. An NMI removes the counters whose
/// events it starts.
#[derive(Default)]
pub(super) struct DirtyCounters(LocalWord);

impl DirtyCounters {
    /// The dirty counters.
    pub(super) fn get(&self) -> CounterSet {
        CounterSet::from_bits(self.0.get())
    }

    /// Whether no counter is dirty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }

    /// Whether `counter` is dirty.
    pub(super) fn contains(&self, counter: Counter) -> bool {
        self.0.get() & CounterSet::of(counter).bits() != 0
    }

    /// An event has left `counters`, in which it has counted, or somebody else has.
    pub(super) fn add(&self, counters: CounterSet) {
        self.0.or(counters.bits());
    }

    /// `counters` hold nothing but what their present events count.
    pub(super) fn remove(&self, counters: CounterSet) {
        self.0.and(!counters.bits());
    }

    /// All counters have been cleared, or are no longer this driver's.
    pub(super) fn remove_all(&self) {
        self.0.set(0);
    }
}
