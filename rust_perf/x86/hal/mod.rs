// SPDX-License-Identifier: GPL-2.0

//! How the counters of a generation of CPUs are driven.
//!
//! [`detect`] chooses a [`Generation`], a file each, from what CPUID says.
//! [`Bank`] drives one CPU's counters by it and knows at any time what they
//! are programmed to, so that no register is read to learn, nor written to no
//! effect: in a virtual machine each access may cost an exit.
//!
//! Nothing in here depends on the kernel, so that the host tests of
//! `tests/driver` can run it on a model of the hardware. All but [`detect`]
//! may be called in NMIs.

mod amd_core;
mod amd_legacy;
mod amd_v2;
mod bank;
mod events;
mod generation;
mod intel_v1;
mod intel_v2;
pub mod msr;

pub use self::{
    bank::Bank,
    events::{
        FormatField,
        NamedEvent, //
    },
    generation::Generation,
    msr::Msr, //
};

use self::events::Presence;
use crate::pmc::{
    counter::{
        Counter,
        CounterSet, //
    },
    event::EventSel,
    period, //
};

/// Access to the registers of a CPU.
///
/// An [`Msr`] is always one of the performance monitoring registers; it is up
/// to the caller that the CPU has it.
pub trait Registers {
    /// Reads a register.
    fn rdmsr(&self, msr: Msr) -> u64;
    /// Writes a register.
    fn wrmsr(&self, msr: Msr, value: u64);
    /// Reads a counter, by its [`Counter::rdpmc`] index.
    fn rdpmc(&self, index: u32) -> u64;
}

/// The four registers that CPUID returns for a leaf.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuidLeaf {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// What a CPU's counters can do.
#[derive(Clone, Copy)]
pub struct Capabilities {
    /// How they are driven.
    pub generation: &'static Generation,
    /// The counters there are.
    pub counters: CounterSet,
    /// The width of the general counters in bits.
    pub general_width: u8,
    /// The width of the fixed counters in bits.
    pub fixed_width: u8,
    /// How many bits of a general counter can be written.
    writable_width: u8,
    /// Whether events can be counted for all threads of a core.
    pub any_thread: bool,
    /// The events that have a name, but for those that are missing.
    named: &'static [NamedEvent],
    /// Architectural events that are missing: bits of CPUID.0AH:EBX.
    missing_events: u32,
}

impl Capabilities {
    /// The named events that the CPU has.
    pub fn events(&self) -> impl Iterator<Item = &'static NamedEvent> + '_ {
        self.named.iter().filter(|event| match event.presence {
            Presence::Architectural(bit) => self.missing_events & (1 << bit) == 0,
            Presence::Fixed(i) => Counter::fixed(i).is_some_and(|i| self.counters.contains(i)),
            Presence::Always => true,
        })
    }

    /// The fields of `attr.config`.
    pub fn format(&self) -> &'static [FormatField] {
        match (self.generation.config_mask, self.any_thread) {
            (EventSel::AMD, _) => &events::AMD_FORMAT,
            (_, true) => &events::INTEL_FORMAT,
            (_, false) => events::INTEL_FORMAT
                .split_last()
                .map_or(&[], |(_, rest)| rest),
        }
    }

    /// The width of a counter in bits.
    pub const fn width(&self, counter: Counter) -> u8 {
        match counter.as_fixed() {
            Some(_) => self.fixed_width,
            None => self.general_width,
        }
    }

    /// How far from wrapping any counter can be started.
    pub fn max_distance(&self) -> u64 {
        let fixed = if self.counters.fixed_part().is_empty() {
            self.writable_width
        } else {
            self.fixed_width
        };
        period::max_distance(self.writable_width.min(fixed))
    }
}

/// Finds out what a CPU's counters can do, and which generation they are of,
/// from the leaves of CPUID and from IA32_PERF_CAPABILITIES, `None` if the CPU
/// does not have that.
///
/// Returns `None` if this is no generation that the driver knows. That AMD's
/// oldest counters are there nothing enumerates: it is for the caller to see.
pub fn detect(
    cpuid: impl Fn(u32) -> CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<Capabilities> {
    let vendor = cpuid(0);
    let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    match vendor.as_flattened() {
        b"AuthenticAMD" | b"HygonGenuine" => Some(detect_amd(cpuid)),
        // Intel's scheme, whoever made the CPU: Zhaoxin and Centaur have it too.
        _ => detect_intel(cpuid(0xa), perf_capabilities),
    }
}

/// CPUID leaf 0AH (SDM vol. 2, CPUID, "Architectural Performance Monitoring
/// Leaf").
fn detect_intel(leaf: CpuidLeaf, perf_capabilities: Option<u64>) -> Option<Capabilities> {
    let version = leaf.eax as u8;
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
        counters: CounterSet::general(general) | CounterSet::fixed(fixed),
        general_width,
        fixed_width,
        writable_width: if full_width { general_width } else { 32 },
        any_thread: version >= 3 && leaf.edx & (1 << 15) == 0,
        named: &events::INTEL,
        missing_events: leaf.ebx | beyond,
    })
}

/// The extended leaves of CPUID (APM vol. 3, appendix E).
fn detect_amd(cpuid: impl Fn(u32) -> CpuidLeaf) -> Capabilities {
    let signature = cpuid(1).eax;
    let family = ((signature >> 8) & 0xf) + ((signature >> 20) & 0xff);
    let v2 = cpuid(0x8000_0022);
    let core = cpuid(0x8000_0001).ecx & amd_core::CPUID_ECX != 0;

    let (generation, counters) = if core && v2.eax & amd_v2::CPUID_EAX != 0 {
        (&amd_v2::AMD_V2, (v2.ebx & 0xf) as u8)
    } else if core {
        (&amd_core::AMD_CORE, amd_core::COUNTERS)
    } else {
        (&amd_legacy::AMD_LEGACY, amd_legacy::COUNTERS)
    };
    Capabilities {
        generation,
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
    }
}
