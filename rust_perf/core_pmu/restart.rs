// SPDX-License-Identifier: GPL-2.0

//! Changing the registers of counters whose events go on: counters that an erratum requires to be
//! cleared, dirty ones, and the selection of the host or guests.
//!
//! Everything here runs with interrupts disabled. Nothing allocates, locks, sleeps, prints or panics.

use super::cpu_pmu::CpuPmu;
use crate::pmc::{
    counter::CounterSet,
    period, //
};

impl CpuPmu<'_> {
    /// Clears this CPU's GP counters if they would not count right otherwise: an event has been
    /// put on one of them. The PMU is disabled.
    #[inline(always)]
    pub(super) fn clear_selection(self) {
        if self.counters().is_uncleared() && self.state().tenure.is_ours() {
            self.clear_gp_counters();
        }
    }

    #[inline(never)]
    fn clear_gp_counters(self) {
        let counters = self.counters();
        let all = self.capabilities().counters.gp_part();
        self.restart_events(all, |used| counters.clear_selection(used));
    }

    /// Clears the dirty counters. An event that runs on from what one holds begins anew.
    #[inline(never)]
    pub(super) fn clear_dirty(self) {
        let dirty = self.state().dirty.get();
        if dirty.is_empty() {
            return;
        }
        // A metric whose leader has left counts nothing, and has no counter of its own to program.
        let ordinary = dirty & !dirty.metrics_part();
        self.restart_events(ordinary, |_| {
            self.state().dirty.remove_all();
            self.counters().clear(dirty);
        });
    }

    /// SVM has been enabled or disabled on this CPU: selects the host or guests anew for its events. They
    /// go on from what their counters hold. In-tree: `amd_pmu_reload_virt()`.
    pub(super) fn set_svm(self, enabled: bool) {
        let cpu = self.state();
        if cpu.svm.swap(enabled) == enabled || !cpu.tenure.is_ours() {
            return;
        }
        self.while_stopped(|| {
            for counter in cpu.run.active() {
                if let Some(event) = self.event_on(counter) {
                    event.program_eventsel();
                }
            }
        });
    }

    /// Updates the events on `counters`, which are no metrics and have none, has `change` change the
    /// registers of these counters, and programs them again. `change` gets the counters that are to be
    /// programmed again. It must write or forget what they hold, so that no event runs on from that.
    ///
    /// For perf the events go on. An NMI that arrives meanwhile finds that their counters are not
    /// active and their counts up to date, so that it reads no counter. It may stop events for good.
    fn restart_events(self, counters: CounterSet, change: impl FnOnce(CounterSet)) {
        let run = &self.state().run;
        self.while_stopped(|| {
            let counters = run.placed() & counters;
            let mut used = CounterSet::EMPTY;
            for counter in counters {
                let Some(event) = self.event_on(counter) else {
                    continue;
                };
                if event.is_up_to_date() {
                    continue;
                }
                // An event that perf has stopped may have the rest of its count in the counter, too.
                if !event.is_stopped() {
                    used = used | CounterSet::of(counter);
                }
                let stopping = self.begin_stopping();
                run.deactivate(counter);
                let value = event.update();
                event.set_up_to_date();
                self.end_stopping(stopping, period::has_wrapped(value, event.width()));
            }
            change(used);
            for counter in counters {
                let Some(event) = self.event_on(counter) else {
                    continue;
                };
                if used.contains(counter) && !event.is_stopped() {
                    event.program();
                    event.set_not_up_to_date();
                    run.activate(counter);
                }
                if event.is_stopped() {
                    // Perhaps an NMI has just stopped it.
                    run.deactivate(counter);
                    event.set_up_to_date();
                }
                event.update_userpage();
            }
        });
    }
}
