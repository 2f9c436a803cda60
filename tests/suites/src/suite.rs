// SPDX-License-Identifier: GPL-2.0

//! A suite: tests that run together, and the guest that they run in.

mod guest;

use crate::group::TestGroup;
use crate::machine::{self, Machine};
use pmu_model::{Defect, Fault};

pub use guest::{KernelPrograms, OtherKernel, SystemEvent, TestModule, Timing};

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
    /// Which runs of `make test` have it.
    pub runs: Runs,
    /// The suite with another CPU whose tables are the same.
    pub like: Option<&'static str>,
    /// The kernels on which `ALL=1` runs it besides the usual one, and CI if they check themselves.
    also_on: &'static [OtherKernel],
}

/// Which runs of `make test` have a suite. Each has the suites of those before it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runs {
    /// All.
    Every,
    /// Those of CI.
    Ci,
    /// Those with `ALL=1`.
    All,
}

impl Suite {
    pub(crate) const fn new(name: &'static str, groups: &'static [&'static [TestGroup]]) -> Self {
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
            runs: Runs::Every,
            like: None,
            also_on: &[],
        }
    }

    pub(crate) const fn on(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    pub(crate) const fn cpus(self, cpus: u32) -> Self {
        Self { cpus, ..self }
    }

    /// With two threads a core.
    pub(crate) const fn hyper_threading(self) -> Self {
        self.threads(2)
    }

    /// With so many threads a core.
    pub(crate) const fn threads(self, threads: u32) -> Self {
        Self { threads, ..self }
    }

    pub(crate) const fn timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    pub(crate) const fn kernel_arguments(self, kernel_arguments: &'static str) -> Self {
        Self {
            kernel_arguments,
            ..self
        }
    }

    pub(crate) const fn unloaded(self) -> Self {
        Self {
            load_module: false,
            ..self
        }
    }

    pub(crate) const fn primary(self) -> Self {
        Self {
            primary: true,
            ..self
        }
    }

    pub(crate) const fn example(self, name: &'static str) -> Self {
        Self {
            example: Some(name),
            ..self
        }
    }

    pub(crate) const fn on_debian_qemu(self) -> Self {
        Self {
            debian_qemu: true,
            ..self
        }
    }

    pub(crate) const fn event(self, event: SystemEvent) -> Self {
        Self { event, ..self }
    }

    pub(crate) const fn with_all(self) -> Self {
        Self {
            runs: Runs::All,
            ..self
        }
    }

    /// A suite that takes long, and whose tests see little that others do not.
    pub(crate) const fn in_ci(self) -> Self {
        Self {
            runs: Runs::Ci,
            ..self
        }
    }

    /// A suite about a fault. Each vCPU's PMU has it, and numbers its own PMIs, so there
    /// is one vCPU.
    ///
    /// A test of a PMI that is lost, late or repeated needs attempts that no other interrupt
    /// disturbs, and on AMD the driver expects a late PMI for 100 ms. So the clock counts
    /// instructions: how many interrupts there are does not depend on how busy the host is.
    pub(crate) const fn fault(
        name: &'static str,
        fault: Fault,
        groups: &'static [&'static [TestGroup]],
    ) -> Self {
        let timing = match fault.defect {
            Defect::Pmi { .. } => Timing::Icount,
            _ => Timing::Threads,
        };
        Self {
            fault: Some(fault),
            timing,
            ..Self::new(name, groups).cpus(1)
        }
    }

    /// With these tests instead.
    pub(crate) const fn testing(self, groups: &'static [&'static [TestGroup]]) -> Self {
        Self { groups, ..self }
    }

    pub(crate) const fn like(self, name: &'static str) -> Self {
        Self {
            like: Some(name),
            ..self
        }
    }

    pub(crate) const fn also_on(self, also_on: &'static [OtherKernel]) -> Self {
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
        if self.has(&[TestGroup::Codes]) || self.has(&[TestGroup::HybridCpu]) {
            Some(TestModule::InTreeCounters)
        } else if self.has(&[TestGroup::Lockup]) {
            Some(TestModule::Lockup)
        } else if self.has(&[TestGroup::LoadFaults]) || self.has(&[TestGroup::LoadFaultsPrimary]) {
            Some(TestModule::Claims)
        } else if self.has(&[TestGroup::LateNmis]) || self.has(&[TestGroup::LateNmisLong]) {
            Some(TestModule::Nmis)
        } else {
            None
        }
    }

    /// The programs of the kernel's source that its tests run.
    pub fn kernel_programs(&self) -> Option<KernelPrograms> {
        let selftests = [
            TestGroup::KernelSelftests,
            TestGroup::KernelSelftestsBranches,
            TestGroup::KernelSelftestsSnapshot,
        ];
        if selftests.iter().any(|&group| self.has(&[group])) {
            Some(KernelPrograms::Selftests)
        } else if self.has(&[TestGroup::PerfTestBranches]) {
            Some(KernelPrograms::Perf)
        } else {
            None
        }
    }

    /// Whether its tests run BOLT.
    pub fn has_bolt(&self) -> bool {
        self.has(&[TestGroup::BranchTools])
    }

    /// The properties to append to QEMU's `-cpu`, separated by commas.
    pub fn cpu_properties(&self) -> String {
        let fault = self.fault.map(|fault| format!("pmu-fault={fault}"));
        let counts_accesses = self.has(&[TestGroup::Accesses]) || self.has(&[TestGroup::Svm]);
        let accesses = counts_accesses.then(|| "pmu-count-accesses=on".to_owned());
        // One of the selftests skips itself in a virtual machine.
        let bare = self.has(&[TestGroup::KernelSelftestsSnapshot]);
        let bare = bare.then(|| "hypervisor=off".to_owned());
        let properties = [Some(self.machine.properties()), fault, accesses, bare];
        join(&properties.map(Option::unwrap_or_default), ",")
    }

    /// The heading of its column in docs/results/generations.md.
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

#[cfg(test)]
mod tests {
    use crate::find;

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
}
