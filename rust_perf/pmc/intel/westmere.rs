// SPDX-License-Identifier: GPL-2.0

//! Westmere.

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
.with_extra(EXTRA);

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
