// SPDX-License-Identifier: GPL-2.0

//! What several suites have: sets of groups, and arguments for the kernel.

use crate::group::TestGroup::{self, *};

/// Exact counts, which must be exact on any machine.
pub const EXACT: &[TestGroup] = &[Counting, Modes, Events];

/// Everything that needs a PMU with some counters and nothing else.
pub const DEFAULT: &[TestGroup] = &[
    PerfTool,
    Bounds,
    Counting,
    Modes,
    Events,
    Sampling,
    Delivery,
    Limits,
    Contents,
    Overflow,
    Sysfs,
    Attr,
    Groups,
    Mixed,
    Tasks,
    RotationMany,
    UserRead,
    SecurityStorm,
    Hotplug,
    Sharing,
    Offline,
    ForeignWrites,
    Exclude,
    EventZero,
];

/// What could differ from one generation of the hardware to the next.
pub const HARDWARE: &[TestGroup] = &[
    Counting,
    Modes,
    Events,
    Groups,
    Sampling,
    OverflowQuick,
    Sysfs,
    Attr,
    Tasks,
    Hotplug,
    Sharing,
    UserRead,
];

/// What a driver leaves in the PMU's registers, and what it finds there.
pub const REGISTERS: &[TestGroup] = &[Offline, ForeignWrites, Exclude, EventZero];

/// Each set of attributes on both drivers. It comes behind `HARDWARE`: the module
/// says only once who has the counters, and `sharing.rs` looks for that.
pub const COMPARE: &[TestGroup] = &[Compare];

/// Which counters of a model can count what, and which registers that takes.
pub const MODEL: &[&[TestGroup]] = &[&[
    Codes,
    Constraints,
    ExtraRegisters,
    ModelEvents,
    RandomGroups,
    Throttled,
    Topdown,
]];

/// A model with PERF_METRICS, which RDPMC reads, too.
pub const MODEL_WITH_METRICS: &[&[TestGroup]] = &[MODEL[0], &[RdpmcOrders]];

/// What [`MODEL`] has, of a model with RDPMC_USER_DISABLE.
pub const MODEL_HIDES: &[&[TestGroup]] = &[MODEL[0], &[UserReadHidden]];

/// The tables of a CPU.
pub const CPU: &[&[TestGroup]] = &[&[Codes, CompareSysfs, ModelEvents, RandomGroups]];

/// The tables of each type of core of a hybrid CPU.
pub const HYBRID_CPU: &[&[TestGroup]] = &[&[HybridCpu]];

/// The module in the place of the in-tree driver.
pub const PRIMARY: &[&[TestGroup]] = &[&[
    Primary, PerfTool, Counting, Modes, Events, Sampling, Groups, Mixed, Tasks, UserRead, Hotplug,
    Sysfs, Attr,
]];

/// perf's metrics, with either driver, and the two drivers compared.
pub const METRICS: &[&[TestGroup]] = &[&[Metrics]];
pub const METRICS_IN_TREE: &[&[TestGroup]] = &[&[Metrics, MetricsInTree, Beside]];

/// What needs no PMU in the CPU.
pub const SOFTWARE: &[TestGroup] = &[NoPmuLoaded, Clock];

/// With the NMI watchdog. While a CPU is locked up, others wait for it.
pub const WATCHDOG: &str = "nmi_watchdog=1 rcupdate.rcu_cpu_stall_suppress=1";

/// Without it the kernel warns when `sched_stat_runtime` is traced, as by `perf sched`.
pub const SCHEDSTATS: &str = "schedstats=enable";
