// SPDX-License-Identifier: GPL-2.0

//! The arithmetic of sample periods on counters that count up and wrap.
//!
//! A counter raises its PMI when it wraps to 0, so the driver starts it at minus
//! the number of events until then. perf keeps the number of events until the
//! next sample in `period_left`. That can be more than a counter can hold, and
//! it is 0 or less once a sample is due.

use super::{
    capabilities::Capabilities,
    event::EventSel, //
};

/// Whether an event that only counts can run on from a counter that is `until_wrap` events before the
/// wrap. It can if that is at most `max`, as after any start, and more than half of `max`.
///
/// A counter that is further away looks as if it had wrapped. One that is nearer would soon wrap.
const fn is_far(until_wrap: u64, max: u64) -> bool {
    max / 2 < until_wrap && until_wrap <= max
}

/// How to restart a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rearm {
    /// The new `period_left`, which is positive.
    pub period_left: i64,
    /// The number of events until the counter wraps, at least 1.
    pub until_wrap: u64,
    /// Whether a period has ended, so that a sample is due.
    pub period_ended: bool,
}

/// Works out how to restart a counter.
///
/// `left` is what was left of the `period`. `max` is the largest number of events
/// before the wrap at which the counter can be started. Events counted past the
/// end of a period belong to the next one, so that the average stays exact. If
/// they would fill the next period, they are dropped.
pub const fn rearm(left: i64, period: u64, max: u64) -> Rearm {
    let period_ended = left <= 0;
    let left = match period_ended {
        true => next_left(left, period),
        false => left,
    };
    let until_wrap = if (left as u64) < max {
        left as u64
    } else {
        max
    };
    Rearm {
        period_left: left,
        until_wrap,
        period_ended,
    }
}

/// What is left of the next period, if the last one has ended `-left` events ago.
const fn next_left(left: i64, period: u64) -> i64 {
    // perf refuses periods with bit 63 set. A period of 0 would never advance.
    let period = match period {
        0 => 1,
        p if p > i64::MAX as u64 => i64::MAX,
        p => p as i64,
    };
    match left <= -period {
        true => period,
        false => left + period,
    }
}

/// The mask of a counter with `width` bits.
pub const fn mask(width: u8) -> u64 {
    if width < 64 {
        1u64.wrapping_shl(width as u32).wrapping_sub(1)
    } else {
        u64::MAX
    }
}

/// The value of a counter that wraps after `until_wrap` events: minus that, cut to `width` bits.
pub const fn start_value(until_wrap: u64, width: u8) -> u64 {
    delta(until_wrap, 0, width)
}

/// The value of a counter as a signed number. If it is negative, its magnitude is
/// the number of events until the counter wraps.
pub const fn sign_extend(value: u64, width: u8) -> i64 {
    let unused = unused(width);
    (value.wrapping_shl(unused) as i64).wrapping_shr(unused)
}

/// The number of bits of a word that a counter with `width` bits, 1 to 64, does not have, as a shift.
const fn unused(width: u8) -> u32 {
    64u32.wrapping_sub(width as u32)
}

/// Whether a counter has wrapped, given that it was started at most
/// [`max_period`] events before the wrap: its highest bit is clear.
pub const fn has_wrapped(value: u64, width: u8) -> bool {
    sign_extend(value, width) >= 0
}

/// The number of events that took a counter from `previous` to `now`, given that
/// it wrapped at most once.
pub const fn delta(previous: u64, now: u64, width: u8) -> u64 {
    let unused = unused(width);
    now.wrapping_sub(previous)
        .wrapping_shl(unused)
        .wrapping_shr(unused)
}

/// The largest number of events before the wrap at which a counter with `width`
/// writable bits is started.
///
/// It is half of the range, so that events counted between the wrap and the
/// handling of its PMI are never taken for another wrap.
pub const fn max_period(width: u8) -> u64 {
    mask(width) >> 1
}

