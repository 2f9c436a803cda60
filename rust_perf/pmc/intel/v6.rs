// SPDX-License-Identifier: GPL-2.0

//! Version 6: counters enumerated by bitmaps, in a register range with room for
//! 32 of each kind, and two more fields in EVENTSEL (SDM vol. 3, "Architectural
//! Performance Monitoring Version 6").

use super::{
    super::{
        counter::CounterSet,
        event::EventSel,
        generation::{
            FixedRegisters,
            Generation, //
        },
        CpuidLeaf, //
    },
    cpuid::{
        Leaf07_1Eax,
        Leaf23Eax,
        Leaf23Ebx, //
    },
    msr,
    v2, //
};

/// All CPUs. Every write to a counter is at its full width.
pub(super) static V6: Generation = Generation {
    name: "architectural perfmon v6",
    eventsel: msr::GP_CFG_A,
    counter: msr::GP_CTR,
    fixed: Some(FixedRegisters {
        ctrl: msr::FIXED_CTR_CTRL,
        counter: msr::FX_CTR,
        metrics: msr::PERF_METRICS,
    }),
    global: Some(&v2::GLOBAL),
    masks_lvtpc: true,
};

/// CPUID leaf 23H. Where it enumerates something, it overrides leaf 0AH.
pub(super) struct ExtendedLeaf {
    /// The counters that exist, if it enumerates them.
    pub(super) counters: Option<CounterSet>,
    /// The mask of the fields that it adds to EVENTSEL.
    pub(super) fields: u64,
    /// Whether EVENTSEL and FIXED_CTR_CTRL have RDPMC_USER_DISABLE.
    pub(super) rdpmc_user_disable: bool,
    /// The architectural events that are missing, if it enumerates them.
    pub(super) missing_events: Option<u32>,
}

/// Reads leaf 23H, if it exists.
pub(super) fn extended_leaf(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<ExtendedLeaf> {
    if !Leaf07_1Eax::from_raw(cpuid(7, 1).eax).has(Leaf07_1Eax::ARCH_PERF_MON_EXT) {
        return None;
    }
    let main = cpuid(0x23, 0);
    let (eax, ebx) = (Leaf23Eax::from_raw(main.eax), Leaf23Ebx::from_raw(main.ebx));
    let field = |flag, field: u64| if ebx.has(flag) { field } else { 0 };
    Some(ExtendedLeaf {
        counters: eax.has(Leaf23Eax::COUNTERS).then(|| {
            let leaf = cpuid(0x23, 1);
            CounterSet::gp(leaf.eax) | CounterSet::fixed(leaf.ebx)
        }),
        fields: field(Leaf23Ebx::UMASK2, EventSel::UMASK2.mask())
            | field(Leaf23Ebx::EQ, EventSel::EQ.mask()),
        rdpmc_user_disable: ebx.has(Leaf23Ebx::RDPMC_USER_DISABLE),
        missing_events: eax.has(Leaf23Eax::EVENTS).then(|| !cpuid(0x23, 3).eax),
    })
}
