// SPDX-License-Identifier: GPL-2.0

//! The counters of one CPU.
//!
//! [`Counters`] writes the difference between what is programmed and what is
//! wanted. [`Shadow`] holds what is programmed, so that no MSR is read back or
//! rewritten unchanged: in a virtual machine each access may cost an exit.
//!
//! # Other users of the registers
//!
//! Some kernel code writes these registers although the driver has reserved them:
//!
//! - KVM's mediated vPMU loads a guest's values into all of them, and leaves
//!   zeros behind. perf takes the events off the CPU before that. The shadow is
//!   then wrong, so the driver calls [`Counters::forget`] before the next event is put on
//!   the CPU.
//! - kvm_amd rewrites AMD's PerfCntrGlobalCtl when SVM is switched on or off, and
//!   so do the interrupt of Intel PT and BPF's snapshot of the branch stack with
//!   GLOBAL_CTRL. A counter may then run though [`Shadow`] has it stopped, or the
//!   reverse. So the driver calls [`Counters::forget_running`] after these, and after each
//!   NMI. The next [`Counters::run`] writes GLOBAL_CTRL as a whole.
//! - Firmware may use counters, in SMIs as well. [`Counters::are_as_written`] finds what it has
//!   left in them, and the driver says so.
//! - Whoever had the counters before may have left anything in them, and may have had PMIs freeze
//!   them: CTR_FRZ in GLOBAL_STATUS stops all counters, and is cleared with the overflows.
//! - The in-tree driver writes GLOBAL_CTRL whenever perf enables its PMU, which goes on without events.
//!   The caller must keep perf from that.
//!
//! While an event of Intel PT or BTS is open, the in-tree NMI handler runs behind
//! ours and may leave GLOBAL_CTRL at 0. Then the counters stop until perf next
//! enables the PMU. Do not use these together.

mod overflow;
mod running;

pub use self::overflow::Overflowed;

use super::{
    capabilities::Capabilities,
    counter::{
        Counter,
        CounterSet, //
    },
    event::{
        EventSel,
        FixedCtrCtrl, //
    },
    extra::Extra,
    generation::FROZEN,
    period,
    registers::Registers,
    shadow::{
        Shadow,
        UNKNOWN, //
    }, //
};
use crate::system::local::LocalWord;

/// The counters of the CPU that the code runs on.
///
/// A handle: the shadow belongs to the CPU, the capabilities to the machine. It is passed by value,
/// so that it stays in registers.
///
/// The caller must stay on the CPU that the shadow belongs to. An NMI may
/// interrupt any method. Its handler may call any method, too, but only for
/// counters other than those of the interrupted call. There are two exceptions. `run` and `stop`
/// concern all counters: their caller must notice such an NMI, and then
/// call [`Self::forget_running`]. The caller of `peek` must notice such an NMI, too, and
/// read again: the first value may be old. Extra registers belong to no counter; an NMI
/// writes what is in them already.
#[derive(Clone, Copy)]
pub struct Counters<'a, R> {
    pub(super) shadow: &'a Shadow,
    pub(super) caps: &'a Capabilities,
    pub(super) regs: R,
}

impl<'a, R: Registers> Counters<'a, R> {
    /// The counters with this shadow.
    pub const fn new(shadow: &'a Shadow, caps: &'a Capabilities, regs: R) -> Self {
        Counters { shadow, caps, regs }
    }

    /// Takes all counters, in whatever state they are. Afterwards none counts and
    /// no overflow is pending. IRQs disabled.
    pub fn take_over(self) {
        if let Some(global) = self.caps.any_global() {
            self.shadow
                .saved_global_ctrl
                .set(self.regs.rdmsr(global.ctrl));
        }
        self.reset();
    }

