// SPDX-License-Identifier: GPL-2.0

//! What a PMU has because of the processor that it belongs to.

use crate::nehalem::clear_if_needed;
use pmu_model::{
    msr::*, Config, ConfigError, CoreType, Defect, Mode, MsrError, Pmu, Retired, Signature, Vendor,
};
use proptest::prelude::*;

/// PERF_CAPABILITIES: the format of the LBRs.
const LBR_FMT: u64 = 0x3f;

const NOT_PMU: Result<u64, MsrError> = Err(MsrError::NotPmu);
const GP: Result<u64, MsrError> = Err(MsrError::GeneralProtection);

/// All addresses of registers that only some processors have.
const ADDRESSES: [u32; 10] = [
    MSR_OFFCORE_RSP_0,
    MSR_OFFCORE_RSP_1,
    MSR_OMR_0,
    MSR_OMR_1,
    MSR_OMR_2,
    MSR_OMR_3,
    MSR_PEBS_LD_LAT,
    MSR_PEBS_FRONTEND,
    MSR_SNOOP_RSP_0,
    MSR_SNOOP_RSP_1,
];

fn pmu(vendor: Vendor, version: u8, family: u16, model: u8) -> Pmu {
    let config = Config {
        signature: Some(Signature {
            family,
            model,
            stepping: 1,
        }),
        ..Config::new(vendor, version).unwrap()
    };
    Pmu::new(config).unwrap()
}

fn intel(version: u8, family: u16, model: u8) -> Pmu {
    pmu(Vendor::Intel, version, family, model)
}

/// The registers of `pmu`, and the bits of each that can be written.
fn registers(pmu: &mut Pmu) -> Vec<(u32, u64)> {
    let exists = ADDRESSES.into_iter().filter(|&msr| pmu.rdmsr(msr) == Ok(0));
    let exists: Vec<u32> = exists.collect();
    let writable = |msr| {
        (0..64)
            .filter(|bit| pmu.wrmsr(msr, 1 << bit).is_ok())
            .fold(0, |bits, bit| bits | (1 << bit))
    };
    let writable: Vec<u64> = exists.iter().copied().map(writable).collect();
    exists.into_iter().zip(writable).collect()
}

#[test]
fn registers_of_intels_processors() {
    const RSP_0: u32 = MSR_OFFCORE_RSP_0;
    const RSP_1: u32 = MSR_OFFCORE_RSP_1;
    const LD_LAT: (u32, u64) = (MSR_PEBS_LD_LAT, 0xffff);
    for (version, family, model, expected) in [
        (1, 6, 0x0e, &[][..]),
        (2, 6, 0x17, &[]),
        (3, 6, 0x1a, &[(RSP_0, 0xffff), LD_LAT]),
        (3, 6, 0x2c, &[(RSP_0, 0xffff), (RSP_1, 0xffff), LD_LAT]),
        (
            3,
            6,
            0x2a,
            &[(RSP_0, 0x3f_807f_8fff), (RSP_1, 0x3f_807f_8fff), LD_LAT],
        ),
        (
            3,
            6,
            0x3f,
            &[(RSP_0, 0x3f_ffff_8fff), (RSP_1, 0x3f_ffff_8fff), LD_LAT],
        ),
        (
            4,
            6,
            0x5e,
            &[
                (RSP_0, 0x3f_ffff_8fff),
                (RSP_1, 0x3f_ffff_8fff),
                LD_LAT,
                (MSR_PEBS_FRONTEND, 0x7f_ff17),
            ],
        ),
        (
            5,
            6,
            0x8f,
            &[
                (RSP_0, 0x3f_ffff_ffff),
                (RSP_1, 0x3f_ffff_ffff),
                LD_LAT,
                (MSR_PEBS_FRONTEND, 0x7f_ff1f),
            ],
        ),
        (
            6,
            19,
            0x01,
            &[
                (MSR_OMR_0, 0x40ff_ffff_0000_ffff),
                (MSR_OMR_1, 0x40ff_ffff_0000_ffff),
                (MSR_OMR_2, 0x40ff_ffff_0000_ffff),
                (MSR_OMR_3, 0x40ff_ffff_0000_ffff),
                LD_LAT,
                (MSR_PEBS_FRONTEND, 0x7f_ff1f),
            ],
        ),
        (
            3,
            6,
            0x57,
            &[(RSP_0, 0x79_9ffb_b6e7), (RSP_1, 0x39_9ffb_ffe7)],
        ),
        (
            6,
            6,
            0xaf,
            &[
                (RSP_0, 0x800f_f3ff_ffff_ffff),
                (RSP_1, 0x000f_f3ff_ffff_ffff),
                LD_LAT,
                (MSR_SNOOP_RSP_0, u64::MAX),
                (MSR_SNOOP_RSP_1, u64::MAX),
            ],
        ),
    ] {
        let mut pmu = intel(version, family, model);
        assert_eq!(registers(&mut pmu), expected, "{family:#x}-{model:#x}");
        for msr in ADDRESSES {
            if !expected.iter().any(|(address, _)| *address == msr) {
                assert_eq!(pmu.rdmsr(msr), GP, "{family:#x}-{model:#x} {msr:#x}");
            }
        }
    }
}

