// SPDX-License-Identifier: GPL-2.0

//! Sandy Bridge. There are eight GP counters if Hyper-Threading is off, otherwise four.

use super::{
    super::{
        constraint::{
            Constraint,
            Constraints, //
        },
        named::Events, //
    },
    events::{
        with,
        PSEUDO,
        THREE_FIXED, //
    }, //
};

/// In-tree: `intel_snb_event_constraints`.
pub(super) static SANDY_BRIDGE: Events = with(Constraints {
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
});
