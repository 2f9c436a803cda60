// SPDX-License-Identifier: GPL-2.0

//! Diamond Rapids.

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
        PSEUDO, //
    },
    golden_cove, //
};

/// In-tree: `intel_pnc_event_constraints`.
pub(super) static PANTHER_COVE: Events = with(Constraints {
    fixed: golden_cove::FIXED,
    gp: &[
        PSEUDO,
        Constraint::event(0x20, 0xf),
        Constraint::event(0x79, 0xf),
        Constraint::code(0x0446, 0xf),
        Constraint::code(0x0846, 0xf),
        Constraint::code(0x0847, 0xf),
        Constraint::code(0x0148, 0xf),
        Constraint::code(0x0275, 0xf),
        Constraint::code(0x0176, 0xf),
        // TOPDOWN.BAD_SPEC_SLOTS, TOPDOWN.BR_MISPREDICT_SLOTS.
        Constraint::code(0x04a4, 0b0001),
        Constraint::code(0x08a4, 0b0001),
        Constraint::code(0x01b1, 0b1000),
        Constraint::code(0x01b2, 0xf),
        Constraint::code(0x02b2, 0xf),
        // MEM_TRANS_RETIRED.LOAD_LATENCY, MEM_TRANS_RETIRED.STORE_SAMPLE.
        Constraint::code(0x01cd, 0b1111_1100),
        Constraint::code(0x02cd, 0b0011),
        // AMX_OPS_RETIRED.
        Constraint::event(0xce, 0b0001),
        // MEM_INST_RETIRED, MEM_LOAD_*.
        Constraint::event(0xd0, 0xf),
        Constraint::event(0xd1, 0xf),
        Constraint::event(0xd4, 0xf),
        Constraint::event(0xd6, 0xf),
        Constraint::event(0xdf, 0xf),
    ],
});