/// Without a known processor the addresses do not belong to the PMU.
#[test]
fn an_architectural_pmu_has_no_such_registers() {
    let unknown = [
        Pmu::new(Config::new(Vendor::Intel, 4).unwrap()).unwrap(),
        // "-cpu max" of QEMU.
        intel(4, 6, 6),
        intel(4, 15, 6),
        intel(4, 7, 0x5e),
        pmu(Vendor::Amd, 3, 6, 0x5e),
        pmu(Vendor::Zhaoxin, 2, 6, 0x5e),
    ];
    for mut pmu in unknown {
        for msr in ADDRESSES {
            assert_eq!(pmu.rdmsr(msr), NOT_PMU);
            assert_eq!(pmu.wrmsr(msr, 0), Err(MsrError::NotPmu));
        }
    }
}

#[test]
fn reset_clears_them() {
    let mut pmu = intel(4, 6, 0x5e);
    for msr in [MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1, MSR_PEBS_LD_LAT] {
        pmu.wrmsr(msr, 0x0abc).unwrap();
        assert_eq!(pmu.rdmsr(msr), Ok(0x0abc));
    }
    pmu.reset();
    for msr in [MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1, MSR_PEBS_LD_LAT] {
        assert_eq!(pmu.rdmsr(msr), Ok(0));
    }
    // The registers are still there.
    assert_eq!(registers(&mut pmu).len(), 4);
}

/// The defect that makes an access raise #GP works for them as well.
#[test]
fn a_register_can_have_a_defect() {
    let config = |signature| Config {
        signature,
        ..Config::new(Vendor::Intel, 4).unwrap()
    };
    let defect = Defect::GeneralProtection {
        msr: MSR_OFFCORE_RSP_1,
        after: 1,
    };
    let skylake = Signature {
        family: 6,
        model: 0x5e,
        stepping: 3,
    };
    assert!(Pmu::with_defect(config(None), defect).is_err());
    let mut pmu = Pmu::with_defect(config(Some(skylake)), defect).unwrap();
    pmu.wrmsr(MSR_OFFCORE_RSP_1, 1).unwrap();
    assert_eq!(pmu.rdmsr(MSR_OFFCORE_RSP_1), GP);
    assert_eq!(pmu.rdmsr(MSR_OFFCORE_RSP_0), Ok(0));
}

/// EAX, ECX and EDX of leaf 0AH.
fn leaf_a(vendor: Vendor, family: u16, model: u8, smt: bool) -> Option<[u32; 3]> {
    let signature = Signature {
        family,
        model,
        stepping: 0,
    };
    let pmu = Pmu::new(Config::of_processor(vendor, signature, smt)?).unwrap();
    let [eax, ebx, ecx, edx] = pmu.cpuid(0xa)?;
    assert_eq!(ebx, 0);
    Some([eax, ecx, edx])
}

