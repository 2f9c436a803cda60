// SPDX-License-Identifier: GPL-2.0

//! A branch that the CPU has recorded.

use super::{
    super::{
        bitfield::Field,
        counter::Counter, //
    },
    decode::{
        self,
        Code, //
    },
    layout::Lbr, //
};

bitfield! {
    /// IA32_LBR_x_INFO (SDM vol. 3B, "Last Branch Records", table "IA32_LBR_x_INFO").
    pub(super) struct Info(u64) {
        /// The branch was mispredicted.
        63:63 MISPREDICTED;
        /// The branch was in a transaction.
        62:62 IN_TRANSACTION;
        /// The branch is the abort of a transaction.
        61:61 ABORT;
        /// CYCLES is valid.
        60:60 CYCLES_VALID;
        /// What kind of branch it is.
        59:56 KIND;
        /// What the first four general-purpose counters have counted since the record before, if they are
        /// logged: two bits for each.
        39:32 COUNTS;
        /// The cycles since the record before. The largest number stands for all above.
        15:0 CYCLES;
    }
}

/// How many counters can be logged, from the first general-purpose one on.
pub const LOGGED_COUNTERS: usize = 4;

/// The bits of a count that is logged.
pub const BITS_OF_COUNT: u32 = 2;

/// What kind of branch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BranchKind {
    /// A conditional jump, JCXZ or LOOP.
    Conditional,
    /// A jump by a displacement, or a far one to an address in the instruction.
    Jump,
    /// A jump to an address in a register or in memory.
    IndirectJump,
    /// A call by a displacement, or a far one to an address in the instruction.
    Call,
    /// A call of the next instruction, which serves to find where that is. Architectural LBRs do not
    /// record it.
    CallNext,
    /// A call to an address in a register or in memory.
    IndirectCall,
    /// A return from a call.
    Return,
    /// SYSCALL or SYSENTER.
    SystemCall,
    /// SYSRET or SYSEXIT.
    SystemReturn,
    /// INT.
    SoftwareInterrupt,
    /// IRET, or one of the returns of FRED.
    InterruptReturn,
    /// An interrupt or an exception.
    Interrupt,
    /// The abort of a transaction.
    Abort,
}

impl BranchKind {
    /// The kind that a record has. It does not tell the kinds of other branches apart.
    const fn of_record(code: u64) -> Option<Self> {
        Some(match code {
            0 => Self::Conditional,
            1 => Self::IndirectJump,
            2 => Self::Jump,
            3 => Self::IndirectCall,
            4 => Self::Call,
            5 => Self::Return,
            _ => return None,
        })
    }
}

/// Whether an address is in the kernel's half of the address space.
pub const fn is_kernel(address: u64) -> bool {
    (address as i64) < 0
}

/// What became of a branch that ran ahead of what is known to be right (`PERF_BR_SPEC_*` in
/// `include/uapi/linux/perf_event.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Speculation {
    /// The CPU does not tell.
    #[default]
    Unknown = 0,
    /// It was speculative, and should not have run.
    WrongPath = 1,
    /// It was not speculative.
    None = 2,
    /// It was speculative, and right to run.
    RightPath = 3,
}

/// A branch that the CPU has recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// The address of the branch, or of the instruction before which an interrupt or an exception came.
    pub from: u64,
    /// The address of the next instruction.
    pub to: u64,
    /// What became of it.
    pub speculation: Speculation,
    /// What else is recorded, in the form of architectural LBRs.
    pub(super) info: Info,
    /// Whether it has not been read whether the branch was mispredicted.
    pub(super) is_unpredicted: bool,
}

impl Branch {
    /// Whether the branch was mispredicted. `None` if the CPU does not tell.
    pub fn is_mispredicted(self, lbr: &Lbr) -> Option<bool> {
        let is_known = lbr.has_prediction && !self.is_unpredicted;
        is_known.then_some(self.info.has(Info::MISPREDICTED))
    }

    /// Whether the branch was in a transaction.
    pub const fn is_in_transaction(self) -> bool {
        self.info.has(Info::IN_TRANSACTION)
    }

    /// Whether the branch is the abort of a transaction.
    pub const fn is_abort(self) -> bool {
        self.info.has(Info::ABORT)
    }

    /// The cycles since the record before, at most `u16::MAX`. 0 if the CPU does not tell.
    pub const fn cycles(self, lbr: &Lbr) -> u16 {
        match lbr.has_cycles && self.info.has(Info::CYCLES_VALID) {
            true => self.info.get(Info::CYCLES) as u16,
            false => 0,
        }
    }

    /// What these counters have counted since the record before, if they are logged: two bits for each, from
    /// bit 0 on in their order. 3 stands for all above, and `None` for no counter.
    pub fn counts(self, counters: impl Iterator<Item = Option<Counter>>) -> u64 {
        let all = self.info.get(Info::COUNTS);
        let counts = counters.take(LOGGED_COUNTERS).map(|counter| match counter {
            Some(counter) => all.checked_shr(BITS_OF_COUNT.wrapping_mul(counter.index() as u32)),
            None => None,
        });
        let mask = 1u64.wrapping_shl(BITS_OF_COUNT).wrapping_sub(1);
        (0u32..).zip(counts).fold(0, |counts, (place, count)| {
            let count = count.unwrap_or(0) & mask;
            counts | count.wrapping_shl(BITS_OF_COUNT.wrapping_mul(place))
        })
    }

    /// What kind of branch it is. `None` if the CPU does not tell, and the instruction does not either.
    ///
    /// `code` reads the instruction. It is called only if the CPU does not tell.
    pub fn kind(self, lbr: &Lbr, code: impl FnOnce() -> Code) -> Option<BranchKind> {
        if self.is_abort() {
            return Some(BranchKind::Abort);
        }
        let recorded = BranchKind::of_record(self.info.get(Info::KIND));
        if lbr.has_kind && recorded.is_some() {
            return recorded;
        }
        // The CPU would have told a near branch.
        let decoded = decode::decode(&code()).filter(|it| !it.is_near || !lbr.has_kind);
        let decoded = decoded.map(|it| it.kind);
        let enters_kernel = !is_kernel(self.from) && is_kernel(self.to);
        match decoded {
            Some(BranchKind::SystemCall | BranchKind::SoftwareInterrupt) => decoded,
            // No other instruction gets there.
            _ if enters_kernel => Some(BranchKind::Interrupt),
            // An interrupt or an exception can come before any instruction.
            None if is_kernel(self.to) => Some(BranchKind::Interrupt),
            _ => decoded,
        }
    }
}
