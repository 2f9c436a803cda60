// SPDX-License-Identifier: GPL-2.0

//! Which counters have overflowed.

use super::super::{
    counter::{
        Counter,
        CounterSet, //
    },
    generation::{
        GlobalRegisters,
        CTR_FRZ, //
    },
    period,
    registers::Registers,
    Counters, //
};

impl<R: Registers> Counters<'_, R> {
    /// Takes the counters that have overflowed since they were last taken or programmed, on a CPU with
    /// global control. To be called while no counter is running.
    ///
    /// On other CPUs it finds none: there only the value of a counter shows an overflow, see
    /// [`Self::wrapped`].
    ///
    /// No overflow is lost between this and the unmasking of LVTPC, although
    /// GLOBAL_STATUS is read once: no counter is running, and WRMSR to GLOBAL_CTRL
    /// is serializing (SDM vol. 3, "Serializing Instructions"), so no bit can be set
    /// after the read. A generation that must run the counters to clear the status
    /// is read again until no new bit appears.
    pub fn take_overflows(self) -> CounterSet {
        let Some(global) = self.caps.generation.global else {
            return CounterSet::EMPTY;
        };
        let mut overflowed = CounterSet::EMPTY;
        loop {
            // The other bits of GLOBAL_STATUS belong to others, such as Processor Trace.
            let status = self.regs.rdmsr(global.status);
            let new = CounterSet::from_bits(status) & self.caps.with_status() & !overflowed;
            if new.is_empty() {
                return overflowed;
            }
            overflowed = overflowed | new;
            self.clear_status(global, new.bits() | status & CTR_FRZ);
            if !global.clears_while_on {
                return overflowed;
            }
            // The counters have run meanwhile.
            self.shadow.known.set(0);
        }
    }

    /// Reads a counter, and returns its value if it has wrapped since it was programmed, which must
    /// have been at most [`Capabilities::max_period`] events before.
    pub fn wrapped(self, counter: Counter) -> Option<u64> {
        let value = self.read(counter);
        period::has_wrapped(value, self.caps.width(counter)).then_some(value)
    }

    /// Clears bits of GLOBAL_STATUS, which must exist. No counter is running.
    pub(in super::super) fn clear_status(self, global: &GlobalRegisters, bits: u64) {
        if global.clears_while_on {
            self.regs.wrmsr(global.ctrl, self.caps.counters.bits());
        }
        self.regs.wrmsr(global.clear, bits);
        if global.clears_while_on {
            self.regs.wrmsr(global.ctrl, 0);
        }
    }
}
