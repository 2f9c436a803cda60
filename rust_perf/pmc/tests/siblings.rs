// SPDX-License-Identifier: GPL-2.0

//! Two threads of a core that disturb each other's counters: the driver's books on the PMU
//! model, which has the erratum. Every count must be exact.

use crate::common::{Cpu, Cpuid, Driven};
use pmc::{
    assign::Assignment,
    counter::{Counter, CounterSet},
    event::{EventSel, Modes},
    siblings::Siblings,
    Capabilities,
};
use pmu_model::{Config, Signature, SmtCore, Vendor};
use proptest::prelude::*;
use std::sync::Arc;

/// Exclusive ones, those of some counters or of fixed ones, and instructions by cycles with at
/// least one of them. The model counts instructions with all of them.
const CODES: [u64; 9] = [
    0x11d0,
    0x01d1,
    0x01d2,
    0x02d3,
    0x0148,
    0x01c0,
    0x01cd,
    0x00c0,
    0x0100_00c0,
];

/// What the driver detects on a Sandy Bridge with Hyper-Threading.
fn capabilities() -> Capabilities {
    const FW_WRITE: u64 = 1 << 13;
    Cpuid::new(b"GenuineIntel", 6, 0x2a, 7)
        .with(0xa, 0, [0x0730_0403, 0, 0, 0x603])
        .with(0xb, 0, [1, 2, 0, 0])
        .detect_with(FW_WRITE)
        .unwrap()
}

struct Event {
    eventsel: EventSel,
    counted: u64,
    expected: u64,
}

/// A CPU, and its events by their counters.
struct Thread {
    driven: Driven,
    assignment: Assignment,
    events: [Option<Event>; 36],
}

impl Thread {
    fn new(core: &Arc<SmtCore>, number: usize) -> Self {
        let signature = Signature {
            family: 6,
            model: 0x2a,
            stepping: 7,
        };
        let cpu = Cpu::new(Config::of_processor(Vendor::Intel, signature, true).unwrap());
        cpu.pmu.borrow_mut().set_thread(core.clone(), number);
        Thread {
            driven: Driven::take_over(cpu, capabilities()),
            assignment: Assignment::default(),
            events: [const { None }; 36],
        }
    }

    fn stop(&self) {
        self.driven.run(CounterSet::EMPTY);
    }

    fn start(&self) {
        self.driven.run(self.assignment.used());
    }

    fn program(&mut self, counter: Counter, event: Event) {
        self.driven.program(counter, event.eventsel, 0);
        self.events[counter.index()] = Some(event);
    }

    /// Takes the event off its counter.
    fn take(&mut self, counter: Counter) -> Option<Event> {
        let event = self.events[counter.index()].take()?;
        let counted = event.counted + self.driven.read(counter);
        Some(Event { counted, ..event })
    }

    /// As perf adds an event: the PMU is stopped meanwhile. Returns whether there is a counter.
    fn add(&mut self, siblings: &mut Siblings, code: u64) -> bool {
        let eventsel = EventSel::from_config(code, EventSel::INTEL, Modes::ALL).unwrap();
        self.stop();
        let caps = &self.driven.caps;
        let placed = siblings.place(&mut self.assignment, caps, caps.needs(eventsel), false);
        let is_placed = placed.is_some();
        if let Some(placement) = placed {
            for (from, to) in placement.moves() {
                let moved = self.take(from).unwrap();
                self.program(to, moved);
            }
            let event = Event {
                eventsel,
                counted: 0,
                expected: 0,
            };
            self.program(placement.counter, event);
        }
        self.start();
        is_placed
    }

    /// Returns what the event has counted, and what it should have.
    fn remove(&mut self, siblings: &mut Siblings, index: usize) -> Option<[u64; 2]> {
        let counter = Counter::from_index(index)?;
        self.stop();
        let event = self.take(counter);
        if event.is_some() {
            siblings.remove(&mut self.assignment, counter);
        }
        self.start();
        event.map(|event| [event.counted, event.expected])
    }

