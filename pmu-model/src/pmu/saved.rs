// SPDX-License-Identifier: GPL-2.0

//! The state of a PMU, to save it and to restore it in another one.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::{Pmu, State};
use crate::{
    config::Config,
    event::Totals,
    lbr::Lbrs,
    msr::Register,
    pmi::Defect,
    processor::{Processor, MAX_MODEL_MSRS},
    shape::MAX_GENERAL,
    smt::SavedThread,
};

/// The state of a PMU, and the configuration to which it belongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPmu {
    config: Config,
    state: State,
    thread: Option<SavedThread>,
}

/// The reason why a state cannot be restored. The PMU is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// It is that of a PMU with another configuration or another defect, or of one whose core
    /// has another number of threads.
    OtherPmu,
    /// No PMU can be in this state.
    Impossible,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RestoreError::OtherPmu => "the state is that of another PMU",
            RestoreError::Impossible => "no PMU can be in this state",
        })
    }
}

impl std::error::Error for RestoreError {}

impl Pmu {
    /// Returns the state, which [`Pmu::restore`] restores. All instructions that have retired
    /// must have been reported by [`Pmu::retire`].
    pub fn save(&self) -> SavedPmu {
        SavedPmu {
            config: self.config,
            state: self.state.clone(),
            thread: self.smt.as_ref().map(|(core, thread)| core.save(*thread)),
        }
    }

    /// Restores a state that was saved of this PMU or of one with the same configuration and the
    /// same defect.
    ///
    /// The PMUs of all threads of a core must be restored before one of them is used.
    pub fn restore(&mut self, saved: &SavedPmu) -> Result<(), RestoreError> {
        if !self.is_like(saved) {
            return Err(RestoreError::OtherPmu);
        }
        if !self.can_be(saved) {
            return Err(RestoreError::Impossible);
        }
        self.state = saved.state.clone();
        // Without update_active(): what counted at the same time has disturbed each other, and
        // what a thread has not seen of another one is seen at its next report.
        let counting = self.find_active();
        if let (Some((core, number)), Some(thread)) = (&self.smt, &saved.thread) {
            core.restore(*number, counting, thread);
        }
        Ok(())
    }

    /// Whether a state is that of such a PMU.
    fn is_like(&self, saved: &SavedPmu) -> bool {
        let threads = self.smt.as_ref().map(|(core, _)| core.threads());
        let saved_threads = saved.thread.as_ref().map(SavedThread::threads);
        saved.config == self.config
            && saved.state.pmi.defect() == self.defect
            && saved_threads == threads
    }

    /// Whether the registers have only bits that exist, and the other numbers are such as occur.
    fn can_be(&self, saved: &SavedPmu) -> bool {
        let SavedPmu { state, thread, .. } = saved;
        let shape = &self.shape;
        let writable = |register| self.writable_bits(register).unwrap_or(0);
        let general = (0..MAX_GENERAL).all(|i| {
            let (eventsel, counter) = match shape.has_general(i) {
                true => (writable(Register::EventSel(i)), shape.counter_mask()),
                false => (0, 0),
            };
            state.eventsel[i].0 & !eventsel == 0 && state.general[i] & !counter == 0
        });
        let fixed = state.fixed.iter().enumerate().all(|(i, value)| {
            let exists = shape.fixed_counters() & (1 << i) != 0;
            let mask = if exists { shape.counter_mask() } else { 0 };
            value & !mask == 0
        });
        let msrs = |values: &[u64; MAX_MODEL_MSRS]| {
            let of_model = self.processor.map_or(0, Processor::msr_count);
            let bits = |i| {
                if i < of_model {
                    writable(Register::Model(i))
                } else {
                    0
                }
            };
            values
                .iter()
                .enumerate()
                .all(|(i, value)| value & !bits(i) == 0)
        };
        // Without the registers, all counters are enabled, and the status cannot be read.
        let global_ctrl = writable(Register::GlobalCtrl) | self.generation.reset_global_ctrl(shape);
        let status = writable(Register::GlobalStatusReset) | shape.counters() | self.metrics_bit();
        let fixed_ctr_ctrl = writable(Register::FixedCtrCtrl);
        let cycles = state.totals.iter().map(Totals::core_cycles).sum();
        let most_accesses = match self.defect {
            Defect::GeneralProtection { after, .. } => after,
            _ => 0,
        };
        let changes_every = match self.defect {
            Defect::Foreign { every, .. } => every.get(),
            _ => 1,
        };
        general
            && fixed
            && state.fixed_ctr_ctrl.0 & !fixed_ctr_ctrl == 0
            && state.global_ctrl.0 & !global_ctrl == 0
            && state.global_status.0 & !status == 0
            && state.debugctl.0 & !writable(Register::DebugCtl) == 0
            && self.stored_debugctl(state.debugctl.0) == state.debugctl
            && state
                .lbrs
                .are_possible(self.config.lbrs.as_ref().map(Lbrs::kind), cycles)
            && msrs(&state.model_msrs)
            && thread
                .as_ref()
                .is_none_or(|it| msrs(it.msrs()) && it.disturbed() & !shape.general_counters() == 0)
            && state.metrics.is_possible()
            && state.totals.iter().all(Totals::are_possible)
            && state.pmi.is_possible()
            && state.accesses.get() <= most_accesses
            && state.since_change < changes_every
    }
}
