// SPDX-License-Identifier: GPL-2.0

//! Performance monitoring version 2, PerfMonV2: global control and status of all
//! counters (APM vol. 2, "Performance Monitoring Counter Global Registers").

use super::{
    super::generation::{
        Generation,
        GlobalRegisters, //
    },
    msr, //
};

pub(super) static V2: Generation = Generation {
    name: "AMD PerfMonV2",
    eventsel: msr::CTL,
    counter: msr::CTR,
    fixed: None,
    global: Some(&GLOBAL),
    masks_lvtpc: false,
};

/// The global control and status.
pub(super) static GLOBAL: GlobalRegisters = GlobalRegisters {
    ctrl: msr::GLOBAL_CTL,
    status: msr::GLOBAL_STATUS,
    clear: msr::GLOBAL_STATUS_CLR,
    clears_while_on: false,
};
