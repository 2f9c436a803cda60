// SPDX-License-Identifier: GPL-2.0

//! The events that are on a CPU.

use super::{
    cpu_event::AddedEvent,
    CpuEvent,
    Event,
    Pmu, //
};
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering::Relaxed, //
    }, //
};
use kernel::prelude::*;

/// How a PMU finds the events that are on a CPU: an [`EventTable`], or nothing.
///
/// # Safety
///
/// [`Self::forget`] must drop every pointer to the event.
pub unsafe trait EventSet<T>: Send + Sync {
    /// No events.
    fn new() -> Self;

    /// Drops the event, if it is in the set: perf may free it after this.
    fn forget(&self, event: &Event<T>);
}

// SAFETY: It holds no pointer.
unsafe impl<T: Pmu> EventSet<T> for () {
    fn new() -> Self {}

    fn forget(&self, _: &Event<T>) {}
}

/// A table of the events on a CPU, at indices that the driver chooses.
///
/// [`AddedEvent::insert`], [`AddedEvent::move_other`] and
/// [`OnCpu::event`](super::OnCpu::event) give access to it. The type itself has no public
/// methods: that way only code on the table's CPU can use it.
///
/// # Invariants
///
/// Each entry is null, or an event of the PMU `T` that perf has added to this CPU
/// and whose `del` has not returned. [`Event::index`] of that event is the index
/// of the entry.
pub struct EventTable<T, const N: usize> {
    entries: [AtomicPtr<bindings::perf_event>; N],
    _pmu: PhantomData<fn() -> T>,
}

// SAFETY: An event is in the table only at its index, and `forget` clears that entry.
unsafe impl<T: Pmu, const N: usize> EventSet<T> for EventTable<T, N> {
    fn new() -> Self {
        // INVARIANT: All entries are null.
        EventTable {
            entries: [const { AtomicPtr::new(ptr::null_mut()) }; N],
            _pmu: PhantomData,
        }
    }

    fn forget(&self, event: &Event<T>) {
        let Some(entry) = event.index().and_then(|index| self.entries.get(index)) else {
            return;
        };
        if entry.load(Relaxed) == event.as_raw() {
            entry.store(ptr::null_mut(), Relaxed);
            event.set_index(None);
        }
    }
}

impl<T: Pmu, const N: usize> EventTable<T, N> {
    pub(super) fn insert(&self, index: usize, event: &AddedEvent<'_, T>) -> Result {
        let entry = self.entries.get(index).ok_or(EINVAL)?;
        if !entry.load(Relaxed).is_null() || event.index().is_some() {
            return Err(EBUSY);
        }
        event.set_index(Some(index));
        // INVARIANT: perf is adding the event to this CPU. It is in no other entry, because it had no
        // index. The callbacks `add`, if it fails, and `del` call `forget` before they return.
        entry.store(event.as_raw(), Relaxed);
        Ok(())
    }

    /// Moves the event at `from` to `to`, if there is one and `to` is free.
    pub(super) fn move_event(&self, from: usize, to: usize) {
        let (Some(from), Some(target)) = (self.entries.get(from), self.entries.get(to)) else {
            return;
        };
        let event = from.load(Relaxed);
        if event.is_null() || !target.load(Relaxed).is_null() {
            return;
        }
        // An NMI in between finds the event in neither entry.
        from.store(ptr::null_mut(), Relaxed);
        // SAFETY: By the type invariant the event is on this CPU.
        unsafe { Event::<T>::from_raw(event) }.set_index(Some(to));
        // INVARIANT: The event was in `from`, and has its new index.
        target.store(event, Relaxed);
    }

    /// The event at `index`.
    ///
    /// # Safety
    ///
    /// The table must be that of the CPU that the code runs on. The code must stay
    /// there, and no `del` may return, while the result exists.
    pub(super) unsafe fn get(&self, index: usize) -> Option<CpuEvent<'_, T>> {
        let event = self.entries.get(index)?.load(Relaxed);
        if event.is_null() {
            return None;
        }
        // SAFETY: By the type invariant the event is on this table's CPU, on which the code runs and
        // stays by the safety requirement. It is not deleted meanwhile.
        Some(unsafe { CpuEvent::new(Event::from_raw(event)) })
    }
}
