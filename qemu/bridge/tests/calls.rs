// SPDX-License-Identifier: GPL-2.0

//! Calls the bridge in the way that C does.

use std::{
    ffi::{c_char, c_int, CStr},
    mem::MaybeUninit,
    ptr,
};

use pmu_bridge::*;

const INTEL: PmuConfig = PmuConfig {
    vendor: 0,
    threads: 0,
    model: 0,
    stepping: 0,
    family: 0,
    version: 0,
    general: 0,
    general_mask: 0,
    fixed: PMU_FIXED_DEFAULT,
    width: 0,
    full_width: 0,
    cpus: 1,
    cpu: 0,
    hybrid: ptr::null(),
    ref_cycles: ptr::null(),
    fault: ptr::null(),
    count_accesses: false,
};

const AMD: PmuConfig = PmuConfig { vendor: 1, ..INTEL };

fn with_fault(fault: &'static CStr, config: PmuConfig) -> PmuConfig {
    PmuConfig {
        fault: fault.as_ptr(),
        ..config
    }
}

/// vCPU `cpu` of four of a processor of family 6.
fn hybrid(text: &'static CStr, model: u8, cpu: u32) -> PmuConfig {
    PmuConfig {
        family: 6,
        model,
        cpus: 4,
        cpu,
        hybrid: text.as_ptr(),
        ..INTEL
    }
}

fn create(config: &PmuConfig) -> Result<Box<PmuBridge>, &'static str> {
    let mut error = MaybeUninit::<*const c_char>::uninit();
    // SAFETY: Every string in this file is NULL or from a `&'static CStr`.
    match unsafe { pmu_new(config, &mut error) } {
        Some(pmu) => Ok(pmu),
        None => {
            // SAFETY: `pmu_new` has returned NULL, so it has set `error` to a string, and
            // all its messages are static.
            let message = unsafe { CStr::from_ptr(error.assume_init()) };
            Err(message.to_str().unwrap())
        }
    }
}

/// The registers of a CPUID subleaf, `None` if the leaf does not belong to the PMU.
fn cpuid(pmu: &PmuBridge, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    let mut regs = MaybeUninit::new([0; 4]);
    let known = pmu_cpuid(pmu, leaf, subleaf, &mut regs);
    // SAFETY: It was initialised above.
    known.then_some(unsafe { regs.assume_init() })
}

/// The result and the value of RDMSR. The value is `UNSET` if the bridge has not set it.
fn rdmsr(pmu: &PmuBridge, msr: u32) -> (c_int, u64) {
    let mut value = MaybeUninit::new(UNSET);
    let result = pmu_rdmsr(pmu, msr, &mut value);
    // SAFETY: It was initialised above.
    (result, unsafe { value.assume_init() })
}

/// The same for RDPMC with CR4.PCE clear.
fn rdpmc(pmu: &mut PmuBridge, ecx: u32, cpl0: bool) -> (c_int, u64) {
    let mut value = MaybeUninit::new(UNSET);
    let result = pmu_rdpmc(pmu, ecx, cpl0, false, &mut value);
    // SAFETY: It was initialised above.
    (result, unsafe { value.assume_init() })
}

fn budget(pmu: &PmuBridge, mode: u32) -> [u64; 2] {
    let mut budget = MaybeUninit::new([0; 2]);
    pmu_budget(pmu, mode, &mut budget);
    // SAFETY: It was initialised above.
    unsafe { budget.assume_init() }
}

fn tsc_until_overflow(pmu: &PmuBridge) -> [u64; 2] {
    let mut until = MaybeUninit::new([0; 2]);
    pmu_tsc_until_overflow(pmu, &mut until);
    // SAFETY: It was initialised above.
    unsafe { until.assume_init() }
}

fn with_ref_cycles(text: &'static CStr) -> PmuConfig {
    PmuConfig {
        ref_cycles: text.as_ptr(),
        ..INTEL
    }
}

const UNSET: u64 = 0xdead;

