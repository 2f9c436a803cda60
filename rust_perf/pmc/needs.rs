// SPDX-License-Identifier: GPL-2.0

//! What an event needs of the counters.

use super::counter::CounterSet;

/// What an event needs of the counters, in one word.
#[derive(Clone, Copy)]
pub struct Needs(u64);

impl Needs {
    /// No counter has these bits.
    const PAIR: u64 = 1 << 63;
    const EXCLUSIVE: u64 = 1 << 62;

    /// The needs of an event that any one of `counters` can count.
    pub const fn one_of(counters: CounterSet) -> Self {
        Needs(counters.bits())
    }

    /// These needs, and whether the event takes a pair of counters. If it does, [`Self::counters`] are
    /// the first counters of pairs that can count it.
    #[must_use]
    pub const fn with_pair(self, pair: bool) -> Self {
        self.with_flag(Self::PAIR, pair)
    }

    /// These needs, and whether the event is exclusive: it may make the counters of the same number of
    /// the core's other threads count wrongly.
    #[must_use]
    pub const fn with_exclusive(self, exclusive: bool) -> Self {
        self.with_flag(Self::EXCLUSIVE, exclusive)
    }

    const fn with_flag(self, flag: u64, value: bool) -> Self {
        if value {
            Needs(self.0 | flag)
        } else {
            Needs(self.0 & !flag)
        }
    }

    /// The word, for [`Self::from_word`].
    pub const fn into_word(self) -> u64 {
        self.0
    }

    /// The reverse of [`Self::into_word`].
    pub const fn from_word(word: u64) -> Self {
        Needs(word)
    }

    /// The counters that can count the event. If it takes a pair, the first ones of pairs.
    pub const fn counters(self) -> CounterSet {
        CounterSet::from_bits(self.0)
    }

    /// Whether the event takes a pair of counters: the one that it is on, and the next.
    pub const fn pair(self) -> bool {
        self.0 & Self::PAIR != 0
    }

    /// Whether the event is exclusive, see [`Self::with_exclusive`].
    pub const fn exclusive(self) -> bool {
        self.0 & Self::EXCLUSIVE != 0
    }
}
