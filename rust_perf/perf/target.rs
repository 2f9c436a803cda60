// SPDX-License-Identifier: GPL-2.0

//! Events of tasks that do not run here.
//!
//! Some things happen to a task while another runs, such as that it is woken up. The
//! events of that task are on no list then.

use super::{
    list::{
        EventList,
        Listed, //
    },
    Event,
    Pmu, //
};
use crate::{
    bindings,
    system::{
        irq::PreemptDisabled,
        task::Task, //
    }, //
};
use core::ptr::{
    self,
    addr_of_mut,
    NonNull, //
};
use kernel::{
    cpu::CpuId,
    error::from_err_ptr,
    ffi::c_void,
    prelude::*, //
};

/// Which events of a task count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BoundTo {
    /// Those that are bound to this CPU as well, which is why no other CPU counts for
    /// them.
    ThisCpu,
    /// Those that would count if the task ran here.
    ThisCpuOrNone,
}

impl<T: Pmu<Events = Listed>> EventList<T> {
    /// Counts something `count` times for the events of `task` for which `belongs` holds
    /// and which are enabled. It takes no samples.
    ///
    /// Any context but an NMI. The lock of the task's events must not be held.
    pub fn count_for_task<F>(
        &self,
        preempt: PreemptDisabled<'_>,
        task: Task<'_>,
        bound: BoundTo,
        count: u64,
        belongs: F,
    ) where
        F: Fn(&Event<T>) -> bool,
    {
        struct Visit<F> {
            pmu: *mut bindings::pmu,
            cpu: i32,
            bound: BoundTo,
            count: u64,
            belongs: F,
        }

        /// # Safety
        ///
        /// `visit` must be a `Visit<F>`, and its `pmu` that of a `Registration<T>`. `event`
        /// must be an open event, whose context is locked.
        unsafe extern "C" fn visit<T: Pmu, F: Fn(&Event<T>) -> bool>(
            event: *mut bindings::perf_event,
            visit: *mut c_void,
        ) {
            // SAFETY: By the safety requirement.
            let visit = unsafe { &*visit.cast::<Visit<F>>() };
            // SAFETY: The event is open, and so is the leader of its group. These words do not change
            // while their context is locked.
            let (pmu, cpu, state, leader) = unsafe {
                let leader = addr_of_mut!((*event).group_leader).read();
                (
                    addr_of_mut!((*event).pmu).read(),
                    addr_of_mut!((*event).cpu).read(),
                    addr_of_mut!((*event).state).read_volatile(),
                    addr_of_mut!((*leader).state).read_volatile(),
                )
            };
            // perf marks only the leader of a group as disabled.
            let state = state.min(leader);
            let is_bound = cpu == visit.cpu || (cpu == -1 && visit.bound == BoundTo::ThisCpuOrNone);
            if pmu != visit.pmu
                || !is_bound
                || state < bindings::perf_event_state_PERF_EVENT_STATE_INACTIVE
            {
                return;
            }
            // SAFETY: Its PMU is that of a `Registration<T>`, and it is in a context, so that its
            // `event_init` has returned.
            let event = unsafe { Event::<T>::from_raw(event) };
            let attr = event.attr();
            if !attr.exclude_kernel() && !attr.sends_signals() && (visit.belongs)(event) {
                event.count().add(visit.count);
            }
        }

        let _ = preempt;
        let mut info = Visit {
            pmu: self.pmu(),
            cpu: CpuId::current().as_u32() as i32,
            bound,
            count,
            belongs,
        };
        // SAFETY: The task lives. `info` is what the function expects, and lives until this returns.
        unsafe {
            bindings::rust_perf_for_each_task_event(
                task.as_ptr(),
                Some(visit::<T, F>),
                (&raw mut info).cast(),
            )
        };
    }
}

/// An event of perf's own software PMU that the kernel holds, disabled. It makes the kernel
/// do the bookkeeping that such events need.
///
/// # Invariants
///
/// `raw` is an event that only this owns.
pub struct KernelCounter {
    raw: NonNull<bindings::perf_event>,
}

// SAFETY: perf synchronises accesses to the event, and any task may release it.
unsafe impl Send for KernelCounter {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl Sync for KernelCounter {}

impl KernelCounter {
    /// An event that counts migrations.
    ///
    /// Task context, may sleep. Neither here nor where it is dropped may `mmap_lock` or a
    /// lock of a perf context be held. So do not drop it in [`Pmu::event_destroy`]: perf
    /// may call that when a page is unmapped.
    pub fn of_migrations() -> Result<Self> {
        let mut attr = bindings::perf_event_attr {
            type_: bindings::perf_type_id_PERF_TYPE_SOFTWARE,
            size: size_of::<bindings::perf_event_attr>() as u32,
            config: bindings::perf_sw_ids_PERF_COUNT_SW_CPU_MIGRATIONS.into(),
            ..Default::default()
        };
        attr.set_disabled(1);
        let cpu = CpuId::current().as_u32() as i32;
        // SAFETY: `attr` is initialised. perf copies it.
        let raw = from_err_ptr(unsafe {
            bindings::perf_event_create_kernel_counter(
                &mut attr,
                cpu,
                ptr::null_mut(),
                None,
                ptr::null_mut(),
            )
        })?;
        // INVARIANT: It was just made.
        Ok(KernelCounter {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        })
    }
}

impl Drop for KernelCounter {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this is the only owner.
        unsafe { bindings::perf_event_release_kernel(self.raw.as_ptr()) };
    }
}
