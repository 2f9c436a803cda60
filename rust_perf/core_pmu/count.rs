// SPDX-License-Identifier: GPL-2.0

//! Counting, and the periods of samples.
//!
//! Everything here but `counter_of` runs on the event's CPU, with interrupts disabled
//! or in an NMI. Nothing allocates, locks, sleeps, prints or panics.

use super::{
    ownership::Ownership,
    CorePmu,
    Cpu, //
};
use crate::{
    perf::{
        CpuEvent,
        Event,
        OnCpu, //
    },
    pmc::{
        counter::{
            Counter,
            CounterSet, //
        },
        event::EventSel,
        period, //
    }, //
};
use core::sync::atomic::Ordering::Relaxed;

impl CorePmu {
    /// The counter that an event is on.
    pub(super) fn counter_of(event: &Event<Self>) -> Option<Counter> {
        event.index().and_then(Counter::from_index)
    }

    /// Starts an event on its counter.
    pub(super) fn start_event(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        let Some(counter) = Self::counter_of(&event) else {
            return;
        };
        if self.shut_down.load(Relaxed) {
            return;
        }
        let cpu = on.state();
        if self.start_topdown(on, counter, event) {
            return;
        }
        if !event.is_up_to_date() {
            self.update(on, counter, event);
        }
        self.program(on, counter, event);
        event.set_running();
        event.update_userpage();
        cpu.activate(counter);
        self.run_active(cpu);
    }

    /// Stops an event, and updates its count if `update`.
    pub(super) fn stop_event(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>, update: bool) {
        let Some(counter) = Self::counter_of(&event) else {
            return;
        };
        let cpu = on.state();
        if cpu.is_topdown(counter) {
            self.stop_topdown(on, counter, event);
            return;
        }
        cpu.window.while_stopping(|| {
            cpu.deactivate(counter);
            self.run_active(cpu);
            event.set_stopped();
            if !update {
                // Not read: assume that it wrapped.
                return true;
            }
            if event.is_up_to_date() {
                return false;
            }
            let value = self.update(on, counter, event);
            event.set_up_to_date();
            period::has_wrapped(value, self.hardware.capabilities.width(counter))
        });
        event.update_userpage();
    }

    /// Updates an event's count.
    pub(super) fn read_event(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        if event.is_up_to_date() {
            return;
        }
        if let Some(counter) = Self::counter_of(&event) {
            self.update(on, counter, event);
        }
    }

    /// Clears this CPU's GP counters if they would not count right otherwise: an event has been
    /// put on one of them. The PMU is disabled.
    ///
    /// For perf the events go on. An NMI that arrives meanwhile finds that their counters are not
    /// active, and may stop events for good.
    pub(super) fn clear_selection(&self, on: &OnCpu<'_, Self>) {
        let cpu = on.state();
        let counters = self.counters(cpu);
        if !counters.is_uncleared() || cpu.ownership() != Ownership::Ours {
            return;
        }
        let mut used = CounterSet::EMPTY;
        for counter in cpu.placed().gp_part() {
            let Some(event) = on.event(counter.index()) else {
                continue;
            };
            if event.is_up_to_date() {
                continue;
            }
            // An event that perf has stopped may have the rest of its count in the counter, too.
            if !event.is_stopped() {
                used = used | CounterSet::of(counter);
            }
            cpu.window.while_stopping(|| {
                cpu.deactivate(counter);
                let value = self.update(on, counter, event);
                period::has_wrapped(value, self.hardware.capabilities.width(counter))
            });
        }
        counters.clear_selection(used);
        for counter in cpu.placed().gp_part() {
            let Some(event) = on.event(counter.index()) else {
                continue;
            };
            if used.contains(counter) && !event.is_stopped() {
                self.program(on, counter, event);
                cpu.activate(counter);
            }
            if event.is_stopped() {
                // Perhaps an NMI has just stopped it.
                cpu.deactivate(counter);
                event.set_up_to_date();
            }
            event.update_userpage();
        }
    }

