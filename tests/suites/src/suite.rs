// SPDX-License-Identifier: GPL-2.0

//! The suites: which tests run together, and in which guest.

use crate::cpus::CPUS;
use crate::fault::{Fault, Foreign};
use crate::group::TestGroup;
use crate::machine::{self, Machine};

/// How QEMU runs the virtual CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Each in a thread of its own; the guest's clock is the host's.
    Threads,
    /// All in one thread, in turns.
    OneThread,
    /// In turns, and the guest's clock counts instructions.
    Icount,
}

impl Timing {
    /// QEMU's arguments for it.
    pub const fn qemu_args(self) -> &'static str {
        match self {
            Self::Threads => "",
            Self::OneThread => "-accel tcg,thread=single",
            Self::Icount => "-icount shift=0,sleep=off",
        }
    }
}

/// What happens to the whole system in a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemEvent {
    /// Nothing.
    None,
    /// The tests run in a second kernel, which the first one started by kexec.
    Kexec,
    /// The tests have the guest saved, and restored in another QEMU. Nothing is mounted by 9p then:
    /// they run from a tmpfs, without what the build root has.
    Saved,
    /// The tests suspend the system. Neither 9p nor virtio ports survive that, so the
    /// report goes to the console.
    Sleep,
}

impl SystemEvent {
    /// What the kernel's command line has for it.
    const fn kernel_arguments(self) -> &'static str {
        match self {
            // The report is on the console, alone. While the system suspends, devices wait for
            // their drivers. Ten seconds after boot the kernel would warn of those that wait.
            Self::Sleep => "loglevel=1 deferred_probe_timeout=0",
            Self::None | Self::Kexec | Self::Saved => "",
        }
    }
}

/// A guest, and the tests that run in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// The CPU model.
    pub machine: Machine,
    /// How many virtual CPUs there are.
    pub cpus: u32,
    /// How many of them are threads of one core.
    pub threads: u32,
    /// How they run.
    pub timing: Timing,
    /// What the kernel's command line has for this suite.
    pub kernel_arguments: &'static str,
    /// Whether QEMU is Debian's own, which has no PMU, instead of this project's.
    pub debian_qemu: bool,
    /// Whether the module is loaded before the tests start.
    pub load_module: bool,
    /// Whether the module is in the place of the in-tree driver.
    pub primary: bool,
    /// The module of `rust_perf/examples` that the tests load.
    pub example: Option<&'static str>,
    /// What is wrong with the PMU.
    pub fault: Option<Fault>,
    /// What happens to the whole system.
    pub event: SystemEvent,
    /// The tests.
    groups: &'static [&'static [TestGroup]],
    /// Whether `make test` runs it without `ALL=1`.
    pub by_default: bool,
    /// The suite with another CPU whose tables are the same.
    pub like: Option<&'static str>,
    /// The kernels on which `ALL=1` runs it besides the usual one, and CI if they check themselves.
    also_on: &'static [OtherKernel],
}

/// A kernel on which some suites run besides the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherKernel {
    /// Debian's of the series before the usual one.
    Older,
    /// One that checks itself, by KASAN and lockdep among others.
    Checking,
}

/// A kernel module in C that is for tests alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TestModule {
    /// in_tree_counters.ko
    InTreeCounters,
    /// lockup.ko
    Lockup,
    /// claims.ko
    Claims,
}

impl TestModule {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InTreeCounters => "in_tree_counters",
            Self::Lockup => "lockup",
            Self::Claims => "claims",
        }
    }

    /// The folder that has its Kbuild.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::InTreeCounters => "tests/in_tree",
            Self::Lockup => "tests/lockup",
            Self::Claims => "tests/claims",
        }
    }
}

