// SPDX-License-Identifier: GPL-2.0

//! The configuration of a PMU: vendor, version and counters.

use core::ptr;

use serde::{Deserialize, Serialize};

use crate::{
    error::ConfigError,
    generation::{self, FreezeOnPmi, Generation},
    lbr::{AmdLbrs, ArchLbrs, Lbrs},
    processor::{self, Core, CoreType, Processor, Signature},
    shape::{low_bits, Shape},
    vendor::Vendor,
};

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
    /// The version: see [`Vendor`]. AMD numbers only the last of its generations.
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
    /// The last branch records. Intel's architectural ones need version 4, its legacy ones version 2. AMD's
    /// need version 3.
    pub lbrs: Option<Lbrs>,
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
            lbrs: None,
        })
    }

    /// The PMU of a processor with its LBRs, `None` if the table of processors does not have it. `smt`
    /// says whether two logical processors share a core, and with some processors its
    /// counters, too.
    pub fn of_processor(vendor: Vendor, signature: Signature, smt: bool) -> Option<Config> {
        let processor = processor::find(vendor, signature)?;
        let (version, shape) = processor.pmu(smt);
        Some(Config {
            vendor,
            version,
            signature: Some(signature),
            core_type: None,
            shape,
            ref_cycles: RefCycles::default(),
            lbrs: processor.lbrs(),
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
        let processor = core.processor()?;
        let (version, shape) = processor.pmu(false);
        Ok(Config {
            vendor,
            version,
            signature: Some(signature),
            core_type: Some(core_type),
            shape,
            ref_cycles: RefCycles::default(),
            lbrs: processor.lbrs(),
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
        if self.lbrs.is_some_and(|it| !it.kind().is_valid()) {
            return Err(ConfigError::LbrDepth);
        }
        if self.lbrs.is_some_and(|it| !self.can_have(&it)) {
            return Err(ConfigError::LbrVersion);
        }
        Ok(generation)
    }

    /// Whether the version can have LBRs of this kind. The architectural ones need the bits of GLOBAL_STATUS
    /// that freeze them, and the legacy ones need DEBUGCTL.
    fn can_have(&self, lbrs: &Lbrs) -> bool {
        let freeze = generation::select(self.vendor, self.version).map(|it| it.freeze_on_pmi());
        match lbrs {
            Lbrs::Architectural(_) => freeze == Ok(FreezeOnPmi::Streamlined),
            Lbrs::Legacy(_) => {
                self.vendor == Vendor::Intel && freeze != Ok(FreezeOnPmi::Unsupported)
            }
            Lbrs::Amd(_) => self.vendor.is_amd() && self.version == self.vendor.default_version(),
        }
    }

    /// The LBRs that the table of processors has for this processor, if this version can have them.
    pub fn lbrs_of_processor(&self) -> Option<Lbrs> {
        self.processor()?.lbrs().filter(|it| self.can_have(it))
    }

    /// So many LBRs, `None` if `depth` is 0. They are of the kind of the processor, or else of the one that
    /// CPUID describes.
    pub fn lbrs_with_depth(&self, depth: u8) -> Option<Lbrs> {
        let described = match self.vendor.is_amd() {
            true => Lbrs::Amd(AmdLbrs {
                depth,
                freeze: true,
            }),
            false => Lbrs::Architectural(ArchLbrs { depth, logged: 0 }),
        };
        let lbrs = self.lbrs_of_processor().unwrap_or(described);
        (depth > 0).then(|| lbrs.with_depth(depth))
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
        self.vendor.is_amd() && signature.is_some_and(|it| it.family >= 0x17)
    }

    /// The core of a hybrid processor.
    pub(crate) fn core(&self) -> Option<Core> {
        processor::find_core(self.vendor, self.signature?, self.core_type?).ok()
    }
}
