// SPDX-License-Identifier: GPL-2.0

//! The rules for Intel's legacy LBRs.

use super::{
    branch, intel,
    reference::{machines, Kind, Machine, LEGACY},
    retire_ten, sample_ten, GP,
};
use pmu_model::{
    msr::*, Branch, BranchKind, Config, ConfigError, LbrAddresses, LbrFormat, LbrSelect, Lbrs,
    LegacyLbrs, Mode, MsrError, Pmu, Vendor,
};

const SELECT: u32 = 0x1c8;
const TOS: u32 = 0x1c9;
/// MISPRED, or the sign of an address.
const HIGHEST: u64 = 1 << 63;

/// Everything is recorded.
fn recording(model: u8) -> Pmu {
    let mut pmu = Pmu::new(intel(model)).unwrap();
    pmu.wrmsr(IA32_DEBUGCTL, debugctl::LBR).unwrap();
    pmu
}

/// FROM of the records at TOS and before it, as Linux's driver reads them.
fn sources(pmu: &Pmu, depth: u64, first: u32) -> Vec<u64> {
    let tos = pmu.rdmsr(TOS).unwrap();
    let places = (0..depth).map(|i| (tos + depth - i) % depth);
    let all = places.map(|place| pmu.rdmsr(first + place as u32).unwrap());
    all.take_while(|&from| from != 0).collect()
}

fn legacy_machines() -> impl Iterator<Item = (Machine, &'static super::reference::Legacy)> {
    machines().into_iter().filter_map(|it| match it.kind {
        Kind::Legacy(legacy) => Some((it, legacy)),
        _ => None,
    })
}

/// PERF_CAPABILITIES has the format, and CPUID has no leaf of the architectural LBRs.
#[test]
fn perf_capabilities_has_the_format() {
    for (machine, legacy) in legacy_machines() {
        let pmu = machine.pmu();
        let format = pmu.perf_capabilities().unwrap() & 0x3f;
        assert_eq!(format, u64::from(legacy.formats[0]), "{:#x}", legacy.model);
        assert_eq!(pmu.cpuid(0x1c), None);
        assert!(pmu.has_lbrs() && !pmu.has_arch_lbrs());
        let without = Pmu::new(Config {
            lbrs: None,
            ..machine.config
        });
        assert_eq!(without.unwrap().perf_capabilities().unwrap() & 0x3f, 0);
    }
}

/// Linux's driver writes each register with some bits flipped, and uses the LBRs if it reads them back
/// (`check_msr()` in arch/x86/events/intel/core.c).
#[test]
fn registers_can_be_probed() {
    for (machine, legacy) in legacy_machines() {
        let mut pmu = machine.pmu();
        let mut probe = |msr: u32, mask: u64| {
            let before = pmu.rdmsr(msr).unwrap();
            pmu.wrmsr(msr, before ^ mask).unwrap();
            assert_eq!(pmu.rdmsr(msr), Ok(before ^ mask), "{msr:#x}");
            pmu.wrmsr(msr, before).unwrap();
        };
        probe(TOS, 0x3);
        for i in 0..u32::from(legacy.depth) {
            probe(legacy.from + i, 0xffff);
            probe(legacy.to + i, 0xffff);
        }
    }
}

