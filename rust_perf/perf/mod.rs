// SPDX-License-Identifier: GPL-2.0

//! Performance monitoring units (PMUs).
//!
//! A driver implements [`Pmu`] and registers it with [`Registration`]; from
//! then on perf asks it to open, schedule, start, stop and read events. When
//! the hardware interrupts because a counter has overflowed, the driver gets
//! the events of this CPU from [`PerCpu::this`] and hands a sample of each to
//! perf with [`Event::overflow`].
//!
//! This module knows no hardware: nothing in here is of x86, or of counters.
//!
//! # Contexts
//!
//! perf calls back in three kinds of context, and the signatures tell them
//! apart:
//!
//! - task context, may sleep: [`Pmu::event_init`], [`Pmu::event_destroy`],
//!   [`Pmu::event_mapped`], [`Pmu::event_unmapped`], [`Pmu::prepare_cpu`],
//!   [`Pmu::shutdown`];
//! - on the CPU the event is on, IRQs disabled, perf's context lock held, never
//!   nested: [`Pmu::add`], [`Pmu::del`], [`Pmu::enable`], [`Pmu::disable`].
//!   They share the CPU's [`Pmu::Schedule`], exclusively. [`Pmu::suspend`] and
//!   [`Pmu::resume`] are without it, and without the lock: no other code runs
//!   but NMIs;
//! - on that CPU with IRQs disabled, or in an NMI that interrupted any of the
//!   others there: [`Pmu::start`], [`Pmu::stop`], [`Pmu::read`]. They, and the
//!   driver's interrupt handler, have the CPU's [`Pmu::Cpu`] shared, and must
//!   not allocate, lock, sleep, print or panic. Nor must [`Pmu::user_index`],
//!   which may be called in any context, on any CPU.
//!
//! # Groups
//!
//! The transaction (`start_txn`, `commit_txn`, `cancel_txn`) in which the
//! events of a group are added is perf's own: it disables the PMU at its start,
//! enables it at its end, and takes off again what was added if one did not fit.
//! That is all it takes where, as [`Pmu::add`] must, each event is placed at
//! once. Whether a group can ever fit is for [`Pmu::event_init`] to say.
//!
//! # Not supported
//!
//! AUX buffers, address filters.
//!
//! # Examples
//!
//! A PMU with one event, the count of which is 0:
//!
//! ```ignore
//! struct Zero;
//!
//! #[derive(Default)]
//! struct Nothing;
//!
//! impl perf::Pmu for Zero {
//!     type Cpu = Nothing;
//!     type Schedule = Nothing;
//!
//!     fn event_init(&self, event: &NewEvent<'_>) -> Result {
//!         match event.attr().selector() {
//!             Selector::Config(0) => Ok(()),
//!             Selector::Config(_) => Err(EINVAL),
//!             _ => Err(ENOENT),
//!         }
//!     }
//!     fn event_destroy(&self, _: &PerCpu<Self>) {}
//!     fn enable(&self, _: &OnCpu<'_, Self>, _: &mut Nothing) {}
//!     fn disable(&self, _: &OnCpu<'_, Self>, _: &mut Nothing) {}
//!     fn add(&self, on: &OnCpu<'_, Self>, _: &mut Nothing, event: &Event, _: bool) -> Result {
//!         on.events().insert(0, event) // One event at a time.
//!     }
//!     fn del(&self, _: &OnCpu<'_, Self>, _: &mut Nothing, _: &Event) {}
//!     fn start(&self, _: &OnCpu<'_, Self>, _: &Event) {}
//!     fn stop(&self, _: &OnCpu<'_, Self>, _: &Event, _: bool) {}
//!     fn read(&self, _: &OnCpu<'_, Self>, _: &Event) {}
//!     fn user_index(&self, _: &Event) -> Option<u32> {
//!         None
//!     }
//!     fn event_mapped(&self, _: &Event, _: &Mm) {}
//!     fn event_unmapped(&self, _: &Event, _: &Mm) {}
//!     fn prepare_cpu(&self, _: &Nothing) {}
//!     fn suspend(&self, _: &OnCpu<'_, Self>) {}
//!     fn resume(&self, _: &OnCpu<'_, Self>) {}
//!     fn shutdown(&self, _: &PerCpu<Self>) {}
//! }
//!
//! let mut events = KVec::new();
//! events.push(File::new(c"zero", fmt!("config=0"))?, GFP_KERNEL)?;
//! let groups = AttributeGroups::new([(c"events", events)])?;
//! let zero = Registration::register(c"zero", groups, Instance::new(Zero)?, &THIS_MODULE);
//! let zero = KBox::pin_init(zero, GFP_KERNEL)?;
//! ```
//!
//! C header: `include/linux/perf_event.h`.

use crate::bindings;
use kernel::prelude::*;

mod event;
mod hotplug;
mod percpu;
mod pmu;
mod sample;
mod syscore;
mod sysfs;

pub(crate) use self::{
    event::{
        Event,
        NewEvent,
        Selector, //
    },
    percpu::{
        OnCpu,
        PerCpu,
        MAX_EVENTS, //
    },
    pmu::{
        Instance,
        Pmu,
        Registration, //
    },
    sample::{
        OverflowHandler,
        Regs, //
    },
    sysfs::{
        AttributeGroups,
        File, //
    },
};

/// The error for what is valid but cannot be done, which not every kernel has
/// among its constants.
pub(crate) fn not_supported() -> Error {
    Error::from_errno(-(kernel::bindings::EOPNOTSUPP as i32))
}

/// Whether the current task may watch what others do on a CPU (`CAP_PERFMON`).
///
/// `perf_allow_cpu()`, which heeds `perf_event_paranoid` too, is not there for
/// the modules of every kernel. Task context.
pub(crate) fn perfmon_capable() -> bool {
    // SAFETY: No preconditions.
    unsafe { bindings::rust_perf_perfmon_capable() }
}
