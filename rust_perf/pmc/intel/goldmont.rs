// SPDX-License-Identifier: GPL-2.0

//! Goldmont and Goldmont Plus.

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
pub(super) static GOLDMONT: Events = with(SIMPLE).with_extra(EXTRA);

/// In-tree: `intel_glm_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x76_0005_ffbf),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0x36_0005_ffbf),
    ],
]);
