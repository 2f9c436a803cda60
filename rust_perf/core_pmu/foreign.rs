// SPDX-License-Identifier: GPL-2.0

//! Saying that someone else writes the registers of the counters.
//!
//! The driver does not read registers back, because each access may cost an exit. Where perf
//! disables the PMU it looks at them, but at most once in a while. There nothing may print, so it
//! takes a note, and says it when an event is closed.

use super::{
    CorePmu,
    Cpu, //
};
use crate::system::time::jiffies;
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    pr_warn_once,
    time::msecs_to_jiffies, //
};

/// How long the driver does not look again at the registers of a CPU.
const INTERVAL_MS: u32 = 100;

impl CorePmu {
    /// Whether it is time to look at the registers of this CPU again. Interrupts disabled.
    #[inline(always)]
    pub(super) fn may_look_for_foreign_writes(&self, cpu: &Cpu) -> bool {
        jiffies().wrapping_sub(cpu.look_at.get() as usize) as isize >= 0
    }

    /// Takes a note if this CPU's counters do not count what they have been programmed to. To be
    /// called before they are stopped, with interrupts disabled, if
    /// [`Self::may_look_for_foreign_writes`].
    #[inline(never)]
    pub(super) fn look_for_foreign_writes(&self, cpu: &Cpu) {
        let active = cpu.active();
        if active.is_empty() || !cpu.enabled.get() {
            return;
        }
        let next = jiffies().wrapping_add(msecs_to_jiffies(INTERVAL_MS));
        cpu.look_at.set(next as u64);
        let nmis = cpu.nmis.get();
        let are_as_written = self.counters(cpu).are_as_written(active);
        // An NMI may have stopped counters meanwhile.
        if !are_as_written && cpu.nmis.get() == nmis {
            self.foreign_writes.store(true, Relaxed);
        }
    }

    /// Says so, if anything was noted. Task context.
    pub(super) fn report_foreign_writes(&self) {
        if self.foreign_writes.load(Relaxed) {
            pr_warn_once!(
                "someone else has written registers of counters that were counting, such as \
                 firmware or a hypervisor: counts are wrong\n"
            );
        }
    }
}