#[test]
fn invalid_configurations() {
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
        (with_fault(c"lose:0", INTEL), "lose:N"),
        (with_fault(c"status:0x10", INTEL), "status:"),
        (
            PmuConfig {
                version: 1,
                ..with_fault(c"status:1", INTEL)
            },
            "status:",
        ),
        (
            PmuConfig {
                version: 2,
                ..with_fault(c"status:1", AMD)
            },
            "status:",
        ),
        (with_fault(c"gp:0x10:5", INTEL), "gp:"),
        (with_fault(c"gp:0x38f:5", AMD), "gp:"),
        (with_fault(c"mask-lvtpc", INTEL), "mask-lvtpc"),
        (with_ref_cycles(c""), "pmu-ref-cycles"),
        (with_ref_cycles(c"TSC"), "pmu-ref-cycles"),
        (
            hybrid(c"4", 0x97, 0),
            "must be the number of efficient cores",
        ),
        (
            hybrid(c"0", 0x97, 0),
            "must be the number of efficient cores",
        ),
        (
            hybrid(c"two", 0x97, 0),
            "must be the number of efficient cores",
        ),
        (hybrid(c"2", 0x8f, 0), "needs a hybrid processor"),
        (hybrid(c"2+1", 0x97, 3), "has no low-power cores"),
        (
            PmuConfig {
                version: 5,
                ..hybrid(c"2", 0x97, 0)
            },
            "excludes pmu-version",
        ),
        (
            PmuConfig {
                vendor: 1,
                ..hybrid(c"2", 0x97, 0)
            },
            "needs a hybrid processor",
        ),
        (
            PmuConfig {
                threads: 2,
                ..hybrid(c"2", 0x97, 0)
            },
            "excludes threads=N",
        ),
        (
            with_fault(c"efficient:gp:0x187:0", INTEL),
            "efficient: needs pmu-hybrid",
        ),
        (
            with_fault(c"efficient:", hybrid(c"2", 0x97, 0)),
            "must be lose:N",
        ),
        (
            with_fault(c"efficient:gp:0x30c:0", hybrid(c"2", 0x97, 3)),
            "gp:",
        ),
    ] {
        let error = create(&config).unwrap_err();
        assert!(error.contains(property), "{error}");
    }
}

#[test]
fn configuration() {
    let config = PmuConfig {
        version: 2,
        general: 5,
        fixed: 1,
        width: 33,
        ..INTEL
    };
    let pmu = create(&config).unwrap();
    assert_eq!(
        cpuid(&pmu, 0xa, 0),
        Some([0x0721_0502, 0, 0, (33 << 5) | 1])
    );
    assert_eq!(cpuid(&pmu, 0x7, 0), None);
    assert!(pmu_pdcm(&pmu));
    assert!(pmu_pmi_masks_lvtpc(&pmu));
    assert!(!pmu_perfctr_core(&pmu));
    pmu_free(Some(pmu));
    pmu_free(None);
}

#[test]
fn cores_of_a_hybrid_processor() {
    for (cpu, leaf) in [0x4000_0003, 0x2000_0003, 0x2000_0003, 0x2000_0002]
        .into_iter()
        .enumerate()
    {
        let pmu = create(&hybrid(c"2+1", 0xc5, cpu as u32)).unwrap();
        assert!(pmu_hybrid(&pmu));
        assert!(pmu_perfmon_ext(&pmu));
        assert_eq!(cpuid(&pmu, 0x1a, 0), Some([leaf, 0, 0, 0]), "{cpu}");
    }
    let pmu = create(&INTEL).unwrap();
    assert!(!pmu_hybrid(&pmu));
    assert_eq!(cpuid(&pmu, 0x1a, 0), None);
}

#[test]
fn defect_of_efficient_cores() {
    const EVENTSEL_1: u32 = 0x187;
    for (cpu, result) in [PMU_OK, PMU_OK, PMU_GP, PMU_GP].into_iter().enumerate() {
        let config = hybrid(c"2", 0x97, cpu as u32);
        let pmu = create(&with_fault(c"efficient:gp:0x187:0", config)).unwrap();
        let mut value = MaybeUninit::uninit();
        assert_eq!(pmu_rdmsr(&pmu, EVENTSEL_1, &mut value), result, "{cpu}");
    }
    // Low-power cores are not efficient ones.
    let config = with_fault(c"efficient:gp:0x187:0", hybrid(c"2+1", 0xc5, 3));
    let mut value = MaybeUninit::uninit();
    let result = pmu_rdmsr(&create(&config).unwrap(), EVENTSEL_1, &mut value);
    assert_eq!(result, PMU_OK);
}

#[test]
fn registers_of_a_processor() {
    const MSR_OFFCORE_RSP_0: u32 = 0x1a6;
    let skylake = PmuConfig {
        family: 6,
        model: 0x5e,
        stepping: 3,
        ..INTEL
    };
    let mut pmu = create(&skylake).unwrap();
    assert_eq!(pmu_wrmsr(&mut pmu, MSR_OFFCORE_RSP_0, 0x10001), PMU_OK);
    assert_eq!(rdmsr(&pmu, MSR_OFFCORE_RSP_0), (PMU_OK, 0x10001));
    assert_eq!(pmu_wrmsr(&mut pmu, MSR_OFFCORE_RSP_0, 1 << 63), PMU_GP);
    let pmu = create(&INTEL).unwrap();
    assert_eq!(rdmsr(&pmu, MSR_OFFCORE_RSP_0), (PMU_UNKNOWN_MSR, UNSET));
}

