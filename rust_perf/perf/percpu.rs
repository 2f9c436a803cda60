// SPDX-License-Identifier: GPL-2.0

//! What a PMU keeps for each CPU.

use super::{
    table::{
        EventSet,
        EventTable, //
    },
    CpuEvent,
    Event,
    Pmu, //
};
use crate::{
    bindings,
    system::irq::{
        self,
        IrqsDisabled, //
    }, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    cpu::nr_cpu_ids,
    prelude::*, //
};

/// A PMU's view of the CPU that the code runs on: the events on it, and the
/// driver's state for it.
pub struct OnCpu<'a, T: Pmu> {
    slot: &'a Slot<T>,
    /// Keeps the code on this CPU, and this value as well.
    irqs: IrqsDisabled<'a>,
}

impl<'a, T: Pmu> OnCpu<'a, T> {
    /// The driver's state for this CPU.
    pub fn state(&self) -> &'a T::Cpu {
        &self.slot.state
    }

    /// Proof that interrupts are disabled.
    pub fn irqs_disabled(&self) -> IrqsDisabled<'a> {
        self.irqs
    }

    pub(super) fn table(&self) -> &T::Events {
        &self.slot.events
    }

    /// Drops the event from this CPU's set: perf may free it after this.
    pub(super) fn forget(&self, event: &Event<T>) {
        self.slot.events.forget(event);
    }
}

impl<T, const N: usize> OnCpu<'_, T>
where
    T: Pmu<Events = EventTable<T, N>>,
{
    /// The event at `index` of this CPU's table. Any context.
    pub fn event(&self, index: usize) -> Option<CpuEvent<'_, T>> {
        // SAFETY: This is the slot of the CPU that the code runs on, and it stays there while `self`
        // exists, because interrupts are disabled. perf deletes an event only on this CPU with
        // interrupts disabled, through `del` or a failed `add`. Neither returns while `self` exists,
        // unless `self` was made in it.
        unsafe { self.slot.events.get(index) }
    }
}

struct Slot<T: Pmu> {
    events: T::Events,
    state: T::Cpu,
    schedule: UnsafeCell<T::Schedule>,
}

/// A PMU's data for each CPU.
///
/// # Invariants
///
/// `slots` is a per-CPU allocation that is initialised for each possible CPU.
pub struct PerCpu<T: Pmu> {
    slots: NonNull<Slot<T>>,
}

// SAFETY: `T::Cpu` and `T::Events` are `Sync`. The schedule is `Send`, and accessed exclusively, by
// its own CPU (see `with_schedule`).
unsafe impl<T: Pmu> Sync for PerCpu<T> {}
// SAFETY: Everything that it owns is `Send`.
unsafe impl<T: Pmu> Send for PerCpu<T> {}

/// The possible CPUs.
fn possible_cpus() -> impl Iterator<Item = u32> {
    let mut next = 0;
    core::iter::from_fn(move || {
        // SAFETY: The set of possible CPUs does not change after boot, and any number may be
        // passed.
        let cpu = unsafe { bindings::rust_perf_next_possible_cpu(next) };
        next = cpu.wrapping_add(1);
        (cpu < nr_cpu_ids()).then_some(cpu)
    })
}

impl<T: Pmu> PerCpu<T> {
    /// Allocates the data for all CPUs. Task context, may sleep.
    pub(super) fn new() -> Result<Self> {
        // A driver may keep nothing, but no allocation has size 0.
        let size = size_of::<Slot<T>>().max(1);
        // SAFETY: The size is not 0, and the alignment is a power of two.
        let slots = unsafe { bindings::rust_perf_alloc_percpu(size, align_of::<Slot<T>>()) };
        let slots = NonNull::new(slots.cast::<Slot<T>>()).ok_or(ENOMEM)?;
        for cpu in possible_cpus() {
            // SAFETY: `slots` was just allocated and `cpu` is possible, so this is that CPU's part
            // of the allocation. Nobody else has it yet.
            unsafe {
                Self::slot_ptr(slots, cpu).write(Slot {
                    events: T::Events::new(),
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
        // SAFETY: The safety requirement is that of `per_cpu_ptr()`.
        unsafe { bindings::rust_perf_per_cpu_ptr(slots.as_ptr().cast(), cpu) }.cast()
    }

    /// The CPU that the code runs on.
    pub fn this<'a>(&'a self, irqs: IrqsDisabled<'a>) -> OnCpu<'a, T> {
        if size_of::<Slot<T>>() == 0 {
            // Nothing is kept, so there is no need to look for it.
            // SAFETY: All CPUs' parts are initialised, and a value without a size may be at any
            // address that is aligned.
            let slot = unsafe { NonNull::dangling().as_ref() };
            return OnCpu { slot, irqs };
        }
        // SAFETY: By the type invariant this points to this CPU's initialised part.
        let slot = unsafe { &*bindings::rust_perf_this_cpu_ptr(self.slots.as_ptr().cast()).cast() };
        OnCpu { slot, irqs }
    }

    /// Calls `f` with the CPU that the code runs on, and its schedule.
    ///
    /// # Safety
    ///
    /// Must not be called in an NMI, nor by `f`.
    pub(super) unsafe fn with_schedule<R>(
        &self,
        irqs: IrqsDisabled<'_>,
        f: impl FnOnce(&OnCpu<'_, T>, &mut T::Schedule) -> R,
    ) -> R {
        let on = self.this(irqs);
        // SAFETY: Only this function accesses the schedule, which belongs to this CPU. It cannot be
        // entered again on this CPU before it returns: interrupts are disabled, and by the safety
        // requirement neither an NMI nor `f` calls it.
        let schedule = unsafe { &mut *on.slot.schedule.get() };
        f(&on, schedule)
    }

    /// Calls `f` on each online CPU for whose state `wanted` holds, with interrupts
    /// disabled there, and waits for all of them. The other CPUs are not interrupted.
    /// Task context, may sleep.
    pub fn on_each<W, F>(&self, wanted: W, f: F)
    where
        W: Fn(&T::Cpu) -> bool,
        F: Fn(&OnCpu<'_, T>) + Sync,
    {
        irq::on_each_cpu(
            // SAFETY: `on_each_cpu()` passes the numbers of possible CPUs, whose parts of the
            // allocation are initialised. The state is `Sync`.
            |cpu| wanted(unsafe { &(*Self::slot_ptr(self.slots, cpu)).state }),
            |irqs| f(&self.this(irqs)),
        );
    }
}

impl<T: Pmu> Drop for PerCpu<T> {
    fn drop(&mut self) {
        for cpu in possible_cpus() {
            // SAFETY: `new()` initialised it, and nobody accesses it any more.
            unsafe { Self::slot_ptr(self.slots, cpu).drop_in_place() };
        }
        // SAFETY: `new()` allocated it.
        unsafe { bindings::rust_perf_free_percpu(self.slots.as_ptr().cast()) };
    }
}
