// SPDX-License-Identifier: GPL-2.0

//! Counters and sets of counters.
//!
//! Both use the layout of Intel's IA32_PERF_GLOBAL_CTRL (SDM vol. 3,
//! "Architectural Performance Monitoring Version 2"): GP counter *i* is bit *i*,
//! fixed counter *i* is bit 32 + *i*. Metric *i* is bit 48 + *i*, where the registers have
//! only bit 48 for all of them.

use core::ops::{
    BitAnd,
    BitOr,
    Not, //
};

/// The first bit of the fixed counters.
const FIXED_BASE: u8 = 32;

/// The first bit of the metrics.
const METRICS_BASE: u8 = 48;

/// One more than the highest index of a counter.
pub const MAX_COUNTERS: usize = 56;

/// Identifies a counter.
///
/// # Invariants
///
/// The index is less than [`MAX_COUNTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(u8);

impl Counter {
    /// Fixed counter 3, which counts slots.
    pub const SLOTS: Self = Counter(FIXED_BASE + 3);

    /// PERF_METRICS as a whole. It shares its index with the first metric.
    pub const PERF_METRICS: Self = Counter(METRICS_BASE);

    /// GP counter `i`, or `None` if `i` is not less than 32.
    pub const fn gp(i: u8) -> Option<Self> {
        if i < FIXED_BASE {
            // INVARIANT: Less than `FIXED_BASE`, which is less than `MAX_COUNTERS`.
            Some(Counter(i))
        } else {
            None
        }
    }

    /// Fixed counter `i`, or `None` if `i` is not less than 16.
    pub const fn fixed(i: u8) -> Option<Self> {
        if i < METRICS_BASE - FIXED_BASE {
            // INVARIANT: Less than `METRICS_BASE`, which is less than `MAX_COUNTERS`.
            Some(Counter(FIXED_BASE + i))
        } else {
            None
        }
    }

    /// The counter of metric `i`, a field of PERF_METRICS, or `None` if `i` is not less than 8.
    pub const fn metric(i: u8) -> Option<Self> {
        if (i as usize) < MAX_COUNTERS - METRICS_BASE as usize {
            // INVARIANT: Just checked.
            Some(Counter(METRICS_BASE + i))
        } else {
            None
        }
    }

    /// The counter of bit `index` of a [`CounterSet`], or `None` if there is none.
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < MAX_COUNTERS {
            // INVARIANT: Just checked.
            Some(Counter(index as u8))
        } else {
            None
        }
    }

    /// The bit of this counter in a [`CounterSet`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this is a GP counter.
    pub const fn is_gp(self) -> bool {
        self.0 < FIXED_BASE
    }

    /// The number of this counter among the fixed counters, if it is one.
    pub const fn as_fixed(self) -> Option<u8> {
        if self.0 < METRICS_BASE {
            self.0.checked_sub(FIXED_BASE)
        } else {
            None
        }
    }

    /// The number of this counter among the metrics, if it is one.
    pub const fn as_metric(self) -> Option<u8> {
        self.0.checked_sub(METRICS_BASE)
    }

    /// The ECX with which RDPMC reads this counter (SDM vol. 2, RDPMC: bit 30
    /// selects the fixed counters, bit 29 PERF_METRICS).
    pub const fn rdpmc(self) -> u32 {
        match self.0 {
            gp @ ..FIXED_BASE => gp as u32,
            fixed @ FIXED_BASE..METRICS_BASE => (1 << 30) | (fixed - FIXED_BASE) as u32,
            METRICS_BASE.. => 1 << 29,
        }
    }
}

/// A set of counters.
///
/// # Invariants
///
/// Only bits of valid [`Counter`]s are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterSet(u64);

impl CounterSet {
    /// No counter.
    pub const EMPTY: Self = CounterSet(0);

    /// The counters whose events are metrics, or may have some.
    pub const TOPDOWN: Self =
        CounterSet(Self::of(Counter::SLOTS).0 | Self::first_metrics(u8::MAX).0);

    /// The set of these bits. Bits of no counter are dropped.
    pub const fn from_bits(bits: u64) -> Self {
        // INVARIANT: Masked to the valid counters.
        CounterSet(bits & ((1 << MAX_COUNTERS) - 1))
    }

    /// Its counters whose bits are set.
    pub const fn with_bits(self, bits: u64) -> Self {
        // INVARIANT: A part of a set.
        CounterSet(self.0 & bits)
    }

    /// The first `n` GP counters, all 32 if `n` is more.
    pub const fn first_gp(n: u8) -> Self {
        Self::from_bits((1 << if n < FIXED_BASE { n } else { FIXED_BASE }) - 1)
    }

    /// The GP counters whose bits are set in `mask`.
    pub const fn gp(mask: u32) -> Self {
        Self::from_bits(mask as u64)
    }

    /// The fixed counters whose bits are set in `mask`.
    pub const fn fixed(mask: u32) -> Self {
        Self::from_bits((mask as u16 as u64) << FIXED_BASE)
    }

    /// The set of one counter.
    pub const fn of(counter: Counter) -> Self {
        // The shift is less than 64 by the invariant of `Counter`; `wrapping_shl()` spares the
        // check, which could panic.
        CounterSet(1u64.wrapping_shl(counter.0 as u32))
    }

    /// The bits, in the layout of GLOBAL_CTRL.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether no counter is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of counters in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether `counter` is in the set.
    pub const fn contains(self, counter: Counter) -> bool {
        self.0 & Self::of(counter).0 != 0
    }

