// SPDX-License-Identifier: GPL-2.0

//! Which registers the PMU has, and which of their bits can be written.

use super::Pmu;
use crate::{
    error::MsrError,
    fields::FixedCtrCtrl,
    generation, lbr,
    metrics::Metrics,
    msr::{fixed_ctrl, EventSel, Register, MSR_PERF_METRICS, PERF_METRICS_BIT},
    processor::{self, Processor},
};

/// The fixed-function counter that PERF_METRICS belongs to. It counts slots.
pub(super) const SLOTS: usize = 3;

impl Pmu {
    /// The number of fields of PERF_METRICS, 0 if it does not exist. It needs
    /// fixed-function counter 3.
    pub(super) fn metrics_fields(&self) -> u8 {
        match self.processor {
            Some(processor) if usize::from(self.shape.fixed) > SLOTS => processor.metrics(),
            _ => 0,
        }
    }

    /// The bit of PERF_METRICS in GLOBAL_CTRL and GLOBAL_STATUS, if it exists.
    pub(super) fn metrics_bit(&self) -> u64 {
        match self.metrics_fields() {
            0 => 0,
            _ => PERF_METRICS_BIT,
        }
    }

    /// Whether RDPMC can clear PERF_METRICS.
    pub(super) fn has_metrics_clear(&self) -> bool {
        self.metrics_fields() > 0 && self.processor.is_some_and(Processor::metrics_clear)
    }

    /// The bit of FIXED_CTR_CTRL with which RDPMC of PERF_METRICS clears both registers, if it
    /// exists (SDM vol. 2B, RDPMC: METRICS_CLEAR_EN).
    pub(super) fn metrics_clear(&self) -> FixedCtrCtrl {
        match self.has_metrics_clear() {
            true => FixedCtrCtrl::of(SLOTS, fixed_ctrl::METRICS_CLEAR),
            false => FixedCtrCtrl::default(),
        }
    }

    /// The register at an address.
    pub(super) fn register(&self, msr: u32) -> Result<Register, MsrError> {
        if msr == MSR_PERF_METRICS && self.metrics_fields() > 0 {
            return Ok(Register::PerfMetrics);
        }
        let of_model = || Some(Register::Model(self.processor?.msr_index(msr)?));
        self.generation
            .register(&self.shape, msr)
            .or_else(|| self.lbr_register(msr))
            .or_else(of_model)
            .ok_or_else(|| {
                let of_another_model =
                    self.processor.is_some() && processor::is_model_msr(self.config.vendor, msr);
                let knows_lbrs = self.processor.is_some() || self.has_lbrs();
                let of_other_lbrs = knows_lbrs && lbr::is_lbr_address(msr);
                if generation::is_pmu_address(msr) || of_another_model || of_other_lbrs {
                    MsrError::GeneralProtection
                } else {
                    MsrError::NotPmu
                }
            })
    }

    /// Whether RDPMC of single counters can be disabled in user mode.
    pub(super) fn has_rdpmc_user_disable(&self) -> bool {
        let processor = self.processor;
        self.generation.has_leaf_23h() && processor.is_some_and(Processor::rdpmc_user_disable)
    }

    /// The bit of FIXED_CTR_CTRL that disables RDPMC of a fixed-function counter in user mode, if
    /// it exists.
    pub(super) fn user_disable(&self, fixed: usize) -> FixedCtrCtrl {
        match self.has_rdpmc_user_disable() {
            true => FixedCtrCtrl::of(fixed, fixed_ctrl::RDPMC_USER_DISABLE),
            false => FixedCtrCtrl::default(),
        }
    }

    /// The bits of a register that can be written, `None` if every write raises #GP.
    pub(super) fn writable_bits(&self, register: Register) -> Option<u64> {
        match register {
            Register::Model(i) => Some(self.processor?.msr(i).writable),
            Register::Lbr(lbr) => Some(self.config.lbrs?.kind().writable_bits(lbr)),
            Register::DebugCtl => self
                .lbr_debugctl()
                .map(|[writable, _]| writable)
                .or_else(|| self.generation.writable_bits(&self.shape, register)),
            Register::PerfMetrics => Some(Metrics::mask(self.metrics_fields())),
            Register::GlobalCtrl | Register::GlobalStatusReset | Register::GlobalStatusSet => {
                let bits = self.generation.writable_bits(&self.shape, register)?;
                let of_lbrs = match register {
                    Register::GlobalCtrl => 0,
                    _ => self.lbr_status_bits(),
                };
                Some(bits | self.metrics_bit() | of_lbrs)
            }
            Register::EventSel(i) => {
                let bits = self.generation.writable_bits(&self.shape, register)?;
                let disable = match self.has_rdpmc_user_disable() {
                    true => EventSel::RDPMC_USER_DISABLE,
                    false => 0,
                };
                let log = if self.can_log(i) {
                    EventSel::LBR_LOG
                } else {
                    0
                };
                Some(bits | disable | log)
            }
            Register::FixedCtrCtrl => {
                let bits = self.generation.writable_bits(&self.shape, register)?;
                let disable = (0..self.shape.fixed.into()).map(|i| self.user_disable(i).0);
                let disable = disable.fold(0, |all, bit| all | bit);
                Some(bits | self.metrics_clear().0 | disable)
            }
            _ => self.generation.writable_bits(&self.shape, register),
        }
    }

    /// The bits of a register that raise #GP if they are set, given those that can be written. A write
    /// ignores the others.
    pub(super) fn must_be_zero(&self, register: Register, writable: u64) -> u64 {
        match (register, self.config.lbrs, self.lbr_debugctl()) {
            (Register::Lbr(lbr), Some(lbrs), _) => lbrs.kind().must_be_zero(lbr),
            (Register::DebugCtl, _, Some([_, must_be_zero])) => must_be_zero,
            _ if self.generation.ignores_reserved_bits() => 0,
            _ => !writable,
        }
    }
}
