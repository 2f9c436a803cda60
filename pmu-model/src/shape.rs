// SPDX-License-Identifier: GPL-2.0

//! How many counters a PMU has, how wide they are, and what they are called.

use serde::{Deserialize, Serialize};

use crate::msr::FIXED_SHIFT;

/// The highest number of general-purpose counters of any vendor: what AMD's CPUID can
/// report (APM vol. 3, leaf 80000022H, `EBX[3:0]`). Intel's is [`MAX_INTEL_GENERAL`].
pub const MAX_GENERAL: usize = 15;
/// The highest number of Intel's general-purpose counters: the last ones are IA32_PMC7 and
/// IA32_A_PMC7 (SDM vol. 4, table "IA-32 Architectural MSRs").
pub const MAX_INTEL_GENERAL: usize = 8;
/// The highest number of fixed-function counters: those to which architectural performance
/// monitoring assigns an event.
pub const MAX_FIXED: usize = 4;

/// The name of a counter, which need not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    General(usize),
    Fixed(usize),
}

impl Counter {
    /// The bit of the counter in GLOBAL_CTRL, GLOBAL_STATUS and GLOBAL_INUSE.
    pub(crate) const fn bit(self) -> u64 {
        match self {
            Counter::General(i) => 1 << i,
            Counter::Fixed(i) => 1 << (FIXED_SHIFT + i),
        }
    }
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

/// As many bits as there are counters, or as a counter has.
pub(crate) const fn low_bits(n: u8) -> u64 {
    (1 << n) - 1
}
