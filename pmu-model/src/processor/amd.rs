// SPDX-License-Identifier: GPL-2.0

//! AMD's processors, and Hygon's.
//!
//! The sources are the BKDG and the PPR of each family: CPUID 80000001H:ECX.PerfCtrExtCore,
//! leaf 80000022H, PMCx0D1, "Retired Conditional Branch Instructions", and PMCx0C4, "Retired Taken
//! Branch Instructions". Events of loads and stores count what is dispatched, not what retires.

use super::{
    constraint, Counters,
    Models::{All, Ranges},
    Processor,
};
use crate::{
    event::Event,
    lbr::{AmdLbrs, Lbrs},
};

const LEGACY: Counters = Counters {
    version: 1,
    general: 4,
    general_of_thread: 4,
    fixed: 0,
    width: 48,
    full_width: false,
    metrics: 0,
    needs_clearing: false,
    metrics_clear: false,
    rdpmc_user_disable: false,
};

const PERF_CTR_EXT_CORE: Counters = Counters {
    version: 2,
    general: 6,
    general_of_thread: 6,
    ..LEGACY
};

const PERF_MON_V2: Counters = Counters {
    version: 3,
    ..PERF_CTR_EXT_CORE
};

/// LbrExtV2 (APM vol. 2, table "VMCB Layout, State Save Area": 16 pairs of addresses).
const LBR_STACK: Lbrs = Lbrs::Amd(AmdLbrs {
    depth: 16,
    freeze: true,
});

/// The codes by which Linux's driver counts perf's cache events up to Family 16h (`amd_hw_cache_event_ids` in
/// arch/x86/events/amd/core.c), but for those of the L2, which `crate::generation` has: accesses to the data
/// cache and misses in it, what its prefetcher tries and cancels, fetches of instructions and misses in their
/// cache, and misses in both TLBs.
///
/// Some of them count what is dispatched. Here each instruction has one access, one fetch and one try.
const LEGACY_CACHES: &[(u64, Event)] = &[
    (0x0040, Event::Instructions),
    (0x0141, Event::Misses),
    (0x0267, Event::Instructions),
    (0x0167, Event::Misses),
    (0x0080, Event::Instructions),
    (0x0081, Event::Misses),
    (0x0385, Event::Misses),
    (0x0746, Event::Misses),
];

/// The codes by which Linux's driver counts perf's cache events from Family 17h on
/// (`amd_hw_cache_event_ids_f17h`): accesses to the data cache and misses in it, fetches of instructions and
/// misses in their cache, what the second-level TLBs are asked for, and page walks.
///
/// PMCx040 counts stores, too. perf takes it for loads, and so does the model.
const ZEN_CACHES: &[(u64, Event)] = &[
    (0x0040, Event::Loads),
    (0xc860, Event::LoadMisses),
    (0x0080, Event::Instructions),
    (0x0081, Event::Misses),
    (0xff45, Event::Misses),
    (0xf045, Event::PageWalks),
    (0x0084, Event::Misses),
    (0xff85, Event::PageWalks),
];

const ZEN_RETIRED: &[(u64, Event)] =
    &[(0x00d1, Event::ConditionalBranches), (0x00c4, Event::Taken)];

pub(super) const PROCESSORS: &[Processor] = &[
    // K7, K8, and Families 10h (K10), 11h, 12h, 14h (Bobcat) and 16h (Jaguar). Model 6 of
    // the K7 is left out: QEMU's "max" has its number, and is no processor in particular.
    Processor {
        signatures: &[
            (0x06, Ranges(&[0..=5, 7..=0xff])),
            (0x0f, All),
            (0x10, All),
            (0x11, All),
            (0x12, All),
            (0x14, All),
            (0x16, All),
        ],
        counters: LEGACY,
        lbrs: None,
        msrs: &[],
        constraints: &[],
        retired: &[],
        caches: LEGACY_CACHES,
    },
    // Bulldozer to Excavator.
    Processor {
        signatures: &[(0x15, All)],
        counters: PERF_CTR_EXT_CORE,
        lbrs: None,
        msrs: &[],
        constraints: constraint::FAMILY_15H,
        retired: &[],
        caches: LEGACY_CACHES,
    },
    // Zen 1 to 3, and Hygon's Dhyana.
    Processor {
        signatures: &[
            (0x17, All),
            (0x18, All),
            (0x19, Ranges(&[0..=0x0f, 0x20..=0x5f])),
        ],
        counters: PERF_CTR_EXT_CORE,
        lbrs: None,
        msrs: &[],
        constraints: &[],
        retired: ZEN_RETIRED,
        caches: ZEN_CACHES,
    },
    // Zen 4 and 5.
    Processor {
        signatures: &[
            (0x19, Ranges(&[0x10..=0x1f, 0x60..=0x7f, 0xa0..=0xaf])),
            (0x1a, All),
        ],
        counters: PERF_MON_V2,
        lbrs: Some(LBR_STACK),
        msrs: &[],
        constraints: &[],
        retired: ZEN_RETIRED,
        caches: ZEN_CACHES,
    },
];
