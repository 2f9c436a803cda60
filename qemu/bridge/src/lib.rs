// SPDX-License-Identifier: GPL-2.0

//! The PMU model as QEMU's C sees it: `pmu_bridge.h`, in Rust.
//!
//! One [`PmuBridge`] belongs to one vCPU, and only the thread that runs this vCPU
//! (or one that has stopped it) may pass it to a function here. No function
//! unwinds into C: a panic in an `extern "C"` function aborts.

#![expect(
    clippy::missing_safety_doc,
    reason = "the callers are C; the rules for all of them are in the crate's documentation"
)]

mod fault;

use std::{
    ffi::{c_char, c_int, c_uint, CStr},
    ptr,
};

use pmu_model::{
    Config, ConfigError, Defect, GeneralProtection, Mode, MsrError, Pmu, Retired, Vendor,
};

/// The PMU of one vCPU.
pub struct PmuBridge(Pmu);

/// Which PMU to be.
#[repr(C)]
pub struct PmuConfig {
    /// 0 Intel, 1 AMD, 2 Zhaoxin.
    pub vendor: u8,
    /// Intel: the version of architectural performance monitoring, 1 to 6; 0: 4.
    /// AMD: 1 the legacy counters, 2 PerfCtrExtCore, 3 PerfMonV2; 0: 3. Zhaoxin: 2;
    /// 0: 2.
    pub version: u8,
    /// General counters, 1 to 8 (AMD: 4 with version 1, 6 with version 2, 1 to 15 with
    /// version 3); 0: as many as the version usually has.
    pub general: u8,
    /// Fixed counters, 0 to 4 (AMD: 0); PMU_FIXED_USUAL: as many as the version
    /// usually has.
    pub fixed: u8,
    /// Bits of a counter, 32 to 48 (AMD: 48); 0: as many as the version usually has.
    pub width: u8,
    /// Intel's version 6: the general counters, bit by bit, if some are missing, and
    /// general is 0; 0: none is.
    pub general_mask: u16,
    /// What goes wrong with the PMU: `lose:N`, `delay:N:INSNS`, `repeat:N:INSNS`,
    /// `spurious:INSNS`, `status:BITS`, `gp:ADDRESS:AFTER` or `mask-lvtpc`. NULL:
    /// nothing.
    pub fault: *const c_char,
}

/// PmuConfig.fixed: as many as the version usually has.
pub const PMU_FIXED_USUAL: u8 = 0xff;

/// What retired in user mode (CPL 1 to 3) and in kernel mode (CPL 0).
#[repr(C)]
pub struct PmuCounts {
    /// Instructions, branches among them.
    pub instructions: [u64; 2],
    /// Branches.
    pub branches: [u64; 2],
}

/// An access: done.
pub const PMU_OK: c_int = 0;
/// An access: raise #GP, nothing has changed.
pub const PMU_GP: c_int = 1;
/// An access: the register is not the PMU's.
pub const PMU_NOT_MINE: c_int = 2;

/// The PMU that is asked for, if there is one; if not, what to tell who set QEMU's
/// properties.
fn create(config: &PmuConfig) -> Result<Pmu, &'static CStr> {
    let (vendor, usual_version) = match config.vendor {
        0 => (Vendor::Intel, 4),
        1 => (Vendor::Amd, 3),
        2 => (Vendor::Zhaoxin, 2),
        _ => return Err(c"pmu=on: only the PMUs of Intel, AMD and Zhaoxin are modelled"),
    };
    let version = match config.version {
        0 => usual_version,
        version => version,
    };
    let defect = defect(config)?;
    shaped(config, vendor, version)
        .and_then(|pmu| Pmu::with_defect(pmu, defect))
        .map_err(|error| message(error, vendor))
}

fn defect(config: &PmuConfig) -> Result<Defect, &'static CStr> {
    if config.fault.is_null() {
        return Ok(Defect::None);
    }
    // SAFETY: C passes a string that lives during the call.
    let text = unsafe { CStr::from_ptr(config.fault) };
    let defect = text.to_str().ok().and_then(fault::parse);
    defect.ok_or(
        c"pmu-fault must be lose:N, delay:N:INSNS, repeat:N:INSNS, spurious:INSNS, \
          status:BITS, gp:ADDRESS:AFTER or mask-lvtpc; numbers are decimal or 0x..., \
          and only AFTER may be 0",
    )
}

