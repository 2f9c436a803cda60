// SPDX-License-Identifier: GPL-2.0

//! The CPUs that CI does not run in guests have the tables of those that it runs.

mod common;

use common::Cpuid;
use pmc::{
    event::{EventSel, Modes},
    Capabilities,
};
use pmu_model::{Config, CoreType, Pmu, Signature};
use suites::{Suite, Vendor, CPUS};

/// The types of cores of the CPU. `None` stands for all cores of a CPU that is not hybrid.
fn core_types(suite: &Suite) -> Vec<Option<CoreType>> {
    use CoreType::{Efficient, LowPower, Performance};
    match (suite.machine.efficient, suite.machine.low_power) {
        (0, _) => vec![None],
        (_, 0) => vec![Some(Performance), Some(Efficient)],
        _ => vec![Some(Performance), Some(Efficient), Some(LowPower)],
    }
}

fn emulated(suite: &Suite, core_type: Option<CoreType>) -> Config {
    let signature = suite.machine.signature.unwrap();
    let vendor = match suite.machine.vendor {
        Vendor::Intel => pmu_model::Vendor::Intel,
        Vendor::Amd | Vendor::Hygon => pmu_model::Vendor::Amd,
        Vendor::Zhaoxin => pmu_model::Vendor::Zhaoxin,
    };
    let signature = Signature {
        family: signature.family.into(),
        model: signature.model,
        stepping: 0,
    };
    match core_type {
        Some(core_type) => Config::of_hybrid(vendor, signature, core_type).unwrap(),
        None => Config::of_processor(vendor, signature, false).unwrap(),
    }
}

/// What the driver detects on such a core of the emulated CPU.
fn detected(suite: &Suite, core_type: Option<CoreType>) -> Capabilities {
    let signature = suite.machine.signature.unwrap();
    let vendor = suite.machine.vendor.cpuid().as_bytes().try_into().unwrap();
    let mut cpuid = Cpuid::new(vendor, signature.family, signature.model, 0);
    let pmu = Pmu::new(emulated(suite, core_type)).unwrap();
    for (leaf, subleaf) in [
        (0xa, 0),
        (0x1a, 0),
        (0x23, 0),
        (0x23, 1),
        (0x23, 3),
        (0x8000_0022, 0),
    ] {
        if let Some(registers) = pmu.cpuid_count(leaf, subleaf) {
            cpuid = cpuid.with(leaf, subleaf, registers);
        }
    }
    let declared = u32::from(pmu.hybrid()) << 15;
    cpuid = cpuid.with(7, 0, [0, 0, 0, declared]);
    cpuid = cpuid.with(7, 1, [u32::from(pmu.perfmon_ext()) << 8, 0, 0, 0]);
    if pmu.perfctr_core() {
        cpuid = cpuid.with(0x8000_0001, 0, [0, 0, 1 << 23, 0]);
    }
    let detected = match pmu.perf_capabilities() {
        Some(value) => cpuid.detect_with(value),
        None => cpuid.detect(),
    };
    detected.unwrap()
}

/// All that the guest tests of these suites compare.
fn tables(caps: &Capabilities) -> impl PartialEq {
    let codes: Vec<_> = (0..=u16::MAX)
        .map(|code| {
            let event = EventSel::from_config(code.into(), caps.config_mask(), Modes::ALL);
            let event = event.unwrap_or_default();
            (
                caps.counters_for(event).bits(),
                caps.extra(event, 0).is_ok_and(|it| it.is_some()),
                caps.extra(event, u64::MAX).is_ok(),
                caps.limit_period(event, 1),
            )
        })
        .collect();
    let cache: Vec<_> = (0..0x2_0808).map(|id| caps.cache_event(id)).collect();
    let hardware: Vec<_> = (0..16).map(|id| caps.hardware_event(id)).collect();
    let format: Vec<_> = caps.format().map(|it| (it.name, it.bits)).collect();
    let extra: Vec<_> = caps.extra_format().map(|it| (it.name, it.bits)).collect();
    let topdown: Vec<_> = caps.topdown_files().collect();
    let metrics = (caps.metrics, caps.has_metrics_clear());
    let auxiliary = (
        (caps.auxiliary(), caps.shares_extra(), caps.pmu_name),
        (caps.counters, metrics),
    );
    (codes, cache, hardware, (format, extra, topdown), auxiliary)
}

#[test]
fn cpus_that_are_said_to_be_alike_are() {
    for suite in CPUS {
        let Some(like) = suite.like else { continue };
        let like = CPUS.iter().find(|other| other.name == like).unwrap();
        assert!(like.like.is_none(), "{} runs in CI", like.name);
        let core_types = core_types(suite);
        assert_eq!(core_types, self::core_types(like));
        for core_type in core_types {
            let emulated = |suite| emulated(suite, core_type);
            assert!(
                emulated(suite).has_processor_of(&emulated(like)),
                "{}: the emulated processor is that of {}",
                suite.name,
                like.name
            );
            let tables = |suite| tables(&detected(suite, core_type));
            assert!(
                tables(suite) == tables(like),
                "{}: the tables are those of {}",
                suite.name,
                like.name
            );
        }
    }
}
