// SPDX-License-Identifier: GPL-2.0

//! What tells the generations of counters apart: a [`Generation`] each, in a
//! file of its own.

use super::msr::{
    Msr,
    Row, //
};
use crate::pmc::counter::Counter;

/// A generation of counters: which registers it has, and what they mean.
pub struct Generation {
    /// What the generation is called.
    pub name: &'static str,
    /// The registers that say what the general counters count.
    pub(super) eventsel: Row,
    /// The registers through which general counters are written.
    pub(super) counter: Row,
    /// The fixed counters' registers.
    pub(super) fixed: Option<FixedRegisters>,
    /// The registers that control all counters at once; without them, a
    /// counter counts while EN is set in its EVENTSEL, and nothing says which
    /// have overflowed but their values.
    pub(super) global: Option<&'static GlobalRegisters>,
    /// Whether the kernel keeps books on who has the counters. Of registers
    /// that are new it does not know.
    pub reservable: bool,
    /// Whether the local APIC masks LVTPC when it delivers a PMI. Intel's does
    /// (SDM vol. 3, "Local Vector Table"), AMD's does not.
    pub masks_lvtpc: bool,
}

/// The registers of fixed counters.
#[derive(Clone, Copy)]
pub(super) struct FixedRegisters {
    /// What they count, four bits each.
    pub(super) ctrl: Msr,
    /// The counters.
    pub(super) counter: Row,
}

/// The registers that control all counters.
#[derive(Clone, Copy)]
pub(super) struct GlobalRegisters {
    /// Which counters count.
    pub(super) ctrl: Msr,
    /// Which have overflowed.
    pub(super) status: Msr,
    /// Clears bits of `status`.
    pub(super) clear: Msr,
    /// Whether that takes a `ctrl` that lets the counters count.
    pub(super) clears_while_on: bool,
}

impl Generation {
    /// The register that says what a general counter counts.
    pub fn eventsel(&self, counter: Counter) -> Msr {
        self.eventsel.nth(counter.index())
    }

    /// The register through which a counter is written.
    pub fn counter(&self, counter: Counter) -> Msr {
        match (counter.as_fixed(), &self.fixed) {
            (Some(i), Some(fixed)) => fixed.counter.nth(i.into()),
            _ => self.counter.nth(counter.index()),
        }
    }
}
