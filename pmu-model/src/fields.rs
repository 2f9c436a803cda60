// SPDX-License-Identifier: GPL-2.0

//! Registers whose fields several parts of the model read.
//!
//! The layouts are from SDM vol. 3B, "Performance Monitoring": figures "Layout of
//! IA32_FIXED_CTR_CTRL MSR", "Layout of IA32_PERF_GLOBAL_CTRL MSR" and "IA32_PERF_GLOBAL_STATUS
//! MSR", and "IA32_DEBUGCTL MSR".

use serde::{Deserialize, Serialize};

use crate::{
    msr::{debugctl, fixed_ctrl, global_status, PERF_METRICS_BIT},
    shape::Counter,
};

/// FIXED_CTR_CTRL: a field of four bits for each fixed-function counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FixedCtrCtrl(pub(crate) u64);

/// The field of one fixed-function counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedCtr(u64);

impl FixedCtrCtrl {
    /// The register with these bits, of the layout in [`fixed_ctrl`], in the field of one counter.
    pub(crate) const fn of(counter: usize, bits: u64) -> FixedCtrCtrl {
        FixedCtrCtrl(bits << (counter * fixed_ctrl::BITS))
    }

    /// The register with these bits in the fields of the first `counters` counters.
    pub(crate) fn of_all(counters: u8, bits: u64) -> FixedCtrCtrl {
        let fields = (0..counters.into()).map(|i| FixedCtrCtrl::of(i, bits).0);
        FixedCtrCtrl(fields.fold(0, |all, field| all | field))
    }

    /// The field of a counter.
    pub(crate) const fn counter(self, counter: usize) -> FixedCtr {
        FixedCtr(self.0 >> (counter * fixed_ctrl::BITS))
    }

    /// Whether this register has a bit of another one.
    pub(crate) const fn has_any(self, other: FixedCtrCtrl) -> bool {
        self.0 & other.0 != 0
    }
}

impl FixedCtr {
    /// The modes in which the counter counts, by [`Mode`](crate::Mode).
    pub(crate) const fn modes(self) -> [bool; 2] {
        [self.0 & fixed_ctrl::USR != 0, self.0 & fixed_ctrl::OS != 0]
    }

    /// Whether an overflow requests a PMI.
    pub(crate) const fn pmi(self) -> bool {
        self.0 & fixed_ctrl::PMI != 0
    }
}

/// GLOBAL_CTRL: the counters that are enabled, and PERF_METRICS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GlobalCtrl(pub(crate) u64);

impl GlobalCtrl {
    pub(crate) const fn enables(self, counter: Counter) -> bool {
        self.0 & counter.bit() != 0
    }

    pub(crate) const fn enables_metrics(self) -> bool {
        self.0 & PERF_METRICS_BIT != 0
    }
}

/// GLOBAL_STATUS: the counters that have overflowed, and what is frozen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GlobalStatus(pub(crate) u64);

impl GlobalStatus {
    /// A counter has overflowed.
    pub(crate) fn set_overflow(&mut self, counter: Counter) {
        self.0 |= counter.bit();
    }

    /// The internal counters of PERF_METRICS have overflowed.
    pub(crate) fn set_metrics_overflow(&mut self) {
        self.0 |= PERF_METRICS_BIT;
    }

    pub(crate) const fn counters_are_frozen(self) -> bool {
        self.0 & global_status::CTR_FRZ != 0
    }

    pub(crate) fn freeze_counters(&mut self) {
        self.0 |= global_status::CTR_FRZ;
    }

    pub(crate) const fn lbrs_are_frozen(self) -> bool {
        self.0 & global_status::LBR_FRZ != 0
    }

    pub(crate) fn freeze_lbrs(&mut self) {
        self.0 |= global_status::LBR_FRZ;
    }
}

/// DEBUGCTL, as far as it belongs to the PMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DebugCtl(pub(crate) u64);

impl DebugCtl {
    /// Whether a PMI freezes the LBRs.
    pub(crate) const fn freezes_lbrs(self) -> bool {
        self.0 & debugctl::FREEZE_LBRS_ON_PMI != 0
    }

    /// Whether a PMI freezes the counters.
    pub(crate) const fn freezes_counters(self) -> bool {
        self.0 & debugctl::FREEZE_PERFMON_ON_PMI != 0
    }

    /// Whether the legacy LBRs record branches.
    pub(crate) const fn enables_lbrs(self) -> bool {
        self.0 & debugctl::LBR != 0
    }

    /// No branches are recorded any more.
    pub(crate) fn stop_lbrs(&mut self) {
        self.0 &= !debugctl::LBR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fixed_counter_has_four_bits() {
        let ctrl = FixedCtrCtrl::of(2, fixed_ctrl::USR | fixed_ctrl::PMI);
        assert_eq!(ctrl.0, 0xa00);
        assert_eq!(ctrl.counter(2).modes(), [true, false]);
        assert!(ctrl.counter(2).pmi());
        assert_eq!(ctrl.counter(1).modes(), [false, false]);
        assert_eq!(FixedCtrCtrl::of_all(3, fixed_ctrl::OS).0, 0x111);
    }

    /// The further bits of counter 0 begin at bit 33.
    #[test]
    fn rdpmc_user_disable_is_above_the_fields() {
        let bit = FixedCtrCtrl::of(3, fixed_ctrl::RDPMC_USER_DISABLE);
        assert_eq!(bit.0, 1 << 45);
    }
}