/// Those of other kinds, and those of records that do not exist.
#[test]
fn other_registers_raise_gp() {
    for (machine, legacy) in legacy_machines() {
        let mut pmu = machine.pmu();
        let depth = u32::from(legacy.depth);
        let low = [0x40..0x48, 0x60..0x68];
        let high = [0x680..0x6a0, 0x6c0..0x6e0, 0xdc0..0xde0];
        let others = [0x14ce..0x14d0, 0x1500..0x1520, 0xc001_0300..0xc001_0320];
        let all = low.into_iter().chain(high).chain(others);
        let all = all.chain([SELECT..TOS + 1, 0xc000_010e..0xc000_0110]);
        for msr in all.flatten() {
            let is_in = |first: u32| (first..first + depth).contains(&msr);
            let exists = is_in(legacy.from)
                || is_in(legacy.to)
                || (legacy.has_info && is_in(0xdc0))
                || (msr == SELECT && legacy.select != 0)
                || msr == TOS;
            let expected = if exists { Ok(()) } else { GP };
            assert_eq!(pmu.rdmsr(msr).map(drop), expected, "{msr:#x}");
            assert_eq!(pmu.wrmsr(msr, 0), expected, "{msr:#x}");
        }
        // The last event record has no INFO.
        assert_eq!(pmu.rdmsr(0x1de), Ok(0));
        assert_eq!(pmu.rdmsr(0x1e0), Err(MsrError::NotPmu));
    }
    // A processor that is known, without LBRs, and one that is not.
    let yonah = Pmu::new(intel(0x0e)).unwrap();
    assert_eq!(yonah.rdmsr(TOS).map(drop), GP);
    assert_eq!(yonah.rdmsr(0x1dd), Err(MsrError::NotPmu));
    let any = Pmu::new(Config::new(Vendor::Intel, 4).unwrap()).unwrap();
    assert_eq!(any.rdmsr(TOS), Err(MsrError::NotPmu));
}

#[test]
fn reserved_bits_raise_gp() {
    for (machine, legacy) in legacy_machines() {
        let mut pmu = machine.pmu();
        for bit in 0..64 {
            let value = 1 << bit;
            if legacy.select != 0 {
                let expected = if legacy.select & value != 0 {
                    Ok(())
                } else {
                    GP
                };
                assert_eq!(pmu.wrmsr(SELECT, value), expected, "{bit}");
            }
            let expected = if value < legacy.depth.into() {
                Ok(())
            } else {
                GP
            };
            assert_eq!(pmu.wrmsr(TOS, value), expected, "{bit}");
            if legacy.has_info {
                let exists = match legacy.formats[1] {
                    5 => matches!(bit, 0..16 | 61..),
                    _ => matches!(bit, 0..16 | 63),
                };
                let expected = if exists { Ok(()) } else { GP };
                assert_eq!(pmu.wrmsr(0xdc0, value), expected, "{bit}");
            }
        }
    }
}

/// Without TSX, bits 62:61 are copies of bit 60 in a write, but 0 in a record.
#[test]
fn haswell_takes_flags_for_a_sign() {
    const FROM: u32 = 0x680;
    let mut haswell = recording(0x3c);
    for from in [0x7000 << 48, 0xf000 << 48, HIGHEST, 0] {
        haswell.wrmsr(FROM, from).unwrap();
        assert_eq!(haswell.rdmsr(FROM), Ok(from));
    }
    for from in [1 << 60, 1 << 61, 0b11 << 61, 0b101 << 60] {
        assert_eq!(haswell.wrmsr(FROM, from), GP);
        recording(0x2a).wrmsr(FROM, from).unwrap();
    }
    let kernel = 0xffff_ffff_8100_0000;
    haswell.branch(&branch(BranchKind::Other, kernel, kernel + 5));
    assert_eq!(haswell.rdmsr(FROM + 1), Ok(0x1fff_ffff_8100_0000));
    assert_eq!(haswell.rdmsr(0x6c1), Ok(kernel + 5));
}

/// TOS is the place of the youngest record, and software can move it.
#[test]
fn a_record_is_written_behind_tos() {
    let mut pmu = recording(0x17);
    for i in 1..=6 {
        pmu.branch(&branch(BranchKind::RelativeJump, i, i + 100));
    }
    assert_eq!(pmu.rdmsr(TOS), Ok(2));
    let from: Vec<_> = (0x40..0x44).map(|msr| pmu.rdmsr(msr).unwrap()).collect();
    assert_eq!(from, [4, 5, 6, 3]);
    pmu.wrmsr(TOS, 3).unwrap();
    pmu.branch(&branch(BranchKind::RelativeJump, 7, 8));
    assert_eq!((pmu.rdmsr(TOS), pmu.rdmsr(0x40)), (Ok(0), Ok(7)));
    pmu.reset();
    assert_eq!((pmu.rdmsr(TOS), pmu.rdmsr(0x40)), (Ok(0), Ok(0)));
}

