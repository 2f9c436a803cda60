// SPDX-License-Identifier: GPL-2.0

//! A branch, as the emulator reports it.

use crate::event::{Mode, Retired};

/// What kind of branch it is (SDM vol. 3B, "Last Branch Records", table "Branch Type Filtering
/// Details").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchKind {
    /// Jcc, JCXZ and LOOP, if they are taken.
    Conditional,
    /// A near jump to an address in a register or in memory.
    IndirectJump,
    /// A near jump by a displacement.
    RelativeJump,
    /// A near call of an address in a register or in memory.
    IndirectCall,
    /// A near call by a displacement, but for a call of the next instruction.
    RelativeCall,
    /// A near return.
    Return,
    /// Everything else that changes RIP: far jumps, calls and returns, system calls and their
    /// returns, IRET, interrupts and exceptions.
    Other,
    /// A near call of the next instruction, by a displacement of 0. The architectural LBRs do not record it.
    CallOfNext,
}

impl BranchKind {
    /// All kinds. [`Pmu::branch_filter`](crate::Pmu::branch_filter) has a bit for each, in this order.
    pub const ALL: [BranchKind; 8] = [
        BranchKind::Conditional,
        BranchKind::IndirectJump,
        BranchKind::RelativeJump,
        BranchKind::IndirectCall,
        BranchKind::RelativeCall,
        BranchKind::Return,
        BranchKind::Other,
        BranchKind::CallOfNext,
    ];

    /// The bit in [`Pmu::branch_filter`](crate::Pmu::branch_filter).
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// What kind of branch it is.
    pub kind: BranchKind,
    /// The linear address of the branch, or of the instruction before which an interrupt or an exception
    /// came.
    pub from: u64,
    /// The linear address of the next instruction.
    pub to: u64,
    /// The mode before and after the branch.
    pub modes: [Mode; 2],
    /// Whether `from` is an instruction that retired with the branch: an interrupt or an exception has none.
    pub retires: bool,
    /// What has retired in each [`Mode`] since the last report, the branch included. Only the numbers of
    /// instructions and branches matter.
    pub retired: [Retired; 2],
}
