// SPDX-License-Identifier: GPL-2.0

//! Skylake, and what came until Comet Lake. There are eight GP counters if Hyper-Threading is off, otherwise four.

use super::{
    super::{
        cache::{
            counted,
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
        NO_SUCH_OPERATION,
        PSEUDO,
        THREE_FIXED, //
    },
    topdown,
    transactions, //
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
.with_cache(&[&CACHE, &TLB_CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION])
.with_extra(EXTRA)
.with_topdown(topdown::SKYLAKE)
.with_transactions(transactions::HASWELL)
.with_late_unmasking();

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

/// What is within the core, without the instruction TLB, on Ice Lake, too. In-tree:
/// `skl_hw_cache_event_ids`.
pub(super) const CACHE: [CacheEvents; 6] = [
    counted(Cache::L1d, Operation::Read, 0x81d0, 0x0151),
    counted(Cache::L1d, Operation::Write, 0x82d0, 0),
    counted(Cache::L1i, Operation::Read, 0, 0x0283),
    counted(Cache::Dtlb, Operation::Read, 0x81d0, 0x0e08),
    counted(Cache::Dtlb, Operation::Write, 0x82d0, 0x0e49),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x00c5),
];

/// The instruction TLB.
const TLB_CACHE: [CacheEvents; 1] = [counted(Cache::Itlb, Operation::Read, 0x2085, 0x0e85)];

/// In-tree: `skl_hw_cache_extra_regs`.
pub(super) const OFFCORE_CACHE: [CacheEvents; 4] = [
    offcore(
        Cache::Ll,
        Operation::Read,
        0x01b7,
        0x3f_c001_0001,
        0x3f_fc02_0001,
    ),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x3f_c001_0002,
        0x3f_fc02_0002,
    ),
    offcore(
        Cache::Node,
        Operation::Read,
        0x01b7,
        0x1f_c400_0001,
        0x1f_f800_0001,
    ),
    offcore(
        Cache::Node,
        Operation::Write,
        0x01b7,
        0x1f_c400_0002,
        0x1f_f800_0002,
    ),
];
