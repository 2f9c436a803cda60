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

/// For how long PMIs are expected. What is known of the delay is that it is
/// short; the in-tree driver for AMD waits as long.
const WINDOW_MS: u32 = 100;

/// The PMIs of a CPU that may still be on their way. For APICs that leave no
/// trace of having delivered one.
#[derive(Default)]
pub(crate) struct LatePmi {
    /// How many.
    expected: AtomicUsize,
    /// Until when, in jiffies.
    until: AtomicUsize,
}

impl LatePmi {
    /// From now on one more PMI may come late. Any context, on the CPU.
    pub(crate) fn expect(&self) {
        self.renew();
        self.expected.fetch_add(1, Relaxed);
    }

    /// From now on a PMI may come late, if it is not expected already. Any
    /// context, on the CPU.
    pub(crate) fn expect_one(&self) {
        self.renew();
        self.expected.fetch_max(1, Relaxed);
    }

    /// Whether an NMI that nothing else explains may be a late PMI, which is
    /// one less to expect then. NMI context, on the CPU.
    pub(crate) fn take(&self) -> bool {
        let expected = self.expected.load(Relaxed);
        let taken = expected != 0 && self.is_open();
        let rest = if taken { expected - 1 } else { 0 };
        self.expected.store(rest, Relaxed);
        taken
    }

    /// Opens the window anew, without those that were expected in an old one.
    fn renew(&self) {
        if !self.is_open() {
            self.expected.store(0, Relaxed);
        }
        let until = jiffies().wrapping_add(msecs_to_jiffies(WINDOW_MS));
        self.until.store(until, Relaxed);
    }

    fn is_open(&self) -> bool {
        self.until.load(Relaxed).wrapping_sub(jiffies()) as isize >= 0
    }
}

fn jiffies() -> Jiffies {
    // SAFETY: The kernel's count of ticks, a word that is valid for reads at any time.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}
