// SPDX-License-Identifier: GPL-2.0

//! Which counter an event is on.
//!
//! Everything here runs with interrupts disabled, the PMU disabled, and perf's
//! context lock held.

use super::{
    CorePmu,
    Cpu, //
};
use crate::{
    perf::{
        AddedEvent,
        CpuEvent,
        OnCpu, //
    },
    pmc::{
        assign::{
            Assignment,
            Needs, //
        },
        counter::{
            Counter,
            CounterSet, //
        },
        Extra,
        ExtraInUse, //
    },
    system::time::jiffies, //
};

/// What the events on a CPU have.
#[derive(Default)]
pub(crate) struct Schedule {
    counters: Assignment,
    /// Not used if the threads of a core share these registers.
    extra: ExtraInUse,
}

impl CorePmu {
    /// Puts an event on a counter, stopped, and gives it the extra register that it needs. Returns the
    /// counter, or `None` if there is none.
    #[inline(always)]
    pub(super) fn place(
        &self,
        on: OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: AddedEvent<'_, Self>,
    ) -> Option<Counter> {
        if !self.take_over(on) {
            return None;
        }
        self.stop_if_disabled(on.state());
        let counter = self.find_place(on, schedule, event);
        if counter.is_none() {
            self.give_back_if_offline(on);
        }
        counter
    }

    /// The same on a CPU whose counters are ours.
    #[inline(always)]
    fn find_place(
        &self,
        on: OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: AddedEvent<'_, Self>,
    ) -> Option<Counter> {
        match Self::extra_of(&event) {
            None => {
                let needs = Needs::from_word(event.constant());
                self.place_on_counter(on, &mut schedule.counters, event, needs)
            }
            Some(needed) => self.place_with_extra(on, schedule, event, needed),
        }
    }

    #[inline(never)]
    fn place_with_extra(
        &self,
        on: OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: AddedEvent<'_, Self>,
        needed: Extra,
    ) -> Option<Counter> {
        let Schedule { counters, extra } = schedule;
        if !self.take_extra(on, extra, event, needed) {
            return None;
        }
        // The code that stands for the register may need another counter.
        let capabilities = &self.hardware.capabilities;
        let register = Self::extra_of(&event).map_or(needed.register, |extra| extra.register);
        let eventsel = capabilities.event_in(Self::eventsel_of(&event), register);
        let counter = self.place_on_counter(on, counters, event, capabilities.needs(eventsel));
        if counter.is_none() {
            self.release_extra(on, extra, &event);
        }
        counter
    }

    #[inline(always)]
    fn place_on_counter(
        &self,
        on: OnCpu<'_, Self>,
        assignment: &mut Assignment,
        event: AddedEvent<'_, Self>,
        needs: Needs,
    ) -> Option<Counter> {
        let counter = self.assign(on, assignment, event, needs)?;
        event.set_stopped_up_to_date();
        if event.insert(counter.index()).is_err() {
            // The table disagrees with the assignment.
            self.unassign(on, assignment, counter);
            return None;
        }
        on.state().placed.set(assignment.used().bits());
        Some(counter)
    }

    /// Takes an event off its counter.
    #[inline(always)]
    pub(super) fn displace(
        &self,
        on: OnCpu<'_, Self>,
        schedule: &mut Schedule,
        event: CpuEvent<'_, Self>,
    ) {
        let Some(counter) = Self::counter_of(&event) else {
            return;
        };
        let cpu = on.state();
        self.stop_on(on, counter, event, true);
        if cpu.shadow.has_merged() || CounterSet::TOPDOWN.contains(counter) {
            self.leave_several(cpu, counter);
        } else {
            cpu.leave(counter, CounterSet::of(counter));
        }
        let assignment = &mut schedule.counters;
        if self.hardware.capabilities.any_exclusive() {
            self.leave_siblings(on, assignment, event, counter);
        } else {
            assignment.remove(counter);
        }
        if event.extra_register().is_some() {
            self.release_extra(on, &mut schedule.extra, &event);
        }
        cpu.placed.set(assignment.used().bits());
        if assignment.used().is_empty() {
            cpu.empty_since.set(jiffies() as u64);
            self.give_back_if_offline(on);
        }
    }

