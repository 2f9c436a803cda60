// SPDX-License-Identifier: GPL-2.0

//! The legacy counters, since K7: four, each with its own control (APM vol. 2,
//! "Performance Monitoring Counters").

use super::{
    super::generation::Generation,
    msr, //
};

pub(super) static LEGACY: Generation = Generation {
    name: "AMD legacy counters",
    eventsel: msr::LEGACY_EVTSEL,
    counter: msr::LEGACY_CTR,
    fixed: None,
    global: None,
    masks_lvtpc: false,
};

/// The number of counters, which CPUID does not enumerate.
pub(super) const COUNTERS: u8 = 4;
