// SPDX-License-Identifier: GPL-2.0

//! Hybrid CPUs.

use super::shared::{HYBRID_CPU, WATCHDOG};
use crate::group::TestGroup::*;
use crate::machine;
use crate::suite::Suite;

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::new("stress-hybrid", &[&[Stress]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .with_all(),
    Suite::new("models-alder-lake-hybrid", &[&[Hybrid, HybridCpu, Generic]])
        .on(machine::ALDER_LAKE)
        .cpus(4),
    Suite::new("lifecycle-hybrid", &[&[Beside]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .unloaded()
        .in_ci(),
    Suite::new("models-alder-lake-alone", HYBRID_CPU)
        .on(machine::ALDER_LAKE_ALONE)
        .with_all(),
    Suite::new("models-meteor-lake-hybrid", &[&[Hybrid, Generic]])
        .on(machine::METEOR_LAKE)
        .cpus(4)
        .with_all(),
    Suite::new("models-lunar-lake-hybrid", &[&[Hybrid, Generic]])
        .on(machine::LUNAR_LAKE)
        .cpus(4)
        .with_all(),
    Suite::new("models-nova-lake-hybrid", &[&[Hybrid, Generic]])
        .on(machine::NOVA_LAKE)
        .cpus(4)
        .with_all(),
    Suite::new("primary-watchdog-hybrid", &[&[Lockup]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .kernel_arguments(WATCHDOG)
        .primary()
        .with_all(),
    Suite::new("primary-hybrid", &[&[Primary]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .primary()
        .with_all(),
];
