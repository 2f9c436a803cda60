// SPDX-License-Identifier: GPL-2.0

//! Sharing the counters with the other users in the kernel: the in-tree perf
//! driver, and the NMI watchdog, which is an event of that.
//!
//! Each of them reserves the registers of all general counters before it uses
//! any, and gives them back when it is done
//! (`arch/x86/kernel/cpu/perfctr-watchdog.c`). By that agreement the fixed
//! counters and global controls go with them. Two users in the kernel write the
//! global controls without it, Intel PT's interrupt and BPF's snapshots of the
//! branch stack: next to those, counters that were stopped may run.
//!
//! Of version 6's registers the kernel keeps no books: there each user gets all,
//! and nothing keeps them apart.

use super::hal::{
    Capabilities,
    Generation, //
};
use crate::{
    bindings,
    pmc::counter::{
        Counter,
        CounterSet, //
    }, //
};
use kernel::prelude::*;

/// The registers of all general counters, reserved until dropped.
///
/// # Invariants
///
/// The EVENTSEL and counter registers of each of `counters` are reserved.
pub(crate) struct Reservation {
    generation: &'static Generation,
    counters: CounterSet,
}

impl Reservation {
    /// Reserves all counters, or fails with `EBUSY` if someone else has any.
    pub(crate) fn take(capabilities: &Capabilities) -> Result<Self> {
        // INVARIANT: No counter is in it yet.
        let generation = capabilities.generation;
        let mut taken = Reservation {
            generation,
            counters: CounterSet::EMPTY,
        };
        for counter in capabilities.counters.general_part() {
            reserve(generation, counter)?;
            // INVARIANT: Just reserved.
            taken.counters = taken.counters | CounterSet::of(counter);
        }
        Ok(taken)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for counter in self.counters {
            // SAFETY: Reserved by us, by the type invariant.
            unsafe {
                bindings::release_evntsel_nmi(self.generation.eventsel(counter).address());
                bindings::release_perfctr_nmi(self.generation.counter(counter).address());
            }
        }
    }
}

/// Reserves both registers of a counter, or none.
fn reserve(generation: &Generation, counter: Counter) -> Result {
    let (eventsel, value) = (
        generation.eventsel(counter).address(),
        generation.counter(counter).address(),
    );
    // SAFETY: No preconditions; the functions only keep the books.
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