/// What these processors report, but for the events in EBX, all of which the model has.
#[test]
fn leaf_a_of_intels_processors() {
    for (model, expected) in [
        // Yonah, Penryn, Nehalem, Westmere, Sandy Bridge, Haswell, Skylake.
        (0x0e, [0x0728_0201, 0, 0]),
        (0x17, [0x0728_0202, 0, 0x503]),
        (0x1a, [0x0730_0403, 0, 0x603]),
        (0x2c, [0x0730_0403, 0, 0x603]),
        (0x2a, [0x0730_0803, 0, 0x603]),
        (0x3c, [0x0730_0803, 0, 0x603]),
        (0x5e, [0x0730_0804, 0, 0x603]),
        // Ice Lake, Sapphire Rapids, Lunar Lake.
        (0x7e, [0x0830_0805, 0xf, 0x8604]),
        (0x8f, [0x0830_0805, 0xf, 0x8604]),
        (0xbd, [0x0830_0806, 0xf, 0x8604]),
        // Bonnell, Silvermont, Goldmont, Tremont, Gracemont, Knights Landing.
        (0x1c, [0x0728_0203, 0, 0x503]),
        (0x37, [0x0728_0203, 0, 0x503]),
        (0x5c, [0x0730_0404, 0, 0x603]),
        (0x86, [0x0830_0405, 0x7, 0x8603]),
        (0xbe, [0x0830_0605, 0x7, 0x8603]),
        (0x57, [0x0728_0203, 0, 0x503]),
    ] {
        assert_eq!(
            leaf_a(Vendor::Intel, 6, model, false),
            Some(expected),
            "{model:#x}"
        );
    }
    assert_eq!(leaf_a(Vendor::Intel, 6, 6, false), None);
    assert_eq!(leaf_a(Vendor::Zhaoxin, 7, 0x1b, false), None);
}

/// Sandy Bridge to Skylake divide a core's counters between its threads.
#[test]
fn threads_share_counters() {
    for (model, alone, shared) in [(0x1a, 4, 4), (0x2a, 8, 4), (0x5e, 8, 4), (0x7e, 8, 8)] {
        for (smt, general) in [(false, alone), (true, shared)] {
            let [eax, ..] = leaf_a(Vendor::Intel, 6, model, smt).unwrap();
            assert_eq!((eax >> 8) & 0xff, general, "{model:#x}");
        }
    }
}

#[test]
fn full_width_writes_begin_with_sandy_bridge_and_silvermont() {
    for (model, pdcm, full_width) in [
        (0x0e, false, false),
        (0x17, true, false),
        (0x1a, true, false),
        (0x2c, true, false),
        (0x2a, true, true),
        (0x5e, true, true),
        (0x1c, true, false),
        (0x37, true, true),
        (0x57, true, true),
    ] {
        let signature = Signature {
            family: 6,
            model,
            stepping: 0,
        };
        let config = Config::of_processor(Vendor::Intel, signature, false).unwrap();
        let mut pmu = Pmu::new(config).unwrap();
        let expected = pdcm.then_some(if full_width { FW_WRITE } else { 0 });
        let capabilities = pmu.perf_capabilities().map(|it| it & !LBR_FMT);
        assert_eq!(capabilities, expected, "{model:#x}");
        assert_eq!(pmu.wrmsr(IA32_A_PMC0, 1 << 33).is_ok(), full_width);
        // A write to IA32_PMC0 is sign-extended from bit 31.
        pmu.wrmsr(IA32_PMC0, 0x8000_0000).unwrap();
        let ones = (1 << config.shape.width) - 1;
        assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(ones & !0x7fff_ffff));
    }
}

#[test]
fn generations_of_amds_processors() {
    for (family, model, version) in [
        (0x06, 4, 1),
        (0x0f, 0x41, 1),
        (0x10, 2, 1),
        (0x14, 1, 1),
        (0x16, 0, 1),
        (0x15, 2, 2),
        (0x17, 0x31, 2),
        (0x18, 0, 2),
        (0x19, 0x01, 2),
        (0x19, 0x21, 2),
        (0x19, 0x11, 3),
        (0x19, 0x61, 3),
        (0x1a, 0x02, 3),
    ] {
        let signature = Signature {
            family,
            model,
            stepping: 0,
        };
        let config = Config::of_processor(Vendor::Amd, signature, true).unwrap();
        assert_eq!(config.version, version, "{family:#x}-{model:#x}");
        let pmu = Pmu::new(config).unwrap();
        assert_eq!(pmu.perfctr_core(), version >= 2);
        let leaf = pmu.cpuid(0x8000_0022);
        // Those of version 3 have 16 branch records, and a PMI can freeze them.
        assert_eq!(leaf, (version == 3).then_some([0b111, 0x106, 0, 0]));
    }
    // QEMU's "max".
    let max = Signature {
        family: 6,
        model: 6,
        stepping: 3,
    };
    assert_eq!(Config::of_processor(Vendor::Amd, max, false), None);
}

#[test]
fn aliases_for_full_width_writes_are_intels() {
    for (vendor, version) in [(Vendor::Amd, 3), (Vendor::Zhaoxin, 2)] {
        let mut config = Config::new(vendor, version).unwrap();
        config.shape.full_width = true;
        assert_eq!(Pmu::new(config).err(), Some(ConfigError::FullWidth));
    }
}

