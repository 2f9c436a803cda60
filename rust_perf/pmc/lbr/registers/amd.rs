// SPDX-License-Identifier: GPL-2.0

//! LbrExtV2 (APM vol. 2, "Last Branch Stack Registers"): a stack of records, the newest one first.
//!
//! A CPU that runs a comparison and the branch after it as one records the address of the comparison.
//! DebugCtl.LBR keeps it from doing so. The in-tree driver decodes the instructions instead.

pub(super) use super::super::super::amd::msr::{
    DEBUG_EXTN_CTL,
    LAST_BRANCH_STACK_FROM as FROM,
    LAST_BRANCH_STACK_SELECT as SELECT,
    LAST_BRANCH_STACK_TO as TO, //
};
use super::{
    super::{
        super::{
            bitfield::Field,
            registers::Registers, //
        },
        control::LbrCtl,
        record::{
            AmdTo,
            Record, //
        },
    },
    BranchRecords, //
};

bitfield! {
    /// DebugExtnCtl (APM vol. 2, "Debug-Extension-Control MSR").
    struct DebugExtnCtl(u64) {
        /// Branches are recorded.
        6:6 LBRSE;
    }
}

impl<R: Registers> BranchRecords<'_, R> {
    pub(super) fn record_amd(self, control: u64, freezes: bool) {
        self.select(SELECT, LbrCtl::from_raw(control).select());
        self.shadow.is_off.set(false);
        self.record_by_debugctl(freezes);
        self.set_lbrse(1);
    }

    pub(super) fn resume_amd(self, freezes: bool) {
        self.record_by_debugctl(freezes);
        self.set_lbrse(1);
    }

    pub(super) fn pause_amd(self) {
        self.set_lbrse(0);
        self.set_lbr(false);
    }

    fn set_lbrse(self, value: u64) {
        self.change(DEBUG_EXTN_CTL, |it| {
            DebugExtnCtl::from_raw(it)
                .with(DebugExtnCtl::LBRSE, value)
                .into_raw()
        });
    }

    pub(super) fn is_enabled_amd(self) -> bool {
        DebugExtnCtl::from_raw(self.regs.rdmsr(DEBUG_EXTN_CTL)).has(DebugExtnCtl::LBRSE)
    }

    /// Removes all records, each by itself: the manual does not say that the CPU moves a record on that
    /// software has cleared.
    pub(super) fn wipe_amd(self) {
        for i in 0..self.lbr.depth.into() {
            self.regs.wrmsr(TO.nth(i), 0);
        }
    }

    pub(super) fn give_back_amd(self) {
        self.wipe_amd();
        for i in 0..self.lbr.depth.into() {
            self.regs.wrmsr(FROM.nth(i), 0);
        }
        self.regs.wrmsr(SELECT, 0);
    }

    /// A record that software has cleared has neither of the two bits of its state (APM vol. 2, table
    /// "Valid and Speculative Bits").
    pub(super) fn for_each_amd(self, mut f: impl FnMut(Record)) {
        for i in 0..usize::from(self.lbr.depth) {
            let to = self.regs.rdmsr(TO.nth(i));
            if AmdTo::from_raw(to).has(AmdTo::STATE) {
                let from = self.regs.rdmsr(FROM.nth(i));
                f(Record { from, to, info: 0 });
            }
        }
    }
}
