// SPDX-License-Identifier: GPL-2.0

//! The registers of branch records, on the emulated CPU.

use crate::common::{config, count_instructions, instructions, Driven};
use pmc::{
    counter::CounterSet,
    lbr::{Branch, BranchRecords, BranchRequest, LbrShadow},
};
use pmu_model::{BranchKind, Config, Mode, Retired};
use proptest::prelude::*;

const USER: u64 = 1 << 0;
const KERNEL: u64 = 1 << 1;
/// All branches to user mode.
const ANY: u64 = USER | (1 << 3);
/// The calls of user mode that have not returned.
const CALL_STACK: u64 = USER | (1 << 11);

/// The kinds of branches of the emulated CPU, and the bit of each in LBR_CTL.
const KINDS: [(BranchKind, u64); 7] = [
    (BranchKind::Conditional, 1 << 16),
    (BranchKind::RelativeJump, 1 << 17),
    (BranchKind::IndirectJump, 1 << 18),
    (BranchKind::RelativeCall, 1 << 19),
    (BranchKind::IndirectCall, 1 << 20),
    (BranchKind::Return, 1 << 21),
    (BranchKind::Other, 1 << 22),
];

/// What users ask for, and the kinds that are recorded for that (LBR_CTL).
const REQUESTS: [(u64, u64); 7] = [
    (1 << 3, 0x7f << 16),
    (1 << 4, 0b1011 << 19),
    (1 << 5, 0b11 << 21),
    (1 << 6, 1 << 20),
    (1 << 10, 1 << 16),
    (1 << 12, 1 << 18),
    (1 << 13, 1 << 19),
];

/// A CPU with branch records, and the driver's shadow of them.
struct Recorder {
    driven: Driven,
    shadow: LbrShadow,
}

impl Recorder {
    fn new(depth: u8) -> Self {
        let config = config(5, 8, 4, 48);
        let config = Config {
            lbrs: config.lbrs_with_depth(depth),
            ..config
        };
        Recorder {
            driven: Driven::new(config),
            shadow: LbrShadow::default(),
        }
    }

