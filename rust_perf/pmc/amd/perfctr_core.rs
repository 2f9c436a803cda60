// SPDX-License-Identifier: GPL-2.0

//! The core performance counter extensions, PerfCtrExtCore: six counters at
//! addresses of their own (APM vol. 2, "Core Performance Monitoring Counters").

use super::{
    super::generation::Generation,
    msr, //
};

pub(super) static PERFCTR_CORE: Generation = Generation {
    name: "AMD PerfCtrExtCore",
    eventsel: msr::CTL,
    counter: msr::CTR,
    fixed: None,
    global: None,
    masks_lvtpc: false,
};

/// The number of counters, unless PerfMonV2 enumerates it.
pub(super) const COUNTERS: u8 = 6;