fn shaped(config: &PmuConfig, vendor: Vendor, version: u8) -> Result<Config, ConfigError> {
    let mut pmu = Config::new(vendor, version)?;
    if config.general != 0 {
        pmu.shape.general = config.general;
    }
    if config.general_mask != 0 {
        if config.general != 0 {
            return Err(ConfigError::Missing);
        }
        let length = u16::BITS - config.general_mask.leading_zeros();
        pmu.shape.general = length as u8;
        pmu.shape.missing = !config.general_mask & (u16::MAX >> (u16::BITS - length));
    }
    if config.fixed != PMU_FIXED_USUAL {
        pmu.shape.fixed = config.fixed;
    }
    if config.width != 0 {
        pmu.shape.width = config.width;
    }
    Ok(pmu)
}

fn message(error: ConfigError, vendor: Vendor) -> &'static CStr {
    match (vendor, error) {
        (Vendor::Intel, ConfigError::Version) => c"pmu-version must be 1 to 6",
        (Vendor::Zhaoxin, ConfigError::Version) => c"pmu-version must be 2 on Zhaoxin",
        (Vendor::Intel | Vendor::Zhaoxin, ConfigError::General) => c"pmu-counters must be 1 to 8",
        (_, ConfigError::Missing) => {
            c"pmu-counter-mask with gaps needs pmu-version=6, and no pmu-counters beside it"
        }
        (Vendor::Intel, ConfigError::Fixed) => {
            c"pmu-fixed must be 0 (pmu-version 1), 0 to 3 (2 to 4) or 0 to 4 (5 and 6)"
        }
        (Vendor::Zhaoxin, ConfigError::Fixed) => c"pmu-fixed must be 0 to 3 on Zhaoxin",
        (Vendor::Intel | Vendor::Zhaoxin, ConfigError::Width) => c"pmu-width must be 32 to 48",
        (_, ConfigError::Status) => {
            c"pmu-fault=status: must be bits of counters in GLOBAL_STATUS, which there is from \
              pmu-version 2 (on AMD 3) on"
        }
        (_, ConfigError::Msr) => {
            c"pmu-fault=gp: must name the address of a register that this PMU has"
        }
        (_, ConfigError::MaskLvtpc) => c"pmu-fault=mask-lvtpc is for AMD's PMU",
        (Vendor::Amd, ConfigError::Version) => {
            c"pmu-version must be 1 (legacy), 2 (PerfCtrExtCore) or 3 (PerfMonV2) on AMD"
        }
        (Vendor::Amd, ConfigError::General) => {
            c"pmu-counters must be 4 (pmu-version 1), 6 (2) or 1 to 15 (3) on AMD"
        }
        (Vendor::Amd, ConfigError::Fixed) => c"pmu-fixed must be 0 on AMD",
        (Vendor::Amd, ConfigError::Width) => c"pmu-width must be 48 on AMD",
    }
}

fn mode(index: c_uint) -> Mode {
    match index {
        0 => Mode::User,
        _ => Mode::Kernel,
    }
}

fn status(result: Result<(), MsrError>) -> c_int {
    match result {
        Ok(()) => PMU_OK,
        Err(MsrError::GeneralProtection) => PMU_GP,
        Err(MsrError::NotPmu) => PMU_NOT_MINE,
    }
}

/// A new PMU, to be freed by pmu_free(). If there is none such: NULL, and *error
/// says why in one line that need not be freed.
#[no_mangle]
pub unsafe extern "C" fn pmu_new(
    cfg: *const PmuConfig,
    error: *mut *const c_char,
) -> *mut PmuBridge {
    // SAFETY: C passes a config that lives during the call.
    let cfg = unsafe { &*cfg };
    match create(cfg) {
        Ok(pmu) => Box::into_raw(Box::new(PmuBridge(pmu))),
        Err(why) => {
            // SAFETY: C passes a place for a pointer.
            unsafe { error.write(why.as_ptr()) };
            ptr::null_mut()
        }
    }
}

/// Frees a PMU; NULL is none.
#[no_mangle]
pub unsafe extern "C" fn pmu_free(pmu: *mut PmuBridge) {
    if !pmu.is_null() {
        // SAFETY: It is from `pmu_new`, where `Box::into_raw` made it, and C uses it
        // no more.
        drop(unsafe { Box::from_raw(pmu) });
    }
}

/// RESET. INIT leaves a PMU as it is.
#[no_mangle]
pub unsafe extern "C" fn pmu_reset(pmu: *mut PmuBridge) {
    // SAFETY: It is from `pmu_new`, and no one else has it now.
    let PmuBridge(pmu) = unsafe { &mut *pmu };
    pmu.reset();
}

/// EAX, EBX, ECX and EDX of CPUID, if the leaf is the PMU's.
#[no_mangle]
pub unsafe extern "C" fn pmu_cpuid(
    pmu: *const PmuBridge,
    leaf: u32,
    subleaf: u32,
    regs: *mut u32,
) -> bool {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    match pmu.cpuid_count(leaf, subleaf) {
        Some(values) => {
            // SAFETY: C passes a place for four registers.
            unsafe { regs.cast::<[u32; 4]>().write(values) };
            true
        }
        None => false,
    }
}