impl Suite {
    const fn new(name: &'static str, groups: &'static [&'static [TestGroup]]) -> Self {
        Self {
            name,
            machine: machine::DEFAULT,
            cpus: 2,
            threads: 1,
            timing: Timing::Threads,
            kernel_arguments: "",
            debian_qemu: false,
            load_module: true,
            primary: false,
            example: None,
            fault: None,
            event: SystemEvent::None,
            groups,
            by_default: true,
            like: None,
            also_on: &[],
        }
    }

    const fn on(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    const fn cpus(self, cpus: u32) -> Self {
        Self { cpus, ..self }
    }

    /// With two threads a core.
    const fn hyper_threading(self) -> Self {
        self.threads(2)
    }

    /// With so many threads a core.
    const fn threads(self, threads: u32) -> Self {
        Self { threads, ..self }
    }

    const fn timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    const fn kernel_arguments(self, kernel_arguments: &'static str) -> Self {
        Self {
            kernel_arguments,
            ..self
        }
    }

    const fn unloaded(self) -> Self {
        Self {
            load_module: false,
            ..self
        }
    }

    const fn primary(self) -> Self {
        Self {
            primary: true,
            ..self
        }
    }

    const fn example(self, name: &'static str) -> Self {
        Self {
            example: Some(name),
            ..self
        }
    }

    const fn on_debian_qemu(self) -> Self {
        Self {
            debian_qemu: true,
            ..self
        }
    }

    const fn event(self, event: SystemEvent) -> Self {
        Self { event, ..self }
    }

    const fn with_all(self) -> Self {
        Self {
            by_default: false,
            ..self
        }
    }

    /// A suite about a fault. Each vCPU's PMU has it, and numbers its own PMIs, so there
    /// is one vCPU.
    ///
    /// A test of a PMI that is lost, late or repeated needs attempts that no other interrupt
    /// disturbs, and on AMD the driver expects a late PMI for 100 ms. So the clock counts
    /// instructions: how many interrupts there are does not depend on how busy the host is.
    const fn fault(
        name: &'static str,
        fault: Fault,
        groups: &'static [&'static [TestGroup]],
    ) -> Self {
        let timing = match fault {
            Fault::Lose { .. } | Fault::Delay { .. } | Fault::Repeat { .. } => Timing::Icount,
            _ => Timing::Threads,
        };
        Self {
            fault: Some(fault),
            timing,
            ..Self::new(name, groups).cpus(1)
        }
    }

    /// The suite of a CPU of [`CPUS`].
    pub(crate) const fn cpu(name: &'static str, machine: Machine) -> Self {
        Self::new(name, CPU).on(machine).cpus(1).with_all()
    }

    /// On a hybrid CPU with a performance core and so many others.
    pub(crate) const fn hybrid(self, efficient: u32, low_power: u32) -> Self {
        Self {
            machine: self.machine.hybrid(efficient, low_power),
            cpus: 1 + efficient + low_power,
            groups: HYBRID_CPU,
            ..self
        }
    }

    pub(crate) const fn like(self, name: &'static str) -> Self {
        Self {
            like: Some(name),
            ..self
        }
    }

    const fn also_on(self, also_on: &'static [OtherKernel]) -> Self {
        Self { also_on, ..self }
    }

    /// Whether the machine is the guest of a suite, with which the tests may do what they like.
    pub fn is_guest(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether `ALL=1` runs it on this kernel, too.
    pub fn is_also_on(&self, kernel: OtherKernel) -> bool {
        self.also_on.contains(&kernel)
    }

    /// The groups of its tests.
    pub fn groups(&self) -> impl Iterator<Item = TestGroup> + Clone {
        let groups = self.groups;
        groups.iter().copied().flatten().copied()
    }

    /// Whether it has all these tests.
    pub fn has(&self, groups: &[TestGroup]) -> bool {
        groups
            .iter()
            .all(|group| self.groups().any(|it| it == *group))
    }

    /// The module that its tests load besides this project's.
    pub fn test_module(&self) -> Option<TestModule> {
        if self.has(&[Codes]) || self.has(&[HybridCpu]) {
            Some(TestModule::InTreeCounters)
        } else if self.has(&[Lockup]) {
            Some(TestModule::Lockup)
        } else if self.has(&[LoadFaults]) {
            Some(TestModule::Claims)
        } else {
            None
        }
    }

    /// Whether its tests run the kernel's selftests.
    pub fn has_selftests(&self) -> bool {
        self.has(&[KernelSelftests])
    }

    /// The properties to append to QEMU's `-cpu`, separated by commas.
    pub fn cpu_properties(&self) -> String {
        let fault = self.fault.map(|fault| format!("pmu-fault={fault}"));
        let counts_accesses = self.has(&[Accesses]) || self.has(&[Svm]);
        let accesses = counts_accesses.then(|| "pmu-count-accesses=on".to_owned());
        let properties = [Some(self.machine.properties()), fault, accesses];
        join(&properties.map(Option::unwrap_or_default), ",")
    }

    /// The heading of its column in docs/generations.md.
    pub fn column(&self) -> &'static str {
        match self.debian_qemu {
            true => "no PMU, Debian's QEMU",
            false => self.machine.name,
        }
    }

    /// What the kernel's command line has besides.
    pub fn kernel_command_line(&self) -> String {
        let parts = [
            self.machine.kernel_arguments(),
            self.event.kernel_arguments(),
            self.kernel_arguments,
        ];
        join(&parts, " ")
    }
}

fn join<T: AsRef<str>>(parts: &[T], separator: &str) -> String {
    let parts = parts.iter().map(AsRef::as_ref);
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(separator)
}

/// Stands for a machine that is not the guest of a suite: see [`TestGroup::elsewhere`].
pub const NO_SUITE: Suite = Suite::new("", &[]);
/// The same, with the module in the place of the in-tree driver.
pub const NO_SUITE_PRIMARY: Suite = NO_SUITE.primary();

/// Finds a suite by its name, or one of [`BENCH`].
pub fn find(name: &str) -> Option<&'static Suite> {
    let mut all = SUITES.iter().chain(BENCH);
    all.find(|suite| suite.name == name)
}

