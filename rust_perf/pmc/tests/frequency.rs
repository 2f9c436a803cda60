// SPDX-License-Identifier: GPL-2.0

//! The first periods of events that are sampled at a frequency, on every CPU that the in-tree driver
//! knows.

use crate::common::emulated::{core_types, detected};
use pmc::{event::EventSel, Rate};
use suites::{Vendor, CPUS};

/// perf's default.
const HZ: u64 = 4_000;

/// Intel's depend on the event, all others are 1. No period is shorter than the CPU can count, nor
/// longer than the next one that it can.
#[test]
fn first_periods_are_those_of_the_in_tree_driver() {
    let [mut by_rate, mut one, mut limited] = [0; 3];
    for suite in CPUS {
        for caps in core_types(suite)
            .into_iter()
            .filter_map(|it| detected(suite, it))
        {
            let is_intel = suite.machine.vendor == Vendor::Intel;
            let by_kind = is_intel && caps.has_global_control();
            // INST_RETIRED.ALL has errata, cycles have none.
            for (code, rates) in [(0x3c, [124_999, 6_249, 63]), (0x01c0, [124_999, 6_249, 63])] {
                let event = EventSel::from_raw(code);
                let found = [caps.hardware_rate(1), Rate::CACHE, Rate::UNKNOWN]
                    .map(|rate| caps.first_period(event, rate, HZ));
                let want = match by_kind {
                    true => rates.map(|period| caps.limit_period(event, period)),
                    false => [1; 3],
                };
                assert_eq!(found, want, "{} {code:#x}", suite.name);
                limited += usize::from(by_kind && want != rates);
            }
            by_rate += usize::from(by_kind);
            one += usize::from(!by_kind);
        }
    }
    assert!(
        by_rate > 60 && one > 10 && limited > 0,
        "{by_rate}, {one}, {limited}"
    );
}

/// Each of perf's hardware events has the rate that the in-tree driver assumes.
#[test]
fn hardware_events_have_rates() {
    const RATES: [u64; 11] = [
        124_999, 124_999, 6_249, 6_249, 31_249, 31_249, 124_999, 124_999, 124_999, 124_999, 63,
    ];
    let mut seen = [false; 10];
    for suite in CPUS.iter().filter(|it| it.machine.vendor == Vendor::Intel) {
        for caps in core_types(suite)
            .into_iter()
            .filter_map(|it| detected(suite, it))
        {
            if !caps.has_global_control() {
                continue;
            }
            for (id, want) in (0..).zip(RATES) {
                let config = caps.hardware_event(id);
                let event = EventSel::from_raw(config.unwrap_or(0));
                let found = caps.first_period(event, caps.hardware_rate(id), HZ);
                if config.is_some() {
                    seen[id as usize] = true;
                    assert_eq!(found, want, "{} event {id}", suite.name);
                } else {
                    assert_eq!(
                        found,
                        caps.limit_period(event, 63),
                        "{} event {id}",
                        suite.name
                    );
                }
            }
        }
    }
    assert_eq!(seen, [true; 10]);
}
