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

/// Calls a [`Handler`] whenever one of its functions is called, until dropped. As long as there is one,
/// `kernel.ftrace_enabled` cannot be set to 0 in kernels where that disables ftrace.
///
/// Dropping a hook waits for grace periods of RCU-tasks, however many functions it has.
///
/// # Invariants
///
/// `ops` is registered for the functions, with [`called::<H>`] and this as its data.
#[pin_data(PinnedDrop)]
pub struct Hook<H: Handler> {
    #[pin]
    ops: Opaque<bindings::ftrace_ops>,
    handler: H,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The kernel changes `ops` under its own lock. The handler is `Send`.
unsafe impl<H: Handler> Send for Hook<H> {}
// SAFETY: The kernel changes `ops` under its own lock. The handler is `Sync`.
unsafe impl<H: Handler> Sync for Hook<H> {}

impl<H: Handler> Hook<H> {
    /// Hooks the functions at `addresses`. Fails with `EINVAL` if there is none, or ftrace cannot trace one
    /// of them, with `EBUSY` if `kernel.ftrace_enabled` disables ftrace, and with `ENOMEM`. Task context,
    /// may sleep.
    pub fn register(addresses: &[usize], handler: H) -> impl PinInit<Self, Error> + '_ {
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
                // SAFETY: `ops` and `handler` are initialised, and `ops` calls `called::<H>` with this.
                // They are pinned, and `ops` is unregistered before they go away.
                unsafe {
                    let ops = Opaque::cast_into(&raw const (*this.as_ptr()).ops);
                    register(ops, addresses)?;
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
        if to_result(unsafe { bindings::unregister_ftrace_function(ops) }).is_err() {
            stay();
        }
        // SAFETY: `ops` is not registered any more, so that nothing uses its filter.
        unsafe { bindings::ftrace_free_filter(ops) };
    }
}

/// Keeps the module for ever, because ftrace may still call it.
fn stay() -> ! {
    pr_emerg!("ftrace has failed and may still call the module, which cannot be unloaded\n");
    loop {
        fsleep(Delta::from_secs(60));
    }
}

/// Registers `ops` for the functions at `addresses`.
///
/// # Safety
///
/// `ops` must be initialised and not be registered. If this succeeds, it must not move until it is
/// unregistered and its filter freed. Its function must be safe to call with it until then.
unsafe fn register(ops: *mut bindings::ftrace_ops, addresses: &[usize]) -> Result {
    // Without a filter ftrace would call the handler for every function.
    if addresses.is_empty() {
        return Err(EINVAL);
    }
    let try_register = || -> Result {
        for &address in addresses {
            // SAFETY: By the safety requirements `ops` is initialised.
            to_result(unsafe { bindings::ftrace_set_filter_ip(ops, address, 0, 0) })?;
        }
        // SAFETY: By the safety requirements `ops` stays, and its function may be called.
        to_result(unsafe { bindings::register_ftrace_function(ops) })
    };
    try_register().inspect_err(|_| {
        // SAFETY: `ops` is initialised. Only registering, which has failed, changes its flags.
        let flags = unsafe { (*ops).flags };
        // ftrace has failed in the middle, and may have patched functions to call `ops`.
        if flags & bindings::FTRACE_OPS_FL_ENABLED as c_ulong != 0 {
            stay();
        }
        // SAFETY: `ops` is not registered, so that nothing uses its filter.
        unsafe { bindings::ftrace_free_filter(ops) };
    })
}

/// # Safety
///
/// `ops` must be that of a registered `Hook<H>`.
unsafe extern "C" fn called<H: Handler>(
    ip: c_ulong,
    _parent_ip: c_ulong,
    ops: *mut bindings::ftrace_ops,
    _regs: *mut bindings::ftrace_regs,
) {
    // SAFETY: By the safety requirement `private` is a `Hook<H>`, which stays until the handler has
    // returned.
    let hook = unsafe { &*(*ops).private.cast::<Hook<H>>() };
    IrqsDisabled::with(|irqs| hook.handler.called(ip, irqs));
}
