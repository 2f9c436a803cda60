// SPDX-License-Identifier: GPL-2.0

//! Running and stopping counters.

use super::super::{
    counter::{
        Counter,
        CounterSet, //
    },
    event::EventSel,
    registers::Registers,
    shadow::{
        Shadow,
        UNKNOWN, //
    },
    Counters, //
};

impl<R: Registers> Counters<'_, R> {
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
}
