// SPDX-License-Identifier: GPL-2.0

//! Suspend, resume and shutdown of the system.
//!
//! C header: `include/linux/syscore_ops.h`.

use super::irq::IrqsDisabled;
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
    types::Opaque, //
};

/// Receives notifications when the system sleeps, wakes up and shuts down.
pub trait Handler: Send + Sync + 'static {
    /// The system goes to sleep. This CPU is the last one that is online, and no
    /// other code runs but NMIs. Its hardware may lose its state.
    fn suspend(&self, irqs: IrqsDisabled<'_>);

    /// The system wakes up, or could not go to sleep. As for [`Self::suspend`].
    fn resume(&self, irqs: IrqsDisabled<'_>);

    /// The system halts, reboots, or starts another kernel. Task context, may sleep.
    fn shutdown(&self);
}

/// Calls a [`Handler`] until dropped.
///
/// # Invariants
///
/// `syscore` is registered, with [`Callbacks<H>::OPS`] and the address of
/// `handler` as its data.
#[pin_data(PinnedDrop)]
pub struct Registration<H: Handler> {
    handler: H,
    #[pin]
    syscore: Opaque<bindings::syscore>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Only the kernel accesses `syscore`, under its own lock. The handler is `Send`.
unsafe impl<H: Handler> Send for Registration<H> {}
// SAFETY: Only the kernel accesses `syscore`, under its own lock. The handler is `Sync`.
unsafe impl<H: Handler> Sync for Registration<H> {}

impl<H: Handler> Registration<H> {
    /// Registers a handler. Task context, may sleep.
    pub fn register(handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            handler,
            // INVARIANT: Registered here, with the address of `handler`, which is pinned.
            syscore <- Opaque::ffi_init(|slot: *mut bindings::syscore| {
                // SAFETY: `slot` is valid for writes. It and `handler`, which is initialised, stay
                // where they are until `syscore` is unregistered.
                unsafe {
                    slot.write(bindings::syscore {
                        ops: &Callbacks::<H>::OPS,
                        data: (&raw mut (*this.as_ptr()).handler).cast(),
                        ..Default::default()
                    });
                    bindings::register_syscore(slot);
                }
            }),
            _pin: PhantomPinned,
        }? Error)
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Registration<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `syscore` is registered by the type invariant. No callback is running when this
        // returns: the kernel calls `shutdown` under the lock that this takes, and while it
        // suspends or resumes no task runs that could be here.
        unsafe { bindings::unregister_syscore(self.syscore.get()) };
    }
}

/// The callbacks of `struct syscore_ops`.
struct Callbacks<H>(PhantomData<H>);

impl<H: Handler> Callbacks<H> {
    const OPS: bindings::syscore_ops = bindings::syscore_ops {
        suspend: Some(Self::suspend),
        resume: Some(Self::resume),
        shutdown: Some(Self::shutdown),
    };

    /// # Safety
    ///
    /// `data` must point to the handler of a registered [`Registration<H>`], and
    /// interrupts must be disabled.
    unsafe extern "C" fn suspend(data: *mut c_void) -> c_int {
        // SAFETY: `data` is the handler, which lives while it is registered.
        let handler = unsafe { &*data.cast::<H>() };
        // SAFETY: Interrupts are disabled by the safety requirement.
        handler.suspend(unsafe { IrqsDisabled::new() });
        0
    }

    /// # Safety
    ///
    /// As for [`Self::suspend`].
    unsafe extern "C" fn resume(data: *mut c_void) {
        // SAFETY: `data` is the handler, which lives while it is registered.
        let handler = unsafe { &*data.cast::<H>() };
        // SAFETY: Interrupts are disabled by the safety requirement.
        handler.resume(unsafe { IrqsDisabled::new() });
    }

    /// # Safety
    ///
    /// `data` must point to the handler of a registered [`Registration<H>`].
    unsafe extern "C" fn shutdown(data: *mut c_void) {
        // SAFETY: `data` is the handler, which lives while it is registered.
        let handler = unsafe { &*data.cast::<H>() };
        handler.shutdown();
    }
}
