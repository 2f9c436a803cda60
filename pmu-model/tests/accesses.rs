// SPDX-License-Identifier: GPL-2.0

//! Counts of accesses to registers.

use pmu_model::{msr::*, Config, Pmu, Vendor, CPUID_ACCESSES};

/// The counts of each register that has been accessed: address or ECX, reads, writes, and whether
/// it is RDPMC.
fn registers(pmu: &Pmu) -> Vec<[u32; 4]> {
    let subleaf = |n| pmu.cpuid_count(CPUID_ACCESSES, n).unwrap();
    (1..=subleaf(0)[0]).map(subleaf).collect()
}

#[test]
fn each_access_counts_once() {
    let mut pmu = Pmu::new(Config::new(Vendor::Intel, 4).unwrap()).unwrap();
    pmu.wrmsr(IA32_PMC0, 1).unwrap();
    assert_eq!(pmu.cpuid(CPUID_ACCESSES), None);

    pmu.count_accesses();
    assert_eq!(pmu.cpuid(CPUID_ACCESSES), Some([0; 4]));
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 1).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 0).unwrap();
    pmu.rdmsr(IA32_PERF_GLOBAL_STATUS).unwrap();
    pmu.rdpmc(0, true, false).unwrap();
    pmu.rdpmc(0, false, true).unwrap();
    // These reach the PMU, too, and raise #GP.
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, u64::MAX).unwrap_err();
    pmu.rdpmc(0, false, false).unwrap_err();
    pmu.rdpmc(9, true, false).unwrap_err();
    // This one is no register of a PMU.
    pmu.rdmsr(0x10).unwrap_err();

    // A RESET does not end the count.
    pmu.reset();
    assert_eq!(pmu.cpuid(CPUID_ACCESSES), Some([4, 1, 3, 4]));
    let expected = [
        [IA32_PERF_GLOBAL_STATUS, 1, 0, 0],
        [IA32_PERF_GLOBAL_CTRL, 0, 3, 0],
        [0, 3, 0, 1],
        [9, 1, 0, 1],
    ];
    assert_eq!(registers(&pmu), expected);
    assert_eq!(pmu.cpuid_count(CPUID_ACCESSES, 5), Some([0; 4]));
}
