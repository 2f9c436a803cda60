// SPDX-License-Identifier: GPL-2.0

//! perf's tests and metrics, the kernel's selftests, and other programs that use events.

use super::shared::{METRICS, METRICS_IN_TREE, SCHEDSTATS};
use crate::group::TestGroup::*;
use crate::machine;
use crate::suite::{Suite, Timing};

/// The suites.
pub const SUITES: &[Suite] = &[
    // The two have the same machine and expect the same.
    Suite::new("perf-test", &[&[PerfTest]])
        .on(machine::SKYLAKE_DEFAULT)
        .primary()
        .with_all(),
    Suite::new("perf-test-in-tree", &[&[PerfTest]])
        .on(machine::SKYLAKE_DEFAULT)
        .unloaded()
        .with_all(),
    // It takes ten minutes.
    Suite::new("perf-test-branches", &[&[PerfTestBranches]])
        .on(machine::SAPPHIRE_RAPIDS)
        .primary()
        .with_all(),
    Suite::new("perf-test-branches-in-tree", &[&[PerfTestBranches]])
        .on(machine::SAPPHIRE_RAPIDS)
        .unloaded()
        .with_all(),
    Suite::new("programs", &[&[Programs, Kinds]])
        .on(machine::SKYLAKE_DEFAULT)
        .kernel_arguments(SCHEDSTATS)
        .primary(),
    Suite::new("programs-amd", &[&[Programs, Kinds]])
        .on(machine::ZEN_3_DEFAULT)
        .kernel_arguments(SCHEDSTATS)
        .primary()
        .with_all(),
    Suite::new("branch-tools", &[&[BranchTools]]).on(machine::SAPPHIRE_RAPIDS),
    // The harness of the selftests stops a test after 30 s, which here are of the guest's clock.
    Suite::new("kernel-selftests", &[&[KernelSelftests]])
        .on(machine::SKYLAKE_DEFAULT)
        .primary()
        .timing(Timing::Icount),
    Suite::new("kernel-selftests-branches", &[&[KernelSelftestsBranches]])
        .on(machine::SAPPHIRE_RAPIDS)
        .primary()
        .timing(Timing::Icount),
    Suite::new("kernel-selftests-snapshot", &[&[KernelSelftestsSnapshot]])
        .on(machine::SAPPHIRE_RAPIDS)
        .timing(Timing::Icount),
    Suite::new("metrics-skylake-server", METRICS)
        .on(machine::SKYLAKE_SERVER_DEFAULT)
        .cpus(1)
        .primary()
        .with_all(),
    Suite::new("metrics-skylake-server-in-tree", METRICS_IN_TREE)
        .on(machine::SKYLAKE_SERVER_DEFAULT)
        .cpus(1)
        .unloaded()
        .with_all(),
    Suite::new("metrics-sapphire-rapids", METRICS)
        .on(machine::SAPPHIRE_RAPIDS_DEFAULT)
        .cpus(1)
        .primary()
        .with_all(),
    Suite::new("metrics-sapphire-rapids-in-tree", METRICS_IN_TREE)
        .on(machine::SAPPHIRE_RAPIDS_DEFAULT)
        .cpus(1)
        .unloaded()
        .with_all(),
    Suite::new("metrics-zen-4", METRICS)
        .on(machine::ZEN_4_DEFAULT)
        .cpus(1)
        .primary()
        .in_ci(),
    Suite::new("metrics-zen-4-in-tree", &[&[MetricsInTree, Beside]])
        .on(machine::ZEN_4_DEFAULT)
        .cpus(1)
        .unloaded()
        .in_ci(),
    // This tests the model, not the module.
    Suite::new("metrics-zen-4-in-tree-counts", METRICS)
        .on(machine::ZEN_4_DEFAULT)
        .cpus(1)
        .unloaded()
        .with_all(),
];