/// The counters of `pmu` that count an event. Each must count instructions.
fn counters(pmu: &mut Pmu, event: u64, general: u32) -> u64 {
    let registers = (0..general).map(|i| (IA32_PERFEVTSEL0 + i, IA32_PMC0 + i));
    counters_of(pmu, event, registers)
}

/// Those of AMD's six counters that count an event. Each must count instructions.
fn core_counters(pmu: &mut Pmu, event: u64) -> u64 {
    let registers = (0..6).map(|i| (PERF_CTL0 + 2 * i, PERF_CTR0 + 2 * i));
    counters_of(pmu, event, registers)
}

fn counters_of(
    pmu: &mut Pmu,
    event: u64,
    registers: impl Iterator<Item = (u32, u32)> + Clone,
) -> u64 {
    let eventsel = EventSel::EN | EventSel::USR | event;
    let mut bits = 0;
    for (select, counter) in registers.clone() {
        pmu.wrmsr(select, eventsel).unwrap();
        pmu.wrmsr(counter, 0).unwrap();
    }
    let retired = |instructions| Retired {
        instructions,
        branches: 0,
        ..Retired::default()
    };
    pmu.retire(&[retired(12_345), retired(77)]);
    for (i, (_, counter)) in registers.enumerate() {
        match pmu.rdmsr(counter).unwrap() {
            0 => {}
            12_345 => bits |= 1 << i,
            other => panic!("{event:#x} on {i}: {other}"),
        }
    }
    bits
}

#[test]
fn an_event_counts_on_its_counters_only() {
    for (model, event, expected) in [
        // Yonah and Penryn: DIV, MUL.
        (0x0e, 0x0014, 0b01),
        (0x0e, 0x0012, 0b10),
        (0x17, 0x0014, 0b01),
        (0x17, 0x00cb, 0b01),
        // Nehalem and Westmere: L1D.M_EVICT, OFFCORE_REQUESTS_OUTSTANDING.
        (0x1a, 0x0451, 0b0011),
        (0x1a, 0x0160, 0),
        (0x2c, 0x0451, 0b0011),
        (0x2c, 0x0160, 0b0001),
        // Sandy Bridge: L1D_PEND_MISS, INST_RETIRED.PREC_DIST, MEM_TRANS_RETIRED.
        (0x2a, 0x0148, 0b0100),
        (0x2a, 0x01c0, 0b0010),
        (0x2a, 0x01cd, 0b1000),
        (0x2a, 0x11d0, 0b1111),
        (0x2a, 0x02a3, 0b0100),
        (0x2a, 0x03a3, 0),
        // Ivy Bridge, Haswell, Broadwell: CYCLE_ACTIVITY.
        (0x3a, 0x02a3, 0b1111),
        (0x3a, 0x08a3, 0b0100),
        (0x3c, 0x08a3, 0b0100),
        (0x3d, 0x08a3, 0b0100),
        (0x3d, 0x0fa3, 0b0100),
        (0x3d, 0x04a3, 0),
        // Skylake: FRONTEND_RETIRED; the architectural events are on any.
        (0x5e, 0x01c6, 0b1111),
        (0x5e, 0x00c0, 0xff),
        (0x5e, 0x01c0, 0b0010),
        // Ice Lake.
        (0x7e, 0x01b7, 0b1111),
        (0x7e, 0x01d1, 0b1111),
        (0x7e, 0x06a3, 0b1111),
        (0x7e, 0x04a3, 0),
        // Sapphire Rapids: MEM_TRANS_RETIRED, XQ.PROMOTION, OFFCORE_RESPONSE.
        (0x8f, 0x01cd, 0xfe),
        (0x8f, 0x02cd, 0b0001),
        (0x8f, 0x012a, 0b1111),
        (0x8f, 0x022e, 0),
        (0x8f, 0x019f, 0),
    ] {
        let signature = Signature {
            family: 6,
            model,
            stepping: 0,
        };
        let config = Config::of_processor(Vendor::Intel, signature, false).unwrap();
        let mut pmu = Pmu::new(config).unwrap();
        clear_if_needed(&mut pmu, model);
        let found = counters(&mut pmu, event, config.shape.general.into());
        assert_eq!(found, expected, "{model:#x} {event:#06x}");
    }
}

