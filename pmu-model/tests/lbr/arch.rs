// SPDX-License-Identifier: GPL-2.0

//! The rules for architectural LBRs.

use super::branch;
use pmu_model::{
    msr::*, ArchLbrs, Branch, BranchKind, Config, ConfigError, Lbrs, Mode, MsrError, Pmu, Retired,
    Vendor,
};

const EN: u64 = 1 << 0;
const OS: u64 = 1 << 1;
const USR: u64 = 1 << 2;
const CALL_STACK: u64 = 1 << 3;
const ANY: u64 = 0x7f << 16;
const CALLS_AND_RETURNS: u64 = 0b111 << 19;

fn architectural(depth: u8) -> Option<Lbrs> {
    (depth > 0).then_some(Lbrs::Architectural(ArchLbrs { depth, logged: 0 }))
}

fn pmu(depth: u8) -> Pmu {
    Pmu::new(Config {
        lbrs: architectural(depth),
        ..Config::new(Vendor::Intel, 5).unwrap()
    })
    .unwrap()
}

/// FROM, TO and INFO of all records.
fn records(pmu: &Pmu) -> Vec<[u64; 3]> {
    let depth = pmu.rdmsr(IA32_LBR_DEPTH).unwrap() as u32;
    let read = |msr| pmu.rdmsr(msr).unwrap();
    (0..depth)
        .map(|i| [IA32_LBR_0_FROM_IP, IA32_LBR_0_TO_IP, IA32_LBR_0_INFO].map(|msr| read(msr + i)))
        .collect()
}

/// FROM of the records that there are.
fn sources(pmu: &Pmu) -> Vec<u64> {
    let all = records(pmu).into_iter().map(|[from, ..]| from);
    all.take_while(|&from| from != 0).collect()
}

#[test]
fn cpuid_describes_them() {
    let expected = [(8, 0x4000_0001), (16, 0x4000_0003), (32, 0x4000_000b)];
    for (depth, eax) in expected {
        let pmu = pmu(depth);
        assert_eq!(pmu.cpuid(0x1c), Some([eax, 7, 7, 0]));
        assert_eq!(pmu.rdmsr(IA32_LBR_DEPTH), Ok(depth.into()));
        assert_eq!(pmu.perf_capabilities().unwrap() & 0x3f, 0x3f);
    }
    let without = pmu(0);
    assert_eq!(without.cpuid(0x1c), None);
    assert_eq!(without.perf_capabilities().unwrap() & 0x3f, 0);
    assert_eq!(without.rdmsr(IA32_LBR_CTL), Err(MsrError::NotPmu));
}

#[test]
fn only_some_processors_can_have_them() {
    let config = |vendor, version, depth| Config {
        lbrs: architectural(depth),
        ..Config::new(vendor, version).unwrap()
    };
    let error = |config| Pmu::new(config).unwrap_err();
    assert_eq!(error(config(Vendor::Intel, 5, 24)), ConfigError::LbrDepth);
    assert_eq!(error(config(Vendor::Intel, 5, 64)), ConfigError::LbrDepth);
    assert_eq!(error(config(Vendor::Intel, 3, 32)), ConfigError::LbrVersion);
    assert_eq!(error(config(Vendor::Amd, 3, 16)), ConfigError::LbrVersion);
}

#[test]
fn reserved_bits_and_depths_raise_gp() {
    let mut pmu = pmu(16);
    let gp = Err(MsrError::GeneralProtection);
    for bit in (4..16).chain(23..64) {
        assert_eq!(pmu.wrmsr(IA32_LBR_CTL, 1 << bit), gp, "{bit}");
    }
    for depth in [0, 1, 24, 32, 64, 0x100 + 8, 1 << 63] {
        assert_eq!(pmu.wrmsr(IA32_LBR_DEPTH, depth), gp, "{depth}");
    }
    pmu.wrmsr(IA32_LBR_DEPTH, 8).unwrap();
    for first in [IA32_LBR_0_FROM_IP, IA32_LBR_0_TO_IP, IA32_LBR_0_INFO] {
        assert_eq!(pmu.rdmsr(first + 7), Ok(0));
        pmu.wrmsr(first + 7, 1).unwrap();
        assert_eq!(pmu.rdmsr(first + 7), Ok(1));
        assert_eq!(pmu.rdmsr(first + 8).map(drop), gp);
        assert_eq!(pmu.wrmsr(first + 8, 1), gp);
    }
}

