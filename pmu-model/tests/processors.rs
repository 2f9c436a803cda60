// SPDX-License-Identifier: GPL-2.0

//! What a PMU has because of the processor that it belongs to.

use pmu_model::{msr::*, Config, Defect, MsrError, Pmu, Signature, Vendor};
use proptest::prelude::*;

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
            .fold(0, |bits, bit| bits | 1 << bit)
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
