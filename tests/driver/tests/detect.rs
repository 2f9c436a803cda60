// SPDX-License-Identifier: GPL-2.0

//! What the module takes a CPU's counters for.

use driver_tests::{
    cpu::{amd, config, Cpu},
    pmc::counter::CounterSet,
};
use std::num::NonZeroU8;

#[test]
fn an_older_generation_can_be_asked_for_and_a_newer_one_not() {
    for version in 1..=5u8 {
        let cpu = Cpu::new(config(version, 4, if version == 1 { 0 } else { 3 }, 48));
        for asked in 1..=6 {
            let caps = cpu.detect_as(asked);
            assert_eq!(caps.is_some(), asked <= version, "{asked} of {version}");
            let Some(caps) = caps else { continue };
            let fixed = if asked == 1 { 0 } else { 0b111 };
            assert_eq!(
                caps.counters,
                CounterSet::general(4) | CounterSet::fixed(fixed)
            );
            assert_eq!(caps.generation.name.ends_with("v1"), asked == 1);
            assert_eq!(caps.any_thread, version < 5 && asked >= 3);
        }
        assert!(cpu.detect_as(0).is_none());
    }
}

#[test]
fn the_same_goes_for_amd() {
    for (version, counters) in [(1, 4), (2, 6), (3, 1), (3, 5), (3, 8)] {
        let cpu = Cpu::new(amd(version, counters));
        for (asked, most) in (1..).zip([4, 6, 8]) {
            let caps = cpu.detect_as(asked);
            assert_eq!(caps.is_some(), asked <= version, "{asked} of {version}");
            let Some(caps) = caps else { continue };
            assert_eq!(caps.counters, CounterSet::general(counters.min(most)));
        }
        assert!(cpu.detect_as(0).is_none());
        assert!(cpu.detect_as(4).is_none());
    }
}

#[test]
fn counters_can_be_left_out() {
    let caps = Cpu::new(config(5, 8, 4, 48)).detect().unwrap();
    let limit = |n| caps.limit_general(NonZeroU8::new(n).unwrap()).counters;
    let fixed = CounterSet::fixed(0b1111);
    assert_eq!(limit(1), CounterSet::general(1) | fixed);
    assert_eq!(limit(3), CounterSet::general(3) | fixed);
    assert_eq!(limit(200), caps.counters);

    let without = caps.without_fixed();
    assert_eq!(without.counters, CounterSet::general(8));
    let names = |caps: &driver_tests::x86::hal::Capabilities| -> Vec<_> {
        caps.events().flat_map(|event| event.names).collect()
    };
    // What only a fixed counter counts goes with it.
    assert!(names(&caps).contains(&&c"ref-cycles"));
    assert!(!names(&without).contains(&&c"ref-cycles"));
}
