// SPDX-License-Identifier: GPL-2.0

//! Broadwell. There are eight GP counters if Hyper-Threading is off, otherwise four.

use super::{
    super::{
        constraint::{
            Constraint,
            Constraints,
            UnitMask, //
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

/// In-tree: `intel_bdw_event_constraints`.
pub(super) static BROADWELL: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // L1D_PEND_MISS.PENDING.
        Constraint::code(0x0148, 0b0100),
        // CYCLE_ACTIVITY: L1D misses pending, with any other condition.
        Constraint::new(0xfff, 0x0a3, UnitMask::Has(0x08), 0b0100),
        // MEM_TRANS_RETIRED.
        Constraint::event(0xcd, 0xf),
        // MEM_UOPS_RETIRED, MEM_LOAD_UOPS_*.
        Constraint::events(0xd0, 0xd2, 0xf),
    ],
})
.with_extra(sandy_bridge::SERVER_EXTRA);
