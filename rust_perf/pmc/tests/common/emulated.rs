// SPDX-License-Identifier: GPL-2.0

//! The CPUs of the guest tests.

use super::Cpuid;
use pmc::Capabilities;
use pmu_model::{Config, CoreType, Pmu, Signature};
use suites::Suite;

/// The types of cores of the CPU. `None` stands for all cores of a CPU that is not hybrid.
pub fn core_types(suite: &Suite) -> Vec<Option<CoreType>> {
    use CoreType::{Efficient, LowPower, Performance};
    match (suite.machine.efficient, suite.machine.low_power) {
        (0, _) => vec![None],
        (_, 0) => vec![Some(Performance), Some(Efficient)],
        _ => vec![Some(Performance), Some(Efficient), Some(LowPower)],
    }
}

/// The emulated PMU of such a core. `None` if it is not one of a processor.
pub fn emulated(suite: &Suite, core_type: Option<CoreType>) -> Option<Config> {
    let signature = suite.machine.signature.unwrap();
    let vendor = suite.machine.vendor;
    let signature = Signature {
        family: signature.family.into(),
        model: signature.model,
        stepping: 0,
    };
    match core_type {
        Some(core_type) => Config::of_hybrid(vendor, signature, core_type).ok(),
        None => Config::of_processor(vendor, signature, false),
    }
}

/// What the driver detects on such a core of the emulated CPU.
pub fn detected(suite: &Suite, core_type: Option<CoreType>) -> Option<Capabilities> {
    let signature = suite.machine.signature.unwrap();
    let vendor = suite.machine.vendor.cpuid().as_bytes().try_into().unwrap();
    let mut cpuid = Cpuid::new(vendor, signature.family, signature.model, 0);
    let pmu = Pmu::new(emulated(suite, core_type)?).unwrap();
    for (leaf, subleaf) in [
        (0xa, 0),
        (0x1a, 0),
        (0x1c, 0),
        (0x23, 0),
        (0x23, 1),
        (0x23, 3),
        (0x8000_0022, 0),
    ] {
        if let Some(registers) = pmu.cpuid_count(leaf, subleaf) {
            cpuid = cpuid.with(leaf, subleaf, registers);
        }
    }
    let declared = (u32::from(pmu.hybrid()) << 15) | (u32::from(pmu.has_arch_lbrs()) << 19);
    cpuid = cpuid.with(7, 0, [0, 0, 0, declared]);
    cpuid = cpuid.with(7, 1, [u32::from(pmu.perfmon_ext()) << 8, 0, 0, 0]);
    if pmu.perfctr_core() {
        cpuid = cpuid.with(0x8000_0001, 0, [0, 0, 1 << 23, 0]);
    }
    match pmu.perf_capabilities() {
        Some(value) => cpuid.detect_with(value),
        None => cpuid.detect(),
    }
}
