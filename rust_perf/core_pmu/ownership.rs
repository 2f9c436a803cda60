// SPDX-License-Identifier: GPL-2.0

//! Who has the counters.
//!
//! The first event reserves the counters of all CPUs, and the last one releases
//! them. In between, a CPU's counters are taken over when perf puts an event on
//! it, and given back when the last event is closed, or when the CPU goes offline:
//! a CPU that is offline holds nothing of ours.

use super::{
    CorePmu,
    Cpu,
    Handler, //
};
use crate::{
    perf::{
        OnCpu,
        PerCpu, //
    },
    system::{
        hotplug,
        irq::IrqsDisabled,
        syscore,
        time::jiffies, //
    },
    x86::Reserved, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    pr_warn_once,
    prelude::*, //
};

/// Who has a CPU's counters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Not this driver: they may be anyone's.
    Free,
    /// This driver.
    Ours,
    /// This driver, when the system has woken up. Until then they may lose their state,
    /// and NMIs must leave them alone.
    Asleep,
}

impl Cpu {
    /// Who has this CPU's counters. Any context.
    pub(super) fn ownership(&self) -> Ownership {
        match self.ownership.get() {
            1 => Ownership::Ours,
            2 => Ownership::Asleep,
            _ => Ownership::Free,
        }
    }

    fn set_ownership(&self, ownership: Ownership) {
        self.ownership.set(ownership as u64);
    }

    pub(super) fn is_ours(&self) -> bool {
        self.ownership() == Ownership::Ours
    }
}

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
            cpus.on_each(Cpu::is_ours, |on| self.give_back(*on));
            owner.reservation = None;
        }
    }

    /// Takes this CPU's counters over, if they are not ours yet. Returns whether they are ours now. They
    /// are not if the system or this CPU is shutting down: then nobody may be left to give them back.
    /// Interrupts disabled.
    #[inline(always)]
    pub(super) fn take_over(&self, on: OnCpu<'_, Self>) -> bool {
        let cpu = on.state();
        // After a shutdown of the system they are not ours.
        let is_in_use = !cpu.placed().is_empty() && cpu.is_ours();
        is_in_use || self.take_over_empty(on)
    }

    /// The same if no event is on the CPU, or the counters are not ours.
    #[inline(never)]
    fn take_over_empty(&self, on: OnCpu<'_, Self>) -> bool {
        let cpu = on.state();
        let is_offline = !cpu.online.get() && !cpu.is_ours();
        if is_offline && !self.comes_online(on.irqs_disabled()) || self.shut_down.load(Relaxed) {
            return false;
        }
        let hardware = &self.hardware;
        if cpu.placed().is_empty() {
            if hardware.capabilities.svm {
                let enabled = hardware.cpu.has_svm_enabled(on.irqs_disabled());
                cpu.svm.set(enabled);
            }
            let is_late = cpu.empty_since.get() != jiffies() as u64;
            if cpu.lent.get() || is_late || !self.hooks_alive.get() {
                cpu.lent.set(false);
                // KVM's mediated vPMU may have loaded a guest's values. Other writes of others are
                // rare, so that they are looked for after a while only.
                self.counters(cpu).forget();
            }
        }
        if !cpu.is_ours() {
            hardware.in_tree.pause(on.irqs_disabled());
            self.counters(cpu).take_over();
            hardware.apic.deliver_pmi_as_nmi();
            cpu.set_ownership(Ownership::Ours);
        }
        true
    }

    /// Whether this CPU is coming online, and the PMU is for it. The detector of hard lockups opens its
    /// event before the driver is told.
    fn comes_online(&self, irqs: IrqsDisabled<'_>) -> bool {
        // Another CPU may have got the number of one that went offline.
        let is_for_it = self.part.as_ref().is_none_or(|it| it.has_this_cpu(irqs));
        is_for_it && !hotplug::is_this_cpu_dying(irqs)
    }

    /// Gives this CPU's counters back. Interrupts disabled.
    fn give_back(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        cpu.set_ownership(Ownership::Free);
        // Another CPU may get this one's number. It may be a thread of another core.
        cpu.core.set(0);
        self.counters(cpu).give_back();
        // That has cleared all of them.
        cpu.dirty.set(0);
        self.hardware.in_tree.resume(on.irqs_disabled());
    }

    /// Gives the counters back of a CPU that goes offline, or that may not come online after all, unless
    /// an event has one. Interrupts disabled.
    pub(super) fn give_back_if_offline(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        if !cpu.online.get() && cpu.is_ours() && cpu.placed().is_empty() {
            self.give_back(on);
        }
    }

    /// Stops the counters, and saves what they have counted to their events.
    /// Interrupts disabled.
    fn save_counts(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        // Settling metrics must not run the counters again.
        let enabled = cpu.enabled.swap(false);
        self.stop_if_disabled(cpu);
        for counter in self.hardware.capabilities.counters {
            if let Some(event) = on.event(counter.index()) {
                if !event.is_up_to_date() {
                    self.update(on, counter, event);
                }
                if event.is_stopped() {
                    event.set_up_to_date();
                }
            }
        }
        cpu.enabled.set(enabled);
    }

    /// Programs the counters again after they have lost their state. Interrupts
    /// disabled.
    fn restore(&self, on: OnCpu<'_, Self>) {
        let (cpu, hardware) = (on.state(), &self.hardware);
        let enabled = cpu.enabled.swap(false);
        self.counters(cpu).reset();
        for counter in cpu.active() {
            if let Some(event) = on.event(counter.index()) {
                if cpu.is_topdown(counter) {
                    self.program_topdown(on, counter, event);
                } else {
                    self.program(cpu, counter, event);
                }
                event.update_userpage();
            }
        }
        hardware.apic.deliver_pmi_as_nmi();
        cpu.set_ownership(Ownership::Ours);
        self.clear_selection(on);
        cpu.enabled.set(enabled);
        self.run_active(cpu);
    }

    /// Stops all events of this CPU, and gives its counters back. Interrupts disabled.
    fn stop_and_give_back(&self, on: OnCpu<'_, Self>) {
        let cpu = on.state();
        if !cpu.is_ours() {
            return;
        }
        for counter in cpu.active() {
            if let Some(event) = on.event(counter.index()) {
                self.stop_event(on, event, true);
            }
        }
        self.save_counts(on);
        self.give_back(on);
    }
}

impl hotplug::Handler for Handler {
    fn online(&self, irqs: IrqsDisabled<'_>) {
        self.assign_this_cpu(irqs);
        let on = self.0.cpus().this(irqs);
        on.state().online.set(true);
    }

    fn offline(&self, irqs: IrqsDisabled<'_>) {
        let on = self.0.cpus().this(irqs);
        // If there are events, the last one that leaves gives the counters back.
        on.state().online.set(false);
        self.driver().give_back_if_offline(on);
    }
}

impl syscore::Handler for Handler {
    fn suspend(&self, irqs: IrqsDisabled<'_>) {
        let on = self.0.cpus().this(irqs);
        let cpu = on.state();
        if cpu.is_ours() {
            // A PMI may be on its way.
            cpu.window.expect_one();
            cpu.set_ownership(Ownership::Asleep);
            self.driver().save_counts(on);
        }
    }

    fn resume(&self, irqs: IrqsDisabled<'_>) {
        let on = self.0.cpus().this(irqs);
        if on.state().ownership() == Ownership::Asleep {
            self.driver().restore(on);
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
            .on_each(|_| true, |on| driver.stop_and_give_back(*on));
    }
}
