// SPDX-License-Identifier: GPL-2.0

//! Where the driver's tables differ from Intel's lists, and why.
//!
//! Each of these is a difference of the in-tree driver, too: the driver has its tables
//! (`arch/x86/events/intel/core.c`). The guest tests compare the two for every code.

use crate::{
    difference::{
        Difference,
        Set::{All, Only},
        What::{self, Fixed, General, Registers, Value},
    },
    list::Event,
};
use pmu_model::CoreType;

/// A CPU of one of Intel's lists that rust_pmu does not know. Older lists may not have it.
pub struct Unknown {
    /// The list.
    pub list: &'static str,
    /// The family.
    pub family: u16,
    /// The model.
    pub model: u8,
    /// The type of core, if only that is unknown.
    pub unit: Option<CoreType>,
}

/// The in-tree driver has no table of Auburndale and Panther Lake R. Arrow Lake-S has no
/// low-power cores; Arrow Lake-H, for which the list is as well, has.
pub const UNKNOWN: &[Unknown] = &[
    unknown("nehalemep", 6, 0x1f),
    unknown("pantherlake", 6, 0xe5),
    Unknown {
        unit: Some(CoreType::LowPower),
        ..unknown("arrowlake", 6, 0xc6)
    },
];

const fn unknown(list: &'static str, family: u16, model: u8) -> Unknown {
    Unknown {
        list,
        family,
        model,
        unit: None,
    }
}

/// Differences with one reason.
pub struct Rule {
    /// The reason.
    pub reason: &'static str,
    /// Whether it is a reason only for events that are for precise samples.
    precise: bool,
    /// The differences.
    pub rows: &'static [Row],
}

impl Rule {
    /// Whether this is one of its differences: in which row.
    pub fn row(&self, list: &str, event: &Event, difference: &Difference) -> Option<usize> {
        if self.precise && !event.is_precise {
            return None;
        }
        self.rows.iter().position(|row| {
            row.lists.contains(&list)
                && row.codes.contains(&difference.code)
                && (row.what)(&difference.what)
        })
    }
}

const fn rule(reason: &'static str, rows: &'static [Row]) -> Rule {
    Rule {
        reason,
        precise: false,
        rows,
    }
}

/// Several events that differ in one way.
pub struct Row {
    /// The lists.
    pub lists: &'static [&'static str],
    /// Unit mask and event select of the events.
    pub codes: &'static [u16],
    what: fn(&What) -> bool,
}

const fn row(
    lists: &'static [&'static str],
    codes: &'static [u16],
    what: fn(&What) -> bool,
) -> Row {
    Row { lists, codes, what }
}

const NEHALEM: &[&str] = &["nehalemep", "nehalemex"];
const WESTMERE: &[&str] = &["westmereep-dp", "westmereep-sp", "westmereex"];
const NEHALEM_AND_WESTMERE: &[&str] = &[
    "nehalemep",
    "nehalemex",
    "westmereep-dp",
    "westmereep-sp",
    "westmereex",
];
const IVY_BRIDGE: &[&str] = &["ivybridge", "ivytown"];
const BROADWELL: &[&str] = &["broadwell", "broadwellde", "broadwellx"];
const SKYLAKE: &[&str] = &["skylake", "skylakex", "cascadelakex"];
const GRACEMONT_AND_CRESTMONT: &[&str] = &[
    "alderlake",
    "alderlaken",
    "meteorlake",
    "sierraforest",
    "grandridge",
    // The low-power cores.
    "arrowlake",
];
const COUNTED_FROM_1: &[&str] = &[
    "bonnell",
    "silvermont",
    "nehalemep",
    "nehalemex",
    "westmereep-dp",
    "westmereep-sp",
    "westmereex",
];

