// SPDX-License-Identifier: GPL-2.0

//! The NMI handler.
//!
//! Nothing here allocates, locks, sleeps, prints or panics.
//!
//! A PMI goes this way: a counter overflows, the local APIC delivers an NMI,
//! [`Counters::take_overflows`](crate::pmc::Counters::take_overflows) reads and
//! clears the status, [`CorePmu::rearm`] in `count.rs` begins the next period, and
//! [`CpuEvent::overflow`](crate::perf::CpuEvent::overflow) passes a sample to perf.

use super::{
    topdown::Registers,
    CorePmu,
    Cpu,
    Handler,
    Ownership, //
};
use crate::{
    perf::{
        CpuEvent,
        OnCpu,
        Sample, //
    },
    pmc::{
        counter::Counter,
        event::EventSel, //
    },
    system::irq::Interrupt,
    x86::nmi, //
};

impl nmi::Handler for Handler {
    #[inline(always)]
    fn handle(&self, interrupt: &Interrupt<'_>) -> nmi::Return {
        let driver = self.driver();
        let on = self.0.cpus().this(interrupt.irqs_disabled());
        match on.state().ownership() {
            Ownership::Ours if !driver.may_be_in_a_guest(on.state()) => {
                driver.handle_pmi(on, *interrupt)
            }
            Ownership::Ours => nmi::Return::None,
            Ownership::Free | Ownership::Asleep => driver.handle_late_pmi(on.state()),
        }
    }
}

impl CorePmu {
    /// Whether the counters may hold a guest's values (KVM's mediated vPMU), so that
    /// the handler must not touch them.
    ///
    /// perf takes our events off the CPU before, and KVM makes LVTPC deliver PMIs to the
    /// guest.
    fn may_be_in_a_guest(&self, cpu: &Cpu) -> bool {
        cpu.placed().is_empty() && !self.hardware.apic.delivers_nmis()
    }

    /// Handles an NMI on a CPU whose counters are ours.
    #[inline(always)]
    fn handle_pmi(&self, on: OnCpu<'_, Self>, interrupt: Interrupt<'_>) -> nmi::Return {
        let group_read = &on.state().group_read;
        let time = self.sampling.begin_handler(interrupt);
        let interrupted = group_read.interrupt();
        let causes = self.handle_overflows(on, interrupt);
        group_read.resume(interrupted);
        time.end();
        match causes {
            0 => nmi::Return::None,
            causes => nmi::Return::Handled(causes),
        }
    }

    /// Handles the overflows that an NMI may be about. Returns how many causes of the NMI were found.
    #[inline(always)]
    fn handle_overflows(&self, on: OnCpu<'_, Self>, interrupt: Interrupt<'_>) -> u32 {
        let cpu = on.state();
        cpu.nmis.add(1);
        let counters = self.counters(cpu);
        let has_global = self.hardware.capabilities.has_global_control();
        let mut is_late = false;
        let overflows = if has_global {
            let enabled = cpu.enabled.get();
            cpu.enabled.set(false);
            counters.stop();
            let mut found = 0u32;
            for counter in counters.take_overflows() {
                self.handle_overflow(on, interrupt, counter);
                found = found.wrapping_add(1);
            }
            cpu.enabled.set(enabled);
            found
        } else {
            // The counters run: one that wraps after it was looked at must find LVTPC unmasked.
            is_late = self.has_masked_pmi();
            if is_late {
                self.hardware.apic.deliver_pmi_as_nmi();
            }
            let mut found = 0u32;
            for counter in cpu.active() {
                let has_wrapped = self.handle_if_wrapped(on, interrupt, counter);
                found = found.wrapping_add(has_wrapped.into());
            }
            found
        };
        let causes = match overflows {
            0 => u32::from(is_late || self.is_late_pmi(cpu)),
            causes => {
                // AMD's CPUs may deliver the PMI a second time.
                cpu.window.expect_one();
                causes
            }
        };
        if causes != 0 && has_global {
            self.unmask_pmi();
        }

        // No other NMI comes in between, so that there is no need for `run_active`, which looks for one.
        if has_global {
            counters.leave_running(cpu.to_run());
        } else if cpu.enabled.get() {
            counters.run(cpu.active());
        }
        causes
    }

