// SPDX-License-Identifier: GPL-2.0

//! Address spaces of tasks.
//!
//! C header: `include/linux/sched.h`.

use kernel::{
    bindings,
    task::Task, //
};

/// An address space, by its identity only: it may be gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AddressSpace(*const bindings::mm_struct);

impl AddressSpace {
    /// `mm` is not accessed.
    pub(super) fn from_raw(mm: *const bindings::mm_struct) -> Self {
        AddressSpace(mm)
    }

    /// That of the current task. Task context.
    pub fn current() -> Self {
        // SAFETY: The current task is valid, and only it changes the field.
        AddressSpace(unsafe { (*Task::current_raw()).mm })
    }

    /// That of `task`, unless the task changes it at the same time. A kernel thread and a
    /// task that has exited have none, which compares like any other.
    pub fn of(task: &Task) -> Self {
        // SAFETY: The task is valid. The field is an aligned word, and what it points to is not
        // accessed.
        AddressSpace(unsafe { (&raw const (*task.as_ptr()).mm).read_volatile() })
    }
}
