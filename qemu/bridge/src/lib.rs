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

mod config;
mod hybrid;
mod smt;
mod state;

use std::{
    ffi::{c_char, c_int, c_uint},
    mem::MaybeUninit,
};

use pmu_model::{Branch, BranchKind, GeneralProtection, Mode, MsrError, Pmu, RefCycles, Retired};

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

/// A branch that was taken.
#[repr(C)]
pub struct PmuBranch {
    /// The linear address of the branch, or of the instruction before which an interrupt or an
    /// exception came.
    pub from: u64,
    /// The linear address of the next instruction.
    pub to: u64,
    /// The instructions of each mode that have retired since pmu_retire(), the branch included.
    pub instructions: [u64; 2],
    /// The branches among them.
    pub branches: [u64; 2],
    /// PMU_KIND_.
    pub kind: u8,
    /// The mode before and after the branch: 0 user, 1 kernel.
    pub from_mode: u8,
    #[expect(missing_docs, reason = "described with `from_mode`")]
    pub to_mode: u8,
    /// Whether an instruction retires with it: not with an interrupt or an exception.
    pub retires: bool,
}

/// A conditional branch.
pub const PMU_KIND_CONDITIONAL: u8 = 0;
/// A near jump to an address in a register or in memory.
pub const PMU_KIND_INDIRECT_JUMP: u8 = 1;
/// A near jump by a displacement.
pub const PMU_KIND_RELATIVE_JUMP: u8 = 2;
/// A near call of an address in a register or in memory.
pub const PMU_KIND_INDIRECT_CALL: u8 = 3;
/// A near call by a displacement, but for a call of the next instruction.
pub const PMU_KIND_RELATIVE_CALL: u8 = 4;
/// A near return.
pub const PMU_KIND_RETURN: u8 = 5;
/// Everything else that changes RIP, but for debug exceptions, which are not reported.
pub const PMU_KIND_OTHER: u8 = 6;
/// A near call of the next instruction.
pub const PMU_KIND_CALL_OF_NEXT: u8 = 7;

const _: () = {
    use BranchKind::*;
    assert!(PMU_KIND_CONDITIONAL == Conditional as u8);
    assert!(PMU_KIND_INDIRECT_JUMP == IndirectJump as u8);
    assert!(PMU_KIND_RELATIVE_JUMP == RelativeJump as u8);
    assert!(PMU_KIND_INDIRECT_CALL == IndirectCall as u8);
    assert!(PMU_KIND_RELATIVE_CALL == RelativeCall as u8);
    assert!(PMU_KIND_RETURN == Return as u8);
    assert!(PMU_KIND_OTHER == Other as u8);
    assert!(PMU_KIND_CALL_OF_NEXT == CallOfNext as u8);
};

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
    let retired = Mode::ALL.map(|mode| {
        let mode = mode as usize;
        Retired {
            instructions: delta.instructions[mode],
            branches: delta.branches[mode],
            conditional: delta.conditional[mode],
            conditional_taken: delta.conditional_taken[mode],
            near_unconditional: delta.near_unconditional[mode],
            loads: delta.loads[mode],
            stores: delta.stores[mode],
        }
    });
    pmu.0.report(&retired, delta.tsc);
}

/// Whether there are architectural LBRs: CPUID.(7,0):EDX.ARCH_LBR.
#[no_mangle]
pub extern "C" fn pmu_has_arch_lbrs(pmu: &PmuBridge) -> bool {
    pmu.0.has_arch_lbrs()
}

/// Whether there are LBRs of any kind: pmu_debug_exception() must be called.
#[no_mangle]
pub extern "C" fn pmu_has_lbrs(pmu: &PmuBridge) -> bool {
    pmu.0.has_lbrs()
}

/// Sets *filter to the kinds of branches that pmu_branch() must be told of, by the mode after the
/// branch: bit PMU_KIND_. It may change with each access to a register and each pmu_retire().
#[no_mangle]
pub extern "C" fn pmu_branch_filter(pmu: &PmuBridge, filter: &mut MaybeUninit<[u8; 2]>) {
    filter.write(Mode::ALL.map(|mode| pmu.0.branch_filter(mode)));
}

/// How many of the last branches matter that pmu_branch_filter() has: of those between two calls of
/// pmu_retire(), pmu_branch() need not be told of earlier ones, but pmu_skip_branches() of their number. At
/// most PMU_LAST_BRANCHES, or 0 if all matter. It may change as the filter may.
#[no_mangle]
pub extern "C" fn pmu_last_branches(pmu: &PmuBridge) -> u32 {
    pmu.0.last_branches().unwrap_or(0) as u32
}

/// The largest result of pmu_last_branches().
pub const PMU_LAST_BRANCHES: u32 = 33;

/// So many branches that pmu_branch_filter() has were taken, and do not matter for pmu_last_branches(). Call
/// it before pmu_branch() is told of those that do.
#[no_mangle]
pub extern "C" fn pmu_skip_branches(pmu: &mut PmuBridge, branches: u64) {
    pmu.0.skip_branches(branches);
}

/// Records a branch that was taken since the last pmu_retire(), if pmu_branch_filter() has it. Branches
/// are told in the order in which they were taken.
#[no_mangle]
pub extern "C" fn pmu_branch(pmu: &mut PmuBridge, branch: &PmuBranch) {
    let Some(&kind) = BranchKind::ALL.get(usize::from(branch.kind)) else {
        return;
    };
    let retired = Mode::ALL.map(|mode| Retired {
        instructions: branch.instructions[mode as usize],
        branches: branch.branches[mode as usize],
        ..Retired::default()
    });
    pmu.0.branch(&Branch {
        kind,
        from: branch.from,
        to: branch.to,
        modes: [branch.from_mode, branch.to_mode].map(|it| mode(it.into())),
        retires: branch.retires,
        retired,
    });
}

/// A debug exception is delivered, which stops the recording of branches. Call pmu_retire() before.
#[no_mangle]
pub extern "C" fn pmu_debug_exception(pmu: &mut PmuBridge) {
    pmu.0.debug_exception();
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
