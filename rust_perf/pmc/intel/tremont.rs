// SPDX-License-Identifier: GPL-2.0

//! Tremont.

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
pub(super) static TREMONT: Events = with(SIMPLE).with_extra(EXTRA);

/// In-tree: `intel_tnt_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x800f_f0ff_ffff_9fff),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0xf_f0ff_ffff_9fff),
    ],
]);
