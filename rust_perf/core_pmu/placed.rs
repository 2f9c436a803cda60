// SPDX-License-Identifier: GPL-2.0

//! An event on its counter: start, stop and update.
//!
//! Everything here runs on the event's CPU, with interrupts disabled or in an NMI. Nothing allocates,
//! locks, sleeps, prints or panics.

use super::{
    cpu_pmu::CpuPmu,
    CorePmu, //
};
use crate::{
    perf::CpuEvent,
    pmc::{
        counter::{
            Counter,
            CounterSet, //
        },
        period, //
    }, //
};
use core::ops::Deref;

/// An event of this CPU, and the counter that it is on.
#[derive(Clone, Copy)]
pub(super) struct PlacedEvent<'a> {
    pmu: CpuPmu<'a>,
    counter: Counter,
    event: CpuEvent<'a, CorePmu>,
}

impl<'a> Deref for PlacedEvent<'a> {
    type Target = CpuEvent<'a, CorePmu>;

    #[inline(always)]
    fn deref(&self) -> &CpuEvent<'a, CorePmu> {
        &self.event
    }
}

impl<'a> PlacedEvent<'a> {
    /// `event` must be on `counter`.
    #[inline(always)]
    pub(super) fn new(pmu: CpuPmu<'a>, counter: Counter, event: CpuEvent<'a, CorePmu>) -> Self {
        PlacedEvent {
            pmu,
            counter,
            event,
        }
    }

