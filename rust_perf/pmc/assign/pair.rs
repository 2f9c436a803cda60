// SPDX-License-Identifier: GPL-2.0

//! Events that take a pair of counters.
//!
//! A pair is placed on a counter and the next one, and does not move any more. That costs
//! nothing where pairs exist, on AMD's CPUs from family 17H on. All pairs can be on the same
//! counters there, so it makes no difference which of them is where. All other events can be
//! on every counter (`pmc/amd/zen.rs`), so it makes no difference either which counters the
//! pairs leave. `place_pair` therefore succeeds whenever all events fit at once. Where other
//! events are bound to counters, it succeeds whenever they fit beside the pairs as these are.

use super::{
    Assignment,
    Counter,
    CounterSet,
    Moves, //
    Placement,
};

impl Assignment {
    /// Finds a pair of counters for an event: one in `allowed`, which becomes
    /// [`Placement::counter`], and the next one.
    ///
    /// Returns `None`, and changes nothing, if the events that are on two such counters cannot
    /// be moved elsewhere. Of several pairs it takes one with the fewest events.
    pub fn place_pair(&mut self, allowed: CounterSet) -> Option<Placement> {
        let with_events = |n| {
            let used = self.used;
            let events = move |first| (both(first) & used).len();
            allowed.into_iter().filter(move |&first| events(first) == n)
        };
        let mut pairs = (0..=2).flat_map(with_events);
        let (assignment, placement) = pairs.find_map(|first| self.with_pair(first))?;
        *self = assignment;
        Some(placement)
    }

    /// The assignment with a pair that begins at `first`, if the events on both counters can be
    /// moved elsewhere.
    fn with_pair(&self, first: Counter) -> Option<(Self, Placement)> {
        let both = both(first);
        if both.len() != 2 {
            return None;
        }
        let mut result = self.clone();
        // From now on `place` moves nothing to these counters, and nothing off them.
        for counter in both {
            result.put(counter, CounterSet::of(counter), false);
        }
        result.pairs = result.pairs | CounterSet::of(first);

        let mut moves = Moves::NONE;
        for from in both & self.used {
            // Fails for the counters of another pair, which are allowed on themselves only.
            let other = result.place(self.allowed_on(from))?;
            for (from, to) in other.moves() {
                moves.push(from, to);
            }
            moves.push(from, other.counter);
        }
        let placement = Placement {
            counter: first,
            moves: Some(moves),
        };
        Some((result, placement))
    }
}

