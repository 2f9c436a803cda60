// SPDX-License-Identifier: GPL-2.0

//! Knights Landing and Knights Mill.

use super::{
    super::{
        extra::{
            Encoding,
            ExtraEvents,
            ExtraRegister, //
        },
        named::Events, //
    },
    events::{
        with,
        SIMPLE, //
    }, //
};

/// The table of the model.
pub(super) static KNIGHTS_LANDING: Events = with(SIMPLE).with_extra(EXTRA);

/// In-tree: `intel_knl_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_cpu(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x79_9ffb_b6e7),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0x39_9ffb_ffe7),
    ],
]);
