// SPDX-License-Identifier: GPL-2.0

//! Which PMUs there are, and what they have.

mod common;

use std::mem::MaybeUninit;

use common::*;
use pmu_bridge::*;

#[test]
fn invalid_configurations() {
    for (config, property) in [
        (
            PmuConfig {
                vendor: c"TCGTCGTCGTCG".as_ptr(),
                ..INTEL
            },
            "pmu=on",
        ),
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
                vendor: AMD.vendor,
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
            "one of lose:N",
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
        ..NOTHING
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

/// The number of records of a PMU, and the format in PERF_CAPABILITIES.
fn lbrs(config: &PmuConfig) -> Option<(u32, u64)> {
    const PERF_CAPABILITIES: u32 = 0x345;
    let pmu = create(config).unwrap();
    let format = match rdmsr(&pmu, PERF_CAPABILITIES) {
        (PMU_OK, value) => value & 0x3f,
        _ => 0,
    };
    // Each has so many records, and one more that matters for cycles.
    pmu_has_lbrs(&pmu).then(|| (pmu_last_branches(&pmu) - 1, format))
}

#[test]
fn branch_records() {
    let intel = |model, version, lbr| PmuConfig {
        family: 6,
        model,
        version,
        lbr,
        ..INTEL
    };
    let default = PMU_LBR_DEFAULT;
    for (model, version, lbr, expected) in [
        (0x5e, 0, default, Some((32, 5))),
        (0x5e, 4, default, Some((32, 5))),
        (0x5e, 3, default, Some((32, 5))),
        (0x5e, 1, default, None),
        (0x5e, 0, 0, None),
        (0x5e, 0, 8, Some((8, 5))),
        (0x17, 0, default, Some((4, 2))),
        (0x0e, 0, default, None),
        (0x8f, 0, default, Some((32, 0x3f))),
        (0x8f, 0, 16, Some((16, 0x3f))),
        (0x8f, 3, default, None),
        // It is none in particular.
        (0xff, 0, default, None),
        (0xff, 0, 32, Some((32, 0x3f))),
    ] {
        let found = lbrs(&intel(model, version, lbr));
        assert_eq!(found, expected, "{model:#x}, version {version}: {lbr}");
    }
    for cpu in 0..4 {
        let hybrid = hybrid(c"2", 0x97, cpu);
        assert_eq!(lbrs(&hybrid), Some((32, 0x3f)));
        assert_eq!(lbrs(&PmuConfig { lbr: 0, ..hybrid }), None);
    }
    let zen_4 = PmuConfig {
        family: 0x19,
        model: 0x11,
        ..AMD
    };
    let zen_3 = PmuConfig { model: 1, ..zen_4 };
    assert_eq!(lbrs(&zen_4), Some((16, 0)));
    assert_eq!(lbrs(&PmuConfig { lbr: 4, ..zen_4 }), Some((4, 0)));
    assert_eq!(lbrs(&zen_3), None);
    assert_eq!(lbrs(&AMD), None);
    for config in [
        intel(0x8f, 3, 32),
        intel(0xff, 3, 32),
        intel(0x5e, 0, 5),
        intel(0x17, 0, 16),
        PmuConfig { lbr: 16, ..zen_3 },
        PmuConfig { lbr: 33, ..zen_4 },
    ] {
        let error = create(&config).unwrap_err();
        assert!(error.contains("pmu-lbr"), "{error}");
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
fn lvtpc_is_masked_on_amd() {
    let pmu = create(&with_fault(c"mask-lvtpc", AMD)).unwrap();
    assert!(pmu_pmi_masks_lvtpc(&pmu));
}
