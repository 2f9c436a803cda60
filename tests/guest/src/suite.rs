// SPDX-License-Identifier: GPL-2.0
//! The table of suites: which tests run together, and in which guest.

use anyhow::{bail, Result};

use crate::ctx::Test;
use crate::tests::{
    attr, compare, contents, counting, delivery, event_zero, events, exclude, faults,
    foreign_writes, gp_fault, groups, hotplug, kexec, lifecycle, lvtpc, mixed, modes, no_pmu,
    offline, overflow, parameters, perf_tool, rotation, sampling, sharing, sleep, sysfs, tasks,
    unreserved, user_read, watchdog,
};

/// A CPU to run suites on.
pub struct Machine {
    /// The heading of its column in docs/generations.md: the generation, then the
    /// number of general counters, `+` and that of fixed ones. Empty for none.
    name: &'static str,
    /// Properties to append to the usual -cpu string.
    cpu: &'static str,
    /// What its kernel gets on the command line.
    append: &'static str,
}

impl Machine {
    const fn new(name: &'static str, cpu: &'static str) -> Self {
        Self {
            name,
            cpu,
            // They cost an emulated CPU much time, and of a Zen 3 or later without
            // the microcode that goes with them the kernel warns.
            append: "mitigations=off",
        }
    }
}

/// What the usual -cpu string gives.
const USUAL: Machine = Machine {
    name: "Intel v4 4+3",
    cpu: "",
    append: "",
};
const BITS_32: Machine = Machine::new("Intel v4, 32 bits 4+3", "pmu-width=32");
const BITS_40: Machine = Machine::new("Intel v4, 40 bits 4+3", "pmu-width=40");
const NO_PMU: Machine = Machine::new("", "pmu=off");

const V1_FEWEST: Machine = Machine::new("Intel v1 1", "pmu-version=1,pmu-counters=1,pmu-width=32");
const V1: Machine = Machine::new("Intel v1 2", "pmu-version=1");
const V1_MOST: Machine = Machine::new("Intel v1 8", "pmu-version=1,pmu-counters=8");
const V2_FEWEST: Machine = Machine::new(
    "Intel v2 1+0",
    "pmu-version=2,pmu-counters=1,pmu-fixed=0,pmu-width=32",
);
const V2_FEW: Machine = Machine::new(
    "Intel v2 2+1",
    "pmu-version=2,pmu-counters=2,pmu-fixed=1,pmu-width=32",
);
const V2: Machine = Machine::new("Intel v2 2+3", "pmu-version=2");
const V2_MOST: Machine = Machine::new("Intel v2 8+3", "pmu-version=2,pmu-counters=8,pmu-fixed=3");
const V3: Machine = Machine::new("Intel v3 4+3", "pmu-version=3");
const V3_FEWEST: Machine = Machine::new("Intel v3 1+0", "pmu-version=3,pmu-counters=1,pmu-fixed=0");
const V3_MOST: Machine = Machine::new("Intel v3 8+3", "pmu-version=3,pmu-counters=8,pmu-fixed=3");
const V4_FEWEST: Machine = Machine::new("Intel v4 1+0", "pmu-version=4,pmu-counters=1,pmu-fixed=0");
const V4_MOST: Machine = Machine::new("Intel v4 8+3", "pmu-version=4,pmu-counters=8,pmu-fixed=3");
const V5_FEWEST: Machine = Machine::new(
    "Intel v5 1+0",
    "pmu-version=5,pmu-counters=1,pmu-fixed=0,pmu-width=40",
);
// Not below version 5: the in-tree driver then takes no fixed counters for 64.
const V5_NO_FIXED: Machine =
    Machine::new("Intel v5 8+0", "pmu-version=5,pmu-counters=8,pmu-fixed=0");
const V5_MOST: Machine = Machine::new("Intel v5 8+4", "pmu-version=5,pmu-counters=8,pmu-fixed=4");
const V6_FEWEST: Machine = Machine::new("Intel v6 1+0", "pmu-version=6,pmu-counters=1,pmu-fixed=0");
/// Counters 2 and 4 are missing.
const V6_GAPS: Machine = Machine::new("Intel v6 4+4", "pmu-version=6,pmu-counter-mask=0x2b");
const V6_MOST: Machine = Machine::new("Intel v6 8+4", "pmu-version=6,pmu-counters=8,pmu-fixed=4");

