// SPDX-License-Identifier: GPL-2.0

//! Darkmont and Skymont. Every GP counter counts every event.

use super::{
    super::{
        cache::{
            offcore,
            Cache,
            CacheEvents,
            Operation, //
        },
        constraint::{
            Constraints,
            FixedEvent, //
        },
        named::Events, //
    },
    events::{
        with,
        NAMED,
        NO_SUCH_OPERATION,
        PSEUDO,
        REF_CYCLES, //
    },
    goldmont,
    gracemont,
    topdown,
    tremont, //
};

/// Clearwater Forest.
pub(super) static DARKMONT: Events = with(CONSTRAINTS)
    .with_named(&[&REF_CYCLES, &NAMED])
    .with_cache(&[
        &goldmont::PLUS_CACHE,
        &tremont::TLB_CACHE,
        &OFFCORE_CACHE,
        &NO_SUCH_OPERATION,
    ])
    .with_extra(gracemont::CRESTMONT_EXTRA)
    .with_topdown(topdown::DARKMONT)
    .with_middle_unmasking();

/// The efficient cores of hybrid CPUs: Skymont, and Darkmont in Panther Lake.
pub(super) static SKYMONT: Events = with(CONSTRAINTS)
    .with_named(&[&REF_CYCLES, &NAMED])
    .with_cache(&[
        &goldmont::PLUS_CACHE,
        &tremont::TLB_CACHE,
        &HYBRID_OFFCORE_CACHE,
        &NO_SUCH_OPERATION,
    ])
    .with_extra(gracemont::CRESTMONT_EXTRA)
    .with_topdown(topdown::DARKMONT)
    .with_middle_unmasking();

/// In-tree: `intel_skt_event_constraints`.
const CONSTRAINTS: Constraints = Constraints {
    fixed: FIXED,
    gp: &[PSEUDO],
};

/// What the fixed counters count, on Arctic Wolf, too.
pub(super) const FIXED: &[FixedEvent] = &[
    // INST_RETIRED.ANY.
    FixedEvent::new(0x00c0, 0),
    FixedEvent::new(0x0100, 0),
    // CPU_CLK_UNHALTED.CORE.
    FixedEvent::new(0x003c, 1),
    FixedEvent::new(0x0200, 1),
    // CPU_CLK_UNHALTED.REF_TSC.
    FixedEvent::new(0x0300, 2),
    FixedEvent::new(0x013c, 2),
    // TOPDOWN_BAD_SPECULATION.ALL.
    FixedEvent::new(0x0073, 4),
    FixedEvent::new(0x0500, 4),
    // TOPDOWN_FE_BOUND.ALL.
    FixedEvent::new(0x019c, 5),
    FixedEvent::new(0x0600, 5),
    // TOPDOWN_RETIRING.ALL.
    FixedEvent::new(0x02c2, 6),
    FixedEvent::new(0x0700, 6),
];

/// In-tree: `dkt_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(
        Cache::Ll,
        Operation::Read,
        0x01b7,
        0x1_0001,
        0x33f_bfc0_0001,
    ),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x33f_bfc0_0002,
    ),
];

/// In-tree: `skt_hw_cache_extra_regs`.
const HYBRID_OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(
        Cache::Ll,
        Operation::Read,
        0x01b7,
        0x1_0001,
        0x13f_bfc0_0001,
    ),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x13f_bfc0_0002,
    ),
];