/// The second unit mask of version 6 makes another event.
#[test]
fn constraints_of_panther_cove() {
    let mut pmu = intel(6, 19, 1);
    assert_eq!(counters(&mut pmu, 0x01cd, 8), 0xfc);
    assert_eq!(counters(&mut pmu, 0x02cd, 8), 0b11);
    assert_eq!(counters(&mut pmu, 0x02cd | (1 << 40), 8), 0);
    assert_eq!(counters(&mut pmu, 0x01b1, 8), 0b1000);
}

/// A code of 12 bits is another event than that of its lower 8 bits. 0076H counts cycles, which are
/// not 12,345, so the test has unit mask 1.
#[test]
fn constraints_of_family_15h() {
    let signature = Signature {
        family: 0x15,
        model: 2,
        stepping: 0,
    };
    let config = Config::of_processor(Vendor::Amd, signature, false).unwrap();
    let mut pmu = Pmu::new(config).unwrap();
    for (event, expected) in [
        (0x0100, 0b11_1000),
        (0x1000, 0b11_1000),
        (0x1100, 0b00_1000),
        (0x0103, 0b00_1000),
        (0x0104, 0b11_1000),
        (0x0304, 0b00_1000),
        (0x011f, 0b11_1000),
        (0x0123, 0b00_0111),
        (0x012e, 0b00_1001),
        (0x0131, 0b00_0111),
        (0x0331, 0),
        (0x0176, 0b00_0111),
        (0x018f, 0b00_0001),
        (0x01d1, 0b00_0111),
        (0x1_0000_0087, 0b00_0001),
        (0x1_0000_00c0, 0b11_1000),
        // These are not on any list.
        (0x0121, 0),
        (0x01db, 0),
    ] {
        assert_eq!(core_counters(&mut pmu, event), expected, "{event:#x}");
    }
    // Instructions.
    assert_eq!(core_counters(&mut pmu, 0x00c0), 0b11_1111);

    // HostOnly is no part of the event.
    pmu.set_svm(true, false);
    let host_only = EventSel::HOST_ONLY;
    assert_eq!(core_counters(&mut pmu, host_only | 0x0103), 0b00_1000);
}

#[test]
fn without_a_processor_no_event_has_constraints() {
    let mut pmu = intel(4, 6, 6);
    for event in [0x0014, 0x01cd, 0x01d0, 0x01c6, 0x0148] {
        assert_eq!(counters(&mut pmu, event, 4), 0);
    }
}

/// An event on a counter of its list overflows like any other.
#[test]
fn a_constrained_event_overflows() {
    let mut pmu = intel(4, 6, 0x5e);
    let eventsel = EventSel::EN | EventSel::INT | EventSel::USR | 0x01c6;
    pmu.wrmsr(IA32_PERFEVTSEL0 + 3, eventsel).unwrap();
    pmu.wrmsr(IA32_PMC0 + 3, -100_i64 as u64).unwrap();
    assert_eq!(pmu.budget(Mode::User)[0], 100);
    let instructions = 100;
    let branches = 0;
    pmu.retire(&[
        Retired {
            instructions,
            branches,
            ..Retired::default()
        },
        Retired::default(),
    ]);
    assert!(pmu.take_pmi());
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(1 << 3));
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the processor: what a write does not refuse reads back, what it refuses
    /// changes nothing, and no register changes another.
    #[test]
    fn any_writes(
        family in prop_oneof![Just(6u16), 0..20u16],
        model: u8,
        writes in prop::collection::vec((prop::sample::select(&ADDRESSES), any::<u64>()), 0..50),
    ) {
        let mut pmu = intel(4, family, model);
        let mut values = ADDRESSES.map(|msr| pmu.rdmsr(msr));
        for (msr, value) in writes {
            // All reserved bits are seldom clear in a random value.
            for value in [value, value & 0xff17, 0] {
                if pmu.wrmsr(msr, value).is_ok() {
                    let i = ADDRESSES.iter().position(|it| *it == msr).unwrap();
                    values[i] = Ok(value);
                }
                prop_assert_eq!(ADDRESSES.map(|msr| pmu.rdmsr(msr)), values);
            }
        }
    }
}

fn hybrid(model: u8, core_type: CoreType) -> Result<Pmu, ConfigError> {
    hybrid_of(6, model, core_type)
}

fn hybrid_of(family: u16, model: u8, core_type: CoreType) -> Result<Pmu, ConfigError> {
    let signature = Signature {
        family,
        model,
        stepping: 0,
    };
    Config::of_hybrid(Vendor::Intel, signature, core_type).and_then(Pmu::new)
}

