// SPDX-License-Identifier: GPL-2.0

//! The in-tree driver, beside which this module uses the counters.
//!
//! The reservation keeps that driver's events away, but not the driver itself. Once there has been
//! an event of a CPU, which the detector of hard lockups opens at boot, perf disables and enables
//! the PMU together with others of that CPU, with or without events (`perf_ctx_enable()` in
//! `kernel/events/core.c`). On each of these occasions
//! `x86_pmu_enable()` (`arch/x86/events/core.c`) writes GLOBAL_CTRL, so that all counters run.
//!
//! perf nests the two calls. A PMU that has been disabled once more than it was enabled stays
//! disabled, and its driver is not called.

use crate::{
    bindings,
    system::irq::IrqsDisabled, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// The in-tree driver, which may not have come up.
///
/// # Invariants
///
/// The kernel functions that this calls have been found.
pub(crate) struct InTree(());

impl InTree {
    /// Finds the kernel functions, which are not exported. Task context, may sleep.
    /// Fails with the error of `register_kprobe()`, and a message.
    pub(super) fn find() -> Result<Self> {
        // SAFETY: This is called in task context, as registering a kprobe requires.
        to_result(unsafe { bindings::rust_perf_in_tree_init() }).inspect_err(|_| {
            pr_err!(
                "x86_get_pmu(), perf_pmu_disable(), perf_pmu_enable() or \
                 perf_clear_dirty_counters() cannot be found with kprobes\n"
            )
        })?;
        // INVARIANT: They were just found.
        Ok(InTree(()))
    }

    /// Keeps the driver from this CPU's counters, which have been reserved, and has it clear what
    /// its events have left in them.
    ///
    /// By itself it would clear them only when the kernel switches to a task that may use RDPMC. By
    /// then they may be in use by us.
    pub(crate) fn pause(&self, _: IrqsDisabled<'_>) {
        // SAFETY: The functions have been found, by the type invariant. They are for this CPU, which
        // the code stays on with interrupts disabled. No event of that PMU exists, because the
        // counters are reserved.
        unsafe { bindings::rust_perf_in_tree_pause() };
    }

    /// Undoes one [`Self::pause`] on this CPU, before the counters are released.
    pub(crate) fn resume(&self, _: IrqsDisabled<'_>) {
        // SAFETY: As for `pause`.
        unsafe { bindings::rust_perf_in_tree_resume() };
    }
}
