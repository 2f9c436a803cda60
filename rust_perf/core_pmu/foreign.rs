// SPDX-License-Identifier: GPL-2.0

//! Saying that someone else writes the registers of the counters.
//!
//! The driver does not read registers back, because each access may cost an exit. Where perf
//! disables the PMU it looks at them, but at most once in a while. Nothing may print there, so it
//! notes what it has found, and reports it when an event is closed.

use super::{
    cpu_pmu::CpuPmu,
    CorePmu, //
};
use crate::system::{
    local::LocalWord,
    time::jiffies, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    pr_warn_once,
    time::msecs_to_jiffies, //
};

/// How long the driver does not look again at the registers of a CPU.
const INTERVAL_MS: u32 = 100;

/// When the driver looks at the registers of a CPU again. Used on that CPU only, with interrupts
/// disabled, and not in an NMI.
#[derive(Default)]
pub(super) struct NextLook {
    /// The time in jiffies from which on it may.
    at: LocalWord,
}

impl NextLook {
    #[inline(always)]
    fn is_due(&self) -> bool {
        jiffies().wrapping_sub(self.at.get() as usize) as isize >= 0
    }

    fn postpone(&self) {
        let next = jiffies().wrapping_add(msecs_to_jiffies(INTERVAL_MS));
        self.at.set(next as u64);
    }
}

impl CpuPmu<'_> {
    /// Whether it is time to look at the registers of this CPU again.
    #[inline(always)]
    pub(super) fn may_look_for_foreign_writes(self) -> bool {
        self.state().next_look.is_due()
    }

    /// Takes a note if this CPU's counters do not count what they have been programmed to. To be
    /// called before they are stopped, if [`Self::may_look_for_foreign_writes`]. Not in an NMI.
    #[inline(never)]
    pub(super) fn look_for_foreign_writes(self) {
        let run = &self.state().run;
        let active = run.active();
        if active.is_empty() || !run.is_enabled() {
            return;
        }
        self.state().next_look.postpone();
        let nmis = run.nmis();
        let are_as_written = self.counters().are_as_written(active);
        // An NMI may have stopped counters meanwhile.
        if !are_as_written && run.nmis() == nmis {
            self.driver().foreign_writes.store(true, Relaxed);
        }
    }
}

impl CorePmu {
    /// Says that someone else has written the registers, if that was noted. Task context.
    pub(super) fn report_foreign_writes(&self) {
        if self.foreign_writes.load(Relaxed) {
            pr_warn_once!(
                "someone else has written registers of counters that were counting, such as \
                 firmware or a hypervisor: counts are wrong\n"
            );
        }
    }
}