    /// Its counters that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        CounterSet(self.0 & !other.0)
    }

    /// Its GP counters.
    pub const fn gp_part(self) -> Self {
        CounterSet(self.0 & ((1 << FIXED_BASE) - 1))
    }

    /// Its fixed counters.
    pub const fn fixed_part(self) -> Self {
        CounterSet(self.0 & ((1 << METRICS_BASE) - (1 << FIXED_BASE)))
    }

    /// Its metrics.
    pub const fn metrics_part(self) -> Self {
        CounterSet(self.0 & !((1 << METRICS_BASE) - 1))
    }

    /// The first `n` metrics, all 8 if `n` is more.
    pub const fn first_metrics(n: u8) -> Self {
        let n = if n < 8 { n } else { 8 };
        Self::from_bits(((1 << n) - 1) << METRICS_BASE)
    }

    /// The counters that follow those in the set: each index is one higher.
    pub const fn successors(self) -> Self {
        Self::from_bits(self.0 << 1)
    }

    /// The counters in the set whose successor is in the set, too.
    pub const fn with_successor(self) -> Self {
        CounterSet(self.0 & (self.0 >> 1))
    }

    /// The counter to put an event on: the lowest fixed counter, since it can count
    /// nothing else, otherwise the lowest GP counter.
    pub fn preferred(self) -> Option<Counter> {
        let fixed = self.fixed_part();
        if fixed.is_empty() { self } else { fixed }.lowest()
    }

    /// The counter of the lowest index, or `None` if the set is empty.
    fn lowest(self) -> Option<Counter> {
        // Trailing zeros of 0 are a case of their own on x86. With it out of the way, the compiler
        // also leaves out the check of `from_index()` where it sees that only valid bits are set.
        if self.is_empty() {
            None
        } else {
            Counter::from_index(self.0.trailing_zeros() as usize)
        }
    }
}

impl BitAnd for CounterSet {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        CounterSet(self.0 & other.0)
    }
}

impl BitOr for CounterSet {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        CounterSet(self.0 | other.0)
    }
}

impl Not for CounterSet {
    type Output = Self;
    fn not(self) -> Self {
        Self::from_bits(!self.0)
    }
}

impl FromIterator<Counter> for CounterSet {
    fn from_iter<I: IntoIterator<Item = Counter>>(counters: I) -> Self {
        counters
            .into_iter()
            .fold(Self::EMPTY, |set, counter| set | Self::of(counter))
    }
}

impl IntoIterator for CounterSet {
    type Item = Counter;
    type IntoIter = Iter;
    fn into_iter(self) -> Iter {
        Iter(self)
    }
}

/// The counters of a set, lowest first.
pub struct Iter(CounterSet);

impl Iterator for Iter {
    type Item = Counter;

    fn next(&mut self) -> Option<Counter> {
        let counter = self.0.lowest()?;
        self.0 = self.0.without(CounterSet::of(counter));
        Some(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_that_of_global_ctrl() {
        let set = CounterSet::first_gp(4) | CounterSet::fixed(0b101);
        assert_eq!(set.bits(), 0x5_0000_000f);
        let order: Vec<_> = set.into_iter().map(Counter::index).collect();
        assert_eq!(order, [0, 1, 2, 3, 32, 34]);
        assert_eq!(set.preferred(), Counter::fixed(0));
        assert_eq!(set.gp_part().preferred(), Counter::gp(0));
        assert_eq!(CounterSet::EMPTY.preferred(), None);
    }

    #[test]
    fn counters_out_of_range_do_not_exist() {
        assert_eq!(Counter::gp(32), None);
        assert_eq!(Counter::fixed(16), None);
        assert_eq!(Counter::metric(8), None);
        assert_eq!(Counter::from_index(MAX_COUNTERS), None);
        assert_eq!(
            CounterSet::from_bits(u64::MAX).into_iter().count(),
            MAX_COUNTERS
        );
        assert!((!CounterSet::from_bits(u64::MAX)).is_empty());
    }

    #[test]
    fn counters_have_successors() {
        let set = CounterSet::gp(0b101_1011);
        assert_eq!(set.successors(), CounterSet::gp(0b1011_0110));
        assert_eq!(set.with_successor(), CounterSet::gp(0b000_1001));
        let last = Counter::from_index(MAX_COUNTERS - 1).unwrap();
        assert!(CounterSet::of(last).successors().is_empty());
    }

    #[test]
    fn slots_and_metrics_are_topdown() {
        for counter in CounterSet::from_bits(u64::MAX) {
            let expected = counter == Counter::SLOTS || counter.as_metric().is_some();
            assert_eq!(CounterSet::TOPDOWN.contains(counter), expected);
        }
    }

    #[test]
    fn metrics_come_after_the_fixed_counters() {
        let metrics = CounterSet::first_metrics(4);
        assert_eq!(metrics.bits(), 0xf << 48);
        assert_eq!(CounterSet::first_metrics(9).bits(), 0xff << 48);
        let set = metrics | CounterSet::fixed(u32::MAX) | CounterSet::first_gp(2);
        assert_eq!(set.metrics_part(), metrics);
        assert_eq!(set.fixed_part().len(), 16);
        let metric = Counter::metric(3).unwrap();
        assert_eq!((metric.as_metric(), metric.as_fixed()), (Some(3), None));
        assert_eq!(Counter::SLOTS, Counter::fixed(3).unwrap());
        assert_eq!(Counter::SLOTS.as_metric(), None);
        assert_eq!(Counter::PERF_METRICS, Counter::metric(0).unwrap());
    }

    #[test]
    fn rdpmc_selects_fixed_counters_by_bit_30() {
        assert_eq!(Counter::gp(3).unwrap().rdpmc(), 3);
        assert_eq!(Counter::fixed(1).unwrap().rdpmc(), 0x4000_0001);
        assert_eq!(Counter::metric(5).unwrap().rdpmc(), 0x2000_0000);
    }
}
