// SPDX-License-Identifier: GPL-2.0

//! The reasons why a PMU cannot be created, and why an access to it fails.

use core::fmt;

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
    /// There are no such numbers of LBRs.
    LbrDepth,
    /// The version cannot have LBRs of this kind.
    LbrVersion,
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
            ConfigError::LbrDepth => {
                "there must be 8, 16 or 32 architectural LBRs, 4, 8, 16 or 32 legacy LBRs (at the low \
                 addresses 4 or 8), or 1 to 32 records in AMD's LBR stack"
            }
            ConfigError::LbrVersion => {
                "LBRs need Intel's versions 4 to 6 (architectural) or 2 to 6 (legacy), or AMD's version 3"
            }
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

/// The reason why an access to an MSR fails. A failed access changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MsrError {
    /// The access raises #GP.
    GeneralProtection,
    /// The address does not belong to the PMU.
    NotPmu,
}

/// RDPMC raises #GP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneralProtection;

impl fmt::Display for MsrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MsrError::GeneralProtection => "the access raises #GP",
            MsrError::NotPmu => "the address does not belong to the PMU",
        })
    }
}

impl std::error::Error for MsrError {}

impl fmt::Display for GeneralProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RDPMC raises #GP")
    }
}

impl std::error::Error for GeneralProtection {}
