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
        let context = self.context();
        // SAFETY: See `context()`. An aligned word.
        unsafe { addr_of_mut!((*context).time).read_volatile() }
    }

    /// As [`Self::context_time`], up to `now`, which [`local_clock`] has just returned.
    pub fn context_time_until(&self, now: u64) -> u64 {
        let context = self.context();
        // SAFETY: See `context()`. An aligned word.
        let stamp = unsafe { addr_of_mut!((*context).stamp).read_volatile() };
        self.context_time().wrapping_add(now.wrapping_sub(stamp))
    }

    /// The time of the event's context.
    ///
    /// perf does not free the context while the event is on a CPU, as it is by the type
    /// invariant. It changes the time on this CPU only, with interrupts disabled.
    fn context(&self) -> *mut bindings::perf_time_ctx {
        // SAFETY: The event has a context: it was added to a CPU as a part of one.
        unsafe { addr_of_mut!((*(*self.as_raw()).ctx).time) }
    }
}
