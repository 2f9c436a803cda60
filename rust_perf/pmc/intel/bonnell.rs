// SPDX-License-Identifier: GPL-2.0

//! Bonnell and Saltwell.

use super::{
    super::named::Events,
    events::{
        with,
        SIMPLE, //
    }, //
};

/// The table of the models.
pub(super) static BONNELL: Events = with(SIMPLE);
