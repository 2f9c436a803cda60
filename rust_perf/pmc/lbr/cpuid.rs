// SPDX-License-Identifier: GPL-2.0

//! Architectural LBRs: what CPUID says of them.

use super::{
    super::{
        bitfield::Field,
        counter::CounterSet,
        intel::cpuid::Leaf07Edx,
        CpuidLeaf, //
    },
    layout::{
        Layout,
        Lbr, //
    },
    MAX_DEPTH, //
};

bitfield! {
    /// CPUID.1CH:EAX (SDM vol. 2, CPUID, "Last Branch Records Information Leaf").
    struct Leaf1cEax(u32) {
        /// The records are lost in C-states that are deeper than C1.
        30:30 LOST_IN_DEEP_C;
        /// Bit i: there can be 8 * (i + 1) records.
        7:0 DEPTHS;
    }

    /// CPUID.1CH:EBX.
    struct Leaf1cEbx(u32) {
        /// There is a call-stack mode.
        2:2 CALL_STACK;
        /// Kinds of branches can be selected.
        1:1 KINDS;
        /// Privilege levels can be selected.
        0:0 LEVELS;
    }

    /// CPUID.1CH:ECX.
    struct Leaf1cEcx(u32) {
        /// A record says how much these general-purpose counters have counted.
        19:16 LOGGED;
        /// A record has the kind of branch.
        2:2 KIND;
        /// A record has the cycles since the record before.
        1:1 CYCLES;
        /// A record says whether the branch was mispredicted.
        0:0 MISPREDICTED;
    }
}

impl Lbr {
    /// What CPUID enumerates. `None` if the CPU has no architectural LBRs.
    pub(in super::super) fn detect(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Self> {
        if !Leaf07Edx::from_raw(cpuid(7, 0).edx).has(Leaf07Edx::ARCH_LBR) {
            return None;
        }
        let leaf = cpuid(0x1c, 0);
        let eax = Leaf1cEax::from_raw(leaf.eax);
        let depths = eax.get(Leaf1cEax::DEPTHS);
        let deepest = u32::BITS.wrapping_sub(depths.leading_zeros());
        let depth = deepest.wrapping_mul(8) as usize;
        let (ebx, ecx) = (Leaf1cEbx::from_raw(leaf.ebx), Leaf1cEcx::from_raw(leaf.ecx));
        // No CPU has more records than the driver has room for.
        (1..=MAX_DEPTH).contains(&depth).then_some(Lbr {
            depth: depth as u8,
            layout: Layout::Architectural,
            selects_levels: ebx.has(Leaf1cEbx::LEVELS),
            selects_kinds: ebx.has(Leaf1cEbx::KINDS),
            has_call_stack: ebx.has(Leaf1cEbx::CALL_STACK),
            is_lost_in_deep_c: eax.has(Leaf1cEax::LOST_IN_DEEP_C),
            has_kind: ecx.has(Leaf1cEcx::KIND),
            has_cycles: ecx.has(Leaf1cEcx::CYCLES),
            has_prediction: ecx.has(Leaf1cEcx::MISPREDICTED),
            logged: CounterSet::from_bits(ecx.get(Leaf1cEcx::LOGGED).into()),
        })
    }
}
