// SPDX-License-Identifier: GPL-2.0

//! Hybrid CPUs, whose cores are of two or three types.
//!
//! Each type has counters, events and registers of its own. All of it is read on a core of
//! that type, with one exception: [`Hybrid::counters`].

use super::{
    super::{
        counter::CounterSet,
        cpuid::{
            CpuidLeaf,
            Leaf07Edx,
            Signature, //
        },
        named::Events, //
    },
    cpuid::Leaf1aEax,
    darkmont,
    golden_cove,
    gracemont,
    lion_cove, //
};

/// A type of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreType {
    /// Performance cores: Intel Core.
    Core,
    /// Efficient cores: Intel Atom.
    Atom,
    /// Other efficient cores, of the kind before: those on Arrow Lake-H's SoC tile.
    LowPower,
}

/// Intel Core in leaf 1AH (SDM vol. 2, CPUID, "Native Model ID Enumeration Leaf").
const CORE: u32 = 0x40;
/// Intel Atom.
const ATOM: u32 = 0x20;
/// The native model of Crestmont (`arch/x86/include/asm/intel-family.h`).
const CRESTMONT: u32 = 2;

impl CoreType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Core, Self::Atom, Self::LowPower];

    /// The type of the core whose CPUID this is. `None` if the CPU is not hybrid, or the driver
    /// does not know the type.
    pub fn of(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Self> {
        if !is_hybrid(&cpuid) {
            return None;
        }
        let leaf = Leaf1aEax::from_raw(cpuid(0x1a, 0).eax);
        let hybrid = Hybrid::of(&Signature::of(&cpuid));
        let has_low_power = hybrid.is_some_and(|hybrid| hybrid.low_power.is_some());
        match leaf.get(Leaf1aEax::CORE_TYPE) {
            CORE => Some(Self::Core),
            ATOM if has_low_power && leaf.get(Leaf1aEax::NATIVE_MODEL) == CRESTMONT => {
                Some(Self::LowPower)
            }
            ATOM => Some(Self::Atom),
            _ => None,
        }
    }
}

/// Whether the cores are of different types.
pub fn is_hybrid(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> bool {
    Leaf07Edx::from_raw(cpuid(7, 0).edx).has(Leaf07Edx::HYBRID)
}

/// Models of a family with the same name and events.
pub(super) struct Hybrid {
    /// `caps/pmu_name` of the in-tree driver.
    pub(super) name: &'static str,
    family: u8,
    models: &'static [u8],
    core: &'static Events,
    atom: &'static Events,
    low_power: Option<&'static Events>,
    /// Whether leaf 0AH has only the counters that the cores of all types have.
    hides_counters: bool,
}

impl Hybrid {
    pub(super) fn of(signature: &Signature) -> Option<&'static Self> {
        HYBRIDS.iter().find(|hybrid| {
            hybrid.family == signature.family && hybrid.models.contains(&signature.model)
        })
    }

    /// The events of a core of this type.
    pub(super) fn events(&self, core_type: CoreType) -> &'static Events {
        match (core_type, self.low_power) {
            (CoreType::Core, _) => self.core,
            (CoreType::LowPower, Some(events)) => events,
            (CoreType::Atom | CoreType::LowPower, _) => self.atom,
        }
    }

    /// The counters of a core of this type for which leaf 0AH has `enumerated`.
    ///
    /// The performance cores of Alder Lake have two GP counters and a fixed one more. If the
    /// efficient cores are disabled, leaf 0AH has these as well, although CPUID may still
    /// declare the CPU hybrid. In-tree: `intel_pmu_init()`, `INTEL_ALDERLAKE`.
    pub(super) fn counters(&self, core_type: CoreType, enumerated: CounterSet) -> CounterSet {
        let gp = enumerated.gp_part().len().saturating_add(2) as u8;
        let fixed = enumerated.fixed_part().len().saturating_add(1);
        if !self.hides_counters || core_type != CoreType::Core || gp > 8 || fixed > 4 {
            return enumerated;
        }
        CounterSet::first_gp(gp) | CounterSet::fixed(!u32::MAX.wrapping_shl(fixed))
    }
}

/// The hybrid models that `intel_pmu_init()` in `arch/x86/events/intel/core.c` names, except
/// for Nova Lake (`arch/x86/include/asm/intel-family.h`).
static HYBRIDS: &[Hybrid] = &[
    // Alder Lake and Raptor Lake.
    Hybrid {
        name: "alderlake_hybrid",
        family: 6,
        models: &[0x97, 0x9a, 0xb7, 0xba, 0xbf],
        core: &golden_cove::ALDER_LAKE,
        atom: &gracemont::GRACEMONT,
        low_power: None,
        hides_counters: true,
    },
    // Meteor Lake and Arrow Lake-U.
    Hybrid {
        name: "meteorlake_hybrid",
        family: 6,
        models: &[0xaa, 0xac, 0xb5],
        core: &golden_cove::METEOR_LAKE,
        atom: &gracemont::CRESTMONT,
        low_power: None,
        hides_counters: false,
    },
    Hybrid {
        name: "lunarlake_hybrid",
        family: 6,
        models: &[0xbd],
        core: &lion_cove::LUNAR_LAKE,
        atom: &darkmont::SKYMONT,
        low_power: None,
        hides_counters: false,
    },
    Hybrid {
        name: "arrowlake_hybrid",
        family: 6,
        models: &[0xc6],
        core: &lion_cove::ARROW_LAKE,
        atom: &darkmont::SKYMONT,
        low_power: None,
        hides_counters: false,
    },
    Hybrid {
        name: "arrowlake_h_hybrid",
        family: 6,
        models: &[0xc5],
        core: &lion_cove::ARROW_LAKE,
        atom: &darkmont::SKYMONT,
        low_power: Some(&gracemont::CRESTMONT),
        hides_counters: false,
    },
    // Panther Lake and Wildcat Lake.
    Hybrid {
        name: "pantherlake_hybrid",
        family: 6,
        models: &[0xcc, 0xd5],
        core: &lion_cove::LUNAR_LAKE,
        atom: &darkmont::SKYMONT,
        low_power: None,
        hides_counters: false,
    },
];

/// All tables of events.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Events> {
    HYBRIDS.iter().flat_map(|hybrid| {
        [hybrid.core, hybrid.atom]
            .into_iter()
            .chain(hybrid.low_power)
    })
}