    /// Runs the active counters, if they may run.
    pub(super) fn run_active(&self, cpu: &Cpu) {
        let counters = self.counters(cpu);
        while cpu.enabled.load(Relaxed) {
            let nmis = cpu.nmis.load(Relaxed);
            counters.run(cpu.active());
            if cpu.nmis.load(Relaxed) == nmis {
                return;
            }
            // An NMI ran the counters meanwhile, so it is not known which write came last.
            counters.forget_running();
        }
    }

    /// Adds what `counter` has counted to its event, and returns the counter's value.
    pub(super) fn update(
        &self,
        on: &OnCpu<'_, Self>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) -> u64 {
        let cpu = on.state();
        if cpu.is_topdown(counter) {
            self.read_topdown(on);
            return event.prev_count().load(Relaxed) as u64;
        }
        let width = self.hardware.capabilities.width(counter);
        let counters = self.counters(cpu);
        let prev_count = event.prev_count();
        let (previous, now) = loop {
            let nmis = cpu.nmis.load(Relaxed);
            let previous = prev_count.load(Relaxed);
            let now = counters.read(counter);
            // An NMI may have updated the event meanwhile, and started the counter again. Reading
            // again also corrects what the shadow has learned from the first value. Not
            // detected, as in the in-tree driver: an NMI that comes after the check of `nmis` and
            // restarts the counter at exactly `previous`, so that the exchange succeeds.
            let done = cpu.nmis.load(Relaxed) == nmis
                && prev_count
                    .compare_exchange(previous, period::sign_extend(now, width), Relaxed, Relaxed)
                    .is_ok();
            if done {
                break (previous, now);
            }
        };
        let delta = period::delta(previous as u64, now, width) as i64;
        event.count().fetch_add(delta, Relaxed);
        event.period_left().fetch_sub(delta, Relaxed);
        now
    }

    /// Programs `counter`, which is not running, for what is left of its event's period.
    /// If a period has ended, returns it and begins the next one.
    pub(super) fn program(
        &self,
        on: &OnCpu<'_, Self>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) -> Option<u64> {
        let cpu = on.state();
        if cpu.is_topdown(counter) {
            self.program_topdown(on, counter, event);
            return None;
        }
        let capabilities = &self.hardware.capabilities;
        let next = event.period();
        let rearm = period::rearm(
            event.period_left().load(Relaxed),
            next,
            capabilities.max_period(),
        );
        let ended = rearm.period_ended.then(|| {
            let ended = event.last_period();
            event.set_last_period(next);
            ended
        });
        event.period_left().store(rearm.period_left, Relaxed);

        let width = capabilities.width(counter);
        let until_wrap = capabilities.limit_period(Self::eventsel_of(&event), rearm.until_wrap);
        let value = period::start_value(until_wrap, width);
        // The mapped page shows this to user mode, which adds the sign-extended counter.
        event
            .prev_count()
            .store(period::sign_extend(value, width), Relaxed);
        let counters = self.counters(cpu);
        let mut eventsel = self.eventsel_on(cpu, event);
        if let Some(extra) = Self::extra_of(&event) {
            counters.program_extra(extra);
            eventsel = capabilities.event_in(eventsel, extra.register);
        }
        counters.program(counter, eventsel, value);
        cpu.dirty
            .fetch_and(!cpu.registers_of(counter).bits(), Relaxed);
        ended
    }

    /// The EVENTSEL of an event on this CPU, where SVM may be enabled or not.
    fn eventsel_on(&self, cpu: &Cpu, event: CpuEvent<'_, Self>) -> EventSel {
        // Slots without metrics are an ordinary count, which user mode must not clear.
        let eventsel = Self::eventsel_of(&event).with(EventSel::METRICS_CLEAR, 0);
        if self.hardware.capabilities.svm && !cpu.svm.load(Relaxed) {
            eventsel.without_svm()
        } else {
            eventsel
        }
    }
}
