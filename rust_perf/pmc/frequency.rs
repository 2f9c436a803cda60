// SPDX-License-Identifier: GPL-2.0

//! The first period of an event that is sampled at a frequency.
//!
//! perf works out the right period from the time between samples, so it needs a sample first. A first
//! period that is too long for the event delays all of them: a short program may get none. One that is
//! too short costs a few samples more. So the periods are those of the in-tree driver
//! (`intel_pmu_freq_start_period()` in `arch/x86/events/intel/core.c`).

use super::{
    capabilities::Capabilities,
    event::EventSel,
    named::EventName, //
};

/// How many events a second are assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// Cycles and instructions: 1 GHz, one instruction a cycle, and half of the time idle.
    const CYCLE: Self = Rate(500_000_000);
    /// Branches: a quarter of that.
    const BRANCH: Self = Rate(125_000_000);
    /// Events of caches: a twentieth.
    pub const CACHE: Self = Rate(25_000_000);
    /// An event that nothing is known of: 64 for each sample at perf's default of 4,000 Hz.
    pub const UNKNOWN: Self = Rate(64 * 4_000);

    /// That of the event with this name.
    pub const fn of(name: EventName) -> Self {
        match name {
            EventName::CpuCycles
            | EventName::Instructions
            | EventName::BusCycles
            | EventName::StalledCyclesFrontend
            | EventName::StalledCyclesBackend
            | EventName::RefCycles => Self::CYCLE,
            EventName::BranchInstructions | EventName::BranchMisses => Self::BRANCH,
            EventName::CacheReferences | EventName::CacheMisses => Self::CACHE,
            EventName::Slots => Self::UNKNOWN,
        }
    }

    /// The period that gives `frequency` samples a second, less one so that it is no round number.
    const fn period(self, frequency: u64) -> u64 {
        let Rate(events) = self;
        match events.checked_div(frequency) {
            // The remainder is not 0.
            Some(period) if period.wrapping_mul(frequency) != events => period,
            Some(period) => period.saturating_sub(1),
            None => 0,
        }
    }
}

impl Capabilities {
    /// How often the generic hardware event `PERF_COUNT_HW_*` with this number is assumed to occur.
    pub fn hardware_rate(&self, id: u64) -> Rate {
        let mut events = self.known_events();
        let event = events.find(|event| event.name as u64 == id);
        event.map_or(Rate::UNKNOWN, |event| Rate::of(event.name))
    }

    /// The first period, at least 1, of `event`, of which `rate` is assumed, if it is sampled at
    /// `frequency`.
    ///
    /// The in-tree drivers of AMD, Zhaoxin and version 1 of Intel begin at 1, which is what perf core
    /// has set.
    pub fn first_period(&self, event: EventSel, rate: Rate, frequency: u64) -> u64 {
        if !self.assumes_rates() {
            return 1;
        }
        self.limit_period(event, rate.period(frequency).max(1))
    }

    /// Whether the first period depends on the event's rate.
    fn assumes_rates(&self) -> bool {
        self.events.assumes_rates && self.has_global_control()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_those_of_the_in_tree_driver() {
        // DIV_ROUND_UP_ULL(factor, frequency) - 1.
        for rate in [Rate::CYCLE, Rate::BRANCH, Rate::CACHE, Rate::UNKNOWN] {
            for frequency in [1, 2, 3, 7, 99, 1_000, 3_999, 4_000, 4_001, 25_000, 100_000] {
                assert_eq!(
                    rate.period(frequency),
                    rate.0.div_ceil(frequency) - 1,
                    "{rate:?} at {frequency} Hz"
                );
            }
        }
        let at_default = |rate: Rate| rate.period(4_000);
        assert_eq!(at_default(Rate::CYCLE), 124_999);
        assert_eq!(at_default(Rate::BRANCH), 31_249);
        assert_eq!(at_default(Rate::CACHE), 6_249);
        assert_eq!(at_default(Rate::UNKNOWN), 63);
        assert_eq!(Rate::UNKNOWN.period(1_000_000), 0);
    }
}
