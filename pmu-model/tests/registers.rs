// SPDX-License-Identifier: GPL-2.0

//! The rules for Intel's registers, in every version that has them.

use crate::operations::Operation;
use pmu_model::{
    msr::*, Config, ConfigError, GeneralProtection, Mode, MsrError, PmiFault, Pmu, RefCycles,
    RestoreError, Retired, Shape, Signature, Vendor,
};
use proptest::prelude::*;

const GP: Result<u64, MsrError> = Err(MsrError::GeneralProtection);
const WRITE_GP: Result<(), MsrError> = Err(MsrError::GeneralProtection);

fn pmu(version: u8) -> Pmu {
    Pmu::new(Config::new(Vendor::Intel, version).unwrap()).unwrap()
}

fn with_shape(version: u8, shape: Shape) -> Result<Pmu, ConfigError> {
    Pmu::new(Config {
        vendor: Vendor::Intel,
        version,
        signature: None,
        core_type: None,
        shape,
        ref_cycles: RefCycles::default(),
        lbrs: None,
    })
}

fn shape(general: u8, fixed: u8, width: u8) -> Shape {
    Shape {
        general,
        missing: 0,
        fixed,
        width,
        full_width: true,
    }
}

fn user(instructions: u64) -> [Retired; 2] {
    let branches = 0;
    [
        Retired {
            instructions,
            branches,
            ..Retired::default()
        },
        Retired::default(),
    ]
}

/// Makes counter 0 raise a PMI after `period` instructions in user mode.
fn sample(pmu: &mut Pmu, period: i64) {
    let eventsel = EventSel::EN | EventSel::INT | EventSel::USR | 0xc0;
    pmu.wrmsr(IA32_PERFEVTSEL0, eventsel).unwrap();
    pmu.wrmsr(IA32_PMC0, -period as u64).unwrap();
}

#[test]
fn version_6_has_registers_of_its_fixed_counters_alone() {
    let pmu = with_shape(6, shape(8, 3, 48)).unwrap();
    let read = |i| pmu.rdmsr(IA32_PMC_FX0_CTR + IA32_PMC_V6_STEP * i);
    assert_eq!([2, 3].map(read), [Ok(0), GP]);
}

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(
        ConfigError::FullWidth.to_string(),
        "only Intel's PMUs have aliases for full-width writes"
    );
    assert_eq!(
        MsrError::NotPmu.to_string(),
        "the address does not belong to the PMU"
    );
    assert_eq!(GeneralProtection.to_string(), "RDPMC raises #GP");
    assert_eq!(
        RestoreError::Impossible.to_string(),
        "no PMU can be in this state"
    );
}

/// The other tests, and the registers of the model, have these bits from here.
#[test]
fn bits_are_those_of_the_manuals() {
    use EventSel as Sel;
    assert_eq!(
        [Sel::EVENT, Sel::UMASK, Sel::CMASK],
        [0xff, 0xff00, 0xff00_0000]
    );
    assert_eq!(
        [Sel::USR, Sel::OS, Sel::EDGE, Sel::PC],
        [16, 17, 18, 19].map(|bit| 1 << bit)
    );
    assert_eq!(
        [Sel::INT, Sel::ANY, Sel::EN, Sel::INV],
        [20, 21, 22, 23].map(|bit| 1 << bit)
    );
    assert_eq!(
        [Sel::EQ, Sel::RDPMC_USER_DISABLE],
        [36, 37].map(|bit| 1 << bit)
    );
    assert_eq!([Sel::UMASK2, Sel::EVENT_HIGH], [0xff << 40, 0xf << 32]);
    assert_eq!(
        [Sel::GUEST_ONLY, Sel::HOST_ONLY],
        [40, 41].map(|bit| 1 << bit)
    );
    assert_eq!([FW_WRITE, PERF_METRICS_AVAILABLE], [1 << 13, 1 << 15]);
    assert_eq!([RDPMC_METRICS_CLEAR, PMI_IN_USE], [1 << 19, 1 << 63]);
    assert_eq!((PERF_METRICS_BIT, RDPMC_METRICS), (1 << 48, 0x2000_0000));
    assert_eq!((debugctl::LBR, debugctl::TRACE), (1, 0x7c2));
    assert_eq!(debugctl::FREEZE_LBRS_ON_PMI, 1 << 11);
    assert_eq!(debugctl::FREEZE_PERFMON_ON_PMI, 1 << 12);
}

