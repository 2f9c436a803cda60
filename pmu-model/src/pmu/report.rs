// SPDX-License-Identifier: GPL-2.0

//! What has retired: the counters add it up, overflow, and request a PMI.

use super::{registers::SLOTS, Pmu};
use crate::{
    event::{Mode, Retired},
    fields::GlobalCtrl,
    generation::FreezeOnPmi,
    pair,
    shape::Counter,
    smt::SmtCore,
};

impl Pmu {
    /// Reports what has retired in each [`Mode`] since the last call: [`Pmu::report`] for a PMU
    /// whose reference cycles do not depend on time.
    pub fn retire(&mut self, retired: &[Retired; 2]) {
        self.report(retired, [0; 2]);
    }

    /// Reports what has retired in each [`Mode`] since the last call, and with
    /// [`RefCycles::Tsc`] the cycles of the time-stamp counter that have passed in each mode
    /// while the processor was not halted.
    ///
    /// Counters that overflow set their status bits and together request one PMI. If the
    /// PMI freezes the counters, they stop at the end of this report. An overflow and a
    /// freeze are therefore in the right place only if each report keeps to
    /// [`Pmu::budget`] and [`Pmu::tsc_until_overflow`].
    pub fn report(&mut self, retired: &[Retired; 2], tsc: [u64; 2]) {
        self.take_disturbed();
        if self.take_shared() {
            self.update_active();
        }
        let before = self.state.totals;
        for ((totals, retired), tsc) in self.state.totals.iter_mut().zip(retired).zip(tsc) {
            *totals = totals.after(*retired, tsc);
        }
        let [user, kernel] = retired;
        let instructions = user.instructions.saturating_add(kernel.instructions);
        let counting = !self.active.is_empty();
        self.state.pmi.retire(instructions, counting);

        self.report_log(&before);

        let mut status = self.state.global_status;
        let mut pmi = false;
        for active in &self.active {
            let gain = active.gain(&before, &self.state.totals);
            let has_overflowed = match active.counter {
                Counter::General(i) if active.merged => pair::add(&mut self.state.general, i, gain),
                Counter::General(i) => {
                    add(&mut self.state.general[i], self.shape.counter_mask(), gain)
                }
                Counter::Fixed(i) => add(&mut self.state.fixed[i], self.shape.counter_mask(), gain),
            };
            if has_overflowed {
                status.set_overflow(active.counter);
                pmi |= active.pmi;
            }
            let metrics = self.state.global_ctrl.enables_metrics();
            if active.counter == Counter::Fixed(SLOTS) && metrics {
                let modes = Mode::ALL.into_iter().map(|mode| mode as usize);
                for mode in modes.filter(|&mode| active.modes[mode]) {
                    self.state
                        .metrics
                        .count(before[mode], self.state.totals[mode]);
                }
                if has_overflowed && self.state.metrics.overflow(self.shape.width) {
                    status.set_metrics_overflow();
                    pmi = true;
                }
            }
        }
        self.state.global_status = status;
        if pmi {
            self.freeze();
            self.state.pmi.request();
        }
        if counting {
            self.retire_towards_change(instructions);
        }
    }

    /// How a PMI freezes what DEBUGCTL says.
    fn freeze_on_pmi(&self) -> FreezeOnPmi {
        match self.lbr_status_bits() {
            0 => self.generation.freeze_on_pmi(),
            _ => FreezeOnPmi::Streamlined,
        }
    }

    /// Freezes what DEBUGCTL says a PMI freezes (SDM vol. 3B, "Freezing LBR and
    /// Performance Counters on PMI"; APM vol. 2, "Performance Monitoring Counters", PerfCntrGlobalStatus).
    fn freeze(&mut self) {
        let lbrs = self.state.debugctl.freezes_lbrs();
        let counters = self.state.debugctl.freezes_counters();
        match self.freeze_on_pmi() {
            FreezeOnPmi::Unsupported => {}
            FreezeOnPmi::Legacy => {
                if lbrs {
                    self.state.debugctl.stop_lbrs();
                    self.lbrs_changed();
                }
                if counters {
                    self.state.global_ctrl = GlobalCtrl::default();
                    self.update_active();
                }
            }
            FreezeOnPmi::Streamlined => {
                if lbrs {
                    self.state.global_status.freeze_lbrs();
                }
                if counters {
                    self.state.global_status.freeze_counters();
                    self.update_active();
                }
            }
        }
    }

    /// The error of counters that other threads have disturbed.
    pub(super) fn take_disturbed(&mut self) {
        let Some((core, thread)) = &self.smt else {
            return;
        };
        let disturbed = core.take_disturbed(*thread);
        let error = 1 << (self.shape.width - 8);
        for (i, value) in self.state.general.iter_mut().enumerate() {
            if disturbed & Counter::General(i).bit() != 0 {
                *value = value.wrapping_add(error) & self.shape.counter_mask();
            }
        }
    }

    /// Takes the values of the registers that the threads of the core share. Returns whether
    /// another thread has changed one.
    pub(super) fn take_shared(&mut self) -> bool {
        let (Some((core, _)), Some(processor)) = (&self.smt, self.processor) else {
            return false;
        };
        let mut changed = false;
        for i in processor.msrs_of_core() {
            let value = core.msr(i);
            changed |= value != self.state.model_msrs[i];
            self.state.model_msrs[i] = value;
        }
        changed
    }

    /// The core, if its threads share the register of this index.
    pub(super) fn core_of_msr(&self, index: usize) -> Option<&SmtCore> {
        let (core, _) = self.smt.as_ref()?;
        self.processor?.msr(index).of_core.then_some(core)
    }
}

/// Adds to a counter with these bits. Returns whether it has overflowed.
fn add(value: &mut u64, mask: u64, gain: u128) -> bool {
    let sum = u128::from(*value) + gain;
    *value = sum as u64 & mask;
    sum > mask.into()
}
