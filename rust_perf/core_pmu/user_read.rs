// SPDX-License-Identifier: GPL-2.0

//! RDPMC in user mode.
//!
//! RDPMC reads any counter. So a task that may use it must find nothing in them that events of other
//! tasks have counted. Who may use it is the kernel's matter: those that have an event of any PMU
//! mapped, their children, or all. CR4.PCE says whether the present address space may.
//!
//! A counter that an event has left is dirty, and so are all that the driver has just taken over. As long
//! as nobody may read it, it stays so: the next event on it may run on from there, and nothing need be
//! written. Dirty counters are cleared
//!
//! - before CR4.PCE is set, by [`CpuPmu::hide_counts`];
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
    cpu_pmu::CpuPmu,
    event::CoreEvent,
    placed::PlacedEvent,
    CorePmu, //
};
use crate::{
    perf::{
        Event,
        PerCpu, //
    },
    pmc::event::EventSel, //
};
use core::{
    ptr,
    sync::atomic::{
        AtomicBool,
        Ordering::Relaxed, //
    }, //
};
use kernel::mm::Mm;

impl CorePmu {
    /// Whether user mode can read counters. It needs their width. The kernel writes that of the
    /// in-tree driver's GP counters into the page of an event, so it must be that of all counters.
    fn is_readable(&self) -> bool {
        let width = self.hardware.user_rdpmc.page_width();
        self.hardware.capabilities.have_width(width)
    }

    /// Allows RDPMC to the tasks of `mm`, into which an event has been mapped. Task
    /// context, may sleep.
    ///
    /// From then on the event's page says that its counter may be read, and, while it is on one, where
    /// that is. The in-tree driver says so for the same events (`x86_pmu_event_init()` and
    /// `arch_perf_update_userpage()` in `arch/x86/events/core.c`). It interrupts the CPUs that use `mm`,
    /// including those that are idle or run a kernel thread meanwhile, if this is the first event that is
    /// mapped into `mm`. This driver also interrupts the CPU that counts the event, if that is another
    /// one.
    pub(super) fn allow_rdpmc(&self, event: &Event<Self>, mm: &Mm, cpus: &PerCpu<Self>) {
        if !self.is_readable() {
            return;
        }
        let user_rdpmc = &self.hardware.user_rdpmc;
        user_rdpmc.allow(mm);
        let is_hidden = event.eventsel().has(EventSel::RDPMC_USER_DISABLE);
        if event.is_user_readable() || is_hidden || !user_rdpmc.is_allowed() {
            return;
        }
        event.set_user_readable();
        if !self.show_counter(event, cpus) {
            // perf has filled in the page of an event that was not readable.
            event.update_userpage();
            // Meanwhile another CPU may have begun to count the event, without knowing that it is
            // readable.
            self.show_counter(event, cpus);
        }
    }

    /// If the event, which user mode may read from now on, is on a counter, has its page say where. Returns
    /// whether it is. Task context.
    fn show_counter(&self, event: &Event<Self>, cpus: &PerCpu<Self>) -> bool {
        let is_shown = AtomicBool::new(false);
        cpus.on_cpu_of(event, |on| {
            let pmu = self.on(*on);
            let found = event.counter().and_then(|counter| pmu.event_on(counter));
            if let Some(found) = found.filter(|found| ptr::eq::<Event<Self>>(&***found, event)) {
                // It may run on from what others have left.
                pmu.clear_dirty();
                found.set_user_index(found.rdpmc_index());
                found.update_userpage();
                is_shown.store(true, Relaxed);
            }
        });
        is_shown.into_inner()
    }

    /// Undoes one [`Self::allow_rdpmc`]. Task context, may sleep.
    pub(super) fn disallow_rdpmc(&self, mm: &Mm) {
        if self.is_readable() {
            self.hardware.user_rdpmc.disallow(mm);
        }
    }
}

impl CpuPmu<'_> {
    /// Whether the tasks of the present address space may use RDPMC, as far as is known. Any context.
    pub(super) fn user_may_read(self) -> bool {
        !self.driver().hooks_alive.get() || self.hardware().user_rdpmc.is_allowed()
    }

    /// The kernel is about to set CR4.PCE on this CPU, or may be. In a context in which IRQs are
    /// handled.
    ///
    /// The driver itself calls the hooked function once in its callbacks, when it takes the
    /// counters over. They are not its own yet then.
    pub(super) fn hide_counts(self) {
        // Who has the counters otherwise clears them: see `Counters::give_back`.
        if self.state().tenure.is_ours() {
            self.clear_dirty();
        }
    }
}

impl PlacedEvent<'_> {
    /// Where user mode finds the event, if it may read that.
    pub(super) fn rdpmc_index(self) -> Option<u32> {
        self.is_user_readable().then(|| self.counter().rdpmc())
    }
}
