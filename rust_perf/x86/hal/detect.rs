// SPDX-License-Identifier: GPL-2.0

//! Which generation a CPU's counters are of.

use super::{
    amd_core,
    amd_legacy,
    amd_v2,
    events,
    intel_v1,
    intel_v2,
    msr,
    Capabilities,
    CpuidLeaf, //
};
use crate::pmc::counter::CounterSet;

/// AMD's generations, each with what those before it have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Amd {
    Legacy = 1,
    Core,
    V2,
}

/// Finds out what a CPU's counters can do, and which generation they are of,
/// from CPUID, by leaf and subleaf, and from IA32_PERF_CAPABILITIES, `None` if
/// the CPU does not have that.
///
/// Returns `None` if this is no generation that the driver knows. That AMD's
/// oldest counters are there nothing enumerates: it is for the caller to see.
pub fn detect(
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    if is_amd(&cpuid) {
        detect_amd(cpuid, Amd::V2)
    } else {
        // Intel's scheme, whoever made the CPU: Zhaoxin and Centaur have it too.
        detect_intel(cpuid, perf_capabilities, u8::MAX)
    }
}

/// As [`detect`], but takes the counters for those of an older generation: a
/// version of architectural performance monitoring, or for AMD's 1 (legacy), 2
/// (PerfCtrExtCore) or 3 (PerfMonV2).
///
/// Newer counters work as older ones do, less what is new. Where the new thing
/// is the global control, that lets all counters count from when they are
/// taken over until they are given back, and EN in each EVENTSEL decides.
///
/// Returns `None` also if there is no such generation, or this CPU does not
/// reach it.
pub fn detect_as(
    generation: u8,
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    if is_amd(&cpuid) {
        let newest = [Amd::Legacy, Amd::Core, Amd::V2]
            .into_iter()
            .find(|&amd| amd as u8 == generation)
            .filter(|&newest| newest <= amd_generation(&cpuid))?;
        detect_amd(cpuid, newest)
    } else if generation <= intel_version(&cpuid) {
        detect_intel(cpuid, perf_capabilities, generation)
    } else {
        None
    }
}

fn is_amd(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> bool {
    let vendor = cpuid(0, 0);
    let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    matches!(vendor.as_flattened(), b"AuthenticAMD" | b"HygonGenuine")
}

fn intel_version(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> u8 {
    cpuid(0xa, 0).eax as u8
}

/// CPUID leaf 0AH (SDM vol. 2, CPUID, "Architectural Performance Monitoring
/// Leaf"). What came after version `newest` is left out.
fn detect_intel(
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
    newest: u8,
) -> Option<Capabilities> {
    let leaf = cpuid(0xa, 0);
    let has_global = leaf.eax as u8 >= 2;
    let version = (leaf.eax as u8).min(newest);
    let general = (leaf.eax >> 8) as u8;
    let general_width = (leaf.eax >> 16) as u8;
    let usable = |width| (32..=64).contains(&width);
    if version == 0 || general == 0 || !usable(general_width) {
        return None;
    }

    let contiguous = ((1u64 << (leaf.edx & 0x1f)) - 1) as u32;
    let fixed = match version {
        1 => 0,
        2..=4 => contiguous,
        _ => contiguous | leaf.ecx,
    };
    let fixed_width = (leaf.edx >> 5) as u8;
    if fixed != 0 && !usable(fixed_width) {
        return None;
    }

    // Without full-width writes bit 31 is extended to the bits above (SDM
    // vol. 3, "Full-Width Writes to Performance Counter Registers").
    let full_width = perf_capabilities.is_some_and(|bits| bits & msr::intel::FW_WRITE != 0);
    let generation = match (version, full_width) {
        (1, false) => &intel_v1::INTEL_V1,
        (1, true) => &intel_v1::INTEL_V1_FULL_WIDTH,
        (_, false) => &intel_v2::INTEL_V2,
        (_, true) => &intel_v2::INTEL_V2_FULL_WIDTH,
    };
    // Events beyond the length of the bit vector are missing as well.
    let beyond = u32::MAX.checked_shl(leaf.eax >> 24).unwrap_or(0);

    Some(Capabilities {
        generation,
        gate: (version < 2 && has_global).then_some(&intel_v2::GLOBAL),
        counters: CounterSet::general(general) | CounterSet::fixed(fixed),
        general_width,
        fixed_width,
        writable_width: if full_width { general_width } else { 32 },
        any_thread: version >= 3 && leaf.edx & (1 << 15) == 0,
        named: &events::INTEL,
        missing_events: leaf.ebx | beyond,
    })
}

/// The newest generation that CPUID's extended leaves tell of (APM vol. 3,
/// appendix E).
fn amd_generation(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Amd {
    if cpuid(0x8000_0001, 0).ecx & amd_core::CPUID_ECX == 0 {
        Amd::Legacy
    } else if cpuid(0x8000_0022, 0).eax & amd_v2::CPUID_EAX == 0 {
        Amd::Core
    } else {
        Amd::V2
    }
}

/// What came after `newest` is left out.
fn detect_amd(cpuid: impl Fn(u32, u32) -> CpuidLeaf, newest: Amd) -> Option<Capabilities> {
    let signature = cpuid(1, 0).eax;
    let family = ((signature >> 8) & 0xf) + ((signature >> 20) & 0xff);
    let there = amd_generation(&cpuid);
    let used = there.min(newest);
    let (generation, counters) = match used {
        Amd::Legacy => (&amd_legacy::AMD_LEGACY, amd_legacy::COUNTERS),
        Amd::Core => (&amd_core::AMD_CORE, amd_core::COUNTERS),
        Amd::V2 => (&amd_v2::AMD_V2, amd_v2::counters(cpuid(0x8000_0022, 0))),
    };
    // With version 2 there may be fewer counters than the extension alone has.
    let counters = if there == Amd::V2 {
        counters.min(amd_v2::counters(cpuid(0x8000_0022, 0)))
    } else {
        counters
    };
    if counters == 0 {
        return None;
    }
    Some(Capabilities {
        generation,
        gate: (there == Amd::V2 && used != Amd::V2).then_some(&amd_v2::GLOBAL),
        counters: CounterSet::general(counters),
        // All counters have 48 bits (APM vol. 2, "Performance Counter Registers").
        general_width: 48,
        fixed_width: 0,
        writable_width: 48,
        any_thread: false,
        named: if family >= 0x17 {
            &events::AMD_ZEN
        } else {
            &events::AMD_K7
        },
        missing_events: 0,
    })
}
