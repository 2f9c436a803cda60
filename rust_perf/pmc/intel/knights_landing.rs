// SPDX-License-Identifier: GPL-2.0

//! Knights Landing and Knights Mill.

use super::{
    super::{
        cache::{
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
    silvermont, //
};

/// The table of the model.
pub(super) static KNIGHTS_LANDING: Events = with(SIMPLE)
    .with_cache(&[&silvermont::CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION])
    .with_extra(EXTRA);

/// In-tree: `intel_knl_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x79_9ffb_b6e7),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0x39_9ffb_ffe7),
    ],
]);

/// In-tree: `knl_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 3] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x3f_81f8_0002,
    ),
    offcore(
        Cache::Ll,
        Operation::Prefetch,
        0x01b7,
        0x1_0030,
        0x3f_81f8_0030,
    ),
];
