// SPDX-License-Identifier: GPL-2.0

//! Hits: what is recorded and counted.
//!
//! All of this runs where the kernel is traced, in any context, an NMI too. Nothing
//! allocates, sleeps, prints or panics. Only events of other tasks need a lock, and no
//! trace point that is about another task is hit in an NMI.

use super::{
    Source,
    TracePmu, //
};
use crate::{
    perf::{
        BoundTo,
        EventList,
        EventsHere,
        Recording, //
    },
    system::{
        irq::PreemptDisabled,
        task::Task,
        tracepoint::{
            Hit,
            Probe, //
        }, //
    },
    x86, //
};
use core::{
    iter,
    ptr,
    sync::atomic::Ordering::Relaxed, //
};
use kernel::sync::Arc;

impl Probe for Source {
    fn hit(&self, hit: &Hit<'_>) {
        let preempt = hit.preempt_disabled();
        if self.traits.has_task && self.has_bound_events.load(Relaxed) {
            if let Some(task) = hit.task(0).filter(|task| !task.is_current()) {
                self.count_for_task(hit, task, BoundTo::ThisCpu);
            }
        }
        self.record(
            &self.list,
            preempt,
            || hit.args(),
            |recording, events| recording.deliver(events, self.count(hit), hit.caller()),
        );
    }
}

impl Source {
    /// Records a hit, if `list` has events on this CPU. `words` makes the record, and
    /// `deliver` passes it to these events.
    pub(super) fn record<W: Iterator<Item = u64>>(
        &self,
        list: &EventList<TracePmu>,
        preempt: PreemptDisabled<'_>,
        words: impl FnOnce() -> W,
        deliver: impl FnOnce(Recording<'_>, EventsHere<'_>),
    ) {
        let Some(events) = list.here(preempt) else {
            return;
        };
        let Some(mut recording) = self.buffers.enter(preempt) else {
            return;
        };
        if self.has_records.load(Relaxed) {
            recording.set(self.number, words());
        } else {
            // An event that wants the record may join the list meanwhile. It must not get the record
            // of another source.
            recording.set(self.number, iter::empty());
        }
        deliver(recording, events);
    }

    /// How often to count a hit.
    fn count(&self, hit: &Hit<'_>) -> u64 {
        if self.traits.has_count {
            hit.arg(1)
        } else {
            1
        }
    }

    /// Counts a hit for the events of a task that is not the current one.
    fn count_for_task(&self, hit: &Hit<'_>, task: Task<'_>, bound: BoundTo) {
        let (preempt, count) = (hit.preempt_disabled(), self.count(hit));
        self.list
            .count_for_task(preempt, task, bound, count, |event| {
                ptr::eq::<Source>(&*event.data(), self)
            });
    }
}

/// Counts page faults as perf's own software event does. Faults in kernel mode count for
/// events that exclude user mode, too: those are on the list of others.
pub(super) struct PageFaults(pub(super) Arc<Source>);

impl Probe for PageFaults {
    fn hit(&self, hit: &Hit<'_>) {
        let Some(regs) = hit.regs(1) else {
            return;
        };
        if !x86::is_user_fault(hit.arg(0), hit.preempt_disabled()) {
            return;
        }
        let source = &*self.0;
        let record = |list| {
            source.record(
                list,
                hit.preempt_disabled(),
                || hit.args(),
                |recording, events| recording.deliver_at(events, 1, regs),
            );
        };
        record(&source.list);
        if !regs.is_user_mode() {
            record(&source.others);
        }
    }
}

/// Counts migrations as perf's own software event does: when a task that has migrated is
/// switched to. Its events are on no list yet. Those that are on this CPU's list belong to
/// the CPU, and those on the list of others to the previous task.
pub(super) struct Migrations(pub(super) Arc<Source>);

impl Probe for Migrations {
    fn hit(&self, hit: &Hit<'_>) {
        // The arguments of sched_switch: preempt, prev, next, prev_state.
        let Some(next) = hit.task(2).filter(Task::has_migrated) else {
            return;
        };
        let source = &*self.0;
        source.count_for_task(hit, next, BoundTo::ThisCpuOrNone);
        source.record(
            &source.list,
            hit.preempt_disabled(),
            || hit.args(),
            |recording, events| recording.deliver(events, 1, hit.caller()),
        );
    }
}
