// SPDX-License-Identifier: GPL-2.0

//! The callbacks of `struct pmu`.

use super::{
    cpu_event::AddedEvent,
    pmu::{
        GenericEvents,
        Instance,
        Pmu,
        Scope, //
    },
    registration::Registration,
    CpuEvent,
    Event,
    NewEvent,
    SwitchedTask, //
};
use crate::{
    bindings,
    system::irq::IrqsDisabled, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    ffi::c_int,
    mm::Mm,
    prelude::*,
    types::Opaque, //
};

/// The callbacks of `struct pmu`.
///
/// All of them have one safety requirement: perf calls them, as `struct pmu`
/// documents it, for a PMU of a [`Registration<T>`] or for an event of it. perf
/// does so only until `perf_pmu_unregister()` returns, so the registration lives
/// during each call, and the events that are passed are initialised.
///
/// perf enables and disables a PMU, and adds and deletes its events, with
/// interrupts disabled and never in an NMI. It starts, stops and reads events with
/// interrupts disabled, or in an NMI.
pub(super) struct Callbacks<T>(PhantomData<T>);

impl<T: Pmu> Callbacks<T> {
    /// # Safety
    ///
    /// `pmu` must be that of a `Registration<T>`, which lives for `'a`.
    pub(super) unsafe fn instance<'a>(pmu: *mut bindings::pmu) -> &'a Instance<T> {
        let pmu = pmu.cast::<Opaque<bindings::pmu>>();
        // SAFETY: `pmu` is within a live `Registration<T>` by the safety requirement.
        unsafe { &(*kernel::container_of!(pmu, Registration<T>, pmu)).instance }
    }

