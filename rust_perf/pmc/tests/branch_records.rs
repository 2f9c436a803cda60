// SPDX-License-Identifier: GPL-2.0

//! The registers of architectural LBRs, on the emulated CPU.

use crate::common::{
    config,
    recorder::{Recorder, ANY, CALL_STACK, KERNEL},
};
use pmu_model::{BranchKind, Mode};

/// A CPU with this many architectural LBRs.
fn architectural(depth: u8) -> Recorder {
    Recorder::new(config(5, 8, 4, 48), depth)
}

#[test]
fn a_register_is_written_once() {
    let recorder = architectural(32);
    let cost = |f: &dyn Fn()| recorder.driven.cpu.cost(f);
    // DEBUGCTL is read and written, LBR_CTL is written: later alone, for it may have been cleared.
    assert_eq!(cost(&|| recorder.record(ANY)), (1, 2));
    assert_eq!(cost(&|| recorder.record(ANY)), (0, 1));
    assert_eq!(cost(&|| recorder.record(ANY | KERNEL)), (0, 1));
    assert_eq!(cost(&|| recorder.wipe()), (0, 1));
    assert_eq!(cost(&|| recorder.records().stop()), (0, 1));
    assert_eq!(cost(&|| recorder.records().stop()), (0, 0));
    // LBR_CTL and LBR_DEPTH are written, DEBUGCTL is changed back.
    recorder.record(ANY);
    assert_eq!(cost(&|| recorder.records().give_back()), (1, 3));
    assert_eq!(cost(&|| recorder.records().give_back()), (0, 0));
    // An empty record is looked at once, and a full one takes three reads.
    assert_eq!(cost(&|| assert!(recorder.read().is_empty())), (1, 0));
    recorder.record(ANY);
    for from in 1..=40 {
        recorder.branch(BranchKind::Return, Mode::User, from);
    }
    assert_eq!(cost(&|| assert_eq!(recorder.read().len(), 32)), (96, 0));
}

#[test]
fn registers_that_lost_their_state_are_written_again() {
    let recorder = architectural(16);
    recorder.record(ANY);
    for msr in [0x14ce, 0x1d9] {
        let mut pmu = recorder.driven.cpu.pmu.borrow_mut();
        pmu.wrmsr(msr, 0).unwrap();
    }
    recorder.records().forget();
    recorder.record(ANY);
    let pmu = recorder.driven.cpu.pmu.borrow();
    assert_eq!(pmu.rdmsr(0x14ce), Ok(0x7f_0005));
    assert_eq!(pmu.rdmsr(0x1d9), Ok(1 << 11));
}

#[test]
fn other_bits_of_debugctl_stay() {
    let recorder = architectural(16);
    let debugctl = || recorder.driven.cpu.pmu.borrow().rdmsr(0x1d9).unwrap();
    // FREEZE_PERFMON_ON_PMI is someone else's.
    let mut pmu = recorder.driven.cpu.pmu.borrow_mut();
    pmu.wrmsr(0x1d9, 1 << 12).unwrap();
    drop(pmu);
    recorder.record(ANY);
    assert_eq!(debugctl(), 0b11 << 11);
    recorder.records().give_back();
    assert_eq!(debugctl(), 1 << 12);
}

/// Whether a deep C-state has cleared the records takes a look at one.
#[test]
fn lost_records_are_noticed() {
    let recorder = architectural(8);
    recorder.record(CALL_STACK);
    recorder.branch(BranchKind::RelativeCall, Mode::User, 1);
    recorder.records().stop();
    let cost = recorder
        .driven
        .cpu
        .cost(|| assert!(recorder.records().are_kept(0)));
    assert_eq!(cost, (1, 0));
    let mut pmu = recorder.driven.cpu.pmu.borrow_mut();
    pmu.wrmsr(0x14cf, 8).unwrap();
    drop(pmu);
    assert!(!recorder.records().are_kept(0));
}

/// The calls that a task is in go with it from CPU to CPU.
#[test]
fn call_stacks_are_brought_back() {
    for calls in [0, 1, 5, 16, 20] {
        let here = architectural(16);
        here.record(CALL_STACK);
        // PMIs do not stop recording in this mode.
        assert_eq!(here.driven.cpu.pmu.borrow().rdmsr(0x1d9), Ok(0));
        for from in 1..=calls {
            here.branch(BranchKind::RelativeCall, Mode::User, from);
        }
        here.records().stop();
        let saved = here.registers();
        assert_eq!(saved.len(), calls.min(16) as usize);
        // Another task has left its calls there.
        let there = architectural(16);
        there.record(CALL_STACK);
        for from in 100..120 {
            there.branch(BranchKind::IndirectCall, Mode::User, from);
        }
        there.records().stop();
        let entries = 3 * saved.len() as u32;
        let cost = there
            .driven
            .cpu
            .cost(|| there.records().restore(0, saved.iter().copied()));
        assert_eq!(cost, (0, entries + u32::from(calls < 16)));
        assert_eq!(there.registers(), saved);
        // It returns from the innermost call.
        there.record(CALL_STACK);
        there.branch(BranchKind::Return, Mode::User, 50);
        assert_eq!(there.registers(), saved.get(1..).unwrap_or_default());
    }
}
