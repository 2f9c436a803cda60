// SPDX-License-Identifier: GPL-2.0

//! Settling: adding to metrics, and to their slots, what both registers have counted.
//!
//! Everything here runs on the events' CPU, with interrupts disabled or in an NMI.

use crate::{
    core_pmu::{
        cpu_pmu::CpuPmu,
        event::CoreEvent,
        placed::PlacedEvent, //
    },
    pmc::{
        counter::{
            Counter,
            CounterSet, //
        },
        event::EventSel,
        metrics::Metrics,
        period, //
    }, //
};
use core::sync::atomic::Ordering::Relaxed;

/// What becomes of fixed counter 3 and PERF_METRICS when the events have been settled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::core_pmu) enum AfterSettling {
    /// They are cleared.
    Clear,
    /// The leader keeps what they hold, to go on from there.
    Save,
}

/// What both registers hold when they are settled, and what follows from it.
struct Settled {
    values: Metrics,
    /// Whether user mode has cleared both registers since they were settled last. What it has read
    /// then is not counted.
    user_cleared: bool,
    /// Whether the registers begin at 0 again.
    clear: bool,
    /// The number of times that the leader has been settled.
    number: u64,
}

impl<'a> CpuPmu<'a> {
    /// Updates the counts of this CPU's metrics and of their slots.
    #[inline(never)]
    pub(in crate::core_pmu) fn read_topdown(self) {
        if self.state().topdown.group_read.take_settled() {
            return;
        }
        let Some(leader) = self.leader() else {
            return;
        };
        // Outside a transaction perf may read one event after the other, too. What the first one
        // has settled is right for the others if the counter has not moved since, as in user mode
        // alone.
        let settled = leader.prev_count().get() as i64;
        let slots = self.counters().read(Counter::SLOTS);
        if leader.is_up_to_date() || leader.extended(slots) == settled {
            return;
        }
        self.while_stopped(|| self.settle(AfterSettling::Clear));
    }

    /// Adds to the metrics of this CPU, and to their slots, what has been counted since this
    /// was last done. Returns whether fixed counter 3 has wrapped. No counter is running.
    pub(in crate::core_pmu) fn settle(self, after: AfterSettling) -> bool {
        let cpu = self.state();
        // Look before `settling` is set: an NMI that stops these events afterwards relies on it
        // that they are settled here.
        let leader = self.leader().filter(|leader| !leader.is_up_to_date());
        let metrics = cpu.run.active().metrics_part();
        let Some(leader) = leader else {
            return false;
        };
        if cpu.topdown.settling.swap(true) {
            // The interrupted code does it.
            return false;
        }
        let wrapped = leader.settle_with(metrics, after);
        cpu.topdown.settling.set(false);
        wrapped
    }
}

impl PlacedEvent<'_> {
    /// Settles this leader and `metrics`. Returns whether fixed counter 3 has wrapped.
    fn settle_with(self, metrics: CounterSet, after: AfterSettling) -> bool {
        let (pmu, counters) = (self.pmu(), self.pmu().counters());
        let before = self.saved_metrics(0).slots;
        if counters.known(Counter::SLOTS) == Some(before) {
            return false;
        }
        let now = counters.read(Counter::SLOTS);
        let user_cleared = now < before && self.eventsel().has(EventSel::METRICS_CLEAR);
        let before = if user_cleared { 0 } else { before };
        let gained = period::delta(before, now, self.width());
        if gained == 0 && !user_cleared {
            return false;
        }
        self.count().add(gained);

        let fields = match metrics.is_empty() {
            true => 0,
            false => counters.read_fields(),
        };
        let slots = before.saturating_add(gained);
        let [number, saved_fields] = self.scratch();
        let settled = Settled {
            values: Metrics { slots, fields },
            user_cleared,
            // If no metric was running, PERF_METRICS does not know of the last slots. Long before
            // the counter wraps, both must begin again.
            clear: after == AfterSettling::Clear
                || metrics.is_empty()
                || slots > pmu.capabilities().max_period(),
            number: number.load(Relaxed).wrapping_add(1),
        };
        number.store(settled.number, Relaxed);
        let metrics = || metrics.into_iter().filter_map(|it| pmu.event_on(it));
        for metric in metrics() {
            metric.settle_metric(&settled);
        }
        if settled.clear {
            counters.set_metrics(Metrics::default());
            self.prev_count().set(0);
            saved_fields.store(0, Relaxed);
            // User mode must not add up the old offsets and the new registers.
            self.update_userpage();
            for metric in metrics() {
                metric.update_userpage();
            }
        } else {
            self.prev_count().set(self.extended(now) as u64);
            saved_fields.store(fields, Relaxed);
        }
        now < before
    }

    /// Adds to this metric its part of the slots.
    fn settle_metric(self, settled: &Settled) {
        let [number, _] = self.scratch();
        number.store(settled.number, Relaxed);
        // A part that was rounded up before may be less now.
        let counted = if settled.user_cleared {
            0
        } else {
            self.prev_count().get() as i64
        };
        let value = (settled.values.of(self.counter()) as i64).max(counted);
        self.count().add(value.wrapping_sub(counted) as u64);
        let kept = if settled.clear { 0 } else { value };
        self.prev_count().set(kept as u64);
    }

    /// What is saved of this leader, whose PERF_METRICS was `fields`.
    pub(super) fn saved_metrics(self, fields: u64) -> Metrics {
        let slots = self.prev_count().get() & period::mask(self.width());
        Metrics { slots, fields }
    }

    /// The value `slots` of this leader's counter, as the mapped page and user mode extend it.
    fn extended(self, slots: u64) -> i64 {
        period::sign_extend(slots, self.width())
    }
}
