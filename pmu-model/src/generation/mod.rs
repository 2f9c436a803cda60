// SPDX-License-Identifier: GPL-2.0

//! The differences between generations of PMUs.
//!
//! A generation says which register is at an address, which of its bits can be written,
//! which event an encoding selects and what CPUID reports. All generations
//! give a register the same effect, which `crate::pmu` implements.

use core::ops::RangeInclusive;

use crate::{
    error::ConfigError,
    event::Event,
    msr::{EventSel, Register, IA32_PMC_V6_STEP},
    shape::{Counter, Shape, MAX_INTEL_GENERAL},
    svm::Svm,
    vendor::Vendor,
};
use leaf_0ah::Leaf0Ah;

mod amd_core;
mod amd_legacy;
mod amd_v2;
mod intel_v1;
mod intel_v2;
mod intel_v3;
mod intel_v4;
mod intel_v5;
mod intel_v6;
mod leaf_0ah;
mod zhaoxin;

pub(crate) use intel_v6::leaf_23h;

/// Returns the generation for a [`Config::version`](crate::Config::version) of `vendor`.
pub(crate) fn select(vendor: Vendor, version: u8) -> Result<&'static dyn Generation, ConfigError> {
    match (vendor, version) {
        (Vendor::Intel, 1) => Ok(&intel_v1::IntelV1),
        (Vendor::Intel, 2) => Ok(&intel_v2::IntelV2),
        (Vendor::Intel, 3) => Ok(&intel_v3::IntelV3),
        (Vendor::Intel, 4) => Ok(&intel_v4::IntelV4),
        (Vendor::Intel, 5) => Ok(&intel_v5::IntelV5),
        (Vendor::Intel, 6) => Ok(&intel_v6::IntelV6),
        (Vendor::Amd | Vendor::Hygon, 1) => Ok(&amd_legacy::AmdLegacy),
        (Vendor::Amd | Vendor::Hygon, 2) => Ok(&amd_core::AmdCore),
        (Vendor::Amd | Vendor::Hygon, 3) => Ok(&amd_v2::AmdV2),
        (Vendor::Zhaoxin, 2) => Ok(&zhaoxin::Zhaoxin),
        (Vendor::Intel | Vendor::Amd | Vendor::Hygon | Vendor::Zhaoxin, _) => {
            Err(ConfigError::Version)
        }
    }
}

/// Whether an address belongs to the PMU of any vendor. A processor has no register at the
/// addresses of another vendor, so that an access raises #GP, as at any address without a
/// register (SDM vol. 2B, APM vol. 3, RDMSR).
pub(crate) fn is_pmu_address(msr: u32) -> bool {
    let oldest: [&dyn Generation; 2] = [&intel_v1::IntelV1, &amd_legacy::AmdLegacy];
    oldest.iter().any(|vendor| vendor.is_pmu_address(msr))
}

/// How a PMI freezes the counters and the LBRs if DEBUGCTL enables that (SDM vol. 3B,
/// "Freezing LBR and Performance Counters on PMI").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezeOnPmi {
    /// It freezes nothing.
    Unsupported,
    /// It clears the counters' bits in GLOBAL_CTRL, or DEBUGCTL.LBR.
    Legacy,
    /// It sets CTR_FRZ or LBR_FRZ in GLOBAL_STATUS. Counters do not count while CTR_FRZ is
    /// set.
    Streamlined,
}

