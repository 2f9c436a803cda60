// SPDX-License-Identifier: GPL-2.0

//! perf's generic events on Intel's models.

use crate::common::{
    events::{config_of, names},
    Cpuid,
};
use pmc::{
    event::{EventSel, Modes},
    CacheEvent::{self, Config, Extra, Invalid, Missing},
    Capabilities, EventName, ExtraError,
};
use std::collections::BTreeSet;

/// The models that have a table of cache events.
const MODELS: [u8; 24] = [
    0x0f, 0x1a, 0x2c, 0x2a, 0x2d, 0x3a, 0x3e, 0x3c, 0x3d, 0x5e, 0x7e, 0x6a, 0x8f, 0xad, 0x1c, 0x37,
    0x5c, 0x7a, 0x86, 0xbe, 0xaf, 0xdd, 0x57, 0x85,
];

/// A CPU of family 6, on which the architectural events of these bits are missing.
fn without(model: u8, missing: u32) -> Capabilities {
    Cpuid::new(b"GenuineIntel", 6, model, 0)
        .with(0xa, 0, [0x0830_0805, missing, 0b1111, 0x8604])
        .detect()
        .unwrap()
}

fn caps(model: u8) -> Capabilities {
    without(model, 0)
}

fn id(cache: u64, operation: u64, result: u64) -> u64 {
    cache | (operation << 8) | (result << 16)
}

const L1I: u64 = 1;
const LL: u64 = 2;
const DTLB: u64 = 3;
const ITLB: u64 = 4;
const BPU: u64 = 5;
const NODE: u64 = 6;
const READ: u64 = 0;
const WRITE: u64 = 1;
const PREFETCH: u64 = 2;
const ACCESS: u64 = 0;
const MISS: u64 = 1;

/// All cache events.
fn ids() -> impl Iterator<Item = u64> {
    (0..7).flat_map(|cache| {
        (0..3).flat_map(move |operation| (0..2).map(move |result| id(cache, operation, result)))
    })
}

fn extra(config: u64, config1: u64) -> CacheEvent {
    Extra { config, config1 }
}

#[test]
fn models_have_their_cache_events() {
    let expect = |model, cases: &[(u64, CacheEvent)]| {
        for (id, expected) in cases {
            let found = caps(model).cache_event(*id);
            assert_eq!(found, *expected, "{model:#x} {id:#x}");
        }
    };
    expect(
        0x2d,
        &[
            (id(LL, READ, ACCESS), extra(0x01b7, 0x1_0081)),
            (id(NODE, PREFETCH, MISS), extra(0x01b7, 0x1f_ff80_0030)),
            (id(DTLB, READ, MISS), Config(0x0108)),
        ],
    );
    expect(0x3e, &[(id(DTLB, READ, MISS), Config(0x8108))]);
    // Local memory is another bit on Broadwell.
    expect(
        0x3c,
        &[(id(NODE, READ, ACCESS), extra(0x01b7, 0x1f_8040_0001))],
    );
    expect(
        0x3d,
        &[(id(NODE, READ, ACCESS), extra(0x01b7, 0x1f_8400_0001))],
    );
    // From Ice Lake on no event counts the accesses of the instruction TLB.
    expect(0x5e, &[(id(ITLB, READ, ACCESS), Config(0x2085))]);
    for model in [0x7e, 0x6a, 0x8f, 0xad, 0x86, 0xbe, 0xaf, 0xdd] {
        expect(model, &[(id(ITLB, READ, ACCESS), Invalid)]);
    }
    // Ice Lake's servers differ from its clients.
    expect(
        0x7e,
        &[(id(LL, READ, ACCESS), extra(0x01b7, 0x3f_c001_0001))],
    );
    expect(0x6a, &[(id(LL, READ, ACCESS), extra(0x01b7, 0x1_0001))]);
    expect(
        0x8f,
        &[
            (id(LL, READ, MISS), extra(0x012a, 0x3f_bfc0_0001)),
            (id(NODE, WRITE, MISS), Missing),
            (id(BPU, READ, ACCESS), Config(0x04c4)),
        ],
    );
    // An edge is counted.
    expect(0x37, &[(id(ITLB, READ, MISS), Config(0x4_0205))]);
    // One of the two results has no event.
    expect(
        0x57,
        &[
            (id(LL, READ, ACCESS), extra(0x01b7, 0x1_0001)),
            (id(LL, READ, MISS), Missing),
        ],
    );
    for model in MODELS {
        expect(
            model,
            &[
                (id(L1I, WRITE, ACCESS), Invalid),
                (id(BPU, PREFETCH, MISS), Invalid),
            ],
        );
    }
    // No model, and Yonah.
    for model in [0x0e, 0x99] {
        expect(
            model,
            &[
                (id(LL, READ, ACCESS), Missing),
                (id(L1I, WRITE, ACCESS), Missing),
            ],
        );
    }
}

