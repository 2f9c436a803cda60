// SPDX-License-Identifier: GPL-2.0

//! Registration of a PMU.

use super::{
    callbacks::Callbacks,
    pmu::{
        Instance,
        Pmu,
        PmuType, //
    },
    AttributeGroups, //
};
use crate::bindings;
use core::ptr;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

/// A PMU that is registered with perf until dropped. Dropping it waits until all
/// its events are gone. If the driver has [`Pmu::event_unmapped`], that is when their
/// users have closed them, otherwise perf takes them from their users.
///
/// # Invariants
///
/// `pmu` is registered, with the callbacks of [`Callbacks<T>`].
#[pin_data(PinnedDrop)]
pub struct Registration<T: Pmu> {
    #[pin]
    pub(super) pmu: Opaque<bindings::pmu>,
    /// `pmu` refers to them.
    _groups: AttributeGroups,
    pub(super) instance: Arc<Instance<T>>,
}

// SAFETY: perf synchronises its accesses to `pmu`. The groups and the instance are `Send`.
unsafe impl<T: Pmu> Send for Registration<T> {}
// SAFETY: perf synchronises its accesses to `pmu`. The groups and the instance are `Sync`.
unsafe impl<T: Pmu> Sync for Registration<T> {}

impl<T: Pmu> Registration<T> {
    /// [`Self::register_as`] with a type that perf chooses.
    pub fn register(
        name: &'static CStr,
        groups: AttributeGroups,
        instance: Arc<Instance<T>>,
        module: &'static ThisModule,
    ) -> impl PinInit<Self, Error> {
        Self::register_as(PmuType::Dynamic, name, groups, instance, module)
    }

    /// Registers a PMU as `/sys/bus/event_source/devices/NAME`, with the folders in
    /// `groups`. Task context, may sleep.
    ///
    /// Each of its events keeps `module` from being unloaded. Fails with the errors of
    /// `perf_pmu_register()`, such as `EEXIST` if the name is taken, and with `EBUSY` if the type
    /// is: then perf warns.
    pub fn register_as(
        pmu_type: PmuType,
        name: &'static CStr,
        groups: AttributeGroups,
        instance: Arc<Instance<T>>,
        module: &'static ThisModule,
    ) -> impl PinInit<Self, Error> {
        const {
            // perf calls both if the first one is there.
            assert!(T::HAS_ENABLE == T::HAS_DISABLE);
            assert!(T::HAS_TASK_COMES == T::HAS_TASK_LEAVES);
            assert!(T::HAS_BEGIN_GROUP_READ == T::HAS_END_GROUP_READ);
        }
        try_pin_init!(&this in Self {
            pmu <- Opaque::ffi_init(|slot: *mut bindings::pmu| {
                let pmu = bindings::pmu {
                    module: module.as_ptr().cast(),
                    attr_groups: groups.as_ptr(),
                    capabilities: T::CAPABILITIES
                        .and(instance.scope.generic_events.capability())
                        .into_raw(),
                    task_ctx_nr: T::TASK_CONTEXT.into_raw(),
                    task_ctx_cache: instance
                        .scope
                        .task_data
                        .as_ref()
                        .map_or(ptr::null_mut(), |cache| cache.as_ptr()),
                    pmu_enable: T::HAS_ENABLE.then_some(Callbacks::<T>::pmu_enable),
                    pmu_disable: T::HAS_DISABLE.then_some(Callbacks::<T>::pmu_disable),
                    event_init: Some(Callbacks::<T>::event_init),
                    add: Some(Callbacks::<T>::add),
                    del: Some(Callbacks::<T>::del),
                    start: Some(Callbacks::<T>::start),
                    stop: Some(Callbacks::<T>::stop),
                    read: Some(Callbacks::<T>::read),
                    start_txn: T::HAS_BEGIN_GROUP_READ.then_some(Callbacks::<T>::start_txn),
                    commit_txn: T::HAS_BEGIN_GROUP_READ.then_some(Callbacks::<T>::commit_txn),
                    cancel_txn: T::HAS_BEGIN_GROUP_READ.then_some(Callbacks::<T>::cancel_txn),
                    check_period: T::HAS_CHECK_PERIOD
                        .then_some(Callbacks::<T>::check_period),
                    sched_task: T::HAS_TASK_COMES.then_some(Callbacks::<T>::sched_task),
                    event_idx: T::HAS_USER_INDEX.then_some(Callbacks::<T>::event_idx),
                    event_mapped: T::HAS_EVENT_MAPPED.then_some(Callbacks::<T>::event_mapped),
                    event_unmapped: T::HAS_EVENT_UNMAPPED
                        .then_some(Callbacks::<T>::event_unmapped),
                    filter: instance
                        .scope
                        .only_on
                        .is_some()
                        .then_some(Callbacks::<T>::filter),
                    ..Default::default()
                };
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(pmu) }
            }),
            _groups: groups,
            instance,
            // INVARIANT: If this succeeds, the PMU is registered, otherwise it is not initialised.
            _: {
                // SAFETY: The PMU and all that its callbacks use is initialised and pinned. `name` is
                // static.
                unsafe {
                    let pmu = Opaque::cast_into(&raw const (*this.as_ptr()).pmu);
                    register(pmu, name, pmu_type)?;
                }
            },
        }? Error)
    }
}

#[pinned_drop]
impl<T: Pmu> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The PMU is registered by the type invariant.
        unsafe { unregister(self.pmu.get()) };
    }
}

/// Registers `pmu`. If this fails, it is not registered.
///
/// # Safety
///
/// `pmu` and what its callbacks use must be initialised and pinned while it is registered.
unsafe fn register(pmu: *mut bindings::pmu, name: &'static CStr, pmu_type: PmuType) -> Result {
    let wanted = pmu_type.into_raw();
    // SAFETY: By the safety requirement. `name` is static.
    to_result(unsafe { bindings::perf_pmu_register(pmu, name.as_char_ptr(), wanted) })?;
    // SAFETY: The type does not change while the PMU is registered.
    if wanted >= 0 && unsafe { (*pmu).type_ } != wanted {
        // SAFETY: It has just been registered.
        unsafe { unregister(pmu) };
        return Err(EBUSY);
    }
    Ok(())
}

/// # Safety
///
/// `pmu` must be registered.
unsafe fn unregister(pmu: *mut bindings::pmu) {
    // SAFETY: The PMU is registered, and stays so while this fails.
    while unsafe { bindings::perf_pmu_unregister(pmu) } != 0 {
        // An event is still open. When a module is unloaded, that is the last one: it has
        // released the module already, and no new one can be opened.
        fsleep(Delta::from_millis(1));
    }
}
