// SPDX-License-Identifier: GPL-2.0

//! How much may retire, and how much time may pass, until a counter can overflow.

use super::{active::Active, Pmu};
use crate::{event::Mode, pair, shape::Counter};

impl Pmu {
    /// The part of a [`Pmu::budget`] that sets no limit: more instructions than can ever
    /// retire.
    pub const UNLIMITED: u64 = u64::MAX / 4;

    /// The number of instructions of each mode that may retire before the next call of
    /// [`Pmu::retire`], if the processor is in `mode`.
    ///
    /// The budget is valid for any mixture of instructions, whether or not they are
    /// branches:
    ///
    /// - While instructions of both modes are left in the budget, no counter has
    ///   overflowed and no PMI has become pending.
    /// - The instruction that uses up the budget of its mode may be the one that
    ///   overflows a counter. Call [`Pmu::retire`] right after it, and ask for a new
    ///   budget.
    /// - The budget of `mode` is at least 1. That of the other mode may be 0; then call
    ///   [`Pmu::retire`] and ask for a new budget on the switch to that mode.
    /// - [`Pmu::UNLIMITED`] sets no limit.
    pub fn budget(&self, mode: Mode) -> [u64; 2] {
        let (current, other) = (mode as usize, mode.other() as usize);
        let mut budget = [Pmu::UNLIMITED; 2];
        // Instructions bring no counter of time nearer to its overflow.
        for active in self.active.iter().filter(|it| !it.event.is_tsc()) {
            let mut until_overflow = self.until_overflow(active);
            if active.modes[other] {
                let n = if active.modes[current] {
                    // Leave the other mode a quarter of what is left until the overflow.
                    let n = active
                        .event
                        .min_instructions(self.state.totals[other], until_overflow / 4 + 1)
                        - 1;
                    until_overflow -= active.event.max_gain(self.state.totals[other], n) as u64;
                    n
                } else {
                    active
                        .event
                        .min_instructions(self.state.totals[other], until_overflow)
                };
                budget[other] = budget[other].min(n);
            }
            if active.modes[current] {
                let n = active
                    .event
                    .min_instructions(self.state.totals[current], until_overflow);
                budget[current] = budget[current].min(n);
            }
        }
        let until_pmi = self.state.pmi.until_next(!self.active.is_empty());
        if let Some(until) = until_pmi.into_iter().chain(self.until_change()).min() {
            budget[other] = budget[other].min(until / 4);
            budget[current] = budget[current].min(until - until / 4);
        }
        budget
    }

    /// How many cycles of the time-stamp counter may pass in each [`Mode`] until a counter that
    /// counts them in this mode overflows. `None` if there is no such counter.
    ///
    /// A counter that counts in both modes overflows after so many in both together.
    pub fn tsc_until_overflow(&self) -> [Option<u64>; 2] {
        Mode::ALL.map(|mode| {
            let timed = self.active.iter().filter(|it| it.event.is_tsc());
            timed
                .filter(|it| it.modes[mode as usize])
                .map(|it| self.until_overflow(it))
                .min()
        })
    }

    /// What a counter must gain to overflow, or a smaller number.
    fn until_overflow(&self, active: &Active) -> u64 {
        let range = self.shape.counter_mask() + 1;
        match active.counter {
            Counter::General(i) if active.merged => {
                // A pair that is further away needs no larger budget.
                pair::until_overflow(&self.state.general, i).min(range)
            }
            Counter::General(i) => range - self.state.general[i],
            Counter::Fixed(i) => range - self.state.fixed[i],
        }
    }
}