    fn records(&self) -> BranchRecords<'_, &crate::common::Cpu> {
        let lbr = self.driven.caps.lbr.as_ref().unwrap();
        BranchRecords::new(&self.shadow, lbr, &self.driven.cpu)
    }

    fn record(&self, request: u64) {
        let lbr = self.driven.caps.lbr.unwrap();
        let control = lbr.control(BranchRequest::from_raw(request)).unwrap();
        self.records().record(control);
    }

    fn read(&self) -> Vec<(u64, u64)> {
        let mut read = Vec::new();
        self.records()
            .for_each(|Branch { from, to, .. }| read.push((from, to)));
        read
    }

    fn branch(&self, kind: BranchKind, mode: Mode, from: u64) {
        self.driven.cpu.pmu.borrow_mut().branch(&pmu_model::Branch {
            kind,
            from,
            to: from + 0x100,
            modes: [mode; 2],
            retires: true,
            retired: [Retired::default(); 2],
        });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Record(usize, u64),
    Stop,
    Wipe,
    Branch(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..REQUESTS.len(), 1..4u64).prop_map(|(request, levels)| Step::Record(request, levels)),
        1 => Just(Step::Stop),
        1 => Just(Step::Wipe),
        20 => (0..KINDS.len(), any::<bool>()).prop_map(|(kind, user)| Step::Branch(kind, user)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The records are the end of a list of the branches that were asked for.
    #[test]
    fn records_are_the_last_branches(
        depth in prop_oneof![Just(8u8), Just(16), Just(32)],
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let recorder = Recorder::new(depth);
        let mut recorded = None;
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for (i, step) in (1u64..).zip(steps) {
            match step {
                Step::Record(request, levels) => {
                    let (request, kinds) = REQUESTS[request];
                    recorder.record(request | levels);
                    recorded = Some((kinds, levels));
                }
                Step::Stop => {
                    recorder.records().stop();
                    recorded = None;
                }
                Step::Wipe => {
                    recorder.records().wipe();
                    expected.clear();
                }
                Step::Branch(kind, user) => {
                    let (kind, bit) = KINDS[kind];
                    let (mode, level) = match user {
                        true => (Mode::User, USER),
                        false => (Mode::Kernel, KERNEL),
                    };
                    recorder.branch(kind, mode, i);
                    if recorded.is_some_and(|(kinds, levels)| kinds & bit != 0 && levels & level != 0) {
                        expected.push((i, i + 0x100));
                    }
                }
            }
            let last: Vec<_> = expected.iter().rev().take(depth.into()).copied().collect();
            prop_assert_eq!(recorder.read(), last);
        }
    }
}

#[test]
fn a_register_is_written_once() {
    let recorder = Recorder::new(32);
    let cost = |f: &dyn Fn()| recorder.driven.cpu.cost(f);
    // DEBUGCTL is read and written, LBR_CTL is written: later alone, for it may have been cleared.
    assert_eq!(cost(&|| recorder.record(ANY)), (1, 2));
    assert_eq!(cost(&|| recorder.record(ANY)), (0, 1));
    assert_eq!(cost(&|| recorder.record(ANY | KERNEL)), (0, 1));
    assert_eq!(cost(&|| recorder.records().wipe()), (0, 1));
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
    let recorder = Recorder::new(16);
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
    let recorder = Recorder::new(16);
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

/// A debug exception stops recording. The driver does not know, but writes LBR_CTL again.
#[test]
fn recording_goes_on_after_a_debug_exception() {
    let recorder = Recorder::new(8);
    recorder.record(ANY);
    recorder.driven.cpu.pmu.borrow_mut().debug_exception();
    assert!(!recorder.records().is_recording());
    recorder.record(ANY);
    assert!(recorder.records().is_recording());
    recorder.branch(BranchKind::RelativeCall, Mode::User, 7);
    assert_eq!(recorder.read()[0].0, 7);
    recorder.records().stop();
    assert!(recorder.records().is_stopped());
}

/// Whether a deep C-state has cleared the records takes a look at one.
#[test]
fn lost_records_are_noticed() {
    let recorder = Recorder::new(8);
    recorder.record(CALL_STACK);
    recorder.branch(BranchKind::RelativeCall, Mode::User, 1);
    recorder.records().stop();
    let cost = recorder
        .driven
        .cpu
        .cost(|| assert!(recorder.records().are_kept()));
    assert_eq!(cost, (1, 0));
    let mut pmu = recorder.driven.cpu.pmu.borrow_mut();
    pmu.wrmsr(0x14cf, 8).unwrap();
    drop(pmu);
    assert!(!recorder.records().are_kept());
}

/// The calls that a task is in go with it from CPU to CPU.
#[test]
fn call_stacks_are_brought_back() {
    let records = |recorder: &Recorder| {
        let mut records = Vec::new();
        recorder.records().for_each(|branch| records.push(branch));
        records
    };
    for calls in [0, 1, 5, 16, 20] {
        let here = Recorder::new(16);
        here.record(CALL_STACK);
        // PMIs do not stop recording in this mode.
        assert_eq!(here.driven.cpu.pmu.borrow().rdmsr(0x1d9), Ok(0));
        for from in 1..=calls {
            here.branch(BranchKind::RelativeCall, Mode::User, from);
        }
        here.records().stop();
        let saved = records(&here);
        assert_eq!(saved.len(), calls.min(16) as usize);
        // Another task has left its calls there.
        let there = Recorder::new(16);
        there.record(CALL_STACK);
        for from in 100..120 {
            there.branch(BranchKind::IndirectCall, Mode::User, from);
        }
        there.records().stop();
        let entries = 3 * saved.len() as u32;
        let cost = there
            .driven
            .cpu
            .cost(|| there.records().restore(saved.iter().copied()));
        assert_eq!(cost, (0, entries + u32::from(calls < 16)));
        assert_eq!(records(&there), saved);
        // It returns from the innermost call.
        there.record(CALL_STACK);
        there.branch(BranchKind::Return, Mode::User, 50);
        assert_eq!(records(&there), saved.get(1..).unwrap_or_default());
    }
}

/// A PMI stops recording until the handler has read what there is.
#[test]
fn nothing_is_recorded_between_an_overflow_and_its_handler() {
    let recorder = Recorder::new(8);
    recorder.record(ANY);
    let driven = &recorder.driven;
    let counter = count_instructions(driven).into_iter().next().unwrap();
    driven.program(counter, instructions(), driven.caps.max_period());
    let set = CounterSet::of(counter);
    for round in 0..3 {
        driven.program(counter, instructions(), (1 << 48) - 10);
        driven.run(set);
        recorder.branch(BranchKind::RelativeCall, Mode::User, 100 + round);
        driven.cpu.run(10);
        recorder.branch(BranchKind::RelativeCall, Mode::User, 1_000);
        driven.counters().stop();
        let mut newest = None;
        let taken = driven.counters().take_overflows(|overflowed| {
            assert_eq!(overflowed.counters, set);
            assert!(overflowed.is_lbr_frozen);
            recorder.branch(BranchKind::RelativeCall, Mode::User, 2_000);
            newest = recorder.read().first().copied();
        });
        assert_eq!(taken, set);
        assert_eq!(newest.map(|(from, _)| from), Some(100 + round));
        recorder.branch(BranchKind::RelativeCall, Mode::User, 50);
        assert_eq!(recorder.read()[0].0, 50);
    }
}
