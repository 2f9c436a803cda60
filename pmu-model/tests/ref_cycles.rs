// SPDX-License-Identifier: GPL-2.0

//! Reference cycles that are those of the time-stamp counter.

use pmu_model::{msr::*, Config, Mode, Pmu, RefCycles, Retired, Vendor};

const EN_INT: u64 = EventSel::EN | EventSel::INT;
const USR: u64 = EN_INT | EventSel::USR;
const OS: u64 = EN_INT | EventSel::OS;

/// Unhalted reference cycles of Intel, as a general-purpose counter counts them.
const REF_CYCLES: u64 = 0x013c;

/// The counters of a PMU of this version, all of them enabled.
fn pmu(vendor: Vendor, version: u8, ref_cycles: RefCycles) -> Pmu {
    let mut pmu = Pmu::new(Config {
        ref_cycles,
        ..Config::new(vendor, version).unwrap()
    })
    .unwrap();
    if vendor == Vendor::Intel {
        pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 0x7_0000_000f).unwrap();
    }
    pmu
}

fn timed() -> Pmu {
    pmu(Vendor::Intel, 4, RefCycles::Tsc)
}

fn program(pmu: &mut Pmu, counter: u32, eventsel: u64, value: u64) {
    let mask = (1 << 48) - 1;
    pmu.wrmsr(IA32_PERFEVTSEL0 + counter, eventsel).unwrap();
    pmu.wrmsr(IA32_A_PMC0 + counter, value & mask).unwrap();
}

const NOTHING: [Retired; 2] = [Retired {
    instructions: 0,
    branches: 0,
    conditional: 0,
    conditional_taken: 0,
    near_unconditional: 0,
    loads: 0,
    stores: 0,
}; 2];

fn instructions(n: u64) -> [Retired; 2] {
    [Retired {
        instructions: n,
        branches: 0,
        ..Retired::default()
    }; 2]
}

fn values(pmu: &Pmu) -> [u64; 4] {
    [0, 1, 2, 3].map(|i| pmu.rdmsr(IA32_PMC0 + i).unwrap())
}

#[test]
fn time_counts_in_its_mode() {
    let mut pmu = timed();
    program(&mut pmu, 0, USR | REF_CYCLES, 0);
    program(&mut pmu, 1, OS | REF_CYCLES, 0);
    program(&mut pmu, 2, USR | OS | REF_CYCLES, 0);
    program(&mut pmu, 3, USR | 0xc0, 0);
    pmu.wrmsr(IA32_FIXED_CTR_CTRL, 0x300).unwrap();
    pmu.report(&instructions(7), [100, 20]);
    pmu.report(&NOTHING, [0, 5]);
    assert_eq!(values(&pmu), [100, 25, 125, 7]);
    assert_eq!(pmu.rdmsr(IA32_FIXED_CTR0 + 2), Ok(125));
    // Instructions alone take no time.
    pmu.retire(&instructions(1000));
    assert_eq!(values(&pmu), [100, 25, 125, 1007]);
}

#[test]
fn the_default_does_not_depend_on_time() {
    let mut pmu = pmu(Vendor::Intel, 4, RefCycles::default());
    program(&mut pmu, 0, USR | REF_CYCLES, 0);
    assert_eq!(pmu.tsc_until_overflow(), [None, None]);
    pmu.report(&instructions(400), [1 << 20, 1 << 20]);
    assert_eq!(values(&pmu)[0], 300);
}

/// The events of all vendors: AMD's came with PerfMonV2, Zhaoxin's are cycles of the bus.
#[test]
fn all_vendors() {
    let mut amd = pmu(Vendor::Amd, 3, RefCycles::Tsc);
    amd.wrmsr(PERF_CTL0, USR | (1 << 32) | 0x0120).unwrap();
    amd.wrmsr(PERF_CNTR_GLOBAL_CTL, 1).unwrap();
    amd.report(&NOTHING, [10, 3]);
    assert_eq!(amd.rdmsr(PERF_CTR0), Ok(10));

    let mut zhaoxin = pmu(Vendor::Zhaoxin, 2, RefCycles::Tsc);
    zhaoxin.wrmsr(IA32_PERFEVTSEL0, USR | 0x0083).unwrap();
    zhaoxin.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    zhaoxin.report(&NOTHING, [10, 3]);
    assert_eq!(zhaoxin.rdmsr(IA32_PMC0), Ok(10));
}

