// SPDX-License-Identifier: GPL-2.0

//! Probes of user programs.
//!
//! C header: `include/linux/uprobes.h`.

use super::{
    address_space::AddressSpace,
    irq::Regs,
    path::RegularFile, //
};
use crate::bindings;
use core::{
    marker::PhantomPinned,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::{
        c_int,
        c_ulong, //
    },
    prelude::*,
    types::Opaque, //
};

/// Where a probe is.
pub struct Place {
    /// The program, or a library.
    pub file: RegularFile,
    /// The offset in the file.
    pub offset: u64,
    /// The offset in the file of a counter of 16 bits that says how many probes there are.
    /// The kernel increments it for each. 0 if there is none.
    pub ref_ctr_offset: u64,
}

/// What a probe has found.
pub struct Hit<'a> {
    /// The registers of the program.
    pub regs: Regs<'a>,
    /// The address of the function that has returned, if the probe is of the return.
    pub function: Option<usize>,
}

/// Handles the hits of a [`Uprobe`].
pub trait Handler: Send + Sync + 'static {
    /// Whether programs in this address space are probed. Task context, may sleep.
    ///
    /// The kernel asks when the probe is registered, when a program maps the file, and
    /// before each hit. If the answer becomes no, the next hit removes the breakpoint.
    fn wants(&self, mm: AddressSpace) -> bool;

    /// The probed instruction is about to execute in user mode, or the function has
    /// returned. Task context, that of the program; may sleep.
    fn hit(&self, hit: Hit<'_>);
}

/// Calls a [`Handler`] until dropped.
///
/// # Invariants
///
/// `consumer` is registered with `uprobe`.
#[pin_data(PinnedDrop)]
pub struct Uprobe<H: Handler> {
    #[pin]
    consumer: Opaque<bindings::uprobe_consumer>,
    /// The probe refers to its inode.
    _place: Place,
    handler: H,
    uprobe: *mut bindings::uprobe,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Only the kernel accesses `consumer` and `uprobe`, under its own locks. The rest is
// `Send`.
unsafe impl<H: Handler> Send for Uprobe<H> {}
// SAFETY: Only the kernel accesses `consumer` and `uprobe`, under its own locks. The rest is
// `Sync`.
unsafe impl<H: Handler> Sync for Uprobe<H> {}

impl<H: Handler> Uprobe<H> {
    /// Puts a probe at a place, or on the return from the function that starts there.
    ///
    /// Fails with the errors of `uprobe_register()`. Task context, may sleep.
    pub fn register(place: Place, of_return: bool, handler: H) -> impl PinInit<Self, Error> {
        let inode = place.file.inode();
        let (offset, ref_ctr_offset) = (place.offset as i64, place.ref_ctr_offset as i64);
        try_pin_init!(&this in Self {
            consumer <- Opaque::ffi_init(|slot: *mut bindings::uprobe_consumer| {
                let consumer = bindings::uprobe_consumer {
                    // On a return probe it answers whether the address space is still wanted.
                    handler: Some(if of_return { Self::on_call } else { Self::on_entry }),
                    ret_handler: of_return.then_some(Self::on_return),
                    filter: Some(Self::filter),
                    ..Default::default()
                };
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(consumer) }
            }),
            _place: place,
            handler,
            // INVARIANT: If this succeeds, the consumer is registered with the result, otherwise it
            // is not initialised.
            uprobe: {
                // SAFETY: `consumer` and `handler` are initialised. They are pinned, and stay until
                // the consumer is unregistered. So does the inode, which `_place` refers to.
                from_err_ptr(unsafe {
                    let consumer = Opaque::cast_into(&raw const (*this.as_ptr()).consumer);
                    bindings::uprobe_register(inode, offset, ref_ctr_offset, consumer)
                })?
            },
            _pin: PhantomPinned,
        }? Error)
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// The handler of the probe that `consumer` is part of. The rest of the probe may not be
    /// initialised yet.
    ///
    /// # Safety
    ///
    /// `consumer` must be that of a `Uprobe<H>` that lives for `'a`.
    unsafe fn handler_of<'a>(consumer: *mut bindings::uprobe_consumer) -> &'a H {
        let consumer = consumer.cast::<Opaque<bindings::uprobe_consumer>>();
        // SAFETY: `consumer` is within a live `Uprobe<H>` by the safety requirement. Its handler is
        // initialised before it is registered.
        unsafe { &(*kernel::container_of!(consumer, Self, consumer)).handler }
    }

    /// Task context, may sleep.
    ///
    /// # Safety
    ///
    /// `consumer` must be that of a registered `Uprobe<H>`.
    unsafe extern "C" fn filter(
        consumer: *mut bindings::uprobe_consumer,
        mm: *mut bindings::mm_struct,
    ) -> bool {
        // SAFETY: The probe is unregistered before it goes away.
        let handler = unsafe { Self::handler_of(consumer) };
        handler.wants(AddressSpace::from_raw(mm.cast()))
    }

    /// Task context, may sleep.
    ///
    /// # Safety
    ///
    /// `consumer` must be that of a registered `Uprobe<H>`.
    unsafe extern "C" fn on_call(
        consumer: *mut bindings::uprobe_consumer,
        _: *mut bindings::pt_regs,
        _: *mut u64,
    ) -> c_int {
        // SAFETY: The probe is unregistered, and its handlers are waited for, before it goes away.
        let handler = unsafe { Self::handler_of(consumer) };
        if handler.wants(AddressSpace::current()) {
            0
        } else {
            bindings::UPROBE_HANDLER_REMOVE as c_int
        }
    }

    /// Task context, may sleep.
    ///
    /// # Safety
    ///
    /// `consumer` must be that of a registered `Uprobe<H>`, and `regs` valid.
    unsafe extern "C" fn on_entry(
        consumer: *mut bindings::uprobe_consumer,
        regs: *mut bindings::pt_regs,
        data: *mut u64,
    ) -> c_int {
        // SAFETY: By the safety requirement.
        let result = unsafe { Self::on_call(consumer, regs, data) };
        if result == 0 {
            // SAFETY: By the safety requirement.
            unsafe { Self::call(consumer, regs, None) };
        }
        result
    }

    /// Task context, may sleep.
    ///
    /// # Safety
    ///
    /// As for [`Self::on_entry`].
    unsafe extern "C" fn on_return(
        consumer: *mut bindings::uprobe_consumer,
        function: c_ulong,
        regs: *mut bindings::pt_regs,
        _: *mut u64,
    ) -> c_int {
        // SAFETY: By the safety requirement.
        unsafe { Self::call(consumer, regs, Some(function)) };
        0
    }

    /// # Safety
    ///
    /// As for [`Self::on_entry`].
    unsafe fn call(
        consumer: *mut bindings::uprobe_consumer,
        regs: *mut bindings::pt_regs,
        function: Option<usize>,
    ) {
        // SAFETY: The probe is unregistered, and its handlers are waited for, before it goes away.
        let handler = unsafe { Self::handler_of(consumer) };
        let Some(regs) = NonNull::new(regs) else {
            return;
        };
        handler.hit(Hit {
            // SAFETY: `regs` is valid during the call by the safety requirement. The handler cannot
            // keep the value.
            regs: unsafe { Regs::from_raw(regs) },
            function,
        });
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Uprobe<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The consumer is registered with the probe by the type invariant. The second
        // function waits for running handlers.
        unsafe {
            bindings::uprobe_unregister_nosync(self.uprobe, self.consumer.get());
            bindings::uprobe_unregister_sync();
        }
    }
}