use OtherKernel::{Checking, Older};
use TestGroup::*;

/// Exact counts, which must be exact on any machine.
const EXACT: &[TestGroup] = &[Counting, Modes, Events];

/// Everything that needs a PMU with some counters and nothing else.
const DEFAULT: &[TestGroup] = &[
    PerfTool,
    Bounds,
    Counting,
    Modes,
    Events,
    Sampling,
    Delivery,
    Contents,
    Overflow,
    Sysfs,
    Attr,
    Groups,
    Mixed,
    Tasks,
    RotationMany,
    UserRead,
    RdpmcOrders,
    Hotplug,
    Sharing,
    Offline,
    ForeignWrites,
    Exclude,
    EventZero,
];

/// What could differ from one generation of the hardware to the next.
const HARDWARE: &[TestGroup] = &[
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
const REGISTERS: &[TestGroup] = &[Offline, ForeignWrites, Exclude, EventZero];

/// The same attributes on the in-tree driver. It comes behind `HARDWARE`: the module
/// says only once who has the counters, and `sharing.rs` looks for that.
const COMPARE: &[TestGroup] = &[Compare];

/// Which counters of a model can count what, and which registers that takes.
const MODEL: &[&[TestGroup]] = &[&[
    Codes,
    Constraints,
    ExtraRegisters,
    ModelEvents,
    RandomGroups,
    Throttled,
    Topdown,
]];

/// The same of a model with RDPMC_USER_DISABLE.
const MODEL_HIDES: &[&[TestGroup]] = &[MODEL[0], &[UserReadHidden]];

/// The tables of a CPU.
const CPU: &[&[TestGroup]] = &[&[Codes, CompareSysfs, ModelEvents, RandomGroups]];

/// The tables of each type of core of a hybrid CPU.
const HYBRID_CPU: &[&[TestGroup]] = &[&[HybridCpu]];

/// The module in the place of the in-tree driver.
const PRIMARY: &[&[TestGroup]] = &[&[
    Primary, PerfTool, Counting, Modes, Events, Sampling, Groups, Mixed, Tasks, UserRead, Hotplug,
    Sysfs, Attr,
]];

/// perf's metrics, with either driver, and the two drivers compared.
const METRICS: &[&[TestGroup]] = &[&[Metrics]];
const METRICS_IN_TREE: &[&[TestGroup]] = &[&[Metrics, MetricsInTree, Beside]];

/// What needs no PMU in the CPU.
const SOFTWARE: &[TestGroup] = &[NoPmuLoaded, Clock];

/// With the NMI watchdog. While a CPU is locked up, others wait for it.
const WATCHDOG: &str = "nmi_watchdog=1 rcupdate.rcu_cpu_stall_suppress=1";

/// Without it the kernel warns when `sched_stat_runtime` is traced, as by `perf sched`.
const SCHEDSTATS: &str = "schedstats=enable";

const LOSE: Fault = Fault::Lose { every: 5 };
const DELAY: Fault = Fault::Delay {
    every: 3,
    instructions: 20_000,
};
const DELAY_LONG: Fault = Fault::Delay {
    every: 3,
    instructions: 500_000,
};
const REPEAT: Fault = Fault::Repeat {
    every: 3,
    instructions: 20_000,
};
const REPEAT_AT_ONCE: Fault = Fault::Repeat {
    every: 3,
    instructions: 1,
};
const GP_STATUS: Fault = Fault::Gp {
    // GLOBAL_STATUS.
    msr: 0x38e,
    after: 250,
};
const GP_CLEAR: Fault = Fault::Gp {
    // GLOBAL_STATUS_RESET.
    msr: 0x390,
    after: 250,
};
const NO_EVENTSEL_1: Fault = Fault::EfficientGp { msr: 0x187 };
const GP_CLEAR_AMD: Fault = Fault::Gp {
    // PerfCntrGlobalStatusClr.
    msr: 0xc000_0302,
    after: 250,
};
const SPURIOUS: Fault = Fault::Spurious {
    instructions: 100_003,
};
const GARBAGE: Fault = Fault::Garbage { seed: 1 };
const GARBAGE_TESTS: &[&[TestGroup]] =
    &[&[FaultsGarbage, CountingQuick, SamplingQuick, OverflowQuick]];

/// A register changes so often that each test meets it.
const fn foreign(register: Foreign) -> Fault {
    Fault::Foreign {
        register,
        instructions: 1_000_003,
        seed: 1,
    }
}

/// With a PMU that counts accesses.
const fn accesses(name: &'static str, machine: Machine) -> Suite {
    Suite::new(name, &[&[Accesses]])
        .on(machine)
        .cpus(1)
        .timing(Timing::Icount)
}

/// With a PMU that counts accesses, and several CPUs.
const fn accesses_of_cpus(name: &'static str, machine: Machine) -> Suite {
    accesses(name, machine).cpus(BENCH_CPUS)
}

/// How many CPUs have events in the guests of `make bench` that have several.
pub const BENCH_CPUS: u32 = 8;

/// The guests of `make bench`: two for each generation, with a PMU that counts accesses.
pub const BENCH: &[Suite] = &[
    accesses("bench-v1", machine::V1_MOST),
    accesses("bench-v2", machine::V2),
    accesses("bench-v3", machine::V3),
    accesses("bench-v4", machine::DEFAULT),
    accesses("bench-v5", machine::V5_MOST),
    accesses("bench-v6", machine::V6_MOST),
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

/// All suites.
///
/// A test that is asked for by name runs in the first suite that has it. Suites that
/// take long come early, so that none is left alone at the end of a run.
///
/// Without `ALL=1` `make test` leaves out machines on which no other group of tests runs than on
/// one that stays:
///
/// - those with the fewest counters that a generation can have, but for `hw-v2-fewest`;
/// - those of generations that another suite with the same tests has (version 2: `hw-v2-fewest`,
///   version 4: `default`, version 6: `hw-v6-gaps`), or, for a comparison with the in-tree driver, versions 1, 2 and 5;
/// - those with the signature of a model, but for Sandy Bridge, Panther Cove and the hybrid Alder Lake;
/// - faults on other machines than Intel's version 4, where a register says which counters have
///   overflowed, and AMD's legacy counters, where none does;
/// - stress on other machines than Intel's version 4;
/// - perf's metrics of Intel's CPUs, of which there are hundreds, and what the in-tree driver counts for
///   those of Zen 4;
/// - one CPU, and no PMU with this project's QEMU.
///
/// It leaves out perf's own tests as well, which take minutes. CI has 45 minutes for a cold run, so it
/// runs the same suites on the usual kernel.
///
/// Those of [`CPUS`], which are short, come last.
pub const SUITES: &[Suite] = &chain::<{ GENERAL.len() + CPUS.len() }>(GENERAL, CPUS);

/// The elements of two slices, which have `N` in all.
const fn chain<const N: usize>(first: &[Suite], second: &[Suite]) -> [Suite; N] {
    assert!(first.len() + second.len() == N);
    let mut all = [first[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = match i.checked_sub(first.len()) {
            None => first[i],
            Some(i) => second[i],
        };
        i += 1;
    }
    all
}

/// The suites about a generation, a part of the driver, or a fault.
const GENERAL: &[Suite] = &[
    Suite::new("default", &[DEFAULT]).also_on(&[Older]),
    Suite::new("one-cpu", &[&[PerfTool, Counting, Modes, Events, Sampling]])
        .cpus(1)
        .with_all(),
    // The two have the same machine and expect the same.
    Suite::new("perf-test", &[&[PerfTest]])
        .on(machine::SKYLAKE_DEFAULT)
        .primary()
        .with_all(),
    Suite::new("perf-test-in-tree", &[&[PerfTest]])
        .on(machine::SKYLAKE_DEFAULT)
        .unloaded()
        .with_all(),
    Suite::new("lifecycle", &[&[Lifecycle, Parameters, Beside]])
        .unloaded()
        .also_on(&[Older]),
    Suite::new("sleep", &[&[Sleep]]).event(SystemEvent::Sleep),
    Suite::new("saved", &[&[Saved, SavedKinds]])
        .event(SystemEvent::Saved)
        .on(machine::SKYLAKE_DEFAULT),
    Suite::new("saved-amd", &[&[Saved, SavedKinds]])
        .event(SystemEvent::Saved)
        .on(machine::ZEN_3_DEFAULT)
        .with_all(),
    // On Haswell a period goes on later if less than 128 instructions were left when the task was
    // preempted.
    Suite::new("saved-siblings", &[&[Saved]])
        .event(SystemEvent::Saved)
        .on(machine::SANDY_BRIDGE_DEFAULT)
        .hyper_threading()
        .with_all(),
    Suite::new("saved-ref-cycles", &[&[SavedRefCycles]])
        .event(SystemEvent::Saved)
        .on(machine::V4_TSC)
        .cpus(1)
        .timing(Timing::Icount),
    Suite::new("stress", &[&[Stress]]).also_on(&[Checking]),
    Suite::new("stress-amd-v2", &[&[Stress]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::new("stress-amd-legacy", &[&[Stress]])
        .on(machine::AMD_LEGACY)
        .with_all(),
    Suite::new("stress-v1", &[&[Stress]])
        .on(machine::V1)
        .with_all(),
    Suite::new("stress-hybrid", &[&[Stress]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .with_all(),
    Suite::new("hw-v5", &[HARDWARE, COMPARE, &[Topdown]]).on(machine::V5_MOST),
    Suite::new("amd-v2", &[HARDWARE, &[Pairs]])
        .on(machine::AMD_V2_MOST)
        .also_on(&[Older]),
    Suite::new("amd-core", &[HARDWARE, COMPARE, REGISTERS, &[Pairs]]).on(machine::AMD_CORE),
    Suite::new("amd-legacy", &[HARDWARE, COMPARE, REGISTERS]).on(machine::AMD_LEGACY),
    Suite::new("hw-v1", &[HARDWARE]).on(machine::V1_MOST),
    Suite::new("hw-v2", &[HARDWARE])
        .on(machine::V2_MOST)
        .with_all(),
    Suite::new("hw-v3", &[HARDWARE]).on(machine::V3_MOST),
    Suite::new("hw-v4", &[HARDWARE])
        .on(machine::V4_MOST)
        .with_all(),
    Suite::new("hw-v6", &[HARDWARE])
        .on(machine::V6_MOST)
        .with_all(),
    Suite::new("hygon", &[HARDWARE, &[Pairs]]).on(machine::HYGON),
    Suite::new("zhaoxin", &[HARDWARE]).on(machine::ZHAOXIN),
    Suite::new("hw-v1-fewest", &[HARDWARE])
        .on(machine::V1_FEWEST)
        .with_all(),
    Suite::new("hw-v2-fewest", &[HARDWARE]).on(machine::V2_FEWEST),
    Suite::new("hw-v2-few", &[HARDWARE])
        .on(machine::V2_FEW)
        .with_all(),
    Suite::new("hw-v3-fewest", &[HARDWARE])
        .on(machine::V3_FEWEST)
        .with_all(),
    Suite::new("hw-v4-fewest", &[HARDWARE])
        .on(machine::V4_FEWEST)
        .with_all(),
    Suite::new("hw-v5-fewest", &[HARDWARE])
        .on(machine::V5_FEWEST)
        .with_all(),
    Suite::new("hw-v5-no-fixed", &[HARDWARE])
        .on(machine::V5_NO_FIXED)
        .with_all(),
    Suite::new("hw-v6-fewest", &[HARDWARE])
        .on(machine::V6_FEWEST)
        .with_all(),
    Suite::new("hw-v6-gaps", &[HARDWARE, REGISTERS]).on(machine::V6_GAPS),
    Suite::new("amd-v2-fewest", &[HARDWARE, &[Pairs]])
        .on(machine::AMD_V2_FEWEST)
        .with_all(),
    Suite::new("trace", &[&[TraceCompare, Trace]]).kernel_arguments(SCHEDSTATS),
    Suite::new("compare-v1", &[COMPARE, REGISTERS]).on(machine::V1),
    Suite::new("compare-v2", &[COMPARE]).on(machine::V2),
    Suite::new("compare-v3", &[COMPARE])
        .on(machine::V3)
        .with_all(),
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
    Suite::new("models-sapphire-rapids", MODEL)
        .on(machine::SAPPHIRE_RAPIDS)
        .hyper_threading()
        .with_all(),
    Suite::new("models-crestmont", MODEL)
        .on(machine::CRESTMONT)
        .hyper_threading()
        .with_all(),
    Suite::new("models-panther-cove", MODEL_HIDES).on(machine::PANTHER_COVE),
    Suite::new("models-alder-lake-hybrid", &[&[Hybrid, HybridCpu]])
        .on(machine::ALDER_LAKE)
        .cpus(4),
    Suite::new("lifecycle-hybrid", &[&[Beside]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .unloaded(),
    Suite::new("models-alder-lake-alone", HYBRID_CPU)
        .on(machine::ALDER_LAKE_ALONE)
        .with_all(),
    Suite::new("models-meteor-lake-hybrid", &[&[Hybrid]])
        .on(machine::METEOR_LAKE)
        .cpus(4)
        .with_all(),
    Suite::new("models-lunar-lake-hybrid", &[&[Hybrid]])
        .on(machine::LUNAR_LAKE)
        .cpus(4)
        .with_all(),
    Suite::new("models-nova-lake-hybrid", &[&[Hybrid]])
        .on(machine::NOVA_LAKE)
        .cpus(4)
        .with_all(),
    Suite::new("primary", PRIMARY)
        .on(machine::SKYLAKE_DEFAULT)
        .primary()
        .also_on(&[Older]),
    Suite::new("primary-sleep", &[&[Sleep]])
        .event(SystemEvent::Sleep)
        .primary()
        .with_all(),
    Suite::new("primary-watchdog", &[&[Lockup]])
        .kernel_arguments(WATCHDOG)
        .primary(),
    Suite::new("primary-watchdog-hybrid", &[&[Lockup]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .kernel_arguments(WATCHDOG)
        .primary()
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
    // The harness of the selftests stops a test after 30 s, which here are of the guest's clock.
    Suite::new("kernel-selftests", &[&[KernelSelftests]])
        .on(machine::SKYLAKE_DEFAULT)
        .primary()
        .timing(Timing::Icount),
    Suite::new("primary-amd", PRIMARY)
        .on(machine::ZEN_3_DEFAULT)
        .primary()
        .with_all(),
    Suite::new("primary-hybrid", &[&[Primary]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .primary()
        .with_all(),
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
        .primary(),
    Suite::new("metrics-zen-4-in-tree", &[&[MetricsInTree, Beside]])
        .on(machine::ZEN_4_DEFAULT)
        .cpus(1)
        .unloaded(),
    // This tests the model, not the module.
    Suite::new("metrics-zen-4-in-tree-counts", METRICS)
        .on(machine::ZEN_4_DEFAULT)
        .cpus(1)
        .unloaded()
        .with_all(),
    Suite::new("svm", &[&[Svm]]).on(machine::AMD_CORE),
    Suite::new("svm-v2", &[&[Svm]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::new("svm-legacy", &[&[Svm]])
        .on(machine::AMD_LEGACY)
        .with_all(),
    Suite::new("compare-amd-v2", &[COMPARE, REGISTERS, &[Pairs]]).on(machine::AMD_V2),
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
        ]],
    )
    .cpus(1)
    .timing(Timing::Icount),
    accesses("accesses", machine::DEFAULT),
    accesses("accesses-v1", machine::V1_MOST),
    accesses("accesses-v5", machine::V5_MOST),
    accesses("accesses-amd-core", machine::AMD_CORE),
    accesses("accesses-amd-v2", machine::AMD_V2),
    Suite::new("fail-nth", &[&[FailNth]]).also_on(&[Checking]),
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
    Suite::new("clock", &[&[Clock, ClockCompare]]),
    Suite::new("cost", &[&[Cost, TraceCost, ProbesCost]])
        .cpus(1)
        .timing(Timing::Icount),
    Suite::new("icount-smp", &[&[CountingQuick, Modes]]).timing(Timing::Icount),
    Suite::new("one-thread", &[EXACT]).timing(Timing::OneThread),
    Suite::new("32-bit", &[&[OverflowWidth]]).on(machine::V4_32_BITS),
    Suite::new("sign-extended", &[&[OverflowWidth, Counting]]).on(machine::V4_SIGN_EXTENDED),
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
    Suite::new("40-bit", &[&[OverflowWidth]])
        .on(machine::V4_40_BITS)
        .with_all(),
    Suite::new("probes", &[&[Probes]]),
    Suite::new("kexec", &[&[Kexec, CountingQuick]]).event(SystemEvent::Kexec),
    Suite::new("watchdog", &[&[Watchdog]]).kernel_arguments("nmi_watchdog=1"),
    Suite::new("parameters-amd", &[&[Parameters, Beside]])
        .unloaded()
        .on(machine::AMD_V2),
    Suite::new("example", &[&[Example]]).example("switch_pmu"),
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
    Suite::new("unreserved", &[&[Unreserved]])
        .unloaded()
        .kernel_arguments("nmi_watchdog=1")
        .on(machine::V6_MOST),
    Suite::fault("faults-gp-status", GP_STATUS, &[&[GpFault]]),
    Suite::fault("faults-gp-clear", GP_CLEAR, &[&[GpFault]]),
    Suite::fault("faults-efficient-cores", NO_EVENTSEL_1, &[&[HybridFault]])
        .on(machine::ALDER_LAKE)
        .cpus(4)
        .unloaded(),
    Suite::fault("faults-mask-lvtpc", Fault::MaskLvtpc, &[&[Lvtpc]])
        .on(machine::AMD_CORE)
        .cpus(2),
    Suite::fault("faults-mask-lvtpc-v2", Fault::MaskLvtpc, &[&[Lvtpc]])
        .on(machine::AMD_V2)
        .cpus(2)
        .with_all(),
    Suite::fault("faults-lose", LOSE, &[&[FaultsLose]]),
    Suite::fault("faults-lose-amd-legacy", LOSE, &[&[FaultsLose]]).on(machine::AMD_LEGACY),
    Suite::fault("faults-lose-amd-v2", LOSE, &[&[FaultsLose]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::fault("faults-delay", DELAY, &[&[FaultsDelay, Security]]),
    Suite::fault("faults-delay-v1", DELAY, &[&[FaultsDelay]])
        .on(machine::V1)
        .with_all(),
    Suite::fault("faults-delay-amd-legacy", DELAY, &[&[FaultsDelay]]).on(machine::AMD_LEGACY),
    Suite::fault("faults-delay-amd-v2", DELAY, &[&[FaultsDelay]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::fault("faults-delay-long", DELAY_LONG, &[&[FaultsDelayLong]]),
    Suite::fault(
        "faults-delay-long-amd-legacy",
        DELAY_LONG,
        &[&[FaultsDelayLong]],
    )
    .on(machine::AMD_LEGACY),
    Suite::fault(
        "faults-delay-long-amd-v2",
        DELAY_LONG,
        &[&[FaultsDelayLong]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    Suite::fault("faults-repeat", REPEAT, &[&[FaultsRepeat]]),
    Suite::fault("faults-repeat-v1", REPEAT, &[&[FaultsRepeat]])
        .on(machine::V1)
        .with_all(),
    Suite::fault("faults-repeat-amd-legacy", REPEAT, &[&[FaultsRepeat]]).on(machine::AMD_LEGACY),
    Suite::fault("faults-repeat-amd-v2", REPEAT, &[&[FaultsRepeat]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::fault(
        "faults-repeat-at-once",
        REPEAT_AT_ONCE,
        &[&[FaultsRepeatAtOnce]],
    ),
    Suite::fault(
        "faults-repeat-at-once-amd-legacy",
        REPEAT_AT_ONCE,
        &[&[FaultsRepeatAtOnce]],
    )
    .on(machine::AMD_LEGACY),
    Suite::fault(
        "faults-repeat-at-once-amd-v2",
        REPEAT_AT_ONCE,
        &[&[FaultsRepeatAtOnce]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    // Not on AMD: a PMI does not mask LVTPC there, so that nothing tells a spurious PMI
    // from another NMI.
    Suite::fault("faults-spurious", SPURIOUS, &[&[FaultsSpurious]]),
    Suite::fault(
        "faults-status",
        Fault::Status {
            bits: 0x7_0000_000f,
        },
        &[&[FaultsStatus]],
    ),
    Suite::fault(
        "faults-status-v2",
        Fault::Status {
            bits: 0x7_0000_0003,
        },
        &[&[FaultsStatus]],
    )
    .on(machine::V2)
    .with_all(),
    Suite::fault("faults-spurious-v1", SPURIOUS, &[&[FaultsSpurious]])
        .on(machine::V1)
        .with_all(),
    // Without the status nothing tells a PMI from another NMI there.
    Suite::fault("faults-gp-clear-amd-v2", GP_CLEAR_AMD, &[&[GpFault]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::fault("faults-garbage", GARBAGE, GARBAGE_TESTS),
    Suite::fault("faults-garbage-v1", GARBAGE, GARBAGE_TESTS)
        .on(machine::V1)
        .with_all(),
    Suite::fault("faults-garbage-amd-legacy", GARBAGE, GARBAGE_TESTS).on(machine::AMD_LEGACY),
    // With pairs.
    Suite::fault("faults-garbage-amd-v2", GARBAGE, GARBAGE_TESTS)
        .on(machine::ZEN_4_DEFAULT)
        .with_all(),
    // With extra registers and PERF_METRICS.
    Suite::fault("faults-garbage-primary", GARBAGE, GARBAGE_TESTS)
        .on(machine::SAPPHIRE_RAPIDS_DEFAULT)
        .primary()
        .with_all(),
    Suite::fault(
        "faults-foreign-eventsel",
        foreign(Foreign::EventSel),
        &[&[FaultsForeign]],
    ),
    Suite::fault(
        "faults-foreign-eventsel-v1",
        foreign(Foreign::EventSel),
        &[&[FaultsForeign]],
    )
    .on(machine::V1)
    .with_all(),
    Suite::fault(
        "faults-foreign-eventsel-amd-legacy",
        foreign(Foreign::EventSel),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_LEGACY),
    Suite::fault(
        "faults-foreign-eventsel-amd-v2",
        foreign(Foreign::EventSel),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    Suite::fault(
        "faults-foreign-fixed",
        foreign(Foreign::FixedCtrCtrl),
        &[&[FaultsForeign]],
    )
    .with_all(),
    Suite::fault(
        "faults-foreign-counter",
        foreign(Foreign::Counter),
        &[&[FaultsForeign]],
    )
    .with_all(),
    Suite::fault(
        "faults-foreign-counter-amd-v2",
        foreign(Foreign::Counter),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    Suite::fault(
        "faults-foreign-global-ctrl",
        foreign(Foreign::GlobalCtrl),
        &[&[FaultsForeign]],
    )
    .with_all(),
    Suite::fault(
        "faults-foreign-global-ctrl-amd-v2",
        foreign(Foreign::GlobalCtrl),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_V2)
    .with_all(),
    Suite::fault(
        "faults-foreign-zero",
        foreign(Foreign::Zero),
        &[&[FaultsForeign]],
    )
    .with_all(),
    Suite::fault(
        "faults-foreign-zero-amd-legacy",
        foreign(Foreign::Zero),
        &[&[FaultsForeign]],
    )
    .on(machine::AMD_LEGACY)
    .with_all(),
    Suite::new("load-faults", &[&[LoadFaults]]).unloaded(),
    Suite::new("load-faults-amd-legacy", &[&[LoadFaults]])
        .on(machine::AMD_LEGACY)
        .unloaded()
        .with_all(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_need_no_quotes() {
        let names: HashSet<_> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(plain)));
    }

    #[test]
    fn the_first_suite_is_the_default_guest() {
        let suite = SUITES[0];
        assert_eq!(suite.cpu_properties(), "");
        assert_eq!(suite.kernel_command_line(), "");
        assert_eq!(suite.timing.qemu_args(), "");
        assert!(suite.load_module && suite.by_default);
    }

    #[test]
    fn a_suite_is_rendered_for_qemu() {
        let suite = |name| find(name).unwrap();
        assert_eq!(
            suite("faults-delay-v1").cpu_properties(),
            "pmu-version=1,pmu-fault=delay:3:20000"
        );
        assert_eq!(
            suite("faults-status").cpu_properties(),
            "pmu-fault=status:0x70000000f"
        );
        assert_eq!(
            suite("sleep").kernel_command_line(),
            "loglevel=1 deferred_probe_timeout=0"
        );
        assert_eq!(suite("hw-v1").kernel_command_line(), "mitigations=off");
        assert_eq!(
            suite("icount").timing.qemu_args(),
            "-icount shift=0,sleep=off"
        );
        assert!(find("hw").is_none());
    }

    #[test]
    fn faults_that_number_pmis_have_one_cpu() {
        let numbered = |suite: &&Suite| {
            let other = |fault| matches!(fault, Fault::MaskLvtpc | Fault::EfficientGp { .. });
            suite.fault.is_some_and(|fault| !other(fault))
        };
        assert!(SUITES.iter().filter(numbered).all(|suite| suite.cpus == 1));
    }

    /// `make test` without `ALL=1` runs every group, and `HARDWARE` on each generation.
    #[test]
    fn the_default_set_leaves_out_machines_only() {
        let by_default = || SUITES.iter().filter(|suite| suite.by_default);
        for group in TestGroup::ALL {
            let group = match group {
                // The whole of compare.rs has it.
                CompareSysfs => &Compare,
                // It takes minutes.
                PerfTest => continue,
                group => group,
            };
            assert!(
                by_default().any(|suite| suite.has(&[*group])),
                "{}",
                group.name()
            );
        }
        let generation = |suite: &Suite| {
            let pmu = suite.machine.pmu.unwrap();
            (suite.machine.vendor.cpuid(), pmu.version)
        };
        let with_hardware = |suite: &&Suite| {
            // The whole of overflow.rs has its quick part.
            let mut groups = HARDWARE.iter();
            groups.all(|group| suite.has(&[*group]) || suite.has(&[Overflow]))
        };
        let all: HashSet<_> = SUITES
            .iter()
            .filter(with_hardware)
            .map(generation)
            .collect();
        let some: HashSet<_> = by_default().filter(with_hardware).map(generation).collect();
        // Version 4 is what the default suite runs on, without naming it.
        let missing: Vec<_> = all.difference(&some).collect();
        assert_eq!(missing, [&("GenuineIntel", Some(4))]);
    }
}
