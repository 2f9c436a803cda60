// SPDX-License-Identifier: GPL-2.0

//! AMD's performance monitoring version 2, PerfMonV2: global control of, and
//! status for, all counters (APM vol. 2, "Performance Monitoring Counter
//! Global Registers").

use super::{
    generation::{
        Generation,
        GlobalRegisters, //
    },
    msr::amd,
    CpuidLeaf, //
};

pub(super) static AMD_V2: Generation = Generation {
    name: "AMD PerfMonV2",
    eventsel: amd::CTL,
    counter: amd::CTR,
    fixed: None,
    global: Some(&GLOBAL),
    reservable: true,
    masks_lvtpc: false,
};

pub(super) static GLOBAL: GlobalRegisters = GlobalRegisters {
    ctrl: amd::GLOBAL_CTL,
    status: amd::GLOBAL_STATUS,
    clear: amd::GLOBAL_STATUS_CLR,
    clears_while_on: false,
};

/// CPUID.80000022H:EAX: there is version 2 (APM vol. 3, appendix E).
pub(super) const CPUID_EAX: u32 = 1 << 0;

/// The number of counters, from CPUID leaf 80000022H (ibid.).
pub(super) const fn counters(leaf: CpuidLeaf) -> u8 {
    (leaf.ebx & 0xf) as u8
}
