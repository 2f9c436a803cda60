// SPDX-License-Identifier: GPL-2.0

//! Counting, and the periods of samples.
//!
//! Everything here but `counter_of` runs on the event's CPU, with interrupts disabled
//! or in an NMI. Nothing allocates, locks, sleeps, prints or panics.

use super::{
    nmi_window::Stopping,
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
        assign::Needs,
        counter::{
            Counter,
            CounterSet, //
        },
        event::EventSel,
        period,
        Extra, //
    }, //
};
use core::sync::atomic::Ordering::Relaxed;

impl CorePmu {
    /// The counter that an event is on.
    pub(super) fn counter_of(event: &Event<Self>) -> Option<Counter> {
        event.index().and_then(Counter::from_index)
    }

    /// Starts an event on its counter.
    pub(super) fn start_event(&self, on: OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        let Some(counter) = Self::counter_of(&event) else {
            return;
        };
        if self.shut_down.load(Relaxed) {
            return;
        }
        let cpu = on.state();
        self.stop_if_disabled(cpu);
        if self.start_topdown(on, counter, event) {
            return;
        }
        if !event.is_up_to_date() {
            self.update(on, counter, event);
            // An NMI must not read the counter while it is programmed.
            event.set_up_to_date();
        }
        self.start_stopped(cpu, counter, event);
        self.run_active(cpu);
    }

    /// Starts an event whose count is up to date, on a counter that is not running. It runs when the
    /// PMU is enabled. The event must not be a metric, or have metrics.
    #[inline(always)]
    fn start_stopped(&self, cpu: &Cpu, counter: Counter, event: CpuEvent<'_, Self>) {
        self.program(cpu, counter, event);
        event.set_running();
        event.update_userpage();
        cpu.activate(counter);
    }

    /// Starts an event that has just been put on `counter`. The PMU is disabled.
    #[inline(always)]
    pub(super) fn start_placed(
        &self,
        on: OnCpu<'_, Self>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) {
        if CounterSet::TOPDOWN.contains(counter) {
            self.start_event(on, event);
        } else {
            self.start_stopped(on.state(), counter, event);
        }
    }

    /// Stops an event, and updates its count if `update`.
    pub(super) fn stop_event(&self, on: OnCpu<'_, Self>, event: CpuEvent<'_, Self>, update: bool) {
        if let Some(counter) = Self::counter_of(&event) {
            self.stop_on(on, counter, event, update);
        }
    }

    /// Stops an event that is on `counter`.
    #[inline(always)]
    pub(super) fn stop_on(
        &self,
        on: OnCpu<'_, Self>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
        update: bool,
    ) {
        let cpu = on.state();
        // The set is a constant, so that most counters need no look at this CPU's state.
        if CounterSet::TOPDOWN.contains(counter) && cpu.is_topdown(counter) {
            self.stop_topdown(on, counter, event);
            return;
        }
        let stopping = self.begin_stopping(cpu);
        // The handler of an overflow that has just happened must still find the event active.
        self.stop_if_disabled(cpu);
        cpu.deactivate(counter);
        if cpu.enabled.get() {
            self.run_active(cpu);
        }
        let has_wrapped = if !update {
            event.set_stopped();
            // Not read: assume that it has wrapped.
            true
        } else if event.is_up_to_date() {
            event.set_stopped();
            false
        } else {
            let has_wrapped = self.update_stopped(cpu, counter, event);
            event.set_stopped_up_to_date();
            has_wrapped
        };
        self.end_stopping(cpu, stopping, has_wrapped);
        event.update_userpage();
    }

    /// Updates an event's count.
    #[inline(always)]
    pub(super) fn read_event(&self, on: OnCpu<'_, Self>, event: CpuEvent<'_, Self>) {
        if event.is_up_to_date() {
            return;
        }
        if let Some(counter) = Self::counter_of(&event) {
            self.update(on, counter, event);
        }
    }

    /// Clears this CPU's GP counters if they would not count right otherwise: an event has been
    /// put on one of them. The PMU is disabled.
    #[inline(always)]
    pub(super) fn clear_selection(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        if self.counters(cpu).is_uncleared() && cpu.ownership() == Ownership::Ours {
            self.clear_gp_counters(on);
        }
    }

