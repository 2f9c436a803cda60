// SPDX-License-Identifier: GPL-2.0

//! Programming the counter of an event, and the periods of samples.
//!
//! Everything here runs on the event's CPU, with interrupts disabled or in an NMI. Nothing allocates,
//! locks, sleeps, prints or panics.

use super::{
    cpu_pmu::CpuPmu,
    event::CoreEvent,
    placed::PlacedEvent, //
};
use crate::pmc::{
    event::EventSel,
    period,
    Extra, //
};

/// Where an event's counter is to start.
struct NextStart {
    /// The value to start the counter from.
    value: u64,
    /// The period that has ended, if one has.
    ended: Option<u64>,
}

impl PlacedEvent<'_> {
    /// Programs the counter, which is not counting, for the event, which is neither a metric nor the
    /// leader of one. An event that samples gets what is left of its period. If nothing is left, its
    /// next period begins.
    ///
    /// An event that only counts runs on from what the counter holds, if it can, and if user mode
    /// cannot read the counter.
    #[inline(always)]
    pub(super) fn program(self) {
        // Looked at once: meanwhile another CPU may let user mode read the event.
        let is_readable = self.is_user_readable();
        if self.is_sampling() {
            self.pmu().state().run.begin_sampling(self.counter());
            self.program_period();
        } else if let Some(until_wrap) = self.distance_to_run_on(is_readable) {
            self.program_to_run_on(until_wrap);
        } else {
            self.program_period();
        }
        if is_readable {
            self.set_user_index(Some(self.counter().rdpmc()));
        }
    }

    /// The number of events until the counter, which is not running, wraps, if an event that only counts
    /// can run on from what it holds. `is_readable` says whether user mode may read the event.
    #[inline(always)]
    fn distance_to_run_on(self, is_readable: bool) -> Option<u64> {
        let (pmu, counter) = (self.pmu(), self.counter());
        if !pmu.driver().hooks_alive.get() {
            return None;
        }
        let value = pmu.counters().known(counter)?;
        let until_wrap = period::delta(value, 0, self.width());
        let max_period = pmu.driver().max_period;
        if !pmu
            .capabilities()
            .can_run_on(self.eventsel(), until_wrap, max_period)
        {
            return None;
        }
        let is_hidden = || !is_readable && !pmu.hardware().user_rdpmc.is_allowed();
        (!pmu.state().dirty.contains(counter) || is_hidden()).then_some(until_wrap)
    }

    /// Programs the counter, which is not counting, for an event that runs on from what it holds,
    /// `until_wrap` events before the wrap.
    #[inline(always)]
    fn program_to_run_on(self, until_wrap: u64) {
        self.set_start(until_wrap);
        let (eventsel, takes_pair) = self.prepare();
        self.pmu()
            .counters()
            .program_held(self.counter(), eventsel, takes_pair, until_wrap);
    }

    /// Programs the counter, which is not counting, for what is left of the event's period. If nothing
    /// is left, begins the next one. Afterwards the counter holds nothing but what this event counts.
    #[inline(always)]
    fn program_period(self) {
        self.out_of_line(|event| {
            let NextStart { value, .. } = event.next_start();
            event.program_from(value);
            event.pmu().state().dirty.remove(event.registers());
        });
    }

    /// Goes on with the period of the event, whose counter is said to have overflowed, and is not
    /// counting. If the period has ended, returns it and begins the next one. Everything but the
    /// counter's value has been programmed. In an NMI.
    #[inline(always)]
    pub(super) fn rearm(self) -> Option<u64> {
        let NextStart { value, ended } = self.next_start();
        if self.needs().pair() {
            // The second counter may have wrapped as well.
            self.out_of_line(move |event| event.program_from(value));
        } else {
            self.pmu().counters().set(self.counter(), value);
        }
        ended
    }

    /// Begins or goes on with the event's period. What the counter holds must have been accounted for.
    #[inline(always)]
    fn next_start(self) -> NextStart {
        let (until_wrap, ended) = self.next_period();
        // The event may need a start that is further away.
        let until_wrap = self
            .pmu()
            .capabilities()
            .limit_period(self.eventsel(), until_wrap);
        self.set_start(until_wrap);
        NextStart {
            value: period::start_value(until_wrap, self.width()),
            ended,
        }
    }

    /// The event's counter is to count from `until_wrap` events before the wrap, at most half of its
    /// range. `prev_count` is that value, sign-extended: the page that user mode may have mapped shows
    /// it, and user mode adds the counter, sign-extended.
    #[inline(always)]
    fn set_start(self, until_wrap: u64) {
        self.prev_count().set(until_wrap.wrapping_neg());
    }

    /// Begins or goes on with the event's period. Returns the number of events after which the counter
    /// is to wrap, and the period that has ended, if one has.
    #[inline(always)]
    fn next_period(self) -> (u64, Option<u64>) {
        let next = self.period();
        let max_period = self.pmu().driver().max_period;
        let rearm = period::rearm(self.period_left().get() as i64, next, max_period);
        let ended = rearm.period_ended.then(|| {
            let ended = self.last_period();
            self.set_last_period(next);
            ended
        });
        self.period_left().set(rearm.period_left as u64);
        (rearm.until_wrap, ended)
    }

    /// Programs the counter, which is not counting, for the event, from `value` on.
    #[inline(always)]
    fn program_from(self, value: u64) {
        let (eventsel, takes_pair) = self.prepare();
        self.pmu()
            .counters()
            .program(self.counter(), eventsel, takes_pair, value);
    }

    /// Programs what the counter, which is not counting, counts for the event. Its value stays.
    pub(super) fn program_eventsel(self) {
        let (eventsel, _) = self.prepare();
        self.pmu()
            .counters()
            .program_control(self.counter(), eventsel);
    }

    /// Programs the extra register of the event, if it needs one. Returns the EVENTSEL for its counter,
    /// and whether it takes a pair.
    #[inline(always)]
    fn prepare(self) -> (EventSel, bool) {
        let eventsel = self.eventsel_here();
        let eventsel = match self.extra() {
            None => eventsel,
            Some(extra) => self.pmu().program_extra(extra, eventsel),
        };
        (eventsel, self.needs().pair())
    }

    /// The EVENTSEL of the event on this CPU, where SVM may be enabled or not.
    #[inline(always)]
    fn eventsel_here(self) -> EventSel {
        // Slots without metrics are an ordinary count, which user mode must not clear.
        let eventsel = self.eventsel().with(EventSel::METRICS_CLEAR, 0);
        if self.pmu().capabilities().svm && !self.pmu().state().svm.get() {
            eventsel.without_svm()
        } else {
            eventsel
        }
    }
}

impl CpuPmu<'_> {
    /// Programs an extra register for `eventsel`. Returns the EVENTSEL that goes with it.
    #[inline(never)]
    fn program_extra(self, extra: Extra, eventsel: EventSel) -> EventSel {
        self.counters().program_extra(extra);
        self.capabilities().event_in(eventsel, extra.register)
    }
}
