// SPDX-License-Identifier: GPL-2.0

//! Which counters count, and what, given the values of the registers.

use super::Pmu;
use crate::{
    config::RefCycles,
    event::{Event, Filter, FilteredEvent, Mode, Totals},
    msr::EventSel,
    pair,
    processor::Processor,
    shape::Counter,
    smt::Counting,
};

/// A counter that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) counter: Counter,
    pub(super) event: FilteredEvent,
    /// Whether it counts in each [`Mode`]. It counts in at least one.
    pub(super) modes: [bool; 2],
    /// Whether an overflow requests a PMI.
    pub(super) pmi: bool,
    /// Whether it is merged with the next counter.
    pub(super) merged: bool,
}

impl Active {
    /// What the counter gains between two totals.
    pub(super) fn gain(&self, before: &[Totals; 2], after: &[Totals; 2]) -> u128 {
        let modes = Mode::ALL.into_iter().map(|mode| mode as usize);
        let counted = modes.filter(|&mode| self.modes[mode]);
        counted
            .map(|mode| self.event.between(before[mode], after[mode]))
            .sum()
    }
}

impl Pmu {
    /// Restores the invariant of `active` after a register was changed.
    pub(super) fn update_active(&mut self) {
        self.take_shared();
        let counting = self.find_active();
        if let Some((core, thread)) = &self.smt {
            core.set_counting(*thread, counting);
        }
    }

    /// Fills `active`. Returns the general-purpose counters that count, be it an event that is
    /// not modelled.
    pub(super) fn find_active(&mut self) -> Counting {
        let mut counting = Counting::default();
        self.active.clear();
        if self.state.global_status.counters_are_frozen() {
            return counting;
        }
        let enabled = |counter| self.state.global_ctrl.enables(counter);
        for (i, &eventsel) in self.state.eventsel.iter().enumerate() {
            let counter = Counter::General(i);
            let modes = eventsel.modes();
            if !eventsel.has(EventSel::EN) || !enabled(counter) || modes == [false; 2] {
                continue;
            }
            if !self.generation.counts(eventsel, self.state.svm) {
                continue;
            }
            counting.all |= counter.bit();
            if self.processor.is_some_and(|it| it.disturbs(eventsel)) {
                counting.disturbing |= counter.bit();
            }
            let event = if self.needs_clearing() && self.state.selection.is_wrong(i) {
                Some(FilteredEvent::Occurrences(Event::Cycles))
            } else {
                self.selected_event(i, eventsel)
                    .and_then(|event| FilteredEvent::new(self.timed(event), Filter::from(eventsel)))
            };
            if let Some(event) = event {
                self.active.push(Active {
                    counter,
                    event,
                    modes,
                    pmi: eventsel.has(EventSel::INT),
                    merged: self.is_merged(i),
                });
            }
        }
        for i in 0..self.shape.fixed.into() {
            let counter = Counter::Fixed(i);
            let ctrl = self.state.fixed_ctr_ctrl.counter(i);
            let modes = ctrl.modes();
            if !enabled(counter) || modes == [false; 2] {
                continue;
            }
            if let Some(event) = self.generation.fixed_event(i) {
                self.active.push(Active {
                    counter,
                    event: FilteredEvent::Occurrences(self.timed(event)),
                    modes,
                    pmi: ctrl.pmi(),
                    merged: false,
                });
            }
        }
        counting
    }

    /// The event that a general-purpose counter counts with this EVENTSEL, `None` if it counts
    /// nothing.
    fn selected_event(&self, counter: usize, eventsel: EventSel) -> Option<Event> {
        // AMD's are in the second unit mask of Intel's version 6, and Intel's is a bit of AMD's events.
        let event = eventsel.without(match self.config.vendor.is_amd() {
            true => EventSel::GUEST_ONLY | EventSel::HOST_ONLY,
            false => EventSel::LBR_LOG,
        });
        let of_model = self
            .processor
            .and_then(|it| it.listed(event))
            .or_else(|| self.responses(event))
            .or_else(|| self.generation.event(eventsel));
        match self.processor.and_then(|it| it.constraint(event)) {
            Some(counters) if !counters.contains(counter) => None,
            // What such an event really counts is not modelled.
            Some(_) => of_model.or(Some(Event::Instructions)),
            None if self.config.has_pairs() && pair::is_flops(eventsel) => {
                Some(pair::flops(eventsel, self.is_merged(counter)))
            }
            None => of_model,
        }
    }

    /// Whether counters must be cleared before they count a new event. Without GLOBAL_CTRL they
    /// cannot be.
    fn needs_clearing(&self) -> bool {
        self.config.version > 1 && self.processor.is_some_and(Processor::needs_clearing)
    }

    /// The event, if a register describes it.
    fn responses(&self, eventsel: EventSel) -> Option<Event> {
        let index = self.processor?.msr_of(eventsel)?;
        let value = self.state.model_msrs[index];
        Some(self.processor?.msr(index).responses(value))
    }

    /// An event as the configuration has it: reference cycles may be those of the TSC.
    fn timed(&self, event: Event) -> Event {
        match (event, self.config.ref_cycles) {
            (Event::RefCycles, RefCycles::Tsc) => Event::Tsc,
            _ => event,
        }
    }

    /// Whether a general-purpose counter and the next one are programmed to be one of 64 bits.
    pub(super) fn is_pair(&self, first: usize) -> bool {
        let second = self.state.eventsel.get(first + 1);
        let exists = self.config.has_pairs() && first % 2 == 0 && self.shape.has_general(first + 1);
        exists && second.is_some_and(|&eventsel| pair::is_merge(eventsel))
    }

    /// Whether a general-purpose counter and the next one count as one.
    fn is_merged(&self, first: usize) -> bool {
        self.is_pair(first) && self.state.global_ctrl.enables(Counter::General(first + 1))
    }
}
