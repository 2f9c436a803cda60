// SPDX-License-Identifier: GPL-2.0

//! The calls of a task that have not returned, while the task is on no CPU.
//!
//! In the call-stack mode a return removes the record of the call. What is left are the calls that a task
//! is in, so the records are saved when the task leaves a CPU, and come back with it.
//!
//! Everything here runs with interrupts disabled and perf's context lock held. Nothing allocates, locks,
//! sleeps, prints or panics.

use super::{
    super::cpu_pmu::CpuPmu,
    records::{
        Records,
        WORDS, //
    }, //
};
use crate::{
    perf::SwitchedTask,
    pmc::lbr::is_call_stack,
    system::local::LocalWord, //
};

/// What perf keeps with a task: the number of the save on its CPU, 0 if nothing is saved; the CPU, by
/// [`CpuPmu::id`]; how often the task had left a CPU by then; what was recorded; and the records.
pub(super) type CallStack = [LocalWord; 4 + WORDS];

impl CpuPmu<'_> {
    /// A task leaves the CPU, on which an event is that needs branches. Saves its call stack with it. The
    /// PMU is disabled.
    ///
    /// Until the next task has come, perf takes the records for those of that one already.
    pub(in super::super) fn task_leaves(self, task: &SwitchedTask<'_>) {
        let branches = &self.state().branches;
        branches.is_between.set(true);
        if !is_call_stack(branches.wanted.get()) || branches.is_stale.get() {
            return;
        }
        let (Some(records), Some(saved)) = (self.branch_records(), self.saved_call_stack(task))
        else {
            return;
        };
        records.stop();
        branches.is_changed.set(true);
        let [number, cpu, switches, control, words @ ..] = saved;
        control.set(branches.wanted.get());
        Records(words).read(records, control.get());
        let save = branches.saves.get().wrapping_add(1);
        branches.saves.set(save);
        branches.held.set(save);
        number.set(save);
        cpu.set(self.id());
        switches.set(task.switches());
    }

    /// Another task has come to the CPU, on which an event is that needs branches. What has been recorded is
    /// not for the task's events, but the call stack that was saved with it is. The PMU is disabled.
    pub(in super::super) fn task_comes(self, task: &SwitchedTask<'_>) {
        let branches = &self.state().branches;
        branches.is_stale.set(!self.restore_call_stack(task));
        branches.is_between.set(false);
        if !branches.is_used() {
            // The counters have been given back.
            return;
        }
        branches.is_changed.set(true);
        // The registers change when perf enables the PMU, unless the counters have run on till then.
        self.stop_if_disabled();
    }

    /// Brings the call stack back that was saved with a task. Returns whether there was one.
    fn restore_call_stack(self, task: &SwitchedTask<'_>) -> bool {
        let branches = &self.state().branches;
        if !is_call_stack(branches.wanted.get()) {
            return false;
        }
        let (Some(records), Some(saved)) = (self.branch_records(), self.saved_call_stack(task))
        else {
            return false;
        };
        let [number, cpu, switches, control, words @ ..] = saved;
        let save = number.swap(0);
        // The task may have run since then while its event was not on the CPU.
        if save == 0 || switches.get() != task.switches() {
            return false;
        }
        // Another event may have saved what this one does not record.
        if control.get() != branches.wanted.get() {
            return false;
        }
        let is_held = save == branches.held.get() && cpu.get() == self.id();
        let saved = Records(words);
        if !is_held || !records.are_kept(saved.newest()) {
            records.stop();
            records.restore(branches.wanted.get(), saved.iter());
        }
        true
    }

    /// What is kept with a task.
    fn saved_call_stack<'t>(self, task: &'t SwitchedTask<'_>) -> Option<&'t CallStack> {
        task.data(&self.driver().branch_support.as_ref()?.call_stacks)
    }

    /// A number that no other CPU has, and that is not 0.
    fn id(self) -> u64 {
        (&raw const *self.state()).addr() as u64
    }
}
