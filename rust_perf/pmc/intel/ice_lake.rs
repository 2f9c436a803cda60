// SPDX-License-Identifier: GPL-2.0

//! Ice Lake, Tiger Lake and Rocket Lake.

use super::{
    super::{
        constraint::{
            Constraint,
            Constraints,
            FixedEvent, //
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
        PSEUDO, //
    }, //
};

/// In-tree: `intel_icl_event_constraints`.
pub(super) static ICE_LAKE: Events = with(Constraints {
    fixed: &[
        // INST_RETIRED.ANY, and INST_RETIRED.PREC_DIST.
        FixedEvent::new(0x00c0, 0),
        FixedEvent::new(0x0100, 0),
        FixedEvent::new(0x01c0, 0),
        // CPU_CLK_UNHALTED.THREAD.
        FixedEvent::new(0x003c, 1),
        FixedEvent::new(0x0200, 1),
        // CPU_CLK_UNHALTED.REF_TSC.
        FixedEvent::new(0x0300, 2),
        // TOPDOWN.SLOTS.
        FixedEvent::new(0x0400, 3),
    ],
    gp: &[
        PSEUDO,
        Constraint::events(0x03, 0x0a, 0xf),
        Constraint::events(0x1f, 0x28, 0xf),
        // SW_PREFETCH_ACCESS.
        Constraint::event(0x32, 0xf),
        Constraint::events(0x48, 0x56, 0xf),
        Constraint::events(0x60, 0x8b, 0xf),
        // CYCLE_ACTIVITY: without execution; memory accesses pending.
        Constraint::code(0x04a3, 0xff),
        Constraint::code(0x10a3, 0xff),
        Constraint::code(0x14a3, 0xff),
        // The rest of CYCLE_ACTIVITY.
        Constraint::event(0xa3, 0xf),
        Constraint::events(0xa8, 0xb0, 0xf),
        Constraint::events(0xb7, 0xbd, 0xf),
        Constraint::events(0xd0, 0xe6, 0xf),
        Constraint::events(0xef, 0xf4, 0xf),
    ],
})
.with_extra(EXTRA);

/// In-tree: `intel_icl_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x3f_ffff_bfff),
        Encoding::new(0x01bb, ExtraRegister::OffcoreRsp1, 0x3f_ffff_bfff),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
    // FRONTEND_RETIRED.
    &[Encoding::new(0x01c6, ExtraRegister::Frontend, 0x7f_ff17)],
]);
