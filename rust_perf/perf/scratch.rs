// SPDX-License-Identifier: GPL-2.0

//! What a driver keeps with an event while it is scheduled.

use super::{
    Event,
    NewEvent,
    Pmu, //
};
use crate::bindings;
use core::{
    ptr::addr_of_mut,
    sync::atomic::{
        AtomicU64,
        Ordering::Relaxed, //
    }, //
};

impl<T: Pmu> Event<T> {
    /// Two words for the driver, which are 0 when the event is opened. Unlike
    /// [`Event::data`] they may change. perf does not use them.
    pub fn scratch(&self) -> [&AtomicU64; 2] {
        // SAFETY: These are aligned words of the event, in the variant of the union that all Rust
        // PMUs use. Nothing but this function gives access to them.
        unsafe {
            let hw = addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1);
            [
                AtomicU64::from_ptr(addr_of_mut!((*hw).config)),
                AtomicU64::from_ptr(addr_of_mut!((*hw).last_tag)),
            ]
        }
    }

    /// Sets the words to 0.
    pub(super) fn clear_scratch(&self) {
        for word in self.scratch() {
            word.store(0, Relaxed);
        }
    }

    /// The word that [`NewEvent::set_constant`] has set. Any context.
    pub fn constant(&self) -> u64 {
        // SAFETY: An aligned word of the event, in the variant of the union that all Rust PMUs use. It
        // has not changed since the event was opened.
        unsafe {
            addr_of_mut!((*self.hw()).__bindgen_anon_1.__bindgen_anon_1.config_base).read() as u64
        }
    }
}

impl<T: Pmu> NewEvent<'_, T> {
    /// Sets a word for the driver, which it need not work out again whenever perf schedules the event.
    /// perf does not use it.
    pub fn set_constant(&self, word: u64) {
        let hw = self.event().hw();
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet.
        unsafe {
            addr_of_mut!((*hw).__bindgen_anon_1.__bindgen_anon_1.config_base).write(word as usize)
        };
    }

    /// The leader of the group that the event is to join, if it is on the same PMU. perf holds
    /// the leader's context mutex. Not for PMUs of the software context.
    pub fn leader(&self) -> Option<&Event<T>> {
        const {
            assert!(T::TASK_CONTEXT.locks_group());
        }
        let leader = self.any_leader()?;
        // SAFETY: perf holds the leader's context mutex, so that its PMU does not change.
        let of_this_pmu = unsafe { (*leader).pmu == self.pmu() };
        // SAFETY: The leader is of the same PMU as `self`, a `Registration<T>`, and is open: its
        // `event_init` has returned. perf keeps it while this event is being opened.
        of_this_pmu.then(|| unsafe { Event::from_raw(leader) })
    }

    /// Has perf disable the event for good if it loses its leader (`PERF_EV_CAP_SIBLING`).
    pub fn require_leader(&self) {
        // SAFETY: The event is being opened, by the type invariant: nothing else accesses it yet.
        unsafe {
            (*self.event().as_raw()).event_caps |= bindings::RUST_PERF_EV_CAP_SIBLING;
        }
    }
}
