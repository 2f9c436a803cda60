// SPDX-License-Identifier: GPL-2.0

//! PMIs that arrive late: what caused them was dealt with before their NMI is
//! handled.
//!
//! The kernel complains about an NMI that no handler claims, so the driver must
//! recognise these. Intel's APIC masks LVTPC when it delivers a PMI. A masked LVTPC
//! shows a PMI as long as the counters are ours. For a while after they have been given back it
//! may be the next owner's PMI, and the driver claims the first one if it expected
//! any.
//!
//! AMD's APIC leaves no trace. There the driver expects a late PMI for a while for each
//! overflow that it has dealt with: the NMI in which it found the overflow may have been another
//! one, of another counter or another device. It claims as many NMIs, as the in-tree driver claims all.
//! NMIs of other devices may be among them, and use the claims up: their handlers run all the same, but
//! a late PMI is then left. So the driver also claims what every handler of NMI_LOCAL has left, as long
//! as late PMIs are possible.

use crate::system::{
    local::{
        LocalFlag,
        LocalWord, //
    },
    time::jiffies, //
};
use kernel::time::msecs_to_jiffies;

/// How long PMIs are expected. The delay is known to be short; the in-tree driver
/// waits as long (`perf_nmi_window` in `arch/x86/events/amd/core.c`).
const WINDOW_MS: u32 = 100;

/// The PMIs of a CPU that may still be on their way.
///
/// Used on that CPU only, with interrupts disabled or in an NMI.
pub(super) struct NmiWindow {
    /// [`WINDOW_MS`] in jiffies.
    length: u64,
    /// Whether a counter is being stopped, which may just have overflowed.
    stopping: LocalFlag,
    /// The number of PMIs that are expected.
    expected: LocalWord,
    /// The time in jiffies until which they are expected.
    until: LocalWord,
}

impl Default for NmiWindow {
    fn default() -> Self {
        NmiWindow {
            length: msecs_to_jiffies(WINDOW_MS) as u64,
            stopping: LocalFlag::default(),
            expected: LocalWord::default(),
            until: LocalWord::default(),
        }
    }
}

/// Between [`NmiWindow::begin_stopping`] and [`NmiWindow::end_stopping`].
pub(super) struct Stopping {
    /// Whether a counter was being stopped already.
    outer: bool,
}

impl NmiWindow {
    /// A counter is about to be stopped, which may overflow before. To be followed by
    /// [`Self::end_stopping`]. Needed where the APIC leaves no trace of a PMI.
    pub(super) fn begin_stopping(&self) -> Stopping {
        Stopping {
            // An NMI may stop a counter while another is being stopped.
            outer: self.stopping.swap(true),
        }
    }

    /// The counter has been stopped. If it has overflowed, its PMI is expected, unless it arrived
    /// meanwhile.
    pub(super) fn end_stopping(&self, stopping: Stopping, has_overflowed: bool) {
        let has_arrived = !self.stopping.swap(stopping.outer);
        if has_overflowed && !has_arrived {
            self.expect(1);
        }
    }

    /// Expects a PMI that masks LVTPC when it is delivered. There is one at most until LVTPC is unmasked, and
    /// while the counters are ours it does not matter when it comes: see [`Self::close_soon`].
    pub(super) fn expect_masked(&self) {
        self.expected.set(1);
    }

    /// The window closes when its length has passed from now on. A PMI of [`Self::expect_masked`] needs
    /// this when the counters are given back: it comes soon after that, or not at all.
    pub(super) fn close_soon(&self) {
        self.until.set((jiffies() as u64).wrapping_add(self.length));
    }

    /// Expects this many PMIs more.
    pub(super) fn expect(&self, pmis: u32) {
        self.open();
        self.expected.add(pmis.into());
    }

    /// Whether an NMI may be the PMI of a counter that is being stopped, or an expected one. If so, that has
    /// arrived now. NMI context.
    pub(super) fn explains_nmi(&self) -> bool {
        self.stopping.swap(false) || self.take_expected()
    }

    /// Whether PMIs may still be late, however many have arrived.
    pub(super) fn is_open(&self) -> bool {
        ((self.until.get() as usize).wrapping_sub(jiffies()) as isize) >= 0
    }

    fn take_expected(&self) -> bool {
        self.drop_expired();
        let expected = self.expected.get();
        self.expected.set(expected.saturating_sub(1));
        expected != 0
    }

    /// Whether any PMI is expected. None is expected afterwards: LVTPC
    /// was masked, so at most one PMI was on its way. NMI context.
    pub(super) fn take_all_expected(&self) -> bool {
        self.drop_expired();
        self.expected.swap(0) != 0
    }

    /// Opens the window from now on. PMIs that were expected in an earlier window are
    /// not expected any more.
    fn open(&self) {
        self.drop_expired();
        self.close_soon();
    }

    /// Expects nothing any more if the window has closed.
    fn drop_expired(&self) {
        if !self.is_open() {
            self.expected.set(0);
        }
    }
}
