// SPDX-License-Identifier: GPL-2.0

//! Which counters of a CPU run: perf enables and disables the PMU, and starts and stops events.
//!
//! Everything here runs with interrupts disabled or in an NMI. Nothing allocates, locks, sleeps, prints
//! or panics.

use super::{
    cpu_pmu::CpuPmu,
    nmi_window::Stopping, //
};

impl CpuPmu<'_> {
    /// perf disables the PMU.
    ///
    /// perf often enables it again without a change, so the counters run on until there is one. But perf
    /// relies on it that no sample is taken meanwhile: see `perf_event_context_sched_out()`.
    #[inline(always)]
    pub(super) fn disable(self) {
        let run = &self.state().run;
        let may_look = || !run.active().is_empty() && self.may_look_for_foreign_writes();
        if run.takes_samples() || may_look() {
            self.disable_slowly();
        } else {
            run.set_enabled(false);
        }
    }

    /// The slow path of [`Self::disable`]: reads registers that others may have written, and stops the
    /// counters if an event takes samples.
    #[inline(never)]
    fn disable_slowly(self) {
        let run = &self.state().run;
        if self.may_look_for_foreign_writes() {
            self.look_for_foreign_writes();
        }
        run.set_enabled(false);
        if run.takes_samples() {
            self.stop_if_disabled();
        }
    }

    /// perf enables the PMU.
    #[inline(always)]
    pub(super) fn enable(self) {
        let run = &self.state().run;
        let active = run.active();
        // Dirty counters need not be cleared while the counters run on: all counters are stopped before
        // one becomes dirty, and a hook clears the dirty ones before CR4.PCE is set. Counters that the
        // erratum requires to be cleared are cleared here, even while they run.
        let is_unchanged = !active.is_empty()
            && run.runs_just(active)
            && !self.counters().is_uncleared()
            && self.driver().hooks_alive.get();
        if !is_unchanged {
            self.clear_and_enable();
            return;
        }
        run.set_enabled(true);
        // An NMI may have stopped counters meanwhile. It runs them again only if it has found the PMU
        // enabled.
        if !run.runs_just(active) {
            self.update_running();
        }
    }

    /// The slow path of [`Self::enable`]: clears counters that must be cleared, and runs the active ones.
    #[inline(never)]
    fn clear_and_enable(self) {
        if !self.state().dirty.is_empty() && self.user_may_read() {
            self.clear_dirty();
        }
        self.clear_selection();
        self.update_branches();
        self.state().run.set_enabled(true);
        self.run_active();
    }

    /// Stops the counters if perf has disabled the PMU. To be called before a change, since
    /// [`Self::disable`] leaves them running.
    #[inline(always)]
    pub(super) fn stop_if_disabled(self) {
        let run = &self.state().run;
        if !run.is_enabled() && !run.is_stopped() {
            self.update_running();
        }
    }

    /// Runs the active counters, if they may run.
    #[inline(always)]
    pub(super) fn run_active(self) {
        let run = &self.state().run;
        if run.is_enabled() && !run.runs_just(run.active()) {
            self.update_running();
        }
    }

    /// Calls `f` while no counter of this CPU is running.
    pub(super) fn while_stopped<R>(self, f: impl FnOnce() -> R) -> R {
        let held = self.state().run.hold();
        self.stop_if_disabled();
        let result = f();
        held.release();
        self.run_active();
        result
    }

    /// Runs the active counters if they may run, otherwise none.
    #[inline(never)]
    fn update_running(self) {
        let is_done = if self.capabilities().has_global_control() {
            self.try_update_running()
        } else {
            self.try_update_enables()
        };
        if !is_done {
            self.update_running_again();
        }
    }

    /// Runs the active counters, or none, after an NMI has run the counters in the middle of an attempt,
    /// so that it is not known which write came last.
    #[cold]
    fn update_running_again(self) {
        loop {
            self.counters().forget_running();
            if self.try_update_running() {
                return;
            }
        }
    }

    /// [`Self::try_update_running`] on a CPU without global control. Not inlined: it writes each EVENTSEL.
    #[inline(never)]
    fn try_update_enables(self) -> bool {
        self.try_update_running()
    }

    /// Runs the active counters, or none, once. Returns whether no NMI has run the counters meanwhile.
    #[inline(always)]
    fn try_update_running(self) -> bool {
        let (counters, run) = (self.counters(), &self.state().run);
        let nmis = run.nmis();
        if run.is_enabled() {
            counters.run(run.active());
        } else {
            counters.stop();
        }
        run.nmis() == nmis
    }

    /// A counter is about to be stopped. The result is for [`Self::end_stopping`].
    #[inline(always)]
    pub(super) fn begin_stopping(self) -> Option<Stopping> {
        let is_seen_in_lvtpc = self.capabilities().generation.masks_lvtpc;
        (!is_seen_in_lvtpc).then(|| self.state().window.begin_stopping())
    }

    /// A counter has been stopped. If it has wrapped, its PMI may be late.
    #[inline(always)]
    pub(super) fn end_stopping(self, stopping: Option<Stopping>, has_wrapped: bool) {
        let window = &self.state().window;
        match stopping {
            Some(stopping) => window.end_stopping(stopping, has_wrapped),
            // A masked LVTPC tells its PMI as long as the counters are ours.
            None if has_wrapped => window.expect_masked(),
            None => {}
        }
    }
}