/// The distances to the wrap from which a kind of CPU counts right.
///
/// If the rest of a period is shorter, the counter is started further away, and the next
/// period is as much shorter.
#[derive(Clone, Copy)]
pub(super) struct PeriodLimit {
    /// The shortest one for any event.
    shortest: u64,
    /// The shortest one for [`INST_RETIRED_ALL`].
    shortest_inst_retired: u64,
    /// What those of [`INST_RETIRED_ALL`] are multiples of, a power of two.
    granule_inst_retired: u64,
}

/// The code of INST_RETIRED.ALL, whose counts have the errata.
const INST_RETIRED_ALL: u16 = 0x01c0;

impl PeriodLimit {
    /// Every distance is right.
    pub(super) const NONE: Self = Self::at_least(1);

    /// No event may be started nearer than this.
    pub(super) const fn at_least(shortest: u64) -> Self {
        PeriodLimit {
            shortest,
            shortest_inst_retired: shortest,
            granule_inst_retired: 1,
        }
    }

    /// The limit of [`Self::at_least`], and one for INST_RETIRED.ALL, for which the distance must be a multiple of
    /// `granule`, a power of two, as well.
    pub(super) const fn inst_retired_at_least(self, shortest: u64, granule: u64) -> Self {
        PeriodLimit {
            shortest_inst_retired: shortest,
            granule_inst_retired: granule,
            ..self
        }
    }

    /// The right distance for an event that should be started `until_wrap` events before
    /// the wrap.
    pub(super) fn apply(&self, event: EventSel, until_wrap: u64) -> u64 {
        if event.code() != INST_RETIRED_ALL {
            return until_wrap.max(self.shortest);
        }
        until_wrap.max(self.shortest_inst_retired) & self.granule_inst_retired.wrapping_neg()
    }

    /// Whether a distance far above the shortest ones is right for the event.
    fn allows_far(&self, event: EventSel, until_wrap: u64) -> bool {
        event.code() != INST_RETIRED_ALL
            || until_wrap & self.granule_inst_retired.wrapping_sub(1) == 0
    }
}

impl Capabilities {
    /// How many events before the wrap a counter of `event` is started if `until_wrap` are
    /// left of the period.
    pub fn limit_period(&self, event: EventSel, until_wrap: u64) -> u64 {
        self.events.period_limit.apply(event, until_wrap)
    }

    /// Whether an event that only counts can run on `until_wrap` events before its counter wraps.
    /// A start leaves `max` events, which is far above the shortest distance.
    pub fn can_run_on(&self, event: EventSel, until_wrap: u64, max: u64) -> bool {
        is_far(until_wrap, max) && self.events.period_limit.allows_far(event, until_wrap)
    }

