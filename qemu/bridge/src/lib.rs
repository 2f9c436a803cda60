// SPDX-License-Identifier: GPL-2.0

//! The C interface of the PMU model, for QEMU. cbindgen makes `pmu_bridge.h` from it.
//!
//! # Rules for C
//!
//! - A pointer to a [`PmuBridge`] comes from [`pmu_new`] and is valid until [`pmu_free`].
//! - A `PmuBridge` belongs to one vCPU. Only the thread of this vCPU, or a thread that has
//!   stopped this vCPU, may pass it to a function.
//! - Every other pointer is valid during the call and not NULL, unless the function says
//!   otherwise. Memory that a function writes need not be initialised.
//!
//! The functions take references where C passes pointers; these rules make them valid. No
//! function unwinds into C: a panic in an `extern "C"` function aborts.

mod branches;
mod config;
mod hybrid;
mod smt;
mod state;

use std::{
    ffi::{c_char, c_int, c_uint},
    mem::MaybeUninit,
};

use pmu_model::{GeneralProtection, Mode, MsrError, Pmu, RefCycles, Retired};

pub use branches::*;
pub use config::{PmuConfig, PMU_FIXED_DEFAULT, PMU_LBR_DEFAULT};
pub use state::{pmu_restore, pmu_save};

/// The PMU of one vCPU.
#[derive(Debug)]
pub struct PmuBridge(Pmu);

/// The leaf of CPUID with the accesses to each register, if PmuConfig.count_accesses.
pub const PMU_CPUID_ACCESSES: u32 = 0x4f00_0000;
const _: () = assert!(PMU_CPUID_ACCESSES == pmu_model::CPUID_ACCESSES);

/// pmu_tsc_until_overflow(): no counter can overflow.
pub const PMU_TSC_NEVER: u64 = u64::MAX;

/// What retired in user mode (CPL 1 to 3, index 0) and in kernel mode (CPL 0, index 1).
#[repr(C)]
pub struct PmuCounts {
    /// Instructions, branches included.
    pub instructions: [u64; 2],
    /// Branches.
    pub branches: [u64; 2],
    /// The branches that are conditional, taken or not.
    pub conditional: [u64; 2],
    /// Conditional branches that were taken. This and what follows, but for tsc, count only if
    /// pmu_counts_details().
    pub conditional_taken: [u64; 2],
    /// Branches within the code segment that are not conditional.
    pub near_unconditional: [u64; 2],
    /// Instructions that load from memory.
    pub loads: [u64; 2],
    /// Instructions that store to memory.
    pub stores: [u64; 2],
    /// The cycles of the time-stamp counter that passed while the vCPU was not halted. They
    /// matter if pmu_ref_cycles_are_tsc().
    pub tsc: [u64; 2],
}

impl PmuCounts {
    /// What has retired in each mode.
    pub(crate) fn retired(&self) -> [Retired; 2] {
        Mode::ALL.map(|mode| {
            let mode = mode as usize;
            Retired {
                instructions: self.instructions[mode],
                branches: self.branches[mode],
                conditional: self.conditional[mode],
                conditional_taken: self.conditional_taken[mode],
                near_unconditional: self.near_unconditional[mode],
                loads: self.loads[mode],
                stores: self.stores[mode],
            }
        })
    }
}

/// Result of an access: success.
pub const PMU_OK: c_int = 0;
/// Result of an access: it raises #GP and has changed nothing.
pub const PMU_GP: c_int = 1;
/// Result of an access: the address does not belong to the PMU.
pub const PMU_UNKNOWN_MSR: c_int = 2;

fn status(result: Result<(), MsrError>) -> c_int {
    match result {
        Ok(()) => PMU_OK,
        Err(MsrError::GeneralProtection) => PMU_GP,
        Err(MsrError::NotPmu) => PMU_UNKNOWN_MSR,
    }
}

/// Creates a PMU, which pmu_free() frees. If there is no such PMU, returns NULL and sets
/// *error to a message of one line, which must not be freed.
///
/// # Safety
///
/// Each of cfg->vendor, cfg->fault, cfg->hybrid and cfg->ref_cycles is NULL or points to a
/// NUL-terminated string that is valid during the call.
#[no_mangle]
pub unsafe extern "C" fn pmu_new(
    cfg: &PmuConfig,
    error: &mut MaybeUninit<*const c_char>,
) -> Option<Box<PmuBridge>> {
    // SAFETY: This function's contract has the condition on the strings that create() has.
    match unsafe { config::create(cfg) } {
        Ok(pmu) => Some(Box::new(PmuBridge(pmu))),
        Err(message) => {
            error.write(message.as_ptr());
            None
        }
    }
}

/// Frees a PMU. NULL is ignored.
#[no_mangle]
pub extern "C" fn pmu_free(pmu: Option<Box<PmuBridge>>) {
    drop(pmu);
}

/// RESET. INIT does not change a PMU.
#[no_mangle]
pub extern "C" fn pmu_reset(pmu: &mut PmuBridge) {
    pmu.0.reset();
}

/// AMD: sets EFER.SVME, and whether the vCPU runs a guest. RESET clears both. Call
/// pmu_retire() before.
#[no_mangle]
pub extern "C" fn pmu_set_svm(pmu: &mut PmuBridge, svme: bool, guest: bool) {
    pmu.0.set_svm(svme, guest);
}

/// CPUID: sets *regs to EAX, EBX, ECX and EDX. Returns false, and leaves *regs alone, if
/// the leaf does not belong to the PMU.
#[no_mangle]
pub extern "C" fn pmu_cpuid(
    pmu: &PmuBridge,
    leaf: u32,
    subleaf: u32,
    regs: &mut MaybeUninit<[u32; 4]>,
) -> bool {
    match pmu.0.cpuid_count(leaf, subleaf) {
        Some(values) => {
            regs.write(values);
            true
        }
        None => false,
    }
}