    #[inline(never)]
    fn clear_gp_counters(&self, on: OnCpu<'_, Self>) {
        let counters = self.counters(on.state());
        let all = self.hardware.capabilities.counters.gp_part();
        self.restart_events(on, all, |used| counters.clear_selection(used));
    }

    /// Updates the events on `counters`, which are no metrics and have none, has `change` change the
    /// registers of these counters, and programs them again. `change` gets the counters that are to be
    /// programmed again. It must write or forget what they hold, so that no event runs on from that.
    /// Interrupts disabled.
    ///
    /// For perf the events go on. An NMI that arrives meanwhile finds that their counters are not
    /// active and their counts up to date, so that it reads no counter. It may stop events for good.
    pub(super) fn restart_events(
        &self,
        on: OnCpu<'_, Self>,
        counters: CounterSet,
        change: impl FnOnce(CounterSet),
    ) {
        let cpu = on.state();
        self.while_stopped(cpu, || {
            let counters = cpu.placed() & counters;
            let mut used = CounterSet::EMPTY;
            for counter in counters {
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
                let stopping = self.begin_stopping(cpu);
                cpu.deactivate(counter);
                let value = self.update(on, counter, event);
                event.set_up_to_date();
                let width = self.hardware.capabilities.width(counter);
                self.end_stopping(cpu, stopping, period::has_wrapped(value, width));
            }
            change(used);
            for counter in counters {
                let Some(event) = on.event(counter.index()) else {
                    continue;
                };
                if used.contains(counter) && !event.is_stopped() {
                    self.program(cpu, counter, event);
                    event.set_not_up_to_date();
                    cpu.activate(counter);
                }
                if event.is_stopped() {
                    // Perhaps an NMI has just stopped it.
                    cpu.deactivate(counter);
                    event.set_up_to_date();
                }
                event.update_userpage();
            }
        });
    }

    /// A counter is about to be stopped. The result is for [`Self::end_stopping`].
    #[inline(always)]
    pub(super) fn begin_stopping(&self, cpu: &Cpu) -> Option<Stopping> {
        let is_seen_in_lvtpc = self.hardware.capabilities.generation.masks_lvtpc;
        (!is_seen_in_lvtpc).then(|| cpu.window.begin_stopping())
    }

    /// A counter has been stopped. If it has wrapped, its PMI may be late.
    #[inline(always)]
    pub(super) fn end_stopping(&self, cpu: &Cpu, stopping: Option<Stopping>, has_wrapped: bool) {
        match stopping {
            Some(stopping) => cpu.window.end_stopping(stopping, has_wrapped),
            // A masked LVTPC tells its PMI as long as the counters are ours.
            None if has_wrapped => cpu.window.expect_one(),
            None => {}
        }
    }

    /// perf disables the PMU.
    ///
    /// perf often enables it again without a change, so the counters run on until there is one. But perf
    /// relies on it that no sample is taken meanwhile: see `perf_event_context_sched_out()`.
    #[inline(always)]
    pub(super) fn disable_counters(&self, cpu: &Cpu) {
        let may_look = || !cpu.active().is_empty() && self.may_look_for_foreign_writes(cpu);
        if cpu.takes_samples() || may_look() {
            self.disable_slowly(cpu);
        } else {
            cpu.enabled.set(false);
        }
    }

    /// Does the same, if registers may be looked at or counters are to be stopped.
    #[inline(never)]
    fn disable_slowly(&self, cpu: &Cpu) {
        if self.may_look_for_foreign_writes(cpu) {
            self.look_for_foreign_writes(cpu);
        }
        cpu.enabled.set(false);
        if cpu.takes_samples() {
            self.stop_if_disabled(cpu);
        }
    }

