// SPDX-License-Identifier: GPL-2.0

//! Silvermont and Airmont.

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
pub(super) static SILVERMONT: Events = with(SIMPLE).with_extra(EXTRA);

/// In-tree: `intel_slm_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x76_8005_ffff),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0x36_8005_ffff),
    ],
]);
