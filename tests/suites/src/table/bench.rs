// SPDX-License-Identifier: GPL-2.0

//! The guests of `make bench`.

use super::exact::accesses;
use crate::machine::{self, Machine};
use crate::suite::Suite;

/// With a PMU that counts accesses, and several CPUs.
const fn accesses_of_cpus(name: &'static str, machine: Machine) -> Suite {
    accesses(name, machine).cpus(BENCH_CPUS)
}

/// How many CPUs have events in the guests of `make bench` that have several.
pub const BENCH_CPUS: u32 = 8;

/// The guests of `make bench`: two for each generation, and three with branch records, with a PMU that counts
/// accesses.
pub const BENCH: &[Suite] = &[
    accesses("bench-v1", machine::V1_MOST),
    accesses("bench-v2", machine::V2),
    accesses("bench-v3", machine::V3),
    accesses("bench-v4", machine::DEFAULT),
    accesses("bench-v5", machine::V5_MOST),
    accesses("bench-v6", machine::V6_MOST),
    accesses("bench-branches", machine::SAPPHIRE_RAPIDS),
    accesses("bench-branches-skylake", machine::SKYLAKE),
    accesses("bench-branches-zen-4", machine::ZEN_4_DEFAULT),
    accesses("bench-amd-legacy", machine::AMD_LEGACY),
    accesses("bench-amd-core", machine::AMD_CORE),
    accesses("bench-amd-v2", machine::AMD_V2),
    accesses("bench-zhaoxin", machine::ZHAOXIN),
    accesses_of_cpus("bench-v1-cpus", machine::V1_MOST),
    accesses_of_cpus("bench-v2-cpus", machine::V2),
    accesses_of_cpus("bench-v3-cpus", machine::V3),
    accesses_of_cpus("bench-v4-cpus", machine::DEFAULT),
    accesses_of_cpus("bench-v5-cpus", machine::V5_MOST),
    accesses_of_cpus("bench-v6-cpus", machine::V6_MOST),
    accesses_of_cpus("bench-amd-legacy-cpus", machine::AMD_LEGACY),
    accesses_of_cpus("bench-amd-core-cpus", machine::AMD_CORE),
    accesses_of_cpus("bench-amd-v2-cpus", machine::AMD_V2),
    accesses_of_cpus("bench-zhaoxin-cpus", machine::ZHAOXIN),
];
