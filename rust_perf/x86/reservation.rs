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
        Capabilities,
        Generation, //
    }, //
};
use kernel::prelude::*;

/// The MSRs of all GP counters, reserved until dropped.
///
/// # Invariants
///
/// The EVENTSEL and counter MSRs of each counter in `counters` are reserved.
pub(crate) struct Reservation {
    generation: &'static Generation,
    counters: CounterSet,
}

impl Reservation {
    /// Reserves all counters. Fails with `EBUSY` if someone else has any of them.
    /// Task context.
    pub(crate) fn take(capabilities: &Capabilities) -> Result<Self> {
        let generation = capabilities.generation;
        // INVARIANT: The set is empty.
        let mut taken = Reservation {
            generation,
            counters: CounterSet::EMPTY,
        };
        for counter in capabilities.counters.gp_part() {
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