    /// perf enables the PMU.
    #[inline(always)]
    pub(super) fn enable_counters(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        let active = cpu.active();
        // Dirty counters need not be cleared here: all counters are stopped before one becomes dirty, and
        // a hook clears those before CR4.PCE is set. Uncleared ones must be, even if they run.
        let is_unchanged = !active.is_empty()
            && cpu.shadow.runs_just(active)
            && !self.counters(cpu).is_uncleared()
            && self.hooks_alive.get();
        if !is_unchanged {
            self.clear_and_enable(on);
            return;
        }
        cpu.enabled.set(true);
        // An NMI may have stopped counters meanwhile. It runs them again only if it has found `enabled`.
        if !cpu.shadow.runs_just(active) {
            self.update_running(cpu);
        }
    }

    /// Does the same, if counters may have to be cleared or run.
    #[inline(never)]
    fn clear_and_enable(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        if cpu.dirty.get() != 0 && self.user_may_read() {
            self.clear_dirty(on);
        }
        self.clear_selection(on);
        cpu.enabled.set(true);
        self.run_active(cpu);
    }

    /// Stops the counters if perf has disabled the PMU. To be called before a change, since
    /// [`Pmu::disable`](crate::perf::Pmu::disable) leaves them running.
    #[inline(always)]
    pub(super) fn stop_if_disabled(&self, cpu: &Cpu) {
        if !cpu.enabled.get() && !cpu.shadow.is_stopped() {
            self.update_running(cpu);
        }
    }

    /// Runs the active counters, if they may run.
    #[inline(always)]
    pub(super) fn run_active(&self, cpu: &Cpu) {
        if cpu.enabled.get() && !cpu.shadow.runs_just(cpu.active()) {
            self.update_running(cpu);
        }
    }

    /// Runs the active counters if they may run, otherwise none.
    #[inline(never)]
    fn update_running(&self, cpu: &Cpu) {
        let is_done = if self.hardware.capabilities.has_global_control() {
            self.try_update_running(cpu)
        } else {
            self.try_update_enables(cpu)
        };
        if !is_done {
            self.update_running_again(cpu);
        }
    }

    /// Does the same after an NMI has run the counters meanwhile, so that it is not known which write
    /// came last.
    #[cold]
    fn update_running_again(&self, cpu: &Cpu) {
        loop {
            self.counters(cpu).forget_running();
            if self.try_update_running(cpu) {
                return;
            }
        }
    }

    /// [`Self::try_update_running`] on a CPU without global control. Not inlined: it writes each EVENTSEL.
    #[inline(never)]
    fn try_update_enables(&self, cpu: &Cpu) -> bool {
        self.try_update_running(cpu)
    }

    /// Runs the active counters, or none, once. Returns whether no NMI has run the counters meanwhile.
    #[inline(always)]
    fn try_update_running(&self, cpu: &Cpu) -> bool {
        let (counters, nmis) = (self.counters(cpu), cpu.nmis.get());
        if cpu.enabled.get() {
            counters.run(cpu.active());
        } else {
            counters.stop();
        }
        cpu.nmis.get() == nmis
    }

    /// Adds what `counter` has counted to its event, and returns the counter's value.
    #[inline(always)]
    pub(super) fn update(
        &self,
        on: OnCpu<'_, Self>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) -> u64 {
        let cpu = on.state();
        if cpu.is_topdown(counter) {
            self.read_topdown(on);
            return event.prev_count().get();
        }
        let width = self.hardware.capabilities.width(counter);
        let counters = self.counters(cpu);
        let prev_count = event.prev_count();
        let (previous, now) = loop {
            let nmis = cpu.nmis.get();
            let previous = prev_count.get();
            let now = counters.peek(counter);
            // An NMI may have updated the event meanwhile, and started the counter again. Not
            // detected, as in the in-tree driver: an NMI that comes after the check of `nmis` and
            // restarts the counter at exactly `previous`, so that the exchange succeeds.
            let extended = period::sign_extend(now, width) as u64;
            let done = cpu.nmis.get() == nmis && prev_count.replace(previous, extended);
            if done {
                break (previous, now);
            }
        };
        Self::add(event, period::delta(previous, now, width));
        now
    }

