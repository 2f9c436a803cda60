// SPDX-License-Identifier: GPL-2.0

//! Pairs of counters, for AMD's events that can occur more than 15 times in a cycle.
//!
//! One counter adds at most 15 in a cycle. A pair is an even counter and the next one, which
//! has the merge event. It adds more, and it counts as one counter of 64 bits: the second
//! counter holds the upper 16 bits in its low ones, and the first one overflows when all 64
//! bits do (PPR family 17H, "Large Increment per Cycle Events").
//!
//! The driver uses the lower 48 bits, as with any other counter, which is also what user mode
//! is told of (`cntval_bits` in `arch/x86/events/amd/core.c`). So the upper 16 bits are all
//! set when the pair starts: it overflows when the lower 48 bits do
//! (`x86_perf_event_set_period()`). Reading the first counter returns 64 bits, of which the
//! driver drops the upper ones.
//!
//! Both counters must be enabled, in EVENTSEL and in PerfCntrGlobalCtl. In-tree,
//! `amd_pmu_v2_enable_all()` enables all counters there are. Only the first one has a bit in
//! PerfCntrGlobalStatus and an event, and only its index for RDPMC is in the user page.

use super::{
    counter::{
        Counter,
        CounterSet, //
    },
    event::EventSel,
    registers::Registers,
    shadow::Shadow,
    Counters, //
};

/// What becomes of events that take a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairs {
    /// The CPU has no such event.
    NotNeeded,
    /// Counters can be merged.
    Possible,
    /// Counters cannot be merged, so that no counter can count such an event.
    Missing,
}

/// The merge event, PMCxFFF. It has no unit mask and no modes.
const MERGE: EventSel = EventSel::from_raw(0)
    .with(EventSel::EVENT_HIGH, 0xf)
    .with(EventSel::EVENT, 0xff);

/// The upper 16 bits of a pair, all of them set.
const UPPER: u64 = 0xffff;

impl<R: Registers> Counters<'_, R> {
    /// Programs the counter after `first`, neither of which may be counting, to make a pair of
    /// both. To be done before `first` is programmed: the PPR has the upper bits written first.
    #[inline(never)]
    pub(super) fn merge(self, first: Counter) {
        for second in CounterSet::of(first).successors() {
            self.write_value(second, UPPER);
            self.program_control(second, MERGE);
            // A pair that is active stays merged, so NMIs leave the word as it is.
            let merged = self.shadow.merged() | CounterSet::of(second);
            self.shadow.merged.set(merged.bits());
        }
    }

    /// The event on `counter` has left it. If that took a pair, the second counter loses the
    /// merge event: on any event, it would make the first counter overflow later.
    ///
    /// No counter may be running.
    pub fn unmerge(self, counter: Counter) {
        let merged = self.shadow.merged();
        for second in CounterSet::of(counter).successors() & merged {
            self.write_eventsel(second, 0);
            self.shadow
                .merged
                .set((merged & !CounterSet::of(second)).bits());
        }
    }
}

impl Shadow {
    /// Whether any counter has the merge event.
    pub fn has_merged(&self) -> bool {
        self.merged.get() != 0
    }

    /// The counters that have the merge event.
    pub(super) fn merged(&self) -> CounterSet {
        CounterSet::from_bits(self.merged.get())
    }

    /// `counters`, and for the first ones of pairs the second ones.
    pub fn with_merged(&self, counters: CounterSet) -> CounterSet {
        if self.has_merged() {
            self.with_seconds(counters)
        } else {
            counters
        }
    }

    /// [`Self::with_merged`] while there are pairs. They are rare.
    #[cold]
    fn with_seconds(&self, counters: CounterSet) -> CounterSet {
        counters | (counters.successors() & self.merged())
    }
}
