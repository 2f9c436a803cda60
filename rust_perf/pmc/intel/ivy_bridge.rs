// SPDX-License-Identifier: GPL-2.0

//! Ivy Bridge. There are eight GP counters if Hyper-Threading is off, otherwise four.

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
        extra::ExtraEvents,
        named::Events, //
    },
    events::{
        with,
        NAMED,
        NO_SUCH_OPERATION,
        PSEUDO,
        THREE_FIXED, //
    },
    nehalem,
    sandy_bridge,
    topdown, //
};

/// The client's.
pub(super) static IVY_BRIDGE: Events = model(sandy_bridge::EXTRA);

/// The server's.
pub(super) static IVY_BRIDGE_EP: Events = model(sandy_bridge::SERVER_EXTRA);

const fn model(extra: ExtraEvents) -> Events {
    with(CONSTRAINTS)
        .with_named(&[&NAMED, &nehalem::FRONTEND_STALLS])
        .with_cache(&[&sandy_bridge::CACHE, &TLB_CACHE, &NO_SUCH_OPERATION])
        .with_extra(extra)
        .with_topdown(topdown::SANDY_BRIDGE)
}

/// In-tree: `intel_ivb_event_constraints`.
const CONSTRAINTS: Constraints = Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // L1D_PEND_MISS.PENDING.
        Constraint::code(0x0148, 0b0100),
        // IDQ.EMPTY.
        Constraint::code(0x0279, 0xf),
        // IDQ_UOPS_NOT_DELIVERED.CORE.
        Constraint::code(0x019c, 0xf),
        // CYCLE_ACTIVITY: loads pending; without execution; L2 misses pending.
        Constraint::code(0x02a3, 0xf),
        Constraint::code(0x04a3, 0xf),
        Constraint::code(0x05a3, 0xf),
        Constraint::code(0x06a3, 0xf),
        // CYCLE_ACTIVITY: L1D misses pending.
        Constraint::code(0x08a3, 0b0100),
        Constraint::code(0x0ca3, 0b0100),
        // INST_RETIRED.PREC_DIST.
        Constraint::code(0x01c0, 0b0010),
        // MEM_UOPS_RETIRED, MEM_LOAD_UOPS_*.
        Constraint::events(0xd0, 0xd3, 0xf).exclusive(),
    ],
};

/// Loads of the data TLB (DTLB_LOAD_MISSES.DEMAND_LD_MISS_CAUSES_A_WALK).
const TLB_CACHE: [CacheEvents; 1] = [counted(Cache::Dtlb, Operation::Read, 0x81d0, 0x8108)];
