// SPDX-License-Identifier: GPL-2.0

//! What one generation of PMU has and another has not.
//!
//! A generation says what is at a register's number, which of its bits can be
//! written, which event an encoding means, and how it describes itself. What
//! registers then do is common to all, and is in [`crate::pmu`].

use core::ops::RangeInclusive;

use crate::{
    config::{ConfigError, Shape, Vendor, MAX_INTEL_GENERAL},
    event::Event,
    msr::{EventSel, Register, V6_STRIDE},
    pmu::Counter,
};

mod amd_core;
mod amd_legacy;
mod amd_v2;
mod intel_v1;
mod intel_v2;
mod intel_v3;
mod intel_v4;
mod intel_v5;
mod intel_v6;
mod zhaoxin;

/// The generation that is `version` of `vendor`'s.
pub(crate) fn select(vendor: Vendor, version: u8) -> Result<&'static dyn Generation, ConfigError> {
    match (vendor, version) {
        (Vendor::Intel, 1) => Ok(&intel_v1::IntelV1),
        (Vendor::Intel, 2) => Ok(&intel_v2::IntelV2),
        (Vendor::Intel, 3) => Ok(&intel_v3::IntelV3),
        (Vendor::Intel, 4) => Ok(&intel_v4::IntelV4),
        (Vendor::Intel, 5) => Ok(&intel_v5::IntelV5),
        (Vendor::Intel, 6) => Ok(&intel_v6::IntelV6),
        (Vendor::Amd, 1) => Ok(&amd_legacy::AmdLegacy),
        (Vendor::Amd, 2) => Ok(&amd_core::AmdCore),
        (Vendor::Amd, 3) => Ok(&amd_v2::AmdV2),
        (Vendor::Zhaoxin, 2) => Ok(&zhaoxin::Zhaoxin),
        (Vendor::Intel | Vendor::Amd | Vendor::Zhaoxin, _) => Err(ConfigError::Version),
    }
}

/// What a PMI does to the counters when DEBUGCTL asks that it freeze them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freeze {
    /// They cannot be frozen.
    Never,
    /// Their bits in GLOBAL_CTRL are cleared.
    GlobalCtrl,
    /// CTR_FRZ is set in GLOBAL_STATUS, and nothing counts until it is cleared.
    GlobalStatus,
}

/// The hardware of one generation.
///
/// A generation that extends another names it as its base, and answers itself
/// only where the two differ.
pub(crate) trait Generation: Sync {
    /// The generation that this one extends.
    fn base(&self) -> Option<&'static dyn Generation> {
        None
    }

    /// The counters that processors of this generation have by and large.
    fn usual_shape(&self) -> Shape;

    /// How many general counters it can have.
    fn general_counters(&self) -> RangeInclusive<u8> {
        self.base()
            .map_or(1..=MAX_INTEL_GENERAL as u8, |base| base.general_counters())
    }

    /// Whether CPUID has leaf 23H, which names each counter: some can be missing.
    fn enumerates_counters(&self) -> bool {
        self.base().is_some_and(|base| base.enumerates_counters())
    }

    /// How many bits its counters can have.
    fn widths(&self) -> RangeInclusive<u8> {
        self.base().map_or(32..=48, |base| base.widths())
    }

    /// The most fixed counters it can have.
    fn max_fixed(&self) -> u8 {
        self.base().map_or(0, |base| base.max_fixed())
    }

    /// The register at a number, should the counter it belongs to exist.
    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        self.base()?.register(shape, msr)
    }

    /// Whether a number is the PMU's though there may be no register at it.
    fn owns(&self, msr: u32) -> bool {
        self.base().is_some_and(|base| base.owns(msr))
    }

    /// The bits of a register that can be written, `None` if a write is a #GP.
    fn writable(&self, shape: &Shape, register: Register) -> Option<u64> {
        self.base()?.writable(shape, register)
    }

    /// Whether a write drops the bits that cannot be written. If not, setting one
    /// of them is a #GP.
    fn drops_reserved(&self) -> bool {
        self.base().is_some_and(|base| base.drops_reserved())
    }

    /// The value of GLOBAL_CTRL at reset: which counters it lets count.
    fn reset_global_ctrl(&self, shape: &Shape) -> u64 {
        self.base()
            .map_or(u64::MAX, |base| base.reset_global_ctrl(shape))
    }

    /// The event that EVENTSEL selects.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        self.base()?.event(eventsel)
    }

    /// The event of a fixed counter.
    fn fixed_event(&self, index: usize) -> Option<Event> {
        self.base()?.fixed_event(index)
    }

    /// The counter that RDPMC means by ECX, should it exist.
    fn rdpmc(&self, ecx: u32) -> Option<Counter> {
        self.base()?.rdpmc(ecx)
    }

    /// What a PMI does when it is to freeze the counters.
    fn freeze(&self) -> Freeze {
        self.base().map_or(Freeze::Never, |base| base.freeze())
    }

    /// Whether a PMI sets the mask bit of LVTPC, so that software has to clear it
    /// for the next one (SDM vol. 3A, "Local Vector Table").
    fn pmi_masks_lvtpc(&self) -> bool {
        self.base().is_none_or(|base| base.pmi_masks_lvtpc())
    }

    /// EAX, EBX, ECX and EDX of a CPUID leaf that describes the PMU, or of one of its
    /// subleaves.
    fn cpuid(&self, shape: &Shape, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        self.base()?.cpuid(shape, leaf, subleaf)
    }

    /// CPUID.80000001H:ECX.PerfCtrExtCore.
    fn perfctr_core(&self) -> bool {
        self.base().is_some_and(|base| base.perfctr_core())
    }
}

/// The place of `msr` in a row of at most `n` registers that starts at `first`.
fn index(msr: u32, first: u32, n: usize) -> Option<usize> {
    let index = msr.checked_sub(first)? as usize;
    (index < n).then_some(index)
}

/// The counter, of `n`, and the place among its registers that `msr` has in version 6's
/// range that starts at `first`.
fn v6_index(msr: u32, first: u32, n: usize) -> Option<(usize, u32)> {
    let index = index(msr, first, n * V6_STRIDE as usize)? as u32;
    Some(((index / V6_STRIDE) as usize, index % V6_STRIDE))
}
