// SPDX-License-Identifier: GPL-2.0

//! Skylake, and what came until Comet Lake. There are eight GP counters if Hyper-Threading is off, otherwise four.

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

/// In-tree: `intel_skl_event_constraints`.
pub(super) static SKYLAKE: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // INST_RETIRED.PREC_DIST.
        Constraint::code(0x01c0, 0b0010),
        // FRONTEND_RETIRED.
        Constraint::event(0xc6, 0xf),
        // MEM_TRANS_RETIRED.
        Constraint::event(0xcd, 0xf),
        // MEM_INST_RETIRED, MEM_LOAD_*.
        Constraint::events(0xd0, 0xd2, 0xf),
    ],
})
.with_extra(EXTRA);

/// In-tree: `intel_skl_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x3f_ffff_8fff),
        Encoding::new(0x01bb, ExtraRegister::OffcoreRsp1, 0x3f_ffff_8fff),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
    // FRONTEND_RETIRED.
    &[Encoding::new(0x01c6, ExtraRegister::Frontend, 0x7f_ff17)],
]);
