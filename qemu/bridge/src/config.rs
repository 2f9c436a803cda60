// SPDX-License-Identifier: GPL-2.0

//! The configuration of a PMU, as QEMU's properties describe it.

use std::{
    ffi::{c_char, CStr, CString},
    sync::LazyLock,
};

use pmu_model::{
    Config, ConfigError, CoreType, Defect, Fault, Foreign, Pmu, RefCycles, Signature, Vendor,
    FAULT_FORMS,
};

use crate::{hybrid, smt};

/// The configuration of a PMU.
#[repr(C)]
pub struct PmuConfig {
    /// The vendor as CPUID leaf 0 has it, such as `GenuineIntel`.
    pub vendor: *const c_char,
    /// How many threads share a core, and with it registers or counters. They are vCPUs with
    /// numbers in a row, of which the first is a multiple of this. 0 means 1.
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
    /// 0 selects the version and the counters of the processor. If the model does not know the
    /// processor, 0 selects version 4 (AMD: 3, Zhaoxin: 2) with its default counters. Any other
    /// number selects that version with its default counters.
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
    /// The number of last branch records (LBRs), 0 if there are none: 8, 16 or 32 architectural ones, on a
    /// processor with legacy ones 4, 8, 16 or 32, on AMD 1 to 32. PMU_LBR_DEFAULT means those of the processor, if
    /// the version can have them. Without a processor that the model knows, there are none then.
    pub lbr: u8,
    /// What reference cycles are: `instructions`, a function of these, or `tsc`, the cycles of
    /// the time-stamp counter. NULL means the default, `instructions`.
    pub ref_cycles: *const c_char,
    /// The defect of the PMU, in one of the forms that qemu/README.md lists for `pmu-fault`. NULL
    /// means none.
    pub fault: *const c_char,
    /// Whether accesses are counted. Software reads the counts in CPUID leaf PMU_CPUID_ACCESSES.
    pub count_accesses: bool,
}

/// PmuConfig.fixed: the default.
pub const PMU_FIXED_DEFAULT: u8 = 0xff;
/// PmuConfig.lbr: the default.
pub const PMU_LBR_DEFAULT: u8 = 0xff;

/// Creates the PMU, or fails with a message that names QEMU's property.
///
/// # Safety
///
/// Each of `config.vendor`, `config.fault`, `config.hybrid` and `config.ref_cycles` is NULL or points
/// to a NUL-terminated string that is valid during the call.
pub(crate) unsafe fn create(config: &PmuConfig) -> Result<Pmu, &'static CStr> {
    let texts = [
        config.vendor,
        config.fault,
        config.hybrid,
        config.ref_cycles,
    ];
    let [vendor, fault, hybrid, ref_cycles] = texts.map(|text| {
        // SAFETY: It is not NULL, and this function's contract says that it then points to
        // a string that is valid while this function runs.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
    });
    let vendor = vendor.and_then(|name| Vendor::of_cpuid(name.to_bytes()));
    let vendor = vendor.ok_or(
        c"pmu=on needs the vendor GenuineIntel, AuthenticAMD, HygonGenuine, CentaurHauls or \
          \"  Shanghai  \"",
    )?;
    let core_type = core_type(hybrid, config)?;
    let defect = defect(fault, core_type)?;
    let ref_cycles = parse_ref_cycles(ref_cycles)?;
    let lbr = config.lbr;
    let mut pmu = model_config(config, vendor, core_type)
        .map(|config| Config {
            ref_cycles,
            lbrs: match lbr {
                PMU_LBR_DEFAULT => config.lbrs_of_processor(),
                depth => config.lbrs_with_depth(depth),
            },
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

/// What `pmu-fault` can be.
static FAULTS: LazyLock<CString> = LazyLock::new(|| {
    let registers = Foreign::ALL.map(Foreign::name).join(", ");
    let forms = FAULT_FORMS.join(", ");
    let message = format!(
        "pmu-fault must be one of {forms}, where REGISTER is one of {registers}; with efficient: \
         before it or not; numbers are decimal or 0x..., and only AFTER and foreign's SEED may be 0"
    );
    CString::new(message).unwrap_or_default()
});

fn defect(fault: Option<&CStr>, core_type: Option<CoreType>) -> Result<Defect, &'static CStr> {
    let Some(fault) = fault else {
        return Ok(Defect::None);
    };
    let fault = fault.to_str().unwrap_or_default();
    let fault: Fault = fault.parse().map_err(|_| FAULTS.as_c_str())?;
    if fault.of_efficient_cores && core_type.is_none() {
        return Err(c"pmu-fault=efficient: needs pmu-hybrid");
    }
    let concerned = !fault.of_efficient_cores || core_type == Some(CoreType::Efficient);
    Ok(if concerned {
        fault.defect
    } else {
        Defect::None
    })
}

fn model_config(
    config: &PmuConfig,
    vendor: Vendor,
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
                None => Config::new(vendor, vendor.default_version())?,
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
        (Vendor::Amd | Vendor::Hygon, ConfigError::LbrDepth) => c"pmu-lbr must be 0 to 32 on AMD",
        (_, ConfigError::LbrDepth) => {
            c"pmu-lbr must be 0, 8, 16 or 32; legacy LBRs can be 4, too, and up to Silvermont 4 or 8"
        }
        (_, ConfigError::LbrVersion) => {
            c"pmu-lbr needs a processor with legacy LBRs and pmu-version 2 or later, or otherwise \
              pmu-version 4, 5 or 6, on AMD 3"
        }
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
