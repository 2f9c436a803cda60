// SPDX-License-Identifier: GPL-2.0

//! The shadow of the registers of one CPU.

use super::{
    counter::{
        Counter,
        CounterSet,
        MAX_COUNTERS, //
    },
    extra::EXTRA_REGISTERS, //
};
use crate::system::local::LocalWord;

/// The shadow of a register whose value is not known. No register can have this
/// value: GLOBAL_CTRL, EVENTSEL and FIXED_CTR_CTRL have reserved bits.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// What the registers of one CPU's counters hold.
///
/// # Invariants
///
/// While the driver owns the counters:
///
/// - `running` is the set of counters that may count, or [`UNKNOWN`].
/// - `eventsel` and `fixed_ctr_ctrl` are the values of those registers, or
///   [`UNKNOWN`]. Without global control, and if `running` is known, EN is set for
///   exactly the counters in `running`; the EVENTSEL of another counter may still
///   have the event before, without EN. For a fixed counter, `eventsel` is an event, with EN, for
///   which FIXED_CTR_CTRL is programmed, or [`UNKNOWN`].
/// - For each counter in `known`, `value` is the counter's value, provided that the
///   counter is not running.
/// - For each extra register whose bit is set in `known_extra`, `extra` is its value,
///   unless the threads of a core share it.
pub struct Shadow {
    pub(super) running: LocalWord,
    pub(super) eventsel: [LocalWord; MAX_COUNTERS],
    pub(super) fixed_ctr_ctrl: LocalWord,
    /// The second counters of pairs, those that have the merge event. No event is on these.
    pub(super) merged: LocalWord,
    /// Whether GP counters must be cleared before they are run, see
    /// [`Counters::is_uncleared`](super::Counters::is_uncleared).
    pub(super) uncleared: LocalWord,
    pub(super) known: LocalWord,
    pub(super) value: [LocalWord; MAX_COUNTERS],
    pub(super) known_extra: LocalWord,
    pub(super) extra: [LocalWord; EXTRA_REGISTERS],
    /// Whether PERF_METRICS has been written since the counters were taken over.
    pub(super) metrics_used: LocalWord,
    /// GLOBAL_CTRL as it was when the counters were taken over.
    pub(super) saved_global_ctrl: LocalWord,
}

impl Default for Shadow {
    fn default() -> Self {
        Shadow {
            running: LocalWord::new(0),
            eventsel: [const { LocalWord::new(UNKNOWN) }; MAX_COUNTERS],
            fixed_ctr_ctrl: LocalWord::new(UNKNOWN),
            merged: LocalWord::new(0),
            uncleared: LocalWord::new(0),
            known: LocalWord::new(0),
            value: [const { LocalWord::new(0) }; MAX_COUNTERS],
            known_extra: LocalWord::new(0),
            extra: [const { LocalWord::new(0) }; EXTRA_REGISTERS],
            metrics_used: LocalWord::new(0),
            saved_global_ctrl: LocalWord::new(0),
        }
    }
}

impl Shadow {
    /// Whether all counters are known to be stopped.
    pub fn is_stopped(&self) -> bool {
        self.running.get() == 0
    }

    /// Whether exactly these counters are known to run. It is also `false` where a pair runs, or a metric
    /// other than the first: `running` then has other bits than the set.
    #[inline]
    pub fn runs_just(&self, counters: CounterSet) -> bool {
        self.running.get() == counters.bits()
    }

    pub(super) fn running(&self) -> CounterSet {
        CounterSet::from_bits(self.running.get())
    }

    pub(super) fn knows(&self, counter: Counter) -> bool {
        self.known.get() & CounterSet::of(counter).bits() != 0
    }

    /// The value of a counter's EVENTSEL, or what stands for it, if that is known.
    pub(super) fn eventsel(&self, counter: Counter) -> Option<u64> {
        let word = self.eventsel.get(counter.index())?;
        Some(word.get()).filter(|&value| value != UNKNOWN)
    }

    /// Whether this is known to be the value of a counter's EVENTSEL, or what stands for it. No EVENTSEL
    /// has the value [`UNKNOWN`].
    pub(super) fn selects(&self, counter: Counter, value: u64) -> bool {
        let word = self.eventsel.get(counter.index());
        word.is_some_and(|word| word.get() == value)
    }

    pub(super) fn select(&self, counter: Counter, value: u64) {
        if let Some(word) = self.eventsel.get(counter.index()) {
            word.set(value);
        }
    }

    pub(super) fn fixed_ctr_ctrl(&self) -> Option<u64> {
        Some(self.fixed_ctr_ctrl.get()).filter(|&value| value != UNKNOWN)
    }

    pub(super) fn learn(&self, counter: Counter, value: u64) {
        if let Some(word) = self.value.get(counter.index()) {
            word.set(value);
            self.known.or(CounterSet::of(counter).bits());
        }
    }
}
