// SPDX-License-Identifier: GPL-2.0

//! What needs `-icount`, or one thread for all virtual CPUs: exact times, costs and numbers of
//! accesses.

use super::shared::EXACT;
use crate::group::TestGroup::*;
use crate::machine::{self, Machine};
use crate::suite::{Suite, Timing};

/// With a PMU that counts accesses.
pub const fn accesses(name: &'static str, machine: Machine) -> Suite {
    Suite::new(name, &[&[Accesses]])
        .on(machine)
        .cpus(1)
        .timing(Timing::Icount)
}

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::new(
        "icount",
        &[&[
            CountingQuick,
            Modes,
            Events,
            SamplingQuick,
            RotationSteady,
            Clock,
            ClockIcount,
            LimitsClock,
        ]],
    )
    .cpus(1)
    .timing(Timing::Icount),
    accesses("accesses", machine::DEFAULT),
    accesses("accesses-v1", machine::V1_MOST),
    accesses("accesses-v5", machine::V5_MOST),
    accesses("accesses-amd-core", machine::AMD_CORE),
    accesses("accesses-amd-v2", machine::AMD_V2),
    Suite::new("security", &[&[Security, SecurityCost]])
        .cpus(1)
        .timing(Timing::Icount),
    Suite::new("security-amd", &[&[Security, SecurityCost]])
        .on(machine::AMD_LEGACY)
        .cpus(1)
        .timing(Timing::Icount)
        .with_all(),
    Suite::new("ref-cycles", &[&[RefCycles]]).on(machine::V4_TSC),
    Suite::new("ref-cycles-icount", &[&[RefCycles]])
        .on(machine::V4_TSC)
        .cpus(1)
        .timing(Timing::Icount),
    Suite::new("ref-cycles-amd", &[&[RefCycles]])
        .on(machine::AMD_V2_TSC)
        .cpus(1)
        .timing(Timing::Icount)
        .with_all(),
    Suite::new("cost", &[&[Cost, TraceCost, ProbesCost]])
        .cpus(1)
        .timing(Timing::Icount),
    Suite::new("icount-smp", &[&[CountingQuick, Modes]]).timing(Timing::Icount),
    Suite::new("one-thread", &[EXACT]).timing(Timing::OneThread),
];
