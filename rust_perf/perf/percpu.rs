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
use crate::system::{
    irq::{
        self,
        IrqsDisabled, //
    },
    percpu::CpuData, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull,
    sync::atomic::{
        fence,
        Ordering::SeqCst, //
    }, //
};
use kernel::prelude::*;

/// A PMU's view of the CPU that the code runs on: the events on it, and the
/// driver's state for it.
///
/// It is passed by value where it matters that it stays in registers.
pub struct OnCpu<'a, T: Pmu> {
    slot: &'a Slot<T>,
    /// Keeps the code on this CPU, and this value as well.
    irqs: IrqsDisabled<'a>,
}

impl<T: Pmu> Clone for OnCpu<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pmu> Copy for OnCpu<'_, T> {}

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

impl<'a, T, const N: usize> OnCpu<'a, T>
where
    T: Pmu<Events = EventTable<T, N>>,
{
    /// The event at `index` of this CPU's table. Any context.
    #[inline]
    pub fn event(self, index: usize) -> Option<CpuEvent<'a, T>> {
        // SAFETY: This is the slot of the CPU that the code runs on, and it stays there for `'a`,
        // because interrupts are disabled. perf deletes an event only on this CPU with interrupts
        // disabled, through `del` or a failed `add`. Neither returns to perf within `'a`: it began
        // before, in which case code that is interrupted cannot go on, or the driver's callback within
        // it has the `OnCpu`, and cannot keep what borrows for `'a` when it returns.
        unsafe { self.slot.events.get(index) }
    }
}

struct Slot<T: Pmu> {
    events: T::Events,
    state: T::Cpu,
    schedule: UnsafeCell<T::Schedule>,
}

/// A PMU's data for each CPU.
pub struct PerCpu<T: Pmu> {
    slots: CpuData<Slot<T>>,
}

// SAFETY: `T::Cpu` and `T::Events` are `Sync`. The schedule is `Send`, and accessed exclusively, by
// its own CPU (see `with_schedule`).
unsafe impl<T: Pmu> Sync for PerCpu<T> {}

impl<T: Pmu> PerCpu<T> {
    /// Allocates the data for all CPUs. Task context, may sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(PerCpu {
            slots: CpuData::new(|| Slot {
                events: T::Events::new(),
                state: T::Cpu::default(),
                schedule: UnsafeCell::new(T::Schedule::default()),
            })?,
        })
    }

    /// The CPU that the code runs on.
    pub fn this<'a>(&'a self, irqs: IrqsDisabled<'a>) -> OnCpu<'a, T> {
        let slot = if size_of::<Slot<T>>() == 0 {
            // Nothing is kept, so there is no need to look for it.
            // SAFETY: All CPUs' parts are initialised, and a value without a size may be at any
            // address that is aligned.
            unsafe { NonNull::dangling().as_ref() }
        } else {
            self.slots.this(irqs.into())
        };
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

    /// Calls `f` on the CPU that `event` is on, with interrupts disabled there, and waits for it. No other
    /// CPU is interrupted. If the event is on no CPU, `f` is not called. Task context, may sleep.
    ///
    /// By the time that `f` is called, the event may have left that CPU.
    pub fn on_cpu_of<F>(&self, event: &Event<T>, f: F)
    where
        F: Fn(&OnCpu<'_, T>) + Sync,
    {
        // A CPU that puts the event on a counter later is to read what the caller has written to it. The
        // other CPU has no such fence: that it may still read the old value is for the caller to allow for.
        fence(SeqCst);
        if let Some(cpu) = event.on_cpu() {
            irq::on_cpu(cpu, |irqs| f(&self.this(irqs)));
        }
    }

    /// Calls `f` on each online CPU for whose state `wanted` holds, with interrupts
    /// disabled there, and waits for all of them. The other CPUs are not interrupted.
    /// Task context, may sleep.
    ///
    /// `wanted` is called on this CPU, and again on those for which it holds. A CPU that goes offline
    /// handles the interrupt after the driver's `offline`, for example.
    pub fn on_each<W, F>(&self, wanted: W, f: F)
    where
        W: Fn(&T::Cpu) -> bool + Sync,
        F: Fn(&OnCpu<'_, T>) + Sync,
    {
        irq::on_each_cpu(
            // SAFETY: `on_each_cpu()` passes the numbers of possible CPUs. Only the state is used,
            // which is `Sync`.
            |cpu| wanted(unsafe { &self.slots.of(cpu).state }),
            |irqs| {
                let on = self.this(irqs);
                if wanted(on.state()) {
                    f(&on);
                }
            },
        );
    }
}
