// SPDX-License-Identifier: GPL-2.0

//! Whether the module's PMUs are beside those of the in-tree driver or replace them: their names
//! and types.

use crate::{
    perf::{
        GenericEvents,
        PmuType, //
    },
    pmc::CoreType, //
};
use kernel::prelude::*;

/// How the module's PMUs relate to those of the in-tree driver.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// Beside them.
    Beside {
        /// Whether the perf tool offers its own events for it.
        named_events: bool,
    },
    /// In their place: with their names and types, so that programs find them.
    InTree,
}

/// How sysfs names the events of a PMU. The perf tool decides by these names what the PMU is.
///
/// The perf tool opens an event without a PMU, such as `instructions`, on each PMU that has a file
/// of that name in `events/`. It treats a PMU with a file `cpus` as the PMU of one type of core, and
/// opens such events on it, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// As the in-tree driver names them. perf itself knows the other names of an event.
    InTree,
    /// As the in-tree driver names them, with the other names and those of cache events. There is always a
    /// file `cpus`.
    ///
    /// Not on hybrid CPUs. If several PMUs have such a file, perf opens its generic events with the
    /// PMU's number in `config` only if all of them take these. This PMU [does
    /// not](Place::generic_events). perf would open those of `cpu_atom` without a number, and
    /// `cpu_core` would count them.
    OfCore,
    /// Apart from the names of the in-tree driver, so that an event without a PMU is not opened on
    /// this one: the files have a [prefix](Self::prefix). For each name, `format/` has a bit of
    /// `config2`, as the terms of an event may be fields: `rust_pmu/instructions/`.
    ///
    /// A CPU can have 44 names, so that `config` has no room for them. Programs that read `format/`
    /// know `config2`. perf knows `config3` only since 6.3.
    Apart,
}

impl Naming {
    /// Whether perf treats the PMU as that of a type of core, or of all cores.
    pub(super) fn is_of_core(self) -> bool {
        match self {
            Self::InTree | Self::OfCore => true,
            Self::Apart => false,
        }
    }

    /// What the names of the files in `events/` begin with. perf's constants of the events begin
    /// like this: `PERF_COUNT_HW_INSTRUCTIONS`.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::InTree | Self::OfCore => "",
            Self::Apart => "hw-",
        }
    }
}

impl Place {
    /// The name of the PMU for a type of core, or for all cores.
    pub(super) fn name(self, core_type: Option<CoreType>) -> &'static CStr {
        match (self, core_type) {
            (Self::Beside { .. }, None) => c"rust_pmu",
            (Self::Beside { .. }, Some(CoreType::Core)) => c"rust_pmu_core",
            (Self::Beside { .. }, Some(CoreType::Atom)) => c"rust_pmu_atom",
            (Self::Beside { .. }, Some(CoreType::LowPower)) => c"rust_pmu_lowpower",
            // `init_hw_perf_events()` and `intel_hybrid_pmu_type_map` in arch/x86/events.
            (Self::InTree, None) => c"cpu",
            (Self::InTree, Some(CoreType::Core)) => c"cpu_core",
            (Self::InTree, Some(CoreType::Atom)) => c"cpu_atom",
            (Self::InTree, Some(CoreType::LowPower)) => c"cpu_lowpower",
        }
    }

    /// How the events of the PMUs are named.
    pub(super) fn naming(self) -> Naming {
        match self {
            Self::InTree => Naming::InTree,
            Self::Beside { named_events: true } => Naming::OfCore,
            Self::Beside {
                named_events: false,
            } => Naming::Apart,
        }
    }

    /// Whether the PMUs take generic events.
    ///
    /// Beside the in-tree driver they refuse them, and have no `PERF_PMU_CAP_EXTENDED_HW_TYPE`, for two
    /// reasons:
    ///
    /// - perf offers a generic event that no PMU has taken to all PMUs, the newest first. It may be
    ///   one of the in-tree driver: `cpu_core` refuses the events of an efficient core, and ours are
    ///   asked before `cpu_atom`, which takes them.
    /// - The in-tree driver takes each PMU with the capability for its own (`is_x86_event()`). If a
    ///   group has our event and one of the in-tree driver is to join it, `collect_events()` would
    ///   schedule ours, and write into it; `validate_group()` would compare our PMU with its own;
    ///   `check_leader_group()` would take a word of our leader for its flags; and
    ///   `intel_pmu_hw_config()`, for auto counter reload on a hybrid CPU, would read the structure of
    ///   its own that it expects around our `struct pmu`.
    ///
    /// Without the capability these functions skip our events, and perf then refuses the group, as it
    /// does any group with events of two hardware PMUs.
    ///
    /// `intel_pmu_hw_config()` also treats the leader of a group without that check, whatever its PMU
    /// is: for branch counters, precise samples and metrics it sets bits of `hw.flags` and clears bits
    /// of `hw.dyn_constraint`. This driver uses neither word, but for one bit of `hw.flags`
    /// (`PERF_EVENT_FLAG_USER_READ_CNT`) that the in-tree driver leaves alone.
    pub(super) fn generic_events(self) -> GenericEvents {
        match self {
            Self::InTree => GenericEvents::Taken,
            Self::Beside { .. } => GenericEvents::Refused,
        }
    }

    /// The type of that PMU. On a hybrid CPU raw events are those of the performance cores.
    pub(super) fn pmu_type(self, core_type: Option<CoreType>) -> PmuType {
        match (self, core_type) {
            (Self::InTree, None | Some(CoreType::Core)) => PmuType::Raw,
            _ => PmuType::Dynamic,
        }
    }
}
