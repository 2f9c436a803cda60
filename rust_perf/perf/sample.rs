// SPDX-License-Identifier: GPL-2.0

//! From an overflow to perf's ring buffer.

use super::Event;
use crate::bindings;
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// The registers that an interrupt or NMI found.
///
/// That there is one proves that its holder runs in the interrupt's handler,
/// hence stays on this CPU.
pub(crate) struct Regs<'a> {
    regs: NonNull<bindings::pt_regs>,
    /// Neither sent to nor shared with another CPU.
    _handler: PhantomData<(&'a (), *mut ())>,
}

impl Regs<'_> {
    /// # Safety
    ///
    /// To be called in an interrupt or NMI handler, whose registers `regs`
    /// are; the value must not outlive the handler.
    pub(crate) unsafe fn from_raw(regs: NonNull<bindings::pt_regs>) -> Self {
        Regs {
            regs,
            _handler: PhantomData,
        }
    }
}

/// Proof that [`Event::overflow`] and [`Self::timed`] reach perf.
///
/// `perf_event_overflow()` and `perf_sample_event_took()` are not exported by
/// every kernel; where they are not, they are looked up when this is made, see
/// `bindings/helpers.c`.
#[derive(Clone, Copy)]
pub(crate) struct OverflowHandler(());

impl OverflowHandler {
    /// Finds the functions. Task context, may sleep.
    pub(crate) fn find() -> Result<Self> {
        // SAFETY: No preconditions but the context, which module loading is.
        to_result(unsafe { bindings::rust_perf_overflow_init() })?;
        Ok(OverflowHandler(()))
    }

    /// Calls an interrupt's or NMI's handler, and tells perf how long it takes:
    /// perf lowers the rate of samples that it allows
    /// (`kernel.perf_event_max_sample_rate`) if they take too much of the time
    /// (`kernel.perf_cpu_time_max_percent`).
    pub(crate) fn timed<R>(self, _: &Regs<'_>, handler: impl FnOnce() -> R) -> R {
        // SAFETY: May be called in any context.
        let start = unsafe { bindings::local_clock() };
        let result = handler();
        // SAFETY: As above; and the registers prove that this is an interrupt, which stays on its
        // CPU, as the function requires.
        unsafe { bindings::rust_perf_sample_event_took(bindings::local_clock() - start) };
        result
    }
}

impl Event {
    /// Gives perf a sample that ends `period`.
    ///
    /// perf writes it to the ring buffer, throttles, adapts the frequency and
    /// so on, for which it may call back [`Pmu::stop`](super::Pmu::stop) and
    /// [`Pmu::start`](super::Pmu::start) for this event and others of its
    /// group.
    pub(crate) fn overflow(&self, _: OverflowHandler, regs: &Regs<'_>, period: u64) {
        let mut data = MaybeUninit::<bindings::perf_sample_data>::uninit();
        // SAFETY: Initialises those fields that perf expects of its callers.
        unsafe { bindings::rust_perf_sample_data_init(data.as_mut_ptr(), period) };
        // SAFETY: The event is on this CPU, `data` is initialised as above, and `regs` is proof
        // that this is an interrupt, with IRQs disabled.
        unsafe {
            bindings::rust_perf_overflow(self.as_raw(), data.as_mut_ptr(), regs.regs.as_ptr())
        };
    }
}
