// SPDX-License-Identifier: GPL-2.0

//! PMIs that come late: when their NMI is handled, what caused them has been
//! dealt with already.

use core::sync::atomic::{
    AtomicUsize,
    Ordering::Relaxed, //
};
use kernel::time::{
    msecs_to_jiffies,
    Jiffies, //
};

/// For how long a PMI is expected. What is known of the delay is that it is
/// short; the in-tree driver for AMD waits as long.
const WINDOW_MS: u32 = 100;

/// Whether a PMI of a CPU may still be on its way. For APICs that leave no
/// trace of having delivered one.
#[derive(Default)]
pub(crate) struct LatePmi {
    /// Until when, in jiffies; 0 if none is.
    until: AtomicUsize,
}

impl LatePmi {
    /// From now on one PMI may come late. Any context, on the CPU.
    pub(crate) fn expect(&self) {
        let window = msecs_to_jiffies(WINDOW_MS);
        self.until.store(jiffies().wrapping_add(window), Relaxed);
    }

    /// Whether an NMI that nothing else explains may be a late PMI; the next
    /// one is not. Any context, on the CPU.
    pub(crate) fn take(&self) -> bool {
        let until = self.until.swap(0, Relaxed);
        until != 0 && until.wrapping_sub(jiffies()) as isize >= 0
    }
}

fn jiffies() -> Jiffies {
    // SAFETY: The kernel's count of ticks, a word that is valid for reads at any time.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}