/// One generation of PMUs.
///
/// A generation that extends another one names it as its base, and implements only the
/// methods in which the two differ.
pub(crate) trait Generation: Sync {
    /// The generation that this one extends.
    fn base(&self) -> Option<&'static dyn Generation> {
        None
    }

    /// The counters of most processors of this generation.
    fn default_shape(&self) -> Shape;

    /// The possible numbers of general-purpose counters.
    fn general_counters(&self) -> RangeInclusive<u8> {
        self.base()
            .map_or(1..=MAX_INTEL_GENERAL as u8, |base| base.general_counters())
    }

    /// Whether CPUID leaf 23H exists. It reports counters as a bitmap, so that some can be
    /// missing.
    fn has_leaf_23h(&self) -> bool {
        self.base().is_some_and(|base| base.has_leaf_23h())
    }

    /// Whether the processor can have aliases for full-width writes.
    fn can_have_full_width(&self) -> bool {
        self.base().is_none_or(|base| base.can_have_full_width())
    }

    /// The possible widths of counters, in bits.
    fn widths(&self) -> RangeInclusive<u8> {
        self.base().map_or(32..=48, |base| base.widths())
    }

    /// The highest possible number of fixed-function counters.
    fn max_fixed(&self) -> u8 {
        self.base().map_or(0, |base| base.max_fixed())
    }

    /// The register at an address, `None` if there is none or if it belongs to a counter
    /// that does not exist.
    fn register(&self, shape: &Shape, msr: u32) -> Option<Register> {
        self.base()?.register(shape, msr)
    }

    /// Whether an address belongs to the PMU of any generation of the vendor. If there is no
    /// register at such an address, an access raises #GP.
    fn is_pmu_address(&self, msr: u32) -> bool {
        self.base().is_some_and(|base| base.is_pmu_address(msr))
    }

    /// The bits of a register that can be written, `None` if every write raises #GP.
    fn writable_bits(&self, shape: &Shape, register: Register) -> Option<u64> {
        self.base()?.writable_bits(shape, register)
    }

    /// Whether a write ignores reserved bits. If not, it raises #GP if one of them is set.
    fn ignores_reserved_bits(&self) -> bool {
        self.base().is_some_and(|base| base.ignores_reserved_bits())
    }

    /// The value of GLOBAL_CTRL after reset. Generations without this register behave as
    /// if all its bits were set.
    fn reset_global_ctrl(&self, shape: &Shape) -> u64 {
        self.base()
            .map_or(u64::MAX, |base| base.reset_global_ctrl(shape))
    }

    /// The event that an event select selects.
    fn event(&self, eventsel: EventSel) -> Option<Event> {
        self.base()?.event(eventsel)
    }

    /// Whether an event select lets its counter count on the host or in the guest that
    /// runs now.
    fn counts(&self, eventsel: EventSel, svm: Svm) -> bool {
        self.base().is_none_or(|base| base.counts(eventsel, svm))
    }

    /// The event of a fixed-function counter.
    fn fixed_event(&self, index: usize) -> Option<Event> {
        self.base()?.fixed_event(index)
    }

    /// The counter that RDPMC reads for this value of ECX. It need not exist.
    fn rdpmc(&self, ecx: u32) -> Option<Counter> {
        self.base()?.rdpmc(ecx)
    }

    /// How a PMI freezes the counters.
    fn freeze_on_pmi(&self) -> FreezeOnPmi {
        self.base()
            .map_or(FreezeOnPmi::Unsupported, |base| base.freeze_on_pmi())
    }

    /// Whether the local APIC sets the mask bit of LVTPC when it delivers a PMI. Software
    /// must then clear the bit before the next one (SDM vol. 3A, "Local Vector Table").
    fn pmi_masks_lvtpc(&self) -> bool {
        self.base().is_none_or(|base| base.pmi_masks_lvtpc())
    }

    /// CPUID leaf 0AH, `None` if the vendor has no such leaf.
    fn leaf_0ah(&self, shape: &Shape) -> Option<Leaf0Ah> {
        self.base()?.leaf_0ah(shape)
    }

    /// EAX, EBX, ECX and EDX of the subleaf of another leaf of CPUID, `None` if the leaf does not
    /// belong to the PMU.
    fn other_leaf(&self, shape: &Shape, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        self.base()?.other_leaf(shape, leaf, subleaf)
    }

    /// EAX, EBX, ECX and EDX of a CPUID subleaf, `None` if the leaf does not belong to the
    /// PMU.
    fn cpuid(&self, shape: &Shape, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        match leaf {
            0xa => Some(self.leaf_0ah(shape)?.registers()),
            _ => self.other_leaf(shape, leaf, subleaf),
        }
    }

    /// CPUID.80000001H:ECX.PerfCtrExtCore.
    fn perfctr_core(&self) -> bool {
        self.base().is_some_and(|base| base.perfctr_core())
    }
}

/// The index of `msr` among `n` consecutive registers that start at `first`.
fn index(msr: u32, first: u32, n: usize) -> Option<usize> {
    let index = msr.checked_sub(first)? as usize;
    (index < n).then_some(index)
}

/// The counter that `msr` belongs to, and the offset of `msr` in that counter's registers,
/// for the version 6 registers of `n` counters that start at `first`.
fn v6_index(msr: u32, first: u32, n: usize) -> Option<(usize, u32)> {
    let index = index(msr, first, n * IA32_PMC_V6_STEP as usize)? as u32;
    Some((
        (index / IA32_PMC_V6_STEP) as usize,
        index % IA32_PMC_V6_STEP,
    ))
}
