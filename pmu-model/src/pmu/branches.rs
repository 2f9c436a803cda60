// SPDX-License-Identifier: GPL-2.0

//! Branches that the LBRs record.

use super::Pmu;
use crate::{
    event::{Mode, Retired, Totals},
    fields::DebugCtl,
    lbr::{Branch, Gains, Lbrs},
    msr::{EventSel, LbrField, LbrRegister, Register, IA32_DEBUGCTL},
    shape::Counter,
};

impl Pmu {
    /// Whether there are LBRs of any kind.
    pub fn has_lbrs(&self) -> bool {
        self.config.lbrs.is_some()
    }

    /// Whether there are architectural LBRs: CPUID.(7,0):EDX.ARCH_LBR.
    pub fn has_arch_lbrs(&self) -> bool {
        matches!(self.config.lbrs, Some(Lbrs::Architectural(_)))
    }

    /// The kinds of branches to `mode` that [`Pmu::branch`] must be told of, as bits of
    /// [`BranchKind::bit`](crate::BranchKind::bit). It may change with each access to a register and each
    /// report.
    pub fn branch_filter(&self, mode: Mode) -> u8 {
        match self.config.lbrs {
            Some(lbrs)
                if self.lbrs_are_enabled() && !self.state.global_status.lbrs_are_frozen() =>
            {
                self.state.lbrs.filter(lbrs.kind(), mode)
            }
            _ => 0,
        }
    }

    /// How many of the last branches matter that [`Pmu::branch_filter`] lets through: of those between two
    /// reports or interrupts, [`Pmu::branch`] need not be told of earlier ones, but [`Pmu::skip_branches`] of
    /// their number. `None` in call-stack mode.
    pub fn last_branches(&self) -> Option<usize> {
        // The cycles of the oldest record are those since the one before.
        (!self.is_call_stack()).then(|| usize::from(self.state.lbrs.depth()) + 1)
    }

    /// The number of records in call-stack mode, `None` in other modes.
    ///
    /// In call-stack mode [`Pmu::branch`] need not be told of branches whose records are gone at the next
    /// report or interrupt. Instead, the caller tells this, in this order:
    ///
    /// - [`Pmu::drop_records`];
    /// - [`Pmu::skip_branches`] of the branches that leave no record after this, less the returns that found
    ///   no record;
    /// - [`Pmu::branch`] for each record that is left, the oldest first. Before each:
    ///   [`Pmu::branch_was_recorded`] for the branch before it that was no return, even if its record is gone,
    ///   unless that branch came before the last report or interrupt;
    /// - [`Pmu::branch_was_recorded`] for the last one that was no return, if there was any.
    pub fn call_stack_depth(&self) -> Option<usize> {
        self.is_call_stack().then(|| self.state.lbrs.depth().into())
    }

    /// Whether a near return removes the record of its call.
    fn is_call_stack(&self) -> bool {
        let lbrs = self.config.lbrs;
        lbrs.is_some_and(|it| self.state.lbrs.is_call_stack(it.kind()))
    }

    /// Of the records at the last report or interrupt, newer ones have moved out the `oldest`, and returns
    /// have removed the `youngest`.
    pub fn drop_records(&mut self, oldest: usize, youngest: usize) {
        self.state.lbrs.drop_records(oldest, youngest);
    }

    /// So many branches were taken since the last report or interrupt that [`Pmu::branch_filter`] has, and
    /// that do not matter. Those that matter must be told after this.
    pub fn skip_branches(&mut self, branches: i64) {
        self.state.lbrs.skip(branches);
    }

    /// A branch has been recorded when so much had retired since the last report. The cycles of the next
    /// record begin there.
    pub fn branch_was_recorded(&mut self, retired: [Retired; 2]) {
        if self.records_branches() {
            let now = self.totals_after(retired);
            let cycles = now.iter().map(Totals::core_cycles).sum();
            self.state.lbrs.set_last(cycles);
        }
    }

