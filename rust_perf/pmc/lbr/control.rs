// SPDX-License-Identifier: GPL-2.0

//! Which branches are to be recorded.
//!
//! Within the driver this is a value of LBR_CTL for every CPU. Those with other registers get it in the form
//! of their own ([`LbrCtl::select`]).

use super::super::bitfield::Field;

bitfield! {
    /// IA32_LBR_CTL (SDM vol. 3B, "Last Branch Records", figure "IA32_LBR_CTL MSR Layout").
    pub(super) struct LbrCtl(u64) {
        /// INFO need not be read. The register does not have this bit, and the driver never sets it on a
        /// CPU that has the register.
        63:63 NO_INFO;
        /// All kinds of branches.
        22:16 KINDS;
        /// Far branches, interrupts and exceptions.
        22:22 OTHER;
        /// Near returns.
        21:21 RETURN;
        /// Near indirect calls.
        20:20 IND_CALL;
        /// Near relative calls.
        19:19 REL_CALL;
        /// Near indirect jumps.
        18:18 IND_JUMP;
        /// Near relative jumps.
        17:17 REL_JUMP;
        /// Conditional branches.
        16:16 COND;
        /// A near return removes the record of the call.
        3:3 CALL_STACK;
        /// Branches to other levels than CPL 0.
        2:2 USR;
        /// Branches to CPL 0.
        1:1 OS;
        /// Branches are recorded.
        0:0 EN;
    }
}

bitfield! {
    /// LBR_SELECT (SDM vol. 3B, table "MSR_LBR_SELECT for Intel microarchitecture code name Haswell") and
    /// LastBranchStackSelect (APM vol. 2, "LastBranchStackSelect Register"). Its bits suppress branches, but
    /// for CALL_STACK.
    struct LbrSelect(u64) {
        /// A near return removes the record of the call. AMD does not have it.
        9:9 CALL_STACK;
        /// Far branches, interrupts and exceptions.
        8:8 FAR;
        /// Near relative jumps.
        7:7 REL_JUMP;
        /// Near indirect jumps.
        6:6 IND_JUMP;
        /// Near returns.
        5:5 RETURN;
        /// Near indirect calls.
        4:4 IND_CALL;
        /// Near relative calls.
        3:3 REL_CALL;
        /// Conditional branches.
        2:2 COND;
        /// Branches to other levels than CPL 0.
        1:1 USR;
        /// Branches to CPL 0.
        0:0 OS;
    }
}

/// What suppresses the branches that a bit of LBR_CTL selects.
const SUPPRESSED: [(Field<LbrCtl>, Field<LbrSelect>); 9] = [
    (LbrCtl::OS, LbrSelect::OS),
    (LbrCtl::USR, LbrSelect::USR),
    (LbrCtl::COND, LbrSelect::COND),
    (LbrCtl::REL_CALL, LbrSelect::REL_CALL),
    (LbrCtl::IND_CALL, LbrSelect::IND_CALL),
    (LbrCtl::RETURN, LbrSelect::RETURN),
    (LbrCtl::IND_JUMP, LbrSelect::IND_JUMP),
    (LbrCtl::REL_JUMP, LbrSelect::REL_JUMP),
    (LbrCtl::OTHER, LbrSelect::FAR),
];

impl LbrCtl {
    /// What LBR_SELECT must be for this value of LBR_CTL.
    pub(super) fn select(self) -> u64 {
        let is_call_stack = self.has(Self::CALL_STACK).into();
        let start = LbrSelect::default().with(LbrSelect::CALL_STACK, is_call_stack);
        let suppressed = SUPPRESSED.iter().filter(|(wanted, _)| !self.has(*wanted));
        suppressed
            .fold(start, |all, (_, suppress)| all.with(*suppress, 1))
            .into_raw()
    }
}

/// Whether, if LBR_CTL has this value, a near return removes the record of the call.
pub const fn is_call_stack(control: u64) -> bool {
    LbrCtl::from_raw(control).has(LbrCtl::CALL_STACK)
}
