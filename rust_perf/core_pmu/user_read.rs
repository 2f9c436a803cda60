// SPDX-License-Identifier: GPL-2.0

//! RDPMC in user mode.
//!
//! RDPMC reads any counter. So a task that may use it must find nothing in them that events of other
//! tasks have counted. Who may use it is the kernel's matter: those that have an event of any PMU
//! mapped, their children, or all. CR4.PCE says whether the present address space may.
//!
//! A counter that an event has left is dirty. As long as nobody may read it, it stays so: the next
//! event on it may run on from there, and nothing need be written. Dirty counters are cleared
//!
//! - before CR4.PCE is set, by [`CorePmu::hide_counts`];
//! - while CR4.PCE is set, when perf enables the PMU after a change, as it does after any event
//!   has left a counter. Then no event begins to run on from a dirty counter either.
//!
//! So there are no dirty counters while user mode runs with CR4.PCE. A thread that shares its
//! address space with the one before runs without a change of CR4, and a kernel thread keeps
//! CR4 as it was.
//!
//! The page of an event also shows what its counter held when it was started, to any task that has
//! mapped it. So an event that user mode may read never runs on from a dirty counter. Its page says
//! where to find the counter ([`Event::user_index`]) once it has been programmed with that in mind.

use super::{
    ownership::Ownership,
    CorePmu, //
};
use crate::{
    perf::{
        Event,
        OnCpu,
        PerCpu, //
    },
    pmc::{
        counter::Counter,
        event::EventSel, //
    }, //
};
use core::ptr;
use kernel::mm::Mm;

impl CorePmu {
    /// Where user mode finds an event that is on `counter`, if it may read that. On the event's CPU.
    pub(super) fn rdpmc_index(event: &Event<Self>, counter: Counter) -> Option<u32> {
        event.is_user_readable().then(|| counter.rdpmc())
    }

    /// Whether user mode can read counters. It needs their width. The kernel writes that of the
    /// in-tree driver's GP counters into the page of an event, so it must be that of all counters.
    fn is_readable(&self) -> bool {
        let width = self.hardware.user_rdpmc.page_width();
        self.hardware.capabilities.have_width(width)
    }

    /// Allows RDPMC to the tasks of `mm`, into which an event has been mapped. Task
    /// context, may sleep.
    pub(super) fn allow_rdpmc(&self, event: &Event<Self>, mm: &Mm, cpus: &PerCpu<Self>) {
        if !self.is_readable() {
            return;
        }
        let user_rdpmc = &self.hardware.user_rdpmc;
        user_rdpmc.allow(mm);
        let is_hidden = Self::eventsel_of(event).has(EventSel::RDPMC_USER_DISABLE);
        if event.is_user_readable() || is_hidden || !user_rdpmc.is_allowed() {
            return;
        }
        event.set_user_readable();
        // The event's CPU may be programming a counter for it, without knowing that yet.
        cpus.on_each_of(event, |on| {
            let Some(counter) = Self::counter_of(event) else {
                return;
            };
            let found = on.event(counter.index());
            if let Some(found) = found.filter(|found| ptr::eq::<Event<Self>>(&**found, event)) {
                self.clear_dirty(*on);
                found.set_user_index(Self::rdpmc_index(event, counter));
                found.update_userpage();
            }
        });
    }

    /// Undoes one [`Self::allow_rdpmc`]. As for that.
    pub(super) fn disallow_rdpmc(&self, mm: &Mm) {
        if self.is_readable() {
            self.hardware.user_rdpmc.disallow(mm);
        }
    }

    /// Whether the tasks of the present address space may use RDPMC, as far as is known. On the CPU
    /// in question; any context.
    pub(super) fn user_may_read(&self) -> bool {
        !self.hooks_alive.get() || self.hardware.user_rdpmc.is_allowed()
    }

    /// The kernel is about to set CR4.PCE on this CPU, or may be. Interrupts disabled, in a context in
    /// which IRQs are handled.
    ///
    /// The driver itself calls the hooked function once in its callbacks, when it takes the
    /// counters over. They are not its own yet then.
    pub(super) fn hide_counts(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        // Who has the counters otherwise clears them: see `Counters::give_back`.
        if cpu.ownership() == Ownership::Ours {
            self.clear_dirty(on);
        }
    }

    /// Clears the dirty counters. An event that runs on from what one holds begins anew. Interrupts
    /// disabled.
    #[inline(never)]
    pub(super) fn clear_dirty(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        let dirty = cpu.dirty();
        if dirty.is_empty() {
            return;
        }
        // A metric whose leader has left counts nothing, and has no counter of its own to program.
        let ordinary = dirty & !dirty.metrics_part();
        self.restart_events(on, ordinary, |_| {
            cpu.dirty.set(0);
            self.counters(cpu).clear(dirty);
        });
    }
}
