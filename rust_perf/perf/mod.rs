// SPDX-License-Identifier: GPL-2.0

//! Performance monitoring units (PMUs).
//!
//! A driver implements [`Pmu`] and registers it with [`Registration`]. From then
//! on perf asks it to open, schedule, start, stop and read events. When the
//! hardware raises an interrupt because a counter has overflowed, the handler
//! gets the events of this CPU from [`PerCpu::this`], and passes a sample of each
//! to perf with [`CpuEvent::overflow`].
//!
//! This module knows no hardware, and nothing about counters.
//!
//! # Contexts
//!
//! perf calls a driver in three kinds of contexts, and the signatures tell them
//! apart:
//!
//! - Task context, may sleep: [`Pmu::event_init`], [`Pmu::event_destroy`],
//!   [`Pmu::event_mapped`], [`Pmu::event_unmapped`].
//! - On the event's CPU, interrupts disabled, perf's context lock held, never
//!   nested: [`Pmu::add`], [`Pmu::del`], [`Pmu::enable`], [`Pmu::disable`]. These
//!   have exclusive access to the CPU's [`Pmu::Schedule`].
//! - On the events' CPU, interrupts disabled, perf's context lock held, never nested:
//!   [`Pmu::task_comes`], [`Pmu::task_leaves`].
//! - On the event's CPU, interrupts disabled, or in an NMI that interrupted any of
//!   the above: [`Pmu::start`], [`Pmu::stop`], [`Pmu::read`]. These and the
//!   driver's interrupt handler share the CPU's [`Pmu::Cpu`]. They must not
//!   allocate, lock, sleep, print or panic. The same holds for
//!   [`Pmu::user_index`], which may be called in any context, on any CPU.
//! - On the events' CPU, interrupts disabled: [`Pmu::begin_group_read`],
//!   [`Pmu::end_group_read`].
//! - On the event's CPU, in a timer's interrupt: [`TimerPmu::timer_expired`], for PMUs
//!   whose events have a [`Timer`] each.
//!
//! # Groups
//!
//! perf's own transaction (`start_txn`, `commit_txn`, `cancel_txn`) adds the events
//! of a group. It disables the PMU at the start, enables it at the end, and
//! deletes what was added if one event did not fit. That is enough if
//! [`Pmu::add`] places each event at once. [`Pmu::event_init`] must refuse a
//! group that can never fit.
//!
//! A driver that has [`Pmu::begin_group_read`] is told when perf reads a group at once.
//!
//! # Not supported
//!
//! - AUX buffers and address filters.
//! - PMUs that several CPUs share (`scope` in `struct pmu`). perf would read their
//!   events on CPUs that the events are not on.
//!
//! # Examples
//!
//! A PMU that is a module of its own. `docs/write-a-pmu.md` explains it.
//!
//! ```ignore
#![doc = include_str!("../examples/switch_pmu.rs")]
//! ```
//!
//! C header: `include/linux/perf_event.h`.

use crate::{
    bindings,
    system::symbols::Symbols, //
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

mod attr;
mod branch_stack;
mod callbacks;
mod cpu_event;
mod event;
mod extra;
mod group;
mod list;
mod new_event;
mod percpu;
mod pmu;
mod record;
mod registration;
mod sample;
mod scratch;
mod switch;
mod sysfs;
mod table;
mod target;
mod task_data;
mod time;
mod timer;
mod transaction;
mod word;

pub use self::{
    attr::{
        Attr,
        Selector, //
    },
    branch_stack::{
        BranchEntry,
        BranchPrivilege,
        BranchStack,
        BranchType,
        MAX_BRANCHES, //
    },
    cpu_event::{
        AddedEvent,
        CpuEvent, //
    },
    event::Event,
    extra::ExtraRegister,
    list::{
        EventList,
        EventsHere,
        Listed, //
    },
    new_event::NewEvent,
    percpu::{
        OnCpu,
        PerCpu, //
    },
    pmu::{
        Capabilities,
        GenericEvents,
        Instance,
        OnlyOn,
        Pmu,
        PmuType,
        Scope,
        TaskContext, //
    },
    record::{
        RecordBuffers,
        Recording,
        MAX_WORDS, //
    },
    registration::Registration,
    sample::{
        Sample,
        Sampling, //
    },
    switch::TaskSwitches,
    sysfs::{
        AttributeGroups,
        File, //
    },
    table::{
        EventSet,
        EventTable, //
    },
    target::{
        BoundTo,
        KernelCounter, //
    },
    task_data::{
        RawTaskCache,
        SwitchedTask,
        TaskCache,
        TaskData, //
    },
    time::local_clock,
    timer::{
        AfterExpiry,
        Timer,
        TimerPmu, //
    },
    word::Word,
};

/// `EOPNOTSUPP`, which not every kernel has among its Rust constants: the request
/// is valid, but the PMU does not support it.
pub fn not_supported() -> Error {
    Error::from_errno(-(kernel::bindings::EOPNOTSUPP as i32))
}

/// `ENODATA`, which not every kernel has among its Rust constants.
pub fn no_data() -> Error {
    Error::from_errno(-(kernel::bindings::ENODATA as i32))
}

/// Whether a PMU of this name is registered, of whatever driver. Task context, may sleep.
///
/// Fails with `ENOENT` if the kernel does not tell where perf's bus is (`CONFIG_KALLSYMS_ALL`).
pub fn is_registered(name: &CStr) -> Result<bool> {
    let bus = Symbols::find()?.address(c"pmu_bus").ok_or(ENOENT)?;
    // SAFETY: This is perf's bus (`kernel/events/core.c`), which is registered at boot and stays. `name`
    // is a string, and this is task context.
    Ok(unsafe { bindings::rust_perf_has_pmu(bus, name.as_char_ptr()) })
}

/// Whether the current task may observe other tasks on a CPU (`CAP_PERFMON`).
///
/// `perf_allow_cpu()`, which also considers `perf_event_paranoid`, is not exported
/// by every kernel. Task context.
pub fn perfmon_capable() -> bool {
    // SAFETY: The function reads the credentials of the current task, and this is task context.
    unsafe { bindings::rust_perf_perfmon_capable() }
}

/// Whether the current task may administer the system (`CAP_SYS_ADMIN`). Task context.
pub fn is_administrator() -> bool {
    // SAFETY: The function reads the credentials of the current task, and this is task context.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as c_int) }
}

/// Checks that the current task may see what the kernel traces. Fails with `EPERM`, or the
/// error of a security module. Task context.
pub fn allow_tracepoint() -> Result {
    // SAFETY: The function reads the credentials of the current task, and this is task context.
    to_result(unsafe { bindings::rust_perf_allow_tracepoint() })
}