/// CPUID.1:ECX.PDCM: whether PERF_CAPABILITIES exists.
#[no_mangle]
pub extern "C" fn pmu_pdcm(pmu: &PmuBridge) -> bool {
    pmu.0.perf_capabilities().is_some()
}

/// Whether there is a MISC_ENABLE, which says that there is a PMU: on Intel and Zhaoxin.
#[no_mangle]
pub extern "C" fn pmu_has_misc_enable(pmu: &PmuBridge) -> bool {
    pmu.0.has_misc_enable()
}

/// CPUID.80000001H:ECX.PerfCtrExtCore.
#[no_mangle]
pub extern "C" fn pmu_perfctr_core(pmu: &PmuBridge) -> bool {
    pmu.0.perfctr_core()
}

/// CPUID.(7,1):EAX.ArchPerfMonExt: whether leaf 23H exists.
#[no_mangle]
pub extern "C" fn pmu_perfmon_ext(pmu: &PmuBridge) -> bool {
    pmu.0.perfmon_ext()
}

/// CPUID.(7,0):EDX.Hybrid: whether leaf 1AH exists.
#[no_mangle]
pub extern "C" fn pmu_hybrid(pmu: &PmuBridge) -> bool {
    pmu.0.hybrid()
}

/// Whether the local APIC sets the mask bit of LVTPC when it delivers a PMI: on Intel and
/// Zhaoxin, and on AMD with the defect `mask-lvtpc`.
#[no_mangle]
pub extern "C" fn pmu_pmi_masks_lvtpc(pmu: &PmuBridge) -> bool {
    pmu.0.pmi_masks_lvtpc()
}

/// Whether reference cycles are those of the time-stamp counter: the caller reports them, and
/// calls pmu_tsc_until_overflow().
#[no_mangle]
pub extern "C" fn pmu_ref_cycles_are_tsc(pmu: &PmuBridge) -> bool {
    pmu.0.ref_cycles() == RefCycles::Tsc
}

/// Reports what has retired since the last call, and the time that has passed.
#[no_mangle]
pub extern "C" fn pmu_retire(pmu: &mut PmuBridge, delta: &PmuCounts) {
    pmu.0.report(&delta.retired(), delta.tsc);
}

/// Sets *until to the cycles of the time-stamp counter that may pass in each mode before the
/// next call of pmu_retire(), or to PMU_TSC_NEVER.
///
/// The cycles that have passed by then may be the ones that overflow a counter. One that counts
/// in both modes overflows after so many in both together.
#[no_mangle]
pub extern "C" fn pmu_tsc_until_overflow(pmu: &PmuBridge, until: &mut MaybeUninit<[u64; 2]>) {
    let cycles = pmu.0.tsc_until_overflow();
    until.write(cycles.map(|it| it.unwrap_or(PMU_TSC_NEVER)));
}

/// RDMSR: returns PMU_OK, PMU_GP or PMU_UNKNOWN_MSR. *value is set with PMU_OK only.
#[no_mangle]
pub extern "C" fn pmu_rdmsr(pmu: &PmuBridge, msr: u32, value: &mut MaybeUninit<u64>) -> c_int {
    status(pmu.0.rdmsr(msr).map(|read| {
        value.write(read);
    }))
}

/// WRMSR: returns PMU_OK, PMU_GP or PMU_UNKNOWN_MSR.
#[no_mangle]
pub extern "C" fn pmu_wrmsr(pmu: &mut PmuBridge, msr: u32, value: u64) -> c_int {
    status(pmu.0.wrmsr(msr, value))
}

/// RDPMC: returns PMU_OK or PMU_GP. *value is set with PMU_OK only.
#[no_mangle]
pub extern "C" fn pmu_rdpmc(
    pmu: &mut PmuBridge,
    ecx: u32,
    cpl0: bool,
    cr4_pce: bool,
    value: &mut MaybeUninit<u64>,
) -> c_int {
    match pmu.0.rdpmc(ecx, cpl0, cr4_pce) {
        Ok(read) => {
            value.write(read);
            PMU_OK
        }
        Err(GeneralProtection) => PMU_GP,
    }
}

/// Whether pmu_retire() must be called for what retires.
#[no_mangle]
pub extern "C" fn pmu_counting(pmu: &PmuBridge) -> bool {
    pmu.0.counting()
}

/// Whether a counter counts more than what depends on the numbers of instructions, branches and
/// conditional branches. It is false if pmu_counting() is.
#[no_mangle]
pub extern "C" fn pmu_counts_details(pmu: &PmuBridge) -> bool {
    pmu.0.counts_details()
}

/// Takes the pending PMI, which the caller delivers through LVTPC. Returns whether there
/// was one.
#[no_mangle]
pub extern "C" fn pmu_take_pmi(pmu: &mut PmuBridge) -> bool {
    pmu.0.take_pmi()
}

/// Sets *budget to the number of instructions of each mode that may retire before the next
/// call of pmu_retire(), if the vCPU is in `mode` (0 user, 1 kernel).
///
/// The budget of this mode is at least 1, that of the other mode may be 0. The instruction
/// that uses up the budget of its mode may be the one that overflows a counter: call
/// pmu_retire() right after it, before an instruction of either mode retires.
/// UINT64_MAX / 4 means no limit.
#[no_mangle]
pub extern "C" fn pmu_budget(pmu: &PmuBridge, mode: c_uint, budget: &mut MaybeUninit<[u64; 2]>) {
    budget.write(pmu.0.budget(self::mode(mode)));
}

fn mode(number: c_uint) -> Mode {
    match number {
        0 => Mode::User,
        _ => Mode::Kernel,
    }
}
