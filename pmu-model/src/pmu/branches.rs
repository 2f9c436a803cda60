// SPDX-License-Identifier: GPL-2.0

//! Branches that the LBRs record.

use super::Pmu;
use crate::{
    event::{Mode, Totals},
    fields::DebugCtl,
    lbr::{self, Branch, Record, INFO},
    msr::{
        LbrField, Register, IA32_LBR_0_FROM_IP, IA32_LBR_0_INFO, IA32_LBR_0_TO_IP, IA32_LBR_CTL,
        IA32_LBR_DEPTH,
    },
};

impl Pmu {
    /// Whether there are architectural LBRs: CPUID.(7,0):EDX.ARCH_LBR.
    pub fn has_lbrs(&self) -> bool {
        self.config.lbr_depth > 0
    }

    /// The kinds of branches to `mode` that [`Pmu::branch`] must be told of, as bits of
    /// [`BranchKind::bit`](crate::BranchKind::bit). It may change with each access to a register and each report.
    pub fn branch_filter(&self, mode: Mode) -> u8 {
        match self.state.global_status.lbrs_are_frozen() {
            true => 0,
            false => self.state.lbrs.ctl.filter(mode),
        }
    }

    /// How many of the last branches matter that [`Pmu::branch_filter`] lets through: of those between two
    /// reports, [`Pmu::branch`] need not be told of earlier ones. `None` if all matter, because a return removes a
    /// record.
    pub fn last_branches(&self) -> Option<usize> {
        let lbrs = &self.state.lbrs;
        // The cycles of the oldest record are those since the one before.
        (!lbrs.ctl.is_call_stack()).then(|| usize::from(lbrs.depth()) + 1)
    }

    /// Records a branch that was taken since the last report, if [`Pmu::branch_filter`] has it. Branches must be
    /// told in the order in which they were taken.
    pub fn branch(&mut self, branch: &Branch) {
        let [from, to] = branch.modes;
        if self.branch_filter(to) & branch.kind.bit() == 0 {
            return;
        }
        let mut now = self.state.totals;
        for (totals, retired) in now.iter_mut().zip(branch.retired) {
            *totals = totals.after(retired, 0);
        }
        let mispredicted = branch.retires && now[from as usize].last_branch_is_mispredicted();
        let cycles = now.iter().map(Totals::core_cycles).sum();
        self.state.lbrs.push(branch, mispredicted, cycles);
    }

    /// A debug exception is delivered, which stops the recording of branches. All instructions that have
    /// retired must have been reported by [`Pmu::retire`].
    pub fn debug_exception(&mut self) {
        let ctl = self.state.lbrs.ctl.stopped();
        self.state.lbrs.set_ctl(ctl);
    }

    /// Whether branches are recorded in some mode.
    pub(super) fn records_branches(&self) -> bool {
        Mode::ALL.iter().any(|&mode| self.branch_filter(mode) != 0)
    }

    /// The register of the LBRs at an address.
    pub(super) fn lbr_register(&self, msr: u32) -> Option<Register> {
        if !self.has_lbrs() {
            return None;
        }
        let fields = [
            (LbrField::From, IA32_LBR_0_FROM_IP),
            (LbrField::To, IA32_LBR_0_TO_IP),
            (LbrField::Info, IA32_LBR_0_INFO),
        ];
        match msr {
            IA32_LBR_CTL => Some(Register::LbrCtl),
            IA32_LBR_DEPTH => Some(Register::LbrDepth),
            _ => fields.into_iter().find_map(|(field, first)| {
                let index = msr.checked_sub(first)? as usize;
                let exists = index < self.state.lbrs.depth().into();
                exists.then_some(Register::Lbr(field, index))
            }),
        }
    }

    /// DEBUGCTL as it is stored: the bit that enables legacy LBRs reads as 0 on a processor with architectural ones.
    pub(super) fn stored_debugctl(&self, value: u64) -> DebugCtl {
        let mut debugctl = DebugCtl(value);
        if self.has_lbrs() {
            debugctl.stop_lbrs();
        }
        debugctl
    }

    /// The bits of a register of the LBRs that can be written.
    pub(super) fn lbr_writable_bits(field: LbrField) -> u64 {
        match field {
            LbrField::From | LbrField::To => u64::MAX,
            LbrField::Info => INFO,
        }
    }

    /// Whether LBR_DEPTH can have this value.
    pub(super) fn is_lbr_depth(&self, value: u64) -> bool {
        let depth = u8::try_from(value);
        depth.is_ok_and(|it| lbr::is_depth(it, self.config.lbr_depth))
    }

    /// CPUID leaf 1CH (SDM vol. 2A, CPUID, "Last Branch Records Information Leaf"), `None` if there are no
    /// architectural LBRs.
    pub(super) fn leaf_1ch(&self) -> Option<[u32; 4]> {
        /// EAX: MWAIT can clear the records if it asks for a C-state deeper than C1. All processors that are
        /// known say so, but here it does not.
        const DEEP_C_RESET: u32 = 1 << 30;
        /// EBX: filters of CPLs, filters of kinds, and call-stack mode.
        const FILTERS: u32 = 0b111;
        /// ECX: INFO has MISPRED, CYC_CNT and BR_TYPE.
        const INFO: u32 = 0b111;
        let depths = lbr::DEPTHS
            .iter()
            .filter(|&&it| it <= self.config.lbr_depth);
        let depths = depths.fold(0, |all, depth| all | (1 << (depth / 8 - 1)));
        self.has_lbrs()
            .then_some([DEEP_C_RESET | depths, FILTERS, INFO, 0])
    }
}

impl Record {
    /// One of its registers.
    pub(super) fn field(&self, field: LbrField) -> u64 {
        match field {
            LbrField::From => self.from,
            LbrField::To => self.to,
            LbrField::Info => self.info,
        }
    }

    /// Writes one of its registers.
    pub(super) fn set_field(&mut self, field: LbrField, value: u64) {
        match field {
            LbrField::From => self.from = value,
            LbrField::To => self.to = value,
            LbrField::Info => self.info = value,
        }
    }
}
