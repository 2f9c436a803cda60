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

/// The siblings that an NMI looks at, which are more than any group has that fits on counters. It bounds the time
/// in an NMI, whatever the kernel's list looks like.
const MOST_SIBLINGS: usize = 64;

/// A group's leader, and then its other members in the order in which they have joined, at most so many.
///
/// # Safety
///
/// `leader` must be an event, and every node that can be reached from its list of siblings must be that of
/// an event, and stay so while the iterator is used.
unsafe fn members(
    leader: *mut bindings::perf_event,
    most_siblings: usize,
) -> impl Iterator<Item = *mut bindings::perf_event> {
    // SAFETY: The head of the list is part of the leader.
    let head = unsafe { addr_of_mut!((*leader).sibling_list) };
    // SAFETY: It has been initialised. Code that changes the list writes each pointer as one word.
    let mut node = unsafe { addr_of_mut!((*head).next).read_volatile() };
    let mut left = most_siblings;
    let siblings = iter::from_fn(move || {
        left = left.checked_sub(1)?;
        if node == head {
            return None;
        }
        // SAFETY: By the safety requirement the node is the `sibling_list` of an event.
        let sibling = unsafe { kernel::container_of!(node, bindings::perf_event, sibling_list) };
        // SAFETY: By the safety requirement.
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

    /// Calls `f` for each event of the group that this one is to join which is on the same PMU, even if it
    /// is disabled. Not for PMUs of the software context.
    pub fn for_all_in_group(&self, mut f: impl FnMut(&Event<T>)) {
        // There is no error at which it could stop.
        let _ = self.visit_group(|event, _| {
            f(event);
            Ok(())
        });
    }

    /// Whether `f` is true for any event of the group that this one is to join which is on
    /// the same PMU, even if it is disabled. Not for PMUs of the software context.
    pub fn any_in_group(&self, mut f: impl FnMut(&Event<T>) -> bool) -> bool {
        let mut any = false;
        self.for_all_in_group(|event| any |= f(event));
        any
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
        for member in unsafe { members(leader, usize::MAX) } {
            // SAFETY: The member is an event, whose PMU does not change.
            if unsafe { (*member).pmu } != self.pmu() {
                continue;
            }
            // SAFETY: The member is an event. perf, too, reads its state as one word.
            let state = unsafe { addr_of_mut!((*member).state).read_volatile() };
            let is_off = state <= bindings::perf_event_state_PERF_EVENT_STATE_OFF;
            // SAFETY: The event is of the same PMU as `self`, a `Registration<T>`, and is open: its
            // `event_init` has returned.
            let event = unsafe { Event::from_raw(member) };
            f(event, is_off && member != leader)?;
        }
        Ok(())
    }
}

impl<'a, T: Pmu> CpuEvent<'a, T> {
    /// The events of this event's group that are on the same PMU, in the order of the group: the leader,
    /// and then the others as they have joined, of the first 65 members. With interrupts disabled, or in an NMI.
    ///
    /// An event that joins or leaves meanwhile is among them or not.
    pub fn group(&self) -> impl Iterator<Item = &'a Event<T>> {
        // SAFETY: Aligned words of the event, which perf sets before it opens the event. It changes
        // `group_leader` together with the list of siblings, see below.
        let (leader, pmu) = unsafe {
            (
                addr_of_mut!((*self.as_raw()).group_leader).read_volatile(),
                (*self.as_raw()).pmu,
            )
        };
        // SAFETY: perf changes the list of siblings with the lock of the context held: in `Pmu::add` nobody
        // else does. Otherwise the change may be half done, by the code that this NMI has interrupted, or by
        // another CPU, which may add a member that is disabled (`perf_install_in_context()`). A member is
        // added with its own pointers set (`list_add_tail()`), and x86 keeps the order of stores. One that is
        // removed gets a list of its own, which ends the walk, or `MOST_SIBLINGS` does. Every node is that of
        // an event in any of these states, and events are freed after a grace period, which does not end
        // while interrupts are disabled.
        let members = unsafe { members(leader, MOST_SIBLINGS) };
        // SAFETY: The member is an event. perf does not change the PMU of one that is in a group on a CPU.
        let of_pmu = members.filter(move |&member| unsafe { (*member).pmu } == pmu);
        // SAFETY: The event is of the same PMU as `self`, a `Registration<T>`, and has been opened: it is in
        // a group. It stays allocated during `'a` for the reasons above.
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
