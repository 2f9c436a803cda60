// SPDX-License-Identifier: GPL-2.0

//! The bridge, called as C calls it.

use std::{
    ffi::{c_char, CStr},
    ptr,
};

use pmu_bridge::*;

const INTEL: PmuConfig = PmuConfig {
    vendor: 0,
    version: 0,
    general: 0,
    general_mask: 0,
    fixed: PMU_FIXED_USUAL,
    width: 0,
    fault: ptr::null(),
};

const AMD: PmuConfig = PmuConfig { vendor: 1, ..INTEL };

fn faulty(fault: &'static CStr, config: PmuConfig) -> PmuConfig {
    PmuConfig {
        fault: fault.as_ptr(),
        ..config
    }
}

fn create(config: &PmuConfig) -> Result<*mut PmuBridge, &'static str> {
    let mut error: *const c_char = ptr::null();
    // SAFETY: Both live during the call.
    let pmu = unsafe { pmu_new(config, &mut error) };
    if pmu.is_null() {
        // SAFETY: The bridge says why, and its texts are static.
        Err(unsafe { CStr::from_ptr(error) }.to_str().unwrap())
    } else {
        Ok(pmu)
    }
}

#[test]
fn what_is_wrong_with_a_configuration() {
    for (config, property) in [
        (PmuConfig { vendor: 9, ..INTEL }, "pmu=on"),
        (
            PmuConfig {
                version: 7,
                ..INTEL
            },
            "pmu-version",
        ),
        (
            PmuConfig {
                general: 9,
                ..INTEL
            },
            "pmu-counters",
        ),
        (PmuConfig { fixed: 4, ..INTEL }, "pmu-fixed"),
        (PmuConfig { width: 31, ..INTEL }, "pmu-width"),
        (
            PmuConfig {
                general_mask: 0b1011,
                ..INTEL
            },
            "pmu-counter-mask",
        ),
        (
            PmuConfig {
                version: 6,
                general: 4,
                general_mask: 0b1111,
                ..INTEL
            },
            "pmu-counter-mask",
        ),
        (
            PmuConfig {
                version: 6,
                general_mask: 0x100,
                ..INTEL
            },
            "pmu-counters",
        ),
        (PmuConfig { version: 4, ..AMD }, "pmu-version"),
        (PmuConfig { general: 16, ..AMD }, "pmu-counters"),
        (
            PmuConfig {
                version: 1,
                general: 6,
                ..AMD
            },
            "pmu-counters",
        ),
        (PmuConfig { fixed: 1, ..AMD }, "pmu-fixed"),
        (PmuConfig { width: 40, ..AMD }, "pmu-width"),
        (faulty(c"lose:0", INTEL), "lose:N"),
        (faulty(c"status:0x10", INTEL), "status:"),
        (
            PmuConfig {
                version: 1,
                ..faulty(c"status:1", INTEL)
            },
            "status:",
        ),
        (
            PmuConfig {
                version: 2,
                ..faulty(c"status:1", AMD)
            },
            "status:",
        ),
        (faulty(c"gp:0x10:5", INTEL), "gp:"),
        (faulty(c"gp:0x38f:5", AMD), "gp:"),
        (faulty(c"mask-lvtpc", INTEL), "mask-lvtpc"),
    ] {
        let error = create(&config).unwrap_err();
        assert!(error.contains(property), "{error}");
    }
}

#[test]
fn what_is_set_is_set() {
    let config = PmuConfig {
        version: 2,
        general: 5,
        fixed: 1,
        width: 33,
        ..INTEL
    };
    let pmu = create(&config).unwrap();
    let mut regs = [0; 4];
    // SAFETY: The PMU is this test's, and the registers live during the calls.
    unsafe {
        assert!(pmu_cpuid(pmu, 0xa, 0, regs.as_mut_ptr()));
        assert_eq!(regs, [0x0721_0502, 0, 0, (33 << 5) | 1]);
        assert!(!pmu_cpuid(pmu, 0x7, 0, regs.as_mut_ptr()));
        assert_ne!(pmu_perf_capabilities(pmu), 0);
        assert!(pmu_pmi_masks_lvtpc(pmu));
        assert!(!pmu_perfctr_core(pmu));
        pmu_free(pmu);
        pmu_free(ptr::null_mut());
    }
}

#[test]
fn leaf_23h() {
    let config = PmuConfig {
        version: 6,
        general_mask: 0b10_1011,
        ..INTEL
    };
    let pmu = create(&config).unwrap();
    let mut regs = [0; 4];
    // SAFETY: The PMU is this test's, and the registers live during the calls.
    unsafe {
        assert!(pmu_perfmon_ext(pmu));
        assert!(pmu_cpuid(pmu, 0x23, 1, regs.as_mut_ptr()));
        assert_eq!(regs, [0b10_1011, 0b1111, 0, 0]);
        pmu_free(pmu);
        let pmu = create(&INTEL).unwrap();
        assert!(!pmu_perfmon_ext(pmu));
        assert!(!pmu_cpuid(pmu, 0x23, 1, regs.as_mut_ptr()));
        pmu_free(pmu);
    }
}