/// One occurs in each cycle of the clock: there are no edges, and no cycles without one.
#[test]
fn modifiers() {
    let cmask = |n: u64| n << 24;
    for (modifier, count) in [
        (EventSel::INV, 100),
        (cmask(1), 100),
        (cmask(1) | EventSel::INV, 0),
        (cmask(2), 0),
        // Core cycles.
        (cmask(2) | EventSel::INV, 8),
        (EventSel::EDGE, 0),
        (EventSel::EDGE | cmask(1), 0),
    ] {
        let mut pmu = timed();
        program(&mut pmu, 0, USR | REF_CYCLES | modifier, 0);
        pmu.report(&instructions(8), [100, 50]);
        assert_eq!(values(&pmu)[0], count, "{modifier:#x}");
    }
}

#[test]
fn the_distance_to_the_overflow_is_in_time() {
    let mut pmu = timed();
    assert_eq!(pmu.ref_cycles(), RefCycles::Tsc);
    program(&mut pmu, 0, USR | REF_CYCLES, -1000_i64 as u64);
    program(&mut pmu, 1, USR | OS | REF_CYCLES, -3000_i64 as u64);
    program(&mut pmu, 2, OS | 0xc0, -50_i64 as u64);
    assert_eq!(pmu.tsc_until_overflow(), [Some(1000), Some(3000)]);
    // Time does not limit the instructions, nor do they limit time.
    assert_eq!(pmu.budget(Mode::User), [Pmu::UNLIMITED, 50]);

    pmu.report(&NOTHING, [999, 1000]);
    assert_eq!(pmu.tsc_until_overflow(), [Some(1), Some(1001)]);
    assert!(!pmu.take_pmi());
    pmu.report(&NOTHING, [1, 0]);
    assert!(pmu.take_pmi());
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(1 << 0));
    pmu.report(&NOTHING, [500, 500]);
    assert!(pmu.take_pmi());
    assert_eq!(pmu.rdmsr(IA32_PERF_GLOBAL_STATUS), Ok(0b11));
    assert_eq!(values(&pmu), [500, 0, (1 << 48) - 50, 0]);

    // A counter that does not count is no limit.
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1 << 2).unwrap();
    assert_eq!(pmu.tsc_until_overflow(), [None, None]);
    pmu.report(&NOTHING, [500, 500]);
    assert_eq!(values(&pmu)[0], 500);
}

/// Time that a report is late with counts as well.
#[test]
fn a_late_report_loses_nothing() {
    let mut pmu = timed();
    program(&mut pmu, 0, USR | REF_CYCLES, -10_i64 as u64);
    pmu.report(&NOTHING, [25, 0]);
    assert!(pmu.take_pmi());
    assert_eq!(values(&pmu)[0], 15);
}

/// Overflows in one report request one PMI, and it freezes the counters of time as well.
#[test]
fn one_pmi_and_a_freeze() {
    const FREEZE_PERFMON_ON_PMI: u64 = 1 << 12;
    let mut pmu = timed();
    program(&mut pmu, 0, USR | REF_CYCLES, -10_i64 as u64);
    program(&mut pmu, 1, USR | 0xc0, -10_i64 as u64);
    pmu.wrmsr(IA32_DEBUGCTL, FREEZE_PERFMON_ON_PMI).unwrap();
    pmu.report(&instructions(10), [10, 0]);
    assert!(pmu.take_pmi());
    assert!(!pmu.take_pmi());
    assert!(!pmu.counting());
    assert_eq!(pmu.tsc_until_overflow(), [None, None]);
    pmu.report(&instructions(10), [10, 0]);
    assert_eq!(values(&pmu)[..2], [0, 0]);
}

/// RESET keeps the configuration.
#[test]
fn reset() {
    let mut pmu = timed();
    pmu.reset();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    program(&mut pmu, 0, USR | REF_CYCLES, 0);
    pmu.report(&NOTHING, [100, 0]);
    assert_eq!(values(&pmu)[0], 100);
}
