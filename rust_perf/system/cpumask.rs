// SPDX-License-Identifier: GPL-2.0

//! Sets of CPUs.
//!
//! C header: `include/linux/cpumask.h`.

use super::irq::IrqsDisabled;
use crate::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;

/// A set of CPUs, which may change at any time.
///
/// # Invariants
///
/// `mask` is an allocated cpumask. Only atomic operations on single bits change it.
pub struct CpuMask {
    mask: NonNull<bindings::cpumask>,
}

// SAFETY: By the type invariant all changes are atomic, and the allocation belongs to no thread.
unsafe impl Send for CpuMask {}
// SAFETY: By the type invariant all changes are atomic.
unsafe impl Sync for CpuMask {}

impl CpuMask {
    /// The empty set. Task context, may sleep.
    pub fn new() -> Result<Self> {
        // SAFETY: The function allocates, and may sleep here.
        let mask = unsafe { bindings::rust_perf_cpumask_alloc() };
        // INVARIANT: Just allocated, and zeroed, which is the empty set.
        Ok(CpuMask {
            mask: NonNull::new(mask).ok_or(ENOMEM)?,
        })
    }

    /// Adds the CPU that the code runs on to the set, or removes it.
    pub fn assign_this_cpu(&self, _: IrqsDisabled<'_>, member: bool) {
        // SAFETY: `mask` is allocated by the type invariant, and the code stays on this CPU.
        unsafe { bindings::rust_perf_cpumask_assign_this_cpu(self.mask.as_ptr(), member) };
    }

    /// Whether a CPU is in the set. Any number may be passed. Any context.
    pub fn contains(&self, cpu: u32) -> bool {
        // SAFETY: `mask` is allocated by the type invariant, and the function checks `cpu`.
        unsafe { bindings::rust_perf_cpumask_test(self.mask.as_ptr(), cpu) }
    }

    /// Whether a CPU is in the set, and online. Any number may be passed. Any context.
    pub fn contains_online(&self, cpu: u32) -> bool {
        // SAFETY: The function checks `cpu`.
        self.contains(cpu) && unsafe { bindings::rust_perf_cpu_online(cpu) }
    }

    /// The set as C has it, valid as long as `self`.
    pub(crate) fn as_ptr(&self) -> *const bindings::cpumask {
        self.mask.as_ptr()
    }
}

impl Drop for CpuMask {
    fn drop(&mut self) {
        // SAFETY: `mask` was allocated by `new()`, and nobody uses it any more.
        unsafe { bindings::rust_perf_cpumask_free(self.mask.as_ptr()) };
    }
}
