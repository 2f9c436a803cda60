// SPDX-License-Identifier: GPL-2.0

//! How the counters of a generation of CPUs are driven.
//!
//! [`detect`] chooses a [`Generation`], a file each, from what CPUID says, and
//! a table of [`events`], a file a vendor, by the model of the CPU.
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
mod intel_v6;
pub mod msr;
mod zhaoxin;

pub use self::{
    bank::Bank,
    detect::{
        detect,
        detect_as, //
    },
    events::{
        CacheEvent,
        FormatField,
        Name,
        NamedEvent, //
    },
    generation::Generation,
    msr::Msr, //
};

use self::{
    events::{
        Events,
        Presence, //
    },
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
    /// The events.
    events: &'static Events,
    /// The bits of `attr.config` that have a name.
    format: u64,
    /// Architectural events that are missing, by their bits in CPUID.
    missing_events: u32,
    /// What the in-tree driver calls the PMU of such a CPU, if it does not know
    /// the model and has a name for it.
    pub pmu_name: Option<&'static str>,
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
        self.known_events().filter(|event| match event.presence {
            Presence::Fixed(i) => Counter::fixed(i).is_some_and(|i| self.counters.contains(i)),
            Presence::Architectural(_) | Presence::Always => true,
        })
    }

    /// The encoding of a generic hardware event, by its number `PERF_COUNT_HW_*`,
    /// as in `attr.config`. There may be no counter that counts it.
    pub fn hardware_event(&self, id: u64) -> Option<u64> {
        self.known_events()
            .find(|event| event.name != Name::Slots && event.name as u64 == id)
            .map(|event| event.config)
    }

    /// A generic cache event, by its number: cache, operation and result, a
    /// byte each (`include/uapi/linux/perf_event.h`).
    pub fn cache_event(&self, id: u64) -> CacheEvent {
        self.events.cache_event(id)
    }

    /// The named events, but for those that CPUID says are missing.
    fn known_events(&self) -> impl Iterator<Item = &'static NamedEvent> + '_ {
        self.events
            .named
            .iter()
            .filter(|event| match event.presence {
                Presence::Architectural(bit) => self.missing_events & (1 << bit) == 0,
                Presence::Fixed(_) | Presence::Always => true,
            })
    }

    /// The fields of `attr.config`.
    pub fn format(&self) -> impl Iterator<Item = &'static FormatField> {
        events::format_fields(self.format)
    }

    /// The bits of `attr.config` that choose an event.
    pub const fn config_mask(&self) -> u64 {
        self.format & !EventSel::PC
    }

    /// The counters that can count an event.
    pub fn counters_for(&self, event: EventSel) -> CounterSet {
        event.counters(self.counters, &self.events.constraints)
    }

    /// The width of a counter in bits.
    pub const fn width(&self, counter: Counter) -> u8 {
        match counter.as_fixed() {
            Some(_) => self.fixed_width,
            None => self.general_width,
        }
    }

    /// The registers that are read, all of which the CPU must have.
    pub fn registers(&self) -> impl Iterator<Item = Msr> + '_ {
        let generation = self.generation;
        let general = self.counters.general_part().into_iter();
        let eventsels = general.map(|counter| generation.eventsel(counter));
        let fixed = self.counters.fixed_part();
        let control = self
            .generation
            .fixed
            .iter()
            .filter(move |_| !fixed.is_empty())
            .map(|registers| registers.ctrl);
        let counters = self.counters.into_iter();
        let counters = counters.map(|counter| generation.counter(counter));
        let global = self
            .any_global()
            .into_iter()
            .flat_map(|global| [global.ctrl, global.status]);
        eventsels.chain(counters).chain(control).chain(global)
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
