// SPDX-License-Identifier: GPL-2.0

//! Which counter an event is on.
//!
//! Everything here runs with interrupts disabled, the PMU disabled, and perf's
//! context lock held.

use super::{
    branches::BranchesInUse,
    cpu_pmu::CpuPmu,
    event::CoreEvent,
    placed::PlacedEvent,
    CorePmu, //
};
use crate::{
    perf::{
        AddedEvent,
        Event, //
    },
    pmc::{
        assign::Assignment,
        counter::{
            Counter,
            CounterSet, //
        },
        needs::Needs,
        Extra,
        ExtraInUse, //
    }, //
};

/// What the events on a CPU have.
#[derive(Default)]
pub(crate) struct Schedule {
    counters: Assignment,
    /// Not used if the threads of a core share these registers.
    extra: ExtraInUse,
    branches: BranchesInUse,
}

impl<'a> CpuPmu<'a> {
    /// Puts an event on a counter, stopped, and gives it the other registers that it needs. Returns
    /// `None` if there is no counter, or no register, for it.
    #[inline(always)]
    pub(super) fn put_on_counter(
        self,
        schedule: &mut Schedule,
        event: AddedEvent<'a, CorePmu>,
    ) -> Option<PlacedEvent<'a>> {
        if !self.take_over() {
            return None;
        }
        self.stop_if_disabled();
        let counter = match event.extra_register() {
            None => {
                let needs = event.needs();
                self.assign_and_insert(&mut schedule.counters, event, needs)
            }
            Some(_) => self.put_on_counter_with_registers(schedule, event),
        };
        let Some(counter) = counter else {
            self.give_back_if_offline();
            return None;
        };
        Some(PlacedEvent::new(self, counter, *event))
    }

    /// Puts an event that needs an extra register, or branch records, on a counter.
    #[inline(never)]
    fn put_on_counter_with_registers(
        self,
        schedule: &mut Schedule,
        event: AddedEvent<'a, CorePmu>,
    ) -> Option<Counter> {
        let Schedule {
            counters,
            extra,
            branches,
        } = schedule;
        if !self.take_branches(branches, &event) {
            return None;
        }
        let counter = match event.extra() {
            None => self.assign_and_insert(counters, event, event.needs()),
            Some(needed) => self.put_on_counter_with_extra(counters, extra, event, needed),
        };
        match counter {
            Some(_) => self.begin_logging(*event),
            None => self.release_branches(branches, &event),
        }
        counter
    }

    /// Puts an event that needs an extra register on a counter.
    fn put_on_counter_with_extra(
        self,
        counters: &mut Assignment,
        extra: &mut ExtraInUse,
        event: AddedEvent<'a, CorePmu>,
        needed: Extra,
    ) -> Option<Counter> {
        if !self.take_extra(extra, event, needed) {
            return None;
        }
        // The code that stands for the register may need another counter.
        let capabilities = self.capabilities();
        let register = event
            .extra()
            .map_or(needed.register, |extra| extra.register);
        let eventsel = capabilities.event_in(event.eventsel(), register);
        let counter = self.assign_and_insert(counters, event, capabilities.needs(eventsel));
        if counter.is_none() {
            self.release_extra(extra, &event);
        }
        counter
    }

    /// Assigns a counter to an event, and enters the event in the table of this CPU's events.
    #[inline(always)]
    fn assign_and_insert(
        self,
        assignment: &mut Assignment,
        event: AddedEvent<'a, CorePmu>,
        needs: Needs,
    ) -> Option<Counter> {
        let counter = self.assign(assignment, event, needs)?;
        event.set_stopped_up_to_date();
        if event.insert(counter.index()).is_err() {
            // The table disagrees with the assignment.
            self.unassign(assignment, counter);
            return None;
        }
        self.state().run.set_placed(assignment.used());
        Some(counter)
    }

    /// Finds a counter for an event, and moves other events to make room for it. The other threads of
    /// the core keep clear of it from now on, if they must.
    ///
    /// The PMU is disabled, so none of this CPU's counters runs while its events move.
    #[inline(always)]
    fn assign(
        self,
        assignment: &mut Assignment,
        added: AddedEvent<'a, CorePmu>,
        needs: Needs,
    ) -> Option<Counter> {
        if !self.capabilities().any_exclusive() {
            if let Some(counter) = assignment.place_free(needs) {
                return Some(counter);
            }
            // perf adds events until one does not fit, in each switch.
            if !assignment.may_make_room(needs) {
                return None;
            }
        }
        self.assign_with_moves(assignment, added, needs)
    }

    #[inline(never)]
    fn assign_with_moves(
        self,
        assignment: &mut Assignment,
        added: AddedEvent<'a, CorePmu>,
        needs: Needs,
    ) -> Option<Counter> {
        let placement = match self.siblings() {
            Some(siblings) => siblings.with(self.irqs_disabled(), |siblings| {
                let alone = self.hardware().cpu.is_alone(self.irqs_disabled());
                siblings.place(assignment, self.capabilities(), needs, alone)
            }),
            None => assignment.place_event(needs),
        }?;
        for (from, to) in placement.moves() {
            if let Some(event) = self.event_on(from) {
                event.make_room(added, to);
            }
        }
        Some(placement.counter)
    }

    /// An event leaves the registers that it has besides its counter.
    #[inline(never)]
    fn release_registers(
        self,
        extra: &mut ExtraInUse,
        branches: &mut BranchesInUse,
        event: &Event<CorePmu>,
    ) {
        self.release_extra(extra, event);
        self.release_branches(branches, event);
    }

    /// Undoes [`Self::assign`]. The event has been stopped.
    #[inline(never)]
    fn unassign(self, assignment: &mut Assignment, counter: Counter) {
        match self.siblings() {
            Some(siblings) => siblings.with(self.irqs_disabled(), |siblings| {
                siblings.remove(assignment, counter)
            }),
            None => assignment.remove(counter),
        }
    }
}

