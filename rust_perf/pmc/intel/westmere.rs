// SPDX-License-Identifier: GPL-2.0

//! Westmere.

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
});
