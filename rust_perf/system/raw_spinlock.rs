// SPDX-License-Identifier: GPL-2.0

//! A lock for code that runs with interrupts disabled.
//!
//! C header: `include/linux/spinlock.h`.

use super::irq::IrqsDisabled;
use crate::bindings;
use core::cell::UnsafeCell;
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// Data that one CPU at a time may access, with interrupts disabled. The others spin,
/// also where the kernel's `spinlock_t` would sleep.
///
/// Not for NMIs: one would wait for the code that it interrupts.
#[pin_data]
pub struct RawSpinLock<T> {
    #[pin]
    lock: Opaque<bindings::raw_spinlock_t>,
    data: UnsafeCell<T>,
}

// SAFETY: The lock gives one CPU at a time access to the data, which may be sent there.
unsafe impl<T: Send> Sync for RawSpinLock<T> {}
// SAFETY: The data may be sent, and the lock belongs to no thread while it is not held.
unsafe impl<T: Send> Send for RawSpinLock<T> {}

impl<T> RawSpinLock<T> {
    /// Initialises a lock that is not held.
    pub fn new(data: T) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes, and what is there stays pinned.
            lock <- Opaque::ffi_init(|slot| unsafe {
                bindings::rust_perf_raw_spin_lock_init(slot)
            }),
            data: UnsafeCell::new(data),
        })
    }

    /// Calls `f` with the lock held. Not in an NMI, nor within `f`: that would wait for
    /// ever.
    pub fn with<R>(&self, _: IrqsDisabled<'_>, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: The lock is initialised, and with interrupts disabled nothing on this CPU but an
        // NMI can wait for it while it is held.
        unsafe { bindings::rust_perf_raw_spin_lock(self.lock.get()) };
        // SAFETY: The lock is held, so that nobody else has a reference. `f` cannot keep this one.
        let result = f(unsafe { &mut *self.data.get() });
        // SAFETY: This CPU took the lock above: with interrupts disabled the code cannot have moved.
        unsafe { bindings::rust_perf_raw_spin_unlock(self.lock.get()) };
        result
    }
}