/// Leaf 0AH of Alder Lake is the same on all cores. Later ones report each core's own counters
/// there and in leaf 23H.
#[test]
fn cpuid_of_hybrid_processors() {
    use CoreType::{Efficient, LowPower, Performance};
    for (model, core_type, leaf_1a, leaf_a, leaf_23) in [
        (
            0x97,
            Performance,
            0x4000_0001,
            [0x0830_0605, 0x7, 0x8603],
            None,
        ),
        (
            0x97,
            Efficient,
            0x2000_0001,
            [0x0830_0605, 0x7, 0x8603],
            None,
        ),
        (
            0xb7,
            Efficient,
            0x2000_0001,
            [0x0830_0605, 0x7, 0x8603],
            None,
        ),
        (
            0xaa,
            Performance,
            0x4000_0002,
            [0x0830_0805, 0xf, 0x8604],
            Some([0xff, 0xf]),
        ),
        (
            0xaa,
            Efficient,
            0x2000_0002,
            [0x0830_0805, 0x7, 0x8603],
            Some([0xff, 0x7]),
        ),
        (
            0xc6,
            Performance,
            0x4000_0003,
            [0x0830_0806, 0xf, 0x8604],
            Some([0xff, 0xf]),
        ),
        (
            0xc5,
            Efficient,
            0x2000_0003,
            [0x0830_0806, 0x7, 0x8603],
            Some([0xff, 0x7]),
        ),
        (
            0xc5,
            LowPower,
            0x2000_0002,
            [0x0830_0806, 0x7, 0x8603],
            Some([0xff, 0x7]),
        ),
        (
            0xcc,
            Efficient,
            0x2000_0004,
            [0x0830_0806, 0x7, 0x8603],
            Some([0xff, 0x7]),
        ),
    ] {
        let pmu = hybrid(model, core_type).unwrap();
        let name = format!("{model:#x} {core_type:?}");
        assert!(pmu.hybrid(), "{name}");
        assert_eq!(pmu.cpuid(0x1a), Some([leaf_1a, 0, 0, 0]), "{name}");
        let [eax, ebx, ecx, edx] = pmu.cpuid(0xa).unwrap();
        assert_eq!(([eax, ecx, edx], ebx), (leaf_a, 0), "{name}");
        assert_eq!(pmu.perfmon_ext(), leaf_23.is_some(), "{name}");
        let counters = pmu.cpuid_count(0x23, 1).map(|[eax, ebx, ..]| [eax, ebx]);
        assert_eq!(counters, leaf_23, "{name}");
    }
}

/// Arrow Lake has the fields of version 6: the second unit mask, and EQ.
#[test]
fn leaf_23h_of_version_6() {
    let mut pmu = hybrid(0xc6, CoreType::Performance).unwrap();
    assert_eq!(pmu.cpuid(0x23), Some([0b1011, 0b11, 4, 0]));
    assert!(pmu.wrmsr(IA32_PERFEVTSEL0, EventSel::EQ).is_ok());
}

/// Meteor Lake has leaf 23H, but not those fields.
#[test]
fn leaf_23h_of_version_5() {
    let mut pmu = hybrid(0xaa, CoreType::Performance).unwrap();
    assert_eq!(pmu.cpuid(0x23), Some([0b1011, 0, 4, 0]));
    assert_eq!(pmu.cpuid_count(0x23, 3), Some([0xff, 0, 0, 0]));
    assert!(pmu.wrmsr(IA32_PERFEVTSEL0, EventSel::EQ).is_err());
    assert_eq!(pmu.rdmsr(IA32_PMC_GP0_CTR), GP);
}

/// The counters that CPUID hides exist, and each core has the registers of its type.
#[test]
fn registers_of_alder_lake() {
    let mut performance = hybrid(0x97, CoreType::Performance).unwrap();
    let mut efficient = hybrid(0x97, CoreType::Efficient).unwrap();
    for (msr, on_performance, on_efficient) in [
        (IA32_PERFEVTSEL0 + 5, Ok(0), Ok(0)),
        (IA32_PERFEVTSEL0 + 7, Ok(0), GP),
        (IA32_FIXED_CTR0 + 2, Ok(0), Ok(0)),
        (IA32_FIXED_CTR0 + 3, Ok(0), GP),
        (MSR_PEBS_LD_LAT, Ok(0), Ok(0)),
        (MSR_PEBS_FRONTEND, Ok(0), GP),
    ] {
        assert_eq!(performance.rdmsr(msr), on_performance, "{msr:#x}");
        assert_eq!(efficient.rdmsr(msr), on_efficient, "{msr:#x}");
    }
    // A bit that only Gracemont's register has.
    assert_eq!(
        performance.wrmsr(MSR_OFFCORE_RSP_0, 1 << 63),
        Err(MsrError::GeneralProtection)
    );
    assert_eq!(efficient.wrmsr(MSR_OFFCORE_RSP_0, 1 << 63), Ok(()));
}

