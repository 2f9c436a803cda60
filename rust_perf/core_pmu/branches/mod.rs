// SPDX-License-Identifier: GPL-2.0

//! Branch records: the branches before a sample.
//!
//! The registers of a CPU hold the branches that it has taken last, whatever task has taken them. So:
//!
//! - All events on a CPU agree on which branches are recorded. Events that do not take turns.
//! - The records are wiped before the counters run, if another task has come to the CPU, or if the first
//!   event that needs them has. Until then they are stale, and an NMI shows none.
//! - Recording is started again at each of these times: a debug exception stops it (SDM vol. 3B, "Last
//!   Branch Records"), as does BPF's snapshot. The handler of a PMI looks at whether it goes on.
//! - A sample shows what its own event may see of them: [`Selection::allows`](crate::pmc::lbr::Selection::allows).
//!
//! The handler of a PMI reads the records before it clears the status, once for all samples: on most CPUs
//! nothing is recorded until then. [`Recording`] says what else there is.
//!
//! Nothing here allocates, locks, sleeps, prints or panics.

mod call_stack;
mod logging;
mod records;
mod sample;

use self::{
    call_stack::CallStack,
    records::{
        Records,
        Words, //
    }, //
};
use super::{
    cpu_pmu::CpuPmu,
    CorePmu, //
};
use crate::{
    perf::{
        self,
        Attr,
        BranchStack,
        Event,
        NewEvent,
        RawTaskCache,
        TaskCache,
        MAX_BRANCHES, //
    },
    pmc::{
        counters::Overflowed,
        lbr::{
            is_call_stack,
            BranchRecords,
            BranchRequest,
            LbrShadow,
            Recording,
            RequestError,
            MAX_DEPTH, //
        }, //
    },
    system::local::{
        LocalFlag,
        LocalWord, //
    },
    x86::{
        CodeReader,
        ThisCpu, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

const _: () = assert!(MAX_BRANCHES >= MAX_DEPTH);

/// Which branches an event asks for.
fn request(attr: &Attr) -> BranchRequest {
    BranchRequest::from_raw(attr.branch_sample_type())
}

/// What the driver needs of the kernel for branch records.
#[derive(Clone)]
pub(super) struct BranchSupport {
    switches: perf::TaskSwitches,
    code: CodeReader,
    call_stacks: TaskCache<CallStack>,
}

impl BranchSupport {
    /// Finds it. `None`, with a message, if the kernel does not have the functions. Task context, may
    /// sleep. Fails with `ENOMEM`.
    pub(super) fn find() -> Result<Option<Self>> {
        let call_stacks = TaskCache::new()?;
        let (Ok(switches), Ok(code)) = (perf::TaskSwitches::find(), CodeReader::find()) else {
            pr_warn!(
                "no branch stacks: perf_sched_cb_inc() or kernel_text_address() cannot be found with \
                 kprobes\n"
            );
            return Ok(None);
        };
        Ok(Some(BranchSupport {
            switches,
            code,
            call_stacks,
        }))
    }

    /// What perf keeps with tasks.
    pub(super) fn task_data(&self) -> Arc<RawTaskCache> {
        self.call_stacks.raw()
    }
}

/// Which branches the events on a CPU need. All of them need the same.
#[derive(Default)]
pub(super) struct BranchesInUse {
    events: u32,
    control: u64,
}

impl BranchesInUse {
    /// One more event needs the branches that `control` selects. Returns `false`, and changes nothing, if
    /// others need other branches.
    pub(super) fn take(&mut self, control: u64) -> bool {
        if self.events != 0 && self.control != control {
            return false;
        }
        self.control = control;
        self.events = self.events.saturating_add(1);
        true
    }

    /// Undoes one [`Self::take`]. Returns whether no event needs branches any more.
    fn release(&mut self) -> bool {
        self.events = self.events.saturating_sub(1);
        self.events == 0
    }
}

/// The branch records of a CPU.
///
/// NMIs change `read` and `stack` only, which nothing else uses.
pub(crate) struct BranchState {
    shadow: LbrShadow,
    /// LBR_CTL for the events that are on the CPU, 0 if none needs branches.
    wanted: LocalWord,
    /// Whether the registers may have to change before the counters run.
    is_changed: LocalFlag,
    /// Whether the records may be of another task than the present one, or older than the events that
    /// need them.
    is_stale: LocalFlag,
    /// Whether a task leaves the CPU, and the next one has not come yet.
    is_between: LocalFlag,
    /// What this NMI has read.
    read: Words,
    /// The save of a task's call stack that the registers still hold, 0 if there is none.
    held: LocalWord,
    /// How often call stacks have been saved on this CPU.
    saves: LocalWord,
    /// The branches of the sample that is being taken.
    stack: BranchStack,
}

impl Default for BranchState {
    fn default() -> Self {
        BranchState {
            shadow: LbrShadow::default(),
            wanted: LocalWord::new(0),
            is_changed: LocalFlag::default(),
            is_stale: LocalFlag::default(),
            is_between: LocalFlag::default(),
            read: records::none(),
            held: LocalWord::new(0),
            saves: LocalWord::new(0),
            stack: BranchStack::default(),
        }
    }
}

impl BranchState {
    /// Whether an event on the CPU needs branches.
    #[inline(always)]
    fn is_used(&self) -> bool {
        self.wanted.get() != 0
    }
}

impl CorePmu {
    /// What an event that is being opened needs in LBR_CTL, 0 if it needs no branches. Task context.
    ///
    /// Fails with `EOPNOTSUPP` if the CPU cannot record that, and with `EINVAL` if the user contradicts
    /// himself.
    pub(super) fn check_branches(&self, event: &NewEvent<'_, Self>) -> Result<u64> {
        let attr = event.attr();
        if !attr.samples_branch_stack() {
            return Ok(0);
        }
        let lbr = self.hardware.capabilities.lbr.as_ref();
        let (Some(lbr), Some(_)) = (lbr, &self.branch_support) else {
            return Err(perf::not_supported());
        };
        let request = request(attr);
        if lbr.cannot_count(request) {
            return Err(EINVAL);
        }
        // A member of a group that is only read for the samples of another event has none of its own.
        if !event.is_sampling() && attr.wants_values() {
            return Ok(0);
        }
        lbr.control(request).map_err(|error| match error {
            RequestError::Unsupported => perf::not_supported(),
            RequestError::Invalid => EINVAL,
        })
    }

    /// Has perf do what an event with branches needs, once nothing can fail any more: perf would undo it
    /// for an event that could not be opened, too. Task context.
    pub(super) fn attach_branches(&self, event: &NewEvent<'_, Self>) {
        let control = event.branch_control();
        let Some(support) = self.branch_support.as_ref().filter(|_| control != 0) else {
            return;
        };
        event.tell_of_switches(support.switches);
        if is_call_stack(control) {
            event.keep_task_data();
        }
    }
}

impl<'a> CpuPmu<'a> {
    /// The registers of the branch records, if the CPU has any.
    fn branch_records(self) -> Option<BranchRecords<'a, ThisCpu>> {
        let lbr = self.capabilities().lbr.as_ref()?;
        let hardware = self.hardware();
        Some(BranchRecords::new(
            &self.state().branches.shadow,
            lbr,
            hardware.cpu,
        ))
    }

    /// An event has been added that needs branches, or none. Returns `false` if others need other
    /// branches. Interrupts are disabled, and the PMU is.
    pub(super) fn take_branches(self, in_use: &mut BranchesInUse, event: &Event<CorePmu>) -> bool {
        let control = event.branch_control();
        if control == 0 {
            return true;
        }
        if !in_use.take(control) {
            return false;
        }
        let branches = &self.state().branches;
        if branches.wanted.get() != control {
            branches.wanted.set(control);
            self.wipe_branches_later();
        }
        true
    }

    /// Has the records wiped before the counters run. The PMU is disabled.
    fn wipe_branches_later(self) {
        let branches = &self.state().branches;
        branches.is_stale.set(true);
        branches.is_between.set(false);
        branches.is_changed.set(true);
    }

    /// Undoes [`Self::take_branches`].
    pub(super) fn release_branches(self, in_use: &mut BranchesInUse, event: &Event<CorePmu>) {
        if event.branch_control() != 0 && in_use.release() {
            let branches = &self.state().branches;
            branches.wanted.set(0);
            branches.is_changed.set(true);
        }
    }

    /// Records what the events need, before the counters run. The PMU is disabled.
    #[inline(always)]
    pub(super) fn update_branches(self) {
        if self.state().branches.is_changed.get() {
            self.change_branches();
        }
    }

    #[inline(never)]
    fn change_branches(self) {
        let branches = &self.state().branches;
        let Some(records) = self.branch_records() else {
            return;
        };
        branches.is_changed.set(false);
        if !branches.is_used() {
            records.stop();
            return;
        }
        branches.held.set(0);
        if branches.is_stale.get() {
            records.stop();
            records.wipe(branches.wanted.get());
            branches.is_stale.set(false);
        }
        records.record(branches.wanted.get());
    }

    /// The registers may have lost their state, or others may have changed them. They are written again
    /// before the counters run.
    pub(super) fn forget_branches(self) {
        let Some(records) = self.branch_records() else {
            return;
        };
        records.forget();
        let branches = &self.state().branches;
        branches.held.set(0);
        branches.is_stale.set(true);
        if branches.is_used() {
            branches.is_changed.set(true);
        }
    }

    /// Leaves the registers to others. No event is on the CPU, or none will run any more.
    pub(super) fn give_branches_back(self) {
        let branches = &self.state().branches;
        branches.wanted.set(0);
        branches.is_changed.set(false);
        branches.held.set(0);
        if let Some(records) = self.branch_records() {
            records.give_back();
        }
    }

    /// Whether an event on the CPU needs branches.
    #[inline(always)]
    pub(super) fn uses_branches(self) -> bool {
        self.state().branches.is_used()
    }

    /// The registers, if they hold records of the present task, and an NMI may resume recording. Otherwise a
    /// sample shows no branches, and recording starts again when perf enables the PMU.
    fn present_records(self) -> Option<BranchRecords<'a, ThisCpu>> {
        let branches = &self.state().branches;
        if branches.is_stale.get() || branches.is_between.get() {
            return None;
        }
        self.branch_records().filter(|it| !it.is_stopped())
    }

    /// Reads the branches that were taken before the counters in `overflowed` overflowed, if the event of
    /// one of them needs them. In the handler of a PMI, before the status is cleared.
    pub(super) fn read_branches(self, overflowed: Overflowed) {
        let branches = &self.state().branches;
        let read = Records(&branches.read);
        read.clear();
        let (Some(records), control) = (self.present_records(), branches.wanted.get()) else {
            return;
        };
        let mut events = overflowed
            .counters
            .into_iter()
            .filter_map(|counter| self.event_on(counter));
        let is_needed = events.any(|event| event.shows_branches());
        if !is_needed && !records.pmi_stops(control) {
            return;
        }
        match records.at_pmi(control, overflowed.is_lbr_frozen) {
            Recording::Frozen => read.read(records, control),
            Recording::StoppedByPmi => {
                if is_needed {
                    read.read(records, control);
                }
                records.resume(control);
            }
            Recording::On => {
                // The handler's own branches would move the records while they are read.
                let pauses = records.sees_kernel(control);
                if pauses {
                    records.pause();
                }
                read.read(records, control);
                if pauses {
                    records.resume(control);
                }
            }
            // What there is is old.
            Recording::Lost => records.resume(control),
        }
    }

    /// An NMI has found no overflow. Its PMI may have stopped recording all the same.
    pub(super) fn resume_branches(self) {
        let (Some(records), control) = (
            self.present_records(),
            self.state().branches.wanted.get(), //
        ) else {
            return;
        };
        if records.pmi_stops(control) && !records.is_enabled() {
            records.resume(control);
        }
    }
}
