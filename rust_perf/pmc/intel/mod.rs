// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural performance monitoring, versions 1 to 6.

pub(super) mod cpuid;
mod events;
mod msr;
mod v1;
pub(super) mod v2;
mod v6;

#[cfg(test)]
pub(super) use self::events::{
    CONSTRAINTS as INTEL_CONSTRAINTS,
    EVENTS, //
};
pub use self::msr::PERF_CAPABILITIES;

use self::{
    cpuid::{
        Leaf0aEax,
        Leaf0aEdx, //
    },
    msr::PerfCapabilities, //
};
use super::{
    counter::CounterSet,
    event::EventSel,
    generation::Generation,
    named::Events,
    Capabilities,
    CpuidLeaf, //
};

/// The version of architectural performance monitoring, 0 if there is none.
pub(super) fn version(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> u8 {
    Leaf0aEax::from_raw(cpuid(0xa, 0).eax).get(Leaf0aEax::VERSION) as u8
}

/// Reads CPUID leaves 0AH and 23H, and `perf_capabilities`, the value of
/// IA32_PERF_CAPABILITIES. What came after version `newest` is left out.
pub(super) fn detect(
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
    newest: u8,
) -> Option<Capabilities> {
    let leaf = cpuid(0xa, 0);
    let has_global = version(&cpuid) >= 2;
    let version = version(&cpuid).min(newest);

    // Without full-width writes a write extends bit 31 to the bits above (SDM vol. 3,
    // "Full-Width Writes to Performance Counter Registers").
    let full_width = perf_capabilities
        .is_some_and(|bits| PerfCapabilities::from_raw(bits).has(PerfCapabilities::FW_WRITE));
    let generation = match (version, full_width) {
        (0, _) => return None,
        (1, false) => &v1::V1,
        (1, true) => &v1::V1_FULL_WIDTH,
        (2..=5, false) => &v2::V2,
        (2..=5, true) => &v2::V2_FULL_WIDTH,
        (6.., _) => &v6::V6,
    };
    let mut caps = architectural(leaf, version, generation, &events::EVENTS)?;
    if full_width || version >= 6 {
        caps.writable_width = caps.gp_width;
    }
    caps.bypassed_global = (version < 2 && has_global).then_some(&v2::GLOBAL);
    if version >= 3 && !Leaf0aEdx::from_raw(leaf.edx).has(Leaf0aEdx::ANYTHREAD_DEPRECATED) {
        caps.format |= EventSel::ANY.mask();
    }
    caps.pmu_name = Some(match version {
        1 => "generic_arch_v1",
        2..=4 => "generic_arch_v2+",
        _ => "generic_arch_v5+",
    });

    if let (6.., Some(extended)) = (newest, v6::extended_leaf(cpuid)) {
        caps.format |= extended.fields;
        caps.counters = extended.counters.unwrap_or(caps.counters);
        caps.missing_events = extended.missing_events.unwrap_or(caps.missing_events);
    }
    caps.check()
}

/// As [`detect`], restricted to version `generation`. `None` if the CPU does not
/// have it.
pub(super) fn detect_as(
    generation: u8,
    cpuid: impl Fn(u32, u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    if generation > version(&cpuid) {
        return None;
    }
    detect(cpuid, perf_capabilities, generation)
}

/// What leaf 0AH enumerates for a CPU of this version.
pub(super) fn architectural(
    leaf: CpuidLeaf,
    version: u8,
    generation: &'static Generation,
    events: &'static Events,
) -> Option<Capabilities> {
    let eax = Leaf0aEax::from_raw(leaf.eax);
    let edx = Leaf0aEdx::from_raw(leaf.edx);
    let contiguous = !u32::MAX.wrapping_shl(edx.get(Leaf0aEdx::FIXED_COUNTERS));
    let fixed = match version {
        1 => 0,
        2..=4 => contiguous,
        _ => contiguous | leaf.ecx,
    };
    // Events beyond the length of the bit vector are missing, too.
    let beyond = u32::MAX
        .checked_shl(eax.get(Leaf0aEax::EVENTS))
        .unwrap_or(0);
    let gp = eax.get(Leaf0aEax::GP_COUNTERS) as u8;
    Capabilities {
        generation,
        bypassed_global: None,
        counters: CounterSet::first_gp(gp) | CounterSet::fixed(fixed),
        gp_width: eax.get(Leaf0aEax::GP_WIDTH) as u8,
        fixed_width: edx.get(Leaf0aEdx::FIXED_WIDTH) as u8,
        writable_width: 32,
        events,
        format: events.format,
        missing_events: leaf.ebx | beyond,
        reservable: eax.get(Leaf0aEax::VERSION) < 6,
        svm: false,
        pmu_name: None,
    }
    .check()
}
