// SPDX-License-Identifier: GPL-2.0

//! What a PMU does: registers, counts, PMIs, save and restore.

mod common;

use std::{ffi::CStr, ptr};

use common::*;
use pmu_bridge::*;

/// Reference cycles in user mode, with a PMI.
#[test]
fn ref_cycles() {
    for (text, tsc, count, until) in [
        (c"instructions", false, 75, [PMU_TSC_NEVER; 2]),
        (c"tsc", true, 1000, [(1 << 48) - 1000, PMU_TSC_NEVER]),
    ] {
        let mut pmu = create(&with_ref_cycles(text)).unwrap();
        assert_eq!(pmu_ref_cycles_are_tsc(&pmu), tsc);
        assert_eq!(tsc_until_overflow(&pmu), [PMU_TSC_NEVER; 2]);
        assert_eq!(pmu_wrmsr(&mut pmu, 0x186, 0x51_013c), PMU_OK);
        let counts = PmuCounts {
            instructions: [100, 0],
            branches: [0, 0],
            tsc: [1000, 2000],
            ..NOTHING
        };
        pmu_retire(&mut pmu, &counts);
        assert_eq!(rdmsr(&pmu, 0xc1), (PMU_OK, count));
        assert_eq!(tsc_until_overflow(&pmu), until);
    }
}

#[test]
fn accesses_are_counted_on_request() {
    let config = PmuConfig {
        count_accesses: true,
        ..INTEL
    };
    let pmu = create(&config).unwrap();
    assert_eq!(rdmsr(&pmu, 0xc1), (PMU_OK, 0));
    assert_eq!(cpuid(&pmu, PMU_CPUID_ACCESSES, 0), Some([1, 1, 0, 0]));
    assert_eq!(cpuid(&pmu, PMU_CPUID_ACCESSES, 1), Some([0xc1, 1, 0, 0]));
    assert_eq!(cpuid(&create(&INTEL).unwrap(), PMU_CPUID_ACCESSES, 0), None);
}

#[test]
fn every_second_pmi_is_lost() {
    let mut pmu = create(&with_fault(c"lose:2", INTEL)).unwrap();
    let one = PmuCounts {
        instructions: [1, 0],
        ..NOTHING
    };
    // Instructions in user mode, with a PMI.
    assert_eq!(pmu_wrmsr(&mut pmu, 0x186, 0x51_00c0), PMU_OK);
    for arrives in [true, false, true, false] {
        assert_eq!(pmu_wrmsr(&mut pmu, 0xc1, u64::MAX), PMU_OK);
        pmu_retire(&mut pmu, &one);
        assert_eq!(pmu_take_pmi(&mut pmu), arrives);
    }
}

#[test]
fn a_register_faults_after_three_accesses() {
    const GLOBAL_CTRL: u32 = 0x38f;
    let mut pmu = create(&with_fault(c"gp:0x38f:3", INTEL)).unwrap();
    assert_eq!(pmu_wrmsr(&mut pmu, GLOBAL_CTRL, 5), PMU_OK);
    assert_eq!(rdmsr(&pmu, GLOBAL_CTRL), (PMU_OK, 5));
    assert_eq!(rdmsr(&pmu, GLOBAL_CTRL), (PMU_OK, 5));
    assert_eq!(rdmsr(&pmu, GLOBAL_CTRL), (PMU_GP, UNSET));
    assert_eq!(pmu_wrmsr(&mut pmu, GLOBAL_CTRL, 0), PMU_GP);
    pmu_reset(&mut pmu);
    assert_eq!(rdmsr(&pmu, GLOBAL_CTRL), (PMU_OK, 0xf));
}

#[test]
fn from_wrmsr_to_pmi() {
    const PERFEVTSEL0: u32 = 0x186;
    const PMC0: u32 = 0xc1;
    let mut pmu = create(&INTEL).unwrap();
    let counts = |instructions, branches| PmuCounts {
        instructions: [0, instructions],
        branches: [0, branches],
        tsc: [0, 0],
        ..NOTHING
    };
    // Branches in kernel mode, with a PMI.
    assert_eq!(pmu_wrmsr(&mut pmu, PERFEVTSEL0, 0x52_00c4), PMU_OK);
    assert_eq!(pmu_wrmsr(&mut pmu, PMC0, -10_i64 as u64), PMU_OK);
    assert_eq!(pmu_wrmsr(&mut pmu, PERFEVTSEL0, 1 << 40), PMU_GP);
    assert_eq!(pmu_wrmsr(&mut pmu, 0x10, 0), PMU_UNKNOWN_MSR);
    assert_eq!(rdmsr(&pmu, 0x38d + 9), (PMU_UNKNOWN_MSR, UNSET));
    assert_eq!(rdpmc(&mut pmu, 0, false), (PMU_GP, UNSET));
    assert!(pmu_counting(&pmu));
    assert_eq!(budget(&pmu, 1), [u64::MAX / 4, 10]);

    pmu_retire(&mut pmu, &counts(10, 9));
    assert!(!pmu_take_pmi(&mut pmu));
    assert_eq!(rdpmc(&mut pmu, 0, true), (PMU_OK, (1 << 48) - 1));
    pmu_retire(&mut pmu, &counts(1, 1));
    assert!(pmu_take_pmi(&mut pmu));
    assert!(!pmu_take_pmi(&mut pmu));
    assert_eq!(rdmsr(&pmu, PMC0), (PMU_OK, 0));

    pmu_reset(&mut pmu);
    assert!(!pmu_counting(&pmu));
}

/// The state, as C saves it.
fn save(pmu: &PmuBridge) -> Vec<u8> {
    // SAFETY: No buffer is needed for 0 bytes.
    let size = unsafe { pmu_save(pmu, ptr::null_mut(), 0) };
    let mut state = vec![0xff; size];
    // SAFETY: `state` has so many bytes. One less is not enough, and it stays as it is.
    assert_eq!(unsafe { pmu_save(pmu, state.as_mut_ptr(), size - 1) }, size);
    assert!(state.iter().all(|byte| *byte == 0xff));
    // SAFETY: `state` has so many bytes.
    assert_eq!(unsafe { pmu_save(pmu, state.as_mut_ptr(), size) }, size);
    state
}

fn restore(pmu: &mut PmuBridge, state: &[u8]) -> Result<(), &'static str> {
    // SAFETY: `state` has so many bytes.
    let message = unsafe { pmu_restore(pmu, state.as_ptr(), state.len()) };
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: It is not NULL, and all messages are static.
    Err(unsafe { CStr::from_ptr(message) }.to_str().unwrap())
}

#[test]
fn a_pmu_is_saved_and_restored() {
    const PERFEVTSEL0: u32 = 0x186;
    let mut pmu = create(&INTEL).unwrap();
    assert_eq!(pmu_wrmsr(&mut pmu, PERFEVTSEL0, 0x52_00c4), PMU_OK);
    let state = save(&pmu);
    let mut other = create(&INTEL).unwrap();
    restore(&mut other, &state).unwrap();
    assert_eq!(rdmsr(&other, PERFEVTSEL0), (PMU_OK, 0x52_00c4));
    assert!(pmu_counting(&other));

    let message = restore(&mut create(&AMD).unwrap(), &state).unwrap_err();
    assert!(message.contains("another one"), "{message}");
    for damaged in [&state[1..], b"", b"{}"] {
        let message = restore(&mut other, damaged).unwrap_err();
        assert!(message.contains("damaged"), "{message}");
        assert!(pmu_counting(&other));
    }
}
