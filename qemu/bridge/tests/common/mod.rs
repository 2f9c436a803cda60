// SPDX-License-Identifier: GPL-2.0

//! Calls of the bridge in the way that C makes them.

// Each test program uses a part of this.
#![allow(dead_code)]

use std::{
    ffi::{c_char, c_int, CStr},
    mem::MaybeUninit,
    ptr,
};

use pmu_bridge::*;

pub const INTEL: PmuConfig = PmuConfig {
    vendor: c"GenuineIntel".as_ptr(),
    threads: 0,
    model: 0,
    stepping: 0,
    family: 0,
    version: 0,
    general: 0,
    general_mask: 0,
    fixed: PMU_FIXED_DEFAULT,
    width: 0,
    full_width: 0,
    lbr: PMU_LBR_DEFAULT,
    cpus: 1,
    cpu: 0,
    hybrid: ptr::null(),
    ref_cycles: ptr::null(),
    fault: ptr::null(),
    count_accesses: false,
};

pub const AMD: PmuConfig = PmuConfig {
    vendor: c"AuthenticAMD".as_ptr(),
    ..INTEL
};

/// Nothing has retired.
pub const NOTHING: PmuCounts = PmuCounts {
    instructions: [0; 2],
    branches: [0; 2],
    conditional: [0; 2],
    conditional_taken: [0; 2],
    near_unconditional: [0; 2],
    loads: [0; 2],
    stores: [0; 2],
    tsc: [0; 2],
};

pub fn with_fault(fault: &'static CStr, config: PmuConfig) -> PmuConfig {
    PmuConfig {
        fault: fault.as_ptr(),
        ..config
    }
}

/// vCPU `cpu` of four of a processor of family 6.
pub fn hybrid(text: &'static CStr, model: u8, cpu: u32) -> PmuConfig {
    PmuConfig {
        family: 6,
        model,
        cpus: 4,
        cpu,
        hybrid: text.as_ptr(),
        ..INTEL
    }
}

pub fn create(config: &PmuConfig) -> Result<Box<PmuBridge>, &'static str> {
    let mut error = MaybeUninit::<*const c_char>::uninit();
    // SAFETY: Every string in this file is NULL or from a `&'static CStr`.
    match unsafe { pmu_new(config, &mut error) } {
        Some(pmu) => Ok(pmu),
        None => {
            // SAFETY: `pmu_new` has returned NULL, so it has set `error` to a string, and
            // all its messages are static.
            let message = unsafe { CStr::from_ptr(error.assume_init()) };
            Err(message.to_str().unwrap())
        }
    }
}

/// The registers of a CPUID subleaf, `None` if the leaf does not belong to the PMU.
pub fn cpuid(pmu: &PmuBridge, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    let mut regs = MaybeUninit::new([0; 4]);
    let known = pmu_cpuid(pmu, leaf, subleaf, &mut regs);
    // SAFETY: It was initialised above.
    known.then_some(unsafe { regs.assume_init() })
}

/// The result and the value of RDMSR. The value is `UNSET` if the bridge has not set it.
pub fn rdmsr(pmu: &PmuBridge, msr: u32) -> (c_int, u64) {
    let mut value = MaybeUninit::new(UNSET);
    let result = pmu_rdmsr(pmu, msr, &mut value);
    // SAFETY: It was initialised above.
    (result, unsafe { value.assume_init() })
}

/// The result and the value of RDPMC with CR4.PCE clear. The value is `UNSET` if the bridge has not set
/// it.
pub fn rdpmc(pmu: &mut PmuBridge, ecx: u32, cpl0: bool) -> (c_int, u64) {
    let mut value = MaybeUninit::new(UNSET);
    let result = pmu_rdpmc(pmu, ecx, cpl0, false, &mut value);
    // SAFETY: It was initialised above.
    (result, unsafe { value.assume_init() })
}

pub fn budget(pmu: &PmuBridge, mode: u32) -> [u64; 2] {
    let mut budget = MaybeUninit::new([0; 2]);
    pmu_budget(pmu, mode, &mut budget);
    // SAFETY: It was initialised above.
    unsafe { budget.assume_init() }
}

pub fn tsc_until_overflow(pmu: &PmuBridge) -> [u64; 2] {
    let mut until = MaybeUninit::new([0; 2]);
    pmu_tsc_until_overflow(pmu, &mut until);
    // SAFETY: It was initialised above.
    unsafe { until.assume_init() }
}

pub fn with_ref_cycles(text: &'static CStr) -> PmuConfig {
    PmuConfig {
        ref_cycles: text.as_ptr(),
        ..INTEL
    }
}

pub const UNSET: u64 = 0xdead;
