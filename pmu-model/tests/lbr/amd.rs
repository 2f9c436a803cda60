// SPDX-License-Identifier: GPL-2.0

//! The rules for AMD's LBR stack.

use super::{branch, processor, retire_ten, sample_ten, GP};
use pmu_model::{
    msr::*, AmdLbrs, Branch, BranchKind, Config, ConfigError, Lbrs, Mode, MsrError, Pmu, Vendor,
};

const FROM: u32 = 0xc001_0300;
const SELECT: u32 = 0xc000_010e;
const EXTN: u32 = 0xc000_010f;
const VALID: u64 = 1 << 63;

fn with(depth: u8, freeze: bool) -> Config {
    Config {
        lbrs: Some(Lbrs::Amd(AmdLbrs { depth, freeze })),
        ..Config::new(Vendor::Amd, 3).unwrap()
    }
}

/// Zen 4, and everything is recorded.
fn recording() -> Pmu {
    let mut pmu = Pmu::new(processor(Vendor::Amd, 0x19, 0x11)).unwrap();
    pmu.wrmsr(EXTN, LBRSE).unwrap();
    pmu
}

/// FROM and TO of the records that are valid.
fn records(pmu: &Pmu) -> Vec<[u64; 2]> {
    let read = |msr| pmu.rdmsr(msr).unwrap();
    let all = (0..16).map(|i| [read(FROM + 2 * i), read(FROM + 2 * i + 1)]);
    let valid = all.take_while(|[_, to]| to & VALID != 0);
    valid.map(|[from, to]| [from, to & !VALID]).collect()
}

#[test]
fn cpuid_describes_them() {
    for (config, expected) in [
        (with(16, true), [0b111, 0x106]),
        (with(5, false), [0b011, 0x56]),
        (processor(Vendor::Amd, 0x19, 0x11), [0b111, 0x106]),
        (processor(Vendor::Amd, 0x1a, 0x02), [0b111, 0x106]),
    ] {
        let pmu = Pmu::new(config).unwrap();
        let [eax, ebx] = expected;
        assert_eq!(pmu.cpuid(0x8000_0022), Some([eax, ebx, 0, 0]));
        assert_eq!(pmu.cpuid(0x1c), None);
        assert_eq!(pmu.perf_capabilities(), None);
        assert!(pmu.has_lbrs() && !pmu.has_arch_lbrs());
    }
    // Zen 3.
    assert_eq!(processor(Vendor::Amd, 0x19, 0x01).lbrs, None);
    let hygon = Config::new(Vendor::Hygon, 3).unwrap();
    assert!(matches!(hygon.lbrs_with_depth(16), Some(Lbrs::Amd(_))));
}

#[test]
fn only_some_processors_can_have_them() {
    let error = |vendor, version, depth| {
        Pmu::new(Config {
            lbrs: with(depth, true).lbrs,
            ..Config::new(vendor, version).unwrap()
        })
        .err()
    };
    assert_eq!(error(Vendor::Amd, 3, 1), None);
    assert_eq!(error(Vendor::Hygon, 3, 32), None);
    assert_eq!(error(Vendor::Amd, 3, 0), Some(ConfigError::LbrDepth));
    assert_eq!(error(Vendor::Amd, 3, 33), Some(ConfigError::LbrDepth));
    assert_eq!(error(Vendor::Amd, 2, 16), Some(ConfigError::LbrVersion));
    assert_eq!(error(Vendor::Intel, 5, 16), Some(ConfigError::LbrVersion));
}

/// DebugExtnCtl must have no other bit, DebugCtl has four such bits, and a write to another register ignores
/// reserved bits.
#[test]
fn reserved_bits() {
    for freeze in [false, true] {
        let mut pmu = Pmu::new(with(16, freeze)).unwrap();
        for bit in 0..64 {
            let value = 1 << bit;
            let expected = if bit == 6 { Ok(()) } else { GP };
            assert_eq!(pmu.wrmsr(EXTN, value), expected, "{bit}");
            let expected = if (3..=6).contains(&bit) { GP } else { Ok(()) };
            assert_eq!(pmu.wrmsr(IA32_DEBUGCTL, value), expected, "{bit}");
        }
        for (msr, bits) in [
            (IA32_DEBUGCTL, if freeze { 0x1807 } else { 7 }),
            (SELECT, 0x1ff),
            (FROM, (1 << 63) | ((1 << 57) - 1)),
            (FROM + 1, (0b11 << 62) | ((1 << 57) - 1)),
            (FROM + 31, (0b11 << 62) | ((1 << 57) - 1)),
        ] {
            let value = if msr == IA32_DEBUGCTL {
                !0x78
            } else {
                u64::MAX
            };
            pmu.wrmsr(msr, value).unwrap();
            assert_eq!(pmu.rdmsr(msr), Ok(bits), "{msr:#x}");
        }
        pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_SET, u64::MAX).unwrap();
        let frozen = if freeze { 0b11 << 58 } else { 0 };
        assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS), Ok(frozen | 0x3f));
        // As Linux's driver does.
        pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_CLR, !1).unwrap();
        assert_eq!(pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS), Ok(1));
    }
}

