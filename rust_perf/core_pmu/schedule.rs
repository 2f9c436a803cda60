// SPDX-License-Identifier: GPL-2.0

//! Which counter an event is on.
//!
//! Everything here runs with interrupts disabled, the PMU disabled, and perf's
//! context lock held.

use super::CorePmu;
use crate::{
    perf::{
        AddedEvent,
        CpuEvent,
        OnCpu, //
    },
    pmc::{
        assign::{
            Assignment,
            Placement, //
        },
        counter::Counter,
        event::EventSel,
        ExtraInUse, //
    }, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::prelude::*;

/// What the events on a CPU have.
#[derive(Default)]
pub(crate) struct Schedule {
    counters: Assignment,
    /// Not used if the threads of a core share these registers.
    extra: ExtraInUse,
}

impl CorePmu {
    /// Puts an event on a counter, stopped, and gives it the extra register that it needs.
    /// Fails with `EAGAIN` if there is none.
    pub(super) fn place(
        &self,
        on: &OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: &AddedEvent<'_, Self>,
    ) -> Result {
        self.take_over(on)?;
        self.find_place(on, schedule, event)
            .inspect_err(|_| self.give_back_if_offline(on))
    }

    /// The same on a CPU whose counters are ours.
    fn find_place(
        &self,
        on: &OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: &AddedEvent<'_, Self>,
    ) -> Result {
        let Schedule { counters, extra } = schedule;
        let Some(needed) = Self::extra_of(event) else {
            return self.place_on_counter(on, counters, event);
        };
        self.take_extra(on, extra, event, needed)?;
        self.place_on_counter(on, counters, event)
            .inspect_err(|_| self.release_extra(on, extra, event))
    }

    fn place_on_counter(
        &self,
        on: &OnCpu<'_, Self>,
        assignment: &mut Assignment,
        event: &AddedEvent<'_, Self>,
    ) -> Result {
        let cpu = on.state();
        let mut eventsel = Self::eventsel_of(event);
        if let Some(extra) = Self::extra_of(event) {
            // The code that stands for the register may need another counter.
            eventsel = self
                .hardware
                .capabilities
                .event_in(eventsel, extra.register);
        }
        let placement = self.assign(on, assignment, eventsel).ok_or(EAGAIN)?;
        for (from, to) in placement.moves() {
            self.make_room(on, event, from, to);
        }
        event.set_stopped();
        event.set_up_to_date();
        event
            .insert(placement.counter.index())
            .inspect_err(|_| self.unassign(on, assignment, placement.counter))?;
        cpu.placed.store(assignment.used().bits(), Relaxed);
        Ok(())
    }

    /// Takes an event off its counter.
    pub(super) fn displace(
        &self,
        on: &OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: CpuEvent<'_, Self>,
    ) {
        let Some(counter) = Self::counter_of(&event) else {
            return;
        };
        let cpu = on.state();
        self.stop_event(on, event, true);
        cpu.mark_dirty(counter);
        self.counters(cpu).unmerge(counter);
        self.deprogram_exclusive(on, event, counter);
        if counter == Counter::SLOTS {
            cpu.leads_metrics.store(false, Relaxed);
        }
        self.release_extra(on, &mut schedule.extra, &event);
        let assignment = &mut schedule.counters;
        self.unassign(on, assignment, counter);
        cpu.placed.store(assignment.used().bits(), Relaxed);
        if assignment.used().is_empty() {
            self.last_event_left(on);
        }
    }

    /// Finds a counter for an event. The other threads of the core keep clear of it from now on,
    /// if they must.
    ///
    /// The PMU is disabled, so none of this CPU's counters runs while its events move.
    fn assign(
        &self,
        on: &OnCpu<'_, Self>,
        assignment: &mut Assignment,
        eventsel: EventSel,
    ) -> Option<Placement> {
        let capabilities = &self.hardware.capabilities;
        match self.siblings(on) {
            Some(siblings) => siblings.with(on.irqs_disabled(), |siblings| {
                let alone = self.hardware.cpu.is_alone(on.irqs_disabled());
                siblings.place(assignment, capabilities, eventsel, alone)
            }),
            None => capabilities.place(assignment, eventsel),
        }
    }

    /// If an event disturbs other threads, takes it out of the EVENTSEL of the counter that it
    /// leaves: the errata do not say that GLOBAL_CTRL keeps a stopped event from doing so.
    fn deprogram_exclusive(&self, on: &OnCpu<'_, Self>, event: CpuEvent<'_, Self>, from: Counter) {
        let capabilities = &self.hardware.capabilities;
        if capabilities.is_exclusive(Self::eventsel_of(&event)) {
            self.counters(on.state()).deprogram(from);
        }
    }

    /// Undoes [`Self::assign`]. The event has been stopped.
    fn unassign(&self, on: &OnCpu<'_, Self>, assignment: &mut Assignment, counter: Counter) {
        match self.siblings(on) {
            Some(siblings) => siblings.with(on.irqs_disabled(), |siblings| {
                siblings.remove(assignment, counter)
            }),
            None => assignment.remove(counter),
        }
    }

    /// Moves an event of this CPU to another counter, which is free, to make room for
    /// `added`. An event that has a pair of counters is never moved.
    fn make_room(
        &self,
        on: &OnCpu<'_, Self>,
        added: &AddedEvent<'_, Self>,
        from: Counter,
        to: Counter,
    ) {
        let Some(event) = on.event(from.index()) else {
            return;
        };
        let was_stopped = event.is_stopped();
        self.stop_event(on, event, true);
        on.state().mark_dirty(from);
        self.deprogram_exclusive(on, event, from);
        added.move_other(from.index(), to.index());
        if !was_stopped {
            self.start_event(on, event);
        }
    }
}
