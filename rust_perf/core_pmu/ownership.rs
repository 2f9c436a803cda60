// SPDX-License-Identifier: GPL-2.0

//! Who has the counters.
//!
//! The first event reserves the counters of all CPUs, and the last one releases
//! them. In between, a CPU's counters are taken over when perf puts an event on
//! it, and given back when the last event is closed, or when the CPU goes offline:
//! a CPU that is offline holds nothing of ours.
//!
//! What a [`CpuPmu`] does here runs with interrupts disabled, and not in an NMI.

use super::{
    cpu_pmu::CpuPmu,
    tenure::Ownership,
    CorePmu,
    Handler, //
};
use crate::{
    perf::PerCpu,
    system::{
        hotplug,
        irq::IrqsDisabled,
        syscore, //
    },
    x86::Reserved, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    pr_warn_once,
    prelude::*, //
};

/// The reservation of the counters while there are events.
#[derive(Default)]
pub(super) struct Owner {
    events: usize,
    reservation: Option<Reserved>,
}

impl CorePmu {
    /// Reserves the counters for one more event. Fails with `EBUSY` if someone else has
    /// them. Task context, may sleep.
    pub(super) fn acquire(&self) -> Result {
        let mut owner = self.owner.lock();
        if owner.reservation.is_none() {
            let reservation =
                self.hardware.reservable.reserve().inspect_err(|_| {
                    pr_warn_once!(
                        "the counters are in use, by events of the in-tree `cpu` PMU or the NMI watchdog; \
                         close those events, `sysctl kernel.nmi_watchdog=0`\n"
                    )
                })?;
            owner.reservation = Some(reservation);
        }
        owner.events = owner.events.saturating_add(1);
        Ok(())
    }

    /// Releases what one event reserved. Task context, may sleep.
    pub(super) fn release(&self, cpus: &PerCpu<Self>) {
        self.report_foreign_writes();
        let mut owner = self.owner.lock();
        owner.events = owner.events.saturating_sub(1);
        if owner.events == 0 {
            cpus.on_each(|cpu| cpu.tenure.is_ours(), |on| self.on(*on).give_back());
            owner.reservation = None;
        }
    }
}

