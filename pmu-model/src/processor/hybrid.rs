// SPDX-License-Identifier: GPL-2.0

//! Hybrid processors: their cores are of two or three types, each with a PMU of its own.
//!
//! CPUID.(7,0):EDX[15] declares a processor hybrid, and leaf 1AH says on each core of which
//! type that is (SDM vol. 2A, CPUID, "Native Model ID Enumeration Leaf"). Which types a
//! processor has, and what their PMUs are, is from `intel_pmu_init()` in
//! arch/x86/events/intel/core.c of Linux. The native models are from mapfile.csv of Intel's
//! event lists (github.com/intel/perfmon).
//!
//! Nova Lake is missing: the tables have no Arctic Wolf.

use super::{ConfigError, Models, Models::These, Processor, Signature, Vendor};

/// A type of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreType {
    /// A performance core, Intel Core.
    Performance,
    /// An efficient core, Intel Atom.
    Efficient,
    /// An efficient core of another, older kind: that of Arrow Lake-H's SoC tile.
    LowPower,
}

impl CoreType {
    /// Leaf 1AH, `EAX[31:24]`.
    fn number(self) -> u32 {
        match self {
            CoreType::Performance => 0x40,
            CoreType::Efficient | CoreType::LowPower => 0x20,
        }
    }
}

/// Hybrid processors whose PMUs are the same.
#[derive(Debug)]
struct Hybrid {
    signatures: &'static [(u16, Models)],
    cores: &'static [Type],
    report: Report,
}

/// The cores of one type.
#[derive(Debug)]
struct Type {
    core_type: CoreType,
    /// Leaf 1AH, `EAX[23:0]`.
    native_model: u32,
    /// The family and the model of a processor with only such cores.
    like: (u16, u8),
}

const fn performance(native_model: u32, like: u8) -> Type {
    Type {
        core_type: CoreType::Performance,
        native_model,
        like: (6, like),
    }
}

const fn efficient(native_model: u32, like: u8) -> Type {
    Type {
        core_type: CoreType::Efficient,
        native_model,
        like: (6, like),
    }
}

const fn low_power(native_model: u32, like: u8) -> Type {
    Type {
        core_type: CoreType::LowPower,
        native_model,
        like: (6, like),
    }
}

/// How CPUID reports the counters of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Leaf 0AH is the same on all cores: it has what all of them have, so many
    /// general-purpose and fixed-function counters. Software must know of the others.
    Common { general: u8, fixed: u8 },
    /// Leaf 23H has those of this core, also below version 6.
    Leaf23h,
}

/// `like` is 8FH for Golden Cove and Redwood Cove, BDH for Lion Cove and Cougar Cove, BEH for
/// Gracemont, AFH for Crestmont, and DDH for Skymont and Darkmont, whose registers and
/// counters are the same.
const HYBRIDS: &[Hybrid] = &[
    // Alder Lake and Raptor Lake.
    Hybrid {
        signatures: &[(6, These(&[0x97, 0x9a, 0xb7, 0xba, 0xbf]))],
        cores: &[performance(1, 0x8f), efficient(1, 0xbe)],
        report: Report::Common {
            general: 6,
            fixed: 3,
        },
    },
    // Meteor Lake and Arrow Lake-U.
    Hybrid {
        signatures: &[(6, These(&[0xaa, 0xac, 0xb5]))],
        cores: &[performance(2, 0x8f), efficient(2, 0xaf)],
        report: Report::Leaf23h,
    },
    // Lunar Lake and Arrow Lake.
    Hybrid {
        signatures: &[(6, These(&[0xbd, 0xc6]))],
        cores: &[performance(3, 0xbd), efficient(3, 0xdd)],
        report: Report::Leaf23h,
    },
    // Arrow Lake-H. The kernel's driver takes all cores for version 6 if the first one is, so
    // the low-power ones are here, with counters like Skymont's.
    Hybrid {
        signatures: &[(6, These(&[0xc5]))],
        cores: &[performance(3, 0xbd), efficient(3, 0xdd), low_power(2, 0xdd)],
        report: Report::Leaf23h,
    },
    // Panther Lake and Wildcat Lake.
    Hybrid {
        signatures: &[(6, These(&[0xcc, 0xd5]))],
        cores: &[performance(4, 0xbd), efficient(4, 0xdd)],
        report: Report::Leaf23h,
    },
];

/// A core of a hybrid processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Core {
    core: &'static Type,
    report: Report,
}

/// The core of this type of the hybrid processor with this signature.
pub(crate) fn find_core(
    vendor: Vendor,
    signature: Signature,
    core_type: CoreType,
) -> Result<Core, ConfigError> {
    let hybrid = HYBRIDS
        .iter()
        .find(|hybrid| vendor == Vendor::Intel && super::matches(hybrid.signatures, signature))
        .ok_or(ConfigError::NotHybrid)?;
    let core = hybrid.cores.iter().find(|it| it.core_type == core_type);
    Ok(Core {
        core: core.ok_or(ConfigError::NoSuchCore)?,
        report: hybrid.report,
    })
}

impl Core {
    /// A processor with only such cores.
    pub(crate) fn processor(&self) -> Result<&'static Processor, ConfigError> {
        let (family, model) = self.core.like;
        let like = Signature {
            family,
            model,
            stepping: 0,
        };
        super::find(Vendor::Intel, like).ok_or(ConfigError::NoSuchCore)
    }

    /// How CPUID reports the counters.
    pub(crate) fn report(&self) -> Report {
        self.report
    }

    /// Leaf 1AH.
    pub(crate) fn leaf_1ah(&self) -> [u32; 4] {
        let Type {
            core_type,
            native_model,
            ..
        } = self.core;
        [(core_type.number() << 24) | native_model, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_is_like_a_processor() {
        for hybrid in HYBRIDS {
            for core in hybrid.cores {
                let core = Core {
                    core,
                    report: hybrid.report,
                };
                assert!(core.processor().is_ok(), "{core:?}");
            }
        }
    }

    /// Software tells the cores apart by leaf 1AH alone.
    #[test]
    fn each_type_of_a_processor_has_its_own_leaf() {
        for hybrid in HYBRIDS {
            let leaves = hybrid.cores.iter().map(|it| {
                let Type {
                    core_type,
                    native_model,
                    ..
                } = it;
                (core_type.number(), native_model)
            });
            let leaves: Vec<_> = leaves.collect();
            for (i, leaf) in leaves.iter().enumerate() {
                assert_eq!(leaves.iter().position(|it| it == leaf), Some(i));
            }
        }
    }
}