/// A counter and the next one.
fn both(first: Counter) -> CounterSet {
    let first = CounterSet::of(first);
    first | first.successors()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event: where it may be, and whether it takes a pair.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Event {
        allowed: CounterSet,
        pair: bool,
    }

    fn single(counters: u32) -> Event {
        let allowed = CounterSet::gp(counters);
        Event {
            allowed,
            pair: false,
        }
    }

    fn pair(counters: u32) -> Event {
        let allowed = CounterSet::gp(counters);
        Event {
            allowed,
            pair: true,
        }
    }

    /// Whether all events can be on counters other than `used`, found by trying everything.
    fn fit(events: &[Event], used: CounterSet) -> bool {
        let Some((event, rest)) = events.split_first() else {
            return true;
        };
        event.allowed.into_iter().any(|counter| {
            let taken = match event.pair {
                true => both(counter),
                false => CounterSet::of(counter),
            };
            (taken & used).is_empty() && fit(rest, used | taken)
        })
    }

    /// Which event is on which counter, kept by following the placements.
    #[derive(Clone, Default)]
    struct Board {
        assignment: Assignment,
        events: Vec<(Counter, Event)>,
    }

    impl Board {
        fn counters(&self, (counter, event): (Counter, Event)) -> CounterSet {
            match event.pair {
                true => both(counter),
                false => CounterSet::of(counter),
            }
        }

        fn used(&self) -> CounterSet {
            let all = self.events.iter().map(|&event| self.counters(event));
            all.fold(CounterSet::EMPTY, |used, counters| used | counters)
        }

        /// Places an event. Returns how many others have been moved.
        fn place(&mut self, event: Event) -> Option<usize> {
            let placement = match event.pair {
                true => self.assignment.place_pair(event.allowed),
                false => self.assignment.place(event.allowed),
            };
            let moves = placement.map(|placement| {
                for (from, to) in placement.moves() {
                    assert!(!self.used().contains(to), "the target is free");
                    let moved = self.events.iter_mut().find(|(on, _)| *on == from);
                    let (on, moved) = moved.expect("an event that is moved");
                    assert!(!moved.pair, "a pair does not move");
                    *on = to;
                }
                let new = (placement.counter, event);
                assert!((self.counters(new) & self.used()).is_empty());
                self.events.push(new);
                placement.moves().count()
            });
            self.check();
            moves
        }

        fn remove(&mut self, at: usize) {
            let (counter, _) = self.events.remove(at);
            self.assignment.remove(counter);
            self.check();
        }

        fn check(&self) {
            assert_eq!(self.assignment.used(), self.used());
            for (counter, event) in &self.events {
                assert!(event.allowed.contains(*counter));
                if !event.pair {
                    // A move does not make an event forget where it may be.
                    assert_eq!(self.assignment.allowed_on(*counter), event.allowed);
                }
            }
        }

        /// Whether one more event fits, with the pairs where they are.
        fn has_room(&self, event: Event) -> bool {
            let (pairs, singles): (Vec<_>, Vec<_>) =
                self.events.iter().partition(|(_, event)| event.pair);
            let used: CounterSet = pairs.iter().flat_map(|(on, _)| both(*on)).collect();
            let events = singles.iter().map(|(_, event)| *event);
            fit(&events.chain([event]).collect::<Vec<_>>(), used)
        }

        /// Whether one more event fits, wherever the others are.
        fn could_have_room(&self, event: Event) -> bool {
            let events = self.events.iter().map(|(_, event)| *event);
            let mut events: Vec<_> = events.chain([event]).collect();
            events.sort_by_key(|event| !event.pair);
            fit(&events, CounterSet::EMPTY)
        }
    }

    #[test]
    fn every_small_case_agrees_with_trying_everything() {
        // All sequences of up to four events on four counters.
        fn descend(board: &Board, steps: usize) {
            let singles = (0..16).map(single);
            for event in singles.chain([pair(0b0101)]) {
                let mut board = board.clone();
                let expected = board.has_room(event);
                assert_eq!(board.place(event).is_some(), expected, "{event:?}");
                if steps > 1 {
                    descend(&board, steps - 1);
                }
            }
        }
        descend(&Board::default(), 4);
    }

    #[test]
    fn a_pair_takes_free_counters_first() {
        let mut board = Board::default();
        let any = single(0b11_1111);
        let pair = pair(0b01_0101);
        assert_eq!(board.place(any), Some(0));
        // 2 and 3, then 4 and 5.
        assert_eq!(board.place(pair), Some(0));
        assert_eq!(board.place(pair), Some(0));
        assert_eq!(board.assignment.used(), CounterSet::gp(0b11_1101));
        // 0 is in use, and nothing else is left for its event but 1.
        assert_eq!(board.place(pair), None);
        assert_eq!(board.place(any), Some(0));
        assert_eq!(board.place(any), None);
        // Both of a pair become free.
        board.remove(1);
        assert_eq!(board.place(any), Some(0));
        assert_eq!(board.place(any), Some(0));
        assert_eq!(board.place(any), None);
    }

    #[test]
    fn two_events_make_room_for_a_pair() {
        let mut board = Board::default();
        for _ in 0..6 {
            board.place(single(0b11_1111));
        }
        // 1, 2 and 4 become free, but no two neighbours.
        for at in [4, 2, 1] {
            board.remove(at);
        }
        assert_eq!(board.place(pair(0b01_0101)), Some(1));
        let mut board = Board::default();
        board.place(single(0b1111));
        board.place(single(0b1111));
        assert_eq!(board.place(pair(0b0001)), Some(2));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Place(Event),
        Remove(usize),
    }

    /// Steps on `counters` counters with pairs wherever they may be.
    fn steps(
        singles: impl Strategy<Value = u32> + 'static,
        pairs: u32,
    ) -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            2 => singles.prop_map(|counters| Step::Place(single(counters))),
            2 => Just(Step::Place(pair(pairs))),
            2 => (0usize..8).prop_map(Step::Remove),
        ];
        prop::collection::vec(step, 1..40)
    }

    /// Follows the steps. `check` is told of each event, whether it was placed, and how many
    /// others were moved for it.
    fn follow(
        steps: Vec<Step>,
        check: impl Fn(&Board, Event, Option<usize>) -> Result<(), TestCaseError>,
    ) -> Result<(), TestCaseError> {
        let mut board = Board::default();
        for step in steps {
            match step {
                Step::Place(event) => {
                    let before = board.clone();
                    let moves = board.place(event);
                    check(&before, event, moves)?;
                }
                Step::Remove(at) if at < board.events.len() => board.remove(at),
                Step::Remove(_) => {}
            }
        }
        Ok(())
    }

    proptest! {
        /// As on the CPUs that have pairs. No other place of the pairs would have been better.
        #[test]
        fn events_of_any_counter_fit_whenever_they_can(
            steps in (1u32..=7).prop_flat_map(|n| {
                let all = (1 << n) - 1;
                steps(Just(all), 0b101_0101 & (all >> 1))
            })
        ) {
            follow(steps, |before, event, moves| {
                prop_assert_eq!(moves.is_some(), before.could_have_room(event));
                Ok(())
            })?;
        }

        #[test]
        fn bound_events_fit_whenever_they_can_beside_the_pairs(
            steps in steps(1u32..64, 0b01_0101)
        ) {
            follow(steps, |before, event, moves| {
                prop_assert_eq!(moves.is_some(), before.has_room(event));
                let free = !before.used();
                let free = match event.pair {
                    true => event.allowed & free.with_successor(),
                    false => event.allowed & free,
                };
                if !free.is_empty() {
                    prop_assert_eq!(moves, Some(0), "nothing moves without need");
                }
                Ok(())
            })?;
        }
    }
}
