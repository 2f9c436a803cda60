// SPDX-License-Identifier: GPL-2.0

//! Events that make perf tell their PMU when another task comes to their CPU.

use super::{
    CpuEvent,
    NewEvent,
    Pmu, //
};
use crate::bindings;
use core::ptr::addr_of_mut;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// The functions of perf by which an event asks to be told of switches of tasks.
///
/// # Invariants
///
/// The functions have been found.
#[derive(Clone, Copy)]
pub struct TaskSwitches(());

impl TaskSwitches {
    /// Finds the functions. Task context, may sleep. Fails with the error of `register_kprobe()`.
    pub fn find() -> Result<Self> {
        // SAFETY: This is called in task context, as registering a kprobe requires.
        to_result(unsafe { bindings::rust_perf_sched_cb_init() })?;
        // INVARIANT: They were just found.
        Ok(TaskSwitches(()))
    }
}

impl<T: Pmu> NewEvent<'_, T> {
    /// Has perf call [`Pmu::task_comes`] while the event is on a CPU.
    pub fn tell_of_switches(&self, _: TaskSwitches) {
        const {
            assert!(T::HAS_TASK_COMES);
        }
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet.
        unsafe { (*self.event().as_raw()).attach_state |= bindings::PERF_ATTACH_SCHED_CB };
    }
}

impl<T: Pmu> CpuEvent<'_, T> {
    /// perf has added the event to this CPU.
    #[inline(always)]
    pub(super) fn begin_switches(&self) {
        if self.is_told_of_switches() {
            // SAFETY: The PMU is registered, and has `sched_task`. This is `add`: interrupts are disabled.
            // `end_switches` undoes it in `del`, on the same CPU.
            unsafe { bindings::rust_perf_sched_cb_inc((*self.as_raw()).pmu) };
        }
    }

    /// perf takes the event off this CPU.
    #[inline(always)]
    pub(super) fn end_switches(&self) {
        if self.is_told_of_switches() {
            // SAFETY: As for `begin_switches`, which has been called for this event, on this CPU.
            unsafe { bindings::rust_perf_sched_cb_dec((*self.as_raw()).pmu) };
        }
    }

    #[inline(always)]
    fn is_told_of_switches(&self) -> bool {
        if !T::HAS_TASK_COMES {
            return false;
        }
        // SAFETY: An aligned word of the event. This bit does not change while the event is open.
        let state = unsafe { addr_of_mut!((*self.as_raw()).attach_state).read_volatile() };
        state & bindings::PERF_ATTACH_SCHED_CB != 0
    }
}
