// SPDX-License-Identifier: GPL-2.0

//! Which branches a user can ask for, and what kind of branch an instruction is.

use crate::common::{config, Cpu, Cpuid};
use pmc::lbr::{
    decode::{self, Code},
    Branch, BranchKind, BranchRequest, Lbr, Record, RequestError, Selection,
};
use pmu_model::Config;

/// `PERF_SAMPLE_BRANCH_*`.
const USER: u64 = 1 << 0;
const KERNEL: u64 = 1 << 1;
const ANY: u64 = 1 << 3;
const ANY_CALL: u64 = 1 << 4;
const ANY_RETURN: u64 = 1 << 5;
const IND_CALL: u64 = 1 << 6;
const ABORT_TX: u64 = 1 << 7;
const IN_TX: u64 = 1 << 8;
const NO_TX: u64 = 1 << 9;
const COND: u64 = 1 << 10;
const CALL_STACK: u64 = 1 << 11;
const IND_JUMP: u64 = 1 << 12;
const CALL: u64 = 1 << 13;
const COUNTERS: u64 = 1 << 19;

/// The LBRs of a CPU with these registers of leaf 1CH.
fn lbr(eax: u32, ebx: u32, ecx: u32) -> Option<Lbr> {
    let cpuid = Cpuid::new(b"GenuineIntel", 6, 0x8f, 0)
        .with(0xa, 0, [0x0730_0805, 0, 0, 0x604])
        .with(7, 0, [0, 0, 0, 1 << 19])
        .with(0x1c, 0, [eax, ebx, ecx, 0]);
    cpuid.detect().unwrap().lbr
}

fn control(lbr: &Lbr, request: u64) -> Result<u64, RequestError> {
    lbr.control(BranchRequest::from_raw(request))
}

#[test]
fn the_deepest_depth_is_used() {
    for (depths, depth) in [(0b1, 8), (0b11, 16), (0b1011, 32), (0b1000, 32)] {
        assert_eq!(lbr(depths, 7, 7).map(|it| it.depth), Some(depth));
    }
    // No depth at all, and one that no CPU has.
    assert_eq!(lbr(0, 7, 7), None);
    assert_eq!(lbr(0x80, 7, 7), None);
}

#[test]
fn architectural_ones_come_with_version_4() {
    for version in 4..=6 {
        for depth in [0, 8, 32] {
            let config = config(version, 8, 3, 48);
            let cpu = Cpu::new(Config {
                lbrs: config.lbrs_with_depth(depth),
                ..config
            });
            let found = cpu.detect().unwrap().lbr.map_or(0, |it| it.depth);
            assert_eq!(found, depth, "version {version}");
            // Older versions do not stop recording at a PMI as these do.
            assert!(cpu.detect_as(3).unwrap().lbr.is_none());
        }
    }
}

#[test]
fn lbr_ctl_has_a_bit_for_each_kind() {
    let lbr = lbr(0b1011, 7, 7).unwrap();
    for (request, bits) in [
        (USER, 0b100),
        (KERNEL | ANY, 0x7f_0002),
        (USER | KERNEL | COND, 0x01_0006),
        (USER | IND_JUMP, 0x04_0004),
        (USER | CALL, 0x08_0004),
        (USER | IND_CALL, 0x10_0004),
        (USER | ANY_CALL, 0x58_0004),
        (USER | ANY_RETURN, 0x60_0004),
        (USER | COND | ANY_RETURN | IN_TX, 0x61_0004),
        (USER | CALL_STACK, 0x38_000c),
        (USER | ABORT_TX, 0x40_0004),
    ] {
        assert_eq!(control(&lbr, request), Ok(bits | 1), "{request:#x}");
    }
}

#[test]
fn what_a_cpu_cannot_select_is_refused() {
    let unsupported = Err(RequestError::Unsupported);
    let all = lbr(0b1011, 7, 7).unwrap();
    for other in [COUNTERS, ANY, COND, IN_TX] {
        let request = USER | CALL_STACK | other;
        assert_eq!(control(&all, request), Err(RequestError::Invalid));
    }
    for ebx in [0b101, 0b110, 0b011] {
        let lbr = lbr(0b1011, ebx, 7).unwrap();
        assert_eq!(control(&lbr, USER | CALL_STACK), unsupported, "{ebx:#b}");
    }
    let levels = lbr(0b1011, 0b001, 7).unwrap();
    assert_eq!(control(&levels, USER), Ok(0b101));
    assert_eq!(control(&levels, USER | ANY), unsupported);
    let kinds = lbr(0b1011, 0b010, 7).unwrap();
    assert_eq!(control(&kinds, USER | ANY), unsupported);
    // What records everything leaves it to software: the other bits are reserved.
    let nothing = lbr(0b1011, 0, 7).unwrap();
    assert_eq!(control(&nothing, USER | COND), Ok(1));
}

