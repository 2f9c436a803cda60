// SPDX-License-Identifier: GPL-2.0

//! RDPMC in user mode.
//!
//! CR4.PCE allows it (SDM vol. 3, "Control Registers"). The kernel sets CR4.PCE
//! when it switches to an address space that has an event mapped, or as the
//! `rdpmc` attribute of the in-tree PMU says (`cr4_update_pce()` in
//! `arch/x86/mm/tlb.c`). It counts the mapped events of each address space, and
//! this module takes part in that count.
//!
//! A child inherits the count with its parent's address space, but not the
//! mapping. RDPMC can read any counter, so the driver must make sure that
//! counters without an event hold nothing of another task while CR4.PCE is set.

use crate::bindings;
use core::arch::asm;
use kernel::{
    error::to_result,
    mm::Mm,
    prelude::*, //
};

/// Control over RDPMC in user mode.
///
/// # Invariants
///
/// The kernel functions that this calls have been found.
pub(crate) struct UserRdpmc {
    page_width: u8,
}

impl UserRdpmc {
    /// Finds the kernel functions, which are not exported. Task context, may sleep.
    /// Fails with the error of `register_kprobe()`, and a message, or with `ENOMEM`.
    pub(super) fn find() -> Result<Self> {
        // SAFETY: This is called in task context, as registering a kprobe requires.
        to_result(unsafe { bindings::rust_perf_user_rdpmc_init() }).inspect_err(|_| {
            pr_err!(
                "cr4_update_pce() or arch_perf_update_userpage() cannot be found with kprobes\n"
            )
        })?;
        // SAFETY: The function it calls has been found, and this is task context.
        let width = unsafe { bindings::rust_perf_userpage_width() };
        // INVARIANT: They were just found.
        Ok(UserRdpmc {
            page_width: u8::try_from(width).map_err(|_| ENOMEM)?,
        })
    }

    /// The width in bits that the kernel writes into the page of every event: that of
    /// the in-tree driver's GP counters. 0 if that driver does not know the CPU.
    pub(crate) fn page_width(&self) -> u8 {
        self.page_width
    }

    /// Whether the in-tree driver has come up: it writes the width of its counters into the page of
    /// every event.
    pub(super) fn has_in_tree_driver(&self) -> bool {
        self.page_width != 0
    }

    /// Allows RDPMC to the tasks of `mm`, unless the administrator has forbidden it,
    /// until [`Self::disallow`] is called as often.
    ///
    /// The lock of `mm` must be held. Interrupts the CPUs that use `mm`.
    pub(crate) fn allow(&self, mm: &Mm) {
        // SAFETY: `mm` is valid, and the function it calls has been found, by the type invariant.
        unsafe { bindings::rust_perf_user_rdpmc_allow(mm.as_raw().cast()) };
    }

    /// Undoes one [`Self::allow`]. As for that.
    pub(crate) fn disallow(&self, mm: &Mm) {
        // SAFETY: `mm` is valid, and the function it calls has been found, by the type invariant.
        unsafe { bindings::rust_perf_user_rdpmc_disallow(mm.as_raw().cast()) };
    }

    /// Whether the task that runs on this CPU, or ran last, may use RDPMC. Any context.
    pub(crate) fn is_allowed(&self) -> bool {
        const PCE: usize = 1 << 8;
        let cr4: usize;
        // SAFETY: To read CR4 is allowed at CPL 0, and has no effect. The asm is not `pure`: the kernel
        // may change CR4.
        unsafe { asm!("mov {}, cr4", out(reg) cr4, options(nomem, nostack, preserves_flags)) };
        cr4 & PCE != 0
    }
}
