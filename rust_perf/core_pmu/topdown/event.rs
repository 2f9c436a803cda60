// SPDX-License-Identifier: GPL-2.0

//! Start and stop of metrics, and of slots that have metrics.
//!
//! Everything here runs on the event's CPU, with interrupts disabled or in an NMI.

use super::{
    attr::NEVER_STARTED,
    AfterSettling, //
};
use crate::{
    core_pmu::{
        cpu_pmu::CpuPmu,
        event::CoreEvent,
        placed::PlacedEvent, //
    },
    pmc::counter::{
        Counter,
        CounterSet, //
    }, //
};
use core::sync::atomic::Ordering::Relaxed;

impl PlacedEvent<'_> {
    /// Whether the event is a metric or has metrics.
    #[inline(always)]
    pub(in crate::core_pmu) fn is_topdown(self) -> bool {
        let counter = self.counter();
        counter.as_metric().is_some()
            || (counter == Counter::SLOTS && self.pmu().state().topdown.leads())
    }

    /// Starts the event if it is a metric or has metrics. Returns whether it is such an event.
    pub(in crate::core_pmu) fn start_topdown(self) -> bool {
        let (pmu, counter) = (self.pmu(), self.counter());
        if counter == Counter::SLOTS {
            if !self.leads_metrics() {
                return false;
            }
            pmu.while_stopped(|| self.start_stopped_topdown());
        } else if counter.as_metric().is_some() {
            pmu.while_stopped(|| {
                pmu.convert_leader();
                pmu.settle(AfterSettling::Clear);
                self.start_stopped_topdown();
            });
        } else {
            return false;
        }
        self.update_userpage();
        true
    }

    /// Whether this event of slots, which is about to be started, has metrics. This CPU's state says so
    /// from now on.
    fn leads_metrics(self) -> bool {
        let topdown = &self.pmu().state().topdown;
        let [number, _] = self.scratch();
        let number = number.load(Relaxed);
        if number == NEVER_STARTED && !self.is_up_to_date() {
            // It was stopped as an ordinary event: the counter has the rest of its count.
            topdown.end_leading();
            self.update();
            self.set_up_to_date();
        }
        if number == 0 {
            topdown.end_leading();
        } else {
            topdown.begin_leading();
        }
        number != 0
    }

    /// Starts the event. No counter is running.
    fn start_stopped_topdown(self) {
        self.program_topdown();
        self.set_running();
        self.pmu().state().run.activate(self.counter());
    }

    /// Stops the event, for which [`Self::is_topdown`].
    #[inline(always)]
    pub(in crate::core_pmu) fn stop_topdown(self) {
        self.out_of_line(|event| {
            let (pmu, counter) = (event.pmu(), event.counter());
            let stopping = pmu.begin_stopping();
            let has_wrapped = pmu.while_stopped(|| {
                let after = match counter {
                    Counter::SLOTS if event.is_user_readable() => AfterSettling::Save,
                    _ => AfterSettling::Clear,
                };
                let has_wrapped = pmu.settle(after);
                pmu.state().run.deactivate(counter);
                event.set_stopped_up_to_date();
                has_wrapped
            });
            pmu.end_stopping(stopping, has_wrapped);
            event.update_userpage();
        });
    }

    /// Programs the registers for the leader, or prepares a metric to count with them. Neither
    /// register is running.
    #[inline(always)]
    pub(in crate::core_pmu) fn program_topdown(self) {
        self.out_of_line(|event| {
            event.set_user_index(event.rdpmc_index());
            if event.counter() == Counter::SLOTS {
                event.program_leader();
            } else {
                event.join_leader();
            }
        });
    }

    /// Programs the registers for the leader.
    fn program_leader(self) {
        let pmu = self.pmu();
        let [number, fields] = self.scratch();
        let both = CounterSet::of(self.counter()) | CounterSet::of(Counter::PERF_METRICS);
        pmu.state().dirty.remove(both);
        if number.load(Relaxed) == NEVER_STARTED {
            // Up to now it was an ordinary event.
            self.prev_count().set(0);
            number.store(NEVER_STARTED.wrapping_add(1), Relaxed);
        }
        let values = self.saved_metrics(fields.load(Relaxed));
        pmu.counters().program_metrics(self.eventsel(), values);
    }

    /// Prepares a metric to count with the leader's registers.
    fn join_leader(self) {
        let Some(leader) = self.pmu().leader() else {
            return;
        };
        let [number, _] = self.scratch();
        let [of_leader, fields] = leader.scratch();
        let of_leader = of_leader.load(Relaxed);
        let is_settled = number.load(Relaxed) == of_leader;
        number.store(of_leader, Relaxed);
        if !is_settled {
            let values = leader.saved_metrics(fields.load(Relaxed));
            self.prev_count().set(values.of(self.counter()));
        }
    }
}

impl<'a> CpuPmu<'a> {
    /// This CPU's event of slots, if it has metrics.
    pub(super) fn leader(self) -> Option<PlacedEvent<'a>> {
        let leads = self.state().topdown.leads();
        self.event_on(Counter::SLOTS).filter(|_| leads)
    }

    /// If the leader was started before it had metrics, starts it again.
    fn convert_leader(self) {
        let cpu = self.state();
        if cpu.topdown.leads() || !cpu.run.active().contains(Counter::SLOTS) {
            return;
        }
        if let Some(leader) = self.event_on(Counter::SLOTS) {
            leader.stop(true);
            leader.start();
        }
    }
}