    /// Adds what `counter`, which is neither active nor running, has counted to its event, and returns
    /// whether it has wrapped.
    #[inline(always)]
    fn update_stopped(&self, cpu: &Cpu, counter: Counter, event: CpuEvent<'_, Self>) -> bool {
        let now = self.counters(cpu).read_stopped(counter);
        let width = self.hardware.capabilities.width(counter);
        Self::account(event, now, width);
        period::has_wrapped(now, width)
    }

    /// Adds what a counter of `width` bits has counted to its event, given the counter's value. In an
    /// NMI, or if the counter does not count: then a sample of another event may read this one meanwhile.
    #[inline(always)]
    pub(super) fn account(event: CpuEvent<'_, Self>, now: u64, width: u8) {
        let extended = period::sign_extend(now, width) as u64;
        let previous = event.prev_count().swap(extended);
        Self::add(event, period::delta(previous, now, width));
    }

    fn add(event: CpuEvent<'_, Self>, delta: u64) {
        event.count().add(delta);
        event.period_left().add(delta.wrapping_neg());
    }

    /// Programs `counter`, which is not counting, for its event, which is no metric and has none. One that
    /// samples gets what is left of its period. If nothing is left, its next period begins.
    ///
    /// An event that only counts runs on from what the counter holds, if it can and nobody
    /// may read that.
    #[inline(always)]
    pub(super) fn program(&self, cpu: &Cpu, counter: Counter, event: CpuEvent<'_, Self>) {
        // Looked at once: meanwhile another CPU may let user mode read the event.
        let is_readable = event.is_user_readable();
        if event.is_sampling() {
            cpu.sampling.or(CounterSet::of(counter).bits());
            self.begin(cpu, counter, event);
        } else if let Some(until_wrap) = self.distance_to_run_on(cpu, counter, event, is_readable) {
            self.run_on(cpu, counter, event, until_wrap);
        } else {
            self.begin(cpu, counter, event);
        }
        if is_readable {
            event.set_user_index(Some(counter.rdpmc()));
        }
    }

    /// The number of events until `counter`, which is not running, wraps, if an event that only counts
    /// can run on from what it holds. `is_readable` says whether user mode may read the event.
    #[inline(always)]
    fn distance_to_run_on(
        &self,
        cpu: &Cpu,
        counter: Counter,
        event: CpuEvent<'_, Self>,
        is_readable: bool,
    ) -> Option<u64> {
        if !self.hooks_alive.get() {
            return None;
        }
        let value = self.counters(cpu).known(counter)?;
        let capabilities = &self.hardware.capabilities;
        let until_wrap = period::delta(value, 0, capabilities.width(counter));
        if !capabilities.can_run_on(Self::eventsel_of(&event), until_wrap, self.max_period) {
            return None;
        }
        let is_hidden = || !is_readable && !self.hardware.user_rdpmc.is_allowed();
        (!cpu.is_dirty(counter) || is_hidden()).then_some(until_wrap)
    }

    /// Programs `counter`, which is not counting, for an event that runs on from what it holds,
    /// `until_wrap` events before the wrap.
    #[inline(always)]
    fn run_on(&self, cpu: &Cpu, counter: Counter, event: CpuEvent<'_, Self>, until_wrap: u64) {
        Self::set_prev_count(event, until_wrap);
        let (eventsel, takes_pair) = self.prepare(cpu, event);
        self.counters(cpu)
            .program_held(counter, eventsel, takes_pair, until_wrap);
    }

    /// Programs `counter`, which is not counting, for what is left of its event's period. If nothing is
    /// left, begins the next one. Afterwards the counter holds nothing but what this event counts.
    #[inline(never)]
    fn begin(&self, cpu: &Cpu, counter: Counter, event: CpuEvent<'_, Self>) {
        let (value, _) = self.next_start(counter, event);
        self.program_from(cpu, counter, event, value);
        cpu.dirty.and(!cpu.registers_of(counter).bits());
    }

