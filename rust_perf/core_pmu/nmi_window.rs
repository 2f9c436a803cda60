// SPDX-License-Identifier: GPL-2.0

//! PMIs that arrive late: what caused them was dealt with before their NMI is
//! handled.
//!
//! The kernel complains about an NMI that no handler claims, so the driver must
//! recognise these. Intel's APIC masks LVTPC when it delivers a PMI. A masked LVTPC
//! shows a PMI as long as the counters are ours. When they have been given back, it
//! may be the next owner's PMI, and the driver claims the first one if it expected
//! any. AMD's APIC leaves no trace. There the driver expects a late PMI for a while
//! after anything that may cause one.

use crate::system::time::jiffies;
use core::sync::atomic::{
    AtomicBool,
    AtomicUsize,
    Ordering::Relaxed, //
};
use kernel::time::msecs_to_jiffies;

/// How long PMIs are expected. The delay is known to be short; the in-tree driver
/// waits as long (`perf_nmi_window` in `arch/x86/events/amd/core.c`).
const WINDOW_MS: u32 = 100;

/// The PMIs of a CPU that may still be on their way.
///
/// Used on that CPU only, with interrupts disabled or in an NMI.
#[derive(Default)]
pub(super) struct NmiWindow {
    /// Whether a counter is being stopped, which may just have overflowed.
    stopping: AtomicBool,
    /// The number of PMIs that are expected.
    expected: AtomicUsize,
    /// The time in jiffies until which they are expected.
    until: AtomicUsize,
}

impl NmiWindow {
    /// Calls `stop`, which stops a counter and returns whether that may have
    /// overflowed. If so, its PMI is expected, unless it arrived meanwhile.
    pub(super) fn while_stopping(&self, stop: impl FnOnce() -> bool) {
        // An NMI may stop a counter while another is being stopped.
        let outer = self.stopping.swap(true, Relaxed);
        let overflowed = stop();
        let arrived = !self.stopping.swap(outer, Relaxed);
        if overflowed && !arrived {
            self.open();
            self.expected.fetch_add(1, Relaxed);
        }
    }

    /// Expects one PMI, unless one is expected already.
    pub(super) fn expect_one(&self) {
        self.open();
        self.expected.fetch_max(1, Relaxed);
    }

    /// Whether an NMI that nothing else explains may be the PMI of a counter that is
    /// being stopped, or an expected one. NMI context.
    pub(super) fn explains_nmi(&self) -> bool {
        self.stopping.swap(false, Relaxed) || self.take_expected()
    }

    /// Whether a PMI is expected. If so, it has arrived now. NMI context.
    pub(super) fn take_expected(&self) -> bool {
        self.drop_expired();
        let expected = self.expected.load(Relaxed);
        self.expected.store(expected.saturating_sub(1), Relaxed);
        expected != 0
    }

    /// Whether any PMI was expected, however long ago. None is expected afterwards: LVTPC
    /// was masked, so at most one PMI was on its way. NMI context.
    pub(super) fn take_all_expected(&self) -> bool {
        self.expected.swap(0, Relaxed) != 0
    }

    /// Opens the window from now on. PMIs that were expected in an earlier window are
    /// not expected any more.
    fn open(&self) {
        self.drop_expired();
        let until = jiffies().wrapping_add(msecs_to_jiffies(WINDOW_MS));
        self.until.store(until, Relaxed);
    }

    /// Expects nothing any more if the window has closed.
    fn drop_expired(&self) {
        if (self.until.load(Relaxed).wrapping_sub(jiffies()) as isize) < 0 {
            self.expected.store(0, Relaxed);
        }
    }
}
