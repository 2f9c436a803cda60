// SPDX-License-Identifier: GPL-2.0

//! Data that each CPU has a part of.
//!
//! C header: `include/linux/percpu.h`.

use super::irq::PreemptDisabled;
use crate::bindings;
#[cfg(CONFIG_SMP)]
use core::arch::asm;
use core::ptr::NonNull;
use kernel::{
    cpu::nr_cpu_ids,
    prelude::*, //
};

/// An `S` for each possible CPU.
///
/// # Invariants
///
/// `parts` is a per-CPU allocation that is initialised for each possible CPU.
pub struct CpuData<S> {
    parts: NonNull<S>,
}

// SAFETY: A shared reference only gives access to shared references of the parts.
unsafe impl<S: Sync> Sync for CpuData<S> {}
// SAFETY: The parts go with it.
unsafe impl<S: Send> Send for CpuData<S> {}

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

/// The part of a per-CPU allocation that is that of the CPU that the code runs on (`arch_raw_cpu_ptr()` in
/// `arch/x86/include/asm/percpu.h`).
#[cfg(CONFIG_SMP)]
fn part_of_this_cpu<S>(parts: NonNull<S>) -> *mut S {
    let mut part = parts.as_ptr();
    // SAFETY: `this_cpu_off` is a word of each CPU's, and reading it has no other effect. The asm is
    // not `pure`: the task may be on another CPU later.
    unsafe {
        asm!(
            "add {part}, qword ptr gs:[rip + this_cpu_off]",
            part = inout(reg) part,
            options(nostack, readonly),
        )
    };
    part
}

/// The part of a per-CPU allocation that is this CPU's: there is one CPU, and the allocation is its part.
#[cfg(not(CONFIG_SMP))]
fn part_of_this_cpu<S>(parts: NonNull<S>) -> *mut S {
    parts.as_ptr()
}

impl<S> CpuData<S> {
    /// Allocates a part for each CPU, as `new` makes it. Task context, may sleep.
    pub fn new(new: impl Fn() -> S) -> Result<Self> {
        // No allocation has size 0.
        let size = size_of::<S>().max(1);
        // SAFETY: The size is not 0, and the alignment is a power of two.
        let parts = unsafe { bindings::rust_perf_alloc_percpu(size, align_of::<S>()) };
        let parts = NonNull::new(parts.cast::<S>()).ok_or(ENOMEM)?;
        for cpu in possible_cpus() {
            // SAFETY: `parts` was just allocated and `cpu` is possible, so this is that CPU's part
            // of the allocation. Nobody else has it yet.
            unsafe { Self::part_ptr(parts, cpu).write(new()) };
        }
        // INVARIANT: Allocated and initialised just now.
        Ok(CpuData { parts })
    }

    /// # Safety
    ///
    /// `parts` must be a per-CPU allocation, and `cpu` possible.
    unsafe fn part_ptr(parts: NonNull<S>, cpu: u32) -> *mut S {
        // SAFETY: The safety requirement is that of `per_cpu_ptr()`.
        unsafe { bindings::rust_perf_per_cpu_ptr(parts.as_ptr().cast(), cpu) }.cast()
    }

    /// The part of the CPU that the code runs on.
    pub fn this<'a>(&'a self, _: PreemptDisabled<'a>) -> &'a S {
        // SAFETY: By the type invariant these are the parts of a per-CPU allocation, and this CPU's is
        // initialised. The code stays on this CPU for `'a`.
        unsafe { &*part_of_this_cpu(self.parts) }
    }

    /// The parts of all CPUs.
    pub fn iter(&self) -> impl Iterator<Item = &S> {
        // SAFETY: By the type invariant the part of each possible CPU is initialised.
        possible_cpus().map(|cpu| unsafe { &*Self::part_ptr(self.parts, cpu) })
    }

    /// The part of a CPU.
    ///
    /// # Safety
    ///
    /// `cpu` must be possible.
    pub unsafe fn of(&self, cpu: u32) -> &S {
        // SAFETY: By the type invariant the part of each possible CPU is initialised.
        unsafe { &*Self::part_ptr(self.parts, cpu) }
    }
}

impl<S> Drop for CpuData<S> {
    fn drop(&mut self) {
        for cpu in possible_cpus() {
            // SAFETY: `new()` initialised it, and nobody accesses it any more.
            unsafe { Self::part_ptr(self.parts, cpu).drop_in_place() };
        }
        // SAFETY: `new()` allocated it.
        unsafe { bindings::rust_perf_free_percpu(self.parts.as_ptr().cast()) };
    }
}