const AMD_LEGACY: Machine = Machine::new("AMD legacy 4", "vendor=AuthenticAMD,pmu-version=1");
const AMD_CORE: Machine = Machine::new(
    "AMD core 6",
    "vendor=AuthenticAMD,family=0x17,model=0x31,stepping=0,pmu-version=2",
);
const AMD_V2_FEWEST: Machine = Machine::new(
    "AMD v2 1",
    "vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1,pmu-counters=1",
);
const AMD_V2: Machine = Machine::new(
    "AMD v2 6",
    "vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1",
);
const AMD_V2_MOST: Machine = Machine::new(
    "AMD v2 15",
    "vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1,pmu-counters=15",
);
const HYGON: Machine = Machine::new(
    "Hygon 6",
    "vendor=HygonGenuine,family=0x18,model=0,stepping=1,pmu-version=2",
);
const ZHAOXIN: Machine = Machine::new(
    "Zhaoxin 2+3",
    "vendor=  Shanghai  ,family=7,model=0x1b,pmu-version=2",
);

/// What happens to the whole system in a suite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SystemEvent {
    None,
    /// The tests run in a second kernel, to which the first gave way.
    Kexec,
    /// The tests have the system sleep.
    Sleep,
}

/// A guest, and what to run in it.
pub struct Suite {
    pub name: &'static str,
    smp: u32,
    qemu_args: &'static str,
    append: &'static str,
    /// Whether the runner is to load the module first.
    load: bool,
    machine: Machine,
    /// What goes wrong with the PMU: the property `pmu-fault` of qemu/README.md.
    fault: Option<&'static str>,
    pub event: SystemEvent,
    pub tests: &'static [&'static [Test]],
}

