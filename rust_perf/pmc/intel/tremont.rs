// SPDX-License-Identifier: GPL-2.0

//! Tremont.

use super::{
    super::{
        cache::{
            misses,
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
    goldmont,
    topdown, //
};

/// The table of the model.
pub(super) static TREMONT: Events = with(SIMPLE)
    .with_cache(&[
        &goldmont::PLUS_CACHE,
        &TLB_CACHE,
        &OFFCORE_CACHE,
        &NO_SUCH_OPERATION,
    ])
    .with_extra(EXTRA)
    .with_topdown(topdown::TREMONT)
    .with_late_unmasking();

/// In-tree: `intel_tnt_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x800f_f0ff_ffff_9fff),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0xf_f0ff_ffff_9fff),
    ],
]);

/// The instruction TLB, of later models, too: only misses are counted.
pub(super) const TLB_CACHE: [CacheEvents; 1] = [misses(Cache::Itlb, Operation::Read, 0x0481)];

/// In-tree: `tnt_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0x3f_0400_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x3f_0400_0002,
    ),
];
