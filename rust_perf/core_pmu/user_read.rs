// SPDX-License-Identifier: GPL-2.0

//! RDPMC in user mode.
//!
//! The kernel tracks which tasks may use RDPMC, but has no interface to ask: it may
//! be those that have an event of any PMU mapped, their children, or all. So
//! [`CorePmu::clear_dirty`] clears a counter that an event has left before any task
//! runs again.

use super::{
    CorePmu,
    Cpu, //
};
use crate::{
    perf::Event,
    pmc::{
        counter::{
            Counter,
            CounterSet, //
        },
        event::EventSel, //
    }, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::mm::Mm;

impl CorePmu {
    /// The index for RDPMC of the counter that an event is on, if user mode may read it.
    /// Any context.
    pub(super) fn rdpmc_index(&self, event: &Event<Self>) -> Option<u32> {
        let counter = Self::counter_of(event)?;
        event.is_user_readable().then_some(counter.rdpmc())
    }

    /// Whether user mode can read counters. It needs their width. The kernel writes that of the
    /// in-tree driver's GP counters into the page of an event, so it must be that of all counters.
    fn is_readable(&self) -> bool {
        let width = self.hardware.user_rdpmc.page_width();
        self.hardware.capabilities.have_width(width)
    }

    /// Allows RDPMC to the tasks of `mm`, into which an event has been mapped. Task
    /// context, may sleep.
    pub(super) fn allow_rdpmc(&self, event: &Event<Self>, mm: &Mm) {
        if !self.is_readable() {
            return;
        }
        let user_rdpmc = &self.hardware.user_rdpmc;
        user_rdpmc.allow(mm);
        let is_hidden = Self::eventsel_of(event).has(EventSel::RDPMC_USER_DISABLE);
        if !event.is_user_readable() && !is_hidden && user_rdpmc.is_allowed() {
            event.set_user_readable();
            event.update_userpage();
        }
    }

    /// Undoes one [`Self::allow_rdpmc`]. As for that.
    pub(super) fn disallow_rdpmc(&self, mm: &Mm) {
        if self.is_readable() {
            self.hardware.user_rdpmc.disallow(mm);
        }
    }

    /// Clears the dirty counters, except for those that have been programmed since.
    /// Afterwards user mode, which may be allowed to read any counter, finds nothing of
    /// another task in them.
    pub(super) fn clear_dirty(&self, cpu: &Cpu) {
        let dirty = CounterSet::from_bits(cpu.dirty.load(Relaxed));
        if !dirty.is_empty() {
            cpu.dirty.store(0, Relaxed);
            self.counters(cpu).clear(dirty);
        }
    }
}

impl Cpu {
    /// An event has left `counter`.
    pub(super) fn mark_dirty(&self, counter: Counter) {
        self.dirty
            .fetch_or(self.registers_of(counter).bits(), Relaxed);
    }
}