/// Sandy Bridge: while one thread counts event D0H, the same counter of the other is wrong.
#[test]
fn threads_of_a_core_disturb_each_other() {
    const GLOBAL_CTRL: u32 = 0x38f;
    let count = |cpu, eventsel| {
        let config = PmuConfig {
            threads: 2,
            family: 6,
            model: 0x2a,
            cpus: 4,
            cpu,
            ..INTEL
        };
        let mut pmu = create(&config).unwrap();
        assert_eq!(pmu_wrmsr(&mut pmu, 0x186, eventsel), PMU_OK);
        assert_eq!(pmu_wrmsr(&mut pmu, GLOBAL_CTRL, 1), PMU_OK);
        pmu
    };
    let [mut second, mut third, _first] = [
        count(1, 0x41_00c0),
        count(2, 0x41_00c0),
        count(0, 0x41_81d0),
    ];
    let ten = PmuCounts {
        instructions: [10, 0],
        branches: [0, 0],
        conditional: [0, 0],
        conditional_taken: [0, 0],
        near_unconditional: [0, 0],
        loads: [0, 0],
        stores: [0, 0],
        tsc: [0, 0],
    };
    for (pmu, expected) in [(&mut second, 10 + (1 << 40)), (&mut third, 10)] {
        pmu_retire(pmu, &ten);
        assert_eq!(rdmsr(pmu, 0xc1), (PMU_OK, expected));
    }
}

/// Nehalem: the threads of a core share MSR_OFFCORE_RSP_0, however many they are.
#[test]
fn threads_of_a_core_share_registers() {
    const MSR_OFFCORE_RSP_0: u32 = 0x1a6;
    let create = |cpu| {
        create(&PmuConfig {
            threads: 4,
            family: 6,
            model: 0x1a,
            cpus: 8,
            cpu,
            ..INTEL
        })
        .unwrap()
    };
    let mut pmus: Vec<_> = (0..8).map(create).collect();
    assert_eq!(pmu_wrmsr(&mut pmus[2], MSR_OFFCORE_RSP_0, 3), PMU_OK);
    let values = pmus.iter().map(|pmu| rdmsr(pmu, MSR_OFFCORE_RSP_0).1);
    assert_eq!(values.collect::<Vec<_>>(), [3, 3, 3, 3, 0, 0, 0, 0]);
}

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
            conditional: [0, 0],
            conditional_taken: [0, 0],
            near_unconditional: [0, 0],
            loads: [0, 0],
            stores: [0, 0],
            tsc: [1000, 2000],
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
fn leaf_23h() {
    let config = PmuConfig {
        version: 6,
        general_mask: 0b10_1011,
        ..INTEL
    };
    let pmu = create(&config).unwrap();
    assert!(pmu_perfmon_ext(&pmu));
    assert_eq!(cpuid(&pmu, 0x23, 1), Some([0b10_1011, 0b1111, 0, 0]));

    let pmu = create(&INTEL).unwrap();
    assert!(!pmu_perfmon_ext(&pmu));
    assert_eq!(cpuid(&pmu, 0x23, 1), None);
}

#[test]
fn amd() {
    for (version, general, leaf, core) in [
        (1, 0, None, false),
        (2, 6, None, true),
        (0, 0, Some([1, 6, 0, 0]), true),
        (3, 15, Some([1, 15, 0, 0]), true),
    ] {
        let mut pmu = create(&PmuConfig {
            version,
            general,
            ..AMD
        })
        .unwrap();
        assert_eq!(cpuid(&pmu, 0x8000_0022, 0), leaf);
        assert_eq!(pmu_perfctr_core(&pmu), core);
        assert!(!pmu_pdcm(&pmu));
        assert!(!pmu_pmi_masks_lvtpc(&pmu));
        // Branches, with reserved bits set, which are ignored.
        assert_eq!(
            pmu_wrmsr(&mut pmu, 0xc001_0000, 0xffff_fcf0_0052_00c2),
            PMU_OK
        );
        assert!(pmu_counting(&pmu));
    }
}

#[test]
fn every_second_pmi_is_lost() {
    let mut pmu = create(&with_fault(c"lose:2", INTEL)).unwrap();
    let one = PmuCounts {
        instructions: [1, 0],
        branches: [0, 0],
        conditional: [0, 0],
        conditional_taken: [0, 0],
        near_unconditional: [0, 0],
        loads: [0, 0],
        stores: [0, 0],
        tsc: [0, 0],
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
fn lvtpc_is_masked_on_amd() {
    let pmu = create(&with_fault(c"mask-lvtpc", AMD)).unwrap();
    assert!(pmu_pmi_masks_lvtpc(&pmu));
}

#[test]
fn from_wrmsr_to_pmi() {
    const PERFEVTSEL0: u32 = 0x186;
    const PMC0: u32 = 0xc1;
    let mut pmu = create(&INTEL).unwrap();
    let counts = |instructions, branches| PmuCounts {
        instructions: [0, instructions],
        branches: [0, branches],
        conditional: [0, 0],
        conditional_taken: [0, 0],
        near_unconditional: [0, 0],
        loads: [0, 0],
        stores: [0, 0],
        tsc: [0, 0],
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
