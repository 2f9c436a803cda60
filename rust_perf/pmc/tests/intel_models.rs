// SPDX-License-Identifier: GPL-2.0

//! Which counters of Intel's models can count which events.

use crate::common::{events::counters, Cpuid};
use pmc::{
    counter::CounterSet,
    event::{EventSel, Modes},
    Capabilities,
};

const EDGE: u64 = EventSel::EDGE.mask();
const CMASK_1: u64 = 1 << 24;

/// A CPU with every counter that version 6 can have, so that a constraint shows
/// whatever it names.
pub fn with_all_counters(family: u8, model: u8) -> Capabilities {
    Cpuid::new(b"GenuineIntel", family, model, 0)
        .with(0xa, 0, [0x0830_0806, 0, 0b111, 0x8603])
        .with(7, 1, [1 << 8, 0, 0, 0])
        .with(0x23, 0, [0b11, 0, 0, 0])
        .with(0x23, 1, [u32::MAX, 0xffff, 0, 0])
        .detect()
        .unwrap()
}

/// A CPU with so many GP counters and the fixed counters of this bitmap.
fn with_counters(family: u8, model: u8, gp: u8, fixed: u32) -> Capabilities {
    // Leaf 0AH counts the fixed counters before the first gap.
    let [gp, fixed_len] = [u32::from(gp), fixed.trailing_ones()];
    Cpuid::new(b"GenuineIntel", family, model, 0)
        .with(
            0xa,
            0,
            [0x0730_0005 | (gp << 8), 0, fixed, 0x8600 | fixed_len],
        )
        .detect()
        .unwrap()
}

/// The counters that a microarchitecture has: name in the in-tree driver, family,
/// models, the number of GP counters (the most, without Hyper-Threading), and the
/// bitmap of the fixed ones.
const MODELS: [(&str, u8, &[u8], u8, u16); 22] = [
    ("core", 6, &[0x0e], 2, 0b111),
    ("core2", 6, &[0x0f, 0x16, 0x17, 0x1d], 2, 0b111),
    ("nehalem", 6, &[0x1a, 0x1e, 0x2e], 4, 0b111),
    ("westmere", 6, &[0x25, 0x2c, 0x2f], 4, 0b111),
    ("sandybridge", 6, &[0x2a, 0x2d], 8, 0b111),
    ("ivybridge", 6, &[0x3a, 0x3e], 8, 0b111),
    ("haswell", 6, &[0x3c, 0x3f, 0x45, 0x46], 8, 0b111),
    ("broadwell", 6, &[0x3d, 0x47, 0x4f, 0x56], 8, 0b111),
    (
        "skylake",
        6,
        &[0x4e, 0x55, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6],
        8,
        0b111,
    ),
    (
        "icelake",
        6,
        &[0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7],
        8,
        0b1111,
    ),
    ("sapphire_rapids", 6, &[0x8f, 0xcf], 8, 0b1111),
    ("granite_rapids", 6, &[0xad, 0xae], 8, 0b1111),
    ("panthercove", 0x13, &[0x01], 10, 0b1111),
    ("bonnell", 6, &[0x1c, 0x26, 0x27, 0x35, 0x36], 2, 0b111),
    (
        "silvermont",
        6,
        &[0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x75],
        2,
        0b111,
    ),
    ("goldmont", 6, &[0x5c, 0x5f], 4, 0b111),
    ("goldmont_plus", 6, &[0x7a], 4, 0b111),
    ("Tremont", 6, &[0x86, 0x96, 0x9c], 4, 0b111),
    ("gracemont", 6, &[0xbe], 6, 0b111),
    ("crestmont", 6, &[0xaf, 0xb6], 8, 0b111),
    ("darkmont", 6, &[0xdd], 8, 0b111_0111),
    ("knights-landing", 6, &[0x57, 0x85], 2, 0b111),
];

/// Name in the in-tree driver, family and models.
const HYBRIDS: [(&str, u8, &[u8]); 7] = [
    ("alderlake_hybrid", 6, &[0x97, 0x9a, 0xb7, 0xba, 0xbf]),
    ("meteorlake_hybrid", 6, &[0xaa, 0xac, 0xb5]),
    ("lunarlake_hybrid", 6, &[0xbd]),
    ("arrowlake_hybrid", 6, &[0xc6]),
    ("arrowlake_h_hybrid", 6, &[0xc5]),
    ("pantherlake_hybrid", 6, &[0xcc, 0xd5]),
    ("novalake_hybrid", 18, &[0x01, 0x03]),
];

