// SPDX-License-Identifier: GPL-2.0

//! What a PMU keeps with a task while the task is on no CPU.

use super::{
    NewEvent,
    Pmu, //
};
use crate::{
    bindings,
    system::{
        irq::IrqsDisabled,
        local::LocalWord, //
    }, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a PMU may keep with a task: words, which are 0 at first.
///
/// # Safety
///
/// The type must consist of [`LocalWord`]s, and must not need to be dropped.
pub unsafe trait TaskData: Send + Sync + 'static {}

// SAFETY: It consists of `LocalWord`s.
unsafe impl<const N: usize> TaskData for [LocalWord; N] {}

/// A cache of objects, as perf sees it.
///
/// # Invariants
///
/// `0` is a cache.
pub struct RawTaskCache(NonNull<bindings::kmem_cache>);

// SAFETY: The kernel synchronises accesses to the cache.
unsafe impl Send for RawTaskCache {}
// SAFETY: The kernel synchronises accesses to the cache.
unsafe impl Sync for RawTaskCache {}

impl RawTaskCache {
    pub(super) fn as_ptr(&self) -> *mut bindings::kmem_cache {
        self.0.as_ptr()
    }
}

impl Drop for RawTaskCache {
    fn drop(&mut self) {
        // SAFETY: This is the cache, by the type invariant. A registration keeps it until its PMU is
        // unregistered. By then all events are gone, and perf has freed their objects, or will after a
        // grace period, which the function waits for. This relies on `perf_event_alloc_task_data()`, which
        // keeps a pointer to the cache for longer if a fork is preempted there: the last event must not be
        // closed, and the module unloaded, in that time. This is task context: only there is a
        // registration dropped.
        unsafe { bindings::rust_perf_task_cache_destroy(self.as_ptr()) };
    }
}

/// Where perf allocates what PMUs keep with tasks. perf keeps it with a task while there is an
/// event that asks for it ([`NewEvent::keep_task_data`]): one of that task, or one of a CPU.
///
/// perf has one pointer for each task, so that PMUs of a module share a cache. The data of another
/// cache is never taken for that of this one.
///
/// # Invariants
///
/// The objects of the cache have the size and the alignment of `D`.
pub struct TaskCache<D> {
    cache: Arc<RawTaskCache>,
    _data: PhantomData<fn() -> D>,
}

impl<D> Clone for TaskCache<D> {
    fn clone(&self) -> Self {
        TaskCache {
            cache: self.cache.clone(),
            _data: PhantomData,
        }
    }
}

impl<D: TaskData> TaskCache<D> {
    /// Creates a cache. Task context, may sleep.
    pub fn new() -> Result<Self> {
        // SAFETY: This is task context.
        let cache =
            unsafe { bindings::rust_perf_task_cache_create(size_of::<D>(), align_of::<D>()) };
        // INVARIANT: It is a cache if it is not null.
        let raw = RawTaskCache(NonNull::new(cache).ok_or(ENOMEM)?);
        // INVARIANT: The cache was just created for a `D`.
        Ok(TaskCache {
            cache: Arc::new(raw, GFP_KERNEL)?,
            _data: PhantomData,
        })
    }

    /// The cache, for [`Scope::task_data`](super::Scope::task_data).
    pub fn raw(&self) -> Arc<RawTaskCache> {
        self.cache.clone()
    }
}

/// A task that comes to the CPU that the code runs on, or leaves it.
pub struct SwitchedTask<'a> {
    task: NonNull<bindings::task_struct>,
    _irqs: IrqsDisabled<'a>,
}

impl<'a> SwitchedTask<'a> {
    /// # Safety
    ///
    /// perf must be switching `task` to or from the CPU that the code runs on.
    pub(super) unsafe fn new(task: NonNull<bindings::task_struct>, irqs: IrqsDisabled<'a>) -> Self {
        SwitchedTask { task, _irqs: irqs }
    }

    /// How often the task has left a CPU, this time included.
    pub fn switches(&self) -> u64 {
        // SAFETY: perf is switching the task, so that it exists, and nothing else changes these words.
        unsafe { bindings::rust_perf_task_switches(self.task.as_ptr()) }
    }

    /// What PMUs keep with the task, if an event has asked for it.
    pub fn data<D: TaskData>(&self, cache: &TaskCache<D>) -> Option<&D> {
        // SAFETY: perf is switching the task, so that it exists. With interrupts disabled the code is an
        // RCU reader.
        let data =
            unsafe { bindings::rust_perf_task_data(self.task.as_ptr(), cache.cache.as_ptr()) };
        // SAFETY: If it is not null, perf has allocated it in the cache, zeroed, for a `D`, and frees it
        // after a grace period. It consists of words, which may be shared.
        NonNull::new(data.cast()).map(|data| unsafe { data.as_ref() })
    }
}

impl<T: Pmu> NewEvent<'_, T> {
    /// Has perf keep data with the event's task, or with all tasks if the event is of a CPU. The PMU
    /// must have a cache: otherwise the event fails with `ENOMEM`.
    pub fn keep_task_data(&self) {
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet.
        unsafe { (*self.event().as_raw()).attach_state |= bindings::PERF_ATTACH_TASK_DATA };
    }
}
