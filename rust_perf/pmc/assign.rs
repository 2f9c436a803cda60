// SPDX-License-Identifier: GPL-2.0

//! Which event goes on which counter.
//!
//! Each event has a set of counters that can count it. [`Assignment::place`] adds
//! one event to those already placed. It succeeds whenever all of them fit at
//! once. It moves events to other counters only if it has to. This is bipartite
//! matching by augmenting paths. [`Assignment::place_pair`] adds an event that takes two
//! counters.
//!
//! [`siblings`](super::siblings) has the rules of cores whose threads disturb each other.

mod pair;

use super::{
    counter::{
        Counter,
        CounterSet,
        MAX_COUNTERS, //
    },
    needs::Needs, //
};

/// Events on counters.
///
/// # Invariants
///
/// - For each counter in `used`, its entry in `allowed` contains that counter.
/// - For each counter in `pairs`, it and the next one are in `used`, and nothing else is in
///   their entries in `allowed`: they cannot be moved.
/// - `exclusive` is a subset of `used`.
#[derive(Clone)]
pub struct Assignment {
    used: CounterSet,
    /// The counters with exclusive events.
    exclusive: CounterSet,
    /// For each used counter, the counters that its event may be on.
    allowed: [CounterSet; MAX_COUNTERS],
    /// The counters whose event has the next counter as well.
    pairs: CounterSet,
}

/// Counters that events may not have for now, unless they are there already.
#[derive(Clone, Copy, Default)]
pub struct Barred {
    /// No event.
    pub all: CounterSet,
    /// No exclusive event.
    pub exclusive: CounterSet,
}

impl Barred {
    fn of(&self, exclusive: bool) -> CounterSet {
        if exclusive {
            self.all | self.exclusive
        } else {
            self.all
        }
    }
}

/// Where a new event goes, and which events move to make room.
///
/// [`Assignment::place`] has already recorded it.
pub struct Placement {
    /// The counter for the new event. It is free once the moves have been made.
    pub counter: Counter,
    moves: Option<Moves>,
}

/// To place an event moves at most one event off each counter. A pair needs that twice.
const MAX_MOVES: usize = 2 * MAX_COUNTERS;

/// Moves of events from one counter to another.
struct Moves {
    steps: [(u8, u8); MAX_MOVES],
    len: usize,
}

impl Moves {
    const NONE: Self = Moves {
        steps: [(0, 0); MAX_MOVES],
        len: 0,
    };

    /// Adds a move. There is always room: see [`MAX_MOVES`].
    fn push(&mut self, from: Counter, to: Counter) {
        if let Some(step) = self.steps.get_mut(self.len) {
            *step = (from.index() as u8, to.index() as u8);
            self.len = self.len.wrapping_add(1);
        }
    }

    fn iter(&self) -> impl Iterator<Item = (Counter, Counter)> + '_ {
        self.steps.iter().take(self.len).filter_map(|&(from, to)| {
            Counter::from_index(from.into()).zip(Counter::from_index(to.into()))
        })
    }
}

impl Placement {
    /// The moves `(from, to)`, in an order in which each `to` is free when its move
    /// is made.
    pub fn moves(&self) -> impl Iterator<Item = (Counter, Counter)> + '_ {
        self.moves.iter().flat_map(Moves::iter)
    }
}

impl Default for Assignment {
    fn default() -> Self {
        Assignment {
            used: CounterSet::EMPTY,
            exclusive: CounterSet::EMPTY,
            allowed: [CounterSet::EMPTY; MAX_COUNTERS],
            pairs: CounterSet::EMPTY,
        }
    }
}

impl Assignment {
    /// Finds a free counter for one more event, where none is exclusive. `None`, and nothing changed, if
    /// there is none that can count it. It may fit all the same: see [`Self::place_event`].
    #[inline]
    pub fn place_free(&mut self, needs: Needs) -> Option<Counter> {
        if needs.pair() {
            return None;
        }
        let counter = needs.counters().without(self.used).preferred()?;
        // It is not in `exclusive`, as no free counter is.
        *self.allowed.get_mut(counter.index())? = needs.counters();
        self.used = self.used | CounterSet::of(counter);
        Some(counter)
    }

    /// Whether an event may fit for which [`Self::place_free`] has found no counter. A single event
    /// cannot if no placed one may be on a free counter: none can move out of its way.
    #[inline(never)]
    pub fn may_make_room(&self, needs: Needs) -> bool {
        let allowed = self.used.into_iter().map(|on| self.allowed_on(on));
        let movable_to = allowed.fold(CounterSet::EMPTY, |all, allowed| all | allowed);
        needs.pair() || !movable_to.without(self.used).is_empty()
    }

