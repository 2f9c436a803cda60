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
mod detect;
mod events;
mod generation;
mod intel_v1;
mod intel_v2;
pub mod msr;

pub use self::{
    bank::Bank,
    detect::{
        detect,
        detect_as, //
    },
    events::{
        FormatField,
        NamedEvent, //
    },
    generation::Generation,
    msr::Msr, //
};

use self::{
    events::Presence,
    generation::GlobalRegisters, //
};
use crate::pmc::{
    counter::{
        Counter,
        CounterSet, //
    },
    event::EventSel,
    period, //
};
use core::num::NonZeroU8;

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
    /// A global control that the CPU has and the generation has not: it has to
    /// let the counters count while they are ours.
    gate: Option<&'static GlobalRegisters>,
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
    /// The same without the fixed counters.
    #[must_use]
    pub fn without_fixed(self) -> Self {
        Capabilities {
            counters: self.counters.general_part(),
            ..self
        }
    }

    /// The same with the first `n` of the general counters at the most. There
    /// is always one: by the general counters the users in the kernel know who
    /// has all of them.
    #[must_use]
    pub fn limit_general(self, n: NonZeroU8) -> Self {
        let general = self.counters.general_part().into_iter();
        let first: CounterSet = general.take(n.get().into()).collect();
        Capabilities {
            counters: first | self.counters.fixed_part(),
            ..self
        }
    }

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

    /// The global registers that the CPU has.
    fn any_global(&self) -> Option<&'static GlobalRegisters> {
        self.generation.global.or(self.gate)
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
