// SPDX-License-Identifier: GPL-2.0

//! Top-down analysis: metrics, and the slots that they are fractions of.
//!
//! Fixed counter 3 counts slots, and PERF_METRICS has the part of them that was used in
//! each way, in 255ths. So the events of metrics need the event of slots as their leader.
//! All of them are *settled* together: both registers are read while they are stopped,
//! and what has been counted since they were settled last is added to the events.
//! Slots without metrics are an ordinary event.
//!
//! The part of a long time, in eight bits, says little about what was added to it last. So
//! both registers begin at 0 again whenever the events are settled.
//!
//! If the leader is mapped for RDPMC, they do so only when the events are read. A context
//! switch saves and restores them, so that user mode can subtract what it has read before.
//! Each time, a metric may lose up to a 255th of the slots that are saved.
//!
//! If the leader asks for `metrics_clear`, RDPMC of PERF_METRICS clears both registers, so that
//! user mode need not subtract. What it has read then is not counted here.
//!
//! # An event's words
//!
//! [`Event::scratch`] is, for the leader, the number of times that it has been settled,
//! which is not 0 if it has metrics, and the saved PERF_METRICS. The saved slots are in
//! `prev_count`. A metric's first word is the leader's number when both were settled
//! together; if it is another, the metric missed something, and begins anew. Its
//! `prev_count` is the part of the saved slots that it has counted already.
//!
//! # NMIs
//!
//! Settling takes several steps, so an NMI that arrives meanwhile does not settle: the
//! counters are stopped, and some counts of the group in its samples may be from before.
//! Nothing here allocates, locks, sleeps, prints or panics, except for `check_topdown` and
//! `join_slots`, which run when an event is opened.