#[test]
fn configurations() {
    assert_eq!(Config::new(Vendor::Intel, 0), Err(ConfigError::Version));
    assert_eq!(Config::new(Vendor::Intel, 7), Err(ConfigError::Version));
    for version in 1..=6 {
        pmu(version);
        let most_fixed = [0, 0, 3, 3, 3, 4, 4][usize::from(version)];
        let error = |general, fixed, width| with_shape(version, shape(general, fixed, width)).err();
        assert_eq!(error(1, 0, 32), None);
        assert_eq!(error(8, most_fixed, 48), None);
        assert_eq!(error(0, 0, 48), Some(ConfigError::General));
        assert_eq!(error(9, 0, 48), Some(ConfigError::General));
        assert_eq!(error(4, most_fixed + 1, 48), Some(ConfigError::Fixed));
        assert_eq!(error(4, 0, 31), Some(ConfigError::Width));
        assert_eq!(error(4, 0, 49), Some(ConfigError::Width));
        let missing = |missing| {
            let shape = Shape {
                missing,
                ..shape(4, 0, 48)
            };
            with_shape(version, shape).err()
        };
        let before_6 = (version < 6).then_some(ConfigError::Missing);
        assert_eq!(missing(0b0101), before_6);
        for impossible in [0b1111, 0b1_0000] {
            assert_eq!(missing(impossible), Some(ConfigError::Missing));
        }
    }
}

#[test]
fn cpuid_leaf_a() {
    let leaf = |version| pmu(version).cpuid(0xa).unwrap();
    assert_eq!(leaf(1), [0x0728_0201, 0, 0, 0]);
    assert_eq!(leaf(2), [0x0728_0202, 0, 0, (40 << 5) | 3]);
    assert_eq!(leaf(3), [0x0730_0403, 0, 0, (48 << 5) | 3]);
    assert_eq!(leaf(4), [0x0730_0404, 0, 0, (48 << 5) | 3]);
    assert_eq!(leaf(5), [0x0830_0805, 0, 0b1111, (1 << 15) | (48 << 5) | 4]);
    assert_eq!(leaf(6), [0x0830_0806, 0, 0b1111, (1 << 15) | (48 << 5) | 4]);
    for leaf in [0, 1, 9, 0xb, 0x23, 0x8000_0022] {
        assert_eq!(pmu(5).cpuid(leaf), None);
    }
}

#[test]
fn cpuid_leaf_23h() {
    for version in 1..=5 {
        assert!(!pmu(version).perfmon_ext());
        assert_eq!(pmu(version).cpuid_count(0x23, 1), None);
    }
    let pmu = pmu(6);
    assert!(pmu.perfmon_ext());
    // EBX reports UnitMask2 and EQ, ECX four slots per cycle.
    assert_eq!(pmu.cpuid(0x23), Some([0b1011, 0b11, 4, 0]));
    for (subleaf, regs) in [
        (0, [0b1011, 0b11, 4, 0]),
        (1, [0xff, 0b1111, 0, 0]),
        (2, [0; 4]),
        (3, [0xff, 0, 0, 0]),
        (4, [0; 4]),
        (5, [0; 4]),
        (u32::MAX, [0; 4]),
    ] {
        assert_eq!(pmu.cpuid_count(0x23, subleaf), Some(regs), "{subleaf}");
    }
    // A leaf without subleaves returns the same for all of them.
    assert_eq!(pmu.cpuid_count(0xa, 3), pmu.cpuid(0xa));
}

#[test]
fn counters_can_be_missing() {
    let shape = Shape {
        missing: 0b0101_0100,
        ..shape(8, 2, 48)
    };
    let mut pmu = with_shape(6, shape).unwrap();
    let exist = 0b1010_1011;
    assert_eq!(pmu.cpuid_count(0x23, 1), Some([exist, 0b11, 0, 0]));
    // Leaf 0AH reports the counters before the first missing one.
    assert_eq!(pmu.cpuid(0xa).map(|[eax, ..]| (eax >> 8) & 0xff), Some(2));
    let all = u64::from(exist) | (0b11 << 32);
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_CTRL), Ok(u64::from(exist)));
    for i in 0..8 {
        let exists = (exist >> i) & 1 != 0;
        for msr in [
            IA32_PMC0 + i,
            IA32_A_PMC0 + i,
            IA32_PERFEVTSEL0 + i,
            IA32_PMC_GP0_CTR + IA32_PMC_V6_STEP * i,
            IA32_PMC_GP0_CFG_A + IA32_PMC_V6_STEP * i,
        ] {
            let expect = if exists { Ok(0) } else { GP };
            assert_eq!(pmu.rdmsr(msr), expect, "{msr:#x}");
        }
        assert_eq!(pmu.rdpmc(i, true, false).is_ok(), exists, "{i}");
        let written = pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1 << i);
        assert_eq!(written.is_ok(), exists, "{i}");
    }
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, all).unwrap();
    pmu.wrmsr(IA32_PERFEVTSEL0 + 7, EventSel::EN | EventSel::USR | 0xc0)
        .unwrap();
    pmu.retire(&user(5));
    assert_eq!(pmu.rdpmc(7, true, false), Ok(5));
}

