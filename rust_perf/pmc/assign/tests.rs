// SPDX-License-Identifier: GPL-2.0

//! Tests of [`assign`](super).

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
        let needs = Needs::one_of(allowed);
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
        let needs = |pair| Needs::one_of(allowed).with_pair(pair);
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
        let needs = Needs::one_of(counters)
            .with_pair(pair)
            .with_exclusive(exclusive);
        let needs = Needs::from_word(needs.into_word());
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
