// SPDX-License-Identifier: GPL-2.0

//! LBR_CTL: which branches are recorded.

use serde::{Deserialize, Serialize};

use super::BranchKind;
use crate::event::Mode;

/// LBR_CTL (SDM vol. 3B, "Last Branch Records", figure "IA32_LBR_CTL MSR Layout").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LbrCtl(pub(crate) u64);

impl LbrCtl {
    /// Record branches.
    const EN: u64 = 1 << 0;
    /// Record branches to CPL 0.
    const OS: u64 = 1 << 1;
    /// Record branches to other CPLs.
    const USR: u64 = 1 << 2;
    /// A near return removes the record of the call.
    const CALL_STACK: u64 = 1 << 3;
    /// Record branches of each [`BranchKind`].
    const KINDS: [(BranchKind, u64); 7] = [
        (BranchKind::Conditional, 1 << 16),
        (BranchKind::RelativeJump, 1 << 17),
        (BranchKind::IndirectJump, 1 << 18),
        (BranchKind::RelativeCall, 1 << 19),
        (BranchKind::IndirectCall, 1 << 20),
        (BranchKind::Return, 1 << 21),
        (BranchKind::Other, 1 << 22),
    ];

    /// All bits that exist.
    pub(crate) const ALL: u64 =
        LbrCtl::EN | LbrCtl::OS | LbrCtl::USR | LbrCtl::CALL_STACK | (0x7f << 16);

    /// The kinds that are recorded, as bits of [`BranchKind::bit`], if a branch leads to `mode`.
    pub(crate) fn filter(self, mode: Mode) -> u8 {
        let of_mode = match mode {
            Mode::User => LbrCtl::USR,
            Mode::Kernel => LbrCtl::OS,
        };
        if !self.is_enabled() || self.0 & of_mode == 0 {
            return 0;
        }
        let kinds = LbrCtl::KINDS.iter();
        let recorded = kinds.filter(|(_, bit)| self.0 & bit != 0);
        recorded.fold(0, |all, (kind, _)| all | kind.bit())
    }

    /// Whether branches are recorded at all.
    pub(crate) const fn is_enabled(self) -> bool {
        self.0 & LbrCtl::EN != 0
    }

    /// LBR_CTL after a debug exception, which stops recording.
    pub(crate) const fn stopped(self) -> LbrCtl {
        LbrCtl(self.0 & !LbrCtl::EN)
    }

    /// Whether a near return removes the record of the call.
    pub(crate) const fn is_call_stack(self) -> bool {
        self.0 & LbrCtl::CALL_STACK != 0
    }
}
