// SPDX-License-Identifier: GPL-2.0

//! Probes of the kernel's own code.
//!
//! C header: `include/linux/kprobes.h`.

use super::{
    irq::{
        PreemptDisabled,
        Regs, //
    },
    symbols::Symbols,
    user_string::UserString, //
};
use crate::bindings;
use core::{
    marker::PhantomPinned,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    types::Opaque, //
};

/// Where a probe is.
pub enum Place {
    /// At an address.
    Address(usize),
    /// This number of bytes behind `SYMBOL` or `MODULE:SYMBOL`.
    Symbol(UserString, u32),
}

/// What a probe has found.
pub struct Hit<'a> {
    /// The registers of the probed code.
    pub regs: Regs<'a>,
    /// The address of the probe.
    pub address: usize,
    /// Where the function returns to, if the probe is of the return.
    pub return_address: Option<usize>,
    /// Proof that the code stays on this CPU.
    pub preempt: PreemptDisabled<'a>,
}

/// Handles the hits of a [`Kprobe`].
pub trait Handler: Send + Sync + 'static {
    /// The probed instruction is about to execute, or the function has returned.
    ///
    /// Any context, an NMI included: that of the probed code. Preemption is disabled.
    /// Neither this nor what it calls may sleep, lock, allocate, print or panic.
    fn hit(&self, hit: Hit<'_>);
}

