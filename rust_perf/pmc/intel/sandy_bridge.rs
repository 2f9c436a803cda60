// SPDX-License-Identifier: GPL-2.0

//! Sandy Bridge. There are eight GP counters if Hyper-Threading is off, otherwise four.

use super::{
    super::{
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
        PSEUDO,
        THREE_FIXED, //
    }, //
};

/// The client's.
pub(super) static SANDY_BRIDGE: Events = with(CONSTRAINTS).with_extra(EXTRA);

/// The server's.
pub(super) static SANDY_BRIDGE_EP: Events = with(CONSTRAINTS).with_extra(SERVER_EXTRA);

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
        Constraint::events(0xd0, 0xd3, 0xf),
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