impl CpuPmu<'_> {
    /// Takes this CPU's counters over, if they are not ours yet. Returns whether they are ours now. They
    /// are not if the system or this CPU is shutting down: then nobody may be left to give them back.
    #[inline(always)]
    pub(super) fn take_over(self) -> bool {
        let cpu = self.state();
        // After a shutdown of the system they are not ours.
        let is_in_use = !cpu.run.placed().is_empty() && cpu.tenure.is_ours();
        is_in_use || self.take_over_empty()
    }

    /// The slow path of [`Self::take_over`]: no event is on the CPU, or the counters are not ours.
    #[inline(never)]
    fn take_over_empty(self) -> bool {
        let cpu = self.state();
        let is_offline = !cpu.tenure.is_online() && !cpu.tenure.is_ours();
        if is_offline && !self.comes_online() || self.is_shut_down() {
            return false;
        }
        let hardware = self.hardware();
        if cpu.run.placed().is_empty() {
            if hardware.capabilities.svm {
                let enabled = hardware.cpu.has_svm_enabled(self.irqs_disabled());
                cpu.svm.set(enabled);
            }
            if cpu.tenure.take_may_be_changed() || !self.driver().hooks_alive.get() {
                // KVM's mediated vPMU may have loaded a guest's values. Other writes of others are
                // rare, so that they are looked for after a while only.
                self.counters().forget();
                self.forget_branches();
            }
        }
        if !cpu.tenure.is_ours() {
            self.take_from_others();
        }
        true
    }

    /// Takes this CPU's counters over, whoever has had them.
    #[cold]
    fn take_from_others(self) {
        let (cpu, hardware) = (self.state(), self.hardware());
        hardware.in_tree.pause(self.irqs_disabled());
        self.counters().take_over();
        // What is in them is not known. `take_over` programs them, but does not write them.
        cpu.dirty.add(hardware.capabilities.readable());
        hardware.apic.deliver_pmi_as_nmi();
        cpu.tenure.set_ownership(Ownership::Ours);
    }

    /// Whether this CPU is coming online, and the PMU is for it. The detector of hard lockups opens its
    /// event before the driver is told.
    fn comes_online(self) -> bool {
        let irqs = self.irqs_disabled();
        // Another CPU may have got the number of one that went offline.
        let part = self.driver().part.as_ref();
        part.is_none_or(|it| it.has_this_cpu(irqs)) && !hotplug::is_this_cpu_dying(irqs)
    }

    /// Gives this CPU's counters back.
    fn give_back(self) {
        let cpu = self.state();
        self.close_window_soon();
        cpu.tenure.set_ownership(Ownership::Free);
        // Another CPU may get this one's number. It may be a thread of another core.
        cpu.core.forget();
        self.give_branches_back();
        self.counters().give_back();
        // That has cleared what this driver's events have counted. They are dirty again once they are
        // taken over.
        cpu.dirty.remove_all();
        self.hardware().in_tree.resume(self.irqs_disabled());
    }

    /// The counters will not be ours: from now on a masked LVTPC shows a PMI of ours only for a while.
    fn close_window_soon(self) {
        if self.capabilities().generation.masks_lvtpc {
            self.state().window.close_soon();
        }
    }

    /// Gives the counters back of a CPU that goes offline, or that may not come online after all, unless
    /// an event has one.
    pub(super) fn give_back_if_offline(self) {
        let cpu = self.state();
        if !cpu.tenure.is_online() && cpu.tenure.is_ours() && cpu.run.placed().is_empty() {
            self.give_back();
        }
    }

    /// Stops the counters, and saves what they have counted to their events.
    fn save_counts(self) {
        // Settling metrics must not run the counters again.
        let held = self.state().run.hold();
        self.stop_if_disabled();
        for counter in self.capabilities().counters {
            if let Some(event) = self.event_on(counter) {
                event.read();
                if event.is_stopped() {
                    event.set_up_to_date();
                }
            }
        }
        held.release();
    }

    /// Programs the counters again after they have lost their state.
    fn restore(self) {
        let (cpu, hardware) = (self.state(), self.hardware());
        let held = cpu.run.hold();
        self.counters().reset();
        for counter in cpu.run.active() {
            if let Some(event) = self.event_on(counter) {
                if event.is_topdown() {
                    event.program_topdown();
                } else {
                    event.program();
                }
                event.update_userpage();
            }
        }
        hardware.apic.deliver_pmi_as_nmi();
        cpu.tenure.set_ownership(Ownership::Ours);
        self.clear_selection();
        self.forget_branches();
        self.update_branches();
        held.release();
        self.run_active();
    }

    /// Stops all events of this CPU, and gives its counters back.
    fn stop_and_give_back(self) {
        let cpu = self.state();
        if !cpu.tenure.is_ours() {
            return;
        }
        for counter in cpu.run.active() {
            if let Some(event) = self.event_on(counter) {
                event.stop(true);
            }
        }
        self.save_counts();
        self.give_back();
    }
}

impl hotplug::Handler for Handler {
    fn online(&self, irqs: IrqsDisabled<'_>) {
        self.assign_this_cpu(irqs);
        self.this_cpu(irqs).state().tenure.set_online(true);
    }

    fn offline(&self, irqs: IrqsDisabled<'_>) {
        let pmu = self.this_cpu(irqs);
        // If there are events, the last one that leaves gives the counters back.
        pmu.state().tenure.set_online(false);
        pmu.give_back_if_offline();
    }
}

impl syscore::Handler for Handler {
    fn suspend(&self, irqs: IrqsDisabled<'_>) {
        let pmu = self.this_cpu(irqs);
        let cpu = pmu.state();
        if cpu.tenure.is_ours() {
            // A PMI may be on its way.
            cpu.window.expect(1);
            cpu.tenure.set_ownership(Ownership::Asleep);
            pmu.save_counts();
        }
    }

    fn resume(&self, irqs: IrqsDisabled<'_>) {
        let pmu = self.this_cpu(irqs);
        if pmu.state().tenure.ownership() == Ownership::Asleep {
            pmu.restore();
        }
    }

    fn shutdown(&self) {
        let driver = self.driver();
        driver.shut_down.store(true, Relaxed);
        // Keeps the reservation as it is.
        let _owner = driver.owner.lock();
        // Ask every CPU, not only those whose counters are ours: one may be in the middle of
        // `take_over`. A later `take_over` finds that the counters are not ours, and looks at `shut_down`.
        self.0
            .cpus()
            .on_each(|_| true, |on| driver.on(*on).stop_and_give_back());
    }
}
