// SPDX-License-Identifier: GPL-2.0

//! Sapphire Rapids, Emerald Rapids and Granite Rapids, and the performance cores of Alder
//! Lake, Raptor Lake and Meteor Lake.

use super::{
    super::{
        cache::{
            counted,
            misses,
            offcore,
            Cache,
            CacheEvents,
            Operation, //
        },
        constraint::{
            Constraint,
            Constraints,
            FixedEvent, //
        },
        extra::{
            Encoding,
            ExtraEvents,
            ExtraRegister, //
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
    topdown,
    transactions, //
};

/// What the fixed counters count, on Lion Cove and Panther Cove, too.
pub(super) const FIXED: &[FixedEvent] = &[
    // INST_RETIRED.ANY.
    FixedEvent::new(0x00c0, 0),
    FixedEvent::new(0x0100, 0),
    // CPU_CLK_UNHALTED.THREAD.
    FixedEvent::new(0x003c, 1),
    FixedEvent::new(0x0200, 1),
    // CPU_CLK_UNHALTED.REF_TSC.
    FixedEvent::new(0x0300, 2),
    FixedEvent::new(0x013c, 2),
    // TOPDOWN.SLOTS.
    FixedEvent::new(0x0400, 3),
];

/// Sapphire Rapids and Emerald Rapids.
///
/// MEM_TRANS_RETIRED.LOAD_LATENCY needs LD_BLOCKS, unit mask 82H (`mem-loads-aux`). In-tree:
/// `require_mem_loads_aux_event()`.
pub(super) static GOLDEN_COVE: Events = model(EXTRA.with_auxiliary(0x01cd, 0x8203));

/// Granite Rapids.
pub(super) static REDWOOD_COVE: Events = model(REDWOOD_EXTRA);

/// Alder Lake and Raptor Lake.
pub(super) static ALDER_LAKE: Events = hybrid(EXTRA.with_auxiliary(0x01cd, 0x8203));

/// Meteor Lake and Arrow Lake-U.
pub(super) static METEOR_LAKE: Events = hybrid(REDWOOD_EXTRA);

const fn model(extra: ExtraEvents) -> Events {
    with(CONSTRAINTS)
        .with_named(&[&REF_CYCLES, &NAMED])
        .with_cache(&[&CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION])
        .with_extra(extra)
        .with_topdown(topdown::GOLDEN_COVE)
        .with_transactions(transactions::GOLDEN_COVE)
        .with_late_unmasking()
}

const fn hybrid(extra: ExtraEvents) -> Events {
    with(CONSTRAINTS)
        .with_named(&[&REF_CYCLES, &NAMED])
        .with_cache(&[&CACHE, &HYBRID_OFFCORE_CACHE, &NO_SUCH_OPERATION])
        .with_extra(extra)
        .with_topdown(topdown::GOLDEN_COVE)
        .with_transactions(transactions::GOLDEN_COVE)
        .with_late_unmasking()
}

/// In-tree: `intel_glc_event_constraints`.
const CONSTRAINTS: Constraints = Constraints {
    fixed: FIXED,
    gp: &[
        PSEUDO,
        // LONGEST_LAT_CACHE, CPU_CLK_UNHALTED.
        Constraint::event(0x2e, 0xff),
        Constraint::event(0x3c, 0xff),
        Constraint::events(0x01, 0x8f, 0xf),
        // CYCLE_ACTIVITY: cache misses pending.
        Constraint::code(0x01a3, 0xf),
        Constraint::code(0x02a3, 0xf),
        Constraint::code(0x05a3, 0xf),
        Constraint::code(0x06a3, 0xf),
        Constraint::code(0x08a3, 0xf),
        Constraint::code(0x0ca3, 0xf),
        // TOPDOWN.BAD_SPEC_SLOTS, TOPDOWN.BR_MISPREDICT_SLOTS.
        Constraint::code(0x04a4, 0b0000_0001),
        Constraint::code(0x08a4, 0b0000_0001),
        // MEM_TRANS_RETIRED.LOAD_LATENCY, MEM_TRANS_RETIRED.STORE_SAMPLE.
        Constraint::code(0x01cd, 0b1111_1110),
        Constraint::code(0x02cd, 0b0000_0001),
        // AMX_OPS_RETIRED.
        Constraint::event(0xce, 0b0000_0001),
        // MEM_INST_RETIRED, MEM_LOAD_*.
        Constraint::events(0xd0, 0xdf, 0xf),
        // All others.
        Constraint::events(0x90, 0xfe, 0xff),
    ],
};

/// In-tree: `intel_glc_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x012a, ExtraRegister::OffcoreRsp0, 0x3f_ffff_ffff),
        Encoding::new(0x012b, ExtraRegister::OffcoreRsp1, 0x3f_ffff_ffff),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
    // FRONTEND_RETIRED.
    &[Encoding::new(0x01c6, ExtraRegister::Frontend, 0x7f_ff1f)],
    // INT_MISC.UNKNOWN_BRANCH_CYCLES.
    &[Encoding::new(0x40ad, ExtraRegister::Frontend, 0x7)],
    // UOPS_RETIRED.MS.
    &[Encoding::new(0x04c2, ExtraRegister::Frontend, 0x8)],
]);

/// In-tree: `intel_rwc_extra_regs`.
const REDWOOD_EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x012a, ExtraRegister::OffcoreRsp0, 0x3f_ffff_ffff),
        Encoding::new(0x012b, ExtraRegister::OffcoreRsp1, 0x3f_ffff_ffff),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
    // FRONTEND_RETIRED.MISP_ANT.
    &[Encoding::new(0x02c6, ExtraRegister::Frontend, 0x9)],
    // FRONTEND_RETIRED, all others.
    &[Encoding::new(0x03c6, ExtraRegister::Frontend, 0x7f_ff1f)],
    // INT_MISC.UNKNOWN_BRANCH_CYCLES.
    &[Encoding::new(0x40ad, ExtraRegister::Frontend, 0x7)],
    // UOPS_RETIRED.MS.
    &[Encoding::new(0x04c2, ExtraRegister::Frontend, 0x8)],
]);

/// What is within the core, on Lion Cove and Panther Cove, too. In-tree:
/// `glc_hw_cache_event_ids`.
pub(super) const CACHE: [CacheEvents; 7] = [
    counted(Cache::L1d, Operation::Read, 0x81d0, 0xe124),
    counted(Cache::L1d, Operation::Write, 0x82d0, 0),
    counted(Cache::L1i, Operation::Read, 0, 0xe424),
    counted(Cache::Dtlb, Operation::Read, 0x81d0, 0x0e12),
    counted(Cache::Dtlb, Operation::Write, 0x82d0, 0x0e13),
    misses(Cache::Itlb, Operation::Read, 0x0e11),
    counted(Cache::Bpu, Operation::Read, 0x04c4, 0x04c5),
];

/// In-tree: `glc_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 3] = [
    offcore(Cache::Ll, Operation::Read, 0x012a, 0x1_0001, 0x3f_bfc0_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x012a,
        0x3f_3ffc_0002,
        0x3f_3fc0_0002,
    ),
    offcore(
        Cache::Node,
        Operation::Read,
        0x012a,
        0x1_0400_0001,
        0x7_3000_0001,
    ),
];

/// In-tree: `adl_glc_hw_cache_extra_regs`.
const HYBRID_OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(Cache::Ll, Operation::Read, 0x012a, 0x1_0001, 0x3f_bfc0_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x012a,
        0x1_0002,
        0x3f_bfc0_0002,
    ),
];