    /// Goes on with the period of an event whose counter is said to have overflowed, and is not counting.
    /// If the period has ended, returns it and begins the next one. Everything but the counter's value
    /// has been programmed. In an NMI.
    #[inline(always)]
    pub(super) fn rearm(
        &self,
        cpu: &Cpu,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) -> Option<u64> {
        let (value, ended) = self.next_start(counter, event);
        if Needs::from_word(event.constant()).pair() {
            self.rearm_pair(cpu, counter, event, value);
        } else {
            self.counters(cpu).set(counter, value);
        }
        ended
    }

    /// Programs a pair again. The second counter may have wrapped as well.
    #[inline(never)]
    fn rearm_pair(&self, cpu: &Cpu, counter: Counter, event: CpuEvent<'_, Self>, value: u64) {
        self.program_from(cpu, counter, event, value);
    }

    /// Begins or goes on with an event's period. What the counter holds must have been accounted for.
    /// Returns the value to start the counter from, and the period that has ended, if one has.
    #[inline(always)]
    fn next_start(&self, counter: Counter, event: CpuEvent<'_, Self>) -> (u64, Option<u64>) {
        let (until_wrap, ended) = self.next_period(event);
        // The event may need a start that is further away.
        let capabilities = &self.hardware.capabilities;
        let until_wrap = capabilities.limit_period(Self::eventsel_of(&event), until_wrap);
        Self::set_prev_count(event, until_wrap);
        let value = period::start_value(until_wrap, capabilities.width(counter));
        (value, ended)
    }

    /// The event's counter is to count from `until_wrap` events before the wrap, at most half of its
    /// range. `prev_count` is that value, sign-extended: the page that user mode may have mapped shows
    /// it, and user mode adds the counter, sign-extended.
    fn set_prev_count(event: CpuEvent<'_, Self>, until_wrap: u64) {
        event.prev_count().set(until_wrap.wrapping_neg());
    }

    /// Begins or goes on with an event's period. Returns the number of events after which its counter
    /// is to wrap, and the period that has ended, if one has.
    fn next_period(&self, event: CpuEvent<'_, Self>) -> (u64, Option<u64>) {
        let next = event.period();
        let rearm = period::rearm(event.period_left().get() as i64, next, self.max_period);
        let ended = rearm.period_ended.then(|| {
            let ended = event.last_period();
            event.set_last_period(next);
            ended
        });
        event.period_left().set(rearm.period_left as u64);
        (rearm.until_wrap, ended)
    }

    /// Programs `counter`, which is not counting, for its event, from `value` on.
    #[inline(always)]
    fn program_from(&self, cpu: &Cpu, counter: Counter, event: CpuEvent<'_, Self>, value: u64) {
        let (eventsel, takes_pair) = self.prepare(cpu, event);
        self.counters(cpu)
            .program(counter, eventsel, takes_pair, value);
    }

    /// Programs the extra register of an event, if it needs one. Returns the EVENTSEL for its counter,
    /// and whether it takes a pair.
    #[inline(always)]
    fn prepare(&self, cpu: &Cpu, event: CpuEvent<'_, Self>) -> (EventSel, bool) {
        let eventsel = self.eventsel_on(cpu, event);
        let eventsel = match Self::extra_of(&event) {
            None => eventsel,
            Some(extra) => self.program_extra(cpu, extra, eventsel),
        };
        (eventsel, Needs::from_word(event.constant()).pair())
    }

    /// Programs an event's extra register. Returns the EVENTSEL that goes with it.
    #[inline(never)]
    fn program_extra(&self, cpu: &Cpu, extra: Extra, eventsel: EventSel) -> EventSel {
        self.counters(cpu).program_extra(extra);
        self.hardware
            .capabilities
            .event_in(eventsel, extra.register)
    }

    /// The EVENTSEL of an event on this CPU, where SVM may be enabled or not.
    fn eventsel_on(&self, cpu: &Cpu, event: CpuEvent<'_, Self>) -> EventSel {
        // Slots without metrics are an ordinary count, which user mode must not clear.
        let eventsel = Self::eventsel_of(&event).with(EventSel::METRICS_CLEAR, 0);
        if self.hardware.capabilities.svm && !cpu.svm.get() {
            eventsel.without_svm()
        } else {
            eventsel
        }
    }
}
