// SPDX-License-Identifier: GPL-2.0

//! Lists of events, for PMUs whose events have their own causes.
//!
//! Whatever causes events has an [`EventList`], for instance a trace point. It contains
//! the events of this cause that are on each CPU, any number of them. When the cause
//! occurs, [`Recording::deliver`](super::Recording::deliver) counts it for all of them.

use super::{
    cpu_event::AddedEvent,
    table::EventSet,
    Event,
    NewEvent,
    Pmu, //
};
use crate::{
    bindings,
    system::{
        irq::PreemptDisabled,
        percpu::CpuData, //
    }, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::addr_of_mut, //
};
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// The set of events of a PMU that keeps them in [`EventList`]s.
pub struct Listed(());

// SAFETY: `forget` removes the event from the list that it is in. There is one list node in an
// event, so that it is in no other list.
unsafe impl<T: Pmu> EventSet<T> for Listed {
    fn new() -> Self {
        Listed(())
    }

    fn forget(&self, event: &Event<T>) {
        // SAFETY: The node is in the list of a CPU, or in no list. Only that CPU changes its list,
        // with interrupts disabled, and this is that CPU: perf deletes an event where it is.
        unsafe { bindings::rust_perf_hlist_del(event.list_node()) };
    }
}

/// The head of a list: a word.
pub(super) struct Head(Opaque<bindings::hlist_head>);

// SAFETY: Only its own CPU changes a list, and RCU readers read it.
unsafe impl Sync for Head {}
// SAFETY: As above.
unsafe impl Send for Head {}

impl Head {
    pub(super) const fn new() -> Self {
        Head(Opaque::zeroed())
    }

    pub(super) fn as_raw(&self) -> *mut bindings::hlist_head {
        self.0.get()
    }

    fn is_empty(&self) -> bool {
        // SAFETY: An aligned word, which may change at any time.
        unsafe { addr_of_mut!((*self.as_raw()).first).read_volatile() }.is_null()
    }
}

/// A list of events for each CPU.
///
/// # Invariants
///
/// The nodes are those of events of the PMU `T` that perf has added to the list's CPU,
/// and whose `del` has not returned. `pmu` is that of a `Registration<T>`.
pub struct EventList<T> {
    heads: ManuallyDrop<CpuData<Head>>,
    /// The PMU, for comparison.
    pmu: *mut bindings::pmu,
    _pmu: PhantomData<fn() -> T>,
}

// SAFETY: The heads are `Send`, and the PMU is only compared.
unsafe impl<T> Send for EventList<T> {}
// SAFETY: The heads are `Sync`, and the PMU is only compared.
unsafe impl<T> Sync for EventList<T> {}

impl<T: Pmu<Events = Listed>> EventList<T> {
    /// Empty lists for events of the PMU that `event` is being opened on. Task context, may
    /// sleep.
    pub fn new(event: &NewEvent<'_, T>) -> Result<Self> {
        // INVARIANT: The lists are empty.
        Ok(EventList {
            heads: ManuallyDrop::new(CpuData::new(Head::new)?),
            pmu: event.pmu(),
            _pmu: PhantomData,
        })
    }

    /// This CPU's list, unless it is empty. Any context.
    pub fn here<'a>(&'a self, preempt: PreemptDisabled<'a>) -> Option<EventsHere<'a>> {
        let head = self.heads.this(preempt);
        (!head.is_empty()).then_some(EventsHere(head))
    }

    pub(super) fn pmu(&self) -> *mut bindings::pmu {
        self.pmu
    }
}

/// The events of an [`EventList`] that are on this CPU.
#[derive(Clone, Copy)]
pub struct EventsHere<'a>(pub(super) &'a Head);

impl<T> Drop for EventList<T> {
    fn drop(&mut self) {
        // A node points to the head before it. So keep the heads if an event is left; no driver that
        // keeps the list with its events does that.
        if self.heads.iter().all(Head::is_empty) {
            // SAFETY: This is the only place that drops them, and `self` is not used after it.
            unsafe { ManuallyDrop::drop(&mut self.heads) };
        }
    }
}

impl<T: Pmu<Events = Listed>> AddedEvent<'_, T> {
    /// Puts the event on this CPU's list, where it stays until it is deleted, or until
    /// [`Pmu::add`] fails.
    ///
    /// Fails with `EBUSY` if the event is on a list.
    pub fn insert_into(&self, list: &EventList<T>) -> Result {
        let node = self.list_node();
        // SAFETY: An aligned word of the event, which only this CPU changes while the event is here.
        if !unsafe { addr_of_mut!((*node).pprev).read_volatile() }.is_null() {
            return Err(EBUSY);
        }
        // INVARIANT: perf is adding the event to this CPU. `del`, or `add` if it fails, removes it.
        let head = list.heads.this(self.irqs_disabled().into());
        // SAFETY: The node is in no list. Only this CPU changes this list, with interrupts disabled.
        unsafe { bindings::rust_perf_hlist_add(node, head.as_raw()) };
        Ok(())
    }
}
