// SPDX-License-Identifier: GPL-2.0

//! A high-resolution timer that belongs to an event.
//!
//! The `kernel` crate has timers, too. They cannot be cancelled in their own handler, where
//! perf stops events: the crate's handle waits until the handler has returned.
//!
//! C header: `include/linux/hrtimer.h`.

use super::{
    callbacks::Callbacks,
    CpuEvent,
    Event,
    Instance,
    Pmu, //
};
use crate::{
    bindings,
    system::irq::Interrupt, //
};
use core::{
    marker::PhantomData,
    ptr::{
        self,
        addr_of_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering::Relaxed, //
    }, //
};
use kernel::{
    bindings::CLOCK_MONOTONIC,
    prelude::*,
    types::Opaque, //
};

/// A PMU whose events have a timer each.
pub trait TimerPmu: Pmu<EventData = Pin<KBox<Timer<Self>>>> {
    /// The timer of an event that is on this CPU has expired. Returns what becomes of the timer.
    /// A call of [`CpuEvent::start_timer`] in here takes precedence.
    ///
    /// `interrupt` is `None` if the registers of the interrupted code are not known. Hard-IRQ
    /// context: must not lock, sleep or panic.
    fn timer_expired(
        &self,
        event: CpuEvent<'_, Self>,
        interrupt: Option<&Interrupt<'_>>,
    ) -> AfterExpiry;
}

/// What becomes of a timer that has expired.
///
/// An interval is a number of nanoseconds, more than 0. It begins when the timer was to expire, however
/// late its handler runs. If its end is over, whole intervals are added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AfterExpiry {
    /// It expires again after this interval.
    Restart(u64),
    /// It is stopped within this interval: [`CpuEvent::timer_remaining`] is the rest of it.
    StopWithin(u64),
    /// It is stopped.
    Stop,
}

/// The timer of an event of the PMU `T`. It is the event's data, so that it is gone before
/// the event is.
///
/// The methods of [`CpuEvent`] start and cancel it.
///
/// # Invariants
///
/// `hrtimer` is set up with [`expired::<T>`]. While it is queued or its handler runs, `event`
/// is the event whose data this is.
#[pin_data(PinnedDrop)]
pub struct Timer<T> {
    #[pin]
    hrtimer: Opaque<bindings::hrtimer>,
    event: AtomicPtr<bindings::perf_event>,
    _pmu: PhantomData<fn() -> T>,
}

// SAFETY: The timer may be dropped on any CPU: `hrtimer_cancel()` may be called there.
unsafe impl<T> Send for Timer<T> {}
// SAFETY: The kernel synchronises its accesses to `hrtimer`. `event` is an atomic.
unsafe impl<T> Sync for Timer<T> {}

impl<T: TimerPmu> Timer<T> {
    /// A timer that is not started.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: The timer is not queued.
            hrtimer <- Opaque::ffi_init(|slot: *mut bindings::hrtimer| {
                // SAFETY: `slot` is valid for writes, and is the timer's final place. The handler
                // is one for timers that are part of a `Timer<T>`.
                unsafe {
                    bindings::hrtimer_setup(
                        slot,
                        Some(expired::<T>),
                        CLOCK_MONOTONIC as i32,
                        bindings::hrtimer_mode_HRTIMER_MODE_REL_HARD,
                    )
                }
            }),
            event: AtomicPtr::new(ptr::null_mut()),
            _pmu: PhantomData,
        })
    }
}

#[pinned_drop]
impl<T> PinnedDrop for Timer<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The timer is set up. This is not its handler, which has no means to drop it:
        // the function waits until the handler has returned.
        unsafe { bindings::hrtimer_cancel(self.hrtimer.get()) };
    }
}

