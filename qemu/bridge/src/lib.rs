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

mod fault;
mod hybrid;
mod smt;

use std::{
    ffi::{c_char, c_int, c_uint, CStr},
    mem::MaybeUninit,
    ptr, slice,
};

use pmu_model::{
    Config, ConfigError, CoreType, Defect, GeneralProtection, Mode, MsrError, Pmu, RefCycles,
    RestoreError, Retired, SavedPmu, Signature, Vendor,
};

/// The PMU of one vCPU.
#[derive(Debug)]
pub struct PmuBridge(Pmu);

/// The configuration of a PMU.
#[repr(C)]
pub struct PmuConfig {
    /// 0 Intel, 1 AMD, 2 Zhaoxin.
    pub vendor: u8,
    /// How many threads share a core, and with it registers or counters. They are vCPUs with
    /// numbers in a row, of which the first is a multiple of this. 0 is the same as 1.
    pub threads: u32,
    /// What CPUID leaf 1 reports: the model, extended model included.
    pub model: u8,
    /// The stepping.
    pub stepping: u8,
    /// The family, extended family included. 0 means that the PMU is that of no particular
    /// processor.
    pub family: u16,
    /// Intel: the version of architectural performance monitoring, 1 to 6.
    /// AMD: 1 legacy counters, 2 PerfCtrExtCore, 3 PerfMonV2. Zhaoxin: 2.
    ///
    /// 0 means that of the processor, and its counters. If the model does not know the
    /// processor, 0 means 4 (AMD: 3, Zhaoxin: 2). The counters that a version has by default
    /// go with an unknown processor, and with a version that is not 0.
    pub version: u8,
    /// The number of general-purpose counters: 1 to 8 (AMD: 4 in version 1, 6 in version 2,
    /// 1 to 15 in version 3). 0 means the default.
    pub general: u8,
    /// The number of fixed-function counters: 0 to 4 (AMD: 0). PMU_FIXED_DEFAULT means the
    /// default.
    pub fixed: u8,
    /// The width of a counter in bits: 32 to 48 (AMD: 48). 0 means the default.
    pub width: u8,
    /// Intel: whether there are aliases for full-width writes: 1 yes, 2 no. 0 means the
    /// default. QEMU's OnOffAuto has the same values.
    pub full_width: u8,
    /// Intel's version 6: a bitmap of the general-purpose counters, instead of general,
    /// which must then be 0. 0 means that none is missing.
    pub general_mask: u16,
    /// The number of vCPUs, and the number of this one, which is less.
    pub cpus: u32,
    #[expect(missing_docs, reason = "described with `cpus`")]
    pub cpu: u32,
    /// Which of them are the efficient cores of a hybrid processor: `E` or `E+L`. The last L
    /// are low-power ones, and the E before them the other ones. NULL means that the processor
    /// is not a hybrid one.
    pub hybrid: *const c_char,
    /// What reference cycles are: `instructions`, a function of these, or `tsc`, the cycles of
    /// the time-stamp counter. NULL means the default, `instructions`.
    pub ref_cycles: *const c_char,
    /// The defect of the PMU: `lose:N`, `delay:N:INSNS`, `repeat:N:INSNS`,
    /// `spurious:INSNS`, `status:BITS`, `gp:ADDRESS:AFTER` or `mask-lvtpc`; with `efficient:`
    /// before it, of the efficient cores only. NULL means none.
    pub fault: *const c_char,
    /// Whether accesses are counted. Software reads the counts in CPUID leaf PMU_CPUID_ACCESSES.
    pub count_accesses: bool,
}

/// The leaf of CPUID with the accesses to each register, if PmuConfig.count_accesses.
pub const PMU_CPUID_ACCESSES: u32 = 0x4f00_0000;
const _: () = assert!(PMU_CPUID_ACCESSES == pmu_model::CPUID_ACCESSES);

