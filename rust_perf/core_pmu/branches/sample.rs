// SPDX-License-Identifier: GPL-2.0

//! The branches of a sample. NMI.

use super::{
    super::placed::PlacedEvent,
    records::Records, //
};
use crate::{
    perf::{
        BranchEntry,
        BranchPrivilege,
        BranchStack,
        BranchType, //
    },
    pmc::lbr::{
        is_kernel,
        Branch,
        BranchKind,
        BranchRequest,
        Lbr,
        Selection, //
    },
    system::irq::Interrupt,
    x86::CodeReader, //
};

impl<'a> PlacedEvent<'a> {
    /// The branches before the sample of this event that is being taken, if it shows any.
    pub(in super::super) fn branches(self, interrupt: Interrupt<'_>) -> Option<&'a BranchStack> {
        let pmu = self.pmu();
        let lbr = pmu.capabilities().lbr.as_ref()?;
        let code = pmu.driver().branch_support.as_ref()?.code;
        if !self.shows_branches() {
            return None;
        }
        let stack = &pmu.state().branches.stack;
        match self.logged_counters() {
            None => {
                self.show_branches(interrupt, lbr, code, false, |_| ());
            }
            Some(counters) => self.out_of_line(move |event| {
                event.show_branches(interrupt, lbr, code, true, |branch| {
                    stack.set_counts(branch.counts(counters.into_iter()));
                });
            }),
        }
        Some(stack)
    }

    /// Puts the branches that samples of this event show into the stack. Calls `before` for each.
    #[inline(always)]
    fn show_branches(
        self,
        interrupt: Interrupt<'_>,
        lbr: &Lbr,
        code: CodeReader,
        has_counts: bool,
        before: impl Fn(Branch),
    ) {
        let request = self.shown_branches();
        let selection = Selection::of(request);
        let branches = &self.pmu().state().branches;
        // All events on a CPU agree on it.
        let control = branches.wanted.get();
        let records = Records(&branches.read);
        branches.stack.begin(records.newest(), has_counts);
        for branch in records
            .iter()
            .filter_map(|record| lbr.branch(record, control))
            .filter(|it| selection.allows(*it))
        {
            let kind = branch.kind(lbr, || code.read(branch.from, interrupt));
            if !selection.wants(branch, kind) {
                continue;
            }
            before(branch);
            branches.stack.push(BranchEntry {
                from: branch.from,
                to: branch.to,
                mispredicted: branch.is_mispredicted(lbr),
                in_transaction: branch.is_in_transaction(),
                abort: branch.is_abort(),
                cycles: branch.cycles(lbr),
                branch_type: branch_type(kind),
                speculation: branch.speculation as u8,
                privilege: match request.has(BranchRequest::PRIV_SAVE) {
                    true if is_kernel(branch.to) => BranchPrivilege::Kernel,
                    true => BranchPrivilege::User,
                    false => BranchPrivilege::Unknown,
                },
            });
        }
    }
}

/// perf's name for a kind of branch. It has none for INT, nor for the abort of a transaction.
const fn branch_type(kind: Option<BranchKind>) -> BranchType {
    match kind {
        Some(BranchKind::Conditional) => BranchType::Conditional,
        Some(BranchKind::Jump) => BranchType::Unconditional,
        Some(BranchKind::IndirectJump) => BranchType::Indirect,
        Some(BranchKind::Call | BranchKind::CallNext) => BranchType::Call,
        Some(BranchKind::IndirectCall) => BranchType::IndirectCall,
        Some(BranchKind::Return) => BranchType::Return,
        Some(BranchKind::SystemCall) => BranchType::SystemCall,
        Some(BranchKind::SystemReturn) => BranchType::SystemReturn,
        Some(BranchKind::InterruptReturn) => BranchType::ExceptionReturn,
        Some(BranchKind::Interrupt) => BranchType::Interrupt,
        Some(BranchKind::SoftwareInterrupt | BranchKind::Abort) | None => BranchType::Unknown,
    }
}