    /// Finds a counter, or a pair, for one more event. `None`, and nothing changed, if the event and
    /// those already placed do not fit at once.
    pub fn place_event(&mut self, needs: Needs) -> Option<Placement> {
        if needs.pair() {
            self.place_pair(needs.counters())
        } else {
            self.place(needs.counters())
        }
    }

    /// Finds a counter for an event that may be on any counter in `allowed`.
    ///
    /// Returns `None`, and changes nothing, if the event and all others cannot have
    /// a counter each. Visits each counter at most once.
    pub fn place(&mut self, allowed: CounterSet) -> Option<Placement> {
        self.place_within(allowed, false, Barred::default())
    }

    /// Records an event that may be on any of `allowed`, but not on counters that are `barred`.
    /// `exclusive` says whether the event is.
    pub fn place_within(
        &mut self,
        allowed: CounterSet,
        exclusive: bool,
        barred: Barred,
    ) -> Option<Placement> {
        let first = allowed & !barred.of(exclusive);
        if let Some(counter) = (first & !self.used).preferred() {
            self.put(counter, allowed, exclusive);
            return Some(Placement {
                counter,
                moves: None,
            });
        }
        self.make_room(first, allowed, exclusive, barred)
    }

    /// The slow path of [`Self::place_within`]: all of the `first` counters have events.
    #[inline(never)]
    fn make_room(
        &mut self,
        first: CounterSet,
        allowed: CounterSet,
        exclusive: bool,
        barred: Barred,
    ) -> Option<Placement> {
        // Search breadth first from the new event's counters. `came_from[c]` is the counter whose
        // event would move to `c`; it is `c` itself for the new event.
        let mut came_from = [0u8; MAX_COUNTERS];
        let mut seen = first;
        let mut frontier = first;
        for counter in first {
            set(&mut came_from, counter, counter);
        }

        let free = loop {
            let mut next = CounterSet::EMPTY;
            for occupied in frontier {
                let barred = barred.of(self.exclusive.contains(occupied));
                let reachable = self.allowed_on(occupied) & !barred & !seen;
                for counter in reachable {
                    set(&mut came_from, counter, occupied);
                }
                seen = seen | reachable;
                next = next | reachable;
            }
            if next.is_empty() {
                return None;
            }
            if let Some(free) = (next & !self.used).preferred() {
                break free;
            }
            frontier = next;
        };

        // Go back along the path, and free a counter with each step. A path contains no counter
        // twice, which bounds its length.
        let mut moves = Moves::NONE;
        let mut to = free;
        while let Some(from) = get(&came_from, to).filter(|&from| from != to) {
            moves.push(from, to);
            self.put(to, self.allowed_on(from), self.exclusive.contains(from));
            to = from;
        }
        self.put(to, allowed, exclusive);
        Some(Placement {
            counter: to,
            moves: Some(moves),
        })
    }

    /// Removes the event on `counter`. For a pair, that is its first counter.
    pub fn remove(&mut self, counter: Counter) {
        let event = CounterSet::of(counter);
        self.used = self.used.without(event);
        self.exclusive = self.exclusive.without(event);
        if !self.pairs.is_empty() {
            self.used = self.used.without((self.pairs & event).successors());
            self.pairs = self.pairs.without(event);
        }
    }

    /// The counters that have an event.
    pub fn used(&self) -> CounterSet {
        self.used
    }

    /// The counters that have an exclusive event.
    pub fn exclusive(&self) -> CounterSet {
        self.exclusive
    }

    fn allowed_on(&self, counter: Counter) -> CounterSet {
        self.allowed
            .get(counter.index())
            .copied()
            .unwrap_or_default()
    }

    fn put(&mut self, counter: Counter, allowed: CounterSet, exclusive: bool) {
        let Some(entry) = self.allowed.get_mut(counter.index()) else {
            return;
        };
        *entry = allowed;
        let counter = CounterSet::of(counter);
        self.used = self.used | counter;
        self.exclusive = if exclusive {
            self.exclusive | counter
        } else {
            self.exclusive.without(counter)
        };
    }
}

fn set(map: &mut [u8; MAX_COUNTERS], at: Counter, value: Counter) {
    if let Some(entry) = map.get_mut(at.index()) {
        *entry = value.index() as u8;
    }
}

fn get(map: &[u8; MAX_COUNTERS], at: Counter) -> Option<Counter> {
    map.get(at.index())
        .and_then(|&index| Counter::from_index(index.into()))
}

#[cfg(test)]
mod tests;
