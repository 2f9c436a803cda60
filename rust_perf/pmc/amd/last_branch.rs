// SPDX-License-Identifier: GPL-2.0

//! The branch records of AMD's CPUs: LbrExtV2 (APM vol. 2, "Last Branch Stack Registers").

use super::{
    super::{
        counter::CounterSet,
        lbr::{
            layout::{
                Amd,
                Layout, //
            },
            Lbr,
            MAX_DEPTH, //
        },
        CpuidLeaf, //
    },
    cpuid::{
        Leaf80000008Eax,
        Leaf80000022Eax,
        Leaf80000022Ebx, //
    }, //
};

/// What CPUID enumerates. `None` if the CPU has none.
pub(super) fn detect(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Lbr> {
    let leaf = cpuid(0x8000_0022, 0);
    let features = Leaf80000022Eax::from_raw(leaf.eax);
    let depth = Leaf80000022Ebx::from_raw(leaf.ebx).get(Leaf80000022Ebx::LBR_ENTRIES) as usize;
    let sizes = Leaf80000008Eax::from_raw(cpuid(0x8000_0008, 0).eax);
    // No CPU has more records than the driver has room for.
    if !features.has(Leaf80000022Eax::LBR_STACK) || !(1..=MAX_DEPTH).contains(&depth) {
        return None;
    }
    Some(Lbr {
        depth: depth as u8,
        layout: Layout::Amd(Amd {
            freezes: features.has(Leaf80000022Eax::LBR_AND_PMC_FREEZE),
            address_bits: sizes.get(Leaf80000008Eax::ADDRESS_BITS) as u8,
        }),
        selects_levels: true,
        selects_kinds: true,
        has_call_stack: false,
        is_lost_in_deep_c: false,
        has_kind: false,
        has_cycles: false,
        has_prediction: true,
        logged: CounterSet::EMPTY,
    })
}