    /// An event has left `counter`, and perhaps other registers with it: those of a pair or of metrics.
    #[inline(never)]
    fn leave_several(&self, cpu: &Cpu, counter: Counter) {
        cpu.leave(counter, cpu.registers_of(counter));
        self.counters(cpu).unmerge(counter);
        if counter == Counter::SLOTS {
            cpu.leads_metrics.set(false);
        }
    }

    /// Finds a counter for an event, and moves other events to make room for it. The other threads of
    /// the core keep clear of it from now on, if they must.
    ///
    /// The PMU is disabled, so none of this CPU's counters runs while its events move.
    #[inline(always)]
    fn assign(
        &self,
        on: OnCpu<'_, Self>,
        assignment: &mut Assignment,
        added: AddedEvent<'_, Self>,
        needs: Needs,
    ) -> Option<Counter> {
        if !self.hardware.capabilities.any_exclusive() {
            if let Some(counter) = assignment.place_free(needs) {
                return Some(counter);
            }
            // perf adds events until one does not fit, in each switch.
            if !assignment.may_make_room(needs) {
                return None;
            }
        }
        self.assign_with_moves(on, assignment, added, needs)
    }

    #[inline(never)]
    fn assign_with_moves(
        &self,
        on: OnCpu<'_, Self>,
        assignment: &mut Assignment,
        added: AddedEvent<'_, Self>,
        needs: Needs,
    ) -> Option<Counter> {
        let placement = match self.siblings(on) {
            Some(siblings) => siblings.with(on.irqs_disabled(), |siblings| {
                let alone = self.hardware.cpu.is_alone(on.irqs_disabled());
                siblings.place(assignment, &self.hardware.capabilities, needs, alone)
            }),
            None => assignment.place_event(needs),
        }?;
        for (from, to) in placement.moves() {
            self.make_room(on, added, from, to);
        }
        Some(placement.counter)
    }

    /// If an event disturbs other threads, takes it out of the EVENTSEL of the counter that it
    /// leaves: the errata do not say that GLOBAL_CTRL keeps a stopped event from doing so.
    fn deprogram_exclusive(&self, on: OnCpu<'_, Self>, event: CpuEvent<'_, Self>, from: Counter) {
        let capabilities = &self.hardware.capabilities;
        if capabilities.is_exclusive(Self::eventsel_of(&event)) {
            self.counters(on.state()).deprogram(from);
        }
    }

    /// An event has left `counter`, where events may disturb other threads. These may have the counter
    /// once it is unassigned.
    #[inline(never)]
    fn leave_siblings(
        &self,
        on: OnCpu<'_, Self>,
        assignment: &mut Assignment,
        event: CpuEvent<'_, Self>,
        counter: Counter,
    ) {
        self.deprogram_exclusive(on, event, counter);
        self.unassign(on, assignment, counter);
    }

    /// Undoes [`Self::assign`]. The event has been stopped.
    #[inline(never)]
    fn unassign(&self, on: OnCpu<'_, Self>, assignment: &mut Assignment, counter: Counter) {
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
        on: OnCpu<'_, Self>,
        added: AddedEvent<'_, Self>,
        from: Counter,
        to: Counter,
    ) {
        let Some(event) = on.event(from.index()) else {
            return;
        };
        let was_stopped = event.is_stopped();
        self.stop_event(on, event, true);
        let cpu = on.state();
        cpu.leave(from, cpu.registers_of(from));
        self.deprogram_exclusive(on, event, from);
        added.move_other(from.index(), to.index());
        if !was_stopped {
            self.start_event(on, event);
        }
    }
}
