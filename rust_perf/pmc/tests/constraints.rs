// SPDX-License-Identifier: GPL-2.0

//! The assignment of counters under the constraints of real CPUs, against
//! trying everything.

use crate::common::{generations, Cpu, Cpuid};
use pmc::{
    assign::Assignment,
    counter::CounterSet,
    event::{EventSel, Modes},
    CacheEvent, Capabilities,
};
use proptest::prelude::*;

/// The CPUs whose events are bound to counters in some way, and the others.
fn every_cpu() -> Vec<Capabilities> {
    let core =
        |family| Cpuid::new(b"AuthenticAMD", family, 0, 0).with(0x8000_0001, 0, [0, 0, 1 << 23, 0]);
    let k10 = Cpuid::new(b"AuthenticAMD", 0x10, 0, 0).with(0x8000_0008, 0, [0, 0, 3, 0]);
    let zhaoxin = |family, model| {
        let leaf = [0x0730_0402, 0, 0, 0x603];
        Cpuid::new(b"  Shanghai  ", family, model, 0).with(0xa, 0, leaf)
    };
    // General counters 0, 2, 3 and 9; fixed counters 0, 1, 3 and 5.
    let v6 = Cpuid::new(b"GenuineIntel", 6, 0, 0)
        .with(0xa, 0, [0x0830_0806, 0, 0b1011, 0x600])
        .with(7, 1, [1 << 8, 0, 0, 0])
        .with(0x23, 0, [0b11, 0b11, 0, 0])
        .with(0x23, 1, [0b10_0000_1101, 0b10_1011, 0, 0]);
    // Sandy Bridge, and Sapphire Rapids, some of whose constraints overlap.
    let sandy_bridge =
        Cpuid::new(b"GenuineIntel", 6, 0x2a, 7).with(0xa, 0, [0x0730_0803, 0, 0, 0x603]);
    let sapphire_rapids =
        Cpuid::new(b"GenuineIntel", 6, 0x8f, 8).with(0xa, 0, [0x0830_0805, 0, 0b1111, 0x8604]);
    let by_hand = [
        sandy_bridge,
        sapphire_rapids,
        core(0x15),
        core(0x17),
        k10,
        zhaoxin(6, 0x19),
        zhaoxin(7, 0x1b),
        zhaoxin(7, 0x3b),
        v6,
    ];
    let on_the_model = generations()
        .into_iter()
        .map(|config| Cpu::new(config).detect());
    by_hand
        .iter()
        .map(Cpuid::detect)
        .chain(on_the_model)
        .map(Option::unwrap)
        .collect()
}

/// Whether all can be on a counter each, by trying everything. Equal sets need
/// to be tried in one order only, which keeps it brief.
fn fits(events: &[CounterSet], used: CounterSet) -> bool {
    let Some((first, rest)) = events.split_first() else {
        return true;
    };
    (*first & !used)
        .into_iter()
        .any(|counter| fits(rest, used | CounterSet::of(counter)))
}

/// An event of the CPU's: a mixture of named ones, of codes that constraints
/// are for, and any.
fn event(caps: &Capabilities, kind: u8, bits: u64) -> EventSel {
    let named = caps.events().map(|event| event.config);
    let cache = (0..=0x1_0206).filter_map(|id| match caps.cache_event(id) {
        CacheEvent::Config(config) | CacheEvent::Extra { config, .. } => Some(config),
        _ => None,
    });
    let config = match kind {
        0 => bits & 0xffff,
        1 => bits & caps.config_mask(),
        2 => (bits & 0xf) << 8,
        _ => {
            let all: Vec<_> = named.chain(cache).collect();
            all[bits as usize % all.len()]
        }
    };
    EventSel::from_config(config, caps.config_mask(), Modes::ALL).unwrap()
}

proptest! {
    /// Each event has its counters, of those that are there; and events are
    /// placed just when all of them fit, with no two on one counter.
    #[test]
    fn events_are_placed_just_when_they_fit(
        cpu in 0..every_cpu().len(),
        events in prop::collection::vec((0u8..4, any::<u64>()), 1..14),
    ) {
        let caps = &every_cpu()[cpu];
        let mut assignment = Assignment::default();
        // By counter: what is there.
        let mut placed: Vec<Option<CounterSet>> = vec![None; 48];
        for (kind, bits) in events {
            let allowed = caps.counters_for(event(caps, kind, bits));
            prop_assert_eq!(allowed & caps.counters, allowed);

            let mut wanted: Vec<_> = placed.iter().flatten().copied().collect();
            wanted.push(allowed);
            wanted.sort_by_key(|set| set.len());
            let placement = assignment.place(allowed);
            prop_assert_eq!(placement.is_some(), fits(&wanted, CounterSet::EMPTY));
            let Some(placement) = placement else { continue };
            for (from, to) in placement.moves() {
                prop_assert_eq!(placed[to.index()], None);
                let moved = placed[from.index()].take();
                prop_assert!(moved.is_some_and(|allowed| allowed.contains(to)));
                placed[to.index()] = moved;
            }
            prop_assert_eq!(placed[placement.counter.index()], None);
            prop_assert!(allowed.contains(placement.counter));
            placed[placement.counter.index()] = Some(allowed);
        }
    }
}

#[test]
fn what_sysfs_names_can_be_counted() {
    for caps in every_cpu() {
        for event in caps.events() {
            let eventsel = EventSel::from_config(event.config, caps.config_mask(), Modes::ALL);
            assert!(!caps.counters_for(eventsel.unwrap()).is_empty());
        }
    }
}
