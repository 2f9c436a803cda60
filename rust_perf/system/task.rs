// SPDX-License-Identifier: GPL-2.0

//! Tasks that are the object of something that is traced.

use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

/// A task (`struct task_struct`).
///
/// # Invariants
///
/// The task lives for `'a`.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    raw: NonNull<bindings::task_struct>,
    _lifetime: PhantomData<&'a ()>,
}

impl Task<'_> {
    /// # Safety
    ///
    /// The task must live while the value exists.
    pub(crate) unsafe fn from_raw(raw: NonNull<bindings::task_struct>) -> Self {
        // INVARIANT: By the safety requirement.
        Task {
            raw,
            _lifetime: PhantomData,
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::task_struct {
        self.raw.as_ptr()
    }

    /// Whether this is the task that the code runs in.
    pub fn is_current(&self) -> bool {
        // SAFETY: The pointer is only compared.
        unsafe { bindings::rust_perf_is_current(self.as_ptr()) }
    }

    /// Whether the task has migrated to another CPU since it last ran. The kernel keeps this
    /// only while something counts migrations, see
    /// [`KernelCounter`](crate::perf::KernelCounter).
    pub fn has_migrated(&self) -> bool {
        // SAFETY: The task lives by the type invariant.
        unsafe { bindings::rust_perf_sched_migrated(self.as_ptr()) }
    }
}