/// The value of PERF_CAPABILITIES; CPUID.1:ECX.PDCM is set when it is not 0.
#[no_mangle]
pub unsafe extern "C" fn pmu_perf_capabilities(pmu: *const PmuBridge) -> u64 {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    pmu.perf_capabilities()
}

/// Whether CPUID.80000001H:ECX.PerfCtrExtCore is set.
#[no_mangle]
pub unsafe extern "C" fn pmu_perfctr_core(pmu: *const PmuBridge) -> bool {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    pmu.perfctr_core()
}

/// Whether CPUID.(7,1):EAX.ArchPerfMonExt is set, and there is leaf 23H.
#[no_mangle]
pub unsafe extern "C" fn pmu_perfmon_ext(pmu: *const PmuBridge) -> bool {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    pmu.perfmon_ext()
}

/// Whether the local APIC sets the mask bit of LVTPC when it delivers a PMI: on Intel
/// and Zhaoxin, and on AMD with the defect `mask-lvtpc`.
#[no_mangle]
pub unsafe extern "C" fn pmu_pmi_masks_lvtpc(pmu: *const PmuBridge) -> bool {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    pmu.pmi_masks_lvtpc()
}

/// So much has retired since this was called last.
#[no_mangle]
pub unsafe extern "C" fn pmu_retire(pmu: *mut PmuBridge, delta: *const PmuCounts) {
    // SAFETY: It is from `pmu_new`, and no one else has it now.
    let PmuBridge(pmu) = unsafe { &mut *pmu };
    // SAFETY: C passes counts that live during the call.
    let delta = unsafe { &*delta };
    pmu.retire(&Mode::ALL.map(|mode| Retired {
        instructions: delta.instructions[mode as usize],
        branches: delta.branches[mode as usize],
    }));
}

/// RDMSR: PMU_OK, PMU_GP or PMU_NOT_MINE. *value is written with PMU_OK only.
#[no_mangle]
pub unsafe extern "C" fn pmu_rdmsr(pmu: *mut PmuBridge, msr: u32, value: *mut u64) -> c_int {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    // SAFETY: C passes a place for the value.
    status(pmu.rdmsr(msr).map(|read| unsafe { value.write(read) }))
}

/// WRMSR: PMU_OK, PMU_GP or PMU_NOT_MINE.
#[no_mangle]
pub unsafe extern "C" fn pmu_wrmsr(pmu: *mut PmuBridge, msr: u32, value: u64) -> c_int {
    // SAFETY: It is from `pmu_new`, and no one else has it now.
    let PmuBridge(pmu) = unsafe { &mut *pmu };
    status(pmu.wrmsr(msr, value))
}

/// RDPMC: PMU_OK or PMU_GP. *value is written with PMU_OK only.
#[no_mangle]
pub unsafe extern "C" fn pmu_rdpmc(
    pmu: *mut PmuBridge,
    ecx: u32,
    cpl0: bool,
    cr4_pce: bool,
    value: *mut u64,
) -> c_int {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    match pmu.rdpmc(ecx, cpl0, cr4_pce) {
        Ok(read) => {
            // SAFETY: C passes a place for the value.
            unsafe { value.write(read) };
            PMU_OK
        }
        Err(GeneralProtection) => PMU_GP,
    }
}

/// Whether some counter counts: what retires must be told.
#[no_mangle]
pub unsafe extern "C" fn pmu_counting(pmu: *const PmuBridge) -> bool {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    pmu.counting()
}

/// Whether a PMI is due, to be delivered through LVTPC. True once for each.
#[no_mangle]
pub unsafe extern "C" fn pmu_take_pmi(pmu: *mut PmuBridge) -> bool {
    // SAFETY: It is from `pmu_new`, and no one else has it now.
    let PmuBridge(pmu) = unsafe { &mut *pmu };
    pmu.take_pmi()
}

/// How many instructions may retire in each mode before pmu_retire() must be
/// called, if `mode` (0 user, 1 kernel) is the present one: 1 or more in this one,
/// and in the other 0 or more. The instruction that uses up a mode's budget can
/// overflow a counter: call pmu_retire() right after it, before another retires in
/// whatever mode. UINT64_MAX / 4 is no limit.
#[no_mangle]
pub unsafe extern "C" fn pmu_budget(pmu: *const PmuBridge, mode: c_uint, budget: *mut u64) {
    // SAFETY: It is from `pmu_new`, and no one else writes to it now.
    let PmuBridge(pmu) = unsafe { &*pmu };
    // SAFETY: C passes a place for two numbers.
    unsafe {
        budget
            .cast::<[u64; 2]>()
            .write(pmu.budget(self::mode(mode)))
    };
}
