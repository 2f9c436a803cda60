// SPDX-License-Identifier: GPL-2.0

//! AMD's counters since K7: four, each with its own control (APM vol. 2,
//! "Performance Monitoring Counters").

use super::{
    generation::Generation,
    msr::amd, //
};

pub(super) static AMD_LEGACY: Generation = Generation {
    name: "AMD legacy counters",
    eventsel: amd::LEGACY_EVTSEL,
    counter: amd::LEGACY_CTR,
    fixed: None,
    global: None,
    reservable: true,
    masks_lvtpc: false,
};

/// The number of counters, which nothing enumerates.
pub(super) const COUNTERS: u8 = 4;
