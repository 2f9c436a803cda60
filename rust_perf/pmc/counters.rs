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
    generation::{
        GlobalRegisters,
        CTR_FRZ, //
    },
    msr::Msr,
    period,
    shadow::{
        Shadow,
        UNKNOWN, //
    }, //
};
use crate::system::local::LocalWord;

/// Access to the registers of the CPU that the code runs on.
///
/// An [`Msr`] is always a performance monitoring register. The caller must make
/// sure that the CPU has it.
pub trait Registers: Copy {
    /// Reads a register.
    fn rdmsr(self, msr: Msr) -> u64;
    /// Writes a register.
    fn wrmsr(self, msr: Msr, value: u64);
    /// Reads a counter by its [`Counter::rdpmc`] index.
    fn rdpmc(self, index: u32) -> u64;
}

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

    /// Does the same for counters that were taken over before and have lost their
    /// state. IRQs disabled.
    pub fn reset(self) {
        if let Some(global) = self.caps.any_global() {
            self.regs.wrmsr(global.ctrl, 0);
            let frozen = self.regs.rdmsr(global.status) & CTR_FRZ;
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

    /// Does the same for a counter that was [known](Self::known) to hold the value `until_wrap` events
    /// before the wrap. The counter is written if its value is not known any more: an NMI has come since.
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

    /// Programs `counter`, which must not be counting, to count `event`.
    #[inline(always)]
    pub(super) fn program_control(self, counter: Counter, event: EventSel) {
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

    /// Runs exactly the counters in `run`, all of which must be programmed. If any metric is
    /// among them, PERF_METRICS runs. With the first counter of a pair runs the second one.
    #[inline(always)]
    pub fn run(self, run: CounterSet) {
        let global = self.caps.generation.global;
        let run = self.shadow.with_merged(run.global());
        let Shadow { running, known, .. } = self.shadow;
        let before = running.get();
        if before == run.bits() {
            return;
        }
        // In this order the invariant also holds in between. UNKNOWN has the bits of all counters.
        running.set(before | run.bits());
        known.and(!running.get());
        match global {
            Some(global) => self.regs.wrmsr(global.ctrl, run.bits()),
            None => self.change_enables(before, run),
        }
        running.set(run.bits());
    }

    /// Stops all counters. `run` of none does the same, but also looks up pairs and metrics.
    #[inline(always)]
    pub fn stop(self) {
        let global = self.caps.generation.global;
        if self.shadow.is_stopped() {
            return;
        }
        let Shadow { running, known, .. } = self.shadow;
        // A counter that is known to run is not in `known`. So this clears bits only if `running` is
        // UNKNOWN.
        known.and(!running.get());
        match global {
            Some(global) => self.regs.wrmsr(global.ctrl, 0),
            None => self.change_enables(running.get(), CounterSet::EMPTY),
        }
        running.set(0);
    }

    /// Sets EN for the counters in `run`, and clears it for others. `before` is what `running` was.
    #[inline(never)]
    fn change_enables(self, before: u64, run: CounterSet) {
        let changed = match before {
            UNKNOWN => self.caps.counters,
            before => CounterSet::from_bits(before ^ run.bits()) & self.caps.counters,
        };
        // The counter with the merge event starts before the other one of the pair, and stops after
        // it. Otherwise that would count alone meanwhile.
        let first = changed & run & self.shadow.merged();
        for counter in first.into_iter().chain(changed & !first) {
            let eventsel = self.shadow.eventsel(counter).unwrap_or(0);
            let eventsel =
                EventSel::from_raw(eventsel).with(EventSel::EN, run.contains(counter).into());
            self.write_eventsel(counter, eventsel.into_raw());
        }
    }

    /// Runs exactly the counters in `run`, as [`Self::run`] does, at the end of an NMI on a CPU with
    /// global control. The handlers behind this one may write GLOBAL_CTRL, so what runs is not known
    /// afterwards.
    #[inline(always)]
    pub fn leave_running(self, run: CounterSet) {
        let run = self.shadow.with_merged(run.global());
        let before = self.shadow.running.get();
        self.forget_running();
        if let Some(global) = self.caps.generation.global {
            if before != run.bits() {
                self.regs.wrmsr(global.ctrl, run.bits());
            }
        }
    }

    /// Forgets which counters are running, and what the others hold, so that the next [`Self::run`]
    /// writes the registers. Needed when an NMI has run counters in the middle of a `run`, or
    /// when someone else may have written GLOBAL_CTRL. Any context.
    pub fn forget_running(self) {
        // An NMI in between learns nothing.
        self.shadow.running.set(UNKNOWN);
        self.shadow.known.set(0);
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

    /// Stops `counter` alone, both of a pair. `active` are the counters that may be running, if that is
    /// not known.
    pub fn pause(self, counter: Counter, active: CounterSet) {
        let running = match self.shadow.running.get() {
            UNKNOWN => active,
            running => CounterSet::from_bits(running),
        };
        if running.contains(counter) {
            self.run(running & !self.shadow.with_merged(CounterSet::of(counter)));
        }
    }

    /// Takes the counters that have overflowed since they were last taken or programmed, on a CPU with
    /// global control. To be called while no counter is running.
    ///
    /// On other CPUs it finds none: there only the value of a counter shows an overflow, see
    /// [`Self::wrapped`].
    ///
    /// No overflow is lost between this and the unmasking of LVTPC, although
    /// GLOBAL_STATUS is read once: no counter is running, and WRMSR to GLOBAL_CTRL
    /// is serializing (SDM vol. 3, "Serializing Instructions"), so no bit can be set
    /// after the read. A generation that must run the counters to clear the status
    /// is read again until no new bit appears.
    pub fn take_overflows(self) -> CounterSet {
        let Some(global) = self.caps.generation.global else {
            return CounterSet::EMPTY;
        };
        let mut overflowed = CounterSet::EMPTY;
        loop {
            // The other bits of GLOBAL_STATUS belong to others, such as Processor Trace.
            let status = self.regs.rdmsr(global.status);
            let new = CounterSet::from_bits(status) & self.caps.with_status() & !overflowed;
            if new.is_empty() {
                return overflowed;
            }
            overflowed = overflowed | new;
            self.clear_status(global, new.bits() | status & CTR_FRZ);
            if !global.clears_while_on {
                return overflowed;
            }
            // The counters have run meanwhile.
            self.shadow.known.set(0);
        }
    }

    /// Reads a counter, and returns its value if it has wrapped since it was programmed, which must
    /// have been at most [`Capabilities::max_period`] events before.
    pub fn wrapped(self, counter: Counter) -> Option<u64> {
        let value = self.read(counter);
        period::has_wrapped(value, self.caps.width(counter)).then_some(value)
    }

    /// Clears bits of GLOBAL_STATUS, which must exist. No counter is running.
    fn clear_status(self, global: &GlobalRegisters, bits: u64) {
        if global.clears_while_on {
            self.regs.wrmsr(global.ctrl, self.caps.counters.bits());
        }
        self.regs.wrmsr(global.clear, bits);
        if global.clears_while_on {
            self.regs.wrmsr(global.ctrl, 0);
        }
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