impl<T: TimerPmu> CpuEvent<'_, T> {
    fn hrtimer(&self) -> *mut bindings::hrtimer {
        self.data().get_ref().hrtimer.get()
    }

    /// Starts the event's timer, or starts it again. It expires on this CPU in `ns`
    /// nanoseconds. If the event is not on this CPU then, nothing is called.
    ///
    /// Not in an NMI: this takes the lock of the CPU's timers.
    pub fn start_timer(&self, ns: u64) {
        let ns = i64::try_from(ns).unwrap_or(i64::MAX);
        // INVARIANT: The timer is part of this event's data.
        self.data().event.store(self.as_raw(), Relaxed);
        // SAFETY: The timer is set up, and is cancelled before it is freed, which is before the
        // event is freed.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.hrtimer(),
                ns,
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_REL_PINNED_HARD,
            )
        };
    }

    /// Cancels the event's timer. It does not expire for this event on this CPU any more,
    /// but its handler may be what called this.
    ///
    /// Not in an NMI, as for [`Self::start_timer`]. perf stops events in NMIs that it
    /// throttles there, so [`Pmu::stop`] must ask [`Self::is_throttled`] first.
    pub fn cancel_timer(&self) {
        // SAFETY: The timer is set up. The function does not wait for its handler.
        unsafe { bindings::hrtimer_try_to_cancel(self.hrtimer()) };
    }

    /// The number of nanoseconds until the event's timer expires, or until when it was to
    /// expire, which may be over. See [`AfterExpiry::StopWithin`] for a timer that is stopped.
    pub fn timer_remaining(&self) -> i64 {
        // SAFETY: The timer is set up.
        unsafe { bindings::__hrtimer_get_remaining(self.hrtimer(), false) }
    }
}

/// The handler of all timers of the PMU `T`. Hard-IRQ context.
///
/// # Safety
///
/// `hrtimer` must be part of a [`Timer<T>`] that has been started.
unsafe extern "C" fn expired<T: TimerPmu>(
    hrtimer: *mut bindings::hrtimer,
) -> bindings::hrtimer_restart {
    let timer = hrtimer.cast::<Opaque<bindings::hrtimer>>();
    // SAFETY: By the safety requirement. The timer is not freed while its handler runs.
    let timer = unsafe { &*kernel::container_of!(timer, Timer<T>, hrtimer) };
    let raw = timer.event.load(Relaxed);
    // SAFETY: By the type invariant this is the event whose data the timer is. Aligned words of
    // it, which perf reads across CPUs as well.
    let (state, cpu) = unsafe {
        (
            addr_of_mut!((*raw).state).read_volatile(),
            addr_of_mut!((*raw).oncpu).read_volatile(),
        )
    };
    // A driver may have left the timer running when perf took the event off this CPU, or the
    // timer of a CPU that went offline has come here.
    // SAFETY: The function may be called in any context.
    let this_cpu = unsafe { kernel::bindings::raw_smp_processor_id() };
    if state != bindings::perf_event_state_PERF_EVENT_STATE_ACTIVE || cpu as u32 != this_cpu {
        return bindings::hrtimer_restart::HRTIMER_NORESTART;
    }
    // SAFETY: The event's PMU is that of a `Registration<T>`: it has a `Timer<T>`, and so it had
    // its `event_init` called and is not destroyed, which would wait for this handler.
    let (Instance { driver, .. }, event): (&Instance<T>, &Event<T>) =
        unsafe { Callbacks::<T>::event(raw) };
    // SAFETY: perf has added the event to this CPU: it sets `oncpu` before, and resets it with
    // interrupts disabled on that CPU. An interrupt handler stays on its CPU, and perf does not
    // delete the event meanwhile.
    let event = unsafe { CpuEvent::new(event) };
    // SAFETY: An interrupt is being handled, and the pointer is null or to its registers.
    let regs = NonNull::new(unsafe { bindings::rust_perf_irq_regs() });
    // SAFETY: This is the handler of that interrupt.
    let interrupt = regs.map(|regs| unsafe { Interrupt::from_raw(regs) });
    let after = driver.timer_expired(event, interrupt.as_ref());
    let is_forwarded = match after {
        AfterExpiry::Restart(interval) | AfterExpiry::StopWithin(interval) => {
            // SAFETY: The timer is set up, and this is its handler, as the function requires.
            unsafe { bindings::rust_perf_hrtimer_forward(hrtimer, interval) }
        }
        AfterExpiry::Stop => false,
    };
    match after {
        AfterExpiry::Restart(_) if is_forwarded => bindings::hrtimer_restart::HRTIMER_RESTART,
        _ => bindings::hrtimer_restart::HRTIMER_NORESTART,
    }
}
