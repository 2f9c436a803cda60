// SPDX-License-Identifier: GPL-2.0

//! The events of a group.

use super::{
    CpuEvent,
    Event,
    NewEvent,
    Pmu, //
};
use crate::bindings;
use core::{
    iter,
    ptr::addr_of_mut, //
};
use kernel::error::Result;

/// A group's leader, and then its other members in the order in which they have joined.
///
/// # Safety
///
/// `leader` must be the leader of a group. While the iterator is used, the group must not change, other
/// than by code that the user of the iterator has interrupted.
unsafe fn members(
    leader: *mut bindings::perf_event,
) -> impl Iterator<Item = *mut bindings::perf_event> {
    // SAFETY: The head of the list is part of the leader.
    let head = unsafe { addr_of_mut!((*leader).sibling_list) };
    // SAFETY: It has been initialised. Code that changes the list writes each pointer at once.
    let mut node = unsafe { addr_of_mut!((*head).next).read_volatile() };
    let siblings = iter::from_fn(move || {
        if node == head {
            return None;
        }
        // SAFETY: The list links events by their `sibling_list`.
        let sibling = unsafe { kernel::container_of!(node, bindings::perf_event, sibling_list) };
        // SAFETY: `node` is in the list.
        node = unsafe { addr_of_mut!((*node).next).read_volatile() };
        Some(sibling)
    });
    iter::once(leader).chain(siblings)
}

impl<T: Pmu> NewEvent<'_, T> {
    /// Calls `f` for each event of the group that this one is to join which is on the
    /// same PMU and can be scheduled: the leader, and members that are not disabled.
    /// Stops at the first error. Not for PMUs of the software context.
    pub fn for_each_in_group(&self, mut f: impl FnMut(&Event<T>) -> Result) -> Result {
        self.visit_group(|event, disabled| if disabled { Ok(()) } else { f(event) })
    }

    /// Whether `f` is true for any event of the group that this one is to join which is on
    /// the same PMU, even if it is disabled. `f` is called for all of them. Not for PMUs of the software
    /// context.
    pub fn any_in_group(&self, mut f: impl FnMut(&Event<T>) -> bool) -> bool {
        let mut any = false;
        let visited = self.visit_group(|event, _| {
            any |= f(event);
            Ok(())
        });
        visited.is_ok() && any
    }

    /// Calls `f` for each event of the group on the same PMU, and says whether it is a
    /// member that is disabled. Stops at the first error.
    fn visit_group(&self, mut f: impl FnMut(&Event<T>, bool) -> Result) -> Result {
        const {
            assert!(T::TASK_CONTEXT.locks_group());
        }
        let Some(leader) = self.any_leader() else {
            return Ok(());
        };
        // SAFETY: perf holds a reference to the leader, and its context mutex (`perf_try_init_event()`), as
        // the PMU is not of the software context. So the group, and the PMU of each of its events, do not
        // change.
        for member in unsafe { members(leader) } {
            // SAFETY: The member is an event, whose PMU does not change.
            if unsafe { (*member).pmu } != self.pmu() {
                continue;
            }
            // SAFETY: The member is an event. perf, too, reads its state as one word.
            let state = unsafe { addr_of_mut!((*member).state).read_volatile() };
            let is_off = state <= bindings::perf_event_state_PERF_EVENT_STATE_OFF;
            // SAFETY: The event is of the same PMU as `self`, a `Registration<T>`, and is open: its
            // `event_init` has returned.
            f(
                unsafe { Event::from_raw(member) },
                is_off && member != leader,
            )?;
        }
        Ok(())
    }
}

impl<'a, T: Pmu> CpuEvent<'a, T> {
    /// The events of this event's group that are on the same PMU, in the order of the group: the leader,
    /// and then the others as they have joined. With interrupts disabled, or in an NMI.
    pub fn group(&self) -> impl Iterator<Item = &'a Event<T>> {
        // SAFETY: Aligned words of the event, which perf sets before it opens the event. It changes
        // `group_leader` as it changes the group, see below.
        let (leader, pmu) = unsafe {
            (
                addr_of_mut!((*self.as_raw()).group_leader).read_volatile(),
                (*self.as_raw()).pmu,
            )
        };
        // SAFETY: The event is on this CPU, by the invariant of `CpuEvent`, and so is the context of its
        // group. perf changes a group whose context is on a CPU there, with interrupts disabled
        // (`event_function()`). So this CPU changes it before or after, unless this is an NMI that has
        // interrupted the change. The members are freed after a grace period, which does not end
        // meanwhile.
        let members = unsafe { members(leader) };
        // SAFETY: The member is an event, and perf changes its PMU in no context.
        let of_pmu = members.filter(move |&member| unsafe { (*member).pmu } == pmu);
        // SAFETY: The event is of the same PMU as `self`, a `Registration<T>`, and is open: it is in a
        // context. It stays so during `'a` for the reasons above.
        of_pmu.map(|member| unsafe { Event::from_raw(member) })
    }

    /// Whether the event leads its group, of which it may be the only member. With interrupts disabled, or
    /// in an NMI.
    pub fn leads(&self) -> bool {
        // SAFETY: As in `group()`.
        let leader = unsafe { addr_of_mut!((*self.as_raw()).group_leader).read_volatile() };
        leader == self.as_raw()
    }
}
