// SPDX-License-Identifier: GPL-2.0

//! The configuration of a PMU: vendor, version and counters.

use core::{fmt, ptr};

use serde::{Deserialize, Serialize};

use crate::{
    generation::{self, Generation},
    msr::FIXED_SHIFT,
    processor::{self, Core, CoreType, Processor, Signature},
};

/// The highest number of general-purpose counters of any vendor: what AMD's CPUID can
/// report (APM vol. 3, leaf 80000022H, `EBX[3:0]`). Intel's is [`MAX_INTEL_GENERAL`].
pub const MAX_GENERAL: usize = 15;
/// The highest number of Intel's general-purpose counters: the last ones are IA32_PMC7 and
/// IA32_A_PMC7 (SDM vol. 4, table "IA-32 Architectural MSRs").
pub const MAX_INTEL_GENERAL: usize = 8;
/// The highest number of fixed-function counters: those to which architectural performance
/// monitoring assigns an event.
pub const MAX_FIXED: usize = 4;

/// The vendor of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vendor {
    /// Intel: architectural performance monitoring.
    Intel,
    /// AMD: the core performance counters.
    Amd,
    /// Zhaoxin and Centaur: version 2 of Intel's, with other events.
    Zhaoxin,
}

/// The number of counters and their properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The number of general-purpose counters, those in `missing` included: 1 to
    /// [`MAX_GENERAL`], further limited by the generation.
    pub general: u8,
    /// A bitmap of the general-purpose counters below `general` that do not exist. It is 0
    /// except on Intel's version 6, and never contains all of them.
    pub missing: u16,
    /// The number of fixed-function counters: 0 to [`MAX_FIXED`], further limited by the
    /// generation.
    pub fixed: u8,
    /// The width of a counter in bits: 32 to 48, on AMD always 48.
    pub width: u8,
    /// Intel: whether the general-purpose counters have aliases for full-width writes
    /// (PERF_CAPABILITIES.FW_WRITE). AMD's counters have no aliases: every write to them
    /// is full-width.
    pub full_width: bool,
}

impl Shape {
    /// The bits of a counter.
    pub(crate) const fn counter_mask(&self) -> u64 {
        low_bits(self.width)
    }

    /// The bits of the general-purpose counters in GLOBAL_CTRL and GLOBAL_STATUS.
    pub(crate) const fn general_counters(&self) -> u64 {
        low_bits(self.general) & !(self.missing as u64)
    }

    /// Whether a general-purpose counter exists.
    pub(crate) const fn has_general(&self, index: usize) -> bool {
        index < MAX_GENERAL && self.general_counters() & (1 << index) != 0
    }

    /// A bitmap of the fixed-function counters.
    pub(crate) const fn fixed_counters(&self) -> u64 {
        low_bits(self.fixed)
    }

    /// The bits of all counters in GLOBAL_CTRL and GLOBAL_STATUS.
    pub(crate) const fn counters(&self) -> u64 {
        self.general_counters() | (self.fixed_counters() << FIXED_SHIFT)
    }
}

const fn low_bits(n: u8) -> u64 {
    (1 << n) - 1
}

/// What reference cycles are. All processors count the cycles of a clock of a fixed rate while
/// they are not halted: the time-stamp counter's, the bus's or a crystal's (SDM vol. 3B,
/// "Pre-defined Architectural Performance Events"; PPR family 19H, event 120H).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefCycles {
    /// A function of the instructions, see [`event`](crate::event): a program always has the
    /// same number of them.
    #[default]
    Instructions,
    /// The cycles of the time-stamp counter, which the emulator reports.
    Tsc,
}

/// The vendor, version and counters of a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The vendor.
    pub vendor: Vendor,
    /// Intel: the version of architectural performance monitoring, 1 to 6. Zhaoxin: 2.
    ///
    /// AMD numbers only the last of its generations. Here 1 is the legacy counters, 2
    /// PerfCtrExtCore and 3 PerfMonV2.
    pub version: u8,
    /// What CPUID reports of the processor. `None` if it is none in particular: it has
    /// no register that is not architectural.
    pub signature: Option<Signature>,
    /// The type of this core. `None` if the processor is not a hybrid one.
    pub core_type: Option<CoreType>,
    /// The counters.
    pub shape: Shape,
    /// What reference cycles are.
    pub ref_cycles: RefCycles,
}

impl Config {
    /// The `version` of `vendor`'s PMU with its default counters.
    pub fn new(vendor: Vendor, version: u8) -> Result<Config, ConfigError> {
        Ok(Config {
            vendor,
            version,
            signature: None,
            core_type: None,
            shape: generation::select(vendor, version)?.default_shape(),
            ref_cycles: RefCycles::default(),
        })
    }

    /// The PMU of a processor, `None` if the table of processors does not have it. `smt`
    /// says whether two logical processors share a core, and with some processors its
    /// counters, too.
    pub fn of_processor(vendor: Vendor, signature: Signature, smt: bool) -> Option<Config> {
        let (version, shape) = processor::find(vendor, signature)?.pmu(smt);
        Some(Config {
            vendor,
            version,
            signature: Some(signature),
            core_type: None,
            shape,
            ref_cycles: RefCycles::default(),
        })
    }

