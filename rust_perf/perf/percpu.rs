// SPDX-License-Identifier: GPL-2.0

//! What a PMU keeps for each CPU.

use super::{
    Event,
    Pmu,
    Regs, //
};
use crate::bindings;
use core::{
    cell::UnsafeCell,
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering::Relaxed, //
    }, //
};
use kernel::{
    cpu::nr_cpu_ids,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*, //
};

/// The number of events that can be on a CPU at once.
pub(crate) const MAX_EVENTS: usize = 64;

/// The events that are on a CPU, at places that the driver chooses.
///
/// Only accessed on that CPU, but NMIs interrupt the accesses.
///
/// # Invariants
///
/// Each entry is null or an event that perf has added to this CPU,
/// and whose `del` has not returned.
pub(crate) struct EventTable([AtomicPtr<bindings::perf_event>; MAX_EVENTS]);

impl EventTable {
    fn new() -> Self {
        // INVARIANT: All entries are null.
        EventTable([const { AtomicPtr::new(ptr::null_mut()) }; MAX_EVENTS])
    }

    /// Puts an event that is being added, or is on this CPU, at `index`.
    ///
    /// Fails with `EINVAL` if there is no such place and with `EBUSY` if it is
    /// taken, or the event has one.
    pub(crate) fn insert(&self, index: usize, event: &Event) -> Result {
        let entry = self.0.get(index).ok_or(EINVAL)?;
        if !entry.load(Relaxed).is_null() || event.index().is_some() {
            return Err(EBUSY);
        }
        event.set_index(Some(index));
        // INVARIANT: References to events are handed out by callbacks of perf for events that are
        // on this CPU or being added to it, and by this table. The event is in no other entry,
        // for it had no index, and `remove` takes it out of this one: `del` ends with that, and
        // so does `add` if it fails.
        entry.store(event.as_raw(), Relaxed);
        Ok(())
    }

    /// Takes the event out, if it is in.
    pub(crate) fn remove(&self, event: &Event) {
        if let Some(entry) = event.index().and_then(|index| self.0.get(index)) {
            if entry.load(Relaxed) == event.as_raw() {
                entry.store(ptr::null_mut(), Relaxed);
            }
        }
        event.set_index(None);
    }

    /// The event at `index`.
    pub(crate) fn get(&self, index: usize) -> Option<&Event> {
        let event = self.0.get(index)?.load(Relaxed);
        if event.is_null() {
            return None;
        }
        // SAFETY: By the type invariant the event is on this CPU. It leaves it by `del`, which
        // runs here with IRQs disabled: not while a callback or an NMI handler has the table.
        Some(unsafe { Event::from_raw(event) })
    }
}

/// A CPU as a PMU sees it: the events on it and the driver's state for it.
pub(crate) struct OnCpu<'a, T: Pmu> {
    slot: &'a Slot<T>,
}

impl<'a, T: Pmu> OnCpu<'a, T> {
    /// The events on this CPU.
    pub(crate) fn events(&self) -> &'a EventTable {
        &self.slot.events
    }

    /// The driver's state for this CPU.
    pub(crate) fn state(&self) -> &'a T::Cpu {
        &self.slot.state
    }
}

pub(super) struct Slot<T: Pmu> {
    events: EventTable,
    state: T::Cpu,
    schedule: UnsafeCell<T::Schedule>,
}

/// A PMU's data for each CPU.
///
/// # Invariants
///
/// `slots` is a per-CPU allocation, initialised for each possible CPU.
pub(crate) struct PerCpu<T: Pmu> {
    slots: NonNull<Slot<T>>,
}

// SAFETY: `T::Cpu` and the events are `Sync`; the schedule is accessed by the CPU that it belongs
// to, exclusively, see `with_schedule`, and is `Send`.
unsafe impl<T: Pmu> Sync for PerCpu<T> {}
// SAFETY: What it owns is `Send`.
unsafe impl<T: Pmu> Send for PerCpu<T> {}

/// The possible CPUs.
fn possible_cpus() -> impl Iterator<Item = u32> {
    let mut next = 0;
    core::iter::from_fn(move || {
        // SAFETY: No preconditions; the set of possible CPUs is constant.
        let cpu = unsafe { bindings::rust_perf_next_possible_cpu(next) };
        next = cpu + 1;
        (cpu < nr_cpu_ids()).then_some(cpu)
    })
}

