// SPDX-License-Identifier: GPL-2.0

//! Branch records: the kind of a branch instruction against another decoder, and what a user sees of any
//! record.

use arbitrary::{Arbitrary, Result, Unstructured};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};
use pmc::lbr::{
    decode::{self, Code, Decoded, MAX_LENGTH},
    is_kernel, BranchKind, BranchRequest, Lbr, Record, Selection,
};
use std::sync::LazyLock;

/// The LBRs of all CPUs that have any.
static LBRS: LazyLock<Vec<Lbr>> = LazyLock::new(|| {
    let all = crate::CONFIGS.iter().filter_map(|&config| {
        let capabilities = crate::common::Cpu::new(config).detect()?;
        capabilities.lbr
    });
    all.collect()
});

/// Tries some instructions, and some records of a CPU.
pub fn check(u: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..32 {
        check_instruction(&code(u)?);
    }
    let lbr = u.choose(&LBRS)?;
    let request = BranchRequest::from_raw(u.arbitrary()?);
    let Ok(control) = lbr.control(request) else {
        return Ok(());
    };
    for _ in 0..16 {
        let record = Record {
            from: word(u)?,
            to: word(u)?,
            info: word(u)?,
        };
        check_record(lbr, request, control, record, &code(u)?);
    }
    Ok(())
}

/// An instruction, more likely than not a branch with prefixes.
fn code(u: &mut Unstructured<'_>) -> Result<Code> {
    const PREFIXES: [u8; 16] = [
        0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x40, 0x41, 0x48, 0x4c,
        0x4f,
    ];
    const OPCODES: [&[u8]; 24] = [
        &[0x70],
        &[0x0f, 0x84],
        &[0xe3],
        &[0xe2],
        &[0xe8],
        &[0xe8, 0, 0, 0, 0],
        &[0x9a],
        &[0xc2],
        &[0xc3],
        &[0xca],
        &[0xcb],
        &[0xcc],
        &[0xcd],
        &[0xce],
        &[0xcf],
        &[0xe9],
        &[0xeb],
        &[0xea],
        &[0xff],
        &[0xf1],
        &[0x0f, 0x05],
        &[0x0f, 0x07],
        &[0x0f, 0x34],
        &[0x0f, 0x01],
    ];
    let mut bytes = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        bytes.push(*u.choose(&PREFIXES)?);
    }
    if u.ratio(3, 4)? {
        bytes.extend_from_slice(u.choose(&OPCODES)?);
    }
    let rest: [u8; MAX_LENGTH] = u.arbitrary()?;
    bytes.extend_from_slice(&rest);
    bytes.truncate(MAX_LENGTH);
    let len = match u.ratio(7, 8)? {
        true => MAX_LENGTH,
        false => u.int_in_range(0..=MAX_LENGTH)?,
    };
    Ok(Code {
        bytes: std::array::from_fn(|i| bytes[i]),
        len,
        is_64_bit: bool::arbitrary(u)?,
    })
}

/// A word that is often an address.
fn word(u: &mut Unstructured<'_>) -> Result<u64> {
    let any: u64 = u.arbitrary()?;
    Ok(match u.int_in_range(0..=3)? {
        0 => any >> 17,
        1 => !(any >> 17),
        2 => 0,
        _ => any,
    })
}

/// What the other decoder says. `None` if no such instruction exists, or not all of it could be read.
fn expected(code: &Code) -> Option<Option<Decoded>> {
    use BranchKind::*;
    let bits = if code.is_64_bit { 64 } else { 32 };
    let mut decoder = Decoder::new(bits, &code.bytes[..code.len], DecoderOptions::NONE);
    let instruction = decoder.decode();
    let near = |kind| Decoded {
        kind,
        is_near: true,
    };
    let far = |kind| Decoded {
        kind,
        is_near: false,
    };
    let near_or_far = |kind, is_near| Decoded { kind, is_near };
    Some(match instruction.flow_control() {
        _ if instruction.is_invalid() => return None,
        FlowControl::UnconditionalBranch => Some(near_or_far(Jump, !instruction.is_jmp_far())),
        FlowControl::IndirectBranch => {
            let is_near = !instruction.is_jmp_far_indirect();
            Some(near_or_far(IndirectJump, is_near))
        }
        FlowControl::ConditionalBranch => Some(near(Conditional)),
        FlowControl::Return => match instruction.mnemonic() {
            Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Some(far(InterruptReturn)),
            Mnemonic::Sysret | Mnemonic::Sysretq => Some(far(SystemReturn)),
            Mnemonic::Sysexit | Mnemonic::Sysexitq => Some(far(SystemReturn)),
            Mnemonic::Retf => Some(far(Return)),
            Mnemonic::Ret => Some(near(Return)),
            // Of virtual machines and the like.
            _ => return None,
        },
        FlowControl::Call => match instruction.mnemonic() {
            Mnemonic::Syscall | Mnemonic::Sysenter => Some(far(SystemCall)),
            _ if instruction.is_call_far() => Some(far(Call)),
            _ if !instruction.is_call_near() => return None,
            _ if instruction.near_branch_target() == instruction.next_ip() => Some(near(CallNext)),
            _ => Some(near(Call)),
        },
        FlowControl::IndirectCall => {
            let is_near = !instruction.is_call_far_indirect();
            Some(near_or_far(IndirectCall, is_near))
        }
        FlowControl::Interrupt => Some(far(SoftwareInterrupt)),
        FlowControl::Next => None,
        // XBEGIN jumps only if a transaction aborts, which the record says. UD has no branch of its own.
        _ => return None,
    })
}

fn check_instruction(code: &Code) {
    if let Some(expected) = expected(code) {
        assert_eq!(decode::decode(code), expected, "{code:x?}");
    }
}

fn check_record(lbr: &Lbr, request: BranchRequest, control: u64, record: Record, code: &Code) {
    let Some(branch) = lbr.branch(record, control) else {
        return;
    };
    let selection = Selection::of(request);
    let sees_kernel = request.has(BranchRequest::KERNEL);
    if selection.allows(branch) && !sees_kernel {
        assert!(
            !is_kernel(branch.from) && !is_kernel(branch.to),
            "{record:x?}"
        );
    }
    let kind = branch.kind(lbr, || *code);
    if request.has(BranchRequest::ANY)
        && branch.is_in_transaction() == request.has(BranchRequest::IN_TX)
    {
        assert!(selection.wants(branch, kind), "{record:x?}: {kind:?}");
    }
    let counts = branch.counts(lbr.logged.into_iter().map(Some));
    assert!(counts < 1 << (2 * lbr.logged.len()), "{record:x?}");
}