#[test]
fn version_6_addresses() {
    let mut pmu = pmu(6);
    for i in 0..8 {
        let (ctr, cfg) = (
            IA32_PMC_GP0_CTR + IA32_PMC_V6_STEP * i,
            IA32_PMC_GP0_CFG_A + IA32_PMC_V6_STEP * i,
        );
        // The write is full-width and not sign-extended.
        pmu.wrmsr(ctr, 0x8000_0000 + u64::from(i)).unwrap();
        assert_eq!(pmu.rdmsr(IA32_PMC0 + i), Ok(0x8000_0000 + u64::from(i)));
        assert_eq!(pmu.wrmsr(ctr, 1 << 48), WRITE_GP);
        pmu.wrmsr(cfg, 0xc0 + u64::from(i)).unwrap();
        assert_eq!(pmu.rdmsr(IA32_PERFEVTSEL0 + i), Ok(0xc0 + u64::from(i)));
        for absent in [ctr + 2, ctr + 3] {
            assert_eq!(pmu.rdmsr(absent), GP, "{absent:#x}");
        }
    }
    for i in 0..4 {
        let ctr = IA32_PMC_FX0_CTR + IA32_PMC_V6_STEP * i;
        pmu.wrmsr(ctr, 0x1234 + u64::from(i)).unwrap();
        assert_eq!(pmu.rdmsr(IA32_FIXED_CTR0 + i), Ok(0x1234 + u64::from(i)));
        for absent in [ctr + 1, ctr + 2, ctr + 3] {
            assert_eq!(pmu.rdmsr(absent), GP, "{absent:#x}");
        }
    }
    for msr in [0x18ff, 0x1920, 0x197f, 0x1990] {
        assert_eq!(pmu.rdmsr(msr), Err(MsrError::NotPmu), "{msr:#x}");
    }
}

#[test]
fn unit_mask_2_selects_another_event() {
    let mut pmu = pmu(6);
    let instructions = EventSel::EN | EventSel::USR | 0xc0;
    pmu.wrmsr(IA32_PERFEVTSEL0, instructions).unwrap();
    assert!(pmu.counting());
    for bit in 40..48 {
        pmu.wrmsr(IA32_PERFEVTSEL0, instructions | (1 << bit))
            .unwrap();
        assert!(!pmu.counting(), "{bit}");
    }
}

/// By the table in `pmu_model::event`, each cycle has four slots, and each instruction
/// retires in a cycle of its own.
#[test]
fn eq_compares_for_equality() {
    const INSTRUCTIONS: u64 = 8192;
    const CYCLES: u64 = INSTRUCTIONS + 100 * 2;
    for (event, cmask, inv, count, with_eq) in [
        (0x01a4, 0, false, 4 * CYCLES, 4 * CYCLES),
        (0x01a4, 3, false, CYCLES, 0),
        (0x01a4, 4, false, CYCLES, CYCLES),
        (0x01a4, 5, false, 0, 0),
        (0x01a4, 3, true, 0, CYCLES),
        (0x01a4, 4, true, 0, 0),
        (0x00c0, 1, false, INSTRUCTIONS, INSTRUCTIONS),
        (0x00c0, 2, false, 0, 0),
        (0x00c0, 2, true, CYCLES, CYCLES),
    ] {
        let mut eventsel = EventSel::EN | EventSel::USR | event | (cmask << 24);
        if inv {
            eventsel |= EventSel::INV;
        }
        for (eventsel, count) in [(eventsel, count), (eventsel | EventSel::EQ, with_eq)] {
            let mut pmu = pmu(6);
            pmu.wrmsr(IA32_PERFEVTSEL0, eventsel).unwrap();
            pmu.retire(&user(INSTRUCTIONS));
            assert_eq!(pmu.rdpmc(0, true, false), Ok(count), "{eventsel:#x}");
        }
    }
}