    /// Handles the overflow of a counter, if its value shows one. Returns whether it does.
    ///
    /// The other counters run on, because to stop them takes two writes for each of them. This one
    /// need not be stopped either if it does not count here, in kernel mode.
    #[inline(never)]
    fn handle_if_wrapped(
        &self,
        on: OnCpu<'_, Self>,
        interrupt: Interrupt<'_>,
        counter: Counter,
    ) -> bool {
        let (cpu, counters) = (on.state(), self.counters(on.state()));
        // A sample of another counter's event may have stopped this one.
        let Some(event) = on
            .event(counter.index())
            .filter(|_| cpu.active().contains(counter))
        else {
            return false;
        };
        let Some(value) = counters.wrapped(counter) else {
            return false;
        };
        if Self::eventsel_of(&event).has(EventSel::OS) {
            counters.pause(counter, cpu.active());
            self.handle_overflow(on, interrupt, counter);
        } else {
            Self::account(event, value, self.hardware.capabilities.width(counter));
            self.next_sample(on, interrupt, counter, event);
        }
        true
    }

    /// Accounts for the overflow of a counter, which is not running, and starts its next period.
    fn handle_overflow(&self, on: OnCpu<'_, Self>, interrupt: Interrupt<'_>, counter: Counter) {
        let cpu = on.state();
        if cpu.is_topdown(counter) {
            self.settle(on, Registers::Clear);
            return;
        }
        // A sample of another counter's event may have stopped this one.
        if !cpu.active().contains(counter) {
            return;
        }
        let Some(event) = on.event(counter.index()) else {
            return;
        };
        let value = self.counters(cpu).peek(counter);
        Self::account(event, value, self.hardware.capabilities.width(counter));
        self.next_sample(on, interrupt, counter, event);
    }

    /// Starts the next period of an event whose count has just been updated, and passes a sample to
    /// perf if a period has ended. The counter is not counting.
    #[inline(always)]
    fn next_sample(
        &self,
        on: OnCpu<'_, Self>,
        interrupt: Interrupt<'_>,
        counter: Counter,
        event: CpuEvent<'_, Self>,
    ) {
        let ended = self.rearm(on.state(), counter, event);
        event.update_userpage();
        if let Some(period) = ended {
            let sample = Sample {
                period,
                ..Sample::default()
            };
            // If perf stops the event, it calls `stop`.
            event.overflow(self.sampling, interrupt, interrupt.regs(), sample);
        }
    }

    /// Handles an NMI on a CPU whose counters are not ours any more, but may have been
    /// when the NMI was on its way.
    fn handle_late_pmi(&self, cpu: &Cpu) -> nmi::Return {
        let late = if self.hardware.capabilities.generation.masks_lvtpc {
            // A masked LVTPC shows a PMI, however late. It may also be the next owner's.
            self.hardware.apic.has_masked_pmi() && cpu.window.take_all_expected()
        } else {
            cpu.window.take_expected()
        };
        if !late {
            return nmi::Return::None;
        }
        // The next owner of the counters may rely on it.
        self.unmask_pmi();
        nmi::Return::Handled(1)
    }

    /// Whether an NMI for which no counter has overflowed is a PMI all the same.
    fn is_late_pmi(&self, cpu: &Cpu) -> bool {
        let is_seen_in_lvtpc = self.hardware.capabilities.generation.masks_lvtpc;
        self.has_masked_pmi() || (!is_seen_in_lvtpc && cpu.window.explains_nmi())
    }

    /// Whether a PMI has masked LVTPC.
    fn has_masked_pmi(&self) -> bool {
        self.hardware.may_mask_lvtpc && self.hardware.apic.has_masked_pmi()
    }

    /// Unmasks LVTPC, if delivering the PMI may have masked it.
    fn unmask_pmi(&self) {
        if self.hardware.may_mask_lvtpc {
            self.hardware.apic.deliver_pmi_as_nmi();
        }
    }
}
