// SPDX-License-Identifier: GPL-2.0

//! The differences between Zhaoxin's PMU and version 2 of Intel's.

use pmu_model::{msr::*, Config, ConfigError, MsrError, Pmu, Retired, Vendor};

fn pmu() -> Pmu {
    Pmu::new(Config::new(Vendor::Zhaoxin, 2).unwrap()).unwrap()
}

#[test]
fn version_2_only() {
    for version in [0, 1, 3, 4, 5, 6] {
        assert_eq!(
            Config::new(Vendor::Zhaoxin, version),
            Err(ConfigError::Version)
        );
    }
}

/// Leaf 0AH is like that of version 2 of Intel's, where all 7 events exist.
#[test]
fn cpuid() {
    assert_eq!(pmu().cpuid(0xa), Some([0x0730_0202, 0, 0, 0x603]));
    assert_eq!(pmu().cpuid(0x23), None);
}

#[test]
fn writes_to_pmc_are_full_width() {
    let mut pmu = pmu();
    pmu.wrmsr(IA32_PMC0, 0x8123_4567_89ab).unwrap();
    assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(0x8123_4567_89ab));
    assert_eq!(
        pmu.wrmsr(IA32_PMC0, 1 << 48),
        Err(MsrError::GeneralProtection)
    );
    assert_eq!(pmu.wrmsr(IA32_A_PMC0, 0), Err(MsrError::GeneralProtection));
    assert_eq!(pmu.perf_capabilities(), None);
}

/// A whole number of patterns of `pmu_model::event`.
const PATTERN: Retired = Retired {
    instructions: 4096,
    branches: 1024,
    conditional: 0,
    conditional_taken: 0,
    near_unconditional: 0,
    loads: 0,
    stores: 0,
};

#[test]
fn events() {
    let cycles = 4096 + 15 * 16 + 100;
    for (event, count) in [
        (0x0082, cycles),
        (0x00c0, 4096),
        (0x0083, cycles * 3 / 4),
        (0x0515, 16),
        (0x051a, 1),
        (0x0700, 1024),
        (0x0028, 1024),
        (0x0709, 16),
        (0x0029, 16),
        // Intel's cycles and branches.
        (0x003c, 0),
        (0x00c4, 0),
    ] {
        let mut pmu = pmu();
        let eventsel = EventSel::EN | EventSel::USR | event;
        pmu.wrmsr(IA32_PERFEVTSEL0, eventsel).unwrap();
        pmu.retire(&[PATTERN, Retired::default()]);
        assert_eq!(pmu.rdmsr(IA32_PMC0), Ok(count), "event {event:#x}");
    }
}

#[test]
fn fixed_counters() {
    let mut pmu = pmu();
    pmu.wrmsr(IA32_FIXED_CTR_CTRL, 0x222).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 7 << 32).unwrap();
    pmu.retire(&[PATTERN, Retired::default()]);
    let cycles = 4096 + 15 * 16 + 100;
    for (i, count) in (0..).zip([4096, cycles, cycles * 3 / 4]) {
        assert_eq!(pmu.rdmsr(IA32_FIXED_CTR0 + i), Ok(count), "counter {i}");
    }
}
