// SPDX-License-Identifier: GPL-2.0

//! AMD's and Hygon's core counters, in three generations.

mod cpuid;
mod family_15h;
mod k7;
mod last_branch;
mod legacy;
pub(super) mod msr;
mod perfctr_core;
mod v2;
mod zen;

use self::cpuid::{
    Leaf80000001Ecx,
    Leaf80000008Ecx,
    Leaf80000022Eax,
    Leaf80000022Ebx, //
};
use super::{
    counter::CounterSet,
    cpuid::Signature,
    extra::ExtraSet,
    named::Events,
    pair::Pairs,
    Capabilities,
    CpuidLeaf, //
};
use core::{
    ops::RangeInclusive,
    ptr, //
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
    let events = events_of(&cpuid, present);
    Capabilities {
        generation,
        bypassed_global: (present == Version::V2 && used != Version::V2).then_some(&v2::GLOBAL),
        counters: CounterSet::first_gp(counters),
        existing_gp: CounterSet::EMPTY,
        // Every counter has 48 bits (APM vol. 2, "Performance Counter Registers").
        gp_width: 48,
        fixed_width: 0,
        writable_width: 48,
        events,
        format: events.format,
        extra: ExtraSet::ALL,
        names_extra: false,
        missing_events: 0,
        reservable: true,
        svm: features.has(Leaf80000001Ecx::SVM),
        metrics: CounterSet::EMPTY,
        metrics_clear: false,
        threads: false,
        pairs: match present {
            Version::Legacy => Pairs::Missing,
            _ => Pairs::Possible,
        },
        exclusive: false,
        hides_counters: false,
        lbr: match used {
            Version::V2 => last_branch::detect(cpuid),
            Version::Legacy | Version::Core => None,
        },
        pmu_name: None,
    }
    .check()
}

/// The events of a CPU.
fn events_of(cpuid: impl Fn(u32, u32) -> CpuidLeaf, version: Version) -> &'static Events {
    let signature = Signature::of(&cpuid);
    let events = MODELS
        .iter()
        .find(|model| model.is(&signature))
        .map_or(&k7::K7, |model| model.events);
    let cores = Leaf80000008Ecx::from_raw(cpuid(0x8000_0008, 0).ecx);
    // With PerfCtrExtCore the northbridge has counters of its own.
    let shared = version == Version::Legacy && cores.has(Leaf80000008Ecx::CORES_LESS_ONE);
    if ptr::eq(events, &k7::K7) && shared {
        &k7::K7_SHARED
    } else {
        events
    }
}

/// The events of some models of some families.
struct Model {
    families: RangeInclusive<u8>,
    models: RangeInclusive<u8>,
    events: &'static Events,
}

impl Model {
    const fn new(
        families: RangeInclusive<u8>,
        models: RangeInclusive<u8>,
        events: &'static Events,
    ) -> Self {
        Model {
            families,
            models,
            events,
        }
    }

    fn is(&self, signature: &Signature) -> bool {
        self.families.contains(&signature.family) && self.models.contains(&signature.model)
    }
}

/// The first entry that matches applies. The models of Zen 2 and Zen 4 are those
/// that `bsp_init_amd()` in `arch/x86/kernel/cpu/amd.c` lists.
static MODELS: [Model; 9] = [
    Model::new(0x15..=0x15, 0..=0xff, &family_15h::F15H),
    Model::new(0..=0x16, 0..=0xff, &k7::K7),
    Model::new(0x17..=0x17, 0x30..=0x4f, &zen::ZEN2),
    Model::new(0x17..=0x17, 0x60..=0xff, &zen::ZEN2),
    // Hygon's family 18H is a Zen 1. The in-tree driver gives it the names of K7.
    Model::new(0x17..=0x18, 0..=0xff, &zen::ZEN1),
    Model::new(0x19..=0x19, 0x10..=0x1f, &zen::ZEN4),
    Model::new(0x19..=0x19, 0x60..=0xaf, &zen::ZEN4),
    Model::new(0x19..=0x19, 0..=0xff, &zen::ZEN2),
    Model::new(0x1a..=0xff, 0..=0xff, &zen::ZEN4),
];

/// All tables of events.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Events> {
    MODELS
        .iter()
        .map(|model| model.events)
        .chain([&k7::K7_SHARED])
}
