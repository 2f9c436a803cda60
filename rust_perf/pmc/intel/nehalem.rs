// SPDX-License-Identifier: GPL-2.0

//! Nehalem.

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

/// In-tree: `intel_nehalem_event_constraints`.
pub(super) static NEHALEM: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // L1D_CACHE_LD, L1D_CACHE_ST, L1D_CACHE_LOCK, L1D_ALL_REF.
        Constraint::events(0x40, 0x43, 0b0011),
        // L1D_PEND_MISS.
        Constraint::event(0x48, 0b0011),
        // L1D_PREFETCH.
        Constraint::event(0x4e, 0b0011),
        // L1D.
        Constraint::event(0x51, 0b0011),
        // CACHE_LOCK_CYCLES.
        Constraint::event(0x63, 0b0011),
    ],
})
.with_extra(EXTRA);

/// In-tree: `intel_nehalem_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0xffff)],
    // MEM_INST_RETIRED.LATENCY_ABOVE_THRESHOLD.
    &[Encoding::new(0x100b, ExtraRegister::LoadLatency, 0xffff)],
]);