#[test]
fn registers_of_other_versions_and_counters_fault() {
    // The first version that has each register.
    let since = [
        (IA32_PERFEVTSEL0 + 1, 1),
        (IA32_PMC0 + 1, 1),
        (IA32_PERF_CAPABILITIES, 2),
        (IA32_A_PMC0 + 1, 2),
        (IA32_FIXED_CTR0 + 2, 2),
        (IA32_FIXED_CTR_CTRL, 2),
        (IA32_PERF_GLOBAL_STATUS, 2),
        (IA32_PERF_GLOBAL_CTRL, 2),
        (IA32_PERF_GLOBAL_STATUS_RESET, 2),
        (IA32_PERF_GLOBAL_STATUS_SET, 4),
        (IA32_PERF_GLOBAL_INUSE, 4),
        (IA32_FIXED_CTR0 + 3, 5),
        (IA32_PMC0 + 7, 5),
        (IA32_PERFEVTSEL0 + 7, 5),
        (IA32_A_PMC0 + 7, 5),
        (IA32_PMC_GP0_CTR, 6),
        (IA32_PMC_GP0_CFG_A + IA32_PMC_V6_STEP * 7, 6),
        (IA32_PMC_FX0_CTR + IA32_PMC_V6_STEP * 3, 6),
    ];
    for version in 1..=6 {
        let mut pmu = pmu(version);
        for (msr, first) in since {
            assert_eq!(pmu.rdmsr(msr).is_ok(), version >= first, "{msr:#x}");
            if version < first {
                assert_eq!(pmu.rdmsr(msr), GP);
                assert_eq!(pmu.wrmsr(msr, 0), WRITE_GP);
            }
        }
        // AMD's.
        for msr in [
            K7_PERF_CTL0,
            K7_PERF_CTR0,
            PERF_CTL0,
            PERF_CTR0,
            PERF_CNTR_GLOBAL_CTL,
        ] {
            assert_eq!(pmu.rdmsr(msr), GP);
            assert_eq!(pmu.wrmsr(msr, 0), WRITE_GP);
        }
        for msr in [0, 0x10, IA32_PMC0 - 1, IA32_PMC0 + 8, 0x1a0, 0x38c, 0x393] {
            assert_eq!(pmu.rdmsr(msr), Err(MsrError::NotPmu));
            assert_eq!(pmu.wrmsr(msr, 0), Err(MsrError::NotPmu));
        }
    }
}

#[test]
fn reset_values() {
    for version in 1..=6 {
        let mut pmu = pmu(version);
        let fresh = format!("{pmu:?}");
        if version >= 2 {
            let general = Config::new(Vendor::Intel, version).unwrap().shape.general;
            assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_CTRL), Ok((1 << general) - 1));
            assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(0));
        }
        assert!(!pmu.counting());
        sample(&mut pmu, 10);
        pmu.inject(PmiFault::Repeat(3));
        pmu.inject(PmiFault::Lose);
        pmu.retire(&user(11));
        assert!(pmu.counting());
        pmu.reset();
        assert!(!pmu.counting());
        assert!(!pmu.take_pmi());
        assert_eq!(format!("{pmu:?}"), fresh);
    }
}

#[test]
fn eventsel_reserved_bits() {
    for version in 1..=6 {
        let mut pmu = pmu(version);
        for bit in 0..64 {
            let any = bit == 21;
            let since_6 = version == 6 && matches!(bit, 36 | 40..=47);
            let writable = bit < 32 && (!any || matches!(version, 3 | 4)) || since_6;
            let value = 1 << bit;
            pmu.wrmsr(IA32_PERFEVTSEL0, 0x1234).unwrap();
            assert_eq!(
                pmu.wrmsr(IA32_PERFEVTSEL0, value).is_ok(),
                writable,
                "{bit}"
            );
            let kept = if writable { value } else { 0x1234 };
            assert_eq!(pmu.rdmsr(IA32_PERFEVTSEL0), Ok(kept));
        }
    }
}

#[test]
fn fixed_ctr_ctrl_reserved_bits() {
    for version in 2..=6 {
        let fixed = if version >= 5 { 4 } else { 3 };
        let mut pmu = pmu(version);
        for bit in 0..64 {
            let any = bit % 4 == 2;
            let writable = bit < 4 * fixed && (!any || matches!(version, 3 | 4));
            let written = pmu.wrmsr(IA32_FIXED_CTR_CTRL, 1 << bit);
            assert_eq!(written.is_ok(), writable, "{version} {bit}");
        }
    }
}

#[test]
fn global_ctrl_reserved_bits() {
    let mut pmu = with_shape(2, shape(3, 2, 40)).unwrap();
    for bit in 0..64 {
        let writable = matches!(bit, 0..=2 | 32..=33);
        let written = pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1 << bit);
        assert_eq!(written.is_ok(), writable, "{bit}");
    }
}

