// SPDX-License-Identifier: GPL-2.0

//! Calls of the kernel's functions, as ftrace sees them.
//!
//! A kprobe would not do where no call may be missed: one that comes from an interrupt of another
//! probe's handler is not handled. ftrace drops a call only if it comes from a handler in the same kind
//! of context.
//!
//! C header: `include/linux/ftrace.h`.

#[cfg(all(CONFIG_DYNAMIC_FTRACE, not(CONFIG_LTO)))]
mod hook;
/// Without dynamic ftrace, nothing can be hooked. Link-time optimisation may inline a function where
/// it is called, so that a hook would miss calls.
#[cfg(not(all(CONFIG_DYNAMIC_FTRACE, not(CONFIG_LTO))))]
#[path = "ftrace/no_hook.rs"]
mod hook;

pub use self::hook::Hook;

use super::{
    irq::IrqsDisabled,
    symbols::Symbols, //
};
use core::{
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering::Relaxed, //
    }, //
};
use kernel::{
    ffi::c_int,
    prelude::*, //
};

/// Handles the calls of functions.
pub trait Handler: Send + Sync + 'static {
    /// A function has been called, and has not done anything yet. `ip` is the address of its call of
    /// ftrace. That is where the function begins, or behind its ENDBR64.
    ///
    /// Context of the caller, with interrupts disabled. Must not allocate, sleep, print or panic.
    fn called(&self, ip: usize, irqs: IrqsDisabled<'_>);
}

/// Whether hooks are called. After an error of its own, ftrace may call none any more.
///
/// # Invariants
///
/// The pointer is null or the kernel's `ftrace_disabled`.
pub struct Alive(AtomicPtr<c_int>);

impl Alive {
    /// They are not.
    pub const fn never() -> Self {
        // INVARIANT: It is null.
        Alive(AtomicPtr::new(ptr::null_mut()))
    }

    /// From now on they are, until ftrace has an error. Fails with `ENOENT` if the kernel does not tell
    /// that. Task context.
    pub fn watch(&self, symbols: Symbols) -> Result {
        let address = symbols.address(c"ftrace_disabled").ok_or(ENOENT)?;
        // INVARIANT: It is that variable.
        self.0
            .store(ptr::with_exposed_provenance_mut(address), Relaxed);
        Ok(())
    }

    /// Whether hooks are called. Any context.
    #[inline]
    pub fn get(&self) -> bool {
        let disabled = self.0.load(Relaxed);
        // SAFETY: By the type invariant this is a variable of the kernel's, an aligned `int` that is
        // always there. It changes from 0 to 1 once.
        !disabled.is_null() && unsafe { disabled.read_volatile() } == 0
    }
}
