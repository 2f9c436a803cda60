// SPDX-License-Identifier: GPL-2.0

//! AMD's and Hygon's core counters, in three generations.

mod cpuid;
mod events;
mod legacy;
mod msr;
mod perfctr_core;
mod v2;

#[cfg(test)]
pub(super) use self::events::ALL;

use self::cpuid::{
    Leaf80000001Ecx,
    Leaf80000008Ecx,
    Leaf80000022Eax,
    Leaf80000022Ebx, //
};
use super::{
    counter::CounterSet,
    cpuid::Signature,
    named::Events,
    Capabilities,
    CpuidLeaf, //
};

/// The generations. Each includes the registers of those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Legacy = 1,
    Core,
    V2,
}

impl Version {
    const ALL: [Self; 3] = [Self::Legacy, Self::Core, Self::V2];

    /// The newest generation that CPUID enumerates.
    fn of(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Self {
        let features = Leaf80000001Ecx::from_raw(cpuid(0x8000_0001, 0).ecx);
        let perfmon = Leaf80000022Eax::from_raw(cpuid(0x8000_0022, 0).eax);
        if !features.has(Leaf80000001Ecx::PERF_CTR_EXT_CORE) {
            Self::Legacy
        } else if !perfmon.has(Leaf80000022Eax::PERF_MON_V2) {
            Self::Core
        } else {
            Self::V2
        }
    }
}

/// Reads CPUID's extended leaves (APM vol. 3, appendix E).
///
/// CPUID does not enumerate the legacy counters. The caller must probe them.
pub(super) fn detect(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Capabilities> {
    detect_up_to(cpuid, Version::V2)
}

/// As [`detect`], restricted to `generation`: 1 (legacy), 2 (PerfCtrExtCore) or 3
/// (PerfMonV2). `None` if the CPU does not have it.
pub(super) fn detect_as(
    generation: u8,
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
) -> Option<Capabilities> {
    let newest = Version::ALL
        .into_iter()
        .find(|&version| version as u8 == generation)
        .filter(|&newest| newest <= Version::of(&cpuid))?;
    detect_up_to(cpuid, newest)
}

/// What came after `newest` is left out.
fn detect_up_to(cpuid: impl Fn(u32, u32) -> CpuidLeaf, newest: Version) -> Option<Capabilities> {
    let present = Version::of(&cpuid);
    let used = present.min(newest);
    let enumerated = Leaf80000022Ebx::from_raw(cpuid(0x8000_0022, 0).ebx);
    let enumerated = enumerated.get(Leaf80000022Ebx::CORE_COUNTERS) as u8;
    let (generation, counters) = match used {
        Version::Legacy => (&legacy::LEGACY, legacy::COUNTERS),
        Version::Core => (&perfctr_core::PERFCTR_CORE, perfctr_core::COUNTERS),
        Version::V2 => (&v2::V2, enumerated),
    };
    // A CPU with PerfMonV2 may have fewer counters than PerfCtrExtCore alone.
    let counters = match present {
        Version::V2 => counters.min(enumerated),
        Version::Legacy | Version::Core => counters,
    };
    let features = Leaf80000001Ecx::from_raw(cpuid(0x8000_0001, 0).ecx);
    let events = events_of(cpuid, present);
    Capabilities {
        generation,
        bypassed_global: (present == Version::V2 && used != Version::V2).then_some(&v2::GLOBAL),
        counters: CounterSet::first_gp(counters),
        // Every counter has 48 bits (APM vol. 2, "Performance Counter Registers").
        gp_width: 48,
        fixed_width: 0,
        writable_width: 48,
        events,
        format: events.format,
        missing_events: 0,
        svm: features.has(Leaf80000001Ecx::SVM),
        pmu_name: None,
    }
    .check()
}

/// The events of a family and model. The models of Zen 2 and Zen 4 are those that
/// `bsp_init_amd()` in `arch/x86/kernel/cpu/amd.c` lists.
fn events_of(cpuid: impl Fn(u32, u32) -> CpuidLeaf, version: Version) -> &'static Events {
    let cores = Leaf80000008Ecx::from_raw(cpuid(0x8000_0008, 0).ecx);
    let one_core = !cores.has(Leaf80000008Ecx::CORES_LESS_ONE);
    let Signature { family, model, .. } = Signature::of(&cpuid);
    match (family, model) {
        (0x15, _) => &events::F15H,
        // With PerfCtrExtCore the northbridge has counters of its own.
        (..0x17, _) if version != Version::Legacy || one_core => &events::K7,
        (..0x17, _) => &events::K7_SHARED,
        (0x17, 0x30..=0x4f | 0x60..) => &events::ZEN2,
        // Hygon's family 18H is a Zen 1. The in-tree driver gives it the names of K7.
        (0x17 | 0x18, _) => &events::ZEN1,
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => &events::ZEN4,
        (0x19, _) => &events::ZEN2,
        (0x1a.., _) => &events::ZEN4,
    }
}