#[test]
fn writes_to_pmc_are_sign_extended() {
    for (width, mask) in [(32, 0xffff_ffff), (40, 0xff_ffff_ffff)] {
        for full_width in [false, true] {
            let shape = Shape {
                full_width,
                ..shape(2, 0, width)
            };
            let mut pmu = with_shape(2, shape).unwrap();
            for (written, read) in [
                (0x7fff_ffff, 0x7fff_ffff),
                (0x8000_0000, 0xffff_ffff_8000_0000 & mask),
                (-1_i64 as u64, mask),
                (0xdead_beef_0000_0001, 1),
            ] {
                pmu.wrmsr(IA32_PMC0 + 1, written).unwrap();
                assert_eq!(pmu.rdmsr(IA32_PMC0 + 1), Ok(read));
                assert_eq!(pmu.rdpmc(1, true, false), Ok(read));
                let alias = if full_width { Ok(read) } else { GP };
                assert_eq!(pmu.rdmsr(IA32_A_PMC0 + 1), alias);
            }
        }
    }
}

#[test]
fn full_width_writes_must_fit() {
    let mut pmu = with_shape(4, shape(4, 3, 40)).unwrap();
    for msr in [IA32_A_PMC0 + 3, IA32_FIXED_CTR0 + 2] {
        pmu.wrmsr(msr, 0xff_ffff_ffff).unwrap();
        assert_eq!(pmu.wrmsr(msr, 1 << 40), WRITE_GP);
        assert_eq!(pmu.wrmsr(msr, -1_i64 as u64), WRITE_GP);
        assert_eq!(pmu.rdmsr(msr), Ok(0xff_ffff_ffff));
    }
    assert_eq!(pmu.rdmsr(IA32_PMC0 + 3), Ok(0xff_ffff_ffff));
}

#[test]
fn perf_capabilities_reports_the_aliases() {
    let mut with = pmu(4);
    assert_eq!(with.rdmsr(IA32_PERF_CAPABILITIES), Ok(FW_WRITE));
    assert_eq!(with.perf_capabilities(), Some(FW_WRITE));
    assert_eq!(with.wrmsr(IA32_PERF_CAPABILITIES, FW_WRITE), WRITE_GP);
    let shape = Shape {
        full_width: false,
        ..shape(4, 3, 48)
    };
    let without = with_shape(4, shape).unwrap();
    assert_eq!(without.rdmsr(IA32_PERF_CAPABILITIES), Ok(0));
    assert_eq!(without.perf_capabilities(), Some(0));
    assert_eq!(without.rdmsr(IA32_A_PMC0), GP);
    assert_eq!(without.rdmsr(IA32_DEBUGCTL), Ok(0));
    // Version 1 has the register only if there are aliases.
    assert_eq!(self::pmu(1).rdmsr(IA32_PERF_CAPABILITIES), GP);
    assert_eq!(self::pmu(1).perf_capabilities(), None);
}

#[test]
fn status_bits_are_cleared_one_by_one() {
    for version in 2..=6 {
        let mut pmu = pmu(version);
        pmu.inject_status(0b11 | (1 << 32) | (1 << 40));
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(0b11 | (1 << 32)));
        assert_eq!(pmu.wrmsr(IA32_PERF_GLOBAL_STATUS, 0), WRITE_GP);
        pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, 0b01).unwrap();
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(0b10 | (1 << 32)));
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS_RESET), Ok(0));

        let may_reset = |bit: u32| match bit {
            58 | 59 => version >= 4,
            61 => version >= 3,
            62 | 63 => true,
            _ => pmu.cpuid(0xa).is_some_and(|[eax, _, _, edx]| {
                bit < ((eax >> 8) & 0xff) || (32..32 + (edx & 0x1f)).contains(&bit)
            }),
        };
        let writable: Vec<bool> = (0..64).map(may_reset).collect();
        for (bit, writable) in writable.into_iter().enumerate() {
            let written = pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, 1 << bit);
            assert_eq!(written.is_ok(), writable, "{version} {bit}");
            if version >= 4 {
                let written = pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_SET, 1 << bit);
                assert_eq!(written.is_ok(), writable && bit != 63, "{version} {bit}");
            }
        }
    }
}

#[test]
fn status_can_be_set() {
    let mut pmu = pmu(4);
    pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_SET, 1 << 33).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_SET, 1 << 1).unwrap();
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok((1 << 33) | (1 << 1)));
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS_SET), Ok(0));
    assert!(!pmu.take_pmi());
}