const USER_IP: u64 = 0x40_1000;
const KERNEL_IP: u64 = 0xffff_ffff_8100_0000;

/// A branch of kind OTHER_BRANCH.
fn branch(from: u64, to: u64) -> Branch {
    branch_with(from, to, 8 << 56)
}

/// A branch whose record has this INFO.
fn branch_with(from: u64, to: u64, info: u64) -> Branch {
    let lbr = lbr(0b1011, 7, 7).unwrap();
    lbr.branch(Record { from, to, info }, 1).unwrap()
}

#[test]
fn no_kernel_address_is_shown_to_who_did_not_ask_for_the_kernel() {
    let of = |request| Selection::of(BranchRequest::from_raw(request));
    for (from, to, user, kernel) in [
        (USER_IP, USER_IP, true, false),
        (USER_IP, KERNEL_IP, false, true),
        (KERNEL_IP, USER_IP, false, false),
        (u64::MAX, USER_IP, false, false),
        (KERNEL_IP, KERNEL_IP, false, true),
    ] {
        let branch = branch(from, to);
        assert_eq!(of(USER | ANY).allows(branch), user, "{from:#x} {to:#x}");
        assert_eq!(of(KERNEL | ANY).allows(branch), kernel, "{from:#x} {to:#x}");
        assert!(of(USER | KERNEL | ANY).allows(branch));
    }
}

#[test]
fn kinds_that_the_registers_do_not_tell_apart_are_told_apart() {
    use BranchKind::{Interrupt, InterruptReturn, Return, SystemCall, SystemReturn};
    let lbr = lbr(0b1011, 7, 7).unwrap();
    let code = |bytes: &[u8]| Code {
        bytes: std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0x90)),
        len: 15,
        is_64_bit: true,
    };
    let syscall = &[0x0f, 0x05][..];
    for (from, to, bytes, kind, is_call) in [
        (USER_IP, KERNEL_IP, syscall, SystemCall, true),
        (USER_IP, KERNEL_IP, &[0x48, 0x89, 0xc8], Interrupt, true),
        // A page fault at a return, and an interrupt before one: the CPU would have told the return.
        (USER_IP, KERNEL_IP, &[0xc3], Interrupt, true),
        (KERNEL_IP, KERNEL_IP, &[0xc3], Interrupt, true),
        (KERNEL_IP, KERNEL_IP, &[0x75, 0x10], Interrupt, true),
        (KERNEL_IP, KERNEL_IP, &[0x48, 0x89, 0xc8], Interrupt, true),
        // CLAC.
        (KERNEL_IP, KERNEL_IP, &[0x0f, 0x01, 0xca], Interrupt, true),
        (KERNEL_IP, USER_IP, &[0x48, 0x0f, 0x07], SystemReturn, false),
        (KERNEL_IP, KERNEL_IP, &[0x48, 0xcf], InterruptReturn, false),
        (USER_IP, USER_IP, &[0xcb], Return, false),
    ] {
        let branch = branch(from, to);
        let found = branch.kind(&lbr, || code(bytes));
        assert_eq!(found, Some(kind));
        let wants = |request| {
            Selection::of(BranchRequest::from_raw(request | USER | KERNEL)).wants(branch, found)
        };
        assert!(wants(ANY));
        assert_eq!(wants(ANY_CALL), is_call, "{kind:?}");
        assert_eq!(wants(ANY_RETURN), !is_call, "{kind:?}");
        assert!(!wants(COND | IND_CALL | IND_JUMP | CALL));
    }
    // Code that cannot be read: only who wants everything sees the branch.
    let branch = branch(KERNEL_IP, USER_IP);
    let found = branch.kind(&lbr, Code::default);
    assert_eq!(found, None);
    let wants = |request| Selection::of(BranchRequest::from_raw(request)).wants(branch, found);
    assert!(wants(ANY));
    assert!(!wants(
        ANY_CALL | ANY_RETURN | COND | IND_CALL | IND_JUMP | CALL
    ));
}

#[test]
fn transactions_are_told_apart() {
    let [inside, outside] = [1 << 62, 0].map(|info| branch_with(USER_IP, USER_IP, info));
    let kind = Some(BranchKind::Conditional);
    for (request, expected) in [
        (ANY, [true, true]),
        (ANY | IN_TX, [true, false]),
        (ANY | NO_TX, [false, true]),
        (ANY | IN_TX | NO_TX, [true, true]),
    ] {
        let selection = Selection::of(BranchRequest::from_raw(request));
        assert_eq!(
            [inside, outside].map(|it| selection.wants(it, kind)),
            expected
        );
    }
}