/// PmuConfig.fixed: the default.
pub const PMU_FIXED_DEFAULT: u8 = 0xff;

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

/// Result of an access: success.
pub const PMU_OK: c_int = 0;
/// Result of an access: it raises #GP and has changed nothing.
pub const PMU_GP: c_int = 1;
/// Result of an access: the address does not belong to the PMU.
pub const PMU_UNKNOWN_MSR: c_int = 2;

/// Creates the PMU, or fails with a message that names QEMU's property.
///
/// # Safety
///
/// Each of `config.fault`, `config.hybrid` and `config.ref_cycles` is NULL or points to a
/// NUL-terminated string that is valid during the call.
unsafe fn create(config: &PmuConfig) -> Result<Pmu, &'static CStr> {
    let (vendor, default_version) = match config.vendor {
        0 => (Vendor::Intel, 4),
        1 => (Vendor::Amd, 3),
        2 => (Vendor::Zhaoxin, 2),
        _ => return Err(c"pmu=on: the model has PMUs of Intel, AMD and Zhaoxin only"),
    };
    let texts = [config.fault, config.hybrid, config.ref_cycles];
    let [fault, hybrid, ref_cycles] = texts.map(|text| {
        // SAFETY: It is not NULL, and this function's contract says that it then points to
        // a string that is valid while this function runs.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
    });
    let core_type = core_type(hybrid, config)?;
    let defect = defect(fault, core_type)?;
    let ref_cycles = parse_ref_cycles(ref_cycles)?;
    let mut pmu = model_config(config, vendor, default_version, core_type)
        .map(|config| Config {
            ref_cycles,
            ..config
        })
        .and_then(|config| Pmu::with_defect(config, defect))
        .map_err(|error| message(error, vendor))?;
    if has_threads(config) {
        let (core, thread) = smt::thread(config.cpu, config.threads);
        pmu.set_thread(core, thread);
    }
    if config.count_accesses {
        pmu.count_accesses();
    }
    Ok(pmu)
}

/// Whether threads share cores.
fn has_threads(config: &PmuConfig) -> bool {
    config.threads > 1
}

fn core_type(hybrid: Option<&CStr>, config: &PmuConfig) -> Result<Option<CoreType>, &'static CStr> {
    let Some(hybrid) = hybrid else {
        return Ok(None);
    };
    if config.version != 0 {
        return Err(c"pmu-hybrid excludes pmu-version: each core has the version of its type");
    }
    if has_threads(config) {
        return Err(
            c"pmu-hybrid excludes threads=N: efficient cores have one thread, but -smp gives all \
              cores as many",
        );
    }
    let text = hybrid.to_str().ok();
    let core_type = text.and_then(|text| hybrid::core_type(text, config.cpu, config.cpus));
    core_type.map(Some).ok_or(
        c"pmu-hybrid must be the number of efficient cores, or E+L if there are low-power ones: \
          at least 1 of the vCPUs and not all of them",
    )
}

fn parse_ref_cycles(text: Option<&CStr>) -> Result<RefCycles, &'static CStr> {
    match text.map(CStr::to_bytes) {
        None => Ok(RefCycles::default()),
        Some(b"instructions") => Ok(RefCycles::Instructions),
        Some(b"tsc") => Ok(RefCycles::Tsc),
        Some(_) => Err(c"pmu-ref-cycles must be instructions or tsc"),
    }
}

