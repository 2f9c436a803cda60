// SPDX-License-Identifier: GPL-2.0

//! The tick counter.
//!
//! C header: `include/linux/jiffies.h`.

use kernel::time::Jiffies;

/// The number of ticks since boot. Any context.
pub fn jiffies() -> Jiffies {
    // SAFETY: `jiffies` is a global word that the timer interrupt writes at once, so that a
    // volatile read at any time yields a valid value.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}