    /// Records a branch that was taken since the last report, if [`Pmu::branch_filter`] has it. Branches must
    /// be told in the order in which they were taken.
    pub fn branch(&mut self, branch: &Branch) {
        let [from, to] = branch.modes;
        let Some(lbrs) = self.config.lbrs else {
            return;
        };
        if self.branch_filter(to) & branch.kind.bit() == 0 {
            return;
        }
        let now = self.totals_after(branch.retired);
        let mispredicted = branch.retires && now[from as usize].last_branch_is_mispredicted();
        let cycles = now.iter().map(Totals::core_cycles).sum();
        let gains = self.logged_gains(&self.state.totals, &now);
        let state = &mut self.state.lbrs;
        state.push(lbrs.kind(), branch, mispredicted, cycles, gains);
    }

    /// Whether a record says what counters have counted. Then [`Branch::retired`] must be complete, and
    /// [`Pmu::branch`] must be told of all branches that [`Pmu::branch_filter`] has.
    pub fn logs_events(&self) -> bool {
        self.records_branches() && (0..self.state.eventsel.len()).any(|i| self.is_logged(i))
    }

    /// Whether records can log a general-purpose counter.
    pub(super) fn can_log(&self, counter: usize) -> bool {
        let logged = self.config.lbrs.map_or(0, |it| it.kind().logged());
        u64::from(logged) & Counter::General(counter).bit() != 0
    }

    /// Whether software wants records to log a general-purpose counter.
    fn is_logged(&self, counter: usize) -> bool {
        self.can_log(counter) && self.state.eventsel[counter].has(EventSel::LBR_LOG)
    }

    /// What the counters that are logged gain between two totals.
    fn logged_gains(&self, before: &[Totals; 2], after: &[Totals; 2]) -> Gains {
        let mut gains = Gains::default();
        for active in &self.active {
            let Counter::General(i) = active.counter else {
                continue;
            };
            if self.is_logged(i) {
                let gain = active.gain(before, after);
                gains[i] = gain.try_into().unwrap_or(u64::MAX);
            }
        }
        gains
    }

    /// The totals have changed: tells the LBRs what has been counted.
    pub(super) fn report_log(&mut self, before: &[Totals; 2]) {
        if self.records_branches() {
            let gains = self.logged_gains(before, &self.state.totals);
            self.state.lbrs.report(gains);
        }
    }

    /// The totals when so much has retired since the last report, as far as records depend on them.
    fn totals_after(&self, retired: [Retired; 2]) -> [Totals; 2] {
        let mut now = self.state.totals;
        for (totals, retired) in now.iter_mut().zip(retired) {
            *totals = totals.after(retired, 0);
        }
        now
    }

    /// Whether [`Pmu::interrupt`] must be called.
    pub fn has_last_event(&self) -> bool {
        let from = LbrRegister::LastEvent(LbrField::From);
        let lbrs = self.config.lbrs;
        lbrs.is_some_and(|it| it.kind().writable_bits(from) != 0)
    }

    /// An interrupt is delivered, or an exception that is no debug exception. The branches before it must have
    /// been told as they are before a report, and the branch to its handler must not. It need not be told while
    /// [`Pmu::branch_filter`] is 0 in both modes.
    pub fn interrupt(&mut self) {
        if let Some(lbrs) = self.config.lbrs {
            if self.records_branches() {
                self.state.lbrs.event(lbrs.kind());
            }
        }
    }

    /// A debug exception is delivered, which stops the recording of branches. All instructions that have
    /// retired must have been reported by [`Pmu::retire`].
    pub fn debug_exception(&mut self) {
        if let Some(lbrs) = self.config.lbrs {
            let controls = &mut self.state.lbrs.controls;
            lbrs.kind().stop(controls, &mut self.state.debugctl);
        }
        self.lbrs_changed();
    }

    /// Whether branches are recorded in some mode.
    pub(super) fn records_branches(&self) -> bool {
        Mode::ALL.iter().any(|&mode| self.branch_filter(mode) != 0)
    }