/// AMX_OPS_RETIRED of Golden Cove counts on counter 0 only. On Gracemont it is no event.
#[test]
fn constraints_of_alder_lake() {
    for (core_type, expected) in [
        (CoreType::Performance, [100, 0]),
        (CoreType::Efficient, [0, 0]),
    ] {
        let mut pmu = hybrid(0x97, core_type).unwrap();
        for i in 0..2 {
            let eventsel = EventSel::EN | EventSel::USR | 0xce;
            pmu.wrmsr(IA32_PERFEVTSEL0 + i, eventsel).unwrap();
        }
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 0b11).unwrap();
        let retired = Retired {
            instructions: 100,
            branches: 0,
            ..Retired::default()
        };
        pmu.retire(&[retired, Retired::default()]);
        let counts = [0, 1].map(|i| pmu.rdmsr(IA32_PMC0 + i).unwrap());
        assert_eq!(counts, expected, "{core_type:?}");
    }
}

/// Arctic Wolf has registers of its own, each with a counter. No processor has such cores only.
#[test]
fn cores_of_nova_lake() {
    const OMR_EVENTS: [u64; 4] = [0x01b7, 0x02b7, 0x04b7, 0x08b7];
    let mut performance = hybrid_of(18, 1, CoreType::Performance).unwrap();
    let mut efficient = hybrid_of(18, 3, CoreType::Efficient).unwrap();
    assert_eq!(performance.cpuid(0x1a), Some([0x4000_0005, 0, 0, 0]));
    assert_eq!(efficient.cpuid(0x1a), Some([0x2000_0005, 0, 0, 0]));
    assert_eq!(efficient.cpuid_count(0x23, 1).map(|it| it[1]), Some(0x7));
    for msr in [MSR_OMR_0, MSR_OMR_1, MSR_OMR_2, MSR_OMR_3] {
        assert_eq!(performance.wrmsr(msr, 1 << 63).ok(), None, "{msr:#x}");
        assert_eq!(efficient.wrmsr(msr, 1 << 63), Ok(()), "{msr:#x}");
        efficient.wrmsr(msr, 0).unwrap();
    }
    assert_eq!(performance.rdmsr(MSR_SNOOP_RSP_1), GP);
    assert_eq!(efficient.rdmsr(MSR_SNOOP_RSP_1), Ok(0));
    for (i, event) in OMR_EVENTS.into_iter().enumerate() {
        for counter in 0..4 {
            efficient.wrmsr(IA32_PERF_GLOBAL_CTRL, 0).unwrap();
            efficient.wrmsr(IA32_A_PMC0 + counter, 0).unwrap();
            let eventsel = EventSel::EN | EventSel::USR | event;
            efficient
                .wrmsr(IA32_PERFEVTSEL0 + counter, eventsel)
                .unwrap();
            efficient
                .wrmsr(IA32_PERF_GLOBAL_CTRL, 1 << counter)
                .unwrap();
            let retired = Retired {
                instructions: 100,
                branches: 0,
                ..Retired::default()
            };
            efficient.retire(&[retired, Retired::default()]);
            let expected = if counter as usize == i { 100 } else { 0 };
            assert_eq!(efficient.rdmsr(IA32_PMC0 + counter), Ok(expected));
        }
    }
}

