// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural performance monitoring from version 2 on: global
//! control of, and status for, general and fixed counters (SDM vol. 3,
//! "Architectural Performance Monitoring Version 2"). What later versions add
//! leaves these registers as they are.

use super::{
    msr,
    Hal,
    Msr,
    Registers, //
};
use crate::pmc::counter::{
    Counter,
    CounterSet, //
};

pub(super) struct IntelV2 {
    /// Where the general counters are written.
    pmc0: Msr,
}

/// For CPUs whose general counters take 32 bits.
pub(super) static LEGACY_WIDTH: IntelV2 = IntelV2 { pmc0: msr::PMC0 };

/// For CPUs whose general counters can be written at their full width.
pub(super) static FULL_WIDTH: IntelV2 = IntelV2 { pmc0: msr::A_PMC0 };

impl<R: Registers> Hal<R> for IntelV2 {
    fn eventsel(&self, counter: Counter) -> Msr {
        msr::PERFEVTSEL0.nth(counter.index())
    }

    fn counter(&self, counter: Counter) -> Msr {
        match counter.as_fixed() {
            Some(i) => msr::FIXED_CTR0.nth(i.into()),
            None => self.pmc0.nth(counter.index()),
        }
    }

    fn run(&self, regs: &R, run: CounterSet) {
        regs.wrmsr(msr::GLOBAL_CTRL, run.bits());
    }

    fn take_overflows(&self, regs: &R, counters: CounterSet) -> CounterSet {
        // The other bits are for others to find: Processor Trace's, for one.
        let overflowed = CounterSet::from_bits(regs.rdmsr(msr::GLOBAL_STATUS)) & counters;
        if !overflowed.is_empty() {
            regs.wrmsr(msr::GLOBAL_OVF_CTRL, overflowed.bits());
        }
        overflowed
    }

    fn save(&self, regs: &R, counters: CounterSet) -> u64 {
        let saved = regs.rdmsr(msr::GLOBAL_CTRL);
        regs.wrmsr(msr::GLOBAL_CTRL, 0);
        regs.wrmsr(msr::GLOBAL_OVF_CTRL, counters.bits());
        saved
    }

    fn restore(&self, regs: &R, saved: u64) {
        regs.wrmsr(msr::GLOBAL_CTRL, saved);
    }
}