#[test]
fn cache_events_can_be_counted() {
    let mut invalid = BTreeSet::new();
    for model in MODELS {
        let caps = caps(model);
        for id in ids() {
            let (config, config1) = match caps.cache_event(id) {
                Config(config) => (config, 0),
                Extra { config, config1 } => (config, config1),
                Missing | Invalid => continue,
            };
            assert_ne!(config, 0, "{model:#x} {id:#x}");
            let event = EventSel::from_config(config, caps.config_mask(), Modes::ALL).unwrap();
            assert!(!caps.counters_for(event).is_empty(), "{model:#x} {id:#x}");
            match caps.extra(event, config1) {
                Ok(extra) => assert_eq!(extra.is_some(), config1 != 0, "{model:#x} {id:#x}"),
                Err(error) => {
                    assert_eq!(error, ExtraError::Invalid);
                    invalid.insert((model, id));
                }
            }
        }
    }
    // Some values have bits that the models do not have, as in the in-tree driver.
    let models: BTreeSet<_> = invalid.iter().map(|(model, _)| *model).collect();
    assert_eq!(models, [0x2a, 0x3a, 0x57, 0x85].into());
    assert!(invalid.contains(&(0x2a, id(LL, READ, MISS))));
    assert!(!invalid.contains(&(0x2a, id(LL, READ, ACCESS))));
}

#[test]
fn some_models_count_stalls() {
    use EventName::{StalledCyclesBackend as Backend, StalledCyclesFrontend as Frontend};
    let stalls = |model| [Frontend, Backend].map(|name| config_of(&caps(model), name));
    for model in [0x1a, 0x2c] {
        assert_eq!(stalls(model), [Some(0x0180_010e), Some(0x0180_3fb1)]);
    }
    for model in [0x2a, 0x2d] {
        assert_eq!(stalls(model), [Some(0x0180_010e), Some(0x0180_01b1)]);
    }
    for model in [0x3a, 0x3e] {
        assert_eq!(stalls(model), [Some(0x0180_010e), None]);
    }
    for model in [0x0f, 0x3c, 0x8f, 0x37] {
        assert_eq!(stalls(model), [None, None]);
    }
}

#[test]
fn an_event_may_have_another_code_on_a_model() {
    const NO_BUS_CYCLES: u32 = 1 << 2;
    const NO_BRANCH_MISSES: u32 = 1 << 6;
    let ref_cycles = |caps| config_of(&caps, EventName::RefCycles);
    for model in [0x8f, 0xad, 0xbe, 0xaf, 0xdd] {
        assert_eq!(ref_cycles(caps(model)), Some(0x013c));
        assert_eq!(ref_cycles(without(model, NO_BUS_CYCLES)), Some(0x0300));
    }
    assert_eq!(ref_cycles(caps(0x7e)), Some(0x0300));
    // Erratum AAJ80.
    let misses = |caps| config_of(&caps, EventName::BranchMisses);
    assert_eq!(misses(caps(0x1a)), Some(0x00c5));
    assert_eq!(misses(without(0x1a, NO_BRANCH_MISSES)), Some(0x7f89));
    assert_eq!(misses(without(0x2c, NO_BRANCH_MISSES)), None);
}

#[test]
fn each_name_is_there_once() {
    for model in MODELS {
        for missing in [0, 1 << 2, 1 << 6] {
            let caps = without(model, missing);
            let names: Vec<_> = names(&caps).into_iter().map(|name| name as u8).collect();
            let distinct: BTreeSet<_> = names.iter().collect();
            assert_eq!(distinct.len(), names.len(), "{model:#x}");
            for event in caps.events().filter(|event| event.name != EventName::Slots) {
                assert_eq!(caps.hardware_event(event.name as u64), Some(event.config));
            }
        }
    }
}