#[test]
fn in_use_reports_what_is_programmed() {
    let mut pmu = pmu(5);
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_INUSE), Ok(0));
    pmu.wrmsr(IA32_PERFEVTSEL0 + 2, 0xc0).unwrap();
    pmu.wrmsr(IA32_FIXED_CTR_CTRL, fixed_ctrl::USR << 12)
        .unwrap();
    let programmed = (1 << 2) | (1 << 35);
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_INUSE), Ok(programmed));
    pmu.wrmsr(IA32_PERFEVTSEL0 + 4, EventSel::INT).unwrap();
    assert_eq!(
        pmu.rdmsr(IA32_PERF_GLOBAL_INUSE),
        Ok(programmed | PMI_IN_USE)
    );
    pmu.wrmsr(IA32_PERFEVTSEL0 + 4, 0).unwrap();
    pmu.wrmsr(IA32_FIXED_CTR_CTRL, fixed_ctrl::PMI).unwrap();
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_INUSE), Ok((1 << 2) | PMI_IN_USE));
    assert_eq!(pmu.wrmsr(IA32_PERF_GLOBAL_INUSE, 0), WRITE_GP);
}

#[test]
fn rdpmc() {
    let mut pmu = with_shape(3, shape(4, 2, 48)).unwrap();
    pmu.wrmsr(IA32_A_PMC0 + 3, 0x1234_5678_9abc).unwrap();
    pmu.wrmsr(IA32_FIXED_CTR0 + 1, 0xcba9_8765_4321).unwrap();
    for (cpl0, pce, allowed) in [
        (true, false, true),
        (true, true, true),
        (false, true, true),
        (false, false, false),
    ] {
        let expect = |value| {
            if allowed {
                Ok(value)
            } else {
                Err(GeneralProtection)
            }
        };
        assert_eq!(pmu.rdpmc(3, cpl0, pce), expect(0x1234_5678_9abc));
        assert_eq!(pmu.rdpmc(0x4000_0001, cpl0, pce), expect(0xcba9_8765_4321));
    }
    let absent = [
        4,
        0x100,
        0x4000_0002,
        0x4000_0100,
        0x8000_0000,
        0x2000_0000,
        u32::MAX,
    ];
    for ecx in absent {
        assert_eq!(pmu.rdpmc(ecx, true, true), Err(GeneralProtection));
    }
    assert_eq!(
        self::pmu(1).rdpmc(0x4000_0000, true, true),
        Err(GeneralProtection)
    );
}

#[test]
fn conditions_for_counting() {
    for version in 2..=6 {
        let mut pmu = pmu(version);
        sample(&mut pmu, 1000);
        assert!(pmu.counting());
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 0b10).unwrap();
        assert!(!pmu.counting());
        pmu.retire(&user(5));
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 0b01).unwrap();
        pmu.retire(&user(7));
        for off in [
            EventSel::USR | 0xc0,
            EventSel::EN | 0xc0,
            EventSel::EN | EventSel::USR | 0xffff,
        ] {
            pmu.wrmsr(IA32_PERFEVTSEL0, off).unwrap();
            assert!(!pmu.counting());
            pmu.retire(&user(5));
        }
        pmu.wrmsr(IA32_PERFEVTSEL0, EventSel::EN | EventSel::OS | 0xc0)
            .unwrap();
        assert!(pmu.counting());
        pmu.retire(&user(5));
        assert_eq!(pmu.rdpmc(0, true, false).unwrap() as i32, 7 - 1000);
    }
}

#[test]
fn version_1_has_no_global_control() {
    let mut pmu = pmu(1);
    sample(&mut pmu, 10);
    assert_eq!(pmu.budget(Mode::User), [10, Pmu::UNLIMITED]);
    pmu.retire(&user(10));
    assert!(pmu.take_pmi());
    assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(0));
}

#[test]
fn overflow_without_int_raises_no_pmi() {
    let mut pmu = pmu(4);
    sample(&mut pmu, 10);
    pmu.wrmsr(IA32_PERFEVTSEL0, EventSel::EN | EventSel::USR | 0xc0)
        .unwrap();
    pmu.retire(&user(15));
    assert!(!pmu.take_pmi());
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(1));
    assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(5));
}

#[test]
fn legacy_freeze_clears_global_ctrl() {
    for version in [2, 3] {
        let mut pmu = pmu(version);
        sample(&mut pmu, 10);
        let freeze = debugctl::FREEZE_PERFMON_ON_PMI | debugctl::FREEZE_LBRS_ON_PMI | debugctl::LBR;
        pmu.wrmsr(IA32_DEBUGCTL, freeze).unwrap();
        pmu.retire(&user(10));
        assert!(pmu.take_pmi());
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(1));
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_CTRL), Ok(0));
        assert_eq!(pmu.rdmsr(IA32_DEBUGCTL), Ok(freeze & !debugctl::LBR));
        assert!(!pmu.counting());
        pmu.retire(&user(10));
        assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(0));
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
        assert!(pmu.counting());
    }
}

