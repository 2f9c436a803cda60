// SPDX-License-Identifier: GPL-2.0

//! The registry of test groups: [`TestGroup`].
//!
//! A new file of tests has a line in this table and a `mod` in `tests/guest/src/tests/mod.rs`, and a
//! suite in `table/` names its group.

/// Calls a macro with the table of groups. A line has
///
/// - the name of the group;
/// - the table of tests in `tests/guest/src/tests` (of [`Stress`](TestGroup::Stress) in
///   `tests/guest/src`);
/// - how these run without a suite: [`Elsewhere`].
///
/// A doc comment says what the group needs.
#[macro_export]
macro_rules! with_test_groups {
    ($callback:ident) => {
        $callback! {
            /// Needs `-icount`, and a PMU that counts accesses.
            Accesses = accesses::TESTS, No(ICOUNT);
            Attr = attr::TESTS, OfCounters;
            /// Needs that the module is not loaded, and the in-tree driver.
            Beside = beside::TESTS, No(MODULES);
            Bounds = bounds::TESTS, OfCounters;
            /// Needs branch records, and the in-tree driver.
            Branches = branches::TESTS, No(MACHINE);
            /// Needs a hybrid CPU with event logging, and the module in the place of the in-tree driver.
            BranchesMoved = branches::MOVED_TESTS, No(MACHINE);
            /// Needs a model whose threads share LBR_SELECT, and two threads in a core.
            BranchesOfThreads = branches::TESTS_OF_THREADS, No(MACHINE);
            /// Programs that optimise by branch records. Needs branch records, and BOLT.
            BranchTools = branch_tools::TESTS, No(MACHINE);
            Clock = clock::TESTS, Once;
            ClockCompare = clock_compare::TESTS, No(CGROUPS);
            /// Exact times. Needs `-icount`.
            ClockIcount = clock_icount::TESTS, No(ICOUNT);
            /// Needs in_tree_counters.ko.
            Codes = codes::TESTS, No(MODULES);
            Compare = compare::TESTS, No(CGROUPS);
            /// The files in sysfs.
            CompareSysfs = compare::SYSFS, No(MACHINE);
            /// Needs a machine with the signature of a model that the driver knows, in a suite with
            /// the name of that model.
            Constraints = constraints::TESTS, No(MSRS);
            Contents = contents::TESTS, OfCounters;
            /// Needs `-icount`.
            Cost = cost::TESTS, No(ICOUNT);
            Counting = counting::TESTS, OfCounters;
            /// What takes little time under `-icount`.
            CountingQuick = counting::QUICK, No(PART);
            Delivery = delivery::TESTS, OfCpu0;
            EventZero = event_zero::TESTS, OfCounters;
            Events = events::TESTS, OfCpu0;
            /// Needs the example switch_pmu.
            Example = example::TESTS, No(MODULES);
            Exclude = exclude::TESTS, OfCpu0;
            /// Needs a machine like that of `Constraints`, in such a suite.
            ExtraRegisters = extra_registers::TESTS, No(MSRS);
            /// Needs a kernel with fault injection, as that of `KERNEL=debug`.
            FailNth = fail_nth::TESTS, No(MODULES);
            /// Needs `Fault::delay`.
            FaultsDelay = faults::DELAY, No(FAULTS);
            /// Needs a `Fault::delay` that outlasts the closing of an event.
            FaultsDelayLong = faults::DELAY_LONG, No(FAULTS);
            /// Needs `Fault::foreign`.
            FaultsForeign = foreign_fault::TESTS, No(FAULTS);
            /// Needs `Fault::garbage`, and that no event was open before.
            FaultsGarbage = garbage::TESTS, No(FAULTS);
            /// Needs `Fault::lose`.
            FaultsLose = faults::LOSE, No(FAULTS);
            /// Needs `Fault::repeat`.
            FaultsRepeat = faults::REPEAT, No(FAULTS);
            /// Needs a `Fault::repeat` by one instruction.
            FaultsRepeatAtOnce = faults::REPEAT_AT_ONCE, No(FAULTS);
            /// Needs `Fault::spurious`.
            FaultsSpurious = faults::SPURIOUS, No(FAULTS);
            /// Needs a `Fault::status` with the bits of all counters.
            FaultsStatus = faults::STATUS, No(FAULTS);
            ForeignWrites = foreign_writes::TESTS, No(MSRS);
            /// Needs the in-tree driver.
            Generic = generic::TESTS, No(MODULES);
            /// Needs a `Fault::gp` of GLOBAL_STATUS or the register that clears it.
            GpFault = gp_fault::TESTS, No(FAULTS);
            Groups = groups::TESTS, OfCounters;
            Hotplug = hotplug::TESTS, No(OFFLINE);
            /// Needs a hybrid machine with a signature that the driver knows, in a suite with the
            /// name of that model.
            Hybrid = hybrid::TESTS, No(OFFLINE);
            /// The tables of each type of core. Needs a machine with the signature of a hybrid CPU,
            /// and in_tree_counters.ko.
            HybridCpu = hybrid::CPU, No(MODULES);
            /// Needs `Fault::gp` of the efficient cores, and that the module is not loaded.
            HybridFault = hybrid::FAULT, No(FAULTS);
            /// Needs the module in the place of the in-tree driver, `-icount`, and the kernel's
            /// selftests.
            KernelSelftests = kernel_selftests::TESTS, No(ICOUNT);
            /// Needs what `KernelSelftests` does, and branch records.
            KernelSelftestsBranches = kernel_selftests::BRANCHES, No(ICOUNT);
            /// Needs branch records beside the in-tree driver, a CPU that does not say that it is virtual,
            /// and the kernel's selftests.
            KernelSelftestsSnapshot = kernel_selftests::SNAPSHOT, No(MACHINE);
            /// Needs `SystemEvent::Kexec`.
            Kexec = kexec::TESTS, No(SYSTEM);
            /// Needs a machine with the PMU that QEMU gives its signature.
            Kinds = kinds::TESTS, No(MACHINE);
            /// Needs `Fault::delay`, and nmis.ko.
            LateNmis = late_nmis::TESTS, No(FAULTS);
            /// Needs a `Fault::delay` that outlasts several overflows, and nmis.ko.
            LateNmisLong = late_nmis::LONG, No(FAULTS);
            /// Needs that the module is not loaded.
            Lifecycle = lifecycle::TESTS, No(MODULES);
            /// rust_pmu and rust_trace.
            Limits = limits::TESTS, OfCpu0;
            /// rust_clock. Needs `-icount`.
            LimitsClock = limits::CLOCK, No(ICOUNT);
            /// Events of rust_trace that are throttled. Needs statistics of the scheduler.
            LimitsTrace = limits::TRACE, No(MACHINE);
            /// Needs that the module is not loaded, and claims.ko.
            LoadFaults = load_faults::TESTS, No(MODULES);
            /// Needs that neither the module is loaded nor the in-tree driver there, and claims.ko.
            LoadFaultsPrimary = load_faults::PRIMARY, No(MODULES);
            /// Needs the module in the place of the in-tree driver, and lockup.ko.
            Lockup = lockup::TESTS, No(SYSTEM);
            /// Needs `Fault::MASK_LVTPC`.
            Lvtpc = lvtpc::TESTS, No(FAULTS);
            /// Needs two CPUs that run at the same time.
            MemoryMap = memory_map::TESTS, No(MACHINE);
            /// Needs a machine of which perf has metrics, and the module in the place of the in-
            /// tree driver or not loaded.
            Metrics = metrics::TESTS, No(MACHINE);
            /// Needs a machine like that of `Metrics`, and that the module is not loaded.
            MetricsInTree = metrics::IN_TREE_TESTS, No(MACHINE);
            Mixed = mixed::TESTS, OfCounters;
            ModelEvents = model_events::TESTS, No(MSRS);
            Modes = modes::TESTS, OfCounters;
            /// Needs a machine without a PMU, and that the module is not loaded.
            NoPmu = no_pmu::TESTS, No(MODULES);
            /// Needs a machine without a PMU.
            NoPmuLoaded = no_pmu::LOADED, No(MACHINE);
            Offline = offline::TESTS, No(OFFLINE);
            /// All but `OverflowWidth`.
            Overflow = overflow::TESTS, OfCounters;
            /// What the generations do differently.
            OverflowQuick = overflow::QUICK, No(PART);
            /// What depends on the width of the counters.
            OverflowWidth = overflow::WIDTH, No(PART);
            Pairs = pairs::TESTS, OfCpu0;
            /// Needs that the module is not loaded.
            Parameters = parameters::TESTS, No(MODULES);
            /// `perf test`. Needs the module in the place of the in-tree driver, or not loaded.
            PerfTest = perf_test::TESTS, No(CGROUPS);
            /// What of it is about branch records or looks for functions of perf. Needs branch records, perf
            /// with symbols, and the module in the place of the in-tree driver, or not loaded.
            PerfTestBranches = perf_test::BRANCHES, No(CGROUPS);
            PerfTool = perf_tool::TESTS, OfCpu0;
            /// Needs the module in the place of the in-tree driver.
            Primary = primary::TESTS, No(MACHINE);
            /// Needs a machine with the PMU that QEMU gives its signature.
            Processor = processor::TESTS, No(MACHINE);
            Probes = probes::TESTS, Once;
            /// Needs `-icount`.
            ProbesCost = probes::COST, No(ICOUNT);
            /// Needs the module in the place of the in-tree driver, and a machine that has the
            /// event of conditional branches.
            Programs = programs::TESTS, No(MACHINE);
            RandomGroups = random_groups::TESTS, No(MSRS);
            RdpmcOrders = rdpmc_orders::TESTS, OfCpu0;
            /// Needs a machine whose reference cycles are those of the TSC.
            RefCycles = ref_cycles::TESTS, No(MACHINE);
            /// Many processes.
            RotationMany = rotation::MANY, OfCpu0;
            /// Exact shares of time. Needs `-icount`.
            RotationSteady = rotation::STEADY, No(ICOUNT);
            Sampling = sampling::TESTS, OfCounters;
            /// What takes little time under `-icount`.
            SamplingQuick = sampling::QUICK, No(PART);
            /// Needs `SystemEvent::Saved`.
            Saved = saved::TESTS, No(MACHINE);
            /// Needs `SystemEvent::Saved`, and a machine like that of `Kinds`.
            SavedKinds = saved::KINDS, No(MACHINE);
            /// Needs `SystemEvent::Saved`, a machine like that of `RefCycles`, and `-icount`.
            SavedRefCycles = saved::REF_CYCLES, No(MACHINE);
            Security = security::TESTS, No("takes samples without perf's limit");
            /// Needs `-icount`.
            SecurityCost = security::COST, No(ICOUNT);
            /// Needs several CPUs.
            SecurityStorm = security::STORM, No("counts all interrupts of other CPUs");
            /// Needs a machine whose threads share a core and OFFCORE_RSP_0.
            SharedRegisters = shared_registers::TESTS, No(MACHINE);
            Sharing = sharing::TESTS, No("expects that nobody else uses the counters");
            /// Needs Sandy Bridge, Ivy Bridge or Haswell with two threads in a core.
            Siblings = siblings::TESTS, No(MACHINE);
            /// Needs `SystemEvent::Sleep`.
            Sleep = sleep::TESTS, No(SYSTEM);
            Stress = stress::TESTS, No(OFFLINE);
            /// Needs a PMU that counts accesses.
            Svm = svm::TESTS, No(MODULES);
            /// Needs that neither the module is loaded nor the in-tree driver there.
            SvmPrimary = svm::PRIMARY, No(MODULES);
            Sysfs = sysfs::TESTS, OfCounters;
            Tasks = tasks::TESTS, OfCpu0;
            Throttled = throttled::TESTS, OfCpu0;
            /// Needs a machine with the in-tree driver.
            Topdown = topdown::TESTS, No(MSRS);
            Trace = trace::TESTS, Once;
            TraceCompare = trace_compare::TESTS, No(CGROUPS);
            /// Needs `-icount`.
            TraceCost = trace_cost::TESTS, No(ICOUNT);
            /// Needs that the module is not loaded, version 6 and `nmi_watchdog=1`.
            Unreserved = unreserved::TESTS, No(MODULES);
            UserRead = user_read::TESTS, OfCpu0;
            /// Needs a machine with RDPMC_USER_DISABLE.
            UserReadHidden = user_read::HIDDEN, No(MACHINE);
            /// The limits of what tests wait for.
            Waits = waits::TESTS, Once;
            /// Needs `nmi_watchdog=1`.
            Watchdog = watchdog::TESTS, No("switches the NMI watchdog");
        }
    };
}

