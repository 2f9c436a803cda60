// SPDX-License-Identifier: GPL-2.0

//! Counts between branches.

use crate::common::{instructions, intel_model, Cpu};
use pmc::{
    counter::{Counter, CounterSet},
    event::EventSel,
    lbr::{BranchRequest, Lbr, Record, RequestError, Selection},
};

const USER: u64 = 1 << 0;
const KERNEL: u64 = 1 << 1;
const ANY: u64 = 1 << 3;
const CALL_STACK: u64 = 1 << 11;
const PRIV_SAVE: u64 = 1 << 18;
const COUNTERS: u64 = 1 << 19;

const SIERRA_FOREST: u8 = 0xaf;

fn request(bits: u64) -> BranchRequest {
    BranchRequest::from_raw(bits)
}

fn lbr(model: u8) -> Lbr {
    let capabilities = Cpu::new(intel_model(model)).detect().unwrap();
    capabilities.lbr.unwrap()
}

#[test]
fn cpuid_says_which_counters_are_logged() {
    assert_eq!(lbr(SIERRA_FOREST).logged.bits(), 0xf);
    for model in [0x8f, 0x5e] {
        assert!(!lbr(model).logs());
    }
}

#[test]
fn counts_alone_need_no_records() {
    let lbr = lbr(SIERRA_FOREST);
    let control = |bits| lbr.control(request(bits));
    assert_eq!(control(USER | COUNTERS), Ok(0));
    assert_eq!(control(USER | COUNTERS | ANY), control(USER | ANY));
    let invalid = Err(RequestError::Invalid);
    assert_eq!(control(USER | COUNTERS | CALL_STACK), invalid);
    assert!(request(USER | KERNEL | COUNTERS).is_of_counts_only());
    for bits in [USER, USER | COUNTERS | ANY, USER | COUNTERS | PRIV_SAVE] {
        assert!(!request(bits).is_of_counts_only());
    }
}

/// Such an event shows what the leader of its group asks for, at the privilege levels of both. The source of
/// a return from the kernel is all ones if only branches to user mode are recorded.
#[test]
fn the_levels_are_those_of_both() {
    let lbr = lbr(SIERRA_FOREST);
    for (leader, member, from) in [
        (USER | KERNEL, USER, u64::MAX - 100),
        (USER, USER | KERNEL, u64::MAX),
    ] {
        let shown = request(leader | ANY).limited_to_levels_of(request(member | COUNTERS));
        assert_eq!(shown, request(USER | ANY));
        let record = Record {
            from,
            to: 0x1000,
            info: 8 << 56,
        };
        let branch = lbr.branch(record, 1).unwrap();
        assert!(!Selection::of(shown).allows(branch));
    }
}

/// Also those that are only read for the samples of another event.
#[test]
fn counts_are_refused_where_they_cannot_be_had() {
    for (model, bits, expected) in [
        (SIERRA_FOREST, COUNTERS, false),
        (SIERRA_FOREST, COUNTERS | CALL_STACK, true),
        (0x8f, COUNTERS, true),
        (0x5e, COUNTERS | ANY, true),
        (0x5e, ANY, false),
    ] {
        assert_eq!(lbr(model).cannot_count(request(bits)), expected);
    }
}

#[test]
fn an_event_that_is_logged_is_on_a_counter_that_can_be() {
    let capabilities = Cpu::new(intel_model(SIERRA_FOREST)).detect().unwrap();
    let fixed_0 = CounterSet::of(Counter::fixed(0).unwrap());
    let event = instructions();
    assert!((capabilities.counters_for(event) & fixed_0) == fixed_0);
    let logged = event.with(EventSel::LBR_LOG, 1);
    assert_eq!(capabilities.counters_for(logged).bits(), 0xf);
    assert_eq!(capabilities.needs(logged).counters().bits(), 0xf);
}

#[test]
fn counts_are_in_the_groups_order() {
    let lbr = lbr(SIERRA_FOREST);
    // Counter 0 has counted 3, counter 1 none, counter 2 one, and counter 3 two.
    let info = 0b10_01_00_11 << 32;
    let record = Record {
        from: 1,
        to: 2,
        info,
    };
    let branch = lbr.branch(record, 1).unwrap();
    for (counters, expected) in [
        (&[Some(0), Some(1), Some(2), Some(3)][..], 0b10_01_00_11),
        (&[Some(3), Some(0)], 0b11_10),
        (&[Some(2), None, Some(3)], 0b10_00_01),
        (&[], 0),
        // Such a counter cannot be logged.
        (&[Some(5), Some(33)], 0),
    ] {
        let counters = counters.iter().map(|it| it.and_then(Counter::from_index));
        assert_eq!(branch.counts(counters), expected);
    }
}
