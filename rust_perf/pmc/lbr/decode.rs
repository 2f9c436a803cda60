// SPDX-License-Identifier: GPL-2.0

//! What kind of branch an instruction is (SDM vol. 2, appendix A, "Opcode Map").

use super::BranchKind;

/// The length of the longest instruction, in bytes (SDM vol. 2, "Instruction Format").
pub const MAX_LENGTH: usize = 15;

/// The bytes of an instruction, and perhaps of what follows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Code {
    /// The bytes.
    pub bytes: [u8; MAX_LENGTH],
    /// How many of them could be read.
    pub len: usize,
    /// Whether the code runs in 64-bit mode.
    pub is_64_bit: bool,
}

/// What kind of branch the instruction is. `None` if it is none, or not all of it could be read.
pub fn kind(code: &Code) -> Option<BranchKind> {
    let readable = code.bytes.get(..code.len)?;
    let mut rest = readable.iter().copied();
    let opcode = rest.find(|&byte| !is_prefix(byte, code.is_64_bit))?;
    Some(match opcode {
        0x0f => return kind_of_two_bytes(rest.next()?, rest.next()),
        // Jcc; LOOPNE, LOOPE, LOOP and JCXZ.
        0x70..=0x7f | 0xe0..=0xe3 => BranchKind::Conditional,
        0x9a if code.is_64_bit => return None,
        // CALL, the far one and the near one.
        0x9a | 0xe8 => BranchKind::Call,
        // RET, near and far.
        0xc2 | 0xc3 | 0xca | 0xcb => BranchKind::Return,
        // INT3, INT n and INT1.
        0xcc | 0xcd | 0xf1 => BranchKind::SoftwareInterrupt,
        // INTO.
        0xce if !code.is_64_bit => BranchKind::SoftwareInterrupt,
        0xcf => BranchKind::InterruptReturn,
        // JMP, near and short.
        0xe9 | 0xeb => BranchKind::Jump,
        // JMP, far.
        0xea if !code.is_64_bit => BranchKind::Jump,
        0xff => return kind_of_group_5(rest.next()?),
        _ => return None,
    })
}

/// Whether a byte is a prefix.
const fn is_prefix(byte: u8, is_64_bit: bool) -> bool {
    match byte {
        // Segments; operand size, address size; LOCK, REPNE, REP.
        0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 => true,
        // REX.
        0x40..=0x4f => is_64_bit,
        _ => false,
    }
}

/// What kind of branch an instruction is whose opcode begins with 0FH.
const fn kind_of_two_bytes(opcode: u8, modrm: Option<u8>) -> Option<BranchKind> {
    Some(match (opcode, modrm) {
        // SYSCALL, SYSENTER.
        (0x05 | 0x34, _) => BranchKind::SystemCall,
        // SYSRET, SYSEXIT.
        (0x07 | 0x35, _) => BranchKind::SystemReturn,
        (0x80..=0x8f, _) => BranchKind::Conditional,
        // ERETS, ERETU.
        (0x01, Some(0xca)) => BranchKind::InterruptReturn,
        _ => return None,
    })
}

/// What kind of branch an instruction of opcode FFH is.
const fn kind_of_group_5(modrm: u8) -> Option<BranchKind> {
    Some(match modrm.wrapping_shr(3) & 7 {
        // Near, far.
        2 | 3 => BranchKind::IndirectCall,
        4 | 5 => BranchKind::IndirectJump,
        _ => return None,
    })
}
