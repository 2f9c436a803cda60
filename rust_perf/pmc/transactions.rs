// SPDX-License-Identifier: GPL-2.0

//! Intel's transactional memory (TSX): what is counted in transactions, and of them.
//!
//! IN_TX in EVENTSEL counts in transactions only. IN_TXCP does not count what a transaction did
//! that has aborted: the counter goes back to its checkpoint, also if it had overflowed (SDM
//! vol. 3, "Performance Monitoring and Intel TSX").

use super::{
    capabilities::Capabilities,
    counter::CounterSet,
    event::EventSel, //
};
use core::ffi::CStr;

/// Files of `events/`: name and contents.
pub(super) type Files = &'static [(&'static CStr, &'static str)];

/// Both bits of EVENTSEL, which are the fields of `attr.config` as well.
pub(super) const FIELDS: u64 = EventSel::IN_TX.mask() | EventSel::IN_TXCP.mask();

/// The only counter that has checkpoints. In-tree: `hsw_get_event_constraints()`.
const WITH_CHECKPOINTS: CounterSet = CounterSet::gp(1 << 2);

/// The shortest period of samples of an event with checkpoints. An overflow aborts the
/// transaction, which sets the counter back to before the overflow. In-tree: `hsw_hw_config()`.
const SHORTEST_PERIOD: u64 = 0x7fff_ffff;

impl Capabilities {
    fn has_transactions(&self) -> bool {
        // AMD's events have these bits, too.
        self.format & FIELDS == FIELDS && !self.events.transactions.is_empty()
    }

    /// The files of the events of transactions.
    pub fn transaction_files(&self) -> Files {
        match self.has_transactions() {
            true => self.events.transactions,
            false => &[],
        }
    }

    /// Those of `counters` that can count an event in transactions as it asks for.
    pub(super) fn in_transactions(&self, counters: CounterSet, event: EventSel) -> CounterSet {
        if self.has_transactions() && event.has(EventSel::IN_TXCP) {
            counters & WITH_CHECKPOINTS
        } else {
            counters
        }
    }

    /// Whether an event with this `attr.sample_period` or `attr.sample_freq` can be counted in
    /// transactions as it asks for.
    pub fn is_transaction_allowed(&self, event: EventSel, period_or_frequency: u64) -> bool {
        if !self.has_transactions() || event.into_raw() & FIELDS == 0 {
            return true;
        }
        let may_overflow = (1..SHORTEST_PERIOD).contains(&period_or_frequency);
        let may_abort_for_ever = event.has(EventSel::IN_TXCP) && may_overflow;
        !may_abort_for_ever && !event.has(EventSel::ANY)
    }
}