    /// The PMU of the event's CPU.
    #[inline(always)]
    pub(super) fn pmu(self) -> CpuPmu<'a> {
        self.pmu
    }

    /// The event's counter. It is the first one of a pair.
    #[inline(always)]
    pub(super) fn counter(self) -> Counter {
        self.counter
    }

    /// The width of the event's counter, in bits.
    #[inline(always)]
    pub(super) fn width(self) -> u8 {
        self.pmu.capabilities().width(self.counter)
    }

    /// Calls `f` with this event, in a function of its own. Its arguments are words, which stay in
    /// registers: a `PlacedEvent` as a whole would be passed in memory.
    #[inline(always)]
    pub(super) fn out_of_line<R>(self, f: impl FnOnce(Self) -> R) -> R {
        #[inline(never)]
        fn call<'a, R>(
            pmu: CpuPmu<'a>,
            counter: Counter,
            event: CpuEvent<'a, CorePmu>,
            f: impl FnOnce(PlacedEvent<'a>) -> R,
        ) -> R {
            f(PlacedEvent::new(pmu, counter, event))
        }
        call(self.pmu, self.counter, self.event, f)
    }

    /// Starts the event.
    #[inline(always)]
    pub(super) fn start(self) {
        self.out_of_line(|event| {
            let pmu = event.pmu;
            if pmu.is_shut_down() {
                return;
            }
            pmu.stop_if_disabled();
            if event.start_topdown() {
                return;
            }
            if !event.is_up_to_date() {
                event.update();
                // An NMI must not read the counter while it is programmed.
                event.set_up_to_date();
            }
            event.start_stopped();
            pmu.run_active();
        });
    }

    /// Starts the event, which perf has just added. The PMU is disabled.
    #[inline(always)]
    pub(super) fn start_added(self) {
        if CounterSet::TOPDOWN.contains(self.counter) {
            self.start();
        } else {
            self.start_stopped();
        }
    }

    /// Starts the event, whose count is up to date and whose counter is not running. It runs when the
    /// PMU is enabled. The event must not be a metric, or have metrics.
    #[inline(always)]
    fn start_stopped(self) {
        self.program();
        self.set_running();
        self.update_userpage();
        self.pmu.state().run.activate(self.counter);
    }

    /// Stops the event, and updates its count if `update`.
    #[inline(always)]
    pub(super) fn stop(self, update: bool) {
        self.out_of_line(|event| event.stop_inlined(update));
    }

    /// [`Self::stop`] for [`take_off_counter`](Self::take_off_counter), which does nothing but this in
    /// most switches.
    #[inline(always)]
    pub(super) fn stop_inlined(self, update: bool) {
        let Self { pmu, counter, .. } = self;
        let run = &pmu.state().run;
        // The set is a constant, so that most counters need no look at this CPU's state.
        if CounterSet::TOPDOWN.contains(counter) && self.is_topdown() {
            self.stop_topdown();
            return;
        }
        let stopping = pmu.begin_stopping();
        // The handler of an overflow that has just happened must still find the event active.
        pmu.stop_if_disabled();
        run.deactivate(counter);
        if run.is_enabled() {
            pmu.run_active();
        }
        let has_wrapped = if !update {
            self.set_stopped();
            // Not read: assume that it has wrapped.
            true
        } else if self.is_up_to_date() {
            self.set_stopped();
            false
        } else {
            let has_wrapped = self.update_stopped();
            self.set_stopped_up_to_date();
            has_wrapped
        };
        pmu.end_stopping(stopping, has_wrapped);
        self.update_userpage();
    }

    /// Updates the event's count, unless it is up to date.
    #[inline(always)]
    pub(super) fn read(self) {
        if !self.is_up_to_date() {
            self.update();
        }
    }

    /// Adds what the counter has counted to the event, and returns the counter's value.
    #[inline(always)]
    pub(super) fn update(self) -> u64 {
        let Self { pmu, counter, .. } = self;
        if self.is_topdown() {
            pmu.read_topdown();
            return self.prev_count().get();
        }
        let width = self.width();
        let counters = pmu.counters();
        let prev_count = self.prev_count();
        let (previous, now) = loop {
            let nmis = pmu.state().run.nmis();
            let previous = prev_count.get();
            let now = counters.peek(counter);
            // An NMI may have updated the event meanwhile, and started the counter again. Not
            // detected, as in the in-tree driver: an NMI that comes after the check of `nmis` and
            // restarts the counter at exactly `previous`, so that the exchange succeeds.
            let extended = period::sign_extend(now, width) as u64;
            let done = pmu.state().run.nmis() == nmis && prev_count.replace(previous, extended);
            if done {
                break (previous, now);
            }
        };
        self.add(period::delta(previous, now, width));
        now
    }

    /// Adds what the counter, which is neither active nor running, has counted to the event, and
    /// returns whether it has wrapped.
    #[inline(always)]
    fn update_stopped(self) -> bool {
        let width = self.width();
        let now = self.pmu.counters().read_stopped(self.counter);
        self.account_of(now, width);
        period::has_wrapped(now, width)
    }

    /// Adds what the counter has counted to the event, given the counter's value. The caller is an NMI
    /// handler, or the counter does not count. In the second case an NMI may read the event meanwhile,
    /// for a sample of another one.
    #[inline(always)]
    pub(super) fn account(self, now: u64) {
        self.account_of(now, self.width());
    }

    /// [`Self::account`] with the counter's width.
    #[inline(always)]
    fn account_of(self, now: u64, width: u8) {
        let extended = period::sign_extend(now, width) as u64;
        let previous = self.prev_count().swap(extended);
        self.add(period::delta(previous, now, width));
    }

    #[inline(always)]
    fn add(self, delta: u64) {
        self.count().add(delta);
        self.period_left().add(delta.wrapping_neg());
    }

    /// The registers that hold what the event has counted: both counters of a pair, and PERF_METRICS
    /// besides the leader's counter. A metric has none.
    pub(super) fn registers(self) -> CounterSet {
        let registers = self.pmu.state().run.with_pair(self.counter);
        match self.is_topdown() {
            true if self.counter == Counter::SLOTS => {
                registers | CounterSet::of(Counter::PERF_METRICS)
            }
            true => CounterSet::EMPTY,
            false => registers,
        }
    }
}
