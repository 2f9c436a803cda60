// SPDX-License-Identifier: GPL-2.0

//! The system's suspending, resuming and shutting down.
//!
//! C header: `include/linux/syscore_ops.h`.

use super::{
    Instance,
    Pmu, //
};
use crate::bindings;
use core::marker::{
    PhantomData,
    PhantomPinned, //
};
use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Calls [`Pmu::suspend`], [`Pmu::resume`] and [`Pmu::shutdown`], until dropped.
///
/// # Invariants
///
/// `syscore` is registered, with [`Callbacks<T>::OPS`] and the address of
/// `instance`'s value.
#[pin_data(PinnedDrop)]
pub(super) struct Registration<T: Pmu> {
    #[pin]
    syscore: Opaque<bindings::syscore>,
    instance: Arc<Instance<T>>,
    #[pin]
    _pin: PhantomPinned,
}

impl<T: Pmu> Registration<T> {
    /// Registers a PMU. Task context, may sleep.
    pub(super) fn register(instance: Arc<Instance<T>>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: Registered here; what the callbacks need is there already.
            syscore <- Opaque::ffi_init(|slot: *mut bindings::syscore| {
                // SAFETY: `slot` is valid for writes, and stays where it is until it is
                // unregistered; so does the instance, which `Self` has a reference to.
                unsafe {
                    slot.write(bindings::syscore {
                        ops: &Callbacks::<T>::OPS,
                        data: core::ptr::from_ref(&*instance).cast_mut().cast(),
                        ..Default::default()
                    });
                    bindings::register_syscore(slot);
                }
            }),
            instance,
            _pin: PhantomPinned,
        }? Error)
    }
}

#[pinned_drop]
impl<T: Pmu> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered, by the type invariant. No callback runs when this returns:
        // `shutdown` is called with the lock held that this takes, and while the system is
        // suspended or resumed no task runs that could be here.
        unsafe { bindings::unregister_syscore(self.syscore.get()) };
    }
}

/// The callbacks of `struct syscore_ops`. Each gets the address of an
/// `Instance<T>`, which is registered, as its data.
struct Callbacks<T>(PhantomData<T>);

impl<T: Pmu> Callbacks<T> {
    const OPS: bindings::syscore_ops = bindings::syscore_ops {
        suspend: Some(Self::suspend),
        resume: Some(Self::resume),
        shutdown: Some(Self::shutdown),
    };

    /// # Safety
    ///
    /// See [`Callbacks`]; IRQs must be disabled.
    unsafe extern "C" fn suspend(data: *mut c_void) -> c_int {
        // SAFETY: By the caller.
        let instance = unsafe { &*data.cast::<Instance<T>>() };
        // SAFETY: IRQs are disabled.
        let on = unsafe { instance.cpus().current() };
        instance.driver().suspend(&on);
        0
    }

    /// # Safety
    ///
    /// See [`Callbacks`]; IRQs must be disabled.
    unsafe extern "C" fn resume(data: *mut c_void) {
        // SAFETY: By the caller.
        let instance = unsafe { &*data.cast::<Instance<T>>() };
        // SAFETY: IRQs are disabled.
        let on = unsafe { instance.cpus().current() };
        instance.driver().resume(&on);
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    unsafe extern "C" fn shutdown(data: *mut c_void) {
        // SAFETY: By the caller.
        let instance = unsafe { &*data.cast::<Instance<T>>() };
        instance.driver().shutdown(instance.cpus());
    }
}