/// Calls a [`Handler`] until dropped.
///
/// # Invariants
///
/// `probe` is registered: as a kretprobe if `returns`, otherwise its `kp` is as a kprobe.
#[pin_data(PinnedDrop)]
pub struct Kprobe<H: Handler> {
    /// For a kprobe, `kp` alone is used.
    #[pin]
    probe: Opaque<bindings::kretprobe>,
    returns: bool,
    /// `probe` refers to the name of the symbol.
    _place: Place,
    handler: H,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: Only the kernel accesses `probe`, under its own lock. The rest is `Send`.
unsafe impl<H: Handler> Send for Kprobe<H> {}
// SAFETY: Only the kernel accesses `probe`, under its own lock. The rest is `Sync`.
unsafe impl<H: Handler> Sync for Kprobe<H> {}

impl<H: Handler> Kprobe<H> {
    /// Puts a probe at a place, or on the return from the function that starts there.
    ///
    /// Fails with the errors of the in-tree PMU `kprobe`: `ENOENT` if there is no such
    /// symbol, `EADDRNOTAVAIL` if there are several, `EINVAL` if the kernel allows no probe
    /// there, `EILSEQ` if the place is within an instruction, `EPERM` if the kernel is
    /// locked down, and those of `register_kprobe()`. Task context, may sleep.
    pub fn register(
        symbols: Symbols,
        place: Place,
        of_return: bool,
        handler: H,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            _: { check(symbols, &place)? },
            probe <- Opaque::ffi_init(|slot: *mut bindings::kretprobe| {
                let mut probe = bindings::kretprobe::default();
                match &place {
                    Place::Address(address) => probe.kp.addr = *address as *mut _,
                    Place::Symbol(name, offset) => {
                        probe.kp.symbol_name = name.as_char_ptr();
                        probe.kp.offset = *offset;
                    }
                }
                if of_return {
                    probe.handler = Some(Self::on_return);
                } else {
                    probe.kp.pre_handler = Some(Self::on_entry);
                }
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(probe) }
            }),
            returns: of_return,
            // The name stays where it is when this moves.
            _place: place,
            handler,
            _pin: PhantomPinned,
            // INVARIANT: If this succeeds, the probe is registered, otherwise it is not initialised.
            _: {
                // SAFETY: `probe` and `handler` are initialised. They are pinned, and unregistered
                // before they go away. `kp` is within `probe`.
                to_result(unsafe {
                    let probe = Opaque::cast_into(&raw const (*this.as_ptr()).probe);
                    if of_return {
                        bindings::register_kretprobe(probe)
                    } else {
                        bindings::register_kprobe(&raw mut (*probe).kp)
                    }
                })?;
            },
        }? Error)
    }

    /// # Safety
    ///
    /// `probe` must be that of a `Kprobe<H>` that lives for `'a`.
    unsafe fn from_probe<'a>(probe: *mut bindings::kretprobe) -> &'a Self {
        let probe = probe.cast::<Opaque<bindings::kretprobe>>();
        // SAFETY: `probe` is within a live `Kprobe<H>` by the safety requirement.
        unsafe { &*kernel::container_of!(probe, Self, probe) }
    }

    /// The callback of a kprobe. Context as for [`Handler::hit`].
    ///
    /// # Safety
    ///
    /// `kp` must be that of a registered `Kprobe<H>`. Preemption must be disabled, and
    /// `regs` valid.
    unsafe extern "C" fn on_entry(
        kp: *mut bindings::kprobe,
        regs: *mut bindings::pt_regs,
    ) -> c_int {
        // SAFETY: `kp` is part of the `probe` of a `Kprobe<H>` by the safety requirement, which is
        // unregistered, and its handlers are waited for, before it goes away.
        let (this, address) = unsafe {
            let probe = kernel::container_of!(kp, bindings::kretprobe, kp);
            (Self::from_probe(probe), (*kp).addr.addr())
        };
        // SAFETY: `regs` is valid and preemption is disabled during this call, by the safety
        // requirement.
        unsafe { this.call(regs, address, None) };
        // The probed instruction is to execute.
        0
    }

    /// The callback of a kretprobe. Context as for [`Handler::hit`].
    ///
    /// # Safety
    ///
    /// `instance` must be one of a `Kprobe<H>` that was registered when the function was
    /// called. Preemption must be disabled, and `regs` valid.
    unsafe extern "C" fn on_return(
        instance: *mut bindings::kretprobe_instance,
        regs: *mut bindings::pt_regs,
    ) -> c_int {
        // SAFETY: `instance` is valid by the safety requirement.
        let probe = unsafe { bindings::rust_perf_kretprobe_of(instance) };
        // It may have been unregistered meanwhile.
        if probe.is_null() {
            return 0;
        }
        // SAFETY: The probe is that of a `Kprobe<H>` by the safety requirement. Unregistering it
        // waits until preemption is enabled again on this CPU.
        let (this, address) = unsafe { (Self::from_probe(probe), (*probe).kp.addr.addr()) };
        // SAFETY: `instance` is valid by the safety requirement.
        let return_address = unsafe { bindings::rust_perf_kretprobe_address(instance) };
        // SAFETY: `regs` is valid and preemption is disabled during this call, by the safety
        // requirement.
        unsafe { this.call(regs, address, Some(return_address)) };
        0
    }

    /// # Safety
    ///
    /// `regs` must be valid, and preemption disabled, during the call.
    unsafe fn call(
        &self,
        regs: *mut bindings::pt_regs,
        address: usize,
        return_address: Option<usize>,
    ) {
        let Some(regs) = NonNull::new(regs) else {
            return;
        };
        self.handler.hit(Hit {
            // SAFETY: By the safety requirement. The handler cannot keep the value.
            regs: unsafe { Regs::from_raw(regs) },
            address,
            return_address,
            // SAFETY: By the safety requirement. The handler cannot keep the value.
            preempt: unsafe { PreemptDisabled::new() },
        });
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Kprobe<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `probe` is registered by the type invariant. Both functions wait for running
        // handlers.
        unsafe {
            let probe = self.probe.get();
            if self.returns {
                bindings::unregister_kretprobe(probe);
            } else {
                bindings::unregister_kprobe(&raw mut (*probe).kp);
            }
        }
    }
}

/// What the in-tree PMU `kprobe` checks before it registers a probe.
fn check(symbols: Symbols, place: &Place) -> Result {
    let address = match place {
        Place::Address(address) => *address,
        Place::Symbol(name, offset) => {
            symbols.check_unique(name)?;
            symbols
                .address(name)
                .map_or(0, |address| address.wrapping_add(*offset as usize))
        }
    };
    // SAFETY: The function may be called in task context.
    to_result(unsafe { bindings::rust_perf_kprobes_locked_down() })?;
    if symbols.is_notrace(address)? {
        return Err(EINVAL);
    }
    Ok(())
}
