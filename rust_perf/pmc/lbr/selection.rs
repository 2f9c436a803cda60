// SPDX-License-Identifier: GPL-2.0

//! Which of the branches that were recorded a user sees.

use super::{
    super::bitfield::Field,
    branch::is_kernel,
    Branch,
    BranchKind,
    BranchRequest, //
};

/// A set of kinds of branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kinds(u16);

impl Kinds {
    const NONE: Self = Kinds(0);
    /// All kinds, and branches of a kind that is not known.
    const ANY: Self = Kinds(u16::MAX);

    const fn of(kinds: &[BranchKind]) -> Self {
        let mut all = 0;
        let mut rest = kinds;
        while let [kind, tail @ ..] = rest {
            all |= 1u16.wrapping_shl(*kind as u32);
            rest = tail;
        }
        Kinds(all)
    }

    const fn contains(self, kind: Option<BranchKind>) -> bool {
        match kind {
            Some(kind) => self.0 & Self::of(&[kind]).0 != 0,
            None => self.0 == Self::ANY.0,
        }
    }
}

/// The kinds of branches that a user can ask for. In-tree: `intel_pmu_setup_sw_lbr_filter()`.
const KINDS: [(Field<BranchRequest>, Kinds); 9] = {
    use BranchKind::*;
    [
        (BranchRequest::ANY, Kinds::ANY),
        (
            BranchRequest::ANY_CALL,
            Kinds::of(&[
                Call,
                CallNext,
                IndirectCall,
                SystemCall,
                SoftwareInterrupt,
                Interrupt, //
            ]),
        ),
        (
            BranchRequest::ANY_RETURN,
            Kinds::of(&[
                Return,
                SystemReturn,
                InterruptReturn, //
            ]),
        ),
        (BranchRequest::IND_CALL, Kinds::of(&[IndirectCall])),
        (BranchRequest::COND, Kinds::of(&[Conditional])),
        (BranchRequest::IND_JUMP, Kinds::of(&[IndirectJump])),
        (BranchRequest::CALL, Kinds::of(&[Call, CallNext])),
        (
            BranchRequest::CALL_STACK,
            Kinds::of(&[Call, IndirectCall, Return]),
        ),
        (BranchRequest::ABORT_TX, Kinds::of(&[Abort])),
    ]
};

/// Which branches a user sees.
///
/// The registers cannot select all that users can ask for: far calls and far returns are one kind for
/// them, and a branch to user mode comes from the kernel if it is a return from there.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    kinds: Kinds,
    user: bool,
    kernel: bool,
    /// Whether only branches in transactions are wanted, or only the others.
    in_transaction: Option<bool>,
}

impl Selection {
    /// What the user asks for.
    pub fn of(request: BranchRequest) -> Self {
        let wanted = KINDS.iter().filter(|(kind, _)| request.has(*kind));
        let kinds = wanted.fold(Kinds::NONE, |all, (_, kinds)| Kinds(all.0 | kinds.0));
        let [inside, outside] =
            [BranchRequest::IN_TX, BranchRequest::NO_TX].map(|it| request.has(it));
        Selection {
            kinds,
            user: request.has(BranchRequest::USER),
            kernel: request.has(BranchRequest::KERNEL),
            in_transaction: (inside != outside).then_some(inside),
        }
    }

    /// Whether the user may see the addresses of a branch, and has asked for branches to where it leads.
    pub const fn allows(&self, branch: Branch) -> bool {
        let to = if is_kernel(branch.to) {
            self.kernel
        } else {
            self.user
        };
        to && (self.kernel || !is_kernel(branch.from))
    }

    /// Whether the user has asked for branches of this kind, and for branches in or out of transactions
    /// as this one is.
    pub fn wants(&self, branch: Branch, kind: Option<BranchKind>) -> bool {
        let is_right = |wanted| wanted == branch.is_in_transaction();
        self.kinds.contains(kind) && self.in_transaction.is_none_or(is_right)
    }
}
