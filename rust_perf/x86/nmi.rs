// SPDX-License-Identifier: GPL-2.0

//! Handlers of NMIs.
//!
//! C header: `arch/x86/include/asm/nmi.h`.

use crate::{
    bindings,
    perf::Regs, //
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

/// Whether an NMI was the handler's.
pub(crate) enum Return {
    /// Its cause is someone else's; other handlers are asked.
    None,
    /// The handler dealt with so many causes, at least one. If there were more,
    /// the kernel takes a second NMI without a cause for one of theirs.
    Handled(u32),
}

/// Handles NMIs that this CPU's local APIC delivers.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Handles an NMI, the cause of which may be someone else's.
    ///
    /// NMI context: must not allocate, lock, sleep, print or panic.
    fn handle(&self, regs: &Regs<'_>) -> Return;
}

/// The address of the one [`Registration`], 0 if there is none.
///
/// The kernel passes its NMI handlers no data, so they have to find it here.
static REGISTRATION: Atomic<usize> = Atomic::new(0);

/// A handler that NMIs are passed to, before those of the kernel's own, until
/// dropped. There is one at a time.
///
/// # Invariants
///
/// `REGISTRATION` is the address of this, and `action` is registered with
/// [`handle_nmi::<H>`].
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<H: Handler> {
    #[pin]
    action: Opaque<bindings::nmiaction>,
    name: &'static CStr,
    handler: H,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: `action` is the kernel's, under its own lock.
unsafe impl<H: Handler> Send for Registration<H> {}
// SAFETY: As above; the handler is `Sync`.
unsafe impl<H: Handler> Sync for Registration<H> {}

impl<H: Handler> Registration<H> {
    /// Registers `handler`; `name` must be that of no other handler of local
    /// NMIs, for it is how they are unregistered. Task context. Fails with
    /// `EBUSY` if there is a handler already.
    pub(crate) fn register(name: &'static CStr, handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            action <- Opaque::ffi_init(|slot: *mut bindings::nmiaction| {
                // SAFETY: `slot` is valid for writes; its list is made a list of itself.
                unsafe {
                    slot.write(bindings::nmiaction {
                        handler: Some(handle_nmi::<H>),
                        name: name.as_char_ptr(),
                        flags: bindings::NMI_FLAG_FIRST as c_ulong,
                        ..Default::default()
                    });
                    (*slot).list.next = &raw mut (*slot).list;
                    (*slot).list.prev = &raw mut (*slot).list;
                }
            }),
            name,
            handler,
            _pin: PhantomPinned,
            _: {
                let address = this.as_ptr() as usize;
                REGISTRATION.cmpxchg(0, address, Full).map_err(|_| EBUSY)?;
                // SAFETY: `action` stays where it is, and is unregistered before it goes.
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
        // SAFETY: Registered under this name, by the type invariant. The function waits for a
        // grace period of RCU, and NMI handlers are its readers, so that no CPU is in the handler
        // any more when it returns.
        unsafe { bindings::unregister_nmi_handler(bindings::NMI_LOCAL, self.name.as_char_ptr()) };
        REGISTRATION.store(0, Relaxed);
    }
}

/// # Safety
///
/// To be called for NMIs while a `Registration<H>` is registered.
unsafe extern "C" fn handle_nmi<H: Handler>(_type: c_uint, regs: *mut bindings::pt_regs) -> c_int {
    let registration = ptr::with_exposed_provenance::<Registration<H>>(REGISTRATION.load(Relaxed));
    // SAFETY: This is called only while a `Registration<H>` is registered, and there is but one.
    let registration = unsafe { &*registration };
    let Some(regs) = NonNull::new(regs) else {
        return bindings::NMI_DONE as c_int;
    };
    // SAFETY: This is the handler of the NMI that found these registers.
    let regs = unsafe { Regs::from_raw(regs) };
    match registration.handler.handle(&regs) {
        Return::None => bindings::NMI_DONE as c_int,
        Return::Handled(causes) => causes as c_int,
    }
}
