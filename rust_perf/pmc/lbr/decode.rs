// SPDX-License-Identifier: GPL-2.0

//! Which instructions are branches, and of what kind (SDM vol. 2, appendix A, "Opcode Map").

use super::BranchKind;
use core::iter::repeat_n;

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

/// A branch instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What kind of branch it is.
    pub kind: BranchKind,
    /// Whether it stays within the code segment.
    pub is_near: bool,
}

/// The prefix with which a near call has a displacement of two bytes, but not in 64-bit mode.
const OPERAND_SIZE: u8 = 0x66;

const fn near(kind: BranchKind) -> Decoded {
    Decoded {
        kind,
        is_near: true,
    }
}

const fn far(kind: BranchKind) -> Decoded {
    Decoded {
        kind,
        is_near: false,
    }
}

/// The instruction, if it is a branch. `None` also if not all of it could be read.
pub fn decode(code: &Code) -> Option<Decoded> {
    let readable = code.bytes.get(..code.len)?;
    let mut rest = readable.iter().copied();
    let mut is_repeated = false;
    let mut displacement = 4;
    let opcode = rest.find(|&byte| {
        is_repeated |= matches!(byte, 0xf2 | 0xf3);
        if byte == OPERAND_SIZE && !code.is_64_bit {
            displacement = 2;
        }
        !is_prefix(byte, code.is_64_bit)
    })?;
    Some(match opcode {
        0x0f => return decode_two_bytes(rest.next()?, rest.next(), is_repeated),
        // Jcc; LOOPNE, LOOPE, LOOP and JCXZ.
        0x70..=0x7f | 0xe0..=0xe3 => near(BranchKind::Conditional),
        0xe8 if rest
            .clone()
            .take(displacement)
            .eq(repeat_n(0, displacement)) =>
        {
            near(BranchKind::CallNext)
        }
        0xe8 => near(BranchKind::Call),
        0x9a if !code.is_64_bit => far(BranchKind::Call),
        0xc2 | 0xc3 => near(BranchKind::Return),
        0xca | 0xcb => far(BranchKind::Return),
        // INT3, INT n and INT1.
        0xcc | 0xcd | 0xf1 => far(BranchKind::SoftwareInterrupt),
        // INTO.
        0xce if !code.is_64_bit => far(BranchKind::SoftwareInterrupt),
        0xcf => far(BranchKind::InterruptReturn),
        0xe9 | 0xeb => near(BranchKind::Jump),
        0xea if !code.is_64_bit => far(BranchKind::Jump),
        0xff => return decode_group_5(rest.next()?),
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

/// An instruction whose opcode begins with 0FH.
const fn decode_two_bytes(opcode: u8, modrm: Option<u8>, is_repeated: bool) -> Option<Decoded> {
    Some(match (opcode, modrm) {
        // SYSCALL, SYSENTER.
        (0x05 | 0x34, _) => far(BranchKind::SystemCall),
        // SYSRET, SYSEXIT.
        (0x07 | 0x35, _) => far(BranchKind::SystemReturn),
        (0x80..=0x8f, _) => near(BranchKind::Conditional),
        // ERETS, ERETU. Without a prefix it is CLAC.
        (0x01, Some(0xca)) if is_repeated => far(BranchKind::InterruptReturn),
        _ => return None,
    })
}

/// An instruction of opcode FFH.
const fn decode_group_5(modrm: u8) -> Option<Decoded> {
    Some(match modrm.wrapping_shr(3) & 7 {
        2 => near(BranchKind::IndirectCall),
        3 => far(BranchKind::IndirectCall),
        4 => near(BranchKind::IndirectJump),
        5 => far(BranchKind::IndirectJump),
        _ => return None,
    })
}
