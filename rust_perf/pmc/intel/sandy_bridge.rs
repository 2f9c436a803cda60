// SPDX-License-Identifier: GPL-2.0

//! Sandy Bridge. There are eight GP counters if Hyper-Threading is off, otherwise four.

use super::{
    super::{
        cache::{
            counted,
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
        named::{
            always,
            EventName,
            Events,
            NamedEvent, //
        }, //
    },
    events::{
        with,
        NAMED,
        NO_SUCH_OPERATION,
        PSEUDO,
        THREE_FIXED, //
    },
    nehalem,
    topdown, //
};

/// The client's.
pub(super) static SANDY_BRIDGE: Events = model(EXTRA);

/// The server's.
pub(super) static SANDY_BRIDGE_EP: Events = model(SERVER_EXTRA);

const fn model(extra: ExtraEvents) -> Events {
    with(CONSTRAINTS)
        .with_named(&[&NAMED, &nehalem::FRONTEND_STALLS, &BACKEND_STALLS])
        .with_cache(&[&CACHE, &TLB_CACHE, &NO_SUCH_OPERATION])
        .with_extra(extra)
        .with_topdown(topdown::SANDY_BRIDGE)
}

/// In-tree: `intel_snb_event_constraints`.
const CONSTRAINTS: Constraints = Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // CYCLE_ACTIVITY: without dispatch; L2 misses pending.
        Constraint::code(0x04a3, 0xf),
        Constraint::code(0x05a3, 0xf),
        // CYCLE_ACTIVITY: L1D misses pending.
        Constraint::code(0x02a3, 0b0100),
        Constraint::code(0x06a3, 0b0100),
        // L1D_PEND_MISS.
        Constraint::event(0x48, 0b0100),
        // INST_RETIRED.PREC_DIST.
        Constraint::code(0x01c0, 0b0010),
        // MEM_TRANS_RETIRED.
        Constraint::event(0xcd, 0b1000),
        // MEM_UOPS_RETIRED, MEM_LOAD_UOPS_*.
        Constraint::events(0xd0, 0xd3, 0xf).exclusive(),
    ],
};

/// Of clients, Ivy Bridge included. In-tree: `intel_snb_extra_regs`.
pub(super) const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x3f_807f_8fff),
        Encoding::new(0x01bb, ExtraRegister::OffcoreRsp1, 0x3f_807f_8fff),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
]);

/// Of servers, and from Haswell on of all. In-tree: `intel_snbep_extra_regs`.
pub(super) const SERVER_EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x3f_ffff_8fff),
        Encoding::new(0x01bb, ExtraRegister::OffcoreRsp1, 0x3f_ffff_8fff),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
]);

/// All but the loads of the data TLB, which are different on Ivy Bridge. OFFCORE_RSP has the
/// requests in bits 15:0 and the responses above (SDM vol. 3, "Off-core Response Performance
/// Monitoring"). Clients do not have all these bits. In-tree: `snb_hw_cache_event_ids` and
/// `snb_hw_cache_extra_regs`.
pub(super) const CACHE: [CacheEvents; 13] = [
    counted(Cache::L1d, Operation::Read, 0xf1d0, 0x0151),
    counted(Cache::L1d, Operation::Write, 0xf2d0, 0x0851),
    counted(Cache::L1d, Operation::Prefetch, 0, 0x024e),
    counted(Cache::L1i, Operation::Read, 0, 0x0280),
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0081, 0x3f_ffc0_0081),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0102,
        0x3f_ffc0_0102,
    ),
    offcore(
        Cache::Ll,
        Operation::Prefetch,
        0x01b7,
        0x1_0030,
        0x3f_ffc0_0030,
    ),
    counted(Cache::Dtlb, Operation::Write, 0x82d0, 0x0149),
    counted(Cache::Itlb, Operation::Read, 0x1085, 0x0185),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x00c5),
    offcore(
        Cache::Node,
        Operation::Read,
        0x01b7,
        0x1f_ffc0_0081,
        0x1f_ff80_0081,
    ),
    offcore(
        Cache::Node,
        Operation::Write,
        0x01b7,
        0x1f_ffc0_0102,
        0x1f_ff80_0102,
    ),
    offcore(
        Cache::Node,
        Operation::Prefetch,
        0x01b7,
        0x1f_ffc0_0030,
        0x1f_ff80_0030,
    ),
];

/// Loads of the data TLB.
const TLB_CACHE: [CacheEvents; 1] = [counted(Cache::Dtlb, Operation::Read, 0x81d0, 0x0108)];

/// Cycles without UOPS_DISPATCHED.THREAD.
const BACKEND_STALLS: [NamedEvent; 1] = [always(
    EventName::StalledCyclesBackend,
    nehalem::without(0x01b1),
)];
