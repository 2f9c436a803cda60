// SPDX-License-Identifier: GPL-2.0

//! From an overflow to perf's ring buffer.

use super::{
    BranchStack,
    CpuEvent,
    Pmu, //
};
use crate::{
    bindings,
    system::irq::{
        Interrupt,
        Regs, //
    }, //
};
use core::mem::MaybeUninit;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// The functions of perf that an interrupt handler needs.
///
/// Not every kernel exports `perf_event_overflow()` and `perf_sample_event_took()`.
/// [`Self::find`] finds them if they are not exported, see `bindings/helpers.c`.
///
/// # Invariants
///
/// The functions have been found.
#[derive(Clone, Copy)]
pub struct Sampling(());

impl Sampling {
    /// Finds the functions. Task context, may sleep. Fails with the error of
    /// `register_kprobe()`.
    pub fn find() -> Result<Self> {
        // SAFETY: This is called in task context, as registering a kprobe requires.
        to_result(unsafe { bindings::rust_perf_overflow_init() })?;
        // INVARIANT: They were just found.
        Ok(Sampling(()))
    }

    /// The handler of an interrupt or NMI begins.
    ///
    /// As in the in-tree handler the clock is `sched_clock()`: no time of another CPU is compared.
    pub fn begin_handler(self, interrupt: Interrupt<'_>) -> HandlerTime<'_> {
        HandlerTime {
            // SAFETY: The function may be called in any context.
            start: unsafe { bindings::sched_clock() },
            _interrupt: interrupt,
        }
    }
}

/// The time that the handler of an interrupt takes.
#[must_use]
pub struct HandlerTime<'a> {
    /// In nanoseconds.
    start: u64,
    /// Keeps it on its CPU.
    _interrupt: Interrupt<'a>,
}

impl HandlerTime<'_> {
    /// The handler ends. Tells perf how long it took.
    ///
    /// perf lowers the sample rate that it allows
    /// (`kernel.perf_event_max_sample_rate`) if handlers take too large a share of the
    /// time (`kernel.perf_cpu_time_max_percent`).
    pub fn end(self) {
        // SAFETY: The function may be called in any context.
        let end = unsafe { bindings::sched_clock() };
        // The clock of an unstable TSC can step back.
        let elapsed = end.saturating_sub(self.start);
        // SAFETY: The function accesses per-CPU data, and an interrupt handler stays on its CPU.
        unsafe { bindings::rust_perf_sample_event_took(elapsed) };
    }
}

/// What a sample contains besides the registers and what perf itself adds.
#[derive(Default)]
pub struct Sample<'a> {
    /// The data address (`PERF_SAMPLE_ADDR`), 0 if there is none.
    pub addr: u64,
    /// The period that the sample ends.
    pub period: u64,
    /// The branches before the sample (`PERF_SAMPLE_BRANCH_STACK`). perf keeps as many of them as the
    /// user has asked for, and removes the others.
    pub branches: Option<&'a BranchStack>,
}

impl<T: Pmu> CpuEvent<'_, T> {
    /// Passes a sample to perf. `regs` are those of the code that is sampled.
    ///
    /// perf writes the sample to the ring buffer, throttles the event, and adapts the
    /// frequency. It may call [`Pmu::stop`] and [`Pmu::start`] for this event and
    /// others of its group before this returns.
    ///
    /// Returns whether perf has stopped the event, because it throttles it or because the
    /// event has reached its limit (`PERF_EVENT_IOC_REFRESH`).
    pub fn overflow(
        &self,
        _: Sampling,
        _: Interrupt<'_>,
        regs: Regs<'_>,
        sample: Sample<'_>,
    ) -> bool {
        let mut data = MaybeUninit::<bindings::perf_sample_data>::uninit();
        // SAFETY: `data` is valid for writes. The function initialises the fields that perf expects
        // of the callers of `perf_event_overflow()`.
        unsafe {
            bindings::rust_perf_sample_data_init(data.as_mut_ptr(), sample.addr, sample.period)
        };
        if let Some(branches) = sample.branches {
            // SAFETY: `data` was just initialised, and has no branches yet. It refers to `branches`
            // until `rust_perf_overflow()` returns, and so does `sample`.
            unsafe {
                bindings::rust_perf_sample_save_branches(
                    data.as_mut_ptr(),
                    self.as_raw(),
                    branches.as_ptr(),
                    branches.counts(),
                )
            };
        }
        // SAFETY: The event is on this CPU by the invariant of `CpuEvent`, and the interrupt is
        // proof that interrupts are disabled. `data` and `regs` are initialised.
        unsafe {
            bindings::rust_perf_overflow(self.as_raw(), data.as_mut_ptr(), regs.as_ptr()) != 0
        }
    }
}