#[test]
fn streamlined_freeze_sets_status() {
    for version in [4, 5, 6] {
        let mut pmu = pmu(version);
        sample(&mut pmu, 10);
        let freeze = debugctl::FREEZE_PERFMON_ON_PMI | debugctl::FREEZE_LBRS_ON_PMI;
        pmu.wrmsr(IA32_DEBUGCTL, freeze).unwrap();
        let ctrl = pmu.rdmsr(IA32_PERF_GLOBAL_CTRL);
        pmu.retire(&user(10));
        assert!(pmu.take_pmi());
        let frozen = global_status::CTR_FRZ | global_status::LBR_FRZ;
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(frozen | 1));
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_CTRL), ctrl);
        assert!(!pmu.counting());
        pmu.retire(&user(10));
        assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(0));
        pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, 1).unwrap();
        assert!(!pmu.counting());
        pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, global_status::CTR_FRZ)
            .unwrap();
        assert!(pmu.counting());
        pmu.retire(&user(10));
        assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(10));
    }
}

#[test]
fn debugctl_reserved_bits() {
    let mut pmu = pmu(4);
    for bit in 0..64 {
        let writable = matches!(bit, 0 | 1 | 6..=12);
        assert_eq!(
            pmu.wrmsr(IA32_DEBUGCTL, 1 << bit).is_ok(),
            writable,
            "{bit}"
        );
    }
    assert_eq!(self::pmu(1).rdmsr(IA32_DEBUGCTL), Err(MsrError::NotPmu));
}

#[test]
fn injected_faults() {
    let mut pmu = pmu(4);
    let overflow = |pmu: &mut Pmu| {
        sample(pmu, 100);
        pmu.retire(&user(100));
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(1));
    };
    pmu.inject(PmiFault::Lose);
    overflow(&mut pmu);
    assert!(!pmu.take_pmi());

    pmu.inject(PmiFault::Delay(40));
    overflow(&mut pmu);
    assert!(!pmu.take_pmi());
    // The PMI still arrives if no counter is enabled.
    pmu.wrmsr(IA32_PERFEVTSEL0, 0).unwrap();
    assert!(pmu.counting());
    assert_eq!(pmu.budget(Mode::User), [30, 10]);
    assert_eq!(pmu.budget(Mode::Kernel), [10, 30]);
    pmu.retire(&user(39));
    assert!(!pmu.take_pmi());
    assert_eq!(pmu.budget(Mode::User), [1, 0]);
    pmu.retire(&user(1));
    assert!(pmu.take_pmi());
    assert!(!pmu.counting());

    pmu.inject(PmiFault::Repeat(40));
    overflow(&mut pmu);
    assert!(pmu.take_pmi());
    pmu.retire(&user(40));
    assert!(pmu.take_pmi());

    // No fault is left.
    overflow(&mut pmu);
    assert!(pmu.take_pmi());

    pmu.inject_spurious_pmi(0);
    assert!(pmu.take_pmi());
    assert!(!pmu.take_pmi());
    pmu.inject_spurious_pmi(3);
    pmu.retire(&user(3));
    assert!(pmu.take_pmi());
}

