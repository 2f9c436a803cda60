// SPDX-License-Identifier: GPL-2.0

//! PMUs and their registration.

use super::{
    hotplug,
    syscore,
    AttributeGroups,
    Event,
    NewEvent,
    OnCpu,
    PerCpu, //
};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    error::to_result,
    ffi::c_int,
    mm::Mm,
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

/// A PMU driver. For the contexts of the callbacks see [the module](super).
pub(crate) trait Pmu: Send + Sync + Sized + 'static {
    /// What the driver keeps for each CPU. NMIs see it as the code that they
    /// interrupt left it, so it is made of single words (`Sync`).
    type Cpu: Default + Send + Sync + 'static;

    /// What the driver keeps for each CPU to decide where events go.
    type Schedule: Default + Send + 'static;

    /// An event is being opened: check what it asks for and set it up.
    ///
    /// Task context, may sleep. If this succeeds [`Self::event_destroy`] will
    /// be called once.
    fn event_init(&self, event: &NewEvent<'_>) -> Result;

    /// An event that [`Self::event_init`] accepted is gone.
    ///
    /// Task context, may sleep.
    fn event_destroy(&self, cpus: &PerCpu<Self>);

    /// Puts an event on this CPU, or fails for lack of room (`EAGAIN`), and
    /// starts it if `start`. Must [insert](super::percpu::EventTable::insert) it.
    ///
    /// IRQs disabled, PMU disabled, perf's context lock held.
    fn add(
        &self,
        on: &OnCpu<'_, Self>,
        schedule: &mut Self::Schedule,
        event: &Event,
        start: bool,
    ) -> Result;

    /// Stops the event, updates its count and takes it off this CPU.
    ///
    /// IRQs disabled, PMU disabled, perf's context lock held.
    fn del(&self, on: &OnCpu<'_, Self>, schedule: &mut Self::Schedule, event: &Event);

    /// Lets the CPU's events count. IRQs disabled.
    fn enable(&self, on: &OnCpu<'_, Self>, schedule: &mut Self::Schedule);

    /// Keeps the CPU's events from counting, as one. IRQs disabled.
    fn disable(&self, on: &OnCpu<'_, Self>, schedule: &mut Self::Schedule);

    /// Starts an event that is on this CPU; its period may have changed.
    ///
    /// IRQs disabled, the PMU mostly too, but not where perf does this for the
    /// sake of another PMU's event in the same group; or in an NMI.
    fn start(&self, on: &OnCpu<'_, Self>, event: &Event);

    /// Stops an event that is on this CPU and, if `update`, updates its count.
    ///
    /// As for [`Self::start`].
    fn stop(&self, on: &OnCpu<'_, Self>, event: &Event, update: bool);

    /// Updates the count of an event that is on this CPU.
    ///
    /// IRQs disabled; or in an NMI.
    fn read(&self, on: &OnCpu<'_, Self>, event: &Event);

    /// The number by which user mode reads the counter of this event, if it
    /// may ([`Event::is_user_readable`]). Any context, on any CPU.
    fn user_index(&self, event: &Event) -> Option<u32>;

    /// An event has been mapped into `mm`, the current task's, whose lock is
    /// held for writing.
    ///
    /// Task context, may sleep.
    fn event_mapped(&self, event: &Event, mm: &Mm);

    /// An event's mapping has been removed from `mm`, whose lock is held; at
    /// its end, it is no task's any more.
    ///
    /// Task context, may sleep.
    fn event_unmapped(&self, event: &Event, mm: &Mm);

    /// A CPU that is off, with no events on it, is going to be brought up: its
    /// hardware may have lost what it held.
    ///
    /// Task context, on another CPU, may sleep.
    fn prepare_cpu(&self, cpu: &Self::Cpu);

    /// The system goes to sleep: the hardware of this CPU, the last one that is
    /// up, may lose what it holds. There may be events on it. IRQs disabled.
    fn suspend(&self, on: &OnCpu<'_, Self>);

    /// The system has been asleep, or nearly. IRQs disabled.
    fn resume(&self, on: &OnCpu<'_, Self>);

    /// The system halts, or another kernel is going to be started: leave the
    /// hardware quiet. There may be events on CPUs, and more may be added.
    ///
    /// Task context.
    fn shutdown(&self, cpus: &PerCpu<Self>);
}

/// A driver and its data for each CPU.
#[pin_data]
pub(crate) struct Instance<T: Pmu> {
    #[pin]
    driver: T,
    cpus: PerCpu<T>,
}

impl<T: Pmu> Instance<T> {
    /// Allocates the data for each CPU. Task context, may sleep.
    pub(crate) fn new(driver: impl PinInit<T, Error>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                driver <- driver,
                cpus: PerCpu::new()?,
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The data for each CPU.
    pub(crate) fn cpus(&self) -> &PerCpu<T> {
        &self.cpus
    }

    /// The driver.
    pub(crate) fn driver(&self) -> &T {
        &self.driver
    }
}

/// A PMU that is registered with perf, until dropped.
///
/// # Invariants
///
/// `pmu` is registered, with the callbacks of [`Callbacks<T>`].
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: Pmu> {
    #[pin]
    pmu: Opaque<bindings::pmu>,
    /// `pmu` refers to them.
    _groups: AttributeGroups,
    instance: Arc<Instance<T>>,
    #[pin]
    _hotplug: hotplug::Registration<T>,
    #[pin]
    _syscore: syscore::Registration<T>,
}

// SAFETY: perf synchronises its accesses to `pmu`; the rest is `Send`.
unsafe impl<T: Pmu> Send for Registration<T> {}
// SAFETY: As above, and the rest is `Sync`.
unsafe impl<T: Pmu> Sync for Registration<T> {}

impl<T: Pmu> Registration<T> {
    /// Registers a PMU as `/sys/bus/event_source/devices/NAME`, with `groups`
    /// in there. Task context, may sleep.
    ///
    /// Each of its events keeps `module` from being unloaded.
    pub(crate) fn register(
        name: &'static CStr,
        groups: AttributeGroups,
        instance: Arc<Instance<T>>,
        module: &'static ThisModule,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            pmu <- Opaque::ffi_init(|slot: *mut bindings::pmu| {
                let pmu = bindings::pmu {
                    module: module.as_ptr().cast(),
                    attr_groups: groups.as_ptr(),
                    // Generic events, with the PMU's number in the upper half of `config`.
                    capabilities: bindings::PERF_PMU_CAP_EXTENDED_HW_TYPE as c_int,
                    task_ctx_nr: bindings::perf_event_task_context_perf_hw_context,
                    pmu_enable: Some(Callbacks::<T>::pmu_enable),
                    pmu_disable: Some(Callbacks::<T>::pmu_disable),
                    event_init: Some(Callbacks::<T>::event_init),
                    add: Some(Callbacks::<T>::add),
                    del: Some(Callbacks::<T>::del),
                    start: Some(Callbacks::<T>::start),
                    stop: Some(Callbacks::<T>::stop),
                    read: Some(Callbacks::<T>::read),
                    event_idx: Some(Callbacks::<T>::event_idx),
                    event_mapped: Some(Callbacks::<T>::event_mapped),
                    event_unmapped: Some(Callbacks::<T>::event_unmapped),
                    ..Default::default()
                };
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(pmu) }
            }),
            _groups: groups,
            _hotplug <- hotplug::Registration::register(name, instance.clone()),
            _syscore <- syscore::Registration::register(instance.clone()),
            instance,
            // INVARIANT: From here on registered, or not initialised.
            _: {
                // SAFETY: All that the callbacks need is initialised, and pinned.
                to_result(unsafe {
                    bindings::perf_pmu_register(
                        Opaque::cast_into(&raw const (*this.as_ptr()).pmu),
                        name.as_char_ptr(),
                        -1,
                    )
                })?;
            },
        }? Error)
    }
}

#[pinned_drop]
impl<T: Pmu> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered, by the type invariant. It stays so, and usable, while this fails.
        while unsafe { bindings::perf_pmu_unregister(self.pmu.get()) } != 0 {
            // perf is not quite done with the last event, which has let the module go already.
            // There will be no more: none can be opened of a module that is unloaded.
            fsleep(Delta::from_millis(1));
        }
    }
}

/// The callbacks in `struct pmu`.
///
/// Their common safety requirement: to be called by perf, as documented in
/// `struct pmu`, for a PMU of a `Registration<T>` or an event of it. perf
/// does so only until `perf_pmu_unregister()` returns.
struct Callbacks<T>(PhantomData<T>);

impl<T: Pmu> Callbacks<T> {
    /// # Safety
    ///
    /// `pmu` must be that of a `Registration<T>`, which lives for `'a`.
    unsafe fn instance<'a>(pmu: *mut bindings::pmu) -> &'a Instance<T> {
        let pmu = pmu.cast::<Opaque<bindings::pmu>>();
        // SAFETY: By the caller.
        unsafe { &(*kernel::container_of!(pmu, Registration<T>, pmu)).instance }
    }

    /// # Safety
    ///
    /// As for `instance`, of the event's PMU; `event` must be initialised.
    unsafe fn event<'a>(event: *mut bindings::perf_event) -> (&'a Instance<T>, &'a Event) {
        // SAFETY: By the caller.
        unsafe { (Self::instance((*event).pmu), Event::from_raw(event)) }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn pmu_enable(pmu: *mut bindings::pmu) {
        // SAFETY: By the caller.
        let Instance { driver, cpus } = unsafe { Self::instance(pmu) };
        // SAFETY: perf enables and disables a PMU, and adds and deletes its events, under the
        // CPU's context lock with IRQs disabled; from NMIs it only starts, stops and reads. The
        // driver cannot call back: all this is private to this file.
        unsafe { cpus.with_schedule(|on, schedule| driver.enable(on, schedule)) }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn pmu_disable(pmu: *mut bindings::pmu) {
        // SAFETY: By the caller.
        let Instance { driver, cpus } = unsafe { Self::instance(pmu) };
        // SAFETY: As for `pmu_enable`.
        unsafe { cpus.with_schedule(|on, schedule| driver.disable(on, schedule)) }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn event_init(event: *mut bindings::perf_event) -> c_int {
        // SAFETY: By the caller; the event is initialised but for what the PMU does.
        let (Instance { driver, .. }, new) = unsafe { Self::event(event) };
        // SAFETY: The PMU's number does not change while it is registered.
        let own_type = unsafe { (*(*event).pmu).type_ } as u32;
        let known = [
            own_type,
            bindings::perf_type_id_PERF_TYPE_HARDWARE,
            bindings::perf_type_id_PERF_TYPE_HW_CACHE,
        ];
        if !known.contains(&new.attr().event_type()) {
            return ENOENT.to_errno();
        }
        new.set_index(None);
        // SAFETY: This is `event_init`.
        let new = unsafe { NewEvent::new(new) };
        if let Err(error) = driver.event_init(&new) {
            return error.to_errno();
        }
        // SAFETY: While the event is being opened nothing else accesses it.
        unsafe { (*event).destroy = Some(Self::destroy) };
        0
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn destroy(event: *mut bindings::perf_event) {
        // SAFETY: By the caller.
        let (Instance { driver, cpus }, _) = unsafe { Self::event(event) };
        driver.event_destroy(cpus);
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn add(event: *mut bindings::perf_event, flags: c_int) -> c_int {
        // SAFETY: By the caller.
        let (Instance { driver, cpus }, event) = unsafe { Self::event(event) };
        let start = flags as u32 & bindings::PERF_EF_START != 0;
        // SAFETY: As for `pmu_enable`.
        let added = unsafe {
            cpus.with_schedule(|on, schedule| {
                driver
                    .add(on, schedule, event, start)
                    // Whatever the driver did: the event may be freed now.
                    .inspect_err(|_| on.events().remove(event))
            })
        };
        added.map_or_else(Error::to_errno, |()| 0)
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn del(event: *mut bindings::perf_event, _flags: c_int) {
        // SAFETY: By the caller.
        let (Instance { driver, cpus }, event) = unsafe { Self::event(event) };
        // SAFETY: As for `pmu_enable`.
        unsafe {
            cpus.with_schedule(|on, schedule| {
                driver.del(on, schedule, event);
                // Whatever the driver did: the event may be freed now.
                on.events().remove(event);
            })
        }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn start(event: *mut bindings::perf_event, _flags: c_int) {
        // SAFETY: By the caller.
        let (Instance { driver, cpus }, event) = unsafe { Self::event(event) };
        // SAFETY: IRQs are disabled, or this is an NMI.
        let on = unsafe { cpus.current() };
        driver.start(&on, event);
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn stop(event: *mut bindings::perf_event, flags: c_int) {
        // SAFETY: By the caller.
        let (Instance { driver, cpus }, event) = unsafe { Self::event(event) };
        let update = flags as u32 & bindings::PERF_EF_UPDATE != 0;
        // SAFETY: As for `start`.
        let on = unsafe { cpus.current() };
        driver.stop(&on, event, update);
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn read(event: *mut bindings::perf_event) {
        // SAFETY: By the caller.
        let (Instance { driver, cpus }, event) = unsafe { Self::event(event) };
        // SAFETY: As for `start`.
        let on = unsafe { cpus.current() };
        driver.read(&on, event);
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn event_idx(event: *mut bindings::perf_event) -> c_int {
        // SAFETY: By the caller.
        let (Instance { driver, .. }, event) = unsafe { Self::event(event) };
        // 0 is for no counter.
        driver
            .user_index(event)
            .map_or(0, |index| index.wrapping_add(1) as c_int)
    }

    /// # Safety
    ///
    /// See [`Callbacks`]; `mm` must be valid.
    unsafe extern "C" fn event_mapped(
        event: *mut bindings::perf_event,
        mm: *mut bindings::mm_struct,
    ) {
        // SAFETY: By the caller.
        let (Instance { driver, .. }, event) = unsafe { Self::event(event) };
        // SAFETY: By the caller; it is the same type, of another run of bindgen.
        let mm = unsafe { Mm::from_raw(mm.cast()) };
        driver.event_mapped(event, mm);
    }

    /// # Safety
    ///
    /// See [`Callbacks`]; `mm` must be valid.
    unsafe extern "C" fn event_unmapped(
        event: *mut bindings::perf_event,
        mm: *mut bindings::mm_struct,
    ) {
        // SAFETY: By the caller.
        let (Instance { driver, .. }, event) = unsafe { Self::event(event) };
        // SAFETY: As in `event_mapped`.
        let mm = unsafe { Mm::from_raw(mm.cast()) };
        driver.event_unmapped(event, mm);
    }
}
