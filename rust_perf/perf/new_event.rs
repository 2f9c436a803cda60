// SPDX-License-Identifier: GPL-2.0

//! Events that are being opened.

use super::{
    Attr,
    Event,
    Pmu, //
};
use crate::bindings;
use core::ptr::{
    addr_of_mut,
    NonNull, //
};
use kernel::{
    prelude::*,
    sync::aref::ARef,
    task::Task, //
};

/// An event that is being opened. If it is to join a group, and the PMU's context is
/// not [`TaskContext::SOFTWARE`](super::TaskContext::SOFTWARE), perf holds the context
/// mutex of the group's leader.
///
/// # Invariants
///
/// The PMU's `event_init` is running for the event. The parent is an event of the same PMU.
pub struct NewEvent<'a, T> {
    event: &'a Event<T>,
    parent: Option<&'a Event<T>>,
}

impl<'a, T: Pmu> NewEvent<'a, T> {
    /// Fails with `ENOENT` if the event is inherited from one of another PMU.
    ///
    /// perf asks the parent's PMU first. If that refuses the event, perf offers it to other PMUs.
    /// None of them can continue what the parent counts.
    ///
    /// # Safety
    ///
    /// The value must exist only while the PMU's `event_init` runs for `event`.
    pub(super) unsafe fn new(event: &'a Event<T>) -> Result<Self> {
        // SAFETY: perf sets both before it opens the event.
        let (parent, pmu) = unsafe { ((*event.as_raw()).parent, (*event.as_raw()).pmu) };
        if parent.is_null() {
            // INVARIANT: By the safety requirement. There is no parent.
            return Ok(NewEvent {
                event,
                parent: None,
            });
        }
        // SAFETY: perf holds a reference to the parent, and does not change the PMU of an open event
        // that has a child.
        if unsafe { (*parent).pmu } != pmu {
            return Err(ENOENT);
        }
        // SAFETY: The parent is an event of `pmu`, the `Registration<T>` of `event`. It is open, and
        // `event` keeps it.
        let parent = unsafe { Event::from_raw(parent) };
        // INVARIANT: By the safety requirement. The PMUs have been compared.
        Ok(NewEvent {
            event,
            parent: Some(parent),
        })
    }

    pub(super) fn event(&self) -> &Event<T> {
        self.event
    }

    /// What the user asks for.
    pub fn attr(&self) -> &Attr {
        self.event.attr()
    }

    /// Whether the event takes samples.
    pub fn is_sampling(&self) -> bool {
        self.event.is_sampling()
    }

    /// The event of the same PMU that a child task inherits as this one. It has passed all checks.
    pub fn parent(&self) -> Option<&Event<T>> {
        self.parent
    }

    /// The leader of the group that the event is to join, of whatever PMU. perf holds a reference to
    /// it while the event is being opened.
    pub(super) fn any_leader(&self) -> Option<*mut bindings::perf_event> {
        let event = self.event.as_raw();
        // SAFETY: perf sets `group_leader` before `event_init`, to the event itself or to one that
        // it holds a reference to.
        let leader = unsafe { (*event).group_leader };
        (leader != event).then_some(leader)
    }

    /// Fails with `ENODEV` if the leader of the group that this event is to join is in no context any
    /// more, because its CPU went offline.
    ///
    /// perf would add the event to the group, but not take it out when the leader is closed: the
    /// event would stay in a list of freed memory. See docs/upstream/findings.md, also for the
    /// CPU that goes offline right after this.
    pub(super) fn leader_can_lead(&self) -> Result {
        let Some(leader) = self.any_leader() else {
            return Ok(());
        };
        // SAFETY: perf keeps the leader while this event is being opened. These are aligned words, which
        // perf, too, reads while others may change them.
        let (state, caps) = unsafe {
            (
                addr_of_mut!((*leader).attach_state).read_volatile(),
                addr_of_mut!((*leader).group_caps).read_volatile(),
            )
        };
        let can_lead = state & bindings::PERF_ATTACH_GROUP != 0;
        // perf moves a group of software events to the context of the first other event, and attaches
        // its leader again.
        let moves =
            T::TASK_CONTEXT.locks_group() && caps & bindings::RUST_PERF_EV_CAP_SOFTWARE != 0;
        if can_lead || moves {
            Ok(())
        } else {
            Err(ENODEV)
        }
    }

    /// Whether the event leads a group, of which it is the only member yet.
    pub fn leads(&self) -> bool {
        self.any_leader().is_none()
    }

    /// Whether the event is bound to a task.
    pub fn is_of_task(&self) -> bool {
        self.event.is_of_task()
    }

    /// The PMU that the event is being opened on.
    pub(super) fn pmu(&self) -> *mut bindings::pmu {
        // SAFETY: perf sets it before it opens the event.
        unsafe { (*self.event.as_raw()).pmu }
    }

    /// The number of that PMU.
    pub(super) fn pmu_type(&self) -> u32 {
        // SAFETY: The PMU is registered, and keeps its number while it is.
        unsafe { (*self.pmu()).type_ as u32 }
    }

    /// The task that the event is bound to.
    pub fn task(&self) -> Option<ARef<Task>> {
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet. perf has
        // set the field. It is null if there is no task.
        let task = unsafe { (*self.event.as_raw()).hw.target };
        let task = NonNull::new(task)?.cast::<Task>();
        // SAFETY: The event has a reference to its task. `Task` is a transparent wrapper of it.
        Some(unsafe { task.as_ref() }.into())
    }

    /// The CPU that the event is bound to.
    pub fn cpu(&self) -> Option<u32> {
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet.
        let cpu = unsafe { (*self.event.as_raw()).cpu };
        u32::try_from(cpu).ok()
    }

    /// Sets the number of events until the first overflow, and between overflows
    /// until perf changes it.
    pub fn set_period(&self, period: u64) {
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet.
        unsafe { addr_of_mut!((*self.event.as_raw()).hw.sample_period).write(period) };
        self.event.set_last_period(period);
        self.event.period_left().set(period);
    }

    /// Replaces what the user asked for by a fixed period. If that was a frequency, perf
    /// does not adapt the period to it.
    pub fn fix_period(&self, period: u64) {
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet.
        unsafe {
            let attr = addr_of_mut!((*self.event.as_raw()).attr);
            (*attr).__bindgen_anon_1.sample_period = period;
            (*attr).set_freq(0);
        }
        self.set_period(period);
    }
}
