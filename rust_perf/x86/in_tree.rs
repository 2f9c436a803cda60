// SPDX-License-Identifier: GPL-2.0

//! The in-tree driver, beside which this module uses the counters.
//!
//! The reservation keeps that driver's events away, but not the driver itself. Once there has been
//! an event of a CPU, which the detector of hard lockups opens at boot, perf disables and enables
//! the in-tree PMU together with others of that CPU, when it switches to a task with pinned events
//! for example (`perf_ctx_enable()` in `kernel/events/core.c`). Each time `x86_pmu_enable()`
//! (`arch/x86/events/core.c`) sets the bits of all counters in GLOBAL_CTRL. Those that are
//! programmed run from then on, whoever has programmed them.
//!
//! perf nests disabling and enabling, and calls the driver for the outermost ones only. So an
//! outer one of ours keeps it from being called.

use super::UserRdpmc;
use crate::{
    bindings,
    system::irq::IrqsDisabled, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// The in-tree driver.
///
/// # Invariants
///
/// The kernel functions that this calls have been found. If `is_paused`, the driver has come up:
/// each CPU has a PMU of it, which is registered.
pub(crate) struct InTree {
    /// Whether it is paused while the counters are ours.
    is_paused: bool,
}

impl InTree {
    /// Finds the kernel functions, which are not exported. Task context, may sleep.
    /// Fails with the error of `register_kprobe()`, and a message.
    ///
    /// The driver is not paused if it has not come up (`user_rdpmc` knows), or if it `keeps_events`
    /// although it shares the counters with us.
    pub(super) fn find(user_rdpmc: &UserRdpmc, keeps_events: bool) -> Result<Self> {
        // SAFETY: This is called in task context, as registering a kprobe requires.
        to_result(unsafe { bindings::rust_perf_in_tree_init() }).inspect_err(|_| {
            pr_err!("x86_get_pmu() or perf_clear_dirty_counters() cannot be found with kprobes\n")
        })?;
        // INVARIANT: They were just found. A driver that has come up has registered its PMUs, and
        // there they stay: it is no module.
        Ok(InTree {
            is_paused: !keeps_events && user_rdpmc.has_in_tree_driver(),
        })
    }

    /// Has perf leave the driver alone on this CPU, whose counters are ours from now on, and has
    /// the driver clear what its events have left in them.
    ///
    /// By itself it would clear them only when the kernel switches to a task that may use RDPMC. By
    /// then they may be in use by us.
    pub(crate) fn pause(&self, _: IrqsDisabled<'_>) {
        if self.is_paused {
            // SAFETY: By the type invariant this CPU has a PMU. The code stays on the CPU, and perf
            // changes the count with interrupts disabled only.
            unsafe { bindings::rust_perf_in_tree_pause() };
        }
        // SAFETY: The function has been found, by the type invariant. It skips the counters that
        // in-tree events are on, so that it writes none that is in use.
        unsafe { bindings::rust_perf_in_tree_clear_dirty() };
    }

    /// Undoes one [`Self::pause`] on this CPU.
    pub(crate) fn resume(&self, _: IrqsDisabled<'_>) {
        if self.is_paused {
            // SAFETY: As for `pause`, which has increased the count.
            unsafe { bindings::rust_perf_in_tree_resume() };
        }
    }
}