    /// Whether an event can be sampled with this period, which is not 0.
    pub fn is_period_allowed(&self, event: EventSel, period: u64) -> bool {
        self.limit_period(event, period) <= period
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn periods_follow_each_other_without_loss() {
        let first = rearm(0, 1000, max_period(48));
        assert_eq!(
            (first.period_left, first.until_wrap, first.period_ended),
            (1000, 1000, true)
        );
        // The PMI came three events late: the next period is that much shorter.
        let next = rearm(-3, 1000, max_period(48));
        assert_eq!(
            (next.period_left, next.until_wrap, next.period_ended),
            (997, 997, true)
        );
        // It came a whole period late: the missed period is dropped.
        assert_eq!(rearm(-1000, 1000, max_period(48)).period_left, 1000);
    }

    #[test]
    fn a_long_period_takes_several_rounds() {
        let max = max_period(32);
        let mut left = 1 << 40;
        let mut rounds = 0u64;
        loop {
            let step = rearm(left, 1 << 40, max);
            if step.period_ended {
                break;
            }
            left = step.period_left - step.until_wrap as i64;
            rounds += 1;
        }
        assert_eq!(left, 0);
        assert_eq!(rounds, (1u64 << 40).div_ceil(max));
    }

    #[test]
    fn a_counter_runs_on_until_half_is_left() {
        let max = max_period(48);
        for (until_wrap, expected) in [
            (max + 1, false),
            (max, true),
            (max / 2 + 1, true),
            (max / 2, false),
        ] {
            assert_eq!(is_far(until_wrap, max), expected, "{until_wrap:#x}");
        }
    }

    /// Periods on the model whose limits these are: the nearest starts, and the average.
    #[test]
    fn a_counter_that_is_started_early_makes_up_for_it() {
        let inst_retired = EventSel::from_raw(INST_RETIRED_ALL.into());
        let haswell = PeriodLimit::at_least(32).inst_retired_at_least(128, 1);
        let broadwell = PeriodLimit::NONE.inst_retired_at_least(128, 64);
        let other = EventSel::from_raw(0x00c0);
        assert_eq!([1, 32, 33].map(|it| haswell.apply(other, it)), [32, 32, 33]);
        assert_eq!(
            [1, 129].map(|it| haswell.apply(inst_retired, it)),
            [128, 129]
        );
        assert_eq!([1, 129].map(|it| broadwell.apply(other, it)), [1, 129]);
        for (wanted, right) in [(1, 128), (128, 128), (191, 128), (192, 192), (1000, 960)] {
            assert_eq!(broadwell.apply(inst_retired, wanted), right);
        }

        for limit in [haswell, broadwell] {
            for period in [130, 200, 1000] {
                let (mut left, mut counted, mut samples) = (0, 0, 0);
                for _ in 0..1000 {
                    let step = rearm(left, period, max_period(48));
                    samples += u64::from(step.period_ended);
                    let until_wrap = limit.apply(inst_retired, step.until_wrap);
                    left = step.period_left - until_wrap as i64;
                    counted += until_wrap;
                }
                // The first step ends a period of 0 events.
                let ended = (samples - 1) * period;
                assert_eq!(counted as i64, ended as i64 + (period as i64 - left));
            }
        }
    }

    proptest! {
        #[test]
        fn a_counter_can_always_be_restarted(
            left: i64, period: u64, width in 32u8..=64,
        ) {
            let max = max_period(width);
            let step = rearm(left, period, max);
            prop_assert!(step.period_left > 0);
            prop_assert!((1..=max).contains(&step.until_wrap));
            prop_assert!(step.until_wrap <= step.period_left as u64);
            prop_assert_eq!(step.period_ended, left <= 0);
            // The counter wraps to 0 after exactly that many events.
            let start = start_value(step.until_wrap, width);
            prop_assert_eq!(delta(start, 0, width), step.until_wrap);
            prop_assert_eq!(sign_extend(start, width), -(step.until_wrap as i64));
            prop_assert!(!has_wrapped(start, width));
            prop_assert!(has_wrapped(start.wrapping_add(step.until_wrap), width));
        }

        #[test]
        fn what_runs_on_has_not_wrapped(events: u64, writable in 32u8..=64, more in 0u8..=32) {
            let width = (writable + more).min(64);
            let max = max_period(writable);
            let start = start_value(max, width);
            prop_assert!(is_far(delta(start, 0, width), max));
            // Half of them, give or take one, and no others.
            let value = start.wrapping_add(events) & mask(width);
            let expected = events & mask(width) < max.div_ceil(2);
            prop_assert_eq!(is_far(delta(value, 0, width), max), expected);
            prop_assert!(!expected || !has_wrapped(value, width));
        }

        #[test]
        fn what_is_right_far_from_the_wrap(code: u16, until_wrap in 1u64 << 30..) {
            let inst_retired = EventSel::from_raw(INST_RETIRED_ALL.into());
            let limits = [
                PeriodLimit::NONE,
                PeriodLimit::at_least(32).inst_retired_at_least(128, 1),
                PeriodLimit::NONE.inst_retired_at_least(128, 64),
            ];
            for limit in limits {
                for event in [inst_retired, EventSel::from_raw(code.into())] {
                    for until_wrap in [until_wrap, until_wrap & !63] {
                        let is_right = limit.apply(event, until_wrap) == until_wrap;
                        prop_assert_eq!(limit.allows_far(event, until_wrap), is_right);
                    }
                }
            }
        }

        #[test]
        fn events_are_counted_across_the_wrap(
            start: u64, events: u64, width in 32u8..=64,
        ) {
            let start = start & mask(width);
            let events = events & mask(width);
            let now = start.wrapping_add(events) & mask(width);
            prop_assert_eq!(delta(start, now, width), events);
        }
    }
}
