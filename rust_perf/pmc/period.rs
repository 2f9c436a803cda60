// SPDX-License-Identifier: GPL-2.0

//! The arithmetic of sample periods on counters that count up and wrap.
//!
//! A counter raises its PMI when it wraps to 0, so it is started at minus the
//! number of events until then. perf keeps how many events are left until the
//! next sample in `period_left`, which may be more than a counter can hold,
//! and falls to 0 or below once a sample is due.

/// How to restart a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rearm {
    /// The new `period_left`; always positive.
    pub left: i64,
    /// How far from wrapping the counter starts, at least 1.
    pub distance: u64,
    /// Whether a period has ended, so that a sample is due.
    pub elapsed: bool,
}

/// Works out how to restart a counter.
///
/// `left` is what was left of the `period`; `max` is the longest distance the
/// counter can be started at. Events counted past the end of a period belong
/// to the next one, so that the average stays exact, unless they would fill it.
pub const fn rearm(left: i64, period: u64, max: u64) -> Rearm {
    // perf refuses periods with bit 63 set; 0 would never advance.
    let period = match period {
        0 => 1,
        p if p > i64::MAX as u64 => i64::MAX,
        p => p as i64,
    };
    let elapsed = left <= 0;
    let left = if !elapsed {
        left
    } else if left <= -period {
        period
    } else {
        left + period
    };
    let distance = if (left as u64) < max {
        left as u64
    } else {
        max
    };
    Rearm {
        left,
        distance,
        elapsed,
    }
}

/// The mask of a counter of this width in bits.
pub const fn mask(width: u8) -> u64 {
    if width < 64 {
        1u64.wrapping_shl(width as u32).wrapping_sub(1)
    } else {
        u64::MAX
    }
}

/// The value at which a counter is so far from wrapping.
pub const fn start_value(distance: u64, width: u8) -> u64 {
    distance.wrapping_neg() & mask(width)
}

/// A value of a counter as a negative number where its highest bit is set: so
/// far it is from wrapping.
pub const fn sign_extend(value: u64, width: u8) -> i64 {
    let unused = 64u32.saturating_sub(width as u32);
    (value.wrapping_shl(unused) as i64).wrapping_shr(unused)
}

/// Whether a counter that was started at [`max_distance`] from wrapping, or
/// nearer, has wrapped.
pub const fn has_wrapped(value: u64, width: u8) -> bool {
    value & mask(width) <= max_distance(width)
}

/// How many events took the counter from `previous` to `now`, given that it
/// wrapped once at most.
pub const fn delta(previous: u64, now: u64, width: u8) -> u64 {
    now.wrapping_sub(previous) & mask(width)
}

/// The longest distance to start a counter at, if all its bits can be written.
///
/// Half of its range, so that the events counted between the wrap and the
/// handling of its PMI are never taken for another round.
pub const fn max_distance(width: u8) -> u64 {
    mask(width) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn periods_follow_each_other_without_loss() {
        let first = rearm(0, 1000, max_distance(48));
        assert_eq!(
            (first.left, first.distance, first.elapsed),
            (1000, 1000, true)
        );
        // Three events late: the next period is that much shorter.
        let next = rearm(-3, 1000, max_distance(48));
        assert_eq!((next.left, next.distance, next.elapsed), (997, 997, true));
        // Far too late: the periods that were missed are not made up for.
        assert_eq!(rearm(-1000, 1000, max_distance(48)).left, 1000);
    }

    #[test]
    fn a_long_period_takes_several_rounds() {
        let max = max_distance(32);
        let mut left = 1 << 40;
        let mut rounds = 0u64;
        loop {
            let step = rearm(left, 1 << 40, max);
            if step.elapsed {
                break;
            }
            left = step.left - step.distance as i64;
            rounds += 1;
        }
        assert_eq!(left, 0);
        assert_eq!(rounds, (1u64 << 40).div_ceil(max));
    }

    proptest! {
        #[test]
        fn a_counter_can_always_be_restarted(
            left: i64, period: u64, width in 32u8..=64,
        ) {
            let max = max_distance(width);
            let step = rearm(left, period, max);
            prop_assert!(step.left > 0);
            prop_assert!((1..=max).contains(&step.distance));
            prop_assert!(step.distance <= step.left as u64);
            prop_assert_eq!(step.elapsed, left <= 0);
            // It wraps to 0 after just that many events.
            let start = start_value(step.distance, width);
            prop_assert_eq!(delta(start, 0, width), step.distance);
            prop_assert_eq!(sign_extend(start, width), -(step.distance as i64));
            prop_assert!(!has_wrapped(start, width));
            prop_assert!(has_wrapped(start.wrapping_add(step.distance), width));
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