fn operation() -> impl Strategy<Value = Operation> {
    let msr = || {
        prop_oneof![
            4 => IA32_PERFEVTSEL0..IA32_PERFEVTSEL0 + 9,
            2 => IA32_PMC0..IA32_PMC0 + 9,
            2 => IA32_A_PMC0..IA32_A_PMC0 + 9,
            2 => IA32_FIXED_CTR0..IA32_FIXED_CTR0 + 5,
            8 => IA32_FIXED_CTR_CTRL..IA32_PERF_GLOBAL_INUSE + 2,
            1 => Just(IA32_PERF_CAPABILITIES),
            1 => Just(IA32_DEBUGCTL),
            2 => IA32_PMC_GP0_CTR..IA32_PMC_GP0_CTR + 33,
            1 => IA32_PMC_FX0_CTR..IA32_PMC_FX0_CTR + 17,
            1 => any::<u32>(),
        ]
    };
    crate::operations::operation(msr, 0x3c)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// For any sequence of operations: nothing panics, an access that faults changes
    /// nothing, a counter always fits its width, and what is written reads back.
    #[test]
    fn any_accesses(
        version in 1..=6u8,
        general in 1..=8u8,
        fixed in 0..=4u8,
        width in 32..=48u8,
        full_width: bool,
        missing: u16,
        operations in prop::collection::vec(operation(), 0..100),
    ) {
        let fixed = fixed.min([0, 3, 3, 3, 4, 4][usize::from(version) - 1]);
        let all = u16::MAX >> (16 - general);
        let missing = if version == 6 && missing & all != all { missing & all } else { 0 };
        let shape = Shape { general, missing, fixed, width, full_width };
        let mut pmu = with_shape(version, shape).unwrap();
        for operation in operations {
            match operation {
                Operation::Read(msr) => {
                    let _ = pmu.rdmsr(msr);
                }
                Operation::Write(msr, value) => {
                    let before = format!("{pmu:?}");
                    match pmu.wrmsr(msr, value) {
                        Err(_) => prop_assert_eq!(format!("{pmu:?}"), before),
                        Ok(()) => match msr {
                            IA32_PMC0..0xc9 => {
                                let written = value as i32 as u64 & ((1 << width) - 1);
                                prop_assert_eq!(pmu.rdmsr(msr), Ok(written));
                            }
                            IA32_PERF_GLOBAL_STATUS_RESET => {
                                let status = pmu.rdmsr(IA32_PERF_GLOBAL_STATUS).unwrap();
                                prop_assert_eq!(status & value, 0);
                            }
                            IA32_PERF_GLOBAL_STATUS_SET => {
                                let status = pmu.rdmsr(IA32_PERF_GLOBAL_STATUS).unwrap();
                                prop_assert_eq!(status & value, value);
                            }
                            _ => prop_assert_eq!(pmu.rdmsr(msr), Ok(value)),
                        },
                    }
                }
                Operation::ReadPmc(ecx, cpl0, pce) => {
                    let _ = pmu.rdpmc(ecx, cpl0, pce);
                }
                Operation::Retire(instructions) => pmu.retire(&instructions.map(|instructions| Retired {
                    instructions,
                    branches: instructions / 3,
                    ..Retired::default()
                })),
                Operation::Inject(fault) => pmu.inject(fault),
            }
            for mode in Mode::ALL {
                prop_assert!(pmu.budget(mode)[mode as usize] >= 1);
            }
            for ecx in 0..general.into() {
                let value = pmu.rdpmc(ecx, true, true);
                prop_assert_eq!(value.is_ok(), (missing >> ecx) & 1 == 0);
                prop_assert!(value.unwrap_or(0) >> width == 0);
            }
        }
    }
}

/// RDPMC_USER_DISABLE, which Panther Cove has.
#[test]
fn counters_can_be_hidden_from_user_mode() {
    const DISABLE: u64 = 1 << 37;
    const FIXED_2_DISABLE: u64 = 1 << (33 + 4 * 2);
    let pmu = |family, model| {
        let signature = Signature {
            family,
            model,
            stepping: 0,
        };
        let config = Config::of_processor(Vendor::Intel, signature, false).unwrap();
        Pmu::new(config).unwrap()
    };
    for (family, model) in [(19, 0x01), (18, 0x01)] {
        let mut pmu = pmu(family, model);
        assert_eq!(pmu.cpuid(0x23).unwrap()[1], 0b111);
        pmu.wrmsr(IA32_PMC0, 5).unwrap();
        pmu.wrmsr(IA32_FIXED_CTR0 + 2, 6).unwrap();
        let fixed = 1 << 30;
        for (index, value) in [(0, 5), (fixed | 2, 6)] {
            assert_eq!(pmu.rdpmc(index, false, true), Ok(value));
        }
        pmu.wrmsr(IA32_PERFEVTSEL0, DISABLE | 0x00c0).unwrap();
        pmu.wrmsr(IA32_FIXED_CTR_CTRL, FIXED_2_DISABLE).unwrap();
        for (index, value) in [(0, 5), (fixed | 2, 6)] {
            assert_eq!(pmu.rdpmc(index, false, true), Ok(0));
            assert_eq!(pmu.rdpmc(index, true, true), Ok(value));
            assert_eq!(pmu.rdpmc(index, false, false), Err(GeneralProtection));
        }
        // The others are not hidden.
        pmu.wrmsr(IA32_PMC0 + 1, 7).unwrap();
        assert_eq!(pmu.rdpmc(1, false, true), Ok(7));
    }
    // Lunar Lake has version 6 without it.
    let mut pmu = pmu(6, 0xbd);
    assert_eq!(pmu.cpuid(0x23).unwrap()[1], 0b011);
    assert_eq!(pmu.wrmsr(IA32_PERFEVTSEL0, DISABLE), WRITE_GP);
    assert_eq!(pmu.wrmsr(IA32_FIXED_CTR_CTRL, FIXED_2_DISABLE), WRITE_GP);
}
