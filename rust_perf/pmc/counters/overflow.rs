// SPDX-License-Identifier: GPL-2.0

//! Which counters have overflowed.

use super::super::{
    counter::{
        Counter,
        CounterSet, //
    },
    generation::{
        GlobalRegisters,
        FROZEN,
        LBR_FRZ, //
    },
    period,
    registers::Registers,
    Counters, //
};

/// What the status has shown.
#[derive(Clone, Copy, Debug)]
pub struct Overflowed {
    /// The counters that have overflowed.
    pub counters: CounterSet,
    /// Whether the PMI has stopped the recording of branches. It goes on when the status is cleared.
    pub is_lbr_frozen: bool,
}

impl<R: Registers> Counters<'_, R> {
    /// Takes the counters that have overflowed since they were last taken or programmed, on a CPU with
    /// global control. To be called while no counter is running.
    ///
    /// On other CPUs it finds none: there only the value of a counter shows an overflow, see
    /// [`Self::wrapped`].
    ///
    /// Calls `found` when the status has shown an overflow, before it is cleared.
    ///
    /// The in-tree driver reads GLOBAL_STATUS again after the overflows have been handled, until it is 0.
    /// Here it is read once, and no PMI is lost:
    ///
    /// - On Intel's CPUs no bit is set after the read. WRMSR to GLOBAL_CTRL is serializing (SDM vol. 3,
    ///   "Serializing Instructions"): a counter that the write stops has counted what came before, and
    ///   RDMSR of the status comes after it. What the in-tree driver may find are the bits of precise
    ///   events and of Processor Trace, whose buffers the CPU goes on to fill. The driver uses neither.
    /// - If a CPU set a bit late, the bit would stay: only the bits that were read are
    ///   cleared ("IA32_PERF_GLOBAL_OVF_CTRL MSR"). So the next PMI of the CPU would find it. The count
    ///   is that of the counter, whatever the status says.
    ///
    /// A generation that must run the counters to clear the status is read again until no new bit
    /// appears.
    #[inline(always)]
    pub fn take_overflows(self, found: impl FnOnce(Overflowed)) -> CounterSet {
        let Some(global) = self.caps.generation.global else {
            return CounterSet::EMPTY;
        };
        // The other bits of GLOBAL_STATUS belong to others, such as Processor Trace.
        let status = self.regs.rdmsr(global.status);
        let overflowed = self.caps.with_status().with_bits(status);
        if overflowed.is_empty() {
            return overflowed;
        }
        found(Overflowed {
            counters: overflowed,
            is_lbr_frozen: status & LBR_FRZ != 0,
        });
        self.clear_status(global, overflowed.bits() | status & FROZEN);
        if global.clears_while_on {
            self.take_more_overflows(global, overflowed)
        } else {
            overflowed
        }
    }

    /// Takes the counters that overflow while the status is cleared, and adds them to `overflowed`.
    #[inline(never)]
    fn take_more_overflows(
        self,
        global: &GlobalRegisters,
        mut overflowed: CounterSet,
    ) -> CounterSet {
        loop {
            // The counters have run meanwhile.
            self.shadow.known.set(0);
            let status = self.regs.rdmsr(global.status);
            let new = self.caps.with_status().with_bits(status) & !overflowed;
            if new.is_empty() {
                return overflowed;
            }
            overflowed = overflowed | new;
            self.clear_status(global, new.bits() | status & FROZEN);
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