#[test]
fn amd() {
    for (version, general, leaf, core) in [
        (1, 0, None, false),
        (2, 6, None, true),
        (0, 0, Some([1, 6, 0, 0]), true),
        (3, 15, Some([1, 15, 0, 0]), true),
    ] {
        let pmu = create(&PmuConfig {
            version,
            general,
            ..AMD
        })
        .unwrap();
        let mut regs = [0; 4];
        // SAFETY: The PMU is this test's, and the registers live during the calls.
        unsafe {
            let there = pmu_cpuid(pmu, 0x8000_0022, 0, regs.as_mut_ptr());
            assert_eq!(there.then_some(regs), leaf);
            assert_eq!(pmu_perfctr_core(pmu), core);
            assert_eq!(pmu_perf_capabilities(pmu), 0);
            assert!(!pmu_pmi_masks_lvtpc(pmu));
            // Branches; the bits that are reserved are dropped.
            assert_eq!(pmu_wrmsr(pmu, 0xc001_0000, 0xffff_fcf0_0052_00c2), PMU_OK);
            assert!(pmu_counting(pmu));
            pmu_free(pmu);
        }
    }
}

#[test]
fn every_second_pmi_is_lost() {
    let pmu = create(&faulty(c"lose:2", INTEL)).unwrap();
    let one = PmuCounts {
        instructions: [1, 0],
        branches: [0, 0],
    };
    // SAFETY: The PMU is this test's, and the counts live during the calls.
    unsafe {
        // Instructions, user mode, with a PMI.
        assert_eq!(pmu_wrmsr(pmu, 0x186, 0x51_00c0), PMU_OK);
        for arrives in [true, false, true, false] {
            assert_eq!(pmu_wrmsr(pmu, 0xc1, u64::MAX), PMU_OK);
            pmu_retire(pmu, &one);
            assert_eq!(pmu_take_pmi(pmu), arrives);
        }
        pmu_free(pmu);
    }
}

#[test]
fn a_register_faults_after_three_accesses() {
    const GLOBAL_CTRL: u32 = 0x38f;
    let pmu = create(&faulty(c"gp:0x38f:3", INTEL)).unwrap();
    let mut value = 0;
    // SAFETY: The PMU is this test's, and the value lives during the calls.
    unsafe {
        assert_eq!(pmu_wrmsr(pmu, GLOBAL_CTRL, 5), PMU_OK);
        assert_eq!(pmu_rdmsr(pmu, GLOBAL_CTRL, &mut value), PMU_OK);
        assert_eq!(pmu_rdmsr(pmu, GLOBAL_CTRL, &mut value), PMU_OK);
        assert_eq!(value, 5);
        assert_eq!(pmu_rdmsr(pmu, GLOBAL_CTRL, &mut value), PMU_GP);
        assert_eq!(pmu_wrmsr(pmu, GLOBAL_CTRL, 0), PMU_GP);
        assert_eq!(value, 5);
        pmu_free(pmu);
    }
}

#[test]
fn lvtpc_is_masked_on_amd() {
    let pmu = create(&faulty(c"mask-lvtpc", AMD)).unwrap();
    // SAFETY: The PMU is this test's.
    unsafe {
        assert!(pmu_pmi_masks_lvtpc(pmu));
        pmu_free(pmu);
    }
}

#[test]
fn from_wrmsr_to_pmi() {
    const PERFEVTSEL0: u32 = 0x186;
    const PMC0: u32 = 0xc1;
    let pmu = create(&INTEL).unwrap();
    let mut value = 0xdead;
    let mut budget = [0; 2];
    let counts = |instructions, branches| PmuCounts {
        instructions: [0, instructions],
        branches: [0, branches],
    };
    // SAFETY: The PMU is this test's, and all that is pointed to lives.
    unsafe {
        // Branches, kernel mode, with a PMI.
        assert_eq!(pmu_wrmsr(pmu, PERFEVTSEL0, 0x52_00c4), PMU_OK);
        assert_eq!(pmu_wrmsr(pmu, PMC0, -10_i64 as u64), PMU_OK);
        assert_eq!(pmu_wrmsr(pmu, PERFEVTSEL0, 1 << 40), PMU_GP);
        assert_eq!(pmu_wrmsr(pmu, 0x10, 0), PMU_NOT_MINE);
        assert_eq!(pmu_rdmsr(pmu, 0x38d + 9, &mut value), PMU_NOT_MINE);
        assert_eq!(pmu_rdpmc(pmu, 0, false, false, &mut value), PMU_GP);
        assert_eq!(value, 0xdead);
        assert!(pmu_counting(pmu));
        pmu_budget(pmu, 1, budget.as_mut_ptr());
        assert_eq!(budget, [u64::MAX / 4, 10]);

        pmu_retire(pmu, &counts(10, 9));
        assert!(!pmu_take_pmi(pmu));
        assert_eq!(pmu_rdpmc(pmu, 0, true, false, &mut value), PMU_OK);
        assert_eq!(value, (1 << 48) - 1);
        pmu_retire(pmu, &counts(1, 1));
        assert!(pmu_take_pmi(pmu));
        assert!(!pmu_take_pmi(pmu));
        assert_eq!(pmu_rdmsr(pmu, PMC0, &mut value), PMU_OK);
        assert_eq!(value, 0);

        pmu_reset(pmu);
        assert!(!pmu_counting(pmu));
        pmu_free(pmu);
    }
}