use super::{
    CorePmu,
    Cpu, //
};
use crate::{
    perf::{
        Attr,
        CpuEvent,
        Event,
        NewEvent,
        OnCpu,
        Selector, //
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
use kernel::prelude::*;

/// The number of a leader that has not been started since its first metric was opened.
const NEVER_STARTED: u64 = 1;

impl CorePmu {
    /// Checks an event that asks for slots or a metric. Task context.
    pub(super) fn check_topdown(&self, event: &NewEvent<'_, Self>, selector: Selector) -> Result {
        let capabilities = &self.hardware.capabilities;
        let Selector::Config(config) = selector else {
            return Ok(());
        };
        let config = EventSel::from_raw(config);
        let is_metric = capabilities.is_metric(config);
        if capabilities.metrics.is_empty() || !(is_metric || config.is_slots()) {
            return Ok(());
        }
        if config.has_modifiers() {
            return Err(EINVAL);
        }
        // Both registers begin at 0, so neither event can take samples.
        let has_leader =
            |leader: &Event<Self>| Self::eventsel_of(leader).is_slots() && !leader.is_sampling();
        if is_metric && (event.is_sampling() || !event.leader().is_some_and(has_leader)) {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Whether an event is slots, and RDPMC of its metrics is to clear them. Task context.
    pub(super) fn wants_metrics_clear(&self, attr: &Attr, selector: Selector) -> bool {
        let is_slots = match selector {
            Selector::Config(config) => EventSel::from_raw(config).is_slots(),
            Selector::Hardware(_) | Selector::HwCache(_) => false,
        };
        let [config1, ..] = attr.extended_config();
        is_slots && config1 == 1 && self.hardware.capabilities.has_metrics_clear()
    }

    /// Binds a metric, whose EVENTSEL this is, to its leader, of which it is a part. Fails with
    /// `EINVAL` if the two count in different modes: there is one counter. Task context.
    pub(super) fn join_slots(&self, event: &NewEvent<'_, Self>, eventsel: EventSel) -> Result {
        if !self.hardware.capabilities.is_metric(eventsel) {
            return Ok(());
        }
        let leader = event.leader().ok_or(EINVAL)?;
        if !Self::eventsel_of(leader).has_modes_of(eventsel) {
            return Err(EINVAL);
        }
        event.require_leader();
        let [number, _] = leader.scratch();
        // It may have other metrics already.
        let _ = number.compare_exchange(0, NEVER_STARTED, Relaxed, Relaxed);
        Ok(())
    }

    /// Starts an event if it is a metric or has metrics. Returns whether it is such an event.
    pub(super) fn start_topdown(
        &self,
        on: OnCpu<'_, Self>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) -> bool {
        let cpu = on.state();
        if counter == Counter::SLOTS {
            let [number, _] = event.scratch();
            let number = number.load(Relaxed);
            if number == NEVER_STARTED && !event.is_up_to_date() {
                // It was stopped as an ordinary event: the counter has the rest of its count.
                cpu.leads_metrics.set(false);
                self.update(on, counter, event);
                event.set_up_to_date();
            }
            let leads = number != 0;
            cpu.leads_metrics.set(leads);
            if !leads {
                return false;
            }
            self.while_stopped(cpu, || {
                self.program_topdown(on, counter, event);
                event.set_running();
                cpu.activate(counter);
            });
            event.update_userpage();
            return true;
        }
        if counter.as_metric().is_none() {
            return false;
        }
        self.while_stopped(cpu, || {
            self.convert_leader(on);
            self.settle(on, Registers::Clear);
            self.program_topdown(on, counter, event);
            event.set_running();
            cpu.activate(counter);
        });
        event.update_userpage();
        true
    }

    /// Stops an event for which [`Cpu::is_topdown`].
    #[inline(never)]
    pub(super) fn stop_topdown(
        &self,
        on: OnCpu<'_, Self>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) {
        let cpu = on.state();
        let stopping = self.begin_stopping(cpu);
        let has_wrapped = self.while_stopped(cpu, || {
            let registers = match counter {
                Counter::SLOTS if event.is_user_readable() => Registers::Save,
                _ => Registers::Clear,
            };
            let has_wrapped = self.settle(on, registers);
            cpu.deactivate(counter);
            event.set_stopped_up_to_date();
            has_wrapped
        });
        self.end_stopping(cpu, stopping, has_wrapped);
        event.update_userpage();
    }

    /// Programs the registers for the leader, or prepares a metric to count with them. Neither
    /// register is running.
    #[inline(never)]
    pub(super) fn program_topdown(
        &self,
        on: OnCpu<'_, Self>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) {
        let cpu = on.state();
        event.set_user_index(Self::rdpmc_index(&event, counter));
        let [number, fields] = event.scratch();
        if counter == Counter::SLOTS {
            let both = CounterSet::of(counter) | CounterSet::of(Counter::PERF_METRICS);
            cpu.dirty.and(!both.bits());
            if number.load(Relaxed) == NEVER_STARTED {
                // Up to now it was an ordinary event.
                event.prev_count().set(0);
                number.store(NEVER_STARTED.wrapping_add(1), Relaxed);
            }
            let values = self.saved(&event, fields.load(Relaxed));
            self.counters(cpu)
                .program_metrics(Self::eventsel_of(&event), values);
            return;
        }
        let Some(leader) = self.leader(&on) else {
            return;
        };
        let [of_leader, fields] = leader.scratch();
        let of_leader = of_leader.load(Relaxed);
        let settled = number.load(Relaxed) == of_leader;
        number.store(of_leader, Relaxed);
        if !settled {
            let counted = self.saved(&leader, fields.load(Relaxed)).of(counter);
            event.prev_count().set(counted);
        }
    }

    /// Adds to the metrics of this CPU, and to their slots, what has been counted since this
    /// was last done. Returns whether fixed counter 3 has wrapped. No counter is running.
    pub(super) fn settle(&self, on: OnCpu<'_, Self>, registers: Registers) -> bool {
        let cpu = on.state();
        // Look before `settling` is set: an NMI that stops these events afterwards relies on it
        // that they are settled here.
        let leader = self.leader(&on).filter(|leader| !leader.is_up_to_date());
        let running = cpu.active().metrics_part();
        let Some(leader) = leader else {
            return false;
        };
        if cpu.settling.swap(true) {
            // The interrupted code does it.
            return false;
        }
        let wrapped = self.settle_with(on, leader, running, registers);
        cpu.settling.set(false);
        wrapped
    }

    fn settle_with(
        &self,
        on: OnCpu<'_, Self>,
        leader: CpuEvent<'_, Self>,
        running: CounterSet,
        registers: Registers,
    ) -> bool {
        let (cpu, capabilities) = (on.state(), &self.hardware.capabilities);
        let counters = self.counters(cpu);
        let [number, saved_fields] = leader.scratch();
        let before = self.saved(&leader, 0).slots;
        if counters.known(Counter::SLOTS) == Some(before) {
            return false;
        }
        let now = counters.read(Counter::SLOTS);
        // User mode may have cleared both. What it has read is lost.
        let cleared = now < before && Self::eventsel_of(&leader).has(EventSel::METRICS_CLEAR);
        let before = if cleared { 0 } else { before };
        let gained = period::delta(before, now, capabilities.width(Counter::SLOTS));
        if gained == 0 && !cleared {
            return false;
        }
        leader.count().add(gained);

        let fields = match running.is_empty() {
            true => 0,
            false => counters.read_fields(),
        };
        let slots = before.saturating_add(gained);
        let values = Metrics { slots, fields };
        // If no metric was running, PERF_METRICS does not know of the last slots. Long before
        // the counter wraps, both must begin again.
        let clear = matches!(registers, Registers::Clear)
            || running.is_empty()
            || slots > capabilities.max_period();
        let now_settled = number.load(Relaxed).wrapping_add(1);
        number.store(now_settled, Relaxed);
        for counter in running {
            let Some(event) = on.event(counter.index()) else {
                continue;
            };
            let [number, _] = event.scratch();
            number.store(now_settled, Relaxed);
            // A part that was rounded up before may be less now.
            let counted = if cleared {
                0
            } else {
                event.prev_count().get() as i64
            };
            let value = (values.of(counter) as i64).max(counted);
            event.count().add(value.wrapping_sub(counted) as u64);
            let kept = if clear { 0 } else { value };
            event.prev_count().set(kept as u64);
        }
        if clear {
            counters.set_metrics(Metrics::default());
            leader.prev_count().set(0);
            saved_fields.store(0, Relaxed);
            // User mode must not add up the old offsets and the new registers.
            leader.update_userpage();
            for counter in running {
                if let Some(event) = on.event(counter.index()) {
                    event.update_userpage();
                }
            }
        } else {
            leader.prev_count().set(self.extended(now) as u64);
            saved_fields.store(fields, Relaxed);
        }
        now < before
    }

    /// If the leader was started before it had metrics, starts it again.
    fn convert_leader(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        if cpu.leads_metrics.get() || !cpu.active().contains(Counter::SLOTS) {
            return;
        }
        if let Some(leader) = on.event(Counter::SLOTS.index()) {
            self.stop_event(on, leader, true);
            self.start_event(on, leader);
        }
    }

    /// Calls `f` while no counter of this CPU is running.
    pub(super) fn while_stopped<R>(&self, cpu: &Cpu, f: impl FnOnce() -> R) -> R {
        let enabled = cpu.enabled.swap(false);
        self.stop_if_disabled(cpu);
        let result = f();
        cpu.enabled.set(enabled);
        self.run_active(cpu);
        result
    }

    /// This CPU's event of slots, if it has metrics.
    pub(super) fn leader<'a>(&self, on: &'a OnCpu<'_, Self>) -> Option<CpuEvent<'a, Self>> {
        let leads = on.state().leads_metrics.get();
        on.event(Counter::SLOTS.index()).filter(|_| leads)
    }

    /// What is saved of a leader, whose PERF_METRICS was `fields`.
    fn saved(&self, leader: &Event<Self>, fields: u64) -> Metrics {
        let width = self.hardware.capabilities.width(Counter::SLOTS);
        let slots = leader.prev_count().get() & period::mask(width);
        Metrics { slots, fields }
    }

    /// The value of fixed counter 3 as the mapped page and user mode extend it.
    pub(super) fn extended(&self, slots: u64) -> i64 {
        period::sign_extend(slots, self.hardware.capabilities.width(Counter::SLOTS))
    }
}

/// What becomes of fixed counter 3 and PERF_METRICS when the events are settled.
#[derive(Clone, Copy)]
pub(super) enum Registers {
    /// They are cleared.
    Clear,
    /// The leader keeps what they hold, to go on from there.
    Save,
}

impl Cpu {
    /// The registers that hold what the event on `counter` has counted, both of a pair.
    /// PERF_METRICS is the leader's.
    pub(super) fn registers_of(&self, counter: Counter) -> CounterSet {
        let registers = self.shadow.with_merged(CounterSet::of(counter));
        match self.is_topdown(counter) {
            true if counter == Counter::SLOTS => registers | CounterSet::of(Counter::PERF_METRICS),
            true => CounterSet::EMPTY,
            false => registers,
        }
    }

    /// Whether the event on a counter is a metric or has metrics.
    pub(super) fn is_topdown(&self, counter: Counter) -> bool {
        counter.as_metric().is_some() || (counter == Counter::SLOTS && self.leads_metrics.get())
    }
}
