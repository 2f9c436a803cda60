// SPDX-License-Identifier: GPL-2.0

//! perf's transactions, as callbacks of `struct pmu`.
//!
//! perf announces that it will read the events of a group, or put them on a CPU. In the latter
//! case it has disabled the PMU before (`ctx_sched_in()` and its callers), so that nothing is
//! left to do: each event is added for itself.

use super::{
    callbacks::Callbacks,
    OnCpu,
    Pmu, //
};
use crate::{
    bindings,
    system::irq::IrqsDisabled, //
};
use kernel::ffi::{
    c_int,
    c_uint, //
};

impl<T: Pmu> Callbacks<T> {
    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn start_txn(pmu: *mut bindings::pmu, flags: c_uint) {
        if flags & bindings::PERF_PMU_TXN_READ != 0 {
            // SAFETY: perf passes a PMU of a `Registration<T>`, with interrupts disabled.
            unsafe { Self::on_this_cpu(pmu, |driver, on| driver.begin_group_read(on)) }
        }
    }

    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn commit_txn(pmu: *mut bindings::pmu) -> c_int {
        // SAFETY: perf passes a PMU of a `Registration<T>`, with interrupts disabled.
        unsafe { Self::on_this_cpu(pmu, |driver, on| driver.end_group_read(on)) }
        0
    }

    /// perf cancels only what adds events.
    ///
    /// # Safety
    ///
    /// See [`Callbacks`].
    pub(super) unsafe extern "C" fn cancel_txn(_pmu: *mut bindings::pmu) {}

    /// # Safety
    ///
    /// See [`Callbacks`]; interrupts must be disabled.
    unsafe fn on_this_cpu(pmu: *mut bindings::pmu, f: impl FnOnce(&T, &OnCpu<'_, T>)) {
        // SAFETY: `pmu` is that of a `Registration<T>` by the safety requirement.
        let instance = unsafe { Self::instance(pmu) };
        // SAFETY: Interrupts are disabled by the safety requirement.
        let irqs = unsafe { IrqsDisabled::new() };
        f(instance.driver(), &instance.cpus().this(irqs));
    }
}
