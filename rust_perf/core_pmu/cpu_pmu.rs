// SPDX-License-Identifier: GPL-2.0

//! The driver on one CPU.

use super::{
    event::CoreEvent,
    placed::PlacedEvent,
    CorePmu,
    Cpu, //
};
use crate::{
    perf::{
        CpuEvent,
        OnCpu, //
    },
    pmc::{
        counter::Counter,
        Capabilities,
        Counters, //
    },
    system::irq::IrqsDisabled,
    x86::{
        Hardware,
        ThisCpu, //
    }, //
};
use core::sync::atomic::Ordering::Relaxed;

/// The driver, with the events and the state of the CPU that the code runs on. Interrupts are disabled
/// there.
///
/// It is two words, so that it is passed in registers.
#[derive(Clone, Copy)]
pub(super) struct CpuPmu<'a> {
    driver: &'a CorePmu,
    on: OnCpu<'a, CorePmu>,
}

impl CorePmu {
    /// The driver on the CPU that the code runs on.
    #[inline(always)]
    pub(super) fn on<'a>(&'a self, on: OnCpu<'a, Self>) -> CpuPmu<'a> {
        CpuPmu { driver: self, on }
    }
}

impl<'a> CpuPmu<'a> {
    /// What all CPUs share.
    #[inline(always)]
    pub(super) fn driver(self) -> &'a CorePmu {
        self.driver
    }

    /// The driver's state for this CPU.
    #[inline(always)]
    pub(super) fn state(self) -> &'a Cpu {
        self.on.state()
    }

    /// The hardware.
    #[inline(always)]
    pub(super) fn hardware(self) -> &'a Hardware {
        &self.driver.hardware
    }

    /// What the counters can do.
    #[inline(always)]
    pub(super) fn capabilities(self) -> &'a Capabilities {
        &self.driver.hardware.capabilities
    }

    /// Access to the counters.
    #[inline(always)]
    pub(super) fn counters(self) -> Counters<'a, ThisCpu> {
        self.state().run.counters(&self.driver.hardware)
    }

    /// Proof that interrupts are disabled.
    #[inline(always)]
    pub(super) fn irqs_disabled(self) -> IrqsDisabled<'a> {
        self.on.irqs_disabled()
    }

    /// The event that is on `counter`, if there is one.
    #[inline(always)]
    pub(super) fn event_on(self, counter: Counter) -> Option<PlacedEvent<'a>> {
        let event = self.on.event(counter.index())?;
        Some(PlacedEvent::new(self, counter, event))
    }

    /// An event of this CPU on its counter, if it has one.
    #[inline(always)]
    pub(super) fn placed(self, event: CpuEvent<'a, CorePmu>) -> Option<PlacedEvent<'a>> {
        let counter = event.counter()?;
        Some(PlacedEvent::new(self, counter, event))
    }

    /// Whether the system is shutting down: no counters may be started or taken over any more.
    pub(super) fn is_shut_down(self) -> bool {
        self.driver.shut_down.load(Relaxed)
    }
}
