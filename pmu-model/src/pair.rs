// SPDX-License-Identifier: GPL-2.0

//! AMD's counters that are merged, for events that occur more than 15 times in a cycle.
//!
//! Sources: PPR family 17H, "Large Increment per Cycle Events"; Linux commits 5738891229a2
//! ("perf/x86/amd: Add support for Large Increment per Cycle Events") and 26e52558ead4
//! ("perf/x86/amd: Fix sampling Large Increment per Cycle events"), which quote it.
//!
//! An even counter and the next one are merged if the second one selects the merge event, has
//! EN set, and is enabled in GLOBAL_CTRL. Then the first one, whatever its event is, adds more
//! than 15 in a cycle, and the low 16 bits of the second one are its bits 63:48. It overflows,
//! in its own status bit, when all 64 bits do. Reading it returns 64 bits as long as the second
//! one selects the merge event and has EN set. A write sets 48 bits.

use crate::{event::Event, msr::EventSel, shape::MAX_GENERAL};

/// The merge event.
const MERGE: u16 = 0xfff;
/// An EVENTSEL with the merge event that merges the counter with the one before.
pub(crate) const MERGE_EVENTSEL: u64 = EventSel::EN | EventSel::EVENT_HIGH | EventSel::EVENT;
/// Retired floating-point operations.
const FLOPS: u16 = 0x003;

/// The FLOPs of an instruction for each bit in the unit mask.
const FLOPS_PER_BIT: u8 = 7;
/// The most that a counter adds in a cycle if it is not merged.
const MAX_INCREMENT: u8 = 15;

/// The number of bits of the first counter.
const LOW_BITS: u32 = 48;
const LOW: u64 = (1 << LOW_BITS) - 1;
/// The bits of the second counter that belong to the pair.
const HIGH: u64 = 0xffff;

/// Whether a counter makes a pair with the one before.
pub(crate) fn is_merge(eventsel: EventSel) -> bool {
    eventsel.amd_event() == MERGE && eventsel.has(EventSel::EN)
}

/// Whether an event select selects FLOPs.
pub(crate) fn is_flops(eventsel: EventSel) -> bool {
    eventsel.amd_event() == FLOPS
}

/// The FLOPs of a unit mask, as a counter adds them.
pub(crate) fn flops(eventsel: EventSel, merged: bool) -> Event {
    let n = FLOPS_PER_BIT * eventsel.umask().count_ones() as u8;
    Event::Flops(if merged { n } else { n.min(MAX_INCREMENT) })
}

/// The value of a pair.
pub(crate) fn value(counters: &[u64; MAX_GENERAL], first: usize) -> u64 {
    counters[first] | ((counters[first + 1] & HIGH) << LOW_BITS)
}

/// The distance of a pair from its overflow, `u64::MAX` if it is more than that.
pub(crate) fn until_overflow(counters: &[u64; MAX_GENERAL], first: usize) -> u64 {
    (u64::MAX - value(counters, first)).saturating_add(1)
}

/// Adds to a pair. Returns whether it has overflowed.
pub(crate) fn add(counters: &mut [u64; MAX_GENERAL], first: usize, gain: u128) -> bool {
    let sum = u128::from(value(counters, first)) + gain;
    let second = &mut counters[first + 1];
    *second = (*second & !HIGH) | ((sum as u64) >> LOW_BITS);
    counters[first] = sum as u64 & LOW;
    sum > u64::MAX.into()
}
