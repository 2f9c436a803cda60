// SPDX-License-Identifier: GPL-2.0

use super::*;
use proptest::prelude::*;

const GP: CounterSet = CounterSet::first_gp(4);

#[derive(Clone, Copy, Debug)]
struct Event {
    allowed: CounterSet,
    exclusive: bool,
}

/// A thread, and which of its events is on which counter, kept by following the placements.
struct Thread {
    assignment: Assignment,
    on: [Option<Event>; 36],
}

impl Thread {
    fn new() -> Self {
        Thread {
            assignment: Assignment::default(),
            on: [None; 36],
        }
    }

    fn on(&self, index: usize) -> Option<&Event> {
        self.on[index].as_ref()
    }

    fn used_gp(&self) -> u32 {
        self.on[..32].iter().flatten().count() as u32
    }

    fn has_exclusive(&self) -> bool {
        self.on.iter().flatten().any(|event| event.exclusive)
    }
}

/// A core.
struct Core {
    all: CounterSet,
    siblings: Siblings,
    threads: Vec<Thread>,
}

impl Core {
    fn new(threads: usize) -> Self {
        Core {
            all: GP,
            siblings: Siblings::default(),
            threads: (0..threads).map(|_| Thread::new()).collect(),
        }
    }

    /// Returns the counter and the number of moves.
    fn place(&mut self, thread: usize, event: Event) -> Option<(usize, usize)> {
        let Event { allowed, exclusive } = event;
        let threads = self.threads.len();
        let thread = &mut self.threads[thread];
        let request = Request {
            allowed,
            exclusive,
            alone: threads == 1,
        };
        let placement = self
            .siblings
            .place_among(&mut thread.assignment, self.all, request)?;
        let mut moves = 0;
        for (from, to) in placement.moves() {
            assert!(thread.on(to.index()).is_none(), "the target is free");
            thread.on[to.index()] = thread.on[from.index()].take();
            moves += 1;
        }
        let index = placement.counter.index();
        assert!(thread.on(index).is_none());
        thread.on[index] = Some(event);
        self.check();
        Some((index, moves))
    }

    fn remove(&mut self, thread: usize, index: usize) {
        let thread = &mut self.threads[thread];
        let counter = Counter::from_index(index).unwrap();
        self.siblings.remove(&mut thread.assignment, counter);
        thread.on[index] = None;
        self.check();
    }

    /// The books are what the threads have, and no exclusive event shares its counter.
    fn check(&self) {
        for thread in &self.threads {
            for (index, event) in thread.on.iter().enumerate() {
                let counter = Counter::from_index(index).unwrap();
                let exclusive = event.is_some_and(|event| event.exclusive);
                let assignment = &thread.assignment;
                assert_eq!(assignment.used().contains(counter), event.is_some());
                assert_eq!(assignment.exclusive().contains(counter), exclusive);
                assert!(event.is_none_or(|event| event.allowed.contains(counter)));
            }
        }
        for (index, &users) in self.siblings.users.iter().enumerate() {
            let here = self.threads.iter().filter_map(|thread| thread.on(index));
            let here: Vec<_> = here.collect();
            let exclusive = here.iter().any(|event| event.exclusive);
            assert_eq!(usize::from(users), here.len());
            let counter = Counter::from_index(index).unwrap();
            assert_eq!(self.siblings.exclusive.contains(counter), exclusive);
            assert!(!exclusive || here.len() == 1, "counter {index}: {here:?}");
        }
    }

    /// The counters that `thread` may use for an event beside those of the others, by the
    /// rules as they are stated, not as they are kept.
    fn permitted(&self, thread: usize, added: Event, event: Event) -> CounterSet {
        let own = &self.threads[thread];
        let others = || {
            let others = self.threads.iter().enumerate();
            others.filter_map(|(i, other)| (i != thread).then_some(other))
        };
        let exclusive = added.exclusive || self.threads.iter().any(Thread::has_exclusive);
        let at_limit = exclusive && own.used_gp() >= (self.all.len() / 2).max(1);
        let may = |counter: &Counter| {
            let index = counter.index();
            let disturbs = |other: &Thread| {
                let theirs = other.on(index);
                index < 32 && theirs.is_some_and(|it| it.exclusive || event.exclusive)
            };
            let beyond = at_limit && index < 32 && own.on(index).is_none();
            !beyond && !others().any(disturbs)
        };
        event.allowed.into_iter().filter(may).collect()
    }

    /// Whether the thread's events and `added` fit, found by trying everything.
    fn fits(&self, thread: usize, added: Event) -> bool {
        fn fits(sets: &[CounterSet], used: CounterSet) -> bool {
            let Some((first, rest)) = sets.split_first() else {
                return true;
            };
            let mut free = (*first & !used).into_iter();
            free.any(|counter| fits(rest, used | CounterSet::of(counter)))
        }
        let events = self.threads[thread].on.iter().flatten().chain([&added]);
        let sets = events.map(|&event| self.permitted(thread, added, event));
        let mut sets: Vec<_> = sets.collect();
        sets.sort_by_key(|set| set.len());
        fits(&sets, CounterSet::EMPTY)
    }
}

const EXCLUSIVE: Event = Event {
    allowed: GP,
    exclusive: true,
};

const PLAIN: Event = Event {
    allowed: GP,
    exclusive: false,
};

fn only_on(index: u8, event: Event) -> Event {
    Event {
        allowed: CounterSet::of(Counter::gp(index).unwrap()),
        ..event
    }
}

#[test]
fn threads_share_the_counters_of_plain_events() {
    let mut core = Core::new(2);
    for thread in [0, 1] {
        for index in 0..4 {
            assert_eq!(core.place(thread, PLAIN), Some((index, 0)));
        }
        assert_eq!(core.place(thread, PLAIN), None);
    }
}

