// SPDX-License-Identifier: GPL-2.0

//! Haswell. There are eight GP counters if Hyper-Threading is off, otherwise four.

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
    },
    sandy_bridge, //
};

/// In-tree: `intel_hsw_event_constraints`.
pub(super) static HASWELL: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // L1D_PEND_MISS.PENDING.
        Constraint::code(0x0148, 0b0100),
        // INST_RETIRED.PREC_DIST.
        Constraint::code(0x01c0, 0b0010),
        // MEM_TRANS_RETIRED.
        Constraint::event(0xcd, 0b1000),
        // CYCLE_ACTIVITY: L1D misses pending; without execution.
        Constraint::code(0x08a3, 0b0100),
        Constraint::code(0x0ca3, 0b0100),
        Constraint::code(0x04a3, 0xf),
        // MEM_UOPS_RETIRED, MEM_LOAD_UOPS_*.
        Constraint::events(0xd0, 0xd3, 0xf),
    ],
})
.with_extra(sandy_bridge::SERVER_EXTRA);
