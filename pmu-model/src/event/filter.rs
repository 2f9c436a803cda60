// SPDX-License-Identifier: GPL-2.0

//! EDGE, INV and CMASK, and how soon a counter can overflow.

use super::{Event, Totals, PATTERN_INSTRUCTIONS};
use crate::msr::EventSel;

/// The fields of EVENTSEL that modify how an event is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) edge: bool,
    pub(crate) inv: bool,
    pub(crate) eq: bool,
    pub(crate) cmask: u8,
}

impl From<EventSel> for Filter {
    fn from(eventsel: EventSel) -> Filter {
        Filter {
            edge: eventsel.has(EventSel::EDGE),
            inv: eventsel.has(EventSel::INV),
            // Generations without this bit never have it set.
            eq: eventsel.has(EventSel::EQ),
            cmask: eventsel.cmask(),
        }
    }
}

/// What a counter adds up after EDGE, INV and CMASK were applied to its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilteredEvent {
    /// Occurrences of the event.
    Occurrences(Event),
    /// Cycles in which the event does not occur.
    CyclesWithout(Event),
}

impl FilteredEvent {
    /// Applies `filter` to `event` as described in [`event`](crate::event). `None` if
    /// the result never counts.
    pub(crate) fn new(event: Event, filter: Filter) -> Option<FilteredEvent> {
        let Filter {
            edge,
            inv,
            eq,
            cmask,
        } = filter;
        // These pulses are those of instructions.
        let (pulse, max_of_pulse) = match event {
            Event::Flops(n) => (Event::Instructions, n),
            Event::Responses { each, distance } => (Event::Responses { each: 1, distance }, each),
            _ => (event, 1),
        };
        let per_cycle = event.per_cycle();
        let max_per_cycle = per_cycle.unwrap_or(max_of_pulse);
        let reached = cmask == max_per_cycle || cmask < max_per_cycle && !eq;
        let cycles = FilteredEvent::Occurrences(Event::Cycles);
        if edge && (per_cycle.is_some() || cmask > max_per_cycle) {
            return None;
        }
        match cmask {
            0 if max_per_cycle == 0 => None,
            0 if edge => Some(FilteredEvent::Occurrences(pulse)),
            0 => Some(FilteredEvent::Occurrences(event)),
            _ if !reached => inv.then_some(cycles),
            _ if event == Event::Tsc => (!inv).then_some(FilteredEvent::Occurrences(event)),
            _ if per_cycle.is_some() => (!inv).then_some(cycles),
            _ if inv && !edge => Some(FilteredEvent::CyclesWithout(pulse)),
            _ => Some(FilteredEvent::Occurrences(pulse)),
        }
    }

    /// Whether it depends on what [`Retired`] has in detail.
    pub(crate) fn is_detail(self) -> bool {
        let (FilteredEvent::Occurrences(event) | FilteredEvent::CyclesWithout(event)) = self;
        event.is_detail()
    }

    /// Whether it depends on time, and not on the instructions.
    pub(crate) fn is_tsc(self) -> bool {
        self == FilteredEvent::Occurrences(Event::Tsc)
    }

    fn total(self, totals: Totals) -> u128 {
        match self {
            FilteredEvent::Occurrences(event) => event.total(totals),
            FilteredEvent::CyclesWithout(event) => {
                Event::Cycles.total(totals) - event.total(totals)
            }
        }
    }

    /// What a counter gains between two totals.
    pub(crate) fn between(self, before: Totals, after: Totals) -> u128 {
        self.total(after) - self.total(before)
    }

    /// An event that occurs at least as often and that occurs most often if all instructions are
    /// those of [`Totals::after_branches`]. All events are such events themselves, but for branches
    /// that are not taken and cycles without one kind of instruction.
    fn upper_bound(self) -> FilteredEvent {
        match self {
            FilteredEvent::Occurrences(Event::NotTaken) => {
                FilteredEvent::Occurrences(Event::ConditionalBranches)
            }
            FilteredEvent::CyclesWithout(event)
                if event.is_detail() || event.is_of_kind() && event != Event::Instructions =>
            {
                FilteredEvent::Occurrences(Event::Cycles)
            }
            _ => self,
        }
    }

    /// The most that a counter can gain while `n` instructions retire.
    pub(crate) fn max_gain(self, totals: Totals, n: u64) -> u128 {
        self.upper_bound().between(totals, totals.after_branches(n))
    }

    /// The fewest instructions in which a counter can gain `gain`, which is not 0.
    pub(crate) fn min_instructions(self, totals: Totals, gain: u64) -> u64 {
        if matches!(self, FilteredEvent::Occurrences(event) if event.is_of_kind()) {
            return gain;
        }
        // Every full pattern adds the same. Search in the last, incomplete one only.
        let per_pattern = self.max_gain(totals, PATTERN_INSTRUCTIONS) as u64;
        let patterns = (gain - 1) / per_pattern;
        let rest = u128::from(gain - patterns * per_pattern);
        let (mut too_few, mut enough) = (0, PATTERN_INSTRUCTIONS);
        while enough - too_few > 1 {
            let n = too_few + (enough - too_few) / 2;
            if self.max_gain(totals, n) < rest {
                too_few = n;
            } else {
                enough = n;
            }
        }
        patterns * PATTERN_INSTRUCTIONS + enough
    }
}
