// SPDX-License-Identifier: GPL-2.0

//! Goldmont and Goldmont Plus.

use super::{
    super::{
        cache::{
            counted,
            offcore,
            Cache,
            CacheEvents,
            Operation, //
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
        SIMPLE, //
    },
    topdown, //
};

/// Goldmont.
pub(super) static GOLDMONT: Events = with(SIMPLE)
    .with_cache(&[&CACHE, &NO_SUCH_OPERATION])
    .with_extra(EXTRA)
    .with_topdown(topdown::GOLDMONT);

/// Goldmont Plus.
pub(super) static GOLDMONT_PLUS: Events = with(SIMPLE)
    .with_cache(&[
        &PLUS_CACHE,
        &PLUS_TLB_CACHE,
        &PLUS_OFFCORE_CACHE,
        &NO_SUCH_OPERATION,
    ])
    .with_extra(EXTRA)
    .with_topdown(topdown::GOLDMONT_PLUS);

/// In-tree: `intel_glm_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x76_0005_ffbf),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0x36_0005_ffbf),
    ],
]);

/// In-tree: `glm_hw_cache_event_ids` and `glm_hw_cache_extra_regs`.
const CACHE: [CacheEvents; 10] = [
    counted(Cache::L1d, Operation::Read, 0x81d0, 0),
    counted(Cache::L1d, Operation::Write, 0x82d0, 0),
    counted(Cache::L1i, Operation::Read, 0x0380, 0x0280),
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0x36_0000_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x36_0000_0002,
    ),
    offcore(
        Cache::Ll,
        Operation::Prefetch,
        0x01b7,
        0x1_0030,
        0x36_0000_0030,
    ),
    counted(Cache::Dtlb, Operation::Read, 0x81d0, 0),
    counted(Cache::Dtlb, Operation::Write, 0x82d0, 0),
    counted(Cache::Itlb, Operation::Read, 0x00c0, 0x0481),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x00c5),
];

/// What is within the core, without the instruction TLB, of Goldmont Plus and its successors.
/// In-tree: `glp_hw_cache_event_ids`.
pub(super) const PLUS_CACHE: [CacheEvents; 6] = [
    counted(Cache::L1d, Operation::Read, 0x81d0, 0),
    counted(Cache::L1d, Operation::Write, 0x82d0, 0),
    counted(Cache::L1i, Operation::Read, 0x0380, 0x0280),
    counted(Cache::Dtlb, Operation::Read, 0x81d0, 0x0e08),
    counted(Cache::Dtlb, Operation::Write, 0x82d0, 0x0e49),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x00c5),
];

/// The instruction TLB of Goldmont Plus.
const PLUS_TLB_CACHE: [CacheEvents; 1] = [counted(Cache::Itlb, Operation::Read, 0x00c0, 0x0481)];

/// In-tree: `glp_hw_cache_extra_regs`.
const PLUS_OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0x36_0000_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x36_0000_0002,
    ),
];
