// SPDX-License-Identifier: GPL-2.0

//! PMUs that need no counters, also on machines without any.

use super::shared::{SCHEDSTATS, SOFTWARE};
use crate::group::TestGroup::*;
use crate::machine;
use crate::suite::Suite;

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::new("trace", &[&[TraceCompare, Trace, LimitsTrace]])
        .on(machine::V4)
        .kernel_arguments(SCHEDSTATS),
    Suite::new("clock", &[&[Clock, ClockCompare, Waits]]).on(machine::V4),
    Suite::new("probes", &[&[Probes]]).on(machine::V4),
    Suite::new("example", &[&[Example]])
        .on(machine::V4)
        .example("switch_pmu"),
    Suite::new("no-pmu", &[&[NoPmu]])
        .unloaded()
        .on(machine::NO_PMU),
    Suite::new("no-pmu-software", &[SOFTWARE, &[Trace]])
        .on(machine::NO_PMU)
        .kernel_arguments(SCHEDSTATS)
        .with_all(),
    Suite::new("no-pmu-debian", &[SOFTWARE])
        .on(machine::NO_PMU)
        .on_debian_qemu(),
];
