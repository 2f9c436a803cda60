// SPDX-License-Identifier: GPL-2.0

//! Diamond Rapids (Panther Cove), and the performance cores of Nova Lake (Coyote Cove).

use super::{
    super::{
        cache::{
            invalid,
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
    events::{
        with,
        NAMED,
        NO_SUCH_OPERATION,
        PSEUDO,
        REF_CYCLES, //
    },
    golden_cove,
    topdown,
    transactions, //
};

/// Diamond Rapids.
pub(super) static PANTHER_COVE: Events =
    model(&[&golden_cove::CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION]);

/// The performance cores of Nova Lake.
pub(super) static COYOTE_COVE: Events = model(&[
    &golden_cove::CACHE,
    &COYOTE_OFFCORE_CACHE,
    &NO_SUCH_OPERATION,
]);

const fn model(cache: &'static [&'static [CacheEvents]]) -> Events {
    with(CONSTRAINTS)
        .with_named(&[&REF_CYCLES, &NAMED])
        .with_cache(cache)
        .with_extra(EXTRA)
        .with_topdown(topdown::GOLDEN_COVE)
        .with_transactions(transactions::GOLDEN_COVE)
        .with_late_unmasking()
}

/// In-tree: `intel_pnc_event_constraints`.
const CONSTRAINTS: Constraints = Constraints {
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
};

/// The bits that are valid in each MSR_OMR.
const OMR: u64 = 0x40ff_ffff_0000_ffff;

/// In-tree: `intel_pnc_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // Responses from outside the module: three events.
    &[
        Encoding::new(0x012a, ExtraRegister::Omr0, OMR),
        Encoding::new(0x022a, ExtraRegister::Omr1, OMR),
        Encoding::new(0x042a, ExtraRegister::Omr2, OMR),
        Encoding::new(0x082a, ExtraRegister::Omr3, OMR),
    ],
    &[
        Encoding::new(0x014f, ExtraRegister::Omr0, OMR),
        Encoding::new(0x024f, ExtraRegister::Omr1, OMR),
        Encoding::new(0x044f, ExtraRegister::Omr2, OMR),
        Encoding::new(0x084f, ExtraRegister::Omr3, OMR),
    ],
    &[
        Encoding::new(0x01d6, ExtraRegister::Omr0, OMR),
        Encoding::new(0x02d6, ExtraRegister::Omr1, OMR),
        Encoding::new(0x04d6, ExtraRegister::Omr2, OMR),
        Encoding::new(0x08d6, ExtraRegister::Omr3, OMR),
    ],
    // MEM_TRANS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x01cd, ExtraRegister::LoadLatency, 0xffff)],
    // FRONTEND_RETIRED.MISP_ANT.
    &[Encoding::new(0x02c6, ExtraRegister::Frontend, 0x9)],
    // FRONTEND_RETIRED, all others.
    &[Encoding::new(0x03c6, ExtraRegister::Frontend, 0x7f_ff1f)],
    // INT_MISC.UNKNOWN_BRANCH_CYCLES.
    &[Encoding::new(0x40ad, ExtraRegister::Frontend, 0xf)],
    // UOPS_RETIRED.MS.
    &[Encoding::new(0x04c2, ExtraRegister::Frontend, 0x8)],
]);

/// In-tree: `pnc_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 3] = [
    offcore(
        Cache::Ll,
        Operation::Read,
        0x012a,
        0x4000_0000_0000_0001,
        0xff_fff0_0000_0001,
    ),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x012a,
        0x4000_0000_0000_0002,
        0xff_fff0_0000_0002,
    ),
    invalid(Cache::Node, Operation::Read),
];

/// In-tree: `cyc_hw_cache_extra_regs`.
const COYOTE_OFFCORE_CACHE: [CacheEvents; 3] = [
    offcore(
        Cache::Ll,
        Operation::Read,
        0x012a,
        0x4000_0000_0000_0001,
        0xff_03f0_0000_0001,
    ),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x012a,
        0x4000_0000_0000_0002,
        0xff_03f0_0000_0002,
    ),
    invalid(Cache::Node, Operation::Read),
];
