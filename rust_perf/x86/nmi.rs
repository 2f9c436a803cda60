// SPDX-License-Identifier: GPL-2.0

//! NMI handlers.
//!
//! C header: `arch/x86/include/asm/nmi.h`.

use crate::{
    bindings,
    system::irq::Interrupt, //
};
use core::{
    arch::asm,
    marker::PhantomPinned,
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering::{
            Relaxed,
            SeqCst, //
        }, //
    }, //
};
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_uint,
        c_ulong,
        c_void, //
    },
    prelude::*,
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

    /// Handles an NMI that no handler of NMI_LOCAL has claimed, [`Self::handle`] included. All handlers of
    /// such NMIs are called, whichever claims it.
    ///
    /// NMI context: must not allocate, lock, sleep, print or panic.
    fn handle_unknown(&self, interrupt: &Interrupt<'_>) -> Return;
}

/// The segment of a CPU's own variables (`__percpu_seg` in `arch/x86/include/asm/percpu.h`).
#[cfg(CONFIG_SMP)]
macro_rules! percpu_seg {
    () => {
        "gs:"
    };
}
#[cfg(not(CONFIG_SMP))]
macro_rules! percpu_seg {
    () => {
        ""
    };
}

/// Counts a PMI in the row PMI of /proc/interrupts. In-tree: `inc_perf_irq_stat()`.
#[inline(always)]
pub(crate) fn count_pmi(_: &Interrupt<'_>) {
    // SAFETY: `irq_stat` is a variable of this CPU's, which has a word for this at the offset. Only the CPU
    // itself changes it, by single instructions like this one.
    unsafe {
        asm!(
            concat!("inc dword ptr ", percpu_seg!(), "[rip + {irq_stat} + {pmis}]"),
            irq_stat = sym bindings::irq_stat,
            pmis = const bindings::RUST_PERF_PMI_COUNT,
            options(nostack)
        )
    };
}

/// The address of the one [`Registration`], null if there is none.
///
/// The kernel passes no data to NMI handlers, so the handler finds it here. It is not one of the kernel's
/// atomics, which are called as functions: each NMI reads it.
static REGISTRATION: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The name of the handlers, by which the kernel unregisters them.
const NAME: &CStr = c"rust_perf";

/// Calls a [`Handler`] for NMIs, before the kernel's own handlers, and for those that these leave,
/// until dropped. There is one at a time.
///
/// # Invariants
///
/// `REGISTRATION` is the address of this. `action` is registered with [`handle_nmi::<H>`], and `unknown`
/// with [`handle_unknown_nmi::<H>`].
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<H: Handler> {
    #[pin]
    action: Opaque<bindings::nmiaction>,
    #[pin]
    unknown: Opaque<bindings::nmiaction>,
    handler: H,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Only the kernel accesses the actions, under its own lock. The handler is `Send`.
unsafe impl<H: Handler> Send for Registration<H> {}
// SAFETY: Only the kernel accesses the actions, under its own lock. The handler is `Sync`.
unsafe impl<H: Handler> Sync for Registration<H> {}

impl<H: Handler> Registration<H> {
    /// Registers `handler`. Fails with `EBUSY` if there is a handler already. Task
    /// context, may sleep.
    pub(crate) fn register(handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            action <- new_action(Some(handle_nmi::<H>), bindings::NMI_FLAG_FIRST),
            unknown <- new_action(Some(handle_unknown_nmi::<H>), 0),
            handler,
            _pin: PhantomPinned,
            _: {
                REGISTRATION
                    .compare_exchange(ptr::null_mut(), this.as_ptr().cast(), SeqCst, Relaxed)
                    .map_err(|_| EBUSY)?;
                // SAFETY: The actions are initialised and pinned, and unregistered before they go away.
                to_result(unsafe {
                    bindings::__register_nmi_handler(
                        bindings::NMI_LOCAL,
                        Opaque::cast_into(&raw const (*this.as_ptr()).action),
                    )
                })
                .inspect_err(|_| REGISTRATION.store(ptr::null_mut(), Relaxed))?;
                // SAFETY: As above.
                to_result(unsafe {
                    bindings::__register_nmi_handler(
                        bindings::NMI_UNKNOWN,
                        Opaque::cast_into(&raw const (*this.as_ptr()).unknown),
                    )
                })
                .inspect_err(|_| {
                    unregister(bindings::NMI_LOCAL);
                    REGISTRATION.store(ptr::null_mut(), Relaxed);
                })?;
            },
        }? Error)
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Registration<H> {
    fn drop(self: Pin<&mut Self>) {
        unregister(bindings::NMI_UNKNOWN);
        unregister(bindings::NMI_LOCAL);
        REGISTRATION.store(ptr::null_mut(), Relaxed);
    }
}

/// What registers `handler`, initialised.
fn new_action(
    handler: bindings::nmi_handler_t,
    flags: c_uint,
) -> impl PinInit<Opaque<bindings::nmiaction>> {
    Opaque::ffi_init(move |slot: *mut bindings::nmiaction| {
        // SAFETY: `slot` is valid for writes and stays where it is, so that its list can refer to itself.
        unsafe {
            slot.write(bindings::nmiaction {
                handler,
                name: NAME.as_char_ptr(),
                flags: flags as c_ulong,
                ..Default::default()
            });
            (*slot).list.next = &raw mut (*slot).list;
            (*slot).list.prev = &raw mut (*slot).list;
        }
    })
}

/// Unregisters the module's handler of this type of NMIs, if there is one. Task context, may sleep. No CPU
/// is in the handler when this returns: it waits for an RCU grace period, and NMI handlers are readers.
fn unregister(nmi_type: c_uint) {
    // SAFETY: What is registered under this name is this module's. The function takes any type and name.
    unsafe { bindings::unregister_nmi_handler(nmi_type, NAME.as_char_ptr()) };
}

/// # Safety
///
/// Must be called in an NMI, with the registers that it found, while a
/// `Registration<H>` is registered.
unsafe extern "C" fn handle_nmi<H: Handler>(_type: c_uint, regs: *mut bindings::pt_regs) -> c_int {
    // SAFETY: By the safety requirement.
    unsafe { call::<H>(regs, H::handle) }
}

/// # Safety
///
/// As for [`handle_nmi`].
unsafe extern "C" fn handle_unknown_nmi<H: Handler>(
    _type: c_uint,
    regs: *mut bindings::pt_regs,
) -> c_int {
    // SAFETY: By the safety requirement.
    unsafe { call::<H>(regs, H::handle_unknown) }
}

/// Calls a method of the handler, and returns what the kernel wants to know.
///
/// # Safety
///
/// As for [`handle_nmi`].
#[inline(always)]
unsafe fn call<H: Handler>(
    regs: *mut bindings::pt_regs,
    method: impl FnOnce(&H, &Interrupt<'_>) -> Return,
) -> c_int {
    let registration = REGISTRATION.load(Relaxed).cast::<Registration<H>>();
    // SAFETY: A `Registration<H>` is registered by the safety requirement. There is only one, and
    // `REGISTRATION` is its address, by its type invariant.
    let registration = unsafe { &*registration };
    let Some(regs) = NonNull::new(regs) else {
        return bindings::NMI_DONE as c_int;
    };
    // SAFETY: This is the handler of the NMI that found these registers. `handle` takes any lifetime,
    // so that it can keep neither the value nor a copy.
    let interrupt = unsafe { Interrupt::from_raw(regs) };
    match method(&registration.handler, &interrupt) {
        Return::None => bindings::NMI_DONE as c_int,
        Return::Handled(causes) => causes as c_int,
    }
}
