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

use super::counter::{
    Counter,
    CounterSet,
    MAX_COUNTERS, //
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

/// What an event needs of the counters, in one word.
#[derive(Clone, Copy)]
pub struct Needs(u64);

impl Needs {
    /// No counter has these bits.
    const PAIR: u64 = 1 << 63;
    const EXCLUSIVE: u64 = 1 << 62;

    /// The needs of an event that any of `counters` can count. If it takes a `pair`, they are the first
    /// counters of the pairs that can.
    ///
    /// It is `exclusive` if it may make the counters of the same number of the core's other threads
    /// count wrongly.
    pub const fn new(counters: CounterSet, pair: bool, exclusive: bool) -> Self {
        let pair = if pair { Self::PAIR } else { 0 };
        let exclusive = if exclusive { Self::EXCLUSIVE } else { 0 };
        Needs(counters.bits() | pair | exclusive)
    }

    /// The word, for [`Self::from_word`].
    pub const fn into_word(self) -> u64 {
        self.0
    }

    /// The reverse of [`Self::into_word`].
    pub const fn from_word(word: u64) -> Self {
        Needs(word)
    }

    /// The counters that can count it. If it takes a pair, the first ones of pairs.
    pub const fn counters(self) -> CounterSet {
        CounterSet::from_bits(self.0)
    }

    /// Whether it takes a pair of counters: the one that it is on, and the next.
    pub const fn pair(self) -> bool {
        self.0 & Self::PAIR != 0
    }

    /// Whether it is exclusive, see [`Self::new`].
    pub const fn exclusive(self) -> bool {
        self.0 & Self::EXCLUSIVE != 0
    }
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

    /// The same if some counters are barred. `exclusive` says whether the event is.
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

    /// The same if all of the `first` counters have events.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The expected answer, found by trying everything.
    fn fits(events: &[CounterSet], used: CounterSet) -> bool {
        let Some((first, rest)) = events.split_first() else {
            return true;
        };
        (*first & !used)
            .into_iter()
            .any(|counter| fits(rest, used | CounterSet::of(counter)))
    }

    /// Which event is on which counter, kept by following the placements.
    struct Board {
        assignment: Assignment,
        events: Vec<CounterSet>,
        on: [Option<usize>; MAX_COUNTERS],
    }

    impl Board {
        fn new() -> Self {
            Board {
                assignment: Assignment::default(),
                events: Vec::new(),
                on: [None; MAX_COUNTERS],
            }
        }

        fn place(&mut self, allowed: CounterSet) -> Option<usize> {
            let before = self.on;
            let free = self.place_free(allowed);
            let needs = Needs::new(allowed, false, false);
            let may_fit = free.is_some() || self.assignment.may_make_room(needs);
            let Some(placement) = self.assignment.place(allowed) else {
                assert_eq!(before, self.on);
                assert_eq!(free, None);
                return None;
            };
            assert!(may_fit);
            let mut moves = 0;
            for (from, to) in placement.moves() {
                assert_eq!(self.on[to.index()], None, "the target is free");
                self.on[to.index()] = self.on[from.index()].take();
                moves += 1;
            }
            assert_eq!(self.on[placement.counter.index()], None);
            self.on[placement.counter.index()] = Some(self.events.len());
            self.events.push(allowed);
            self.check();
            assert_eq!(free, (moves == 0).then_some(placement.counter));
            Some(moves)
        }

        /// The counter that would be found in the short way.
        fn place_free(&self, allowed: CounterSet) -> Option<Counter> {
            let mut assignment = self.assignment.clone();
            let used = assignment.used();
            let needs = |pair| Needs::new(allowed, pair, false);
            assert_eq!(assignment.place_free(needs(true)), None);
            let free = assignment.place_free(needs(false));
            let counter = free.map_or(CounterSet::EMPTY, CounterSet::of);
            assert_eq!(assignment.used(), used | counter);
            free
        }

        fn remove(&mut self, counter: Counter) {
            self.assignment.remove(counter);
            self.on[counter.index()] = None;
            self.check();
        }

        fn check(&self) {
            for (index, event) in self.on.iter().enumerate() {
                let counter = Counter::from_index(index).unwrap();
                assert_eq!(self.assignment.used().contains(counter), event.is_some());
                if let Some(event) = event {
                    assert!(self.events[*event].contains(counter));
                }
            }
        }

        fn placed(&self) -> Vec<CounterSet> {
            self.on.iter().flatten().map(|&e| self.events[e]).collect()
        }
    }

    #[test]
    fn every_small_case_agrees_with_trying_everything() {
        // All sequences of up to four events on up to three counters.
        fn descend(events: &mut Vec<CounterSet>) {
            let mut board = Board::new();
            let placed: Vec<_> = events
                .iter()
                .copied()
                .filter(|&event| board.place(event).is_some())
                .collect();
            let mut truth = Vec::new();
            for &event in events.iter() {
                truth.push(event);
                if !fits(&truth, CounterSet::EMPTY) {
                    truth.pop();
                }
            }
            assert_eq!(placed, truth);
            if events.len() < 4 {
                for bits in 0..8 {
                    events.push(CounterSet::from_bits(bits));
                    descend(events);
                    events.pop();
                }
            }
        }
        descend(&mut Vec::new());
    }

    #[test]
    fn a_fixed_counter_is_taken_first() {
        let mut board = Board::new();
        let any = CounterSet::first_gp(2) | CounterSet::fixed(1);
        board.place(any);
        assert_eq!(board.on[32], Some(0));
        assert_eq!(board.place(CounterSet::first_gp(2)), Some(0));
        assert_eq!(board.place(CounterSet::first_gp(2)), Some(0));
        assert_eq!(board.place(CounterSet::first_gp(2)), None);
    }

    #[test]
    fn a_flexible_event_makes_room() {
        let mut board = Board::new();
        board.place(CounterSet::from_bits(0b011));
        // Only counter 0 will do, and the first event sits there.
        assert_eq!(board.place(CounterSet::from_bits(0b001)), Some(1));
        assert_eq!(board.on[..2], [Some(1), Some(0)]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Place(u64),
        Remove(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let place =
            (0u64..64, 0u64..8).prop_map(|(general, fixed)| Step::Place(general | (fixed << 32)));
        prop_oneof![3 => place, 1 => (0u8..8).prop_map(Step::Remove)]
    }

    proptest! {
        #[test]
        fn a_word_has_all_that_an_event_needs(counters: u64, pair: bool, exclusive: bool) {
            let counters = CounterSet::from_bits(counters);
            let needs = Needs::from_word(Needs::new(counters, pair, exclusive).into_word());
            prop_assert_eq!(needs.counters(), counters);
            prop_assert_eq!((needs.pair(), needs.exclusive()), (pair, exclusive));
        }

        #[test]
        fn places_an_event_just_when_it_fits(steps in prop::collection::vec(step(), 1..40)) {
            let mut board = Board::new();
            for step in steps {
                match step {
                    Step::Place(bits) => {
                        let allowed = CounterSet::from_bits(bits);
                        let mut wanted = board.placed();
                        wanted.push(allowed);
                        // Most constrained first keeps the brute force brief.
                        wanted.sort_by_key(|set| set.bits().count_ones());
                        let fits = fits(&wanted, CounterSet::EMPTY);
                        let free = allowed & !board.assignment.used();
                        let moves = board.place(allowed);
                        prop_assert_eq!(moves.is_some(), fits);
                        if !free.is_empty() {
                            prop_assert_eq!(moves, Some(0), "nothing moves without need");
                        }
                    }
                    Step::Remove(index) => board.remove(Counter::from_index(index.into()).unwrap()),
                }
            }
        }
    }
}
