// SPDX-License-Identifier: GPL-2.0

//! Core and Core 2.

use super::{
    super::{
        cache::{
            counted,
            Cache,
            CacheEvents,
            Operation, //
        },
        constraint::{
            Constraint,
            Constraints, //
        },
        named::Events, //
    },
    events::{
        with,
        NO_SUCH_OPERATION,
        PSEUDO,
        THREE_FIXED, //
    }, //
};

/// In-tree: `intel_core_event_constraints`.
pub(super) static CORE: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // FP_ASSIST, MUL, DIV.
        Constraint::events(0x11, 0x13, 0b10),
        // CYCLES_DIV_BUSY.
        Constraint::event(0x14, 0b01),
        // DELAYED_BYPASS.
        Constraint::event(0x19, 0b10),
        // FP_COMP_INSTR_RET.
        Constraint::event(0xc1, 0b01),
    ],
});

/// In-tree: `intel_core2_event_constraints`.
pub(super) static CORE2: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // FP_COMP_OPS_EXE.
        Constraint::event(0x10, 0b01),
        // FP_ASSIST, MUL, DIV.
        Constraint::events(0x11, 0x13, 0b10),
        // CYCLES_DIV_BUSY.
        Constraint::event(0x14, 0b01),
        // IDLE_DURING_DIV.
        Constraint::event(0x18, 0b01),
        // DELAYED_BYPASS.
        Constraint::event(0x19, 0b10),
        // RS_UOPS_DISPATCHED.
        Constraint::event(0xa1, 0b01),
        // ITLB_MISS_RETIRED.
        Constraint::event(0xc9, 0b01),
        // MEM_LOAD_RETIRED.
        Constraint::event(0xcb, 0b01),
    ],
})
.with_cache(&[&CACHE, &NO_SUCH_OPERATION]);

/// In-tree: `core2_hw_cache_event_ids`.
const CACHE: [CacheEvents; 10] = [
    counted(Cache::L1d, Operation::Read, 0x0f40, 0x0140),
    counted(Cache::L1d, Operation::Write, 0x0f41, 0x0141),
    counted(Cache::L1d, Operation::Prefetch, 0x104e, 0),
    counted(Cache::L1i, Operation::Read, 0x0080, 0x0081),
    counted(Cache::Ll, Operation::Read, 0x4f29, 0x4129),
    counted(Cache::Ll, Operation::Write, 0x4f2a, 0x412a),
    counted(Cache::Dtlb, Operation::Read, 0x0f40, 0x0208),
    counted(Cache::Dtlb, Operation::Write, 0x0f41, 0x0808),
    counted(Cache::Itlb, Operation::Read, 0x00c0, 0x1282),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x00c5),
];
