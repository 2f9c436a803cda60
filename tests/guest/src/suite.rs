// SPDX-License-Identifier: GPL-2.0
//! The table of suites: which tests run together, and in which guest.

use anyhow::{bail, Result};

use crate::ctx::Test;
use crate::tests::{
    attr, compare, contents, counting, delivery, events, faults, groups, hotplug, kexec, lifecycle,
    mixed, modes, no_pmu, overflow, parameters, perf_tool, rotation, sampling, sharing, sysfs,
    tasks, user_read, watchdog,
};

/// A guest, and what to run in it.
pub struct Suite {
    pub name: &'static str,
    smp: u32,
    qemu_args: &'static str,
    append: &'static str,
    /// Whether the runner is to load the module first.
    load: bool,
    /// Properties to append to the usual -cpu string.
    cpu: &'static str,
    /// What goes wrong with the PMU: the property `pmu-fault` of qemu/README.md.
    fault: Option<&'static str>,
    /// Whether to run the tests in a kernel that was booted by kexec.
    pub second_kernel: bool,
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
            cpu: "",
            fault: None,
            second_kernel: false,
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

    const fn cpu(self, cpu: &'static str) -> Self {
        Self { cpu, ..self }
    }

    const fn fault(self, fault: &'static str) -> Self {
        Self {
            fault: Some(fault),
            ..self
        }
    }