#[test]
fn a_write_of_the_depth_clears_all() {
    let mut pmu = pmu(32);
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | ANY).unwrap();
    for i in 1..=40 {
        pmu.branch(&branch(BranchKind::RelativeJump, i, i + 100));
    }
    assert_eq!(sources(&pmu), (9..=40).rev().collect::<Vec<_>>());
    pmu.wrmsr(IA32_LBR_DEPTH, 32).unwrap();
    assert_eq!(records(&pmu), vec![[0; 3]; 32]);
}

#[test]
fn the_source_of_another_cpl_is_hidden() {
    let to_user = Branch {
        modes: [Mode::Kernel, Mode::User],
        ..branch(BranchKind::Other, 0xffff_ffff_8100_0000, 0x40_0000)
    };
    let to_kernel = Branch {
        modes: [Mode::User, Mode::Kernel],
        ..branch(BranchKind::Other, 0x40_0002, 0xffff_ffff_8200_0000)
    };
    for (cpls, expected) in [
        (USR, vec![[u64::MAX, to_user.to]]),
        (OS, vec![[u64::MAX, to_kernel.to]]),
        (
            OS | USR,
            vec![[to_kernel.from, to_kernel.to], [to_user.from, to_user.to]],
        ),
    ] {
        let mut pmu = pmu(8);
        pmu.wrmsr(IA32_LBR_CTL, EN | cpls | ANY).unwrap();
        pmu.branch(&to_user);
        pmu.branch(&to_kernel);
        let recorded = records(&pmu).into_iter().map(|[from, to, _]| [from, to]);
        let recorded: Vec<_> = recorded.take_while(|it| *it != [0; 2]).collect();
        assert_eq!(recorded, expected);
    }
}

#[test]
fn a_return_removes_its_call() {
    use BranchKind::{IndirectCall, RelativeCall, Return};
    let mut pmu = pmu(8);
    let ctl = EN | USR | CALL_STACK | CALLS_AND_RETURNS;
    pmu.wrmsr(IA32_LBR_CTL, ctl).unwrap();
    for (kind, from) in [
        (RelativeCall, 1),
        (IndirectCall, 2),
        (Return, 3),
        (RelativeCall, 4),
    ] {
        pmu.branch(&branch(kind, from, 100));
    }
    assert_eq!(sources(&pmu), [4, 1]);
    for from in 5..=7 {
        pmu.branch(&branch(Return, from, 100));
    }
    assert_eq!(records(&pmu), vec![[0; 3]; 8]);
}

/// The 64th branch of a mode is mispredicted, and takes 15 cycles more.
#[test]
fn info_has_prediction_and_cycles() {
    const MISPRED: u64 = 1 << 63;
    const VALID: u64 = 1 << 60;
    let mut pmu = pmu(8);
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | ANY).unwrap();
    let at = |instructions, branches| Branch {
        retired: [
            Retired {
                instructions,
                branches,
                ..Retired::default()
            },
            Retired::default(),
        ],
        ..branch(BranchKind::Conditional, 1, 2)
    };
    pmu.branch(&at(620, 62));
    pmu.branch(&at(630, 63));
    pmu.branch(&at(640, 64));
    pmu.branch(&at(100_000, 65));
    let info: Vec<_> = records(&pmu)[..4].iter().map(|[.., info]| *info).collect();
    assert_eq!(info, [VALID | 0xffff, VALID | MISPRED | 25, VALID | 10, 0]);
}

