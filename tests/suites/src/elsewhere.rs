// SPDX-License-Identifier: GPL-2.0

//! Which tests run without a suite: on a computer that is not a guest of this project, but
//! somebody's.

use crate::suite::TestGroup::{self, *};

/// How the tests of a group run without a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// Once for each of the module's PMUs of the CPU's counters. A hybrid CPU has several.
    OfCounters,
    /// Once for that of CPU 0, because tests name CPUs by their numbers, from 0 on.
    OfCpu0,
    /// Once.
    Once,
    /// Not at all, because each of them does this, or needs it.
    No(&'static str),
}

impl TestGroup {
    /// How its tests run without a suite.
    ///
    /// The rule: there a test may start processes, open events in them and on CPUs, write files
    /// in a temporary directory, and change files of /proc/sys and /sys by a `Setting`, which is
    /// undone even if the test is killed. It must not load or unload a module, write an MSR, take a
    /// CPU offline, suspend or restart the system, mount outside of its mount namespace, or depend
    /// on what else the machine does or has. A group of which only some tests keep to the rule may
    /// run: the others have the need `Guest`.
    pub const fn elsewhere(self) -> Elsewhere {
        use Elsewhere::{No, OfCounters, OfCpu0, Once};
        const CGROUPS: &str = "changes the controllers of all cgroups";
        const FAULTS: &str = "needs a fault of the emulated PMU";
        const ICOUNT: &str = "needs QEMU's -icount";
        const MACHINE: &str = "needs the machine of its suite";
        const MODULES: &str = "loads and unloads modules";
        const MSRS: &str = "writes MSRs";
        const OFFLINE: &str = "takes CPUs offline";
        const PART: &str = "is part of another group";
        const SYSTEM: &str = "suspends, restarts or hangs the system";
        match self {
            Attr | Bounds | Contents | Counting | EventZero | Groups | Mixed | Modes | Overflow
            | Sampling | Sysfs => OfCounters,
            Delivery | Events | Exclude | Pairs | PerfTool | RdpmcOrders | RotationMany | Tasks
            | Throttled | UserRead => OfCpu0,
            Clock | Probes | Trace => Once,
            CountingQuick | OverflowQuick | OverflowWidth | SamplingQuick => No(PART),
            ClockCompare | Compare | PerfTest | TraceCompare => No(CGROUPS),
            FaultsDelay | FaultsDelayLong | FaultsForeign | FaultsGarbage | FaultsLose
            | FaultsRepeat | FaultsRepeatAtOnce | FaultsSpurious | FaultsStatus | GpFault
            | HybridFault | Lvtpc => No(FAULTS),
            Accesses | ClockIcount | Cost | KernelSelftests | ProbesCost | RotationSteady
            | SecurityCost | TraceCost => No(ICOUNT),
            CompareSysfs | Kinds | MemoryMap | Metrics | MetricsInTree | NoPmuLoaded | Primary
            | Processor | Programs | RefCycles | Saved | SavedKinds | SavedRefCycles
            | SharedRegisters | Siblings | UserReadHidden => No(MACHINE),
            Beside | Codes | Example | FailNth | HybridCpu | Lifecycle | LoadFaults | NoPmu
            | Parameters | Svm | Unreserved => No(MODULES),
            Constraints | ExtraRegisters | ForeignWrites | ModelEvents | RandomGroups | Topdown => {
                No(MSRS)
            }
            Hotplug | Hybrid | Offline | Stress => No(OFFLINE),
            Kexec | Lockup | Sleep => No(SYSTEM),
            Security => No("takes samples without perf's limit"),
            Sharing => No("expects that nobody else uses the counters"),
            Watchdog => No("switches the NMI watchdog"),
        }
    }
}