    /// Brings counters that were taken over before, and have lost their state, to the state that
    /// [`Self::take_over`] leaves: none counts and no overflow is pending. IRQs disabled.
    pub fn reset(self) {
        if let Some(global) = self.caps.any_global() {
            self.regs.wrmsr(global.ctrl, 0);
            let frozen = self.regs.rdmsr(global.status) & FROZEN;
            self.clear_status(global, self.caps.with_status().bits() | frozen);
        }
        self.shadow.running.set(0);
        self.shadow.merged.set(0);
        self.shadow.metrics_used.set(0);
        self.shadow.uncleared.set(0);
        self.shadow.known.set(0);
        self.shadow.known_extra.set(0);
        for counter in self.caps.counters.gp_part() {
            self.write_eventsel(counter, 0);
        }
        self.write_fixed_ctr_ctrl(0);
        if let Some(global) = self.caps.bypassed_global {
            self.regs.wrmsr(global.ctrl, self.caps.counters.bits());
        }
    }

    /// Leaves the counters to others: none is programmed, all hold 0, no overflow is
    /// pending, and GLOBAL_CTRL is what it was. IRQs disabled.
    pub fn give_back(self) {
        self.stop();
        self.shadow.merged.set(0);
        self.shadow.uncleared.set(0);
        // Others may have run counters that the shadow has as 0.
        self.shadow.known.set(0);
        self.clear(self.caps.counters);
        if self.shadow.metrics_used.get() != 0 {
            self.set(Counter::PERF_METRICS, 0);
        }
        for counter in self.caps.counters.gp_part() {
            if self.shadow.eventsel(counter) != Some(0) {
                self.write_eventsel(counter, 0);
            }
        }
        if self.shadow.fixed_ctr_ctrl() != Some(0) {
            self.write_fixed_ctr_ctrl(0);
        }
        if let Some(global) = self.caps.bypassed_global {
            self.regs.wrmsr(global.ctrl, 0);
        }
        if let Some(global) = self.caps.any_global() {
            // The next user must not find this driver's overflows.
            self.clear_status(global, self.caps.with_status().bits());
            self.regs
                .wrmsr(global.ctrl, self.shadow.saved_global_ctrl.get());
        }
    }

    /// Programs `counter`, which must not be counting, to count `event` from `value` on when it is run.
    /// If the event takes a pair, `counter` is its first one.
    #[inline(always)]
    pub fn program(self, counter: Counter, event: EventSel, takes_pair: bool, value: u64) {
        if takes_pair {
            self.merge(counter);
        }
        self.write_value(counter, value);
        self.program_control(counter, event);
    }

    /// Programs `counter`, which must not be counting, to count `event` from the value that it was
    /// [known](Self::known) to hold, `until_wrap` events before the wrap. The counter is written if its value is not known any more: an NMI has come since.
    #[inline(always)]
    pub fn program_held(
        self,
        counter: Counter,
        event: EventSel,
        takes_pair: bool,
        until_wrap: u64,
    ) {
        if takes_pair {
            self.merge(counter);
        }
        if !self.shadow.knows(counter) {
            self.set_start(counter, until_wrap);
        }
        self.program_control(counter, event);
    }

    #[cold]
    fn set_start(self, counter: Counter, until_wrap: u64) {
        self.set(
            counter,
            period::start_value(until_wrap, self.caps.width(counter)),
        );
    }

    /// Programs `counter`, which must not be counting, to count `event`. Its value stays.
    #[inline(always)]
    pub fn program_control(self, counter: Counter, event: EventSel) {
        if self.caps.has_global_control() {
            let wanted = event.with(EventSel::EN, 1);
            if !self.shadow.selects(counter, wanted.into_raw()) {
                self.change_control(counter, wanted);
            }
        } else {
            // EN runs the counter: `run` writes both.
            let running = self.shadow.running().contains(counter);
            let wanted = event.with(EventSel::EN, running.into());
            self.shadow.select(counter, wanted.into_raw());
        }
    }

    #[inline(never)]
    fn change_control(self, counter: Counter, wanted: EventSel) {
        match counter.as_fixed() {
            Some(i) => {
                // If the register is not known, no other fixed counter is in use.
                let current = self.shadow.fixed_ctr_ctrl();
                let fields = FixedCtrCtrl::from_raw(current.unwrap_or(0))
                    .with_counter(i, wanted.fixed_ctr())
                    .with_user_disable(i, wanted.has(EventSel::RDPMC_USER_DISABLE))
                    .into_raw();
                if current != Some(fields) {
                    self.write_fixed_ctr_ctrl(fields);
                }
                self.shadow.select(counter, wanted.into_raw());
            }
            None => {
                self.note_selection(self.shadow.eventsel(counter));
                self.write_eventsel(counter, wanted.into_raw());
            }
        }
    }

