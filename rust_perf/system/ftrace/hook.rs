// SPDX-License-Identifier: GPL-2.0

//! Hooks of functions.

use super::Handler;
use crate::{
    bindings,
    system::irq::IrqsDisabled, //
};
use core::marker::PhantomPinned;
use kernel::{
    error::to_result,
    ffi::c_ulong,
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

/// Calls a [`Handler`] whenever a function is called, until dropped. As long as there is one,
/// `kernel.ftrace_enabled` cannot be set to 0 in kernels where that disables ftrace.
///
/// # Invariants
///
/// `ops` is registered for the function, with [`called::<H>`] and this as its data.
#[pin_data(PinnedDrop)]
pub struct Hook<H: Handler> {
    #[pin]
    ops: Opaque<bindings::ftrace_ops>,
    handler: H,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Only the kernel accesses `ops`, under its own lock. The handler is `Send`.
unsafe impl<H: Handler> Send for Hook<H> {}
// SAFETY: Only the kernel accesses `ops`, under its own lock. The handler is `Sync`.
unsafe impl<H: Handler> Sync for Hook<H> {}

impl<H: Handler> Hook<H> {
    /// Hooks the function at `address`. Fails with `EINVAL` if ftrace cannot trace it, with `EBUSY`
    /// if `kernel.ftrace_enabled` disables ftrace, and with `ENOMEM`. Task context, may sleep.
    pub fn register(address: usize, handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            ops <- Opaque::ffi_init(|slot: *mut bindings::ftrace_ops| {
                let ops = bindings::ftrace_ops {
                    func: Some(called::<H>),
                    flags: bindings::FTRACE_OPS_FL_PERMANENT as c_ulong,
                    private: this.as_ptr().cast(),
                    ..Default::default()
                };
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(ops) }
            }),
            handler,
            _pin: PhantomPinned,
            // INVARIANT: If this succeeds, `ops` is registered; otherwise it is not initialised.
            _: {
                // SAFETY: `ops` and `handler` are initialised. They are pinned, and unregistered
                // before they go away.
                unsafe {
                    let ops = Opaque::cast_into(&raw const (*this.as_ptr()).ops);
                    to_result(bindings::ftrace_set_filter_ip(ops, address, 0, 0))?;
                    to_result(bindings::register_ftrace_function(ops))
                        .inspect_err(|_| bindings::ftrace_free_filter(ops))?;
                }
            },
        }? Error)
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Hook<H> {
    fn drop(self: Pin<&mut Self>) {
        let ops = self.ops.get();
        // SAFETY: `ops` is registered by the type invariant. It is neither static nor part of the
        // kernel, so the function waits until no CPU is in the handler, unless it fails.
        let unregistered = to_result(unsafe { bindings::unregister_ftrace_function(ops) });
        if unregistered.is_err() {
            pr_emerg!(
                "ftrace has failed and may still call the module, which cannot be unloaded\n"
            );
            loop {
                fsleep(Delta::from_secs(60));
            }
        }
        // SAFETY: `ops` is not registered any more, so that nothing uses its filter.
        unsafe { bindings::ftrace_free_filter(ops) };
    }
}

/// # Safety
///
/// `ops` must be that of a registered `Hook<H>`.
unsafe extern "C" fn called<H: Handler>(
    _ip: c_ulong,
    _parent_ip: c_ulong,
    ops: *mut bindings::ftrace_ops,
    _regs: *mut bindings::ftrace_regs,
) {
    // SAFETY: By the safety requirement `private` is a `Hook<H>`, which stays until the handler has
    // returned.
    let hook = unsafe { &*(*ops).private.cast::<Hook<H>>() };
    IrqsDisabled::with(|irqs| hook.handler.called(irqs));
}
