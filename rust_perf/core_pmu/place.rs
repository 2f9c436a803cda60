// SPDX-License-Identifier: GPL-2.0

//! Whether the module's PMUs are beside those of the in-tree driver or replace them: their names
//! and types.

use crate::{
    perf::PmuType,
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

    /// The type of that PMU. On a hybrid CPU raw events are those of the performance cores.
    pub(super) fn pmu_type(self, core_type: Option<CoreType>) -> PmuType {
        match (self, core_type) {
            (Self::InTree, None | Some(CoreType::Core)) => PmuType::Raw,
            _ => PmuType::Dynamic,
        }
    }
}
