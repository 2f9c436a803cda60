// SPDX-License-Identifier: GPL-2.0

//! Arctic Wolf: the efficient cores of Nova Lake.

use super::{
    super::{
        cache::{
            offcore,
            Cache,
            CacheEvents,
            Operation, //
        },
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
    darkmont,
    events::{
        with,
        NAMED,
        NO_SUCH_OPERATION,
        PSEUDO,
        REF_CYCLES, //
    },
    goldmont,
    topdown,
    tremont, //
};

/// In-tree: `intel_arw_event_constraints`.
pub(super) static ARCTIC_WOLF: Events = with(Constraints {
    fixed: darkmont::FIXED,
    gp: &[
        PSEUDO,
        // OMR: each register belongs to a counter.
        Constraint::code(0x01b7, 0b0001),
        Constraint::code(0x02b7, 0b0010),
        Constraint::code(0x04b7, 0b0100),
        Constraint::code(0x08b7, 0b1000),
        Constraint::code(0x0175, 0b0001),
        Constraint::code(0x0275, 0b0010),
        Constraint::code(0x21d3, 0b0001),
        Constraint::code(0x22d3, 0b0001),
    ],
})
.with_named(&[&REF_CYCLES, &NAMED])
.with_cache(&[
    &goldmont::PLUS_CACHE,
    &tremont::TLB_CACHE,
    &OFFCORE_CACHE,
    &NO_SUCH_OPERATION,
])
.with_extra(EXTRA)
.with_topdown(topdown::DARKMONT)
.with_middle_unmasking();

/// The bits that are valid in each MSR_OMR.
const OMR: u64 = 0xc0ff_ffff_ffff_ffff;

/// In-tree: `intel_arw_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // Responses from outside the module.
    &[
        Encoding::new(0x01b7, ExtraRegister::Omr0, OMR),
        Encoding::new(0x02b7, ExtraRegister::Omr1, OMR),
        Encoding::new(0x04b7, ExtraRegister::Omr2, OMR),
        Encoding::new(0x08b7, ExtraRegister::Omr3, OMR),
    ],
    // MEM_UOPS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x05d0, ExtraRegister::LoadLatency, 0xffff)],
    // SNOOP_RESPONSE, whose registers do not stand in for each other.
    &[Encoding::new(0x0127, ExtraRegister::SnoopRsp0, u64::MAX)],
    // The second one.
    &[Encoding::new(0x0227, ExtraRegister::SnoopRsp1, u64::MAX)],
]);

/// In-tree: `arw_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(
        Cache::Ll,
        Operation::Read,
        0x01b7,
        0x4000_0000_0000_0009,
        0xff_03f0_0000_0009,
    ),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x4000_0000_0000_000a,
        0xff_03f0_0000_000a,
    ),
];
