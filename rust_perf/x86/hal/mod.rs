// SPDX-License-Identifier: GPL-2.0

//! How the counters of a generation of CPUs are driven.
//!
//! [`detect`] chooses a [`Hal`], a file a generation, from what CPUID says.
//! [`Bank`] drives one CPU's counters through it and knows at any time what
//! they are programmed to, so that no register is read to learn, nor written
//! to no effect: in a virtual machine each access may cost an exit.
//!
//! Nothing in here depends on the kernel, so that the host tests of
//! `tests/driver` can run it on a model of the hardware. All but [`detect`]
//! may be called in NMIs.

mod bank;
mod events;
mod intel_v2;
pub mod msr;

pub use self::{
    bank::Bank,
    events::NamedEvent,
    msr::Msr, //
};

use self::events::Presence;
use crate::pmc::{
    counter::{
        Counter,
        CounterSet, //
    },
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

/// A generation of counters: which registers it has and how they work.
pub trait Hal<R: Registers>: Sync {
    /// The register that says what a general counter counts.
    fn eventsel(&self, counter: Counter) -> Msr;

    /// The register through which a counter's value is written.
    fn counter(&self, counter: Counter) -> Msr;

    /// Has just the counters `run` count, of those that are programmed.
    fn run(&self, regs: &R, run: CounterSet);

    /// Those of `counters` that have overflowed since they were last asked for.
    ///
    /// To be called while none counts.
    fn take_overflows(&self, regs: &R, counters: CounterSet) -> CounterSet;

    /// Stops all counters, forgets overflows of `counters`, and returns what
    /// [`Self::restore`] needs to bring the global controls back.
    fn save(&self, regs: &R, counters: CounterSet) -> u64;

    /// Undoes [`Self::save`].
    fn restore(&self, regs: &R, saved: u64);
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of Intel's architectural performance monitoring.
    pub version: u8,
    /// The counters there are.
    pub counters: CounterSet,
    /// The width of the general counters in bits.
    pub general_width: u8,
    /// The width of the fixed counters in bits.
    pub fixed_width: u8,
    /// Whether all bits of a general counter can be written, not just 32.
    pub full_width_writes: bool,
    /// Whether events can be counted for all threads of a core.
    pub any_thread: bool,
    /// Architectural events that are missing: bits of CPUID.0AH:EBX.
    missing_events: u32,
}

impl Capabilities {
    /// The named events that the CPU has.
    pub fn events(&self) -> impl Iterator<Item = &'static NamedEvent> + '_ {
        events::INTEL.iter().filter(|event| match event.presence {
            Presence::Architectural(bit) => self.missing_events & (1 << bit) == 0,
            Presence::Fixed(i) => Counter::fixed(i).is_some_and(|i| self.counters.contains(i)),
        })
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
        // Without full-width writes bit 31 is extended to the bits above (SDM
        // vol. 3, "Full-Width Writes to Performance Counter Registers").
        let general = if self.full_width_writes {
            self.general_width
        } else {
            32
        };
        let fixed = if self.counters.fixed_part().is_empty() {
            general
        } else {
            self.fixed_width
        };
        period::max_distance(general.min(fixed))
    }
}

/// Reads the capabilities from CPUID leaf 0AH (SDM vol. 2, CPUID,
/// "Architectural Performance Monitoring Leaf") and, if the CPU has that
/// register, IA32_PERF_CAPABILITIES, and chooses the generation.
///
/// Returns `None` if this is no generation that the driver knows.
pub fn detect<R: Registers>(
    leaf: CpuidLeaf,
    perf_capabilities: Option<u64>,
) -> Option<(Capabilities, &'static dyn Hal<R>)> {
    let version = leaf.eax as u8;
    let general = (leaf.eax >> 8) as u8;
    if version < 2 || general == 0 {
        return None;
    }

    let contiguous = leaf.edx & 0x1f;
    let fixed = ((1u64 << contiguous) - 1) as u32 | if version >= 5 { leaf.ecx } else { 0 };
    let full_width_writes = perf_capabilities
        .is_some_and(|capabilities| capabilities & msr::PERF_CAPABILITIES_FW_WRITE != 0);
    // Events beyond the length of the bit vector are missing as well.
    let length = leaf.eax >> 24;
    let beyond = u32::MAX.checked_shl(length).unwrap_or(0);

    let (general_width, fixed_width) = ((leaf.eax >> 16) as u8, (leaf.edx >> 5) as u8);
    let usable = |width| (32..=64).contains(&width);
    if !usable(general_width) || (fixed != 0 && !usable(fixed_width)) {
        return None;
    }

    let capabilities = Capabilities {
        version,
        counters: CounterSet::general(general) | CounterSet::fixed(fixed),
        general_width,
        fixed_width,
        full_width_writes,
        any_thread: version >= 3 && leaf.edx & (1 << 15) == 0,
        missing_events: leaf.ebx | beyond,
    };
    let hal = if full_width_writes {
        &intel_v2::FULL_WIDTH
    } else {
        &intel_v2::LEGACY_WIDTH
    };
    Some((capabilities, hal))
}