    /// Has a GP counter, which must not be running, count nothing.
    pub fn deprogram(self, counter: Counter) {
        self.write_eventsel(counter, 0);
    }

    /// Writes what an event needs into its extra register. No counter that is running
    /// may need another value in it.
    pub fn program_extra(self, extra: Extra) {
        let Shadow { known_extra, .. } = self.shadow;
        let index = extra.register.index();
        let Some(word) = self.shadow.extra.get(index) else {
            return;
        };
        let bit = 1u64.wrapping_shl(index as u32);
        let known = known_extra.get() & bit != 0 && !self.caps.shares_extra();
        if known && word.get() == extra.value {
            return;
        }
        self.regs.wrmsr(extra.register.msr(), extra.value);
        word.set(extra.value);
        known_extra.or(bit);
    }

    /// Sets `counters`, none of which may be running, to 0.
    pub fn clear(self, counters: CounterSet) {
        for counter in counters {
            self.write_value(counter, 0);
        }
    }

    /// The value of a counter, if it is known without reading it: the counter has not run
    /// since it was written or read.
    pub fn known(self, counter: Counter) -> Option<u64> {
        let value = self.shadow.value.get(counter.index()).map(LocalWord::get);
        value.filter(|_| self.shadow.knows(counter))
    }

    /// Reads a counter.
    pub fn read(self, counter: Counter) -> u64 {
        let value = self.peek(counter);
        if !self.shadow.running().contains(counter) {
            self.shadow.learn(counter, value);
        }
        value
    }

    /// Reads a counter, but does not remember its value.
    #[inline]
    pub fn peek(self, counter: Counter) -> u64 {
        self.regs.rdpmc(counter.rdpmc())
    }

    /// Reads a counter that is not running.
    #[inline]
    pub fn read_stopped(self, counter: Counter) -> u64 {
        let value = self.peek(counter);
        self.shadow.learn(counter, value);
        value
    }

    /// Forgets what is programmed. To be called when no event is on the CPU and no
    /// counter is running, if others may have written the registers.
    pub fn forget(self) {
        self.shadow.known.set(0);
        self.shadow.known_extra.set(0);
        for counter in self.caps.counters {
            self.shadow.select(counter, UNKNOWN);
        }
        self.shadow.fixed_ctr_ctrl.set(UNKNOWN);
    }

    #[inline(always)]
    pub(super) fn write_value(self, counter: Counter, value: u64) {
        if self.known(counter) != Some(value) {
            self.set(counter, value);
        }
    }

    /// Writes a counter, whatever it holds. PERF_METRICS counts as one. A counter that is running, but
    /// not counting in the present mode, may be written, too.
    pub fn set(self, counter: Counter, value: u64) {
        if counter == Counter::PERF_METRICS {
            self.shadow.metrics_used.set(1);
        }
        self.regs
            .wrmsr(self.caps.generation.counter(counter), value);
        if !self.shadow.running().contains(counter) {
            self.shadow.learn(counter, value);
        }
    }

    /// Writes the EVENTSEL of a GP counter. All writes go through here, so that the shadow is right.
    pub(super) fn write_eventsel(self, counter: Counter, value: u64) {
        self.regs
            .wrmsr(self.caps.generation.eventsel(counter), value);
        self.shadow.select(counter, value);
    }

    fn write_fixed_ctr_ctrl(self, value: u64) {
        for counter in self.caps.counters.fixed_part() {
            self.shadow.select(counter, UNKNOWN);
        }
        if let Some(msr) = self.caps.fixed_ctr_ctrl() {
            self.regs.wrmsr(msr, value);
            self.shadow.fixed_ctr_ctrl.set(value);
        }
    }
}
