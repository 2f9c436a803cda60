// SPDX-License-Identifier: GPL-2.0

//! The counters of one CPU, and what they are programmed to.

use super::{
    generation::GlobalRegisters,
    Capabilities,
    Registers, //
};
use crate::pmc::{
    counter::{
        Counter,
        CounterSet,
        MAX_COUNTERS, //
    },
    event::EventSel,
    period, //
};
use core::sync::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};

/// The bits of a fixed counter in FIXED_CTR_CTRL.
const FIXED_FIELD: u64 = 0xf;

/// A word of one CPU, which also its NMIs access: atomic, but in no need of
/// ordering, nor of what the kernel's atomics are for.
#[derive(Default)]
struct Word(AtomicU64);

impl Word {
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Relaxed)
    }
}

/// The counters of one CPU: works out which registers have to be written.
///
/// All methods are for the CPU that the bank belongs to. An NMI may interrupt
/// any of them, and may itself call them for counters that the interrupted
/// call is not for.
///
/// # Invariants
///
/// From [`Self::take_over`] to [`Self::give_back`]:
///
/// - `running` is the set of counters that may count;
/// - `eventsel` and `fixed_ctrl` are what is in those registers, but that where
///   there is no global control EN is set for just the counters in `running`;
/// - `value` is what a counter holds, if it is in `known`; such a counter is
///   not in `running`.
pub struct Bank {
    running: Word,
    eventsel: [Word; MAX_COUNTERS],
    fixed_ctrl: Word,
    known: Word,
    value: [Word; MAX_COUNTERS],
    /// What the global control was.
    saved: Word,
}

impl Default for Bank {
    fn default() -> Self {
        Bank {
            running: Word::default(),
            eventsel: [const { Word(AtomicU64::new(0)) }; MAX_COUNTERS],
            fixed_ctrl: Word::default(),
            known: Word::default(),
            value: [const { Word(AtomicU64::new(0)) }; MAX_COUNTERS],
            saved: Word::default(),
        }
    }
}

impl Bank {
    /// Takes all counters, in whatever state they are: none counts, and no
    /// overflow of any is pending. IRQs disabled.
    pub fn take_over<R: Registers>(&self, caps: &Capabilities, regs: &R) {
        if let Some(global) = caps.any_global() {
            self.saved.set(regs.rdmsr(global.ctrl));
        }
        self.reset(caps, regs);
    }

    /// Does the same for counters that were taken over before, and have lost
    /// what they held. IRQs disabled.
    pub fn reset<R: Registers>(&self, caps: &Capabilities, regs: &R) {
        if let Some(global) = caps.any_global() {
            regs.wrmsr(global.ctrl, 0);
            clear_status(global, caps, regs, caps.counters);
        }
        self.running.set(0);
        self.known.set(0);
        for counter in caps.counters.general_part() {
            self.write_eventsel(caps, regs, counter, 0);
        }
        self.write_fixed_ctrl(caps, regs, 0);
        if let Some(gate) = caps.gate {
            regs.wrmsr(gate.ctrl, caps.counters.bits());
        }
    }

    /// Leaves the counters to others: none is programmed any more, they hold
    /// nothing, and the global control is what it was. IRQs disabled.
    pub fn give_back<R: Registers>(&self, caps: &Capabilities, regs: &R) {
        self.run(caps, regs, CounterSet::EMPTY);
        self.clear(caps, regs, caps.counters);
        for counter in caps.counters.general_part() {
            if self.eventsel_of(counter) != 0 {
                self.write_eventsel(caps, regs, counter, 0);
            }
        }
        if self.fixed_ctrl.get() != 0 {
            self.write_fixed_ctrl(caps, regs, 0);
        }
        if let Some(gate) = caps.gate {
            // Whoever is next finds no overflows of ours.
            regs.wrmsr(gate.ctrl, 0);
            clear_status(gate, caps, regs, caps.counters);
        }
        if let Some(global) = caps.any_global() {
            regs.wrmsr(global.ctrl, self.saved.get());
        }
    }

    /// Has `counter`, which must not be running, count `event` from `value`
    /// on, once it is run.
    pub fn program<R: Registers>(
        &self,
        caps: &Capabilities,
        regs: &R,
        counter: Counter,
        event: EventSel,
        value: u64,
    ) {
        self.write_value(caps, regs, counter, value);
        match counter.as_fixed() {
            Some(i) => {
                // There are 16 fields of 4 bits: nothing is shifted out.
                let at = |field: u64| field.wrapping_shl(u32::from(i).wrapping_mul(4));
                let others = self.fixed_ctrl.get() & !at(FIXED_FIELD);
                let wanted = others | at(event.fixed_ctrl());
                if wanted != self.fixed_ctrl.get() {
                    self.write_fixed_ctrl(caps, regs, wanted);
                }
            }
            None => {
                // Without global control EN is what runs the counter.
                let enable = caps.generation.global.map_or(0, |_| EventSel::EN);
                let wanted = event.bits() | enable;
                if wanted != self.eventsel_of(counter) {
                    self.write_eventsel(caps, regs, counter, wanted);
                }
            }
        }
    }