    /// # Safety
    ///
    /// `event` must be an initialised event of a `Registration<T>`. Both must live
    /// for `'a`.
    pub(super) unsafe fn event<'a>(
        event: *mut bindings::perf_event,
    ) -> (&'a Instance<T>, &'a Event<T>) {
        // SAFETY: The event's PMU is that of a `Registration<T>` by the safety requirement.
        unsafe { (Self::instance((*event).pmu), Event::from_raw(event)) }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn pmu_enable(pmu: *mut bindings::pmu) {
        // SAFETY: perf passes a PMU of a `Registration<T>`.
        let Instance { driver, cpus, .. } = unsafe { Self::instance(pmu) };
        // SAFETY: perf calls this with interrupts disabled.
        let irqs = unsafe { IrqsDisabled::new() };
        // SAFETY: perf does not call this in an NMI, and the driver cannot: it is private.
        unsafe { cpus.with_schedule(irqs, |on, schedule| driver.enable(on, schedule)) }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn pmu_disable(pmu: *mut bindings::pmu) {
        // SAFETY: perf passes a PMU of a `Registration<T>`.
        let Instance { driver, cpus, .. } = unsafe { Self::instance(pmu) };
        // SAFETY: perf calls this with interrupts disabled.
        let irqs = unsafe { IrqsDisabled::new() };
        // SAFETY: perf does not call this in an NMI, and the driver cannot: it is private.
        unsafe { cpus.with_schedule(irqs, |on, schedule| driver.disable(on, schedule)) }
    }

    /// Whether perf skips the events of the PMU on a CPU.
    ///
    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn filter(pmu: *mut bindings::pmu, cpu: c_int) -> bool {
        // SAFETY: perf passes a PMU of a `Registration<T>`.
        let Instance { scope, .. } = unsafe { Self::instance(pmu) };
        let only_on = scope.only_on.as_ref();
        only_on.is_some_and(|it| !it.cpus.contains(cpu as u32))
    }

    /// perf opens an event, on this PMU or on the first that takes it. Task context, may sleep.
    ///
    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn event_init(event: *mut bindings::perf_event) -> c_int {
        // SAFETY: perf passes an event of a `Registration<T>`, which is initialised but for what
        // the PMU adds to it. Nothing reads that before this returns.
        let (instance, new) = unsafe { Self::event(event) };
        // SAFETY: This is `event_init`.
        let opened = unsafe { NewEvent::new(new) }.and_then(|opening| {
            Self::check_scope(&instance.scope, &opening)?;
            new.set_index(None);
            new.set_extra_register(None);
            new.set_user_index(None);
            new.clear_scratch();
            opening.leader_can_lead()?;
            instance.driver.event_init(&opening)
        });
        match opened {
            Ok(data) => {
                // SAFETY: This is the only call for this event, which is being opened.
                unsafe { new.set_data(data) };
                // SAFETY: While the event is being opened nothing else accesses it.
                unsafe { (*event).destroy = Some(Self::destroy) };
                0
            }
            Err(error) => error.to_errno(),
        }
    }

    /// Fails with `ENOENT` if an event is none of this PMU's, so that perf asks another PMU. Task
    /// context.
    fn check_scope(scope: &Scope, event: &NewEvent<'_, T>) -> Result {
        let is_own = match event.attr().event_type() {
            event_type if event_type == event.pmu_type() => true,
            bindings::perf_type_id_PERF_TYPE_HARDWARE
            | bindings::perf_type_id_PERF_TYPE_HW_CACHE => {
                scope.generic_events == GenericEvents::Taken
            }
            _ => false,
        };
        if !is_own {
            return Err(ENOENT);
        }
        // The CPU of an inherited event may be offline: its parent was on it, and a task can be
        // forked all the same.
        if let (Some(only_on), Some(cpu), None) = (&scope.only_on, event.cpu(), event.parent()) {
            if !only_on.opens_on.contains_online(cpu) {
                return Err(ENOENT);
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn check_period(
        event: *mut bindings::perf_event,
        period: u64,
    ) -> c_int {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, .. }, event) = unsafe { Self::event(event) };
        let checked = driver.check_period(event, period);
        checked.map_or_else(Error::to_errno, |()| 0)
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn destroy(event: *mut bindings::perf_event) {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, cpus, .. }, event) = unsafe { Self::event(event) };
        // SAFETY: perf calls this once, when it is about to free the event.
        let data = unsafe { event.take_data() };
        if T::HAS_EVENT_DESTROY {
            driver.event_destroy(&data, cpus);
        }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn add(event: *mut bindings::perf_event, flags: c_int) -> c_int {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, cpus, .. }, event) = unsafe { Self::event(event) };
        let start = flags as u32 & bindings::PERF_EF_START != 0;
        // SAFETY: perf calls this with interrupts disabled.
        let irqs = unsafe { IrqsDisabled::new() };
        // SAFETY: perf does not call this in an NMI, and the driver cannot: it is private.
        let added = unsafe {
            cpus.with_schedule(irqs, |on, schedule| {
                let added = AddedEvent::new(CpuEvent::new(event), *on);
                driver
                    .add(on, schedule, &added, start)
                    // perf may free the event after this, whatever the driver did with it.
                    .inspect_err(|_| on.forget(event))
                    .inspect(|()| added.begin_switches())
            })
        };
        added.map_or_else(Error::to_errno, |()| 0)
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn del(event: *mut bindings::perf_event, _flags: c_int) {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, cpus, .. }, event) = unsafe { Self::event(event) };
        // SAFETY: perf calls this with interrupts disabled.
        let irqs = unsafe { IrqsDisabled::new() };
        // SAFETY: perf does not call this in an NMI, and the driver cannot: it is private.
        unsafe {
            cpus.with_schedule(irqs, |on, schedule| {
                let event = CpuEvent::new(event);
                driver.del(on, schedule, event);
                event.end_switches();
                // perf may free the event after this, whatever the driver did with it.
                on.forget(&event);
            })
        }
    }

    /// A task comes to this CPU, or leaves it.
    ///
    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn sched_task(
        context: *mut bindings::perf_event_pmu_context,
        task: *mut bindings::task_struct,
        comes: bool,
    ) {
        // SAFETY: perf passes a context of a PMU of a `Registration<T>`.
        let Instance { driver, cpus, .. } = unsafe { Self::instance((*context).pmu) };
        let Some(task) = NonNull::new(task) else {
            return;
        };
        // SAFETY: perf calls this with interrupts disabled.
        let irqs = unsafe { IrqsDisabled::new() };
        // SAFETY: perf is switching the task.
        let task = unsafe { SwitchedTask::new(task, irqs) };
        if comes {
            driver.task_comes(&cpus.this(irqs), &task);
        } else {
            driver.task_leaves(&cpus.this(irqs), &task);
        }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn start(event: *mut bindings::perf_event, _flags: c_int) {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, cpus, .. }, event) = unsafe { Self::event(event) };
        // SAFETY: perf calls this with interrupts disabled or in an NMI, on the event's CPU.
        let (irqs, event) = unsafe { (IrqsDisabled::new(), CpuEvent::new(event)) };
        driver.start(&cpus.this(irqs), event);
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn stop(event: *mut bindings::perf_event, flags: c_int) {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, cpus, .. }, event) = unsafe { Self::event(event) };
        let update = flags as u32 & bindings::PERF_EF_UPDATE != 0;
        // SAFETY: perf calls this with interrupts disabled or in an NMI, on the event's CPU.
        let (irqs, event) = unsafe { (IrqsDisabled::new(), CpuEvent::new(event)) };
        driver.stop(&cpus.this(irqs), event, update);
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn read(event: *mut bindings::perf_event) {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, cpus, .. }, event) = unsafe { Self::event(event) };
        // SAFETY: perf calls this with interrupts disabled or in an NMI, on the event's CPU.
        let (irqs, event) = unsafe { (IrqsDisabled::new(), CpuEvent::new(event)) };
        driver.read(&cpus.this(irqs), event);
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn event_idx(event: *mut bindings::perf_event) -> c_int {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, .. }, event) = unsafe { Self::event(event) };
        // 0 stands for no counter.
        driver
            .user_index(event)
            .map_or(0, |index| index.wrapping_add(1) as c_int)
    }

    /// # Safety
    ///
    /// See [`Callbacks`]; `mm` must be valid.
    pub(super) unsafe extern "C" fn event_mapped(
        event: *mut bindings::perf_event,
        mm: *mut bindings::mm_struct,
    ) {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, cpus, .. }, event) = unsafe { Self::event(event) };
        // SAFETY: `mm` is valid by the safety requirement. It is the same C type in both bindings.
        let mm = unsafe { Mm::from_raw(mm.cast()) };
        driver.event_mapped(event, mm, cpus);
    }

    /// # Safety
    ///
    /// See [`Callbacks`]; `mm` must be valid.
    pub(super) unsafe extern "C" fn event_unmapped(
        event: *mut bindings::perf_event,
        mm: *mut bindings::mm_struct,
    ) {
        // SAFETY: perf passes an event of a `Registration<T>`.
        let (Instance { driver, .. }, event) = unsafe { Self::event(event) };
        // SAFETY: `mm` is valid by the safety requirement. It is the same C type in both bindings.
        let mm = unsafe { Mm::from_raw(mm.cast()) };
        driver.event_unmapped(event, mm);
    }
}
