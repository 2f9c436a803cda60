// SPDX-License-Identifier: GPL-2.0

//! What Nehalem and Westmere need before counters count a new event.

use pmu_model::{msr::*, Pmu};

/// The EVENTSELs that clear four counters.
pub const CLEARING: [u64; 4] = [0x43_00b5, 0x43_00d2, 0x43_00b1, 0x43_00b1];

/// Runs these EVENTSELs on all counters for a moment.
pub fn clear_with(pmu: &mut Pmu, values: [u64; 4]) {
    for (i, value) in (0..).zip(values) {
        pmu.wrmsr(IA32_PERFEVTSEL0 + i, value).unwrap();
    }
    let before = pmu.rdmsr(IA32_PERF_GLOBAL_CTRL).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, 0xf).unwrap();
    pmu.wrmsr(IA32_PERF_GLOBAL_CTRL, before).unwrap();
}

/// Clears the counters of a model that needs that.
pub fn clear_if_needed(pmu: &mut Pmu, model: u8) {
    if [0x1a, 0x2c].contains(&model) {
        clear_with(pmu, CLEARING);
    }
}
