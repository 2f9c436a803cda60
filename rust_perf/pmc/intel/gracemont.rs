// SPDX-License-Identifier: GPL-2.0

//! Gracemont and Crestmont. Every GP counter counts every event.

use super::{
    super::{
        constraint::{
            Constraints,
            FixedEvent, //
        },
        named::Events, //
    },
    events::{
        with,
        PSEUDO, //
    }, //
};

/// In-tree: `intel_grt_event_constraints`.
pub(super) static GRACEMONT: Events = with(Constraints {
    fixed: &[
        // INST_RETIRED.ANY.
        FixedEvent::new(0x00c0, 0),
        FixedEvent::new(0x0100, 0),
        // CPU_CLK_UNHALTED.CORE.
        FixedEvent::new(0x003c, 1),
        FixedEvent::new(0x0200, 1),
        // CPU_CLK_UNHALTED.REF_TSC.
        FixedEvent::new(0x0300, 2),
        FixedEvent::new(0x013c, 2),
    ],
    gp: &[PSEUDO],
});