/// Instructions by the opcode map, in 64-bit mode and outside of it.
#[test]
fn instructions_are_decoded() {
    use BranchKind::*;
    type Row = (&'static [u8], Option<BranchKind>, Option<BranchKind>);
    let both = |bytes: &'static [u8], kind| -> Row { (bytes, Some(kind), Some(kind)) };
    let rows: [Row; 43] = [
        both(&[0x74, 0x10], Conditional),
        both(&[0x2e, 0x75, 0x10], Conditional),
        both(&[0x0f, 0x84, 0, 0, 0, 0], Conditional),
        both(&[0xf2, 0x0f, 0x8f, 0, 0, 0, 0], Conditional),
        both(&[0xe3, 0xfe], Conditional),
        both(&[0xe0, 0xfe], Conditional),
        both(&[0xeb, 0], Jump),
        both(&[0xe9, 0, 0, 0, 0], Jump),
        (&[0xea, 0, 0, 0, 0, 0x33, 0], None, Some(Jump)),
        both(&[0xff, 0xe0], IndirectJump),
        both(&[0x3e, 0xff, 0xe0], IndirectJump),
        (&[0x41, 0xff, 0xe0], Some(IndirectJump), None),
        both(&[0xff, 0x25, 0, 0, 0, 0], IndirectJump),
        both(&[0xff, 0x2d, 0, 0, 0, 0], IndirectJump),
        both(&[0xe8, 0, 0, 0, 1], Call),
        both(&[0xe8, 0, 0, 0, 0], CallNext),
        // Two bytes of displacement, but not in 64-bit mode.
        (&[0x66, 0xe8, 0, 0, 1, 1], Some(Call), Some(CallNext)),
        (&[0x9a, 0, 0, 0, 0, 0x33, 0], None, Some(Call)),
        both(&[0xff, 0xd0], IndirectCall),
        both(&[0xff, 0x15, 0, 0, 0, 0], IndirectCall),
        both(&[0xff, 0x1c, 0x24], IndirectCall),
        (&[0x41, 0xff, 0x54, 0x24, 8], Some(IndirectCall), None),
        both(&[0xc3], Return),
        both(&[0xf3, 0xc3], Return),
        both(&[0xc2, 8, 0], Return),
        both(&[0xcb], Return),
        (&[0x48, 0xcb], Some(Return), None),
        both(&[0x0f, 0x05], SystemCall),
        both(&[0x0f, 0x34], SystemCall),
        (&[0x48, 0x0f, 0x07], Some(SystemReturn), None),
        both(&[0x0f, 0x35], SystemReturn),
        both(&[0xcc], SoftwareInterrupt),
        both(&[0xcd, 0x80], SoftwareInterrupt),
        both(&[0xf1], SoftwareInterrupt),
        (&[0xce], None, Some(SoftwareInterrupt)),
        (&[0x48, 0xcf], Some(InterruptReturn), None),
        both(&[0xcf], InterruptReturn),
        both(&[0xf2, 0x0f, 0x01, 0xca], InterruptReturn),
        both(&[0xf3, 0x0f, 0x01, 0xca], InterruptReturn),
        (&[0x0f, 0x01, 0xca], None, None),
        // INC of a register in memory, PUSH, MOV.
        (&[0xff, 0x00], None, None),
        (&[0xff, 0xf0], None, None),
        (&[0x48, 0x89, 0xc8], None, None),
    ];
    for (bytes, in_64_bit, outside) in rows {
        for (is_64_bit, expected) in [(true, in_64_bit), (false, outside)] {
            let code = Code {
                bytes: std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0)),
                len: bytes.len(),
                is_64_bit,
            };
            let kind = decode::decode(&code).map(|it| it.kind);
            assert_eq!(kind, expected, "{bytes:x?} {is_64_bit}");
            // Nothing behind the end is looked at.
            let truncated = Code { len: 0, ..code };
            assert_eq!(decode::decode(&truncated), None);
        }
    }
}

/// CPUs that do not tell the kind of a near branch leave it to the instruction.
#[test]
fn near_branches_are_decoded_if_the_cpu_does_not_tell() {
    let without = lbr(0b1011, 7, 0b011).unwrap();
    for (bytes, kind) in [
        ([0x75, 0x10], BranchKind::Conditional),
        ([0xff, 0xd0], BranchKind::IndirectCall),
        ([0xc3, 0], BranchKind::Return),
    ] {
        let code = Code {
            bytes: std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0)),
            len: 15,
            is_64_bit: true,
        };
        let found = branch(USER_IP, USER_IP).kind(&without, || code);
        assert_eq!(found, Some(kind));
    }
}

/// No bytes make it panic: prefixes alone, and lengths that do not fit.
#[test]
fn every_length_is_decoded() {
    for byte in 0..=u8::MAX {
        for len in 0..=20 {
            for is_64_bit in [false, true] {
                let code = Code {
                    bytes: [byte; decode::MAX_LENGTH],
                    len,
                    is_64_bit,
                };
                let decoded = decode::decode(&code);
                assert!(decoded.is_none() || (1..=15).contains(&len));
            }
        }
    }
}
