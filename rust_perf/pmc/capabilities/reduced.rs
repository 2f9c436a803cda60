// SPDX-License-Identifier: GPL-2.0

//! Less than a CPU has: what the user of the driver leaves out, or a hypervisor does.

use super::{
    super::{
        counter::CounterSet,
        extra::ExtraRegister, //
    },
    Capabilities, //
};
use core::num::NonZeroU8;

impl Capabilities {
    /// These capabilities without the fixed counters.
    #[must_use]
    pub fn without_fixed(self) -> Self {
        Capabilities {
            counters: self.counters.gp_part(),
            metrics: CounterSet::EMPTY,
            ..self
        }
    }

    /// These capabilities with at most `n` GP counters, the first ones. One must remain: the
    /// kernel arbitrates all counters by the GP counters.
    #[must_use]
    pub fn limit_gp(self, n: NonZeroU8) -> Self {
        let gp = self.counters.gp_part().into_iter();
        let first: CounterSet = gp.take(n.get().into()).collect();
        Capabilities {
            counters: first | self.counters.fixed_part(),
            ..self
        }
    }

    /// These capabilities without an extra register.
    #[must_use]
    pub fn without_extra(self, register: ExtraRegister) -> Self {
        Capabilities {
            extra: self.extra.without(register),
            ..self
        }
    }

    /// These capabilities without branch records.
    #[must_use]
    pub fn without_lbr(self) -> Self {
        Capabilities { lbr: None, ..self }
    }
}
