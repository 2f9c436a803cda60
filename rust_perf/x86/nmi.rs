// SPDX-License-Identifier: GPL-2.0

//! NMI handlers.
//!
//! C header: `arch/x86/include/asm/nmi.h`.

use crate::{
    bindings,
    system::irq::Interrupt, //
};
use core::{
    marker::PhantomPinned,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_uint,
        c_ulong, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    types::Opaque, //
};

/// What a handler found.
pub(crate) enum Return {
    /// The NMI is not the handler's. The kernel asks other handlers.
    None,
    /// The handler dealt with this number of causes, at least one. After more than
    /// one, the kernel takes a following NMI without a cause for a late one.
    Handled(u32),
}

/// Handles NMIs that this CPU's local APIC delivers.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Handles an NMI, which may be someone else's.
    ///
    /// NMI context: must not allocate, lock, sleep, print or panic.
    fn handle(&self, interrupt: &Interrupt<'_>) -> Return;
}

/// The address of the one [`Registration`], 0 if there is none.
///
/// The kernel passes no data to NMI handlers, so the handler finds it here.
static REGISTRATION: Atomic<usize> = Atomic::new(0);

/// The name of the handler, by which the kernel unregisters it.
const NAME: &CStr = c"rust_perf";

/// Calls a [`Handler`] for NMIs, before the kernel's own handlers, until dropped.
/// There is one at a time.
///
/// # Invariants
///
/// `REGISTRATION` is the address of this, and `action` is registered with
/// [`handle_nmi::<H>`].
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<H: Handler> {
    #[pin]
    action: Opaque<bindings::nmiaction>,
    handler: H,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Only the kernel accesses `action`, under its own lock. The handler is `Send`.
unsafe impl<H: Handler> Send for Registration<H> {}
// SAFETY: Only the kernel accesses `action`, under its own lock. The handler is `Sync`.
unsafe impl<H: Handler> Sync for Registration<H> {}

impl<H: Handler> Registration<H> {
    /// Registers `handler`. Fails with `EBUSY` if there is a handler already. Task
    /// context, may sleep.
    pub(crate) fn register(handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            action <- Opaque::ffi_init(|slot: *mut bindings::nmiaction| {
                // SAFETY: `slot` is valid for writes and stays where it is, so that its list can refer
                // to itself.
                unsafe {
                    slot.write(bindings::nmiaction {
                        handler: Some(handle_nmi::<H>),
                        name: NAME.as_char_ptr(),
                        flags: bindings::NMI_FLAG_FIRST as c_ulong,
                        ..Default::default()
                    });
                    (*slot).list.next = &raw mut (*slot).list;
                    (*slot).list.prev = &raw mut (*slot).list;
                }
            }),
            handler,
            _pin: PhantomPinned,
            _: {
                let address = this.as_ptr() as usize;
                REGISTRATION.cmpxchg(0, address, Full).map_err(|_| EBUSY)?;
                // SAFETY: `action` is initialised and pinned, and is unregistered before it goes away.
                to_result(unsafe {
                    bindings::__register_nmi_handler(
                        bindings::NMI_LOCAL,
                        Opaque::cast_into(&raw const (*this.as_ptr()).action),
                    )
                })
                .inspect_err(|_| REGISTRATION.store(0, Relaxed))?;
            },
        }? Error)
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Registration<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `action` is registered under this name by the type invariant, and nothing else is:
        // it is this module's, and there is one registration. The function waits for an RCU grace
        // period, and NMI handlers are readers, so that no CPU is in the handler when it returns.
        unsafe { bindings::unregister_nmi_handler(bindings::NMI_LOCAL, NAME.as_char_ptr()) };
        REGISTRATION.store(0, Relaxed);
    }
}

/// # Safety
///
/// Must be called in an NMI, with the registers that it found, while a
/// `Registration<H>` is registered.
unsafe extern "C" fn handle_nmi<H: Handler>(_type: c_uint, regs: *mut bindings::pt_regs) -> c_int {
    let registration = ptr::with_exposed_provenance::<Registration<H>>(REGISTRATION.load(Relaxed));
    // SAFETY: A `Registration<H>` is registered by the safety requirement. There is only one, and
    // `REGISTRATION` is its address, by its type invariant.
    let registration = unsafe { &*registration };
    let Some(regs) = NonNull::new(regs) else {
        return bindings::NMI_DONE as c_int;
    };
    // SAFETY: This is the handler of the NMI that found these registers. `handle` takes any lifetime,
    // so that it can keep neither the value nor a copy.
    let interrupt = unsafe { Interrupt::from_raw(regs) };
    match registration.handler.handle(&interrupt) {
        Return::None => bindings::NMI_DONE as c_int,
        Return::Handled(causes) => causes as c_int,
    }
}