#[test]
fn other_registers_raise_gp() {
    let mut pmu = Pmu::new(with(5, true)).unwrap();
    for msr in (FROM..FROM + 64).chain([0x1c8, 0x1c9, 0x40, 0x680, 0x14ce, 0x1500, 0xdc0]) {
        let exists = (FROM..FROM + 10).contains(&msr);
        let expected = if exists { Ok(()) } else { GP };
        assert_eq!(pmu.rdmsr(msr).map(drop), expected, "{msr:#x}");
        assert_eq!(pmu.wrmsr(msr, 0), expected, "{msr:#x}");
    }
    // The registers of the single record are not modelled.
    assert_eq!(pmu.rdmsr(0x1db), Err(MsrError::NotPmu));
    // A processor that is known not to have them.
    let zen_3 = Pmu::new(processor(Vendor::Amd, 0x19, 0x01)).unwrap();
    for msr in [FROM, SELECT, EXTN] {
        assert_eq!(zen_3.rdmsr(msr).map(drop), GP);
    }
    assert_eq!(zen_3.rdmsr(IA32_DEBUGCTL), Err(MsrError::NotPmu));
}

#[test]
fn the_target_decides_and_the_source_is_shown() {
    let kernel = 0xffff_ffff_8100_0000;
    let to_user = Branch {
        modes: [Mode::Kernel, Mode::User],
        ..branch(BranchKind::Other, kernel, 0x2000)
    };
    let mut pmu = recording();
    pmu.wrmsr(SELECT, 1).unwrap();
    pmu.branch(&to_user);
    pmu.branch(&branch(BranchKind::CallOfNext, 0x2000, 0x2005));
    pmu.branch(&Branch {
        modes: [Mode::User, Mode::Kernel],
        ..branch(BranchKind::Other, 0x2005, kernel)
    });
    let kernel = kernel & ((1 << 57) - 1);
    assert_eq!(records(&pmu), [[0x2000, 0x2005], [kernel, 0x2000]]);
}

/// Only software clears records.
#[test]
fn records_stay() {
    let mut pmu = recording();
    pmu.branch(&branch(BranchKind::Return, 1, 2));
    pmu.wrmsr(EXTN, 0).unwrap();
    pmu.branch(&branch(BranchKind::Return, 3, 4));
    pmu.wrmsr(EXTN, LBRSE).unwrap();
    // DebugCtl.LBR is for the single record.
    pmu.wrmsr(IA32_DEBUGCTL, debugctl::LBR).unwrap();
    pmu.branch(&branch(BranchKind::Return, 5, 6));
    assert_eq!(records(&pmu), [[5, 6], [1, 2]]);
}

#[test]
fn a_pmi_freezes_them() {
    let mut pmu = recording();
    pmu.wrmsr(IA32_DEBUGCTL, debugctl::FREEZE_LBRS_ON_PMI)
        .unwrap();
    sample_ten(&mut pmu, Vendor::Amd);
    pmu.branch(&branch(BranchKind::Conditional, 1, 2));
    retire_ten(&mut pmu);
    assert!(pmu.take_pmi());
    pmu.branch(&branch(BranchKind::Conditional, 3, 4));
    assert_eq!(records(&pmu), [[1, 2]]);
    let status = pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS).unwrap();
    assert_eq!(status, global_status::LBR_FRZ | 1);
    // The counters go on.
    retire_ten(&mut pmu);
    assert_eq!(pmu.rdmsr(PERF_CTR0), Ok(10));
    pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_CLR, 1).unwrap();
    assert_eq!(pmu.branch_filter(Mode::User), 0);
    pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_CLR, u64::MAX).unwrap();
    pmu.branch(&branch(BranchKind::Conditional, 5, 6));
    assert_eq!(records(&pmu), [[5, 6], [1, 2]]);
}

#[test]
fn a_pmi_freezes_the_counters() {
    let mut pmu = recording();
    pmu.wrmsr(IA32_DEBUGCTL, debugctl::FREEZE_PERFMON_ON_PMI)
        .unwrap();
    sample_ten(&mut pmu, Vendor::Amd);
    retire_ten(&mut pmu);
    assert!(pmu.take_pmi());
    let status = pmu.rdmsr(PERF_CNTR_GLOBAL_STATUS).unwrap();
    assert_eq!(status, global_status::CTR_FRZ | 1);
    retire_ten(&mut pmu);
    assert_eq!(pmu.rdmsr(PERF_CTR0), Ok(0));
    assert_ne!(pmu.branch_filter(Mode::User), 0);
    pmu.wrmsr(PERF_CNTR_GLOBAL_STATUS_CLR, status).unwrap();
    retire_ten(&mut pmu);
    assert_eq!(pmu.rdmsr(PERF_CTR0), Ok(10));
}

#[test]
fn a_debug_exception_stops_recording() {
    let mut pmu = recording();
    assert!(pmu.counting());
    pmu.debug_exception();
    assert_eq!(pmu.rdmsr(EXTN), Ok(0));
    assert!(!pmu.counting());
}
