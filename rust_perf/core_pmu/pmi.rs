// SPDX-License-Identifier: GPL-2.0

//! The NMI handler.
//!
//! Nothing here allocates, locks, sleeps, prints or panics.
//!
//! The way of a PMI: a counter overflows, the local APIC delivers an NMI,
//! [`Counters::take_overflows`](crate::pmc::Counters::take_overflows) reads and
//! clears the status, [`PlacedEvent::rearm`] begins the next period, and
//! [`CpuEvent::overflow`](crate::perf::CpuEvent::overflow) passes a sample to perf.

use super::{
    cpu_pmu::CpuPmu,
    event::CoreEvent,
    placed::PlacedEvent,
    tenure::Ownership,
    topdown::AfterSettling,
    Handler, //
};
use crate::{
    perf::Sample,
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
        let pmu = self.this_cpu(interrupt.irqs_disabled());
        match pmu.state().tenure.ownership() {
            Ownership::Ours if !pmu.may_be_in_a_guest() => pmu.handle_pmi(*interrupt),
            Ownership::Ours => nmi::Return::None,
            Ownership::Free | Ownership::Asleep => pmu.handle_late_pmi(),
        }
    }
}

impl CpuPmu<'_> {
    /// Whether the counters may hold a guest's values (KVM's mediated vPMU), so that
    /// the handler must not touch them.
    ///
    /// perf takes our events off the CPU before, and KVM makes LVTPC deliver PMIs to the
    /// guest.
    fn may_be_in_a_guest(self) -> bool {
        self.state().run.placed().is_empty() && !self.hardware().apic.delivers_nmis()
    }

    /// Handles an NMI on a CPU whose counters are ours.
    #[inline(always)]
    fn handle_pmi(self, interrupt: Interrupt<'_>) -> nmi::Return {
        let topdown = &self.state().topdown;
        let time = self.driver().sampling.begin_handler(interrupt);
        let interrupted = topdown.interrupt_read();
        let causes = self.handle_overflows(interrupt);
        topdown.resume_read(interrupted);
        time.end();
        match causes {
            0 => nmi::Return::None,
            causes => nmi::Return::Handled(causes),
        }
    }

    /// Handles the overflows that an NMI may be about. Returns how many causes of the NMI were found.
    #[inline(always)]
    fn handle_overflows(self, interrupt: Interrupt<'_>) -> u32 {
        let (cpu, counters) = (self.state(), self.counters());
        cpu.run.note_nmi();
        let has_global = self.capabilities().has_global_control();
        let mut is_late = false;
        let overflows = if has_global {
            let held = cpu.run.hold();
            counters.stop();
            let mut found = 0u32;
            for counter in counters.take_overflows() {
                self.handle_overflow(interrupt, counter);
                found = found.wrapping_add(1);
            }
            held.release();
            found
        } else {
            // The counters run: one that wraps after it was looked at must find LVTPC unmasked.
            is_late = self.has_masked_pmi();
            if is_late {
                self.hardware().apic.deliver_pmi_as_nmi();
            }
            let mut found = 0u32;
            for counter in cpu.run.active() {
                let has_wrapped = self.handle_if_wrapped(interrupt, counter);
                found = found.wrapping_add(has_wrapped.into());
            }
            found
        };
        let causes = match overflows {
            0 => u32::from(is_late || self.is_late_pmi()),
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
            counters.leave_running(cpu.run.to_run());
        } else if cpu.run.is_enabled() {
            counters.run(cpu.run.active());
        }
        causes
    }

    /// Handles the overflow of a counter, if its value shows one. Returns whether it does.
    ///
    /// The other counters run on, because to stop them takes two writes for each of them. This one
    /// need not be stopped either if it does not count here, in kernel mode.
    #[inline(never)]
    fn handle_if_wrapped(self, interrupt: Interrupt<'_>, counter: Counter) -> bool {
        let (run, counters) = (&self.state().run, self.counters());
        // A sample of another counter's event may have stopped this one.
        let Some(event) = self
            .event_on(counter)
            .filter(|_| run.active().contains(counter))
        else {
            return false;
        };
        let Some(value) = counters.wrapped(counter) else {
            return false;
        };
        if event.eventsel().has(EventSel::OS) {
            counters.pause(counter, run.active());
            self.handle_overflow(interrupt, counter);
        } else {
            event.account(value);
            event.next_sample(interrupt);
        }
        true
    }

    /// Accounts for the overflow of a counter, which is not running, and starts its next period.
    fn handle_overflow(self, interrupt: Interrupt<'_>, counter: Counter) {
        let run = &self.state().run;
        let Some(event) = self.event_on(counter) else {
            return;
        };
        if event.is_topdown() {
            self.settle(AfterSettling::Clear);
        } else if run.active().contains(counter) {
            // A sample of another counter's event may have stopped this one.
            event.account(self.counters().peek(counter));
            event.next_sample(interrupt);
        }
    }

    /// Handles an NMI on a CPU whose counters are not ours any more, but may have been
    /// when the NMI was on its way.
    fn handle_late_pmi(self) -> nmi::Return {
        let window = &self.state().window;
        let late = if self.capabilities().generation.masks_lvtpc {
            // A masked LVTPC shows a PMI, however late. It may also be the next owner's.
            self.hardware().apic.has_masked_pmi() && window.take_all_expected()
        } else {
            window.take_expected()
        };
        if !late {
            return nmi::Return::None;
        }
        // The next owner of the counters may rely on it.
        self.unmask_pmi();
        nmi::Return::Handled(1)
    }

    /// Whether an NMI for which no counter has overflowed is a PMI all the same.
    fn is_late_pmi(self) -> bool {
        let is_seen_in_lvtpc = self.capabilities().generation.masks_lvtpc;
        self.has_masked_pmi() || (!is_seen_in_lvtpc && self.state().window.explains_nmi())
    }

    /// Whether a PMI has masked LVTPC.
    fn has_masked_pmi(self) -> bool {
        let hardware = self.hardware();
        hardware.may_mask_lvtpc && hardware.apic.has_masked_pmi()
    }

    /// Unmasks LVTPC, if delivering the PMI may have masked it.
    fn unmask_pmi(self) {
        let hardware = self.hardware();
        if hardware.may_mask_lvtpc {
            hardware.apic.deliver_pmi_as_nmi();
        }
    }
}

impl PlacedEvent<'_> {
    /// Starts the next period of the event, whose count has just been updated, and passes a sample to
    /// perf if a period has ended. The counter is not counting.
    #[inline(always)]
    fn next_sample(self, interrupt: Interrupt<'_>) {
        let ended = self.rearm();
        self.update_userpage();
        if let Some(period) = ended {
            let sample = Sample {
                period,
                ..Sample::default()
            };
            let sampling = self.pmu().driver().sampling;
            // If perf stops the event, it calls `stop`.
            self.overflow(sampling, interrupt, interrupt.regs(), sample);
        }
    }
}