macro_rules! define_groups {
    ($($(#[doc = $doc:literal])* $group:ident = $tests:path, $elsewhere:expr;)*) => {
        /// Tests that always run together: a table of a file in `tests/guest/src/tests`,
        /// or a part of one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TestGroup {
            $(
                #[doc = concat!("`", stringify!($tests), "`.")]
                $(#[doc = $doc])*
                $group,
            )*
        }

        impl TestGroup {
            /// All groups.
            pub const ALL: &'static [Self] = &[$(Self::$group,)*];

            /// Its name in an [`Inventory`](crate::Inventory).
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$group => stringify!($group),)*
                }
            }

            /// How its tests run without a suite.
            ///
            /// The rule: there a test may start processes, open events in them and on CPUs, write files
            /// in a temporary directory, and change files of /proc/sys and /sys by a `Setting`, which is
            /// undone even if the test is killed. It must not load or unload a module, write an MSR, take
            /// a CPU offline, suspend or restart the system, mount outside of its mount namespace, or
            /// depend on what else the machine does or has. A group of which only some tests keep to the
            /// rule may run: the others have the need `Guest`.
            pub const fn elsewhere(self) -> Elsewhere {
                use Elsewhere::{No, OfCounters, OfCpu0, Once};
                match self {
                    $(Self::$group => $elsewhere,)*
                }
            }
        }
    };
}

with_test_groups!(define_groups);

/// How the tests of a group run without a suite: on a computer that is not a guest of this project,
/// but somebody's.
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

// Why tests do not run without a suite.
const CGROUPS: &str = "changes the controllers of all cgroups";
const FAULTS: &str = "needs a fault of the emulated PMU";
const ICOUNT: &str = "needs QEMU's -icount";
const MACHINE: &str = "needs the machine of its suite";
const MODULES: &str = "loads and unloads modules";
const MSRS: &str = "writes MSRs";
const OFFLINE: &str = "takes CPUs offline";
const PART: &str = "is part of another group";
const SYSTEM: &str = "suspends, restarts or hangs the system";
