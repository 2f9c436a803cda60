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

    /// Whether events of other PMUs may have the names of perf's own software events. With such a
    /// name alone the perf tool opens both, which is not what its users know.
    pub(crate) fn allows_software_names(self) -> bool {
        match self {
            Self::Beside { .. } => true,
            Self::InTree => false,
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
