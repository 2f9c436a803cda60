// SPDX-License-Identifier: GPL-2.0

//! RDMSR, WRMSR and RDPMC.

use super::{registers::SLOTS, Pmu};
use crate::{
    error::{GeneralProtection, MsrError},
    fields::{FixedCtrCtrl, GlobalCtrl},
    metrics::Metrics,
    msr::{EventSel, Register, PMI_IN_USE, RDPMC_METRICS},
    pair,
    pmi::Defect,
    shape::Counter,
};

impl Pmu {
    /// Counts an access that a PMU without a defect would allow. Fails if
    /// [`Defect::GeneralProtection`] makes it raise #GP.
    fn count_access(&self, msr: u32) -> Result<(), MsrError> {
        match self.defect {
            Defect::GeneralProtection { msr: faulty, after } if faulty == msr => {
                if self.state.accesses.get() == after {
                    return Err(MsrError::GeneralProtection);
                }
                self.state.accesses.set(self.state.accesses.get() + 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// RDMSR. All instructions that have retired must have been reported by
    /// [`Pmu::retire`].
    pub fn rdmsr(&self, msr: u32) -> Result<u64, MsrError> {
        let register = self.register(msr)?;
        if let Some(counted) = &self.counted {
            counted.rdmsr(msr);
        }
        self.count_access(msr)?;
        Ok(match register {
            Register::EventSel(i) => self.state.eventsel[i].0,
            Register::Pmc(i) | Register::PmcFullWidth(i) => self.read_general(i),
            Register::FixedCtr(i) => self.state.fixed[i],
            Register::FixedCtrCtrl => self.state.fixed_ctr_ctrl.0,
            Register::GlobalCtrl => self.state.global_ctrl.0,
            Register::GlobalStatus => self.state.global_status.0,
            // A write takes effect on GLOBAL_STATUS and is not stored.
            Register::GlobalStatusReset | Register::GlobalStatusSet => 0,
            Register::GlobalInUse => self.global_in_use(),
            Register::PerfCapabilities => self.perf_capabilities().unwrap_or(0),
            Register::PerfMetrics => self.read_metrics(),
            Register::DebugCtl => self.state.debugctl.0,
            Register::Lbr(lbr) => self.read_lbr(lbr),
            Register::Model(i) => match self.core_of_msr(i) {
                Some(core) => core.msr(i),
                None => self.state.model_msrs[i],
            },
        })
    }

    /// The value of PERF_METRICS.
    fn read_metrics(&self) -> u64 {
        self.state.metrics.read() & Metrics::mask(self.metrics_fields())
    }

    /// The value of GLOBAL_INUSE (SDM vol. 3B, "IA32_PERF_GLOBAL_INUSE MSR").
    fn global_in_use(&self) -> u64 {
        let mut in_use = 0;
        let mut pmi = false;
        for (i, eventsel) in self.state.eventsel.iter().enumerate() {
            if eventsel.event() != 0 {
                in_use |= Counter::General(i).bit();
            }
            pmi |= eventsel.has(EventSel::INT);
        }
        for i in 0..self.shape.fixed.into() {
            let ctrl = self.state.fixed_ctr_ctrl.counter(i);
            if ctrl.modes() != [false; 2] {
                in_use |= Counter::Fixed(i).bit();
            }
            pmi |= ctrl.pmi();
        }
        if pmi {
            in_use |= PMI_IN_USE;
        }
        in_use
    }

    /// WRMSR. All instructions that have retired must have been reported by
    /// [`Pmu::retire`].
    pub fn wrmsr(&mut self, msr: u32, value: u64) -> Result<(), MsrError> {
        let register = self.register(msr)?;
        if let Some(counted) = &self.counted {
            counted.wrmsr(msr);
        }
        let writable = self.writable_bits(register);
        let writable = writable.ok_or(MsrError::GeneralProtection)?;
        if value & self.must_be_zero(register, writable) != 0 {
            return Err(MsrError::GeneralProtection);
        }
        let value = value & writable;
        if !self.lbrs_accept(register, value) {
            return Err(MsrError::GeneralProtection);
        }
        self.count_access(msr)?;
        self.take_disturbed();
        self.write(register, value);
        self.update_active();
        Ok(())
    }

    /// Writes a register that exists and can have this value. The caller must restore the
    /// invariant of `active`.
    pub(super) fn write(&mut self, register: Register, value: u64) {
        match register {
            Register::EventSel(i) => {
                let eventsel = EventSel(value);
                self.state
                    .selection
                    .select(i, self.state.eventsel[i], eventsel);
                self.state.eventsel[i] = eventsel;
            }
            Register::Pmc(i) => {
                let extended = i64::from(value as i32) as u64;
                self.state.general[i] = extended & self.shape.counter_mask();
            }
            Register::PmcFullWidth(i) => self.state.general[i] = value,
            Register::FixedCtr(i) => self.state.fixed[i] = value,
            Register::FixedCtrCtrl => self.state.fixed_ctr_ctrl = FixedCtrCtrl(value),
            Register::GlobalCtrl => {
                let existing = &self.state.eventsel[..self.shape.general.into()];
                self.state.selection.enable(value, existing);
                self.state.global_ctrl = GlobalCtrl(value);
            }
            Register::GlobalStatusReset => self.state.global_status.0 &= !value,
            Register::GlobalStatusSet => self.state.global_status.0 |= value,
            Register::DebugCtl => {
                self.state.debugctl = self.stored_debugctl(value);
                self.lbrs_changed();
            }
            Register::Model(i) => match self.core_of_msr(i) {
                Some(core) => core.set_msr(i, value),
                None => self.state.model_msrs[i] = value,
            },
            Register::Lbr(lbr) => {
                self.write_lbr(lbr, value);
                self.lbrs_changed();
            }
            Register::PerfMetrics => self.state.metrics.write(value, self.state.fixed[SLOTS]),
            // Generations in which the write does not raise #GP ignore it.
            Register::GlobalStatus => {}
            Register::GlobalInUse | Register::PerfCapabilities => {
                unreachable!("a write to a read-only register raises #GP")
            }
        }
    }

    /// RDPMC, given whether CPL is 0 and whether CR4.PCE is set (SDM vol. 2B, RDPMC). All
    /// instructions that have retired must have been reported by [`Pmu::retire`].
    pub fn rdpmc(&mut self, ecx: u32, cpl0: bool, cr4_pce: bool) -> Result<u64, GeneralProtection> {
        if let Some(counted) = &self.counted {
            counted.rdpmc(ecx);
        }
        if !cpl0 && !cr4_pce {
            return Err(GeneralProtection);
        }
        if ecx == RDPMC_METRICS && self.metrics_fields() > 0 {
            let value = self.read_metrics();
            if self.state.fixed_ctr_ctrl.has_any(self.metrics_clear()) {
                self.state.fixed[SLOTS] = 0;
                self.state.metrics = Metrics::default();
            }
            return Ok(value);
        }
        let counter = self.generation.rdpmc(ecx);
        let is_hidden = !cpl0 && counter.is_some_and(|counter| self.is_user_disabled(counter));
        match counter {
            Some(_) if is_hidden => Ok(0),
            Some(Counter::General(i)) if self.shape.has_general(i) => Ok(self.read_general(i)),
            Some(Counter::Fixed(i)) if i < self.shape.fixed.into() => Ok(self.state.fixed[i]),
            _ => Err(GeneralProtection),
        }
    }

    /// Whether RDPMC in user mode reads 0.
    fn is_user_disabled(&self, counter: Counter) -> bool {
        match counter {
            Counter::General(i) => {
                let eventsel = self.state.eventsel.get(i);
                let disabled = |it: &EventSel| it.has(EventSel::RDPMC_USER_DISABLE);
                self.has_rdpmc_user_disable() && eventsel.is_some_and(disabled)
            }
            Counter::Fixed(i) => self.state.fixed_ctr_ctrl.has_any(self.user_disable(i)),
        }
    }

    /// What reading a general-purpose counter returns.
    fn read_general(&self, index: usize) -> u64 {
        match self.is_pair(index) {
            true => pair::value(&self.state.general, index),
            false => self.state.general[index],
        }
    }
}
