// SPDX-License-Identifier: GPL-2.0

//! Hybrid processors: their cores are of two or three types, each with a PMU of its own.
//!
//! CPUID.(7,0):EDX[15] declares a processor hybrid, and leaf 1AH says on each core of which
//! type that is (SDM vol. 2A, CPUID, "Native Model ID Enumeration Leaf"). Which types a
//! processor has, and what their PMUs are, is from `intel_pmu_init()` in
//! arch/x86/events/intel/core.c of Linux. The native models are from mapfile.csv of Intel's
//! event lists (github.com/intel/perfmon).

use serde::{Deserialize, Serialize};

use super::{intel, ConfigError, Models, Models::These, Processor, Signature, Vendor};

/// A type of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Whether PERF_CAPABILITIES lacks the bit of PERF_METRICS, which the performance cores have
    /// (erratum RPL018; `intel_pmu_broken_perf_cap()` in Linux).
    hides_metrics: bool,
}

/// The cores of one type.
#[derive(Debug)]
struct Type {
    core_type: CoreType,
    /// Leaf 1AH, `EAX[23:0]`.
    native_model: u32,
    like: Like,
}

/// A processor with only such cores.
#[derive(Debug)]
enum Like {
    /// Of family 6.
    Model(u8),
    /// There is none. This is what it would be.
    None(&'static Processor),
}

const fn performance(native_model: u32, like: Like) -> Type {
    Type {
        core_type: CoreType::Performance,
        native_model,
        like,
    }
}

const fn efficient(native_model: u32, like: Like) -> Type {
    Type {
        core_type: CoreType::Efficient,
        native_model,
        like,
    }
}

const fn low_power(native_model: u32, like: Like) -> Type {
    Type {
        core_type: CoreType::LowPower,
        native_model,
        like,
    }
}

const GOLDEN_COVE: Like = Like::Model(0x8f);
const LION_COVE: Like = Like::Model(0xbd);
const COUGAR_COVE: Like = Like::Model(0xcc);
const COYOTE_COVE: Like = Like::None(&intel::COYOTE_COVE);
const GRACEMONT: Like = Like::Model(0xbe);
const CRESTMONT: Like = Like::None(&intel::CRESTMONT);
const DARKMONT: Like = Like::Model(0xdd);
const SKYMONT: Like = Like::None(&intel::SKYMONT);
const ARCTIC_WOLF: Like = Like::None(&intel::ARCTIC_WOLF);

/// How CPUID reports the counters of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Leaf 0AH is the same on all cores: it has what all of them have, so many
    /// general-purpose and fixed-function counters. Software must know of the others.
    Common { general: u8, fixed: u8 },
    /// Leaf 23H has those of this core, also below version 6.
    Leaf23h,
}

const HYBRIDS: &[Hybrid] = &[
    // Alder Lake.
    Hybrid {
        signatures: &[(6, These(&[0x97, 0x9a]))],
        ..RAPTOR_LAKE
    },
    Hybrid {
        hides_metrics: true,
        ..RAPTOR_LAKE
    },
    // Meteor Lake, whose performance cores are Redwood Cove.
    Hybrid {
        signatures: &[(6, These(&[0xaa, 0xac]))],
        hides_metrics: true,
        ..ARROW_LAKE_U
    },
    ARROW_LAKE_U,
    // Lunar Lake and Arrow Lake.
    Hybrid {
        signatures: &[(6, These(&[0xbd, 0xc6]))],
        cores: &[performance(3, LION_COVE), efficient(3, SKYMONT)],
        ..ARROW_LAKE_U
    },
    // Arrow Lake-H. The kernel's driver takes all cores for version 6 if the first one is, so
    // the low-power ones, which are Crestmont, are here with counters like Skymont's.
    Hybrid {
        signatures: &[(6, These(&[0xc5]))],
        cores: &[
            performance(3, LION_COVE),
            efficient(3, SKYMONT),
            low_power(2, SKYMONT),
        ],
        ..ARROW_LAKE_U
    },
    // Panther Lake and Wildcat Lake.
    Hybrid {
        signatures: &[(6, These(&[0xcc, 0xd5]))],
        cores: &[performance(4, COUGAR_COVE), efficient(4, DARKMONT)],
        ..ARROW_LAKE_U
    },
    // Nova Lake.
    Hybrid {
        signatures: &[(18, These(&[0x01, 0x03]))],
        cores: &[performance(5, COYOTE_COVE), efficient(5, ARCTIC_WOLF)],
        ..ARROW_LAKE_U
    },
];

const RAPTOR_LAKE: Hybrid = Hybrid {
    signatures: &[(6, These(&[0xb7, 0xba, 0xbf]))],
    cores: &[performance(1, GOLDEN_COVE), efficient(1, GRACEMONT)],
    report: Report::Common {
        general: 6,
        fixed: 3,
    },
    hides_metrics: false,
};

const ARROW_LAKE_U: Hybrid = Hybrid {
    signatures: &[(6, These(&[0xb5]))],
    cores: &[performance(2, GOLDEN_COVE), efficient(2, CRESTMONT)],
    report: Report::Leaf23h,
    hides_metrics: false,
};

/// A core of a hybrid processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Core {
    core: &'static Type,
    hybrid: &'static Hybrid,
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
        hybrid,
    })
}

impl Core {
    /// A processor with only such cores.
    pub(crate) fn processor(&self) -> Result<&'static Processor, ConfigError> {
        match self.core.like {
            Like::Model(model) => {
                let like = Signature {
                    family: 6,
                    model,
                    stepping: 0,
                };
                super::find(Vendor::Intel, like).ok_or(ConfigError::NoSuchCore)
            }
            Like::None(processor) => Ok(processor),
        }
    }

    /// How CPUID reports the counters.
    pub(crate) fn report(&self) -> Report {
        self.hybrid.report
    }

    /// Whether PERF_CAPABILITIES hides PERF_METRICS.
    pub(crate) fn hides_metrics(&self) -> bool {
        self.hybrid.hides_metrics
    }

    /// Whether the PMUs of both cores are the same, and CPUID reports them alike.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let processor = |it: &Self| it.processor().ok().map(core::ptr::from_ref);
        processor(self) == processor(other)
            && self.core.core_type == other.core.core_type
            && self.report() == other.report()
            && self.hides_metrics() == other.hides_metrics()
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
                let core = Core { core, hybrid };
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