    fn retire(&mut self, instructions: u64) {
        self.driven.cpu.run(instructions);
        for event in self.events.iter_mut().flatten() {
            event.expected += instructions;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, u64),
    Remove(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let code = prop::sample::select(&CODES[..]);
    let add = (0..2usize, code).prop_map(|(thread, code)| Step::Add(thread, code));
    let index = prop_oneof![4 => 0..4usize, 1 => Just(32)];
    let remove = (0..2usize, index).prop_map(|(thread, index)| Step::Remove(thread, index));
    prop_oneof![3 => add, 2 => remove]
}

proptest! {
    #[test]
    fn all_counts_are_exact(steps in prop::collection::vec(step(), 1..60)) {
        let core = Arc::new(SmtCore::new(2));
        let mut siblings = Siblings::default();
        let mut threads = [0, 1].map(|number| Thread::new(&core, number));
        let all = [0, 1].into_iter().flat_map(|thread| (0..36).map(move |i| (thread, i)));
        let all = all.map(|(thread, index)| Step::Remove(thread, index));
        for (i, step) in steps.into_iter().chain(all).enumerate() {
            match step {
                Step::Add(thread, code) => {
                    threads[thread].add(&mut siblings, code);
                }
                Step::Remove(thread, index) => {
                    let counts = threads[thread].remove(&mut siblings, index);
                    if let Some([counted, expected]) = counts {
                        prop_assert_eq!(counted, expected, "thread {}, counter {}", thread, index);
                    }
                }
            }
            for (thread, more) in threads.iter_mut().zip([3, 5]) {
                thread.retire(i as u64 + more);
            }
        }
    }
}

/// Each thread has half of the counters.
#[test]
fn two_exclusive_events_on_each_thread() {
    let core = Arc::new(SmtCore::new(2));
    let mut siblings = Siblings::default();
    let mut threads = [0, 1].map(|number| Thread::new(&core, number));
    for thread in &mut threads {
        let added = [0x11d0, 0x01d1, 0x01d2].map(|code| thread.add(&mut siblings, code));
        assert_eq!(added, [true, true, false]);
        // Instructions are on a fixed counter.
        assert!(thread.add(&mut siblings, 0xc0));
    }
    for thread in &mut threads {
        thread.retire(100);
        for index in [0, 1, 2, 3, 32] {
            if let Some(counts) = thread.remove(&mut siblings, index) {
                assert_eq!(counts, [100, 100]);
            }
        }
    }
}

/// The models that have `intel_ht_bug` in the in-tree driver, and only with two threads in a
/// core.
#[test]
fn exclusive_events() {
    const MODELS: [u8; 8] = [0x2a, 0x2d, 0x3a, 0x3e, 0x3c, 0x3f, 0x45, 0x46];
    let with_threads = |family, model, threads| {
        Cpuid::new(b"GenuineIntel", family, model, 0)
            .with(0xa, 0, [0x0730_0403, 0, 0, 0x603])
            .with(0xb, 0, [1, threads, 0, 0])
            .detect()
            .unwrap()
    };
    let exclusive = |caps: &Capabilities| -> Vec<u64> {
        let is_exclusive = |code: &u64| caps.is_exclusive(EventSel::from_raw(*code | (1 << 24)));
        (0..=0xffff).filter(is_exclusive).collect()
    };
    for (family, model) in [6, 19]
        .into_iter()
        .flat_map(|f| (0..=0xff).map(move |m| (f, m)))
    {
        let has_erratum = family == 6 && MODELS.contains(&model);
        let caps = with_threads(family, model, 2);
        assert_eq!(caps.any_exclusive(), has_erratum, "{family:#x} {model:#x}");
        assert!(!with_threads(family, model, 1).any_exclusive());
    }
    for model in MODELS {
        let events = |code: &u64| (0xd0..=0xd3).contains(&(code & 0xff));
        let expected: Vec<u64> = (0..=0xffff).filter(events).collect();
        assert_eq!(exclusive(&with_threads(6, model, 2)), expected);
        assert!(exclusive(&with_threads(6, model, 1)).is_empty());
    }
    assert!(exclusive(&with_threads(6, 0x3d, 2)).is_empty());
}
