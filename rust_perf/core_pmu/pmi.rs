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
        event::EventSel,
        LvtpcOrder, //
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

    fn handle_unknown(&self, interrupt: &Interrupt<'_>) -> nmi::Return {
        self.this_cpu(interrupt.irqs_disabled())
            .handle_unknown_nmi()
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
            0 => self.claim_unmarked_pmi(),
            causes => nmi::Return::Handled(causes),
        }
    }

    /// Handles the overflows that an NMI may be about. Returns how many causes of the NMI were found.
    #[inline(always)]
    fn handle_overflows(self, interrupt: Interrupt<'_>) -> u32 {
        self.state().run.note_nmi();
        if !self.capabilities().has_global_control() {
            self.handle_by_value(interrupt)
        } else if self.uses_branches() {
            self.handle_with_branches(interrupt)
        } else {
            self.handle_by_status::<false>(interrupt)
        }
    }

    /// [`Self::handle_overflows`] where an event needs branches. In a function of its own, so that the
    /// handler of other events does not ask again.
    #[inline(never)]
    fn handle_with_branches(self, interrupt: Interrupt<'_>) -> u32 {
        self.handle_by_status::<true>(interrupt)
    }

    /// [`Self::handle_overflows`] where GLOBAL_STATUS tells which counters have overflowed. `BRANCHES`:
    /// whether an event may need branches.
    #[inline(always)]
    fn handle_by_status<const BRANCHES: bool>(self, interrupt: Interrupt<'_>) -> u32 {
        let (cpu, counters) = (self.state(), self.counters());
        let held = cpu.run.hold();
        counters.stop();
        let mut found = 0u32;
        let overflowed = counters.take_overflows(|overflowed| {
            self.unmask_pmi_if(LvtpcOrder::Early);
            if BRANCHES {
                self.read_branches(overflowed);
            }
        });
        for counter in overflowed {
            self.handle_overflow::<BRANCHES>(interrupt, counter);
            found = found.wrapping_add(1);
        }
        held.release();
        if BRANCHES && found == 0 {
            self.resume_branches();
        }
        let causes = match found {
            0 => self.has_masked_pmi().into(),
            found => {
                self.note_overflows(interrupt, found);
                self.unmask_pmi_if(LvtpcOrder::Middle);
                found
            }
        };
        // No other NMI comes in between, so that there is no need for `run_active`, which looks for one.
        counters.leave_running(cpu.run.to_run());
        if found != 0 {
            self.unmask_pmi_if(LvtpcOrder::Late);
        } else if causes != 0 {
            self.unmask_pmi();
        }
        causes
    }

    /// [`Self::handle_overflows`] where only the value of a counter tells that it has overflowed.
    #[inline(always)]
    fn handle_by_value(self, interrupt: Interrupt<'_>) -> u32 {
        let run = &self.state().run;
        // The counters run: one that wraps after it was looked at must find LVTPC unmasked.
        let was_masked = self.claim_masked_pmi();
        let mut found = 0u32;
        for counter in run.active() {
            let has_wrapped = self.handle_if_wrapped(interrupt, counter);
            found = found.wrapping_add(has_wrapped.into());
        }
        let causes = match found {
            0 => was_masked.into(),
            found => {
                self.note_overflows(interrupt, found);
                found
            }
        };
        if run.is_enabled() {
            self.counters().run(run.active());
        }
        causes
    }

    /// This many overflows have been handled in an NMI. Their PMIs may arrive yet, even that of this NMI a
    /// second time.
    #[inline(always)]
    fn note_overflows(self, interrupt: Interrupt<'_>, overflows: u32) {
        let window = &self.state().window;
        match self.capabilities().generation.masks_lvtpc {
            true => window.expect_masked(),
            false => window.expect(overflows),
        }
        // Once for an NMI in which an overflow was found, as in-tree.
        nmi::count_pmi(&interrupt);
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
            self.handle_overflow::<false>(interrupt, counter);
        } else {
            event.account(value);
            event.next_sample::<false>(interrupt);
        }
        true
    }

    /// Accounts for the overflow of a counter, which is not running, and starts its next period.
    fn handle_overflow<const BRANCHES: bool>(self, interrupt: Interrupt<'_>, counter: Counter) {
        let run = &self.state().run;
        let Some(event) = self.event_on(counter) else {
            return;
        };
        if event.is_topdown() {
            self.settle(AfterSettling::Clear);
        } else if run.active().contains(counter) {
            // A sample of another counter's event may have stopped this one.
            event.account(self.counters().peek(counter));
            event.next_sample::<BRANCHES>(interrupt);
        }
    }

    /// Handles an NMI on a CPU whose counters are not ours any more, but may have been
    /// when the NMI was on its way.
    fn handle_late_pmi(self) -> nmi::Return {
        if !self.capabilities().generation.masks_lvtpc {
            return self.claim_unmarked_pmi();
        }
        // A masked LVTPC shows a PMI, however late. It may also be the next owner's.
        let is_late =
            self.hardware().apic.has_masked_pmi() && self.state().window.take_all_expected();
        if !is_late {
            return nmi::Return::None;
        }
        // The next owner of the counters may rely on it.
        self.unmask_pmi();
        nmi::Return::Handled(1)
    }

    /// Claims an NMI in which no overflow was found, if LVTPC does not tell and a late PMI is expected,
    /// whoever has the counters by now.
    #[cold]
    fn claim_unmarked_pmi(self) -> nmi::Return {
        let may_be_late = || self.state().window.explains_nmi();
        self.claim_unmarked_pmi_if(may_be_late)
    }

    /// Handles an NMI that every handler of NMI_LOCAL has left. Other NMIs may have used up the claims of
    /// late PMIs.
    fn handle_unknown_nmi(self) -> nmi::Return {
        let may_be_late = || self.state().window.is_open();
        self.claim_unmarked_pmi_if(may_be_late)
    }

    fn claim_unmarked_pmi_if(self, may_be_late: impl FnOnce() -> bool) -> nmi::Return {
        if self.capabilities().generation.masks_lvtpc || !may_be_late() {
            return nmi::Return::None;
        }
        // A hypervisor may have masked LVTPC. The next owner may rely on one that is not masked.
        self.claim_masked_pmi();
        nmi::Return::Handled(1)
    }

    /// Whether a PMI has masked LVTPC.
    fn has_masked_pmi(self) -> bool {
        let hardware = self.hardware();
        hardware.lvtpc_order.is_some() && hardware.apic.has_masked_pmi()
    }

    /// Whether a PMI has masked LVTPC. If so, unmasks it.
    fn claim_masked_pmi(self) -> bool {
        let is_masked = self.has_masked_pmi();
        if is_masked {
            self.unmask_pmi();
        }
        is_masked
    }

    /// Unmasks LVTPC, if delivering the PMI may have masked it.
    fn unmask_pmi(self) {
        let hardware = self.hardware();
        if hardware.lvtpc_order.is_some() {
            hardware.apic.deliver_pmi_as_nmi();
        }
    }

    /// Unmasks LVTPC, if the CPU needs that at this time of the handler.
    #[inline(always)]
    fn unmask_pmi_if(self, now: LvtpcOrder) {
        let hardware = self.hardware();
        if hardware.lvtpc_order == Some(now) {
            hardware.apic.deliver_pmi_as_nmi();
        }
    }
}

impl PlacedEvent<'_> {
    /// Starts the next period of the event, whose count has just been updated, and passes a sample to
    /// perf if a period has ended. The counter is not counting.
    #[inline(always)]
    fn next_sample<const BRANCHES: bool>(self, interrupt: Interrupt<'_>) {
        let ended = self.rearm();
        self.update_userpage();
        if let Some(period) = ended {
            let branches = match BRANCHES {
                true => self.branches(interrupt),
                false => None,
            };
            let sample = Sample {
                period,
                branches,
                ..Sample::default()
            };
            let sampling = self.pmu().driver().sampling;
            // If perf stops the event, it calls `stop`.
            self.overflow(sampling, interrupt, interrupt.regs(), sample);
        }
    }
}
