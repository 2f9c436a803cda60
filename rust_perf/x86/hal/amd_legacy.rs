// SPDX-License-Identifier: GPL-2.0

//! AMD's counters since K7: four, each with its own control (APM vol. 2,
//! "Performance Monitoring Counters").

use super::{
    generation::Generation,
    msr::amd, //
};
use crate::pmc::event::EventSel;

pub(super) static AMD_LEGACY: Generation = Generation {
    name: "AMD legacy counters",
    eventsel: amd::LEGACY_EVTSEL,
    counter: amd::LEGACY_CTR,
    fixed: None,
    global: None,
    masks_lvtpc: false,
    config_mask: EventSel::AMD,
    fixed_events: &[],
};

/// The number of counters, which nothing enumerates.
pub(super) const COUNTERS: u8 = 4;