    /// Whether the tables have the same PMU for both: one row of processors, or cores of a type
    /// that are alike.
    pub fn has_processor_of(&self, other: &Self) -> bool {
        let row = |it: &Self| {
            let signature = it.signature?;
            processor::find(it.vendor, signature).map(ptr::from_ref)
        };
        match (self.core(), other.core()) {
            (Some(core), Some(other)) => core.is_like(&other),
            (None, None) => row(self) == row(other),
            _ => false,
        }
    }

    /// The PMU of a core of this type of a hybrid processor.
    pub fn of_hybrid(
        vendor: Vendor,
        signature: Signature,
        core_type: CoreType,
    ) -> Result<Config, ConfigError> {
        let core = processor::find_core(vendor, signature, core_type)?;
        let (version, shape) = core.processor()?.pmu(false);
        Ok(Config {
            vendor,
            version,
            signature: Some(signature),
            core_type: Some(core_type),
            shape,
            ref_cycles: RefCycles::default(),
        })
    }

    /// The generation, if it can have these counters.
    pub(crate) fn generation(&self) -> Result<&'static dyn Generation, ConfigError> {
        let generation = generation::select(self.vendor, self.version)?;
        if let Some(core_type) = self.core_type {
            let signature = self.signature.ok_or(ConfigError::NotHybrid)?;
            processor::find_core(self.vendor, signature, core_type)?;
        }
        if !generation.general_counters().contains(&self.shape.general) {
            return Err(ConfigError::General);
        }
        let may_be_missing = if generation.has_leaf_23h() {
            low_bits(self.shape.general)
        } else {
            0
        };
        if u64::from(self.shape.missing) & !may_be_missing != 0
            || self.shape.general_counters() == 0
        {
            return Err(ConfigError::Missing);
        }
        if self.shape.fixed > generation.max_fixed() {
            return Err(ConfigError::Fixed);
        }
        if !generation.widths().contains(&self.shape.width) {
            return Err(ConfigError::Width);
        }
        if self.shape.full_width && !generation.can_have_full_width() {
            return Err(ConfigError::FullWidth);
        }
        Ok(generation)
    }

    /// The processor, if it is in the table. Of a hybrid one, a processor whose cores are
    /// all like this one.
    pub(crate) fn processor(&self) -> Option<&'static Processor> {
        match self.core() {
            Some(core) => core.processor().ok(),
            None => processor::find(self.vendor, self.signature?),
        }
    }

    /// Whether two counters can be merged: AMD's processors from family 17H on. Nothing
    /// enumerates it (PPR family 17H, "Large Increment per Cycle Events").
    pub(crate) fn has_pairs(&self) -> bool {
        let signature = self.signature;
        self.vendor == Vendor::Amd && signature.is_some_and(|it| it.family >= 0x17)
    }

    /// The core of a hybrid processor.
    pub(crate) fn core(&self) -> Option<Core> {
        processor::find_core(self.vendor, self.signature?, self.core_type?).ok()
    }
}

/// The reason why a PMU cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The vendor has no such version.
    Version,
    /// The version cannot have this number of general-purpose counters.
    General,
    /// General-purpose counters cannot be missing in this version, or all of them are.
    Missing,
    /// The version cannot have this number of fixed-function counters.
    Fixed,
    /// The version cannot have counters of this width.
    Width,
    /// The vendor has no aliases for full-width writes.
    FullWidth,
    /// [`Defect::Status`](crate::Defect::Status) names a bit that belongs to no counter, or
    /// the PMU has no GLOBAL_STATUS.
    Status,
    /// [`Defect::GeneralProtection`](crate::Defect::GeneralProtection) names an address at
    /// which the PMU has no register.
    Msr,
    /// [`Defect::MaskLvtpc`](crate::Defect::MaskLvtpc) on a vendor whose local APIC always
    /// masks LVTPC.
    MaskLvtpc,
    /// [`Defect::Foreign`](crate::Defect::Foreign) names a register that the PMU does not have.
    Foreign,
    /// The table has no hybrid processor with this signature.
    NotHybrid,
    /// The hybrid processor has no cores of this type.
    NoSuchCore,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigError::Version => {
                "the version of the PMU must be 1 to 6 on Intel, 1 to 3 on AMD, 2 on Zhaoxin"
            }
            ConfigError::General => {
                "the PMU must have 1 to 8 general-purpose counters, on AMD 4 (version 1), \
                 6 (version 2) or 1 to 15 (version 3)"
            }
            ConfigError::Missing => {
                "general-purpose counters can be missing in version 6 only, and not all of them"
            }
            ConfigError::Fixed => {
                "the PMU can have no fixed-function counters (version 1, AMD), up to 3 (versions 2 \
                 to 4) or up to 4 (versions 5 and 6)"
            }
            ConfigError::Width => "the PMU's counters must be 32 to 48 bits wide, on AMD 48",
            ConfigError::FullWidth => "only Intel's PMUs have aliases for full-width writes",
            ConfigError::Status => "the PMU has no counter with this bit in GLOBAL_STATUS",
            ConfigError::Msr => "the PMU has no register at this address",
            ConfigError::MaskLvtpc => "the local APIC of this vendor always masks LVTPC",
            ConfigError::Foreign => "the PMU does not have the register that is to change",
            ConfigError::NotHybrid => "the processor is not a hybrid one that the model knows",
            ConfigError::NoSuchCore => "the hybrid processor has no cores of this type",
        })
    }
}

impl std::error::Error for ConfigError {}
