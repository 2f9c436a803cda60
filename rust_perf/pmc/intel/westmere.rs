// SPDX-License-Identifier: GPL-2.0

//! Westmere.

use super::{
    super::{
        cache::{
            counted,
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
        THREE_FIXED, //
    },
    nehalem, //
};

/// In-tree: `intel_westmere_event_constraints`.
pub(super) static WESTMERE: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // L1D.
        Constraint::event(0x51, 0b0011),
        // OFFCORE_REQUESTS_OUTSTANDING.
        Constraint::event(0x60, 0b0001),
        // CACHE_LOCK_CYCLES.
        Constraint::event(0x63, 0b0011),
        // SNOOPQ_REQUESTS_OUTSTANDING.
        Constraint::event(0xb3, 0b0001),
    ],
})
.with_named(&[&NAMED, &nehalem::FRONTEND_STALLS, &nehalem::BACKEND_STALLS])
.with_cache(&[&CACHE, &nehalem::OFFCORE_CACHE, &NO_SUCH_OPERATION])
.with_extra(EXTRA)
.with_clearing();

/// In-tree: `intel_westmere_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0xffff),
        Encoding::new(0x01bb, ExtraRegister::OffcoreRsp1, 0xffff),
    ],
    // MEM_INST_RETIRED.LATENCY_ABOVE_THRESHOLD.
    &[Encoding::new(0x100b, ExtraRegister::LoadLatency, 0xffff)],
]);

/// In-tree: `westmere_hw_cache_event_ids`.
const CACHE: [CacheEvents; 8] = [
    counted(Cache::L1d, Operation::Read, 0x010b, 0x0151),
    counted(Cache::L1d, Operation::Write, 0x020b, 0x0251),
    counted(Cache::L1d, Operation::Prefetch, 0x014e, 0x024e),
    counted(Cache::L1i, Operation::Read, 0x0380, 0x0280),
    counted(Cache::Dtlb, Operation::Read, 0x010b, 0x0108),
    counted(Cache::Dtlb, Operation::Write, 0x020b, 0x010c),
    counted(Cache::Itlb, Operation::Read, 0x01c0, 0x0185),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x03e8),
];
