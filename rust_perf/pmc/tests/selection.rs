// SPDX-License-Identifier: GPL-2.0

//! GP counters that must be cleared before they count a new event, on the PMU model, which has
//! the erratum.

use crate::common::{instructions, intel_model, Cpu, Driven};
use pmc::{
    counter::{Counter, CounterSet},
    event::{EventSel, Modes},
};
use pmu_model::{Config, Signature, Vendor};
use std::num::NonZeroU8;

const NEHALEM: u8 = 0x1a;
const WESTMERE: u8 = 0x2c;

/// The model counts nothing for it.
fn loads() -> EventSel {
    EventSel::from_config(0x01cb, EventSel::INTEL, Modes::ALL).unwrap()
}

fn gp(i: u8) -> Counter {
    Counter::gp(i).unwrap()
}

/// A CPU of family 6 with so many GP counters.
fn config(model: u8, general: u8) -> Config {
    let mut config = intel_model(model);
    config.shape.general = general;
    config
}

fn driven(model: u8, general: u8) -> Driven {
    Driven::new(config(model, general))
}

/// Has the first counters count, after clearing them if needed. Returns what they have counted
/// of 1,000 instructions.
fn counts(driven: &Driven, events: &[EventSel]) -> Vec<u64> {
    let program = || {
        for (i, &event) in (0..).zip(events) {
            driven.program(gp(i), event, 0);
        }
    };
    let used = CounterSet::first_gp(events.len() as u8);
    program();
    if driven.counters().is_uncleared() {
        driven.counters().clear_selection(used);
        program();
    }
    assert!(!driven.counters().is_uncleared());
    driven.run(used);
    driven.cpu.run(1000);
    driven.run(CounterSet::EMPTY);
    used.into_iter().map(|it| driven.read(it)).collect()
}

#[test]
fn events_count_right_after_clearing() {
    for model in [NEHALEM, WESTMERE] {
        for general in 1..=4 {
            let driven = driven(model, general);
            let n = usize::from(general);
            let first = vec![instructions(); n];
            assert_eq!(counts(&driven, &first), vec![1000; n]);
            // One that counted nothing before, and others that change.
            assert_eq!(counts(&driven, &vec![loads(); n]), vec![0; n]);
            assert_eq!(counts(&driven, &first), vec![1000; n]);
            // The others did not have an event meanwhile.
            assert_eq!(counts(&driven, &first[..1]), [1000]);
            assert_eq!(counts(&driven, &first), vec![1000; n]);
        }
    }
}

/// The erratum is about all counters, also about those that the driver was told to leave out.
#[test]
fn counters_that_are_left_out_are_cleared_too() {
    for n in 1..=3 {
        let cpu = Cpu::new(config(NEHALEM, 4));
        let caps = cpu.detect().unwrap().limit_gp(NonZeroU8::new(n).unwrap());
        let driven = Driven::take_over(cpu, caps);
        let n = usize::from(n);
        assert_eq!(counts(&driven, &vec![loads(); n]), vec![0; n]);
        assert_eq!(counts(&driven, &vec![instructions(); n]), vec![1000; n]);
    }
}

/// What these tests rely on.
#[test]
fn events_count_wrong_without_clearing() {
    let driven = driven(NEHALEM, 4);
    driven.program(gp(2), loads(), 0);
    assert!(driven.counters().is_uncleared());
    driven.run(CounterSet::of(gp(2)));
    driven.cpu.run(1000);
    assert_ne!(driven.read(gp(2)), 0);
}

#[test]
fn the_same_events_need_no_clearing_again() {
    let driven = driven(NEHALEM, 4);
    assert_eq!(counts(&driven, &[instructions(), loads()]), [1000, 0]);
    driven.program(gp(0), instructions(), 5);
    driven.program(gp(1), loads(), 5);
    assert!(!driven.counters().is_uncleared());
    // Fixed counters have no EVENTSEL.
    driven.program(Counter::fixed(0).unwrap(), instructions(), 0);
    assert!(!driven.counters().is_uncleared());
    // Others may have used the counters meanwhile.
    driven.counters().forget();
    driven.program(gp(0), instructions(), 5);
    assert!(driven.counters().is_uncleared());
}

#[test]
fn other_models_need_none() {
    for model in [0x17, 0x2a, 0x5e, 0x5c] {
        let driven = driven(model, 2);
        driven.program(gp(0), instructions(), 0);
        driven.program(gp(1), loads(), 0);
        assert!(!driven.counters().is_uncleared(), "{model:#x}");
    }
}

/// A version without GLOBAL_CTRL has no way to clear them.
#[test]
fn version_1_needs_none() {
    let signature = Signature {
        family: 6,
        model: NEHALEM,
        stepping: 0,
    };
    let mut config = Config::new(Vendor::Intel, 1).unwrap();
    config.signature = Some(signature);
    let driven = Driven::take_over(Cpu::new(config), Cpu::new(config).detect().unwrap());
    assert_eq!(counts(&driven, &[instructions()]), [1000]);
}
