// SPDX-License-Identifier: GPL-2.0

//! Sharing the counters with other users in the kernel: the in-tree perf driver,
//! and the NMI watchdog, which is an event of that driver.
//!
//! Each user reserves the MSRs of all GP counters before it uses any, and
//! releases them when it is done (`arch/x86/kernel/cpu/perfctr-watchdog.c`). By
//! convention the fixed counters and the global control go with them. Some code
//! writes the global control without a reservation, see
//! [`counters`](crate::pmc::counters).
//!
//! The kernel does not arbitrate the MSRs of version 6. There every user succeeds,
//! and nothing keeps two users apart.

use crate::{
    bindings,
    pmc::{
        counter::{
            Counter,
            CounterSet, //
        },
        Generation, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The MSRs of the GP counters of a machine, which are reserved once, however many users
/// this driver has for them: the PMUs of a hybrid CPU share their addresses.
#[pin_data]
pub(crate) struct Reservable {
    generation: &'static Generation,
    counters: CounterSet,
    #[pin]
    users: Mutex<Users>,
}

#[derive(Default)]
struct Users {
    number: usize,
    reservation: Option<Reservation>,
}

impl Reservable {
    /// The MSRs of `counters`, which nobody has reserved yet.
    pub(super) fn new(generation: &'static Generation, counters: CounterSet) -> impl PinInit<Self> {
        pin_init!(Self {
            generation,
            counters,
            users <- new_mutex!(Users::default()),
        })
    }

    /// Reserves them for one more user. Fails with `EBUSY` if someone else has any of them.
    /// Task context, may sleep.
    pub(crate) fn reserve(self: &Arc<Self>) -> Result<Reserved> {
        let mut users = self.users.lock();
        if users.reservation.is_none() {
            users.reservation = Some(Reservation::take(self.generation, self.counters)?);
        }
        users.number = users.number.saturating_add(1);
        Ok(Reserved(self.clone()))
    }
}

/// One use of a [`Reservable`], until dropped. Task context, may sleep.
pub(crate) struct Reserved(Arc<Reservable>);

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut users = self.0.users.lock();
        users.number = users.number.saturating_sub(1);
        if users.number == 0 {
            users.reservation = None;
        }
    }
}

/// The MSRs of all GP counters, reserved until dropped.
///
/// # Invariants
///
/// The EVENTSEL and counter MSRs of each counter in `counters` are reserved.
pub(super) struct Reservation {
    generation: &'static Generation,
    counters: CounterSet,
}

impl Reservation {
    /// Reserves the GP counters among `counters`. Fails with `EBUSY` if someone else has any
    /// of them. Task context.
    pub(super) fn take(generation: &'static Generation, counters: CounterSet) -> Result<Self> {
        // INVARIANT: The set is empty.
        let mut taken = Reservation {
            generation,
            counters: CounterSet::EMPTY,
        };
        for counter in counters.gp_part() {
            reserve(generation, counter)?;
            // INVARIANT: Both MSRs were just reserved.
            taken.counters = taken.counters | CounterSet::of(counter);
        }
        Ok(taken)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for counter in self.counters {
            // SAFETY: By the type invariant both are reserved, and nobody else may release them.
            unsafe {
                bindings::release_evntsel_nmi(self.generation.eventsel(counter).address());
                bindings::release_perfctr_nmi(self.generation.counter(counter).address());
            }
        }
    }
}

/// Reserves both MSRs of a counter, or none. Fails with `EBUSY`.
fn reserve(generation: &Generation, counter: Counter) -> Result {
    let (eventsel, value) = (
        generation.eventsel(counter).address(),
        generation.counter(counter).address(),
    );
    // SAFETY: The functions set bits in bitmaps. Any address may be passed. `value` is released only
    // after it was reserved here.
    unsafe {
        if bindings::reserve_perfctr_nmi(value) == 0 {
            return Err(EBUSY);
        }
        if bindings::reserve_evntsel_nmi(eventsel) == 0 {
            bindings::release_perfctr_nmi(value);
            return Err(EBUSY);
        }
    }
    Ok(())
}
