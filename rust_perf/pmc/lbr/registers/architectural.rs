// SPDX-License-Identifier: GPL-2.0

//! Architectural LBRs (SDM vol. 3B, "Last Branch Records"): a stack of records, the newest one first.

use super::{
    super::{
        super::{
            intel::msr,
            registers::Registers, //
        },
        control::LbrCtl,
        record::Record, //
    },
    BranchRecords, //
};

impl<R: Registers> BranchRecords<'_, R> {
    pub(super) fn record_architectural(self, control: u64, freezes: bool) {
        self.set_freezes(freezes);
        self.shadow.is_off.set(false);
        self.enable_architectural(control);
    }

    pub(super) fn enable_architectural(self, control: u64) {
        self.regs.wrmsr(msr::LBR_CTL, control);
    }

    pub(super) fn is_enabled_architectural(self) -> bool {
        LbrCtl::from_raw(self.regs.rdmsr(msr::LBR_CTL)).has(LbrCtl::EN)
    }

    pub(super) fn pause_architectural(self) {
        self.regs.wrmsr(msr::LBR_CTL, 0);
    }

    pub(super) fn wipe_architectural(self) {
        // A write of the depth clears all records, even if it is the depth already.
        self.regs.wrmsr(msr::LBR_DEPTH, self.lbr.depth.into());
    }

    pub(super) fn for_each_architectural(self, mut f: impl FnMut(Record)) {
        for i in 0..usize::from(self.lbr.depth) {
            let from = self.regs.rdmsr(msr::LBR_FROM.nth(i));
            if from == 0 {
                return;
            }
            f(Record {
                from,
                to: self.regs.rdmsr(msr::LBR_TO.nth(i)),
                info: self.regs.rdmsr(msr::LBR_INFO.nth(i)),
            });
        }
    }

    pub(super) fn restore_architectural(self, records: impl ExactSizeIterator<Item = Record>) {
        if records.len() < self.lbr.depth.into() {
            self.wipe_architectural();
        }
        for (i, record) in records.take(self.lbr.depth.into()).enumerate() {
            self.regs.wrmsr(msr::LBR_FROM.nth(i), record.from);
            self.regs.wrmsr(msr::LBR_TO.nth(i), record.to);
            self.regs.wrmsr(msr::LBR_INFO.nth(i), record.info);
        }
    }
}
