// SPDX-License-Identifier: GPL-2.0

//! Ice Lake, Tiger Lake and Rocket Lake.

use super::{
    super::{
        cache::{
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
        NO_SUCH_OPERATION,
        PSEUDO, //
    },
    skylake,
    topdown,
    transactions, //
};

/// The client's.
pub(super) static ICE_LAKE: Events = with(CONSTRAINTS)
    .with_cache(&[
        &skylake::CACHE,
        &TLB_CACHE,
        &skylake::OFFCORE_CACHE,
        &NO_SUCH_OPERATION,
    ])
    .with_extra(EXTRA)
    .with_topdown(topdown::ICE_LAKE)
    .with_transactions(transactions::ICE_LAKE)
    .with_late_unmasking();

/// The server's.
pub(super) static ICE_LAKE_SERVER: Events = with(CONSTRAINTS)
    .with_cache(&[
        &skylake::CACHE,
        &TLB_CACHE,
        &SERVER_CACHE,
        &NO_SUCH_OPERATION,
    ])
    .with_extra(EXTRA)
    .with_topdown(topdown::ICE_LAKE)
    .with_transactions(transactions::ICE_LAKE)
    .with_late_unmasking();

/// In-tree: `intel_icl_event_constraints`.
const CONSTRAINTS: Constraints = Constraints {
    fixed: &[
        // INST_RETIRED.ANY, and INST_RETIRED.PREC_DIST.
        FixedEvent::new(0x00c0, 0),
        FixedEvent::new(0x0100, 0),
        FixedEvent::new(0x01c0, 0),
        // CPU_CLK_UNHALTED.THREAD.
        FixedEvent::new(0x003c, 1),
        FixedEvent::new(0x0200, 1),
        // CPU_CLK_UNHALTED.REF_TSC.
        FixedEvent::new(0x0300, 2),
        // TOPDOWN.SLOTS.
        FixedEvent::new(0x0400, 3),
    ],
    gp: &[
        PSEUDO,
        Constraint::events(0x03, 0x0a, 0xf),
        Constraint::events(0x1f, 0x28, 0xf),
        // SW_PREFETCH_ACCESS.
        Constraint::event(0x32, 0xf),
        Constraint::events(0x48, 0x56, 0xf),
        Constraint::events(0x60, 0x8b, 0xf),
        // CYCLE_ACTIVITY: without execution; memory accesses pending.
        Constraint::code(0x04a3, 0xff),
        Constraint::code(0x10a3, 0xff),
        Constraint::code(0x14a3, 0xff),
        // The rest of CYCLE_ACTIVITY.
        Constraint::event(0xa3, 0xf),
        Constraint::events(0xa8, 0xb0, 0xf),
        Constraint::events(0xb7, 0xbd, 0xf),
        Constraint::events(0xd0, 0xe6, 0xf),
        Constraint::events(0xef, 0xf4, 0xf),
    ],
};

/// In-tree: `intel_icl_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x3f_ffff_bfff),
        Encoding::new(0x01bb, ExtraRegister::OffcoreRsp1, 0x3f_ffff_bfff),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
    // FRONTEND_RETIRED.
    &[Encoding::new(0x01c6, ExtraRegister::Frontend, 0x7f_ff17)],
]);

/// The instruction TLB: only misses are counted.
const TLB_CACHE: [CacheEvents; 1] = [misses(Cache::Itlb, Operation::Read, 0x0e85)];

/// In-tree: `snc_hw_cache_extra_regs`.
const SERVER_CACHE: [CacheEvents; 4] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0x3f_bfc0_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x3f_3ffc_0002,
        0x3f_3fc0_0002,
    ),
    offcore(
        Cache::Node,
        Operation::Read,
        0x01b7,
        0x1_0400_0001,
        0x7_3000_0001,
    ),
    offcore(
        Cache::Node,
        Operation::Write,
        0x01b7,
        0x1_0400_0002,
        0x7_3000_0002,
    ),
];