    /// Whether recording is enabled. It may be frozen all the same.
    fn lbrs_are_enabled(&self) -> bool {
        let (controls, debugctl) = (&self.state.lbrs.controls, self.state.debugctl);
        let lbrs = self.config.lbrs;
        lbrs.is_some_and(|it| it.kind().is_enabled(controls, debugctl))
    }

    /// Recording may have been enabled or disabled.
    pub(super) fn lbrs_changed(&mut self) {
        if !self.lbrs_are_enabled() {
            self.state.lbrs.stopped();
        }
    }

    /// The register of the LBRs at an address. AMD's DebugCtl is one of them.
    pub(super) fn lbr_register(&self, msr: u32) -> Option<Register> {
        let kind = self.config.lbrs.as_ref()?.kind();
        if msr == IA32_DEBUGCTL && kind.debugctl().is_some() {
            return Some(Register::DebugCtl);
        }
        let used = self.state.lbrs.depth();
        kind.register(msr, used).map(Register::Lbr)
    }

    /// All registers of the LBRs that can be written without clearing the others.
    pub(super) fn lbr_registers(&self) -> Vec<Register> {
        let Some(lbrs) = self.config.lbrs else {
            return Vec::new();
        };
        let records = (0..self.state.lbrs.depth().into())
            .flat_map(|i| LbrField::ALL.map(|field| LbrRegister::Record(field, i)));
        let last_event = LbrField::ALL.map(LbrRegister::LastEvent);
        let controls = [
            LbrRegister::Select,
            LbrRegister::Tos,
            LbrRegister::DebugExtnCtl,
        ];
        let all = controls.into_iter().chain(records).chain(last_event);
        let existing = all.filter(|&it| lbrs.kind().writable_bits(it) != 0);
        existing.map(Register::Lbr).collect()
    }

    /// The value of a register of the LBRs.
    pub(super) fn read_lbr(&self, register: LbrRegister) -> u64 {
        let lbrs = self.config.lbrs;
        lbrs.map_or(0, |it| self.state.lbrs.read(it.kind(), register))
    }

    /// Writes a register of the LBRs that can have this value.
    pub(super) fn write_lbr(&mut self, register: LbrRegister, value: u64) {
        if let Some(lbrs) = self.config.lbrs {
            self.state.lbrs.write(lbrs.kind(), register, value);
        }
    }

    /// Whether a register can have a value without reserved bits, if it is one of the LBRs.
    pub(super) fn lbrs_accept(&self, register: Register, value: u64) -> bool {
        match (register, self.config.lbrs) {
            (Register::Lbr(register), Some(lbrs)) => lbrs.kind().accepts(register, value),
            _ => true,
        }
    }

    /// The bits of DEBUGCTL that can be written, and those that raise #GP, if the LBRs say so.
    pub(super) fn lbr_debugctl(&self) -> Option<[u64; 2]> {
        self.config.lbrs?.kind().debugctl()
    }

    /// The bits of GLOBAL_STATUS that come with the LBRs.
    pub(super) fn lbr_status_bits(&self) -> u64 {
        self.config.lbrs.map_or(0, |it| it.kind().status_bits())
    }

    /// DEBUGCTL as it is stored: the bit that enables legacy LBRs reads as 0 on a processor with
    /// architectural ones.
    pub(super) fn stored_debugctl(&self, value: u64) -> DebugCtl {
        let mut debugctl = DebugCtl(value);
        if self.has_arch_lbrs() {
            debugctl.stop_lbrs();
        }
        debugctl
    }

    /// CPUID leaf 1CH, `None` if there are no architectural LBRs.
    pub(super) fn leaf_1ch(&self) -> Option<[u32; 4]> {
        match self.config.lbrs {
            Some(Lbrs::Architectural(lbrs)) => Some(lbrs.leaf_1ch()),
            _ => None,
        }
    }
}
