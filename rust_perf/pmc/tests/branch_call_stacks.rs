// SPDX-License-Identifier: GPL-2.0

//! The calls that a task is in, in the branch records of each kind of registers, on the emulated CPU.

use crate::common::{
    intel_model,
    recorder::{rows, Recorder, Row, CALL_STACK, KERNEL},
};
use pmc::lbr::{BranchRequest, RequestError};
use pmu_model::{BranchKind, Mode};

/// The calls that a task is in go with it from CPU to CPU.
#[test]
fn call_stacks_are_brought_back() {
    for row in rows() {
        let Row { config, depth, .. } = row;
        for calls in [0, 1, 5, 16, 40] {
            let here = row.recorder();
            let request = BranchRequest::from_raw(CALL_STACK);
            if here.lbr().control(request) == Err(RequestError::Unsupported) {
                // From Haswell on.
                let selects = matches!(depth, 4 | 8) || config.vendor.is_amd();
                let model = config.signature.map_or(0, |it| it.model);
                assert!(selects || [0x1e, 0x2c, 0x2a, 0x3a].contains(&model));
                break;
            }
            here.record(CALL_STACK);
            for from in 1..=calls {
                here.branch(BranchKind::RelativeCall, Mode::User, from);
            }
            here.records().stop();
            let saved = here.registers();
            assert_eq!(saved.len(), (calls as usize).min(depth.into()));
            // Another task has left its calls there.
            let there = row.recorder();
            there.record(CALL_STACK);
            for from in 100..120 {
                there.branch(BranchKind::IndirectCall, Mode::User, from);
            }
            there.records().stop();
            there
                .records()
                .restore(there.control(), saved.iter().copied());
            assert_eq!(there.read(), here.read(), "{config:?}");
            // It returns from all of them, and once more.
            there.record(CALL_STACK);
            for left in (0..saved.len()).rev() {
                there.branch(BranchKind::Return, Mode::User, 50);
                assert_eq!(there.read().len(), left, "{config:?}");
            }
            for _ in 0..2 * depth {
                there.branch(BranchKind::Return, Mode::User, 50);
                assert_eq!(there.read(), [], "{config:?}");
            }
        }
    }
}

/// After a wipe no return finds a call of the task before.
#[test]
fn returns_find_no_older_call_after_a_wipe() {
    for row in rows() {
        let Row { config, depth, .. } = row;
        let recorder = row.recorder();
        let request = BranchRequest::from_raw(CALL_STACK);
        if recorder.lbr().control(request).is_err() {
            continue;
        }
        recorder.record(CALL_STACK);
        for from in 1..=40 {
            recorder.branch(BranchKind::RelativeCall, Mode::User, from);
        }
        recorder.records().stop();
        recorder.wipe();
        recorder.record(CALL_STACK);
        recorder.branch(BranchKind::RelativeCall, Mode::User, 99);
        for _ in 0..2 * depth {
            recorder.branch(BranchKind::Return, Mode::User, 100);
            assert_eq!(recorder.read(), [], "{config:?}");
        }
    }
}

/// Without transactions their flags are a part of the sign: a call of the kernel that is brought back twice is
/// the call of the kernel that was recorded.
#[test]
fn kernel_addresses_are_brought_back_without_transactions() {
    const CALL: u64 = 0xffff_ffff_8123_4567;
    for model in [0x3c, 0x4f] {
        let recorder = Recorder::new(intel_model(model), 16);
        recorder.record(KERNEL | (1 << 11));
        for i in 0..3 {
            recorder.branch(BranchKind::RelativeCall, Mode::Kernel, CALL + i);
        }
        let branches = recorder.read();
        assert_eq!(branches.len(), 3);
        for _ in 0..2 {
            recorder.records().stop();
            let saved = recorder.registers();
            recorder
                .records()
                .restore(recorder.control(), saved.into_iter());
            assert_eq!(recorder.read(), branches);
            for record in recorder.registers() {
                let branch = recorder.lbr().branch(record, recorder.control()).unwrap();
                assert!(!branch.is_abort() && !branch.is_in_transaction());
            }
        }
    }
}