fn defect(fault: Option<&CStr>, core_type: Option<CoreType>) -> Result<Defect, &'static CStr> {
    let Some(fault) = fault else {
        return Ok(Defect::None);
    };
    let fault = fault.to_str().unwrap_or_default();
    let (fault, of_efficient) = match fault.strip_prefix("efficient:") {
        Some(fault) => (fault, true),
        None => (fault, false),
    };
    if of_efficient && core_type.is_none() {
        return Err(c"pmu-fault=efficient: needs pmu-hybrid");
    }
    let defect = fault::parse(fault).ok_or(
        c"pmu-fault must be lose:N, delay:N:INSNS, repeat:N:INSNS, spurious:INSNS, \
          status:BITS, gp:ADDRESS:AFTER, mask-lvtpc, garbage:SEED or \
          foreign:REGISTER:INSNS:SEED, where REGISTER is eventsel, fixed-ctr-ctrl, counter, \
          global-ctrl or zero; with efficient: before it or not; numbers are decimal or 0x..., \
          and only AFTER and foreign's SEED may be 0",
    )?;
    let concerned = !of_efficient || core_type == Some(CoreType::Efficient);
    Ok(if concerned { defect } else { Defect::None })
}

fn model_config(
    config: &PmuConfig,
    vendor: Vendor,
    default_version: u8,
    core_type: Option<CoreType>,
) -> Result<Config, ConfigError> {
    let signature = (config.family != 0).then_some(Signature {
        family: config.family,
        model: config.model,
        stepping: config.stepping,
    });
    let mut model = match (core_type, config.version) {
        (Some(core_type), _) => {
            let signature = signature.ok_or(ConfigError::NotHybrid)?;
            Config::of_hybrid(vendor, signature, core_type)?
        }
        (None, 0) => {
            let smt = has_threads(config);
            match signature.and_then(|it| Config::of_processor(vendor, it, smt)) {
                Some(model) => model,
                None => Config::new(vendor, default_version)?,
            }
        }
        (None, version) => Config::new(vendor, version)?,
    };
    model.signature = signature;
    if config.general != 0 {
        model.shape.general = config.general;
    }
    if config.general_mask != 0 {
        if config.general != 0 {
            return Err(ConfigError::Missing);
        }
        let length = u16::BITS - config.general_mask.leading_zeros();
        model.shape.general = length as u8;
        model.shape.missing = !config.general_mask & (u16::MAX >> (u16::BITS - length));
    }
    if config.fixed != PMU_FIXED_DEFAULT {
        model.shape.fixed = config.fixed;
    }
    if config.width != 0 {
        model.shape.width = config.width;
    }
    if config.full_width != 0 {
        model.shape.full_width = config.full_width == 1;
    }
    Ok(model)
}

