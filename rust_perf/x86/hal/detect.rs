// SPDX-License-Identifier: GPL-2.0

//! Which generation a CPU's counters are of.

use super::{
    amd_core,
    amd_legacy,
    amd_v2,
    events::{
        amd,
        intel, //
    },
    intel_v1,
    intel_v2,
    intel_v6,
    msr,
    zhaoxin,
    Capabilities,
    CpuidLeaf,
    Events,
    Generation, //
};
use crate::pmc::{
    counter::CounterSet,
    event::EventSel, //
};

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
/// Returns `None` if these are no counters that the driver knows. That AMD's
/// oldest are there nothing enumerates: it is for the caller to see.
pub fn detect(
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    match Vendor::of(&cpuid) {
        Vendor::Amd => detect_amd(cpuid, Amd::V2),
        Vendor::Zhaoxin => detect_zhaoxin(cpuid),
        Vendor::Other => detect_intel(cpuid, perf_capabilities, u8::MAX),
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
/// reach it. Zhaoxin's and Centaur's is version 2 and nothing else.
pub fn detect_as(
    generation: u8,
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    match Vendor::of(&cpuid) {
        Vendor::Amd => {
            let newest = [Amd::Legacy, Amd::Core, Amd::V2]
                .into_iter()
                .find(|&amd| amd as u8 == generation)
                .filter(|&newest| newest <= amd_generation(&cpuid))?;
            detect_amd(cpuid, newest)
        }
        Vendor::Zhaoxin if generation == 2 => detect_zhaoxin(cpuid),
        Vendor::Other if generation <= intel_version(&cpuid) => {
            detect_intel(cpuid, perf_capabilities, generation)
        }
        Vendor::Zhaoxin | Vendor::Other => None,
    }
}

/// Who made the CPU.
enum Vendor {
    /// Or Hygon, which follows AMD.
    Amd,
    /// Or Centaur.
    Zhaoxin,
    /// Intel, or who keeps to Intel's scheme.
    Other,
}

impl Vendor {
    fn of(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Self {
        let leaf = cpuid(0, 0);
        let name = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
        match name.as_flattened() {
            b"AuthenticAMD" | b"HygonGenuine" => Self::Amd,
            b"  Shanghai  " | b"CentaurHauls" => Self::Zhaoxin,
            _ => Self::Other,
        }
    }
}

/// CPUID.01H:EAX (SDM vol. 2, CPUID, "INPUT EAX = 01H"; APM vol. 3, appendix E).
struct Signature {
    family: u8,
    model: u8,
    stepping: u8,
}

impl Signature {
    fn of(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Self {
        let eax = cpuid(1, 0).eax;
        let nibble = |at: u32| (eax >> at) as u8 & 0xf;
        let family = match nibble(8) {
            0xf => (eax >> 20) as u8,
            _ => 0,
        };
        Signature {
            family: nibble(8).saturating_add(family),
            model: (nibble(16) << 4) | nibble(4),
            stepping: nibble(0),
        }
    }
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
    let has_global = intel_version(&cpuid) >= 2;
    let version = intel_version(&cpuid).min(newest);

    // Without full-width writes bit 31 is extended to the bits above (SDM
    // vol. 3, "Full-Width Writes to Performance Counter Registers").
    let full_width = perf_capabilities.is_some_and(|bits| bits & msr::intel::FW_WRITE != 0);
    let generation = match (version, full_width) {
        (0, _) => return None,
        (1, false) => &intel_v1::INTEL_V1,
        (1, true) => &intel_v1::INTEL_V1_FULL_WIDTH,
        (2..=5, false) => &intel_v2::INTEL_V2,
        (2..=5, true) => &intel_v2::INTEL_V2_FULL_WIDTH,
        (6.., _) => &intel_v6::INTEL_V6,
    };
    let mut caps = architectural(leaf, version, generation, &intel::INTEL)?;
    if full_width || version >= 6 {
        caps.writable_width = caps.general_width;
    }
    caps.gate = (version < 2 && has_global).then_some(&intel_v2::GLOBAL);
    if version >= 3 && leaf.edx & (1 << 15) == 0 {
        caps.format |= EventSel::ANY;
    }
    caps.pmu_name = Some(match version {
        1 => "generic_arch_v1",
        2..=4 => "generic_arch_v2+",
        _ => "generic_arch_v5+",
    });

    if let (6.., Some(extended)) = (newest, intel_v6::extended(cpuid)) {
        caps.format |= extended.fields;
        caps.counters = extended.counters.unwrap_or(caps.counters);
        caps.missing_events = extended.missing_events.unwrap_or(caps.missing_events);
    }
    caps.check()
}

/// What leaf 0AH says of a CPU of this version.
fn architectural(
    leaf: CpuidLeaf,
    version: u8,
    generation: &'static Generation,
    events: &'static Events,
) -> Option<Capabilities> {
    let contiguous = ((1u64 << (leaf.edx & 0x1f)) - 1) as u32;
    let fixed = match version {
        1 => 0,
        2..=4 => contiguous,
        _ => contiguous | leaf.ecx,
    };
    // Events beyond the length of the bit vector are missing as well.
    let beyond = u32::MAX.checked_shl(leaf.eax >> 24).unwrap_or(0);
    Capabilities {
        generation,
        gate: None,
        counters: CounterSet::general((leaf.eax >> 8) as u8) | CounterSet::fixed(fixed),
        general_width: (leaf.eax >> 16) as u8,
        fixed_width: (leaf.edx >> 5) as u8,
        writable_width: 32,
        events,
        format: events.format,
        missing_events: leaf.ebx | beyond,
        pmu_name: None,
    }
    .check()
}

/// CPUID leaf 0AH, of version 2. Writes of 32 bits do for all models; that
/// those from the ZXD on take more nothing enumerates.
fn detect_zhaoxin(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Capabilities> {
    let signature = Signature::of(&cpuid);
    let (generation, events) =
        zhaoxin::model(signature.family, signature.model, signature.stepping)?;
    match intel_version(&cpuid) {
        version @ 2 => architectural(cpuid(0xa, 0), version, generation, events),
        _ => None,
    }
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
    let events = amd_events(cpuid, there);
    Capabilities {
        generation,
        gate: (there == Amd::V2 && used != Amd::V2).then_some(&amd_v2::GLOBAL),
        counters: CounterSet::general(counters),
        // All counters have 48 bits (APM vol. 2, "Performance Counter Registers").
        general_width: 48,
        fixed_width: 0,
        writable_width: 48,
        events,
        format: events.format,
        missing_events: 0,
        pmu_name: None,
    }
    .check()
}

/// The events of a family, and where those differ of a model. The models of
/// Zen 2 and Zen 4 are those that `bsp_init_amd()` in
/// `arch/x86/kernel/cpu/amd.c` takes for them.
fn amd_events(cpuid: impl Fn(u32, u32) -> CpuidLeaf, counters: Amd) -> &'static Events {
    let Signature { family, model, .. } = Signature::of(&cpuid);
    match (family, model) {
        (0x15, _) => &amd::F15H,
        // The northbridge has counters of its own where the core has.
        (..0x17, _) if counters != Amd::Legacy => &amd::K7,
        (..0x17, _) if cpuid(0x8000_0008, 0).ecx & 0xff == 0 => &amd::K7,
        (..0x17, _) => &amd::K7_SHARED,
        (0x17, 0x30..=0x4f | 0x60..) => &amd::ZEN2,
        // Hygon's is a Zen 1, though the in-tree driver gives it the K7's names.
        (0x17 | 0x18, _) => &amd::ZEN1,
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => &amd::ZEN4,
        (0x19, _) => &amd::ZEN2,
        (0x1a.., _) => &amd::ZEN4,
    }
}

impl Capabilities {
    /// The same, if that is something to work with.
    fn check(self) -> Option<Self> {
        let usable = |width| (32..=64).contains(&width);
        let general = !self.counters.general_part().is_empty() && usable(self.general_width);
        let fixed = self.counters.fixed_part().is_empty() || usable(self.fixed_width);
        (general && fixed).then_some(self)
    }
}