impl<'a> PlacedEvent<'a> {
    /// Stops the event, and takes it off its counter.
    #[inline(always)]
    pub(super) fn take_off_counter(self, schedule: &mut Schedule) {
        let (pmu, counter) = (self.pmu(), self.counter());
        let cpu = pmu.state();
        self.stop_inlined(true);
        if cpu.run.has_pairs() || CounterSet::TOPDOWN.contains(counter) {
            self.leave_registers();
        } else {
            cpu.dirty.add(CounterSet::of(counter));
            cpu.run.end_sampling(counter);
        }
        let assignment = &mut schedule.counters;
        if pmu.capabilities().any_exclusive() {
            self.leave_siblings(assignment);
        } else {
            assignment.remove(counter);
        }
        if self.extra_register().is_some() {
            pmu.release_registers(&mut schedule.extra, &mut schedule.branches, &self);
        }
        cpu.run.set_placed(assignment.used());
        if assignment.used().is_empty() {
            cpu.tenure.note_empty();
            pmu.give_back_if_offline();
        }
    }

    /// The event leaves its counter, and perhaps other registers with it: those of a pair or of metrics.
    #[inline(always)]
    fn leave_registers(self) {
        self.out_of_line(|event| {
            let (pmu, counter) = (event.pmu(), event.counter());
            pmu.state().dirty.add(event.registers());
            pmu.state().run.end_sampling(counter);
            pmu.counters().unmerge(counter);
            if counter == Counter::SLOTS {
                pmu.state().topdown.end_leading();
            }
        });
    }

    /// The event leaves its counter, on a CPU where an event may disturb the other threads of the core.
    /// Those threads may use the counter once it is unassigned.
    #[inline(always)]
    fn leave_siblings(self, assignment: &mut Assignment) {
        self.out_of_line(|event| {
            event.deprogram_exclusive();
            event.pmu().unassign(assignment, event.counter());
        });
    }

    /// If the event disturbs other threads, takes it out of the EVENTSEL of the counter that it
    /// leaves: the errata do not say that GLOBAL_CTRL keeps a stopped event from doing so.
    fn deprogram_exclusive(self) {
        if self.pmu().capabilities().is_exclusive(self.eventsel()) {
            self.pmu().counters().deprogram(self.counter());
        }
    }

    /// Moves the event to the counter `to`, which is free, to make room for `added`. An event that has a
    /// pair of counters is never moved.
    fn make_room(self, added: AddedEvent<'a, CorePmu>, to: Counter) {
        let (pmu, from) = (self.pmu(), self.counter());
        let was_stopped = self.is_stopped();
        self.stop(true);
        pmu.state().dirty.add(self.registers());
        pmu.state().run.end_sampling(from);
        self.deprogram_exclusive();
        self.move_logged();
        added.move_other(from.index(), to.index());
        if !was_stopped {
            PlacedEvent::new(pmu, to, *self).start();
        }
    }
}
