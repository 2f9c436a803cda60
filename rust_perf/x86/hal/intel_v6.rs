// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural performance monitoring, version 6: as before, but
//! with counters of any number, in registers with room for 32 of them, and two
//! more fields in EVENTSEL (SDM vol. 3, "Architectural Performance Monitoring
//! Version 6").

use super::{
    generation::{
        FixedRegisters,
        Generation, //
    },
    intel_v2,
    msr::intel,
    CpuidLeaf, //
};
use crate::pmc::{
    counter::CounterSet,
    event::EventSel, //
};

pub(super) static INTEL_V6: Generation = Generation {
    name: "architectural perfmon v6",
    eventsel: intel::GP_CFG_A,
    counter: intel::GP_CTR,
    fixed: Some(FixedRegisters {
        ctrl: intel::FIXED_CTR_CTRL,
        counter: intel::FX_CTR,
    }),
    global: Some(&intel_v2::GLOBAL),
    reservable: false,
    masks_lvtpc: true,
};

/// CPUID.(EAX=07H,ECX=1):EAX: there is leaf 23H (SDM vol. 2, CPUID).
const CPUID_EAX: u32 = 1 << 8;

/// CPUID leaf 23H, which has the last word on what leaf 0AH says too (SDM
/// vol. 2, CPUID, "Architectural Performance Monitoring Extended Leaf").
pub(super) struct Extended {
    /// The counters there are, if it says so.
    pub(super) counters: Option<CounterSet>,
    /// The fields that EVENTSEL has in addition.
    pub(super) fields: u64,
    /// The architectural events that are missing, if it says so.
    pub(super) missing_events: Option<u32>,
}

/// What the leaf says, if there is one.
pub(super) fn extended(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Extended> {
    if cpuid(7, 1).eax & CPUID_EAX == 0 {
        return None;
    }
    let main = cpuid(0x23, 0);
    let has = |register: u32, bit: u32| register.wrapping_shr(bit) & 1 != 0;
    let field = |bit, field| if has(main.ebx, bit) { field } else { 0 };
    let subleaf = |i| has(main.eax, i).then(|| cpuid(0x23, i));
    Some(Extended {
        counters: subleaf(1)
            .map(|leaf| CounterSet::from_bits(leaf.eax.into()) | CounterSet::fixed(leaf.ebx)),
        fields: field(0, EventSel::UMASK2) | field(1, EventSel::EQ),
        missing_events: subleaf(3).map(|leaf| !leaf.eax),
    })
}