impl Suite {
    const fn new(name: &'static str, tests: &'static [&'static [Test]]) -> Self {
        Self {
            name,
            smp: 2,
            qemu_args: "",
            append: "",
            load: true,
            machine: USUAL,
            fault: None,
            event: SystemEvent::None,
            tests,
        }
    }

    const fn smp(self, smp: u32) -> Self {
        Self { smp, ..self }
    }

    const fn qemu_args(self, qemu_args: &'static str) -> Self {
        Self { qemu_args, ..self }
    }

    const fn append(self, append: &'static str) -> Self {
        Self { append, ..self }
    }

    const fn on(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    const fn fault(self, fault: &'static str) -> Self {
        Self {
            fault: Some(fault),
            ..self
        }
    }

    const fn event(self, event: SystemEvent) -> Self {
        Self { event, ..self }
    }

    const fn unloaded(self) -> Self {
        Self {
            load: false,
            ..self
        }
    }
}

/// What is exact must be so on any machine: these run on many.
const EXACT: &[&[Test]] = &[counting::TESTS, modes::TESTS, events::TESTS];

/// What could differ from one generation of the hardware to the next.
const HARDWARE: &[&[Test]] = &[
    counting::TESTS,
    modes::TESTS,
    events::TESTS,
    groups::TESTS,
    sampling::TESTS,
    overflow::QUICK,
    sysfs::TESTS,
    attr::TESTS,
    tasks::TESTS,
    hotplug::TESTS,
    sharing::TESTS,
    user_read::TESTS,
];

/// The same attributes on the in-tree driver.
const COMPARE: &[&[Test]] = &[compare::TESTS];

/// What a driver leaves in the PMU's registers, and what it finds there.
const REGISTERS: &[&[Test]] = &[
    offline::TESTS,
    foreign_writes::TESTS,
    exclude::TESTS,
    event_zero::TESTS,
];

const SUITES: &[Suite] = &[
    Suite::new("registers", REGISTERS),
    Suite::new("registers-v1", REGISTERS).on(V1),
    Suite::new("registers-v6", REGISTERS).on(V6_GAPS),
    Suite::new("registers-amd-legacy", REGISTERS).on(AMD_LEGACY),
    Suite::new("registers-amd-core", REGISTERS).on(AMD_CORE),
    Suite::new("registers-amd-v2", REGISTERS).on(AMD_V2),
    Suite::new("unreserved", &[unreserved::TESTS])
        .unloaded()
        .append("nmi_watchdog=1")
        .on(V6_MOST),
    Suite::new("faults-gp-status", &[gp_fault::TESTS])
        .smp(1)
        .fault("gp:0x38e:250"),
    Suite::new("faults-gp-clear", &[gp_fault::TESTS])
        .smp(1)
        .fault("gp:0x390:250"),
    Suite::new("faults-mask-lvtpc", &[lvtpc::TESTS])
        .on(AMD_CORE)
        .fault("mask-lvtpc"),
    Suite::new("faults-mask-lvtpc-v2", &[lvtpc::TESTS])
        .on(AMD_V2)
        .fault("mask-lvtpc"),
    Suite::new("counting", EXACT),
    Suite::new("counting-up", EXACT).smp(1),
    Suite::new("counting-one-thread", EXACT).qemu_args("-accel tcg,thread=single"),
    Suite::new(
        "counting-icount",
        &[
            counting::QUICK,
            modes::TESTS,
            events::TESTS,
            sampling::QUICK,
        ],
    )
    .smp(1)
    .qemu_args("-icount shift=0,sleep=off"),
    Suite::new("counting-icount-smp", &[counting::QUICK, modes::TESTS])
        .qemu_args("-icount shift=0,sleep=off"),
    Suite::new(
        "sampling",
        &[
            sampling::TESTS,
            delivery::TESTS,
            contents::TESTS,
            overflow::TESTS,
        ],
    ),
    Suite::new("rotation", &[rotation::STEADY])
        .smp(1)
        .qemu_args("-icount shift=0,sleep=off"),
    Suite::new("sampling-32-bit", &[overflow::WIDTH]).on(BITS_32),
    Suite::new("sampling-40-bit", &[overflow::WIDTH]).on(BITS_40),
    Suite::new("sampling-up", &[sampling::TESTS]).smp(1),
    Suite::new("perf-tool", &[perf_tool::TESTS]),
    Suite::new("perf-tool-up", &[perf_tool::TESTS]).smp(1),
    Suite::new(
        "interface",
        &[
            sysfs::TESTS,
            attr::TESTS,
            groups::TESTS,
            mixed::TESTS,
            tasks::TESTS,
            rotation::MANY,
        ],
    ),
    Suite::new("user-read", &[user_read::TESTS]),
    Suite::new("compare-v1", COMPARE).on(V1),
    Suite::new("compare-v2", COMPARE).on(V2),
    Suite::new("compare-v3", COMPARE).on(V3),
    Suite::new("compare", COMPARE).on(V5_MOST),
    Suite::new("compare-amd-legacy", COMPARE).on(AMD_LEGACY),
    Suite::new("compare-amd-core", COMPARE).on(AMD_CORE),
    Suite::new("compare-amd-v2", COMPARE).on(AMD_V2),
    Suite::new("hotplug", &[hotplug::TESTS]),
    Suite::new("sharing", &[sharing::TESTS]),
    Suite::new("lifecycle", &[lifecycle::TESTS, parameters::TESTS]).unloaded(),
    Suite::new("parameters-amd", &[parameters::TESTS])
        .unloaded()
        .on(AMD_V2),
    Suite::new("kexec", &[kexec::TESTS, counting::QUICK]).event(SystemEvent::Kexec),
    // The report is on the console, alone.
    Suite::new("sleep", &[sleep::TESTS])
        .event(SystemEvent::Sleep)
        .append("loglevel=1"),
    Suite::new("watchdog", &[watchdog::TESTS]).append("nmi_watchdog=1"),
    Suite::new("no-pmu", &[no_pmu::TESTS]).unloaded().on(NO_PMU),
    Suite::new("hw-v1-fewest", HARDWARE).on(V1_FEWEST),
    Suite::new("hw-v1", HARDWARE).on(V1_MOST),
    Suite::new("hw-v2-fewest", HARDWARE).on(V2_FEWEST),
    Suite::new("hw-v2-few", HARDWARE).on(V2_FEW),
    Suite::new("hw-v2", HARDWARE).on(V2_MOST),
    Suite::new("hw-v3-fewest", HARDWARE).on(V3_FEWEST),
    Suite::new("hw-v3", HARDWARE).on(V3_MOST),
    Suite::new("hw-v4-fewest", HARDWARE).on(V4_FEWEST),
    Suite::new("hw-v4", HARDWARE).on(V4_MOST),
    Suite::new("hw-v5-fewest", HARDWARE).on(V5_FEWEST),
    Suite::new("hw-v5-no-fixed", HARDWARE).on(V5_NO_FIXED),
    Suite::new("hw-v5", HARDWARE).on(V5_MOST),
    Suite::new("hw-v6-fewest", HARDWARE).on(V6_FEWEST),
    Suite::new("hw-v6-gaps", HARDWARE).on(V6_GAPS),
    Suite::new("hw-v6", HARDWARE).on(V6_MOST),
    Suite::new("amd-legacy", HARDWARE).on(AMD_LEGACY),
    Suite::new("amd-core", HARDWARE).on(AMD_CORE),
    Suite::new("amd-v2-fewest", HARDWARE).on(AMD_V2_FEWEST),
    Suite::new("amd-v2", HARDWARE).on(AMD_V2_MOST),
    Suite::new("hygon", HARDWARE).on(HYGON),
    Suite::new("zhaoxin", HARDWARE).on(ZHAOXIN),
    Suite::new("faults-lose", &[faults::LOSE])
        .smp(1)
        .fault("lose:5"),
    Suite::new("faults-lose-amd-legacy", &[faults::LOSE])
        .smp(1)
        .on(AMD_LEGACY)
        .fault("lose:5"),
    Suite::new("faults-lose-amd-v2", &[faults::LOSE])
        .smp(1)
        .on(AMD_V2)
        .fault("lose:5"),
    Suite::new("faults-delay", &[faults::DELAY])
        .smp(1)
        .fault("delay:3:20000"),
    Suite::new("faults-delay-v1", &[faults::DELAY])
        .smp(1)
        .on(V1)
        .fault("delay:3:20000"),
    Suite::new("faults-delay-amd-legacy", &[faults::DELAY])
        .smp(1)
        .on(AMD_LEGACY)
        .fault("delay:3:20000"),
    Suite::new("faults-delay-amd-v2", &[faults::DELAY])
        .smp(1)
        .on(AMD_V2)
        .fault("delay:3:20000"),
    Suite::new("faults-delay-long", &[faults::DELAY_LONG])
        .smp(1)
        .fault("delay:3:500000"),
    Suite::new("faults-delay-long-amd-legacy", &[faults::DELAY_LONG])
        .smp(1)
        .on(AMD_LEGACY)
        .fault("delay:3:500000"),
    Suite::new("faults-delay-long-amd-v2", &[faults::DELAY_LONG])
        .smp(1)
        .on(AMD_V2)
        .fault("delay:3:500000"),
    Suite::new("faults-repeat", &[faults::REPEAT])
        .smp(1)
        .fault("repeat:3:20000"),
    Suite::new("faults-repeat-v1", &[faults::REPEAT])
        .smp(1)
        .on(V1)
        .fault("repeat:3:20000"),
    Suite::new("faults-repeat-amd-legacy", &[faults::REPEAT])
        .smp(1)
        .on(AMD_LEGACY)
        .fault("repeat:3:20000"),
    Suite::new("faults-repeat-amd-v2", &[faults::REPEAT])
        .smp(1)
        .on(AMD_V2)
        .fault("repeat:3:20000"),
    Suite::new("faults-repeat-at-once", &[faults::REPEAT_AT_ONCE])
        .smp(1)
        .fault("repeat:3:1"),
    Suite::new(
        "faults-repeat-at-once-amd-legacy",
        &[faults::REPEAT_AT_ONCE],
    )
    .smp(1)
    .on(AMD_LEGACY)
    .fault("repeat:3:1"),
    Suite::new("faults-repeat-at-once-amd-v2", &[faults::REPEAT_AT_ONCE])
        .smp(1)
        .on(AMD_V2)
        .fault("repeat:3:1"),
    // Not on AMD: LVTPC is not masked there, so that nothing tells a PMI that came for
    // nothing from another NMI.
    Suite::new("faults-spurious", &[faults::SPURIOUS])
        .smp(1)
        .fault("spurious:100003"),
    Suite::new("faults-status", &[faults::STATUS])
        .smp(1)
        .fault("status:0x70000000f"),
    Suite::new("faults-status-v2", &[faults::STATUS])
        .smp(1)
        .on(V2)
        .fault("status:0x700000003"),
];

/// Finds a suite by its name.
pub fn find(name: &str) -> Result<&'static Suite> {
    match SUITES.iter().find(|suite| suite.name == name) {
        Some(suite) => Ok(suite),
        None => bail!("no suite {name}; --list lists them"),
    }
}

/// Prints the table for the runner, a suite a line, tab-separated: name, number
/// of CPUs, QEMU arguments, kernel command line, flag (`noload`: do not load the
/// module; `console`: the report is there; `kexec`: it wants its initramfs),
/// properties for the end of the -cpu string, the machine's name.
pub fn list() {
    for suite in SUITES {
        let Suite {
            name,
            smp,
            qemu_args,
            append,
            load,
            machine,
            fault,
            event,
            ..
        } = suite;
        let append = [machine.append, append].join(" ");
        let append = append.trim();
        let flag = match (load, event) {
            (false, _) => "noload",
            (true, SystemEvent::Sleep) => "console",
            (true, SystemEvent::Kexec) => "kexec",
            (true, SystemEvent::None) => "",
        };
        let fault = fault.map(|fault| format!("pmu-fault={fault}"));
        let cpu = [Some(machine.cpu), fault.as_deref()].into_iter().flatten();
        let cpu: Vec<_> = cpu.filter(|part| !part.is_empty()).collect();
        let (cpu, machine) = (cpu.join(","), machine.name);
        println!("{name}\t{smp}\t{qemu_args}\t{append}\t{flag}\t{cpu}\t{machine}");
    }
}