#[test]
fn every_model_has_its_name() {
    let known = |family, model| {
        let mut rows = MODELS.iter();
        let found = rows.find(|(_, f, models, ..)| *f == family && models.contains(&model));
        let mut hybrids = HYBRIDS.iter();
        let hybrid = hybrids.find(|(_, f, models)| *f == family && models.contains(&model));
        let found = found.map(|it| it.0).or(hybrid.map(|it| it.0));
        found.unwrap_or("generic_arch_v5+")
    };
    for family in [5, 6, 7, 15, 18, 19, 20] {
        for model in 0..=0xff {
            let caps = with_counters(family, model, 4, 0b111);
            let name = known(family, model);
            assert_eq!(caps.pmu_name, Some(name), "{family:#x} {model:#x}");
        }
    }
    // A version that the driver is restricted to does not change the model.
    let skylake = Cpuid::new(b"GenuineIntel", 6, 0x5e, 3).with(0xa, 0, [0x0730_0404, 0, 0, 0x603]);
    for generation in 1..=4 {
        let caps = skylake.detect_as(generation).unwrap();
        assert_eq!(caps.pmu_name, Some("skylake"));
        assert_eq!(counters(&caps, 0x01c0), Some(0b0010));
    }
}

/// All event codes, with and without a modifier: a constraint that leaves counters out
/// names only counters that the model has.
#[test]
fn no_constraint_names_a_counter_that_the_model_does_not_have() {
    for (name, family, models, gp, fixed) in MODELS {
        let has = CounterSet::first_gp(gp) | CounterSet::fixed(fixed.into());
        for model in models {
            let caps = with_all_counters(family, *model);
            let all = caps.counters.gp_part();
            for config in (0..=0xffff).flat_map(|code| [code, code | EDGE]) {
                let event = EventSel::from_config(config, caps.config_mask(), Modes::ALL).unwrap();
                let set = caps.counters_for(event);
                let gp_part = set.gp_part();
                let within = gp_part == all || gp_part & has == gp_part;
                assert!(within, "{name} {config:#x}: {set:?}");
                assert_eq!(
                    set.fixed_part() & has,
                    set.fixed_part(),
                    "{name} {config:#x}"
                );
            }
            // With its own counters, each event has one, but for the codes of fixed
            // counters that it does not have.
            let own = with_counters(family, *model, gp, fixed.into());
            for code in (1..=0xffff_u64).filter(|code| code & 0xff != 0) {
                assert_ne!(counters(&own, code), Some(0), "{name} {code:#x}");
            }
        }
    }
}

/// Checks some codes on a CPU of this model with all its counters. Of the expected
/// counters the fixed ones are in the upper half.
fn expect(family: u8, model: u8, cases: &[(u64, u64)]) {
    let row = MODELS
        .iter()
        .find(|(_, f, models, ..)| *f == family && models.contains(&model));
    let (name, _, _, gp, fixed) = row.unwrap();
    let caps = with_counters(family, model, *gp, (*fixed).into());
    for (config, expected) in cases {
        let found = counters(&caps, *config);
        assert_eq!(found, Some(*expected), "{name} {config:#x}");
    }
}

const FIXED_0: u64 = 1 << 32;
const FIXED_1: u64 = 1 << 33;
const FIXED_2: u64 = 1 << 34;
const FIXED_3: u64 = 1 << 35;