impl<T: Pmu> PerCpu<T> {
    /// Allocates the data for all CPUs. Task context, may sleep.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: No preconditions; the size is not 0 for the table in it.
        let slots = unsafe {
            bindings::rust_perf_alloc_percpu(size_of::<Slot<T>>(), align_of::<Slot<T>>())
        };
        let slots = NonNull::new(slots.cast::<Slot<T>>()).ok_or(ENOMEM)?;
        for cpu in possible_cpus() {
            // SAFETY: `cpu` is possible, so this is its part of the allocation, which nobody else
            // has yet.
            unsafe {
                Self::slot_ptr(slots, cpu).write(Slot {
                    events: EventTable::new(),
                    state: T::Cpu::default(),
                    schedule: UnsafeCell::new(T::Schedule::default()),
                })
            };
        }
        // INVARIANT: Allocated and initialised just now.
        Ok(PerCpu { slots })
    }

    /// # Safety
    ///
    /// `slots` must be a per-CPU allocation, and `cpu` possible.
    unsafe fn slot_ptr(slots: NonNull<Slot<T>>, cpu: u32) -> *mut Slot<T> {
        // SAFETY: By the caller.
        unsafe { bindings::rust_perf_per_cpu_ptr(slots.as_ptr().cast(), cpu) }.cast()
    }

    /// The driver's state for `cpu`.
    ///
    /// # Safety
    ///
    /// `cpu` must be possible.
    pub(super) unsafe fn state_of(&self, cpu: u32) -> &T::Cpu {
        // SAFETY: By the caller, this is an initialised part of the allocation.
        unsafe { &(*Self::slot_ptr(self.slots, cpu)).state }
    }

    fn slot(&self) -> &Slot<T> {
        // SAFETY: By the type invariant, this points to this CPU's initialised part.
        unsafe { &*bindings::rust_perf_this_cpu_ptr(self.slots.as_ptr().cast()).cast() }
    }

    /// This CPU, as an interrupt or NMI handler sees it.
    pub(crate) fn this<'a>(&'a self, _: &'a Regs<'_>) -> OnCpu<'a, T> {
        OnCpu { slot: self.slot() }
    }

    /// This CPU, as a callback sees it.
    ///
    /// # Safety
    ///
    /// The caller must not leave this CPU while it has the result.
    pub(super) unsafe fn current(&self) -> OnCpu<'_, T> {
        OnCpu { slot: self.slot() }
    }

    /// Calls `f` with this CPU and its schedule.
    ///
    /// # Safety
    ///
    /// To be called with IRQs disabled, not in an NMI, and not by `f`.
    pub(super) unsafe fn with_schedule<R>(
        &self,
        f: impl FnOnce(&OnCpu<'_, T>, &mut T::Schedule) -> R,
    ) -> R {
        let slot = self.slot();
        // SAFETY: Only this function accesses the schedule, and by the caller it is not entered
        // again on this CPU before it returns: not by an NMI, not by IRQs, nor by `f`. Other CPUs
        // have their own.
        let schedule = unsafe { &mut *slot.schedule.get() };
        f(&OnCpu { slot }, schedule)
    }

    /// Calls `f` on each CPU that is online and for which `wanted` holds, with
    /// IRQs disabled there, and waits for all to be done. Other CPUs are not
    /// interrupted. Task context, may sleep.
    pub(crate) fn on_each<W, F>(&self, wanted: W, f: F)
    where
        W: Fn(&T::Cpu) -> bool,
        F: Fn(&OnCpu<'_, T>) + Sync,
    {
        struct Call<'a, T: Pmu, W, F> {
            cpus: &'a PerCpu<T>,
            wanted: W,
            f: F,
        }

        /// # Safety
        ///
        /// `info` must be a `Call<T, W, F>`, and `cpu` possible.
        unsafe extern "C" fn wanted_on<T: Pmu, W: Fn(&T::Cpu) -> bool, F>(
            cpu: c_int,
            info: *mut c_void,
        ) -> bool {
            // SAFETY: By the caller.
            let call = unsafe { &*info.cast::<Call<'_, T, W, F>>() };
            // SAFETY: By the caller.
            (call.wanted)(unsafe { call.cpus.state_of(cpu as u32) })
        }

        /// # Safety
        ///
        /// `info` must be a `Call<T, W, F>`, and IRQs disabled.
        unsafe extern "C" fn call<T: Pmu, W, F: Fn(&OnCpu<'_, T>)>(info: *mut c_void) {
            // SAFETY: By the caller.
            let call = unsafe { &*info.cast::<Call<'_, T, W, F>>() };
            // SAFETY: IRQs are disabled, so this stays on its CPU.
            (call.f)(&unsafe { call.cpus.current() });
        }

        let mut info = Call {
            cpus: self,
            wanted,
            f,
        };
        // SAFETY: Both functions get `info`, which lives until all CPUs are done with it; the
        // first is called here, the second with IRQs disabled on each CPU.
        unsafe {
            bindings::rust_perf_on_each_cpu_cond(
                Some(wanted_on::<T, W, F>),
                Some(call::<T, W, F>),
                core::ptr::from_mut(&mut info).cast(),
            )
        };
    }
}

impl<T: Pmu> Drop for PerCpu<T> {
    fn drop(&mut self) {
        for cpu in possible_cpus() {
            // SAFETY: Initialised in `new`, and not accessed any more.
            unsafe { Self::slot_ptr(self.slots, cpu).drop_in_place() };
        }
        // SAFETY: Allocated in `new`.
        unsafe { bindings::rust_perf_free_percpu(self.slots.as_ptr().cast()) };
    }
}