/// PERF_CAPABILITIES of each core: full-width writes, and on performance cores metrics, which
/// Raptor Lake and Meteor Lake hide. From Lunar Lake on, RDPMC can clear them.
#[test]
fn metrics_of_hybrid_processors() {
    use CoreType::{Efficient, Performance};
    let clear = FW_WRITE | PERF_METRICS_AVAILABLE | RDPMC_METRICS_CLEAR;
    for (family, model, capabilities) in [
        (6, 0x97, FW_WRITE | PERF_METRICS_AVAILABLE),
        (6, 0x9a, FW_WRITE | PERF_METRICS_AVAILABLE),
        (6, 0xb7, FW_WRITE),
        (6, 0xba, FW_WRITE),
        (6, 0xbf, FW_WRITE),
        (6, 0xaa, FW_WRITE),
        (6, 0xac, FW_WRITE),
        (6, 0xb5, FW_WRITE | PERF_METRICS_AVAILABLE),
        (6, 0xbd, clear),
        (6, 0xc5, clear),
        (6, 0xc6, clear),
        (6, 0xcc, clear),
        (6, 0xd5, clear),
        (18, 0x01, clear),
        (18, 0x03, clear),
    ] {
        let mut pmu = hybrid_of(family, model, Performance).unwrap();
        assert_eq!(
            pmu.perf_capabilities(),
            Some(capabilities | LBR_FMT),
            "{model:#x}"
        );
        assert_eq!(pmu.wrmsr(MSR_PERF_METRICS, u64::MAX), Ok(()), "{model:#x}");
        let mut pmu = hybrid_of(family, model, Efficient).unwrap();
        assert_eq!(
            pmu.perf_capabilities(),
            Some(FW_WRITE | LBR_FMT),
            "{model:#x}"
        );
        assert!(pmu.wrmsr(MSR_PERF_METRICS, 0).is_err(), "{model:#x}");
    }
}

#[test]
fn other_registers_are_not_of_the_pmu() {
    assert_eq!(intel(5, 6, 0x8f).rdmsr(0x10), NOT_PMU);
    assert_eq!(intel(4, 6, 0x5e).rdmsr(MSR_PERF_METRICS), GP);
    assert_eq!(
        pmu(Vendor::Amd, 3, 0x19, 0x11).rdmsr(MSR_PERF_METRICS),
        NOT_PMU
    );
}

#[test]
fn not_hybrid() {
    assert!(!intel(5, 6, 0x8f).hybrid());
    let error = |model, core_type| hybrid(model, core_type).err();
    assert_eq!(
        error(0x8f, CoreType::Performance),
        Some(ConfigError::NotHybrid)
    );
    assert_eq!(
        error(0x97, CoreType::LowPower),
        Some(ConfigError::NoSuchCore)
    );
    let zen = Signature {
        family: 6,
        model: 0x97,
        stepping: 0,
    };
    let config = Config::of_hybrid(Vendor::Amd, zen, CoreType::Performance);
    assert_eq!(config, Err(ConfigError::NotHybrid));
    // Without efficient cores it is not one, and reports all counters.
    assert_eq!(
        leaf_a(Vendor::Intel, 6, 0x97, false),
        Some([0x0830_0805, 0xf, 0x8604])
    );
}

/// Processors of one row are alike, and so are cores of one type of two hybrid ones if CPUID reports
/// them alike.
#[test]
fn processors_that_are_alike() {
    use CoreType::{Efficient, LowPower, Performance};
    let signature = |model| Signature {
        family: 6,
        model,
        stepping: 0,
    };
    let config = |model, core_type: Option<_>| match core_type {
        Some(core_type) => Config::of_hybrid(Vendor::Intel, signature(model), core_type).unwrap(),
        None => Config::of_processor(Vendor::Intel, signature(model), false).unwrap(),
    };
    for (one, other, alike) in [
        // Skylake and Cascade Lake.
        ((0x5e, None), (0x55, None), true),
        // Skylake and Ice Lake.
        ((0x5e, None), (0x6a, None), false),
        // Two Alder Lakes.
        ((0x97, Some(Efficient)), (0x9a, Some(Efficient)), true),
        ((0x97, Some(Efficient)), (0x97, Some(Performance)), false),
        // Sapphire Rapids has the performance cores alone.
        ((0x97, Some(Performance)), (0x8f, None), false),
        // Redwood Cove: Meteor Lake hides PERF_METRICS, and Arrow Lake-U does not.
        ((0xaa, Some(Performance)), (0xac, Some(Performance)), true),
        ((0xaa, Some(Performance)), (0xb5, Some(Performance)), false),
        // Golden Cove: leaf 0AH of Raptor Lake is the same on all cores.
        ((0xb7, Some(Performance)), (0xb5, Some(Performance)), false),
        // Skymont, as efficient and as low-power cores.
        ((0xc5, Some(Efficient)), (0xc5, Some(LowPower)), false),
        ((0xc5, Some(Efficient)), (0xc6, Some(Efficient)), true),
    ] {
        let [a, b] = [one, other].map(|(model, core_type)| config(model, core_type));
        assert_eq!(a.has_processor_of(&b), alike, "{one:x?}, {other:x?}");
        assert_eq!(b.has_processor_of(&a), alike, "{other:x?}, {one:x?}");
    }
}
