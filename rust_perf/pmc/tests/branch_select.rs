// SPDX-License-Identifier: GPL-2.0

//! LBR_SELECT where the threads of a core share it, on the emulated CPU.

use crate::common::recorder::{rows, ANY, CALL_STACK, REQUESTS, USER};
use pmc::lbr::{BranchRequest, RequestError};

/// The threads of a Nehalem's core share LBR_SELECT. Whatever an event of one of them needs, the register lets
/// all branches through, and is written once.
#[test]
fn a_register_of_both_threads_selects_nothing() {
    const LBR_SELECT: u32 = 0x1c8;
    let shared = rows().into_iter().find(|row| row.threads == 2).unwrap();
    let recorder = shared.recorder();
    // What another driver has left.
    let wrmsr = |value| {
        recorder
            .driven
            .cpu
            .pmu
            .borrow_mut()
            .wrmsr(LBR_SELECT, value)
    };
    wrmsr(0x1ff).unwrap();
    recorder.records().forget();
    for (request, _) in REQUESTS {
        recorder.record(request | USER);
        let select = recorder.driven.cpu.pmu.borrow().rdmsr(LBR_SELECT);
        assert_eq!(select, Ok(0), "{request:#x}");
    }
    // What the register holds is known now.
    wrmsr(0x1ff).unwrap();
    recorder.record(ANY);
    assert_eq!(
        recorder.driven.cpu.pmu.borrow().rdmsr(LBR_SELECT),
        Ok(0x1ff)
    );
    let request = BranchRequest::from_raw(CALL_STACK);
    let refused = recorder.lbr().control(request);
    assert_eq!(refused, Err(RequestError::Unsupported));
}