#[test]
fn an_exclusive_event_has_its_counter_alone() {
    let mut core = Core::new(2);
    assert_eq!(core.place(0, EXCLUSIVE), Some((0, 0)));
    assert_eq!(core.place(1, only_on(0, PLAIN)), None);
    assert_eq!(core.place(1, PLAIN), Some((1, 0)));
    assert_eq!(core.place(0, only_on(1, EXCLUSIVE)), None);
    assert_eq!(core.place(0, EXCLUSIVE), Some((2, 0)));
    core.remove(0, 0);
    assert_eq!(core.place(1, only_on(0, PLAIN)), Some((0, 0)));
}

#[test]
fn each_thread_has_half_of_the_counters_for_exclusive_events() {
    let mut core = Core::new(2);
    for thread in [0, 1] {
        for _ in 0..2 {
            assert!(core.place(thread, EXCLUSIVE).is_some());
        }
        assert_eq!(core.place(thread, EXCLUSIVE), None);
        assert_eq!(core.place(thread, PLAIN), None);
    }
}

#[test]
fn a_thread_that_is_alone_has_all_counters() {
    let mut core = Core::new(1);
    let (exclusive, any) = (true, false);
    for exclusive in [exclusive, any, exclusive, any] {
        let allowed = GP;
        assert!(core.place(0, Event { allowed, exclusive }).is_some());
    }
}

#[test]
fn a_thread_keeps_more_than_half_until_it_gives_them_up() {
    let mut core = Core::new(2);
    for _ in 0..3 {
        core.place(0, PLAIN);
    }
    assert_eq!(core.place(1, EXCLUSIVE), Some((3, 0)));
    assert_eq!(core.place(0, PLAIN), None);
    core.remove(0, 0);
    assert_eq!(core.place(0, PLAIN), None);
    core.remove(0, 1);
    assert_eq!(core.place(0, PLAIN), Some((0, 0)));
}

#[test]
fn fixed_counters_are_not_limited() {
    let mut core = Core::new(2);
    let fixed = Event {
        allowed: GP | CounterSet::fixed(1),
        exclusive: false,
    };
    for _ in 0..2 {
        core.place(0, EXCLUSIVE);
    }
    assert_eq!(core.place(0, fixed), Some((32, 0)));
    assert_eq!(core.place(1, fixed), Some((32, 0)));
}

/// An exclusive event moves to no counter of a sibling, although a plain one may.
#[test]
fn events_move_by_their_own_kind() {
    for (first, expected) in [(PLAIN, Some((0, 1))), (EXCLUSIVE, Some((0, 2)))] {
        let mut core = Core::new(2);
        core.all = CounterSet::first_gp(8);
        let some = |bits| CounterSet::from_bits(bits);
        // On counter 0; it can be on 1 and 2 as well. The sibling has counter 1.
        let allowed = some(0b111);
        core.place(1, only_on(1, PLAIN));
        core.place(0, Event { allowed, ..first });
        let allowed = some(0b1100);
        core.place(0, Event { allowed, ..PLAIN });
        assert_eq!(core.place(0, only_on(0, PLAIN)), expected);
    }
}

#[test]
fn one_counter_is_shared_in_turns() {
    let mut core = Core::new(2);
    core.all = CounterSet::first_gp(1);
    let event = only_on(0, EXCLUSIVE);
    assert_eq!(core.place(0, event), Some((0, 0)));
    assert_eq!(core.place(1, event), None);
    core.remove(0, 0);
    assert_eq!(core.place(1, event), Some((0, 0)));
}

#[derive(Clone, Debug)]
enum Step {
    Place(usize, Event),
    Remove(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let exclusive = (0..4usize, 1u64..16).prop_map(|(thread, bits)| {
        let allowed = CounterSet::from_bits(bits);
        let exclusive = true;
        Step::Place(thread, Event { allowed, exclusive })
    });
    let plain = (0..4usize, 0u64..16, 0u64..4).prop_map(|(thread, bits, fixed)| {
        let allowed = CounterSet::from_bits(bits | (fixed << 32));
        let exclusive = false;
        Step::Place(thread, Event { allowed, exclusive })
    });
    let index = prop_oneof![0..4usize, 32..34usize];
    let remove = (0..4usize, index).prop_map(|(thread, index)| Step::Remove(thread, index));
    prop_oneof![2 => plain, 2 => exclusive, 2 => remove]
}

proptest! {
    #[test]
    fn an_event_is_placed_just_when_it_fits(
        threads in prop_oneof![Just(2), Just(4)],
        counters in 1u8..=4,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut core = Core::new(threads);
        core.all = CounterSet::first_gp(counters);
        let existing = core.all | CounterSet::fixed(0b11);
        for step in steps {
            match step {
                Step::Place(thread, event) => {
                    let thread = thread % threads;
                    let event = Event { allowed: event.allowed & existing, ..event };
                    let free = core.permitted(thread, event, event);
                    let free = free & !core.threads[thread].assignment.used();
                    let fits = core.fits(thread, event);
                    let placed = core.place(thread, event);
                    prop_assert_eq!(placed.is_some(), fits);
                    if !free.is_empty() {
                        let moves = placed.map(|(_, moves)| moves);
                        prop_assert_eq!(moves, Some(0), "nothing moves without need");
                    }
                }
                Step::Remove(thread, index) => core.remove(thread % threads, index),
            }
        }
        for thread in 0..threads {
            for index in (0..4).chain(32..34) {
                core.remove(thread, index);
            }
        }
        prop_assert_eq!(core.siblings.users, [0; MAX_GP]);
        prop_assert!(core.siblings.exclusive.is_empty());
    }
}
