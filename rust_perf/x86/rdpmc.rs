// SPDX-License-Identifier: GPL-2.0

//! RDPMC in user mode.
//!
//! It is allowed, by CR4.PCE (SDM vol. 3, "Control Registers"), while a task
//! runs whose address space has an event mapped, or as the attribute `rdpmc` of
//! the in-tree PMU says. The kernel sets CR4.PCE whenever it switches address
//! spaces (`cr4_update_pce()` in `arch/x86/mm/tlb.c`), and counts for each how
//! many events are mapped in it; this takes part in the counting.
//!
//! A child inherits that count with its parent's address space, though not the
//! mapping. Once allowed, RDPMC reads any counter. It is up to the driver that
//! those which no event is on hold nothing of interest.

use crate::bindings;
use kernel::{
    error::to_result,
    mm::Mm,
    prelude::*, //
};

/// Control over RDPMC in user mode.
///
/// # Invariants
///
/// The functions of the kernel that this calls have been found.
pub(crate) struct UserRdpmc {
    page_width: u8,
}

impl UserRdpmc {
    /// Finds what it takes, which no kernel exports. Task context, may sleep.
    pub(super) fn find() -> Result<Self> {
        // SAFETY: No preconditions but the context.
        to_result(unsafe { bindings::rust_perf_user_rdpmc_init() })?;
        // INVARIANT: Just found.
        Ok(UserRdpmc {
            // SAFETY: As above.
            page_width: unsafe { bindings::rust_perf_userpage_width() },
        })
    }

    /// How wide counters are, in bits, by what the kernel writes into every
    /// event's page: that of the in-tree driver's general counters. 0 if that
    /// driver does not know the CPU.
    pub(crate) fn page_width(&self) -> u8 {
        self.page_width
    }

    /// Allows RDPMC to the tasks of `mm`, unless the administrator has forbidden
    /// it, until [`Self::disallow`] is called as often. With the lock of `mm`
    /// held; interrupts the CPUs that `mm` is in use on.
    pub(crate) fn allow(&self, mm: &Mm) {
        // SAFETY: By the type invariant, and `mm` is one.
        unsafe { bindings::rust_perf_user_rdpmc_allow(mm.as_raw().cast()) };
    }

    /// Takes back one [`Self::allow`]. As for that.
    pub(crate) fn disallow(&self, mm: &Mm) {
        // SAFETY: As for `allow`.
        unsafe { bindings::rust_perf_user_rdpmc_disallow(mm.as_raw().cast()) };
    }

    /// Whether the task that runs here may, or the last that did. Any context.
    pub(crate) fn is_allowed(&self) -> bool {
        // SAFETY: No preconditions.
        unsafe { bindings::rust_perf_user_rdpmc_allowed() }
    }

    /// Has the in-tree driver clear what its events have left in this CPU's
    /// counters.
    ///
    /// It does so by itself, but not before the kernel switches to a task that
    /// may read them, by when they may be ours. To be called on having reserved
    /// the counters, with IRQs disabled.
    pub(crate) fn clear_in_tree(&self) {
        // SAFETY: By the type invariant; the counters are nobody else's.
        unsafe { bindings::rust_perf_clear_dirty_counters() };
    }
}
