// SPDX-License-Identifier: GPL-2.0

//! perf's clocks.
//!
//! C header: `include/linux/sched/clock.h`.

use super::{
    CpuEvent,
    Pmu, //
};
use crate::bindings;
use core::ptr::addr_of_mut;

/// The time of this CPU's clock in nanoseconds, which perf's time stamps are made of. Any
/// context.
pub fn local_clock() -> u64 {
    // SAFETY: The function may be called in any context.
    unsafe { bindings::local_clock() }
}

impl<T: Pmu> CpuEvent<'_, T> {
    /// The nanoseconds that the event's context had been on a CPU when perf last looked. For
    /// the event of a task that is the time for which the task has run while perf had events
    /// of it.
    ///
    /// perf looks each time it schedules events of the context.
    pub fn context_time(&self) -> u64 {
        self.context().time
    }

    /// As [`Self::context_time`], up to now.
    pub fn context_time_now(&self) -> u64 {
        let bindings::perf_time_ctx { time, stamp, .. } = self.context();
        time.wrapping_add(local_clock().wrapping_sub(stamp))
    }

    fn context(&self) -> bindings::perf_time_ctx {
        // SAFETY: The event has a context, which perf does not free while the event is on a CPU, as
        // it is by the type invariant. perf changes the time on this CPU only, with interrupts
        // disabled, so that an NMI may find it half changed. All values are valid.
        unsafe { addr_of_mut!((*(*self.as_raw()).ctx).time).read_volatile() }
    }
}
