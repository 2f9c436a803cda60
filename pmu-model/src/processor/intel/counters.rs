// SPDX-License-Identifier: GPL-2.0

//! The versions and the counters.
//!
//! SDM vol. 3B, "Performance Monitoring", the sections on the microarchitectures.

use super::super::Counters;
use crate::metrics::{LEVEL_1, LEVEL_2};

pub(super) const CORE: Counters = Counters {
    version: 1,
    general: 2,
    general_of_thread: 2,
    fixed: 0,
    width: 40,
    full_width: false,
    metrics: 0,
    needs_clearing: false,
    metrics_clear: false,
    rdpmc_user_disable: false,
};

/// The first steppings of Merom do not report the fixed-function counters that they have.
pub(super) const CORE_2: Counters = Counters {
    version: 2,
    fixed: 3,
    ..CORE
};

pub(super) const NEHALEM: Counters = Counters {
    version: 3,
    general: 4,
    general_of_thread: 4,
    fixed: 3,
    width: 48,
    full_width: false,
    metrics: 0,
    needs_clearing: true,
    metrics_clear: false,
    rdpmc_user_disable: false,
};

/// Two threads share the eight counters of a core.
pub(super) const SANDY_BRIDGE: Counters = Counters {
    general: 8,
    full_width: true,
    needs_clearing: false,
    ..NEHALEM
};

pub(super) const SKYLAKE: Counters = Counters {
    version: 4,
    ..SANDY_BRIDGE
};

pub(super) const ICE_LAKE: Counters = Counters {
    version: 5,
    general_of_thread: 8,
    fixed: 4,
    metrics: LEVEL_1,
    ..SKYLAKE
};

/// PERF_METRICS has the fields of level 2 as well.
pub(super) const GOLDEN_COVE: Counters = Counters {
    metrics: LEVEL_2,
    ..ICE_LAKE
};

/// The processor has ten general-purpose counters, two more than the model can have.
pub(super) const LION_COVE: Counters = Counters {
    version: 6,
    metrics_clear: true,
    ..GOLDEN_COVE
};

pub(super) const PANTHER_COVE: Counters = Counters {
    rdpmc_user_disable: true,
    ..LION_COVE
};

pub(super) const BONNELL: Counters = Counters {
    version: 3,
    ..CORE_2
};

pub(super) const SILVERMONT: Counters = Counters {
    full_width: true,
    ..BONNELL
};

pub(super) const GOLDMONT: Counters = Counters {
    version: 4,
    full_width: true,
    needs_clearing: false,
    ..NEHALEM
};

pub(super) const TREMONT: Counters = Counters {
    version: 5,
    ..GOLDMONT
};

pub(super) const GRACEMONT: Counters = Counters {
    general: 6,
    general_of_thread: 6,
    ..TREMONT
};

pub(super) const CRESTMONT: Counters = Counters {
    general: 8,
    general_of_thread: 8,
    ..GRACEMONT
};

/// The fixed-function counters from 4 on are not modelled.
pub(super) const DARKMONT: Counters = Counters {
    version: 6,
    ..CRESTMONT
};
