// SPDX-License-Identifier: GPL-2.0

//! The LBRs of Intel's older models (SDM vol. 3B, "Last Branch, Interrupt, and Exception Recording"): a ring
//! of records. LBR_TOS says which of them is the newest one. The number of records is a power of two.

use super::{
    super::{
        super::{
            intel::msr,
            msr::MsrRange,
            registers::Registers, //
        },
        control::{
            is_call_stack,
            LbrCtl, //
        },
        layout::{
            Format,
            Legacy,
            SelectRegister, //
        },
        record::{
            From,
            Record, //
        },
    },
    BranchRecords,
    DebugCtl, //
};

impl Legacy {
    /// The registers of the records that hold no addresses.
    pub(super) const fn info(&self) -> Option<MsrRange> {
        match self.format {
            Format::Info { registers, .. } => Some(registers),
            _ => None,
        }
    }

    /// LBR_INFO, if it needs to be read.
    fn wanted_info(&self, control: u64) -> Option<MsrRange> {
        let is_wanted = !LbrCtl::from_raw(control).has(LbrCtl::NO_INFO);
        self.info().filter(|_| is_wanted)
    }

    /// Whether the next newer record is of the same abort of a transaction as that with this FROM.
    const fn is_doubled_abort(&self, from: u64) -> bool {
        self.doubles_aborts && From::from_raw(from).has(From::ABORT)
    }

    /// FROM of a record that has been read: without transactions their flags are a part of the sign.
    /// In-tree: `lbr_from_signext_quirk_rd()`.
    const fn source_read(&self, from: u64) -> u64 {
        match self.format {
            Format::Transactions { exist: false } => {
                From::from_raw(from).with(From::TRANSACTION, 0).into_raw()
            }
            _ => from,
        }
    }

    /// FROM of a record that is written back. In-tree: `lbr_from_signext_quirk_wr()`.
    const fn source_to_write(&self, from: u64) -> u64 {
        match self.format {
            // The sign extends over bits that the CPU has recorded as 0.
            Format::Transactions { exist: false } if From::from_raw(from).has(From::SIGN) => {
                From::from_raw(from)
                    .with(From::TRANSACTION, 0b11)
                    .into_raw()
            }
            _ => from,
        }
    }
}

impl<R: Registers> BranchRecords<'_, R> {
    pub(super) fn record_legacy(self, legacy: &Legacy, control: u64, freezes: bool) {
        match legacy.select {
            SelectRegister::None => {}
            SelectRegister::PerCpu => {
                self.select(msr::LBR_SELECT, LbrCtl::from_raw(control).select())
            }
            // All threads write 0, here and when they give it back. So each shadow is right, whoever wrote
            // last.
            SelectRegister::PerCore => self.select(msr::LBR_SELECT, 0),
        }
        self.shadow.is_off.set(false);
        self.record_by_debugctl(freezes);
    }

    pub(super) fn is_enabled_legacy(self) -> bool {
        DebugCtl::from_raw(self.regs.rdmsr(msr::DEBUGCTL)).has(DebugCtl::LBR)
    }

    /// The index of the newest record.
    fn newest(self) -> usize {
        self.index(self.regs.rdmsr(msr::LBR_TOS) as usize, 0)
    }

    /// The index of the record that is `age` older than that at `newest`.
    fn index(self, newest: usize, age: usize) -> usize {
        newest.wrapping_sub(age) & usize::from(self.lbr.depth).wrapping_sub(1)
    }

    /// Marks the newest record as the end. Reading stops there. Newer branches are recorded after it, until
    /// one of them replaces it. LBR_TOS must only go up.
    pub(super) fn wipe_legacy(self, legacy: &Legacy) {
        self.regs.wrmsr(legacy.from.nth(self.newest()), 0);
    }

    /// Removes all records. A return that finds no call of its own must find no older one.
    pub(super) fn wipe_all_legacy(self, legacy: &Legacy) {
        self.remove_from(legacy, 0);
    }

    /// Removes all records from this index on.
    fn remove_from(self, legacy: &Legacy, first: usize) {
        for i in first..self.lbr.depth.into() {
            self.regs.wrmsr(legacy.from.nth(i), 0);
        }
    }

    pub(super) fn give_back_legacy(self, legacy: &Legacy) {
        for i in 0..self.lbr.depth.into() {
            self.regs.wrmsr(legacy.from.nth(i), 0);
            self.regs.wrmsr(legacy.to.nth(i), 0);
            if let Some(info) = legacy.info() {
                self.regs.wrmsr(info.nth(i), 0);
            }
        }
        if legacy.select != SelectRegister::None {
            self.regs.wrmsr(msr::LBR_SELECT, 0);
        }
    }

    pub(super) fn for_each_legacy(
        self,
        legacy: &Legacy,
        control: u64,
        mut f: impl FnMut(Record),
    ) -> u64 {
        let info = legacy.wanted_info(control);
        let newest = self.newest();
        let mut newer = None;
        for age in 0..self.lbr.depth.into() {
            let i = self.index(newest, age);
            let from = legacy.source_read(self.regs.rdmsr(legacy.from.nth(i)));
            if from == 0 {
                break;
            }
            if legacy.is_doubled_abort(from) && !is_call_stack(control) {
                newer = None;
            }
            let record = Record {
                from,
                to: self.regs.rdmsr(legacy.to.nth(i)),
                info: info.map_or(0, |info| self.regs.rdmsr(info.nth(i))),
            };
            newer.replace(record).map(&mut f);
        }
        newer.map(f);
        newest as u64
    }

    pub(super) fn restore_legacy(
        self,
        legacy: &Legacy,
        control: u64,
        records: impl ExactSizeIterator<Item = Record>,
    ) {
        let info = legacy.wanted_info(control);
        let len = records.len().min(self.lbr.depth.into());
        let newest = len.saturating_sub(1);
        for (age, record) in records.take(len).enumerate() {
            let i = self.index(newest, age);
            let from = legacy.source_to_write(record.from);
            self.regs.wrmsr(legacy.from.nth(i), from);
            self.regs.wrmsr(legacy.to.nth(i), record.to);
            if let Some(info) = info {
                self.regs.wrmsr(info.nth(i), record.info);
            }
        }
        self.remove_from(legacy, len);
        self.regs.wrmsr(msr::LBR_TOS, newest as u64);
    }
}
