// SPDX-License-Identifier: GPL-2.0

//! What tells the generations of counters apart.
//!
//! A generation is data: which registers there are, and a flag for each way in
//! which they behave differently. Each vendor's folder has its own.

use super::{
    counter::{
        Counter,
        CounterSet, //
    },
    msr::{
        Msr,
        MsrRange, //
    }, //
};

/// The bit of GLOBAL_STATUS that says that a PMI has stopped the recording of branches (SDM vol. 3,
/// "Enhancement in IA32_PERF_GLOBAL_STATUS"). A CPU that has no such bit reads it as 0.
pub(super) const LBR_FRZ: u64 = 1 << 58;

/// [`LBR_FRZ`], and the bit that says that a PMI has frozen all counters (CTR_FRZ). The driver does not
/// ask for the latter, but others may have (DEBUGCTL.FREEZE_PERFMON_ON_PMI).
pub(super) const FROZEN: u64 = (1 << 59) | LBR_FRZ;

/// A generation of counters: which registers it has, and how they behave.
pub struct Generation {
    /// The name, for the kernel log.
    pub name: &'static str,
    /// The registers that select what the GP counters count.
    pub(super) eventsel: MsrRange,
    /// The registers through which GP counters are written.
    pub(super) counter: MsrRange,
    /// The fixed counters' registers.
    pub(super) fixed: Option<FixedRegisters>,
    /// The registers that control all counters at once. Without them, a counter
    /// counts while EN is set in its EVENTSEL, and only its value shows that it
    /// has overflowed.
    pub(super) global: Option<&'static GlobalRegisters>,
    /// Whether the local APIC masks LVTPC when it delivers a PMI. Intel's does
    /// (SDM vol. 3, "Local Vector Table"), AMD's does not.
    pub masks_lvtpc: bool,
}

/// The registers of fixed counters.
#[derive(Clone, Copy)]
pub(super) struct FixedRegisters {
    /// FIXED_CTR_CTRL: what the counters count.
    pub(super) ctrl: Msr,
    /// The counters.
    pub(super) counter: MsrRange,
    /// PERF_METRICS, which not every CPU has.
    pub(super) metrics: Msr,
}

/// The registers that control all counters, in the layout of
/// [`CounterSet`](super::counter::CounterSet).
#[derive(Clone, Copy)]
pub(super) struct GlobalRegisters {
    /// GLOBAL_CTRL: which counters count.
    pub(super) ctrl: Msr,
    /// GLOBAL_STATUS: which counters have overflowed.
    pub(super) status: Msr,
    /// Clears bits of `status`.
    pub(super) clear: Msr,
    /// Whether a write to `clear` takes effect only while `ctrl` is not 0.
    pub(super) clears_while_on: bool,
}

impl Generation {
    /// The counters that have registers.
    pub(super) fn addressable(&self) -> CounterSet {
        let gp = self.eventsel.len().min(self.counter.len());
        let fixed = self.fixed.map_or(0, |fixed| fixed.counter.len());
        let fixed = !u32::MAX.checked_shl(fixed.into()).unwrap_or(0);
        CounterSet::first_gp(gp) | CounterSet::fixed(fixed)
    }

    /// The register that selects what a GP counter counts.
    pub fn eventsel(&self, counter: Counter) -> Msr {
        self.eventsel.nth(counter.index())
    }

    /// The register through which a counter is written.
    pub fn counter(&self, counter: Counter) -> Msr {
        match (counter.as_fixed(), &self.fixed) {
            (Some(i), Some(fixed)) => fixed.counter.nth(i.into()),
            (None, Some(fixed)) if counter.as_metric().is_some() => fixed.metrics,
            _ => self.counter.nth(counter.index()),
        }
    }
}