    /// Has `counters`, none of which must be running, hold nothing that could
    /// be read.
    pub fn clear<R: Registers>(&self, caps: &Capabilities, regs: &R, counters: CounterSet) {
        for counter in counters {
            self.write_value(caps, regs, counter, 0);
        }
    }

    /// Reads a counter.
    pub fn read<R: Registers>(&self, regs: &R, counter: Counter) -> u64 {
        let value = regs.rdpmc(counter.rdpmc());
        if self.running.get() & CounterSet::of(counter).bits() == 0 {
            self.learn(counter, value);
        }
        value
    }

    /// Has just the counters of `run`, all of them programmed, count.
    pub fn run<R: Registers>(&self, caps: &Capabilities, regs: &R, run: CounterSet) {
        let running = self.running.get();
        if running == run.bits() {
            return;
        }
        // In this order, so that the invariant holds in between as well.
        self.known.set(self.known.get() & !run.bits());
        self.running.set(running | run.bits());
        match caps.generation.global {
            Some(global) => regs.wrmsr(global.ctrl, run.bits()),
            None => {
                let changed = CounterSet::from_bits(running ^ run.bits()) & caps.counters;
                for counter in changed {
                    let enable = if run.contains(counter) {
                        EventSel::EN
                    } else {
                        0
                    };
                    let eventsel = self.eventsel_of(counter) & !EventSel::EN;
                    self.write_eventsel(caps, regs, counter, eventsel | enable);
                }
            }
        }
        self.running.set(run.bits());
    }

    /// Makes sure that the next [`Self::run`] writes the hardware: an NMI that
    /// called it has interrupted another call of it.
    pub fn forget_running(&self) {
        self.running.set(u64::MAX);
    }

    /// The counters that have overflowed since they were last asked for or
    /// programmed; where only their values tell, those of `active`, which must
    /// have been started at half their range or above. To be called while none
    /// runs.
    pub fn take_overflows<R: Registers>(
        &self,
        caps: &Capabilities,
        regs: &R,
        active: CounterSet,
    ) -> CounterSet {
        let Some(global) = caps.generation.global else {
            return active
                .into_iter()
                .filter(|&counter| {
                    period::has_wrapped(self.read(regs, counter), caps.width(counter))
                })
                .collect();
        };
        // The other bits are for others to find: Processor Trace's, for one.
        let overflowed = CounterSet::from_bits(regs.rdmsr(global.status)) & caps.counters;
        if !overflowed.is_empty() {
            clear_status(global, caps, regs, overflowed);
            if global.clears_while_on {
                // They have counted what that took.
                self.known.set(0);
            }
        }
        overflowed
    }

    fn write_value<R: Registers>(
        &self,
        caps: &Capabilities,
        regs: &R,
        counter: Counter,
        value: u64,
    ) {
        let known = self.known.get() & CounterSet::of(counter).bits() != 0;
        let current = self.value.get(counter.index()).map(Word::get);
        if known && current == Some(value) {
            return;
        }
        regs.wrmsr(caps.generation.counter(counter), value);
        self.learn(counter, value);
    }

    fn learn(&self, counter: Counter, value: u64) {
        if let Some(word) = self.value.get(counter.index()) {
            word.set(value);
            self.known
                .set(self.known.get() | CounterSet::of(counter).bits());
        }
    }

    fn eventsel_of(&self, counter: Counter) -> u64 {
        self.eventsel.get(counter.index()).map_or(0, Word::get)
    }

    fn write_eventsel<R: Registers>(
        &self,
        caps: &Capabilities,
        regs: &R,
        counter: Counter,
        value: u64,
    ) {
        regs.wrmsr(caps.generation.eventsel(counter), value);
        if let Some(word) = self.eventsel.get(counter.index()) {
            word.set(value);
        }
    }

    fn write_fixed_ctrl<R: Registers>(&self, caps: &Capabilities, regs: &R, value: u64) {
        if let (Some(fixed), false) = (
            &caps.generation.fixed,
            caps.counters.fixed_part().is_empty(),
        ) {
            regs.wrmsr(fixed.ctrl, value);
            self.fixed_ctrl.set(value);
        }
    }
}

/// Clears the status bits of `counters` while none counts.
fn clear_status<R: Registers>(
    global: &GlobalRegisters,
    caps: &Capabilities,
    regs: &R,
    counters: CounterSet,
) {
    if global.clears_while_on {
        regs.wrmsr(global.ctrl, caps.counters.bits());
    }
    regs.wrmsr(global.clear, counters.bits());
    if global.clears_while_on {
        regs.wrmsr(global.ctrl, 0);
    }
}
