// SPDX-License-Identifier: GPL-2.0

//! Which PMU to be.

use core::fmt;

use crate::{
    generation::{self, Generation},
    msr::FIXED_SHIFT,
};

/// The most general counters there can be: as many as AMD's CPUID can tell of (APM
/// vol. 3, leaf 80000022H, EBX[3:0]). Intel has fewer, [`MAX_INTEL_GENERAL`].
pub const MAX_GENERAL: usize = 15;
/// The most general counters that Intel has: IA32_PMC7 and IA32_A_PMC7 are the last
/// (SDM vol. 4, table "IA-32 Architectural MSRs").
pub const MAX_INTEL_GENERAL: usize = 8;
/// The most fixed counters there can be: those that architectural performance
/// monitoring gives an event to.
pub const MAX_FIXED: usize = 4;

/// Who makes the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Intel: architectural performance monitoring.
    Intel,
    /// AMD: the core performance counters.
    Amd,
    /// Zhaoxin, and Centaur: version 2 of Intel's, with events of its own.
    Zhaoxin,
}

/// How many counters there are, and what they are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// General counters, 1 to [`MAX_GENERAL`], or what the generation has.
    pub general: u8,
    /// Those of them, by their bits, that are missing, which from version 6 of
    /// Intel's on some can be: not all.
    pub missing: u16,
    /// Fixed counters, 0 to [`MAX_FIXED`] or what the generation has.
    pub fixed: u8,
    /// Bits of a counter, 32 to 48; on AMD 48.
    pub width: u8,
    /// Intel: whether general counters can be written in full
    /// (PERF_CAPABILITIES.FW_WRITE). On AMD they always can, by their only number.
    pub full_width: bool,
}

impl Shape {
    /// The bits that a counter has.
    pub(crate) const fn counter_mask(&self) -> u64 {
        low_bits(self.width)
    }

    /// The general counters' bits in GLOBAL_CTRL and its kin.
    pub(crate) const fn general_counters(&self) -> u64 {
        low_bits(self.general) & !(self.missing as u64)
    }

    /// Whether there is this general counter.
    pub(crate) const fn has_general(&self, index: usize) -> bool {
        index < MAX_GENERAL && self.general_counters() & (1 << index) != 0
    }

    /// The fixed counters, bit by bit.
    pub(crate) const fn fixed_counters(&self) -> u64 {
        low_bits(self.fixed)
    }

    /// All counters' bits in GLOBAL_CTRL and its kin.
    pub(crate) const fn counters(&self) -> u64 {
        self.general_counters() | (self.fixed_counters() << FIXED_SHIFT)
    }
}

const fn low_bits(n: u8) -> u64 {
    (1 << n) - 1
}

/// A PMU's vendor, version and shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The vendor.
    pub vendor: Vendor,
    /// Intel: the version of architectural performance monitoring, 1 to 6. AMD, which
    /// has no number for all of them: 1 the legacy counters, 2 PerfCtrExtCore,
    /// 3 PerfMonV2.
    pub version: u8,
    /// The counters.
    pub shape: Shape,
}

impl Config {
    /// The `version` of `vendor`'s PMU with the counters it usually has.
    pub fn new(vendor: Vendor, version: u8) -> Result<Config, ConfigError> {
        Ok(Config {
            vendor,
            version,
            shape: generation::select(vendor, version)?.usual_shape(),
        })
    }

    /// The generation asked for, if it can have this shape.
    pub(crate) fn generation(&self) -> Result<&'static dyn Generation, ConfigError> {
        let generation = generation::select(self.vendor, self.version)?;
        if !generation.general_counters().contains(&self.shape.general) {
            return Err(ConfigError::General);
        }
        let may_be_missing = if generation.enumerates_counters() {
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
        Ok(generation)
    }
}

/// Why there is no such PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// There is no such version.
    Version,
    /// More or fewer general counters than the version has.
    General,
    /// General counters missing of which none can be, or all of them.
    Missing,
    /// More fixed counters than the version has.
    Fixed,
    /// Counters too narrow or too wide.
    Width,
    /// Bits of GLOBAL_STATUS that no counter has, or no such register.
    Status,
    /// [`Defect::GeneralProtection`](crate::Defect::GeneralProtection) names an address
    /// at which the PMU has no register.
    Msr,
    /// [`Defect::MaskLvtpc`](crate::Defect::MaskLvtpc) for a PMU whose PMIs mask LVTPC
    /// anyway.
    MaskLvtpc,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigError::Version => {
                "the version of the PMU must be 1 to 6, or on AMD 1 to 3, or on Zhaoxin 2"
            }
            ConfigError::General => {
                "the PMU must have 1 to 8 general counters, or on AMD 4 (version 1), \
                 6 (version 2) or 1 to 15 (version 3)"
            }
            ConfigError::Missing => {
                "general counters can be missing from version 6 on, and not all of them"
            }
            ConfigError::Fixed => {
                "the PMU has at most 0 (version 1), 3 (versions 2 to 4) or 4 (from 5 on) fixed \
                 counters, and on AMD none"
            }
            ConfigError::Width => "the PMU's counters must be 32 to 48 bits wide, or on AMD 48",
            ConfigError::Status => "no counter of the PMU has such bits of GLOBAL_STATUS",
            ConfigError::Msr => "the PMU has no register at this address",
            ConfigError::MaskLvtpc => "delivering a PMI masks LVTPC even without this defect",
        })
    }
}

impl std::error::Error for ConfigError {}
