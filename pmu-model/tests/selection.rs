// SPDX-License-Identifier: GPL-2.0

//! Counters that must be cleared before they count a new event.

use crate::nehalem::{clear_if_needed, clear_with, CLEARING};
use pmu_model::{msr::*, Config, Pmu, Retired, Signature, Vendor};

const INSTRUCTIONS: u64 = 0x00c0;
/// Counts nothing in the model.
const MEM_LOAD_RETIRED: u64 = 0x01cb;

const NEHALEM: u8 = 0x1a;
const WESTMERE: u8 = 0x2c;

fn signature(model: u8) -> Signature {
    Signature {
        family: 6,
        model,
        stepping: 5,
    }
}

fn pmu(model: u8) -> Pmu {
    let config = Config::of_processor(Vendor::Intel, signature(model), false).unwrap();
    let mut pmu = Pmu::new(config).unwrap();
    enable(&mut pmu, 0);
    pmu
}

fn eventsel(code: u64) -> u64 {
    EventSel::EN | EventSel::USR | code
}

fn select(pmu: &mut Pmu, counter: u32, value: u64) {
    pmu.wrmsr(IA32_PERFEVTSEL0 + counter, value).unwrap();
    pmu.wrmsr(IA32_PMC0 + counter, 0).unwrap();
}

fn enable(pmu: &mut Pmu, counters: u64) {
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, counters).unwrap();
}

/// What a counter counts of 1,000 instructions in user mode.
fn count(pmu: &mut Pmu, counter: u32) -> u64 {
    pmu.wrmsr(IA32_PMC0 + counter, 0).unwrap();
    enable(pmu, 1 << counter);
    let user = Retired {
        instructions: 1000,
        branches: 200,
        ..Retired::default()
    };
    pmu.retire(&[user, Retired::default()]);
    enable(pmu, 0);
    pmu.rdmsr(IA32_PMC0 + counter).unwrap()
}

#[test]
fn a_counter_that_was_not_cleared_counts_cycles() {
    for model in [NEHALEM, WESTMERE] {
        for code in [INSTRUCTIONS, MEM_LOAD_RETIRED] {
            let mut pmu = pmu(model);
            select(&mut pmu, 1, eventsel(code));
            let cycles = count(&mut pmu, 1);
            assert!(cycles > 1000, "{cycles}");
            // It does not get better.
            assert_eq!(count(&mut pmu, 1), cycles);
        }
    }
}

/// Version 1 has no GLOBAL_CTRL, without which no counter could be cleared.
#[test]
fn version_1_needs_no_clearing() {
    let config = Config {
        signature: Some(signature(NEHALEM)),
        ..Config::new(Vendor::Intel, 1).unwrap()
    };
    let mut pmu = Pmu::new(config).unwrap();
    select(&mut pmu, 0, eventsel(INSTRUCTIONS));
    let user = Retired {
        instructions: 1000,
        ..Retired::default()
    };
    pmu.retire(&[user, Retired::default()]);
    assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(1000));
}

#[test]
fn a_counter_that_was_cleared_counts_its_event() {
    let mut pmu = pmu(NEHALEM);
    clear_if_needed(&mut pmu, NEHALEM);
    select(&mut pmu, 0, eventsel(INSTRUCTIONS));
    select(&mut pmu, 3, eventsel(MEM_LOAD_RETIRED));
    for _ in 0..2 {
        assert_eq!(count(&mut pmu, 0), 1000);
        assert_eq!(count(&mut pmu, 3), 0);
    }
    // An event may be disabled, and have other fields: it stays what it is.
    select(&mut pmu, 0, INSTRUCTIONS);
    select(&mut pmu, 0, eventsel(INSTRUCTIONS) | EventSel::INT);
    assert_eq!(count(&mut pmu, 0), 1000);
}

#[test]
fn clearing_is_for_what_is_selected_before_counters_run() {
    let mut pmu = pmu(NEHALEM);
    clear_if_needed(&mut pmu, NEHALEM);
    select(&mut pmu, 0, eventsel(INSTRUCTIONS));
    assert_eq!(count(&mut pmu, 0), 1000);
    select(&mut pmu, 1, eventsel(MEM_LOAD_RETIRED));
    assert!(count(&mut pmu, 1) > 1000);
    // Counter 0 still has what it was given.
    assert_eq!(count(&mut pmu, 0), 1000);
}

#[test]
fn clearing_needs_all_counters_and_all_values() {
    for values in [
        // Not all values.
        [0x43_00b5, 0x43_00d2, 0x43_00d2, 0x43_00d2],
        // A counter without one.
        [0x43_00b5, 0x43_00d2, 0x43_00b1, eventsel(INSTRUCTIONS)],
        // One that is not enabled.
        [0x43_00b5, 0x43_00d2, 0x43_00b1, 0x03_00b1],
    ] {
        let mut pmu = pmu(NEHALEM);
        clear_with(&mut pmu, values);
        select(&mut pmu, 0, eventsel(MEM_LOAD_RETIRED));
        assert!(count(&mut pmu, 0) > 1000, "{values:x?}");
    }
    // One counter is not enabled in GLOBAL_CTRL.
    let mut pmu = pmu(NEHALEM);
    clear_if_needed(&mut pmu, NEHALEM);
    select(&mut pmu, 0, eventsel(INSTRUCTIONS));
    assert_eq!(count(&mut pmu, 0), 1000);
    for (i, value) in (0..).zip(CLEARING) {
        select(&mut pmu, i, value);
    }
    enable(&mut pmu, 0b0111);
    enable(&mut pmu, 0);
    select(&mut pmu, 0, eventsel(MEM_LOAD_RETIRED));
    assert!(count(&mut pmu, 0) > 1000);
}

#[test]
fn all_values_may_be_written_to_one_counter() {
    let mut pmu = pmu(WESTMERE);
    select(&mut pmu, 0, 0x43_00b1);
    select(&mut pmu, 0, 0x43_00d2);
    clear_with(&mut pmu, [0x43_00b5; 4]);
    select(&mut pmu, 2, eventsel(MEM_LOAD_RETIRED));
    assert_eq!(count(&mut pmu, 2), 0);
}

#[test]
fn other_models_need_no_clearing() {
    for model in [0x17, 0x2a, 0x5e, 0x5c] {
        let mut pmu = pmu(model);
        select(&mut pmu, 1, eventsel(INSTRUCTIONS));
        assert_eq!(count(&mut pmu, 1), 1000, "{model:#x}");
    }
}