#[test]
fn the_target_decides_and_the_source_is_shown() {
    let to_user = Branch {
        modes: [Mode::Kernel, Mode::User],
        ..branch(BranchKind::Other, 0x1000, 0x2000)
    };
    let to_kernel = Branch {
        modes: [Mode::User, Mode::Kernel],
        ..branch(BranchKind::Other, 0x2000, 0x1000)
    };
    for (suppressed, expected) in [
        (0b01, vec![0x1000]),
        (0b10, vec![0x2000]),
        (0b11, vec![]),
        (0, vec![0x2000, 0x1000]),
    ] {
        let mut pmu = recording(0x5e);
        pmu.wrmsr(SELECT, suppressed).unwrap();
        pmu.branch(&to_user);
        pmu.branch(&to_kernel);
        assert_eq!(sources(&pmu, 32, 0x680), expected);
    }
}

#[test]
fn a_return_removes_its_call_from_haswell_on() {
    use BranchKind::{CallOfNext, IndirectCall, RelativeCall, RelativeJump, Return};
    for model in [0x3c, 0x5e, 0x5c, 0x86] {
        let depth = if model == 0x3c { 16 } else { 32 };
        let mut pmu = recording(model);
        pmu.wrmsr(SELECT, 0x3c5).unwrap();
        assert_eq!(pmu.last_branches(), None);
        for (kind, from) in [
            (RelativeCall, 1),
            (IndirectCall, 2),
            (Return, 3),
            (RelativeJump, 4),
            (CallOfNext, 5),
        ] {
            pmu.branch(&branch(kind, from, 100));
        }
        assert_eq!(sources(&pmu, depth, 0x680), [5, 1]);
        pmu.branch(&branch(Return, 6, 100));
        pmu.branch(&branch(Return, 7, 100));
        pmu.branch(&branch(Return, 8, 100));
        assert!(sources(&pmu, depth, 0x680).is_empty());
        assert_eq!(pmu.rdmsr(TOS), Ok(depth - 1));
    }
}

/// Versions 2 and 3: the PMI clears the bit that enables the LBRs.
#[test]
fn a_pmi_disables_them_before_version_4() {
    for (model, first) in [(0x17, 0x40), (0x2a, 0x680)] {
        let mut pmu = recording(model);
        let freeze = debugctl::FREEZE_LBRS_ON_PMI;
        pmu.wrmsr(IA32_DEBUGCTL, debugctl::LBR | freeze).unwrap();
        sample_ten(&mut pmu, Vendor::Intel);
        pmu.branch(&branch(BranchKind::Conditional, 1, 2));
        retire_ten(&mut pmu);
        assert!(pmu.take_pmi());
        assert_eq!(pmu.rdmsr(IA32_DEBUGCTL), Ok(freeze));
        assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(1));
        pmu.branch(&branch(BranchKind::Conditional, 3, 4));
        assert_eq!(sources(&pmu, 4, first), [1]);
        pmu.wrmsr(IA32_DEBUGCTL, debugctl::LBR | freeze).unwrap();
        pmu.branch(&branch(BranchKind::Conditional, 5, 6));
        assert_eq!(sources(&pmu, 4, first), [5, 1]);
    }
}

#[test]
fn a_pmi_freezes_them_from_version_4_on() {
    for model in [0x5e, 0x5c, 0x86] {
        let mut pmu = recording(model);
        let debugctl = debugctl::LBR | debugctl::FREEZE_LBRS_ON_PMI;
        pmu.wrmsr(IA32_DEBUGCTL, debugctl).unwrap();
        sample_ten(&mut pmu, Vendor::Intel);
        pmu.branch(&branch(BranchKind::Conditional, 1, 2));
        retire_ten(&mut pmu);
        assert!(pmu.take_pmi());
        assert_eq!(pmu.rdmsr(IA32_DEBUGCTL), Ok(debugctl));
        let status = pmu.rdmsr(IA32_PERF_GLOBAL_STATUS).unwrap();
        assert_eq!(status, global_status::LBR_FRZ | 1);
        pmu.branch(&branch(BranchKind::Conditional, 3, 4));
        assert_eq!(sources(&pmu, 32, 0x680), [1]);
        pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, status).unwrap();
        pmu.branch(&branch(BranchKind::Conditional, 5, 6));
        assert_eq!(sources(&pmu, 32, 0x680), [5, 1]);
    }
}