fn message(error: ConfigError, vendor: Vendor) -> &'static CStr {
    match (vendor, error) {
        (Vendor::Intel, ConfigError::Version) => c"pmu-version must be 1 to 6",
        (Vendor::Amd | Vendor::Hygon, ConfigError::Version) => {
            c"pmu-version must be 1 (legacy), 2 (PerfCtrExtCore) or 3 (PerfMonV2) on AMD"
        }
        (Vendor::Zhaoxin, ConfigError::Version) => c"pmu-version must be 2 on Zhaoxin",
        (Vendor::Intel | Vendor::Zhaoxin, ConfigError::General) => c"pmu-counters must be 1 to 8",
        (Vendor::Amd | Vendor::Hygon, ConfigError::General) => {
            c"pmu-counters must be 4 (pmu-version 1), 6 (2) or 1 to 15 (3) on AMD"
        }
        (_, ConfigError::Missing) => {
            c"pmu-counter-mask excludes pmu-counters, and needs pmu-version=6 if it has gaps"
        }
        (Vendor::Intel, ConfigError::Fixed) => {
            c"pmu-fixed must be 0 (pmu-version 1), 0 to 3 (2 to 4) or 0 to 4 (5 and 6)"
        }
        (Vendor::Amd | Vendor::Hygon, ConfigError::Fixed) => c"pmu-fixed must be 0 on AMD",
        (Vendor::Zhaoxin, ConfigError::Fixed) => c"pmu-fixed must be 0 to 3 on Zhaoxin",
        (Vendor::Intel | Vendor::Zhaoxin, ConfigError::Width) => c"pmu-width must be 32 to 48",
        (Vendor::Amd | Vendor::Hygon, ConfigError::Width) => c"pmu-width must be 48 on AMD",
        (_, ConfigError::FullWidth) => c"pmu-full-width=on is for Intel only",
        (_, ConfigError::Status) => {
            c"pmu-fault=status: must name bits of existing counters, and needs pmu-version 2 or \
              later, on AMD 3"
        }
        (_, ConfigError::Msr) => {
            c"pmu-fault=gp: must name the address of a register that this PMU has"
        }
        (_, ConfigError::Foreign) => c"pmu-fault=foreign: must name a register that this PMU has",
        (_, ConfigError::MaskLvtpc) => c"pmu-fault=mask-lvtpc is for AMD only",
        (_, ConfigError::NotHybrid) => {
            c"pmu-hybrid needs a hybrid processor that the model knows, such as \
              vendor=GenuineIntel,family=6,model=0x97"
        }
        (_, ConfigError::NoSuchCore) => c"pmu-hybrid: this processor has no low-power cores",
    }
}

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
/// Each of cfg->fault, cfg->hybrid and cfg->ref_cycles is NULL or points to a NUL-terminated
/// string that is valid during the call.
#[no_mangle]
pub unsafe extern "C" fn pmu_new(
    cfg: &PmuConfig,
    error: &mut MaybeUninit<*const c_char>,
) -> Option<Box<PmuBridge>> {
    // SAFETY: This function's contract says the same of the strings.
    match unsafe { create(cfg) } {
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

/// Writes the state of the PMU to the `size` bytes at `buffer` if there is room for it. Returns the
/// number of bytes that it has. Call pmu_retire() before.
///
/// # Safety
///
/// `buffer` is valid for writes of `size` bytes, or `size` is 0.
#[no_mangle]
pub unsafe extern "C" fn pmu_save(pmu: &PmuBridge, buffer: *mut u8, size: usize) -> usize {
    let state = serde_json::to_vec(&pmu.0.save()).expect("every state can be written as JSON");
    if state.len() <= size {
        // SAFETY: `state` is valid for its length and was allocated here, so that it cannot
        // overlap. This function's contract says that the buffer has `size` bytes, which are at
        // least as many and so not 0.
        unsafe { ptr::copy_nonoverlapping(state.as_ptr(), buffer, state.len()) };
    }
    state.len()
}

/// Restores a state of `size` bytes that pmu_save() has written, of this PMU or of one with the same
/// configuration. Returns NULL, or a message of one line, which must not be freed; then the PMU is
/// as it was.
///
/// Restore the PMUs of all vCPUs before one of them runs.
///
/// # Safety
///
/// `state` is valid for reads of `size` bytes, or `size` is 0.
#[no_mangle]
pub unsafe extern "C" fn pmu_restore(
    pmu: &mut PmuBridge,
    state: *const u8,
    size: usize,
) -> *const c_char {
    let state = match size {
        0 => &[],
        // SAFETY: This function's contract says that the bytes can be read. C does not change them
        // meanwhile, because this function has not returned.
        _ => unsafe { slice::from_raw_parts(state, size) },
    };
    match restore(&mut pmu.0, state) {
        Ok(()) => ptr::null(),
        Err(message) => message.as_ptr(),
    }
}

fn restore(pmu: &mut Pmu, state: &[u8]) -> Result<(), &'static CStr> {
    let damaged = c"the saved state of the PMU is damaged, or of another version of the PMU";
    let saved: SavedPmu = serde_json::from_slice(state).map_err(|_| damaged)?;
    pmu.restore(&saved).map_err(|error| match error {
        RestoreError::OtherPmu => {
            c"the PMU that was saved is another one: start with its -cpu and threads="
        }
        RestoreError::Impossible => damaged,
    })
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
    let mode = match mode {
        0 => Mode::User,
        _ => Mode::Kernel,
    };
    budget.write(pmu.0.budget(mode));
}