#[test]
fn a_pmi_freezes_them() {
    let mut pmu = pmu(8);
    pmu.wrmsr(IA32_DEBUGCTL, debugctl::FREEZE_LBRS_ON_PMI)
        .unwrap();
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | ANY).unwrap();
    pmu.wrmsr(
        IA32_PERFEVTSEL0,
        EventSel::EN | EventSel::INT | EventSel::USR | 0xc0,
    )
    .unwrap();
    pmu.wrmsr(IA32_PMC0, -10_i64 as u64).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    pmu.branch(&branch(BranchKind::Conditional, 1, 2));
    let ten = Retired {
        instructions: 10,
        branches: 1,
        ..Retired::default()
    };
    pmu.retire(&[ten, Retired::default()]);
    assert!(pmu.take_pmi());
    assert_eq!(pmu.branch_filter(Mode::User), 0);
    pmu.branch(&branch(BranchKind::Conditional, 3, 4));
    assert_eq!(sources(&pmu), [1]);
    let status = pmu.rdmsr(IA32_PERF_GLOBAL_STATUS).unwrap();
    assert_eq!(status, global_status::LBR_FRZ | 1);
    pmu.wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, status).unwrap();
    pmu.branch(&branch(BranchKind::Conditional, 5, 6));
    assert_eq!(sources(&pmu), [5, 1]);
}

#[test]
fn a_debug_exception_stops_recording() {
    let mut pmu = pmu(8);
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | ANY).unwrap();
    assert!(pmu.counting());
    pmu.debug_exception();
    assert_eq!(pmu.rdmsr(IA32_LBR_CTL), Ok(USR | ANY));
    assert!(!pmu.counting());
}

/// The last event record has the branch before the interrupt, and the youngest record is the interrupt.
#[test]
fn an_interrupt_copies_the_youngest_record() {
    let mut pmu = pmu(8);
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | OS | ANY).unwrap();
    pmu.branch(&branch(BranchKind::RelativeJump, 1, 2));
    pmu.branch(&branch(BranchKind::Return, 3, 4));
    pmu.interrupt();
    pmu.branch(&branch(BranchKind::Other, 5, 6));
    let last_event = [IA32_LER_FROM_IP, IA32_LER_TO_IP, IA32_LER_INFO];
    let read = |pmu: &Pmu| last_event.map(|msr| pmu.rdmsr(msr).unwrap());
    // BR_TYPE is that of a return. There are no cycles.
    assert_eq!(read(&pmu), [3, 4, 5 << 56]);
    assert_eq!(sources(&pmu), [5, 3, 1]);
    pmu.wrmsr(IA32_LBR_DEPTH, 8).unwrap();
    pmu.debug_exception();
    assert_eq!(read(&pmu), [3, 4, 5 << 56]);
    // It is not updated while nothing is recorded.
    pmu.interrupt();
    assert_eq!(read(&pmu), [3, 4, 5 << 56]);
    for bit in 0..64 {
        pmu.wrmsr(IA32_LER_INFO, 1 << bit).unwrap();
        let exists = matches!(bit, 56..=59 | 61..=63);
        assert_eq!(pmu.rdmsr(IA32_LER_INFO), Ok(u64::from(exists) << bit));
    }
}

/// QEMU reports it for the other kinds.
#[test]
fn a_call_of_the_next_instruction_is_not_recorded() {
    let mut pmu = pmu(8);
    pmu.wrmsr(IA32_LBR_CTL, EN | USR | OS | ANY).unwrap();
    let kind = BranchKind::CallOfNext;
    assert_eq!(pmu.branch_filter(Mode::User) & kind.bit(), 0);
    pmu.branch(&branch(kind, 1, 6));
    assert!(sources(&pmu).is_empty());
}
