// SPDX-License-Identifier: GPL-2.0

//! The performance cores of Lunar Lake, Arrow Lake and Panther Lake.

use super::{
    super::{
        cache::{
            offcore,
            Cache,
            CacheEvents,
            Operation, //
        },
        constraint::{
            Constraint,
            Constraints, //
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
    golden_cove,
    topdown,
    transactions, //
};

/// Lunar Lake and Panther Lake.
pub(super) static LUNAR_LAKE: Events = with(CONSTRAINTS)
    .with_named(&[&REF_CYCLES, &NAMED])
    .with_cache(&[&golden_cove::CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION])
    .with_extra(EXTRA)
    .with_topdown(topdown::GOLDEN_COVE)
    .with_transactions(transactions::GOLDEN_COVE)
    .with_late_unmasking();

/// Arrow Lake.
pub(super) static ARROW_LAKE: Events = with(CONSTRAINTS)
    .with_named(&[&REF_CYCLES, &NAMED])
    .with_cache(&[
        &golden_cove::CACHE,
        &ARROW_LAKE_OFFCORE_CACHE,
        &NO_SUCH_OPERATION,
    ])
    .with_extra(EXTRA)
    .with_topdown(topdown::GOLDEN_COVE)
    .with_transactions(transactions::GOLDEN_COVE)
    .with_late_unmasking();

/// All ten GP counters.
const ALL: u32 = 0x3ff;

/// In-tree: `intel_lnc_event_constraints`.
const CONSTRAINTS: Constraints = Constraints {
    fixed: golden_cove::FIXED,
    gp: &[
        PSEUDO,
        Constraint::event(0x20, 0xf),
        Constraint::code(0x0148, 0b0100),
        Constraint::code(0x0175, 0b0100),
        // LONGEST_LAT_CACHE, CPU_CLK_UNHALTED.
        Constraint::event(0x2e, ALL),
        Constraint::event(0x3c, ALL),
        // CYCLE_ACTIVITY: cache misses pending.
        Constraint::code(0x08a3, 0b0100),
        Constraint::code(0x0ca3, 0b0100),
        // TOPDOWN.BAD_SPEC_SLOTS, TOPDOWN.BR_MISPREDICT_SLOTS, TOPDOWN.MEMORY_BOUND_SLOTS.
        Constraint::code(0x04a4, 0b0001),
        Constraint::code(0x08a4, 0b0001),
        Constraint::code(0x10a4, 0b1000),
        Constraint::code(0x01b1, 0b1000),
        // MEM_TRANS_RETIRED.LOAD_LATENCY, MEM_TRANS_RETIRED.STORE_SAMPLE.
        Constraint::code(0x01cd, 0b11_1111_1100),
        Constraint::code(0x02cd, 0b0011),
        // MEM_INST_RETIRED, MEM_LOAD_*.
        Constraint::code(0x87d0, ALL),
        Constraint::events(0xd0, 0xdf, 0xf),
    ],
};

/// In-tree: `intel_lnc_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x012a, ExtraRegister::OffcoreRsp0, 0xfff_ffff_ffff),
        Encoding::new(0x012b, ExtraRegister::OffcoreRsp1, 0xfff_ffff_ffff),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
    // FRONTEND_RETIRED.MISP_ANT.
    &[Encoding::new(0x02c6, ExtraRegister::Frontend, 0x9)],
    // FRONTEND_RETIRED, all others.
    &[Encoding::new(0x03c6, ExtraRegister::Frontend, 0x7f_ff1f)],
    // INT_MISC.UNKNOWN_BRANCH_CYCLES.
    &[Encoding::new(0x40ad, ExtraRegister::Frontend, 0xf)],
    // UOPS_RETIRED.MS.
    &[Encoding::new(0x04c2, ExtraRegister::Frontend, 0x8)],
]);

/// In-tree: `lnc_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(
        Cache::Ll,
        Operation::Read,
        0x012a,
        0x1_0001,
        0x9e7_fa00_0001,
    ),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x012a,
        0x1_0002,
        0x9e7_fa00_0002,
    ),
];

/// In-tree: `arl_lnc_hw_cache_extra_regs`.
const ARROW_LAKE_OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(
        Cache::Ll,
        Operation::Read,
        0x012a,
        0x1_0001,
        0xfe7_f800_0001,
    ),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x012a,
        0x1_0002,
        0xfe7_f800_0002,
    ),
];