    const fn second_kernel(self) -> Self {
        Self {
            second_kernel: true,
            ..self
        }
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

/// The quick part of it, with sampling, for the variations of the hardware.
const HARDWARE: &[&[Test]] = &[
    counting::QUICK,
    counting::IN_TREE,
    modes::TESTS,
    groups::TESTS,
    sampling::QUICK,
    overflow::QUICK,
];

/// The same without the in-tree driver.
const HARDWARE_ALONE: &[&[Test]] = &[
    counting::QUICK,
    modes::TESTS,
    groups::TESTS,
    sampling::QUICK,
    overflow::QUICK,
];

/// Comparisons are system calls by the ten thousand, which page table isolation
/// makes slow; and on some AMD families the kernel warns of mitigations.
const fn compare(name: &'static str, cpu: &'static str) -> Suite {
    Suite::new(name, &[compare::TESTS])
        .cpu(cpu)
        .append("mitigations=off")
}

const SUITES: &[Suite] = &[
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
    Suite::new("sampling-32-bit", &[overflow::WIDTH]).cpu("pmu-width=32"),
    Suite::new("sampling-40-bit", &[overflow::WIDTH]).cpu("pmu-width=40"),
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
    compare("compare", "pmu-version=5"),
    compare("compare-v1", "pmu-version=1"),
    compare("compare-v2", "pmu-version=2"),
    compare("compare-v3", "pmu-version=3"),
    compare("compare-amd-legacy", "vendor=AuthenticAMD,pmu-version=1"),
    compare(
        "compare-amd-core",
        "vendor=AuthenticAMD,family=0x17,model=0x31,stepping=0,pmu-version=2",
    ),
    compare(
        "compare-amd-v2",
        "vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1,pmu-version=3",
    ),
    Suite::new("hotplug", &[hotplug::TESTS]),
    Suite::new("sharing", &[sharing::TESTS]),
    Suite::new("lifecycle", &[lifecycle::TESTS, parameters::TESTS]).unloaded(),
    Suite::new("kexec", &[kexec::TESTS, counting::QUICK]).second_kernel(),
    Suite::new("watchdog", &[watchdog::TESTS]).append("nmi_watchdog=1"),
    Suite::new("no-pmu", &[no_pmu::TESTS])
        .unloaded()
        .cpu("pmu=off"),
    Suite::new("hw-v1", HARDWARE).cpu("pmu-version=1"),
    Suite::new("hw-v2", HARDWARE).cpu("pmu-version=2"),
    Suite::new("hw-v3", HARDWARE).cpu("pmu-version=3"),
    Suite::new("hw-v4", HARDWARE).cpu("pmu-version=4"),
    Suite::new("hw-v5", HARDWARE).cpu("pmu-version=5"),
    Suite::new("hw-v6", HARDWARE).cpu("pmu-version=6"),
    Suite::new("hw-v6-gaps", HARDWARE).cpu("pmu-version=6,pmu-counter-mask=0x2b"),
    Suite::new("hw-small", HARDWARE).cpu("pmu-version=2,pmu-counters=2,pmu-fixed=1,pmu-width=32"),
    // Not below version 5: the in-tree driver then takes no fixed counters for 64.
    Suite::new("hw-no-fixed", HARDWARE).cpu("pmu-version=5,pmu-fixed=0"),
    // One counter is too few for the in-tree driver.
    Suite::new("hw-one", HARDWARE_ALONE)
        .cpu("pmu-version=5,pmu-counters=1,pmu-fixed=0,pmu-width=40"),
    Suite::new("faults-lose", &[faults::LOSE])
        .smp(1)
        .fault("lose:5"),
    Suite::new("faults-lose-amd-legacy", &[faults::LOSE])
        .smp(1)
        .cpu("vendor=AuthenticAMD,pmu-version=1")
        .fault("lose:5"),
    Suite::new("faults-lose-amd-v2", &[faults::LOSE])
        .smp(1)
        .append("mitigations=off")
        .cpu("vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1")
        .fault("lose:5"),
    Suite::new("faults-delay", &[faults::DELAY])
        .smp(1)
        .fault("delay:3:20000"),
    Suite::new("faults-delay-v1", &[faults::DELAY])
        .smp(1)
        .cpu("pmu-version=1")
        .fault("delay:3:20000"),
    Suite::new("faults-delay-amd-legacy", &[faults::DELAY])
        .smp(1)
        .cpu("vendor=AuthenticAMD,pmu-version=1")
        .fault("delay:3:20000"),
    Suite::new("faults-delay-amd-v2", &[faults::DELAY])
        .smp(1)
        .append("mitigations=off")
        .cpu("vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1")
        .fault("delay:3:20000"),
    Suite::new("faults-delay-long", &[faults::DELAY_LONG])
        .smp(1)
        .fault("delay:3:500000"),
    Suite::new("faults-delay-long-amd-legacy", &[faults::DELAY_LONG])
        .smp(1)
        .cpu("vendor=AuthenticAMD,pmu-version=1")
        .fault("delay:3:500000"),
    Suite::new("faults-delay-long-amd-v2", &[faults::DELAY_LONG])
        .smp(1)
        .append("mitigations=off")
        .cpu("vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1")
        .fault("delay:3:500000"),
    Suite::new("faults-repeat", &[faults::REPEAT])
        .smp(1)
        .fault("repeat:3:20000"),
    Suite::new("faults-repeat-v1", &[faults::REPEAT])
        .smp(1)
        .cpu("pmu-version=1")
        .fault("repeat:3:20000"),
    Suite::new("faults-repeat-amd-legacy", &[faults::REPEAT])
        .smp(1)
        .cpu("vendor=AuthenticAMD,pmu-version=1")
        .fault("repeat:3:20000"),
    Suite::new("faults-repeat-amd-v2", &[faults::REPEAT])
        .smp(1)
        .append("mitigations=off")
        .cpu("vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1")
        .fault("repeat:3:20000"),
    Suite::new("faults-repeat-at-once", &[faults::REPEAT_AT_ONCE])
        .smp(1)
        .fault("repeat:3:1"),
    Suite::new(
        "faults-repeat-at-once-amd-legacy",
        &[faults::REPEAT_AT_ONCE],
    )
    .smp(1)
    .cpu("vendor=AuthenticAMD,pmu-version=1")
    .fault("repeat:3:1"),
    Suite::new("faults-repeat-at-once-amd-v2", &[faults::REPEAT_AT_ONCE])
        .smp(1)
        .append("mitigations=off")
        .cpu("vendor=AuthenticAMD,family=0x1a,model=0x2,stepping=1")
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
        .cpu("pmu-version=2")
        .fault("status:0x700000003"),
    Suite::new("hw-large", HARDWARE).cpu("pmu-counters=8,pmu-fixed=3,pmu-width=48"),
];

/// Finds a suite by its name.
pub fn find(name: &str) -> Result<&'static Suite> {
    match SUITES.iter().find(|suite| suite.name == name) {
        Some(suite) => Ok(suite),
        None => bail!("no suite {name}; --list lists them"),
    }
}

/// Prints the table for the runner, a suite a line, tab-separated: name, number
/// of CPUs, QEMU arguments, kernel command line, flags (`noload`: do not load
/// the module), properties for the end of the -cpu string.
pub fn list() {
    for suite in SUITES {
        let Suite {
            name,
            smp,
            qemu_args,
            append,
            load,
            cpu,
            fault,
            ..
        } = suite;
        let flags = if *load { "" } else { "noload" };
        let fault = fault.map(|fault| format!("pmu-fault={fault}"));
        let cpu = [Some(*cpu), fault.as_deref()].into_iter().flatten();
        let cpu: Vec<_> = cpu.filter(|part| !part.is_empty()).collect();
        let cpu = cpu.join(",");
        println!("{name}\t{smp}\t{qemu_args}\t{append}\t{flags}\t{cpu}");
    }
}
