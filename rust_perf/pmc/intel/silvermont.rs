// SPDX-License-Identifier: GPL-2.0

//! Silvermont and Airmont.

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

/// The table of the model.
pub(super) static SILVERMONT: Events = with(SIMPLE)
    .with_cache(&[&CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION])
    .with_extra(EXTRA)
    .with_topdown(topdown::SILVERMONT);

/// In-tree: `intel_slm_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x76_8005_ffff),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0x36_8005_ffff),
    ],
]);

/// What is within the core, on Knights Landing, too. In-tree: `slm_hw_cache_event_ids`.
pub(super) const CACHE: [CacheEvents; 5] = [
    counted(Cache::L1d, Operation::Read, 0, 0x0104),
    counted(Cache::L1i, Operation::Read, 0x0380, 0x0280),
    counted(Cache::Dtlb, Operation::Read, 0, 0x0804),
    counted(Cache::Itlb, Operation::Read, 0x00c0, 0x4_0205),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x00c5),
];

/// In-tree: `slm_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 3] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x36_8000_0002,
    ),
    offcore(
        Cache::Ll,
        Operation::Prefetch,
        0x01b7,
        0x1_0030,
        0x36_8000_0030,
    ),
];