/// All of them.
pub const RULES: &[Rule] = &[
    Rule {
        reason: "the list has the event for precise samples only, which rust_pmu does not take",
        precise: true,
        rows: &[
            // MEM_INST_RETIRED.LATENCY_ABOVE_THRESHOLD.
            row(NEHALEM_AND_WESTMERE, &[0x100b], |what| {
                *what == General(Only(0b1000), All)
            }),
            // MEM_TRANS_RETIRED.LOAD_LATENCY, MEM_TRANS_RETIRED.PRECISE_STORE.
            row(IVY_BRIDGE, &[0x01cd, 0x02cd], |what| {
                *what == General(Only(0b1000), All)
            }),
            // Without Hyper-Threading the driver leaves counters 4 to 7 out.
            row(BROADWELL, &[0x01cd], |what| {
                matches!(what, General(Only(0b1000), All | Only(0xf)))
            }),
            // INST_RETIRED.PREC_DIST.
            row(BROADWELL, &[0x01c0], |what| {
                *what == General(Only(0b0010), All)
            }),
            // INST_RETIRED.TOTAL_CYCLES_PS, which has the code of INST_RETIRED.PREC_DIST.
            row(SKYLAKE, &[0x01c0], |what| {
                *what == General(Only(0b1101), Only(0b0010))
            }),
            // INST_RETIRED.ANY_PS.
            row(&["knightslanding"], &[0x00c0], |what| {
                *what == General(Only(0b01), All)
            }),
            // MEM_UOPS_RETIRED.LOAD_LATENCY.
            row(GRACEMONT_AND_CRESTMONT, &[0x05d0], |what| {
                *what == General(Only(0b0011), All)
            }),
        ],
    },
    rule(
        "in-tree has no constraint: on the other counters the count is wrong if the list is right, \
         with both drivers",
        &[
            // LOAD_HIT_PRE and L1D_CACHE_PREFETCH_LOCK_FB_HIT.
            row(NEHALEM_AND_WESTMERE, &[0x014c, 0x0152], |what| {
                *what == General(Only(0b0011), All)
            }),
            // L1D_CACHE_LOCK_FB_HIT.
            row(NEHALEM, &[0x0153], |what| {
                *what == General(Only(0b0011), All)
            }),
            // L1D_PREFETCH, for which there is a constraint on Nehalem.
            row(WESTMERE, &[0x014e, 0x024e, 0x044e], |what| {
                *what == General(Only(0b0011), All)
            }),
            // TOPDOWN.MEMORY_BOUND_SLOTS of Coyote Cove. In-tree has the constraint for Lion Cove.
            row(&["novalake"], &[0x10a4], |what| {
                *what == General(Only(0b1000), All)
            }),
            // MEM_UOPS_RETIRED.LOAD_LATENCY of Skymont. In-tree has a constraint for precise
            // samples only.
            row(&["arrowlake", "lunarlake"], &[0x05d0], |what| {
                *what == General(Only(0b0011), All)
            }),
        ],
    ),
    rule(
        "in-tree has no constraint, and Intel's lists of the other Westmeres have none for the \
         same event and register",
        &[
            // OFFCORE_RESPONSE.
            row(
                &["nehalemep", "nehalemex", "westmereex"],
                &[0x01b7],
                |what| *what == General(Only(0b0100), All),
            ),
        ],
    ),
    rule(
        "in-tree's constraint is for all unit masks: the count is right, on fewer counters",
        &[
            // L1D_PEND_MISS.FB_FULL.
            row(&["sandybridge", "jaketown"], &[0x0248], |what| {
                *what == General(All, Only(0b0100))
            }),
        ],
    ),
    rule(
        "in-tree has a constraint that the list does not have: the count is right, on fewer \
         counters",
        &[
            // Coyote Cove: UOPS_DECODED.HEAVY_INST_UOPS, IDQ, UOPS_DISPATCHED,
            // MEM_INST_RETIRED.ANY, EXE_RETIRED.
            row(
                &["novalake"],
                &[
                    0x0176, 0x0479, 0x0879, 0x2079, 0x01b2, 0x02b2, 0x87d0, 0x01df, 0x02df, 0x03df,
                ],
                |what| *what == General(All, Only(0xf)),
            ),
            // Arctic Wolf: SERIALIZATION.
            row(&["novalake"], &[0x0175], |what| {
                *what == General(All, Only(0b0001))
            }),
            row(&["novalake"], &[0x0275], |what| {
                *what == General(All, Only(0b0010))
            }),
        ],
    ),
    rule(
        "the list numbers the fixed counters from 1, the CPU from 0",
        &[
            row(COUNTED_FROM_1, &[0x00c0], |what| {
                matches!(what, Fixed(0 | 0b0010, 0b0001))
            }),
            row(COUNTED_FROM_1, &[0x003c], |what| {
                matches!(what, Fixed(0 | 0b0100, 0b0010))
            }),
            row(COUNTED_FROM_1, &[0x0300], |what| {
                *what == Fixed(0b1000, 0b0100)
            }),
        ],
    ),
    rule(
        "an error of the list: CPU_CLK_UNHALTED.THREAD_ANY is on fixed counter 1, as \
         CPU_CLK_UNHALTED.THREAD",
        &[row(&["jaketown"], &[0x003c], |what| {
            matches!(what, Fixed(0 | 0b0100, 0b0010))
        })],
    ),
    rule(
        "the line is about the event with any value, so it names no register",
        &[row(
            &[
                "haswell",
                "haswellx",
                "broadwell",
                "broadwellde",
                "broadwellx",
                "skylake",
                "skylakex",
                "silvermont",
                "goldmont",
                "goldmontplus",
                "knightslanding",
            ],
            &[0x01b7, 0x01bb],
            |what| matches!(what, Registers(list, ours) if list.is_empty() && !ours.is_empty()),
        )],
    ),
    rule(
        "the list names one of two registers that are as good",
        &[row(&["goldmont", "westmereex"], &[0x01b7], |what| {
            *what == Registers(vec![0x1a6], vec![0x1a6, 0x1a7])
        })],
    ),
    rule(
        "bits that only OFFCORE_RSP_1 has, with the code of OFFCORE_RSP_0: the value is refused, \
         by both drivers",
        &[row(&["knightslanding"], &[0x01b7], |what| {
            matches!(what, Value(0x100 | 0x800 | 0x4000 | 0x4800))
        })],
    ),
    rule(
        "bits that neither register has, by in-tree's masks: the value is refused, by both drivers",
        &[row(&["knightslanding"], &[0x01b7], |what| {
            matches!(what, Value(0x10 | 0x118))
        })],
    ),
];
