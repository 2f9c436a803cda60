// SPDX-License-Identifier: GPL-2.0

//! Models: their constraints and registers, and threads that share a core.

use super::shared::{MODEL, MODEL_HIDES, MODEL_WITH_METRICS};
use crate::group::TestGroup::*;
use crate::machine::{self, Machine};
use crate::suite::{Suite, Timing};

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::new("models-core", MODEL)
        .on(machine::CORE)
        .with_all(),
    Suite::new("models-core2", MODEL)
        .on(machine::CORE2)
        .with_all(),
    Suite::new("models-nehalem", MODEL)
        .on(machine::NEHALEM)
        .hyper_threading()
        .with_all(),
    Suite::new("models-westmere", MODEL)
        .on(machine::WESTMERE)
        .hyper_threading()
        .with_all(),
    Suite::new("models-sandy-bridge", MODEL).on(machine::SANDY_BRIDGE),
    Suite::new("models-ivy-bridge", MODEL)
        .on(machine::IVY_BRIDGE)
        .with_all(),
    Suite::new("models-haswell", MODEL)
        .on(machine::HASWELL)
        .with_all(),
    Suite::new("siblings", &[&[Siblings]])
        .on(machine::SANDY_BRIDGE_DEFAULT)
        .hyper_threading(),
    Suite::new("siblings-haswell", &[&[Siblings]])
        .on(machine::HASWELL_DEFAULT)
        .hyper_threading()
        .with_all(),
    Suite::new("shared-registers", &[&[SharedRegisters]])
        .on(machine::NEHALEM_DEFAULT)
        .hyper_threading(),
    Suite::new("shared-registers-4", &[&[SharedRegisters]])
        .on(machine::NEHALEM_DEFAULT)
        .cpus(4)
        .threads(4)
        .with_all(),
    Suite::new("models-broadwell", MODEL)
        .on(machine::BROADWELL)
        .with_all(),
    Suite::new("models-skylake", MODEL)
        .on(machine::SKYLAKE)
        .with_all(),
    Suite::new("models-ice-lake", MODEL)
        .on(machine::ICE_LAKE)
        .with_all(),
    Suite::new("models-sapphire-rapids", MODEL_WITH_METRICS)
        .on(machine::SAPPHIRE_RAPIDS)
        .hyper_threading()
        .with_all(),
    branches("branches", machine::SAPPHIRE_RAPIDS),
    branches("branches-skylake", machine::SKYLAKE),
    branches("branches-zen-4", machine::ZEN_4_DEFAULT),
    branches("branches-crestmont", machine::CRESTMONT_V5),
    // Beside the in-tree driver version 6 has no branch records.
    Suite::new("branches-lion-cove", &[&[BranchesMoved]])
        .on(machine::LUNAR_LAKE.hybrid(1, 0))
        .primary()
        .timing(Timing::Icount),
    branches("branches-core2", machine::CORE2).with_all(),
    branches("branches-silvermont", machine::SILVERMONT_DEFAULT).with_all(),
    branches("branches-knights-landing", machine::KNIGHTS_LANDING_DEFAULT).with_all(),
    branches("branches-nehalem", machine::NEHALEM).with_all(),
    Suite::new("branches-nehalem-threads", &[&[BranchesOfThreads]])
        .on(machine::NEHALEM_DEFAULT)
        .hyper_threading()
        .timing(Timing::Icount),
    branches("branches-ivy-bridge", machine::IVY_BRIDGE).with_all(),
    branches("branches-haswell", machine::HASWELL).with_all(),
    branches("branches-goldmont", machine::GOLDMONT_DEFAULT).with_all(),
    branches("branches-tremont", machine::TREMONT_DEFAULT).with_all(),
    Suite::new("models-crestmont", MODEL)
        .on(machine::CRESTMONT)
        .hyper_threading()
        .with_all(),
    Suite::new("models-panther-cove", MODEL_HIDES)
        .on(machine::PANTHER_COVE)
        .in_ci(),
    Suite::new(
        "processor-penryn",
        &[&[Processor, OverflowWidth, MemoryMap]],
    )
    .on(machine::PENRYN_DEFAULT),
    Suite::new("processor-kaby-lake", &[&[Processor, Kinds]])
        .on(machine::SKYLAKE_DEFAULT)
        .with_all(),
    Suite::new("processor-gracemont", &[&[Processor, Kinds]])
        .on(machine::GRACEMONT_DEFAULT)
        .with_all(),
    Suite::new("processor-zen-3", &[&[Processor, Kinds, Pairs]])
        .on(machine::ZEN_3_DEFAULT)
        .with_all(),
];

/// The branch records of a CPU.
const fn branches(name: &'static str, machine: Machine) -> Suite {
    Suite::new(name, &[&[Branches]])
        .on(machine)
        .cpus(1)
        .timing(Timing::Icount)
}
