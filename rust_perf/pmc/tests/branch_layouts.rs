// SPDX-License-Identifier: GPL-2.0

//! The branch records of each kind of registers, on the emulated CPU.

use crate::common::{
    amd, config, count_instructions, instructions, intel_model,
    recorder::{rows, Recorder, Row, Selects, ANY, KERNEL, KINDS, REQUESTS, USER},
};
use pmc::{
    counter::CounterSet,
    lbr::{BranchRequest, Recording, RequestError, Speculation},
};
use pmu_model::{BranchKind, Config, Mode};
use proptest::prelude::*;

fn is_legacy(config: &Config) -> bool {
    config.signature.is_some()
}

/// The kinds that a CPU records for a request, from the kinds that are asked for.
fn recorded(selects: Selects, request: u64, kinds: u64) -> u64 {
    const ALL: u64 = 0x7f << 16;
    const JUMPS: u64 = 0b11 << 17;
    match selects {
        Selects::Nothing => ALL,
        Selects::Kinds => kinds,
        Selects::WithJumps => match request {
            // Calls and returns, and direct calls.
            0x10 | 0x20 | 0x2000 => kinds | JUMPS,
            // Indirect calls.
            0x40 => kinds | (1 << 18),
            _ => kinds,
        },
    }
}

#[test]
fn each_model_has_its_records() {
    for row in rows() {
        let Row { config, depth, .. } = row;
        let recorder = row.recorder();
        assert_eq!(recorder.lbr().depth, depth, "{config:?}");
        // Every register that the driver uses exists.
        let lbr = recorder.lbr();
        for msr in lbr.addresses().chain(lbr.other_registers()) {
            let value = recorder.driven.cpu.pmu.borrow().rdmsr(msr.address());
            assert!(value.is_ok(), "{config:?} {msr:x?}");
        }
    }
    // Yonah, and a model without a case of its own.
    for model in [0x0e, 0x66] {
        let cpu = crate::common::Cpuid::new(b"GenuineIntel", 6, model, 0).with(
            0xa,
            0,
            [0x0730_0404, 0, 0, 0x603],
        );
        assert!(cpu.detect().unwrap().lbr.is_none());
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

    /// The records are the end of a list of the branches that were asked for, since the last wipe.
    #[test]
    fn records_are_the_last_branches(
        row in 0..rows().len(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let row = rows()[row];
        let Row { depth, selects, .. } = row;
        let recorder = row.recorder();
        let mut wanted = None;
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for (i, step) in (1u64..).zip(steps) {
            match step {
                Step::Record(request, levels) => {
                    let (request, kinds) = REQUESTS[request];
                    recorder.record(request | levels);
                    let levels = match selects {
                        Selects::Nothing => USER | KERNEL,
                        _ => levels,
                    };
                    wanted = Some((recorded(selects, request, kinds), levels));
                }
                Step::Stop => {
                    recorder.records().stop();
                    wanted = None;
                }
                // Nothing is recorded meanwhile, as in the driver.
                Step::Wipe => {
                    recorder.records().stop();
                    wanted = None;
                    recorder.wipe();
                    expected.clear();
                }
                Step::Branch(kind, user) => {
                    let (kind, bit) = KINDS[kind];
                    // Kernel addresses, which have to be extended.
                    let (mode, level, from) = match user {
                        true => (Mode::User, USER, i),
                        false => (Mode::Kernel, KERNEL, i | 0xffff_ffff_8000_0000),
                    };
                    recorder.branch(kind, mode, from);
                    if wanted.is_some_and(|(kinds, levels)| kinds & bit != 0 && levels & level != 0) {
                        expected.push((from, from + 0x100));
                    }
                }
            }
            let last: Vec<_> = expected.iter().rev().take(depth.into()).copied().collect();
            prop_assert_eq!(recorder.read(), last);
        }
    }
}

/// A call of the next instruction is recorded, but for architectural LBRs.
#[test]
fn calls_of_the_next_instruction_are_recorded() {
    for row in rows() {
        let Row { config, .. } = row;
        let recorder = row.recorder();
        recorder.record(ANY);
        recorder.branch(BranchKind::CallOfNext, Mode::User, 7);
        let is_recorded = is_legacy(&config) || config.vendor.is_amd();
        assert_eq!(
            recorder.read().len(),
            usize::from(is_recorded),
            "{config:?}"
        );
    }
}

/// A PMI stops recording until the handler has read what there is.
#[test]
fn nothing_is_recorded_between_an_overflow_and_its_handler() {
    for row in rows() {
        let Row { config, .. } = row;
        let recorder = row.recorder();
        recorder.record(ANY);
        let driven = &recorder.driven;
        let counter = count_instructions(driven).into_iter().next().unwrap();
        driven.program(counter, instructions(), driven.caps.max_period());
        let set = CounterSet::of(counter);
        for round in 0..3 {
            driven.program(
                counter,
                instructions(),
                (1 << driven.caps.width(counter)) - 10,
            );
            driven.run(set);
            recorder.branch(BranchKind::RelativeCall, Mode::User, 100 + round);
            driven.cpu.run(10);
            recorder.branch(BranchKind::RelativeCall, Mode::User, 1_000);
            driven.counters().stop();
            let taken = driven.counters().take_overflows(|overflowed| {
                assert_eq!(overflowed.counters, set);
                // One of the handler's own.
                recorder.branch(BranchKind::RelativeCall, Mode::User, 2_000);
                let control = recorder.control();
                let found = recorder.records().at_pmi(control, overflowed.is_lbr_frozen);
                let expected = match recorder.records().pmi_stops(control) {
                    true => Recording::StoppedByPmi,
                    false => Recording::Frozen,
                };
                assert_eq!(found, expected, "{config:?}");
                assert_eq!(recorder.read()[0].0, 100 + round, "{config:?}");
                if found == Recording::StoppedByPmi {
                    recorder.records().resume(control);
                }
            });
            assert_eq!(taken, set);
            recorder.branch(BranchKind::RelativeCall, Mode::User, 50);
            assert_eq!(recorder.read()[0].0, 50);
        }
    }
}

/// A debug exception stops recording. The driver does not know, but records again.
#[test]
fn recording_goes_on_after_a_debug_exception() {
    for row in rows() {
        let Row { config, .. } = row;
        let recorder = row.recorder();
        recorder.record(ANY);
        recorder.driven.cpu.pmu.borrow_mut().debug_exception();
        assert!(!recorder.records().is_enabled());
        recorder.record(ANY);
        recorder.branch(BranchKind::RelativeCall, Mode::User, 7);
        assert_eq!(recorder.read()[0].0, 7, "{config:?}");
    }
}

/// The registers are given back as they were found, with no record in them.
#[test]
fn nothing_is_left_behind() {
    for row in rows() {
        let Row { config, depth, .. } = row;
        let recorder = row.recorder();
        let others = || -> Vec<_> {
            let pmu = recorder.driven.cpu.pmu.borrow();
            let registers = recorder.lbr().other_registers().map(|it| it.address());
            // All but INFO, and which record is the newest.
            let registers = registers.filter(|it| !(0xdc0..0xde0).contains(it) && *it != 0x1c9);
            let registers = registers.filter(|it| !(0x1200..0x1220).contains(it));
            registers.map(|it| pmu.rdmsr(it).unwrap()).collect()
        };
        let before = others();
        recorder.record(ANY | KERNEL);
        for from in 1..=40 {
            recorder.branch(BranchKind::Return, Mode::User, from);
        }
        recorder.records().give_back();
        assert_eq!(others(), before, "{config:?}");
        // Whichever is the newest.
        for _ in 0..depth {
            assert_eq!(recorder.registers(), []);
            recorder.record(ANY);
            recorder.branch(BranchKind::Return, Mode::User, 1);
            recorder.records().stop();
            recorder.wipe();
        }
    }
}

/// What else a record tells, where the hardware has it.
#[test]
fn predictions_and_cycles_are_decoded() {
    for row in rows() {
        let Row { config, depth, .. } = row;
        let recorder = row.recorder();
        let lbr = recorder.lbr();
        let model = config.signature.map_or(0, |it| it.model);
        recorder.record(ANY);
        recorder.branch(BranchKind::RelativeJump, Mode::User, 1);
        recorder.driven.cpu.run(5);
        recorder.branch(BranchKind::RelativeJump, Mode::User, 2);
        let branch = lbr
            .branch(recorder.registers()[0], recorder.control())
            .unwrap();
        let tells_nothing = [0x17, 0x26, 0x37].contains(&model);
        let prediction = (!tells_nothing).then_some(false);
        assert_eq!(branch.is_mispredicted(lbr), prediction, "{config:?}");
        let has_cycles = depth == 32 || !is_legacy(&config) && !config.vendor.is_amd();
        assert_eq!(branch.cycles(lbr) != 0, has_cycles, "{config:?}");
        let speculation = match config.vendor.is_amd() {
            true => Speculation::None,
            false => Speculation::Unknown,
        };
        assert_eq!(branch.speculation, speculation);
        assert!(!branch.is_in_transaction() && !branch.is_abort());
    }
}

/// With neither flags nor cycles, INFO is not read.
#[test]
fn info_is_read_if_it_is_wanted() {
    const NO_FLAGS: u64 = 1 << 14;
    const NO_CYCLES: u64 = 1 << 15;
    for (request, reads, prediction) in [
        (ANY, 3, Some(false)),
        (ANY | NO_FLAGS, 3, Some(false)),
        (ANY | NO_FLAGS | NO_CYCLES, 2, None),
    ] {
        let recorder = Recorder::new(intel_model(0x55), 32);
        recorder.record(request);
        for from in 1..=40 {
            recorder.branch(BranchKind::Return, Mode::User, from);
        }
        let cost = recorder.driven.cpu.cost(|| {
            recorder.registers();
        });
        assert_eq!(cost, (1 + reads * 32, 0));
        let lbr = recorder.lbr();
        let branch = lbr
            .branch(recorder.registers()[0], recorder.control())
            .unwrap();
        assert_eq!(branch.is_mispredicted(lbr), prediction);
    }
}

/// What each kind of registers costs: to record at first and again, to wipe, to stop, and to find nothing.
#[test]
fn registers_are_accessed_no_more_than_needed() {
    for (config, depth, costs) in [
        (
            intel_model(0x17),
            4,
            [(1, 1), (1, 0), (1, 1), (1, 1), (2, 0)],
        ),
        (
            intel_model(0x55),
            32,
            [(1, 2), (1, 0), (1, 1), (1, 1), (2, 0)],
        ),
        (amd(3, 6), 16, [(2, 3), (2, 0), (0, 16), (2, 2), (16, 0)]),
        (
            config(5, 8, 4, 48),
            32,
            [(1, 2), (0, 1), (0, 1), (0, 1), (1, 0)],
        ),
    ] {
        let recorder = Recorder::new(config, depth);
        let cost = |f: &dyn Fn()| recorder.driven.cpu.cost(f);
        let found = [
            cost(&|| recorder.record(ANY)),
            cost(&|| recorder.record(ANY)),
            cost(&|| recorder.wipe()),
            cost(&|| recorder.records().stop()),
            cost(&|| assert_eq!(recorder.registers(), [])),
        ];
        assert_eq!(found, costs, "{config:?}");
    }
}

#[test]
fn amd_refuses_what_it_cannot_do() {
    let recorder = Recorder::new(amd(3, 6), 16);
    let control = |request| recorder.lbr().control(BranchRequest::from_raw(request));
    // Aborts, in a transaction, in none, call stacks, no flags, no cycles.
    for bit in [7, 8, 9, 11, 14, 15] {
        assert_eq!(control(ANY | (1 << bit)), Err(RequestError::Unsupported));
    }
    // The kinds and levels that there are, the kind, the index and the level of a record, and counts that are left out.
    for bit in [1, 2, 4, 5, 6, 10, 12, 13, 16, 17, 18, 19] {
        assert!(control(ANY | (1 << bit)).is_ok());
    }
}

/// BPF's snapshot of branches clears what has PMIs stop recording. In-tree: `__intel_pmu_lbr_disable()`,
/// `__amd_pmu_lbr_disable()`.
#[test]
fn pmis_stop_recording_after_a_snapshot() {
    for row in rows()
        .into_iter()
        .filter(|row| is_legacy(&row.config) || row.config.vendor.is_amd())
    {
        let recorder = row.recorder();
        recorder.record(ANY);
        let debugctl = || recorder.driven.cpu.pmu.borrow().rdmsr(0x1d9).unwrap();
        let before = debugctl();
        recorder.records().pause();
        recorder
            .driven
            .cpu
            .pmu
            .borrow_mut()
            .wrmsr(0x1d9, 0)
            .unwrap();
        recorder.records().resume(recorder.control());
        assert_eq!(debugctl(), before, "{row:?}");
        assert!(recorder.records().is_enabled());
    }
}
