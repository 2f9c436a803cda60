// SPDX-License-Identifier: GPL-2.0

//! The registers whose bits suppress branches: Intel's LBR_SELECT, and AMD's LastBranchStackSelect.

use super::BranchKind;
use crate::event::Mode;

/// The value of the register (SDM vol. 3B, "Last Branch, Interrupt, and Exception Recording", table
/// "MSR_LBR_SELECT"; APM vol. 2, "Last Branch Stack"). Both vendors have the same bits in the same place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Select(pub(super) u64);

impl Select {
    /// Suppress branches to CPL 0.
    const CPL_0: u64 = 1 << 0;
    /// Suppress branches to other CPLs.
    const OTHER_CPLS: u64 = 1 << 1;
    /// Suppress branches of each kind. A call of the next instruction is like any other call.
    const KINDS: [(BranchKind, u64); 8] = [
        (BranchKind::Conditional, 1 << 2),
        (BranchKind::RelativeCall, 1 << 3),
        (BranchKind::CallOfNext, 1 << 3),
        (BranchKind::IndirectCall, 1 << 4),
        (BranchKind::Return, 1 << 5),
        (BranchKind::IndirectJump, 1 << 6),
        (BranchKind::RelativeJump, 1 << 7),
        (BranchKind::Other, 1 << 8),
    ];

    /// All bits that suppress something.
    pub(super) const ALL: u64 = 0x1ff;

    /// The kinds that are recorded, as bits of [`BranchKind::bit`], if a branch leads to `mode`.
    pub(super) fn filter(self, mode: Mode) -> u8 {
        let of_mode = match mode {
            Mode::User => Select::OTHER_CPLS,
            Mode::Kernel => Select::CPL_0,
        };
        if self.0 & of_mode != 0 {
            return 0;
        }
        let kinds = Select::KINDS.iter();
        let recorded = kinds.filter(|(_, bit)| self.0 & bit == 0);
        recorded.fold(0, |all, (kind, _)| all | kind.bit())
    }
}
