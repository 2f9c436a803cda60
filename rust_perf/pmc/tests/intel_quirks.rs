// SPDX-License-Identifier: GPL-2.0

//! What some of Intel's models ask of events besides a counter: transactions, load latency, periods.

use crate::common::Cpuid;
use crate::intel_models::with_all_counters;
use pmc::{counter::CounterSet, event::EventSel};

/// Where microcode uses counter 3 for transactions, there are the others.
#[test]
fn counter_3_is_left_to_transactions() {
    let counters = |edx| {
        let skylake = Cpuid::new(b"GenuineIntel", 6, 0x5e, 3);
        let skylake = skylake.with(0xa, 0, [0x0730_0404, 0, 0, 0x603]);
        skylake
            .with(7, 0, [0, 0, 0, edx])
            .detect()
            .unwrap()
            .counters
    };
    let (force_abort, always_abort) = (1 << 13, 1 << 11);
    let fixed = CounterSet::fixed(0b111);
    assert_eq!(counters(force_abort), CounterSet::gp(0b0111) | fixed);
    for edx in [0, always_abort, force_abort | always_abort] {
        assert_eq!(counters(edx), CounterSet::gp(0b1111) | fixed);
    }
}

/// Golden Cove knows where the data of MEM_TRANS_RETIRED.LOAD_LATENCY comes from only while another event
/// counts.
#[test]
fn load_latency_needs_another_event() {
    let load_latency = EventSel::from_raw(0x01cd);
    let auxiliary = EventSel::from_raw(0x8203);
    let other = EventSel::from_raw(0x00c0);
    for (model, expected) in [(0x8f, true), (0x5e, false), (0x6a, false)] {
        let caps = with_all_counters(6, model);
        assert_eq!(caps.auxiliary(), expected.then_some([0x82, 0x03]));
        assert_eq!(caps.needs_auxiliary(load_latency), expected, "{model:#x}");
        assert_eq!(caps.is_auxiliary(auxiliary), expected, "{model:#x}");
        for event in [auxiliary, other] {
            assert!(!caps.needs_auxiliary(event), "{model:#x}");
        }
        for event in [load_latency, other] {
            assert!(!caps.is_auxiliary(event), "{model:#x}");
        }
    }
}

/// Counters of some models are not right if they are started near their end. The in-tree driver has
/// these limits as `*_limit_period()`.
#[test]
fn shortest_periods_of_models() {
    for (model, inst_retired_all, other) in [
        (0x1a, 32, 32),
        (0x3c, 128, 32),
        (0x3d, 128, 1),
        (0x2a, 1, 1),
        (0x5e, 1, 1),
    ] {
        let caps = with_all_counters(6, model);
        let shortest = |code| caps.limit_period(EventSel::from_raw(code), 1);
        assert_eq!(shortest(0x01c0), inst_retired_all, "{model:#x}");
        assert_eq!(shortest(0x00c0), other, "{model:#x}");
        let allowed = |period| caps.is_period_allowed(EventSel::from_raw(0x01c0), period);
        assert!(allowed(inst_retired_all), "{model:#x}");
        assert_eq!(allowed(1), inst_retired_all == 1, "{model:#x}");
    }
}

/// INST_RETIRED.ALL must have a multiple of 64 events until the wrap on Broadwell, also if the event
/// runs on.
#[test]
fn where_events_run_on_from() {
    for (model, granule) in [(0x1a, 1), (0x3c, 1), (0x3d, 64), (0x5e, 1)] {
        let caps = with_all_counters(6, model);
        let max = caps.max_period();
        for (code, granule) in [(0x01c0, granule), (0x00c0, 1)] {
            for until_wrap in [max + 1, max, max - 63, max / 2 + 65, max / 2, 64, 1] {
                let is_far = max / 2 < until_wrap && until_wrap <= max;
                assert_eq!(
                    caps.can_run_on(EventSel::from_raw(code), until_wrap, max),
                    is_far && until_wrap % granule == 0,
                    "{model:#x}, {code:#x}, {until_wrap:#x}"
                );
            }
        }
    }
}
