// SPDX-License-Identifier: GPL-2.0

//! AMD's core performance counter extensions, PerfCtrExtCore: six counters at
//! addresses of their own (APM vol. 2, "Core Performance Monitoring Counters").

use super::{
    generation::Generation,
    msr::amd, //
};

pub(super) static AMD_CORE: Generation = Generation {
    name: "AMD PerfCtrExtCore",
    eventsel: amd::CTL,
    counter: amd::CTR,
    fixed: None,
    global: None,
    reservable: true,
    masks_lvtpc: false,
};

/// CPUID.80000001H:ECX: there is the extension (APM vol. 3, appendix E).
pub(super) const CPUID_ECX: u32 = 1 << 23;

/// The number of counters, unless CPUID says otherwise.
pub(super) const COUNTERS: u8 = 6;
