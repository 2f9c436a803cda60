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
    arctic_wolf,
    cpuid::Leaf1aEax,
    darkmont,
    golden_cove,
    gracemont,
    lion_cove,
    panther_cove, //
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
/// The leaf says nothing.
const NONE: u32 = 0;
/// The native model of Crestmont (`arch/x86/include/asm/intel-family.h`).
const CRESTMONT: u32 = 2;
/// The native model of Skymont.
const SKYMONT: u32 = 3;

impl CoreType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Core, Self::Atom, Self::LowPower];

    /// The type of the core whose CPUID this is. `None` if the CPU is not hybrid, or the driver
    /// does not know the type. In-tree: `find_hybrid_pmu_for_cpu()`, which goes by the model and
    /// leaf 1AH. Only a CPU that has no table must declare that it is hybrid.
    pub fn of(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> Option<Self> {
        let hybrid = Hybrid::of(&Signature::of(&cpuid));
        if hybrid.is_none() && !is_declared(&cpuid) {
            return None;
        }
        let leaf = Leaf1aEax::from_raw(cpuid(0x1a, 0).eax);
        let has_low_power = hybrid.is_some_and(|hybrid| hybrid.low_power.is_some());
        match (
            leaf.get(Leaf1aEax::CORE_TYPE),
            leaf.get(Leaf1aEax::NATIVE_MODEL),
        ) {
            (CORE, _) => Some(Self::Core),
            (ATOM, _) if !has_low_power => Some(Self::Atom),
            (ATOM, SKYMONT) => Some(Self::Atom),
            (ATOM, CRESTMONT) => Some(Self::LowPower),
            (NONE, _) if hybrid.is_some_and(|hybrid| hybrid.may_lack_type) => Some(Self::Core),
            _ => None,
        }
    }
}

/// Whether the cores are of different types, or one of the types of a hybrid model.
pub fn is_hybrid(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> bool {
    is_declared(&cpuid) || CoreType::of(cpuid).is_some()
}

/// Whether CPUID declares that the cores are of different types. With all cores of one type
/// disabled in the firmware it may not.
pub(super) fn is_declared(cpuid: impl Fn(u32, u32) -> CpuidLeaf) -> bool {
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
    /// Whether the performance cores have PERF_METRICS, but PERF_CAPABILITIES does not say so
    /// (erratum RPL018). In-tree: `intel_pmu_broken_perf_cap()`.
    hides_metrics: bool,
    /// Whether a core without a type in leaf 1AH is a performance core. In-tree:
    /// `adl_get_hybrid_cpu_type()`.
    may_lack_type: bool,
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

    /// The counters of a core of this type for which leaf 0AH has `enumerated`, if CPUID declares
    /// the CPU hybrid.
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

    /// Whether a core of this type has PERF_METRICS, whatever PERF_CAPABILITIES says.
    pub(super) fn has_metrics(&self, core_type: CoreType) -> bool {
        self.hides_metrics && core_type == CoreType::Core
    }
}

const ALDER_LAKE: Hybrid = Hybrid {
    name: "alderlake_hybrid",
    models: &[0x97, 0x9a],
    core: &golden_cove::ALDER_LAKE,
    atom: &gracemont::ALDER_LAKE,
    hides_counters: true,
    may_lack_type: true,
    ..ARROW_LAKE
};

const ARROW_LAKE_U: Hybrid = Hybrid {
    name: "meteorlake_hybrid",
    models: &[0xb5],
    core: &golden_cove::METEOR_LAKE,
    atom: &gracemont::METEOR_LAKE,
    ..ARROW_LAKE
};

const ARROW_LAKE: Hybrid = Hybrid {
    name: "arrowlake_hybrid",
    family: 6,
    models: &[0xc6],
    core: &lion_cove::ARROW_LAKE,
    atom: &darkmont::SKYMONT,
    low_power: None,
    hides_counters: false,
    hides_metrics: false,
    may_lack_type: false,
};

/// The hybrid models that `intel_pmu_init()` in `arch/x86/events/intel/core.c` names
/// (`arch/x86/include/asm/intel-family.h`).
static HYBRIDS: &[Hybrid] = &[
    ALDER_LAKE,
    // Raptor Lake.
    Hybrid {
        models: &[0xb7, 0xba, 0xbf],
        hides_metrics: true,
        ..ALDER_LAKE
    },
    // Meteor Lake.
    Hybrid {
        models: &[0xaa, 0xac],
        hides_metrics: true,
        ..ARROW_LAKE_U
    },
    ARROW_LAKE_U,
    Hybrid {
        name: "lunarlake_hybrid",
        models: &[0xbd],
        core: &lion_cove::LUNAR_LAKE,
        ..ARROW_LAKE
    },
    ARROW_LAKE,
    Hybrid {
        name: "arrowlake_h_hybrid",
        models: &[0xc5],
        low_power: Some(&gracemont::METEOR_LAKE),
        ..ARROW_LAKE
    },
    // Panther Lake and Wildcat Lake.
    Hybrid {
        name: "pantherlake_hybrid",
        models: &[0xcc, 0xd5],
        core: &lion_cove::LUNAR_LAKE,
        ..ARROW_LAKE
    },
    Hybrid {
        name: "novalake_hybrid",
        family: 18,
        models: &[0x01, 0x03],
        core: &panther_cove::COYOTE_COVE,
        atom: &arctic_wolf::ARCTIC_WOLF,
        ..ARROW_LAKE
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
