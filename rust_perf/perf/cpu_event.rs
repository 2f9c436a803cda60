// SPDX-License-Identifier: GPL-2.0

//! Events that are on the CPU that the code runs on.

use super::{
    table::EventTable,
    Event,
    OnCpu,
    Pmu, //
};
use crate::{
    bindings,
    system::irq::IrqsDisabled, //
};
use core::{
    arch::asm,
    marker::PhantomData,
    ops::Deref,
    ptr::addr_of_mut, //
};
use kernel::prelude::*;

/// An event that is on the CPU that the code runs on.
///
/// # Invariants
///
/// perf has added the event to this CPU, and its `del` has not returned. The type
/// is neither `Send` nor `Sync`.
pub struct CpuEvent<'a, T> {
    event: &'a Event<T>,
    _this_cpu: PhantomData<*mut ()>,
}

impl<T> Clone for CpuEvent<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for CpuEvent<'_, T> {}

impl<T> Deref for CpuEvent<'_, T> {
    type Target = Event<T>;

    fn deref(&self) -> &Event<T> {
        self.event
    }
}

/// An instruction on the state of the [`CpuEvent`] `self` and the operand `value`. It is one, because an
/// NMI may stop the event: it comes before or after.
macro_rules! change_state {
    ($instruction:literal, $self:ident, $value:expr) => {
        // SAFETY: An aligned word of the event, which only this CPU and its NMIs access. The instruction
        // accesses nothing else. The block is not `nomem`: NMIs depend on the order.
        unsafe {
            asm!(
                concat!($instruction, " dword ptr [{state}], {value:e}"),
                state = in(reg) addr_of_mut!((*$self.hw()).state),
                value = in(reg) $value,
                options(nostack),
            )
        }
    };
}

impl<'a, T: Pmu> CpuEvent<'a, T> {
    /// # Safety
    ///
    /// perf must have added the event to the CPU that the code runs on, or be adding
    /// it, and must not delete it during `'a`. The code must stay on that CPU during
    /// `'a`.
    pub(super) unsafe fn new(event: &'a Event<T>) -> Self {
        // INVARIANT: By the safety requirement.
        CpuEvent {
            event,
            _this_cpu: PhantomData,
        }
    }

    /// Whether the event is stopped (`PERF_HES_STOPPED`).
    pub fn is_stopped(&self) -> bool {
        self.state() & bindings::PERF_HES_STOPPED != 0
    }

    /// Whether the event's count includes all that the hardware has counted
    /// (`PERF_HES_UPTODATE`).
    pub fn is_up_to_date(&self) -> bool {
        self.state() & bindings::PERF_HES_UPTODATE != 0
    }

    /// Whether perf has throttled the event.
    pub fn is_throttled(&self) -> bool {
        // SAFETY: A word of the event that perf changes on the event's CPU. The value is
        // `MAX_INTERRUPTS` of `kernel/events/core.c`.
        unsafe { addr_of_mut!((*self.hw()).interrupts).read_volatile() == u64::MAX }
    }

    /// Marks the event as running.
    pub fn set_running(&self) {
        self.set_state(0);
    }

    /// Marks the event as stopped.
    pub fn set_stopped(&self) {
        change_state!("or", self, bindings::PERF_HES_STOPPED);
    }

    /// Marks the event as stopped, and its count as including all that the hardware has counted.
    pub fn set_stopped_up_to_date(&self) {
        self.set_state(bindings::PERF_HES_STOPPED | bindings::PERF_HES_UPTODATE);
    }

    /// Marks the event's count as including all that the hardware has counted.
    pub fn set_up_to_date(&self) {
        change_state!("or", self, bindings::PERF_HES_UPTODATE);
    }

    /// Marks the event's count as not including all that the hardware has counted.
    pub fn set_not_up_to_date(&self) {
        change_state!("and", self, !bindings::PERF_HES_UPTODATE);
    }

    /// Begins a period, after which a sample is due. An event that is counted one by one, such
    /// as that of an [`EventList`](super::EventList), does this in [`Pmu::add`].
    pub fn begin_period(&self) {
        let period = self.period();
        self.set_last_period(period);
        // What is left counts up to 0. After a period has ended, it is 0 or more.
        let left = self.period_left().get() as i64;
        if let Some(over) = u64::try_from(left)
            .ok()
            .and_then(|left| left.checked_rem(period))
        {
            self.period_left().set(over.wrapping_sub(period));
        }
    }

    fn state(&self) -> u32 {
        // SAFETY: An aligned word of the event, which only this CPU and its NMIs access.
        unsafe { addr_of_mut!((*self.hw()).state).read_volatile() as u32 }
    }

    fn set_state(&self, state: u32) {
        // SAFETY: An aligned word of the event, which only this CPU and its NMIs access.
        unsafe { addr_of_mut!((*self.hw()).state).write_volatile(state as i32) }
    }
}

/// An event that perf is adding to this CPU. It exists in [`Pmu::add`] only.
pub struct AddedEvent<'a, T: Pmu> {
    event: CpuEvent<'a, T>,
    on: OnCpu<'a, T>,
}

impl<T: Pmu> Clone for AddedEvent<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pmu> Copy for AddedEvent<'_, T> {}

impl<'a, T: Pmu> Deref for AddedEvent<'a, T> {
    type Target = CpuEvent<'a, T>;

    fn deref(&self) -> &CpuEvent<'a, T> {
        &self.event
    }
}

impl<'a, T: Pmu> AddedEvent<'a, T> {
    /// `on` must be the CPU that `event` is being added to.
    pub(super) fn new(event: CpuEvent<'a, T>, on: OnCpu<'a, T>) -> Self {
        AddedEvent { event, on }
    }

    pub(super) fn irqs_disabled(&self) -> IrqsDisabled<'a> {
        self.on.irqs_disabled()
    }
}

impl<T, const N: usize> AddedEvent<'_, T>
where
    T: Pmu<Events = EventTable<T, N>>,
{
    /// Puts the event into this CPU's table, where it stays until it is deleted, or
    /// until [`Pmu::add`] fails.
    ///
    /// Fails with `EINVAL` if the table has no place `index`, and with `EBUSY` if the
    /// place is taken or the event has one.
    pub fn insert(&self, index: usize) -> Result {
        self.on.table().insert(index, self)
    }

    /// Moves another event of this CPU's table from `from` to `to`, to make room for this
    /// one. Does nothing if there is no event at `from`, or one at `to`.
    pub fn move_other(&self, from: usize, to: usize) {
        self.on.table().move_event(from, to);
    }
}