#[test]
fn a_debug_exception_stops_recording() {
    let mut pmu = recording(0x5e);
    assert!(pmu.counting());
    pmu.debug_exception();
    assert_eq!(pmu.rdmsr(IA32_DEBUGCTL), Ok(0));
    assert!(!pmu.counting());
}

#[test]
fn the_kind_is_that_of_the_processor() {
    let skylake = intel(0x5e);
    assert_eq!(skylake.lbrs_with_depth(0), None);
    let eight = skylake.lbrs_with_depth(8).unwrap();
    assert_eq!(eight.depth(), 8);
    assert!(matches!(eight, Lbrs::Legacy(_)));
    // Of versions that cannot have it, it is not.
    let with_version = |config, version| Config { version, ..config };
    assert_eq!(with_version(skylake, 1).lbrs_of_processor(), None);
    assert_eq!(with_version(intel(0x8f), 3).lbrs_of_processor(), None);
    let yonah = with_version(intel(0x0e), 5);
    assert_eq!(yonah.lbrs_of_processor(), None);
    assert!(matches!(
        yonah.lbrs_with_depth(32),
        Some(Lbrs::Architectural(_))
    ));
}

#[test]
fn only_some_processors_can_have_them() {
    let nehalem = LegacyLbrs {
        depth: 16,
        format: LbrFormat::EipFlags,
        addresses: LbrAddresses::High,
        select: LbrSelect::Filters,
    };
    let error = |vendor, version, lbrs| {
        Pmu::new(Config {
            lbrs: Some(Lbrs::Legacy(lbrs)),
            ..Config::new(vendor, version).unwrap()
        })
        .err()
    };
    assert_eq!(error(Vendor::Intel, 2, nehalem), None);
    for (vendor, version) in [(Vendor::Intel, 1), (Vendor::Zhaoxin, 2), (Vendor::Amd, 3)] {
        let version = error(vendor, version, nehalem);
        assert_eq!(version, Some(ConfigError::LbrVersion));
    }
    for (depth, addresses) in [
        (0, LbrAddresses::High),
        (12, LbrAddresses::High),
        (64, LbrAddresses::High),
        (16, LbrAddresses::Low),
    ] {
        let lbrs = LegacyLbrs {
            depth,
            addresses,
            ..nehalem
        };
        assert_eq!(error(Vendor::Intel, 3, lbrs), Some(ConfigError::LbrDepth));
    }
}

/// Each model of each family that Linux's driver names has the LBRs that are tested.
#[test]
fn every_model_is_like_one_of_these() {
    let like: [&[u8]; 13] = [
        &[0x0f, 0x16, 0x1d],
        &[0x26, 0x27, 0x35, 0x36],
        &[0x4a, 0x4c, 0x4d, 0x5a, 0x75],
        &[0x85],
        &[0x1e, 0x2e],
        &[0x25, 0x2f],
        &[0x2d, 0x3a, 0x3e],
        &[0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56],
        &[0x4e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6],
        &[0x6a, 0x6c, 0x7d, 0xa7, 0x8c, 0x8d],
        &[0x5f],
        &[],
        &[0x96, 0x9c],
    ];
    for (legacy, models) in LEGACY.iter().zip(like) {
        let lbrs = intel(legacy.model).lbrs;
        assert!(lbrs.is_some());
        for &model in models {
            assert_eq!(intel(model).lbrs, lbrs, "{model:#x}");
        }
    }
    let arch = [0x8f, 0xcf, 0xad, 0xae, 0xaf, 0xb6, 0xbe, 0xdd];
    let hybrid = [
        0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5, 0xbd, 0xc5, 0xc6, 0xcc, 0xd5,
    ];
    for model in arch.into_iter().chain(hybrid) {
        let lbrs = intel(model).lbrs;
        assert!(matches!(lbrs, Some(Lbrs::Architectural(_))), "{model:#x}");
        assert_eq!(lbrs.unwrap().depth(), 32);
    }
}