#[test]
fn models_bind_events_to_counters() {
    expect(6, 0x0e, &[(0x12, 0b10), (0x10, 0b11), (0xc1, 0b01)]);
    expect(6, 0x17, &[(0x12, 0b10), (0x10, 0b01), (0xc1, 0b11)]);
    expect(6, 0x1a, &[(0x0143, 0b0011), (0x44, 0b1111), (0x60, 0b1111)]);
    expect(6, 0x2c, &[(0x0143, 0b1111), (0x60, 0b0001), (0xb3, 0b0001)]);
    // L1D_PEND_MISS with any unit mask; INST_RETIRED with one of them.
    expect(
        6,
        0x2a,
        &[
            (0x0148, 0b0100),
            (0x0048, 0b0100),
            (0x0148 | EDGE, 0b0100),
            (0x0148 | CMASK_1, 0b0100),
            (0x01c0, 0b0010),
            (0x01c0 | CMASK_1, 0b0010),
            (0x00c0, 0xff | FIXED_0),
            (0x00c0 | CMASK_1, 0xff),
            (0x02c0, 0xff),
            (0x02a3, 0b0100),
            (0x03a3, 0xff),
            (0x04a3, 0x0f),
            (0x01cd, 0b1000),
            (0x81d0, 0x0f),
            (0x01d4, 0xff),
        ],
    );
    // From here on only one unit mask of L1D_PEND_MISS.
    expect(
        6,
        0x3a,
        &[
            (0x0148, 0b0100),
            (0x0248, 0xff),
            (0x0ca3, 0b0100),
            (0x06a3, 0x0f),
        ],
    );
    expect(
        6,
        0x3c,
        &[
            (0x0148, 0b0100),
            (0x01cd, 0b1000),
            (0x06a3, 0xff),
            (0x01d3, 0x0f),
        ],
    );
    // One bit of the unit mask.
    expect(
        6,
        0x3d,
        &[
            (0x08a3, 0b0100),
            (0x0ca3, 0b0100),
            (0xffa3, 0b0100),
            (0x04a3, 0xff),
            (0x01d3, 0xff),
        ],
    );
    expect(
        6,
        0x55,
        &[
            (0x01c0, 0b0010),
            (0x01c6, 0x0f),
            (0x0148, 0xff),
            (0x01d2, 0x0f),
        ],
    );
    expect(
        6,
        0x6a,
        &[
            (0x02, 0xff),
            (0x03, 0x0f),
            (0x0a, 0x0f),
            (0x0b, 0xff),
            (0x04a3, 0xff),
            (0x05a3, 0x0f),
            (0xf4, 0x0f),
            (0xf5, 0xff),
            (0xc0, 0xff | FIXED_0),
            (0x01c0, 0xff | FIXED_0),
            (0x0100, FIXED_0),
            (0x013c, 0xff),
            (0x0400, FIXED_3),
        ],
    );
    for model in [0x8f, 0xad] {
        expect(
            6,
            model,
            &[
                (0x01, 0x0f),
                (0xff01, 0x0f),
                (0x8f, 0x0f),
                (0x8f | EDGE, 0x0f),
                (0x90, 0xff),
                (0x412e, 0xff),
                (0x3c, 0xff | FIXED_1),
                (0x3c | CMASK_1, 0xff),
                (0x013c, 0xff | FIXED_2),
                (0x0200, FIXED_1),
                (0x01c0, 0xff),
                (0x04a4, 0b0001),
                (0x01cd, 0xfe),
                (0x02cd, 0b0001),
                (0x01ce, 0b0001),
                (0x01d0, 0x0f),
                (0xe0, 0xff),
                (0xff, 0xff),
            ],
        );
    }
    expect(
        0x13,
        1,
        &[
            (0x01cd, 0xfc),
            (0x02cd, 0b11),
            (0x01b1, 0b1000),
            (0x0a, 0x3ff),
            (0xd2, 0x3ff),
        ],
    );
    expect(
        6,
        0xaf,
        &[
            (0x013c, 0xff | FIXED_2),
            (0x0200, FIXED_1),
            (0x73, 0xff),
            (0xd0, 0xff),
        ],
    );
    let [fixed_4, fixed_5, fixed_6] = [1 << 36, 1 << 37, 1 << 38];
    expect(
        6,
        0xdd,
        &[
            (0x73, 0xff | fixed_4),
            (0x0173, 0xff),
            (0x0500, fixed_4),
            (0x019c, 0xff | fixed_5),
            (0x02c2, 0xff | fixed_6),
            (0x0700, fixed_6),
            (0x0400, 0),
        ],
    );
    for model in [0x1c, 0x37, 0x57] {
        expect(
            6,
            model,
            &[(0x0148, 0b11), (0x01cd, 0b11), (0x013c, 0b11), (0x0100, 0)],
        );
    }
}

/// The constraints hold with the counters that there are.
#[test]
fn with_fewer_counters_an_event_may_have_none() {
    let caps = with_counters(6, 0x2a, 4, 0b111);
    assert_eq!(counters(&caps, 0x81d0), Some(0b1111));
    let caps = with_counters(6, 0x2a, 2, 0b111);
    assert_eq!(counters(&caps, 0x0148), Some(0));
    assert_eq!(counters(&caps, 0x01c0), Some(0b10));
    let caps = with_counters(6, 0x8f, 4, 0);
    assert_eq!(counters(&caps, 0xc0), Some(0b1111));
    assert_eq!(counters(&caps, 0x0100), Some(0));
}
