// SPDX-License-Identifier: GPL-2.0

//! What the threads of a core share.
//!
//! On some CPUs it is the extra registers, on others a counter that has an event of one thread
//! must not be used by another. CPUs of no such model have no [`Core`], and take no lock.
//!
//! Everything here runs with interrupts disabled, and not in an NMI.

use super::CorePmu;
use crate::{
    perf::OnCpu,
    pmc::{
        siblings::Siblings,
        Capabilities,
        ExtraInUse, //
    },
    system::{
        irq::IrqsDisabled,
        raw_spinlock::RawSpinLock, //
    }, //
};
use core::sync::atomic::{
    AtomicU64,
    Ordering::Relaxed, //
};
use kernel::{
    cpu::nr_cpu_ids,
    prelude::*, //
};

impl CorePmu {
    /// The extra registers of this CPU's core, if its threads share them.
    pub(super) fn shared_extra(&self, on: OnCpu<'_, Self>) -> Option<&RawSpinLock<ExtraInUse>> {
        if !self.hardware.capabilities.shares_extra() {
            return None;
        }
        self.core_of(on).map(|core| &core.extra)
    }

    /// The counters of the threads of this CPU's core, if they disturb each other.
    pub(super) fn siblings(&self, on: OnCpu<'_, Self>) -> Option<&RawSpinLock<Siblings>> {
        if !self.hardware.capabilities.any_exclusive() {
            return None;
        }
        self.core_of(on).map(|core| &core.counters)
    }

    /// The core that this CPU is a thread of. Its threads must share something.
    fn core_of(&self, on: OnCpu<'_, Self>) -> Option<&Core> {
        let cached = &on.state().core;
        let index = match cached.get().checked_sub(1) {
            Some(index) => index as usize,
            None => {
                let index = self.claim_core(on.irqs_disabled())?;
                cached.set(index.wrapping_add(1) as u64);
                index
            }
        };
        self.cores.get(index).map(|core| &**core)
    }

    /// The index of this CPU's core. There are as many as CPUs, so one is always left. Not inlined,
    /// because `tools/xtask/src/callgraph.rs` knows it by name.
    #[cold]
    #[inline(never)]
    fn claim_core(&self, irqs: IrqsDisabled<'_>) -> Option<usize> {
        let number = u64::from(self.hardware.cpu.core_number(irqs));
        self.cores.iter().position(|core| core.is_of(number))
    }
}

/// A core whose threads share something.
#[pin_data]
pub(super) struct Core {
    /// One more than the core's number. 0 if it stands for none yet.
    number: AtomicU64,
    #[pin]
    extra: RawSpinLock<ExtraInUse>,
    #[pin]
    counters: RawSpinLock<Siblings>,
}

impl Core {
    /// As many as there can be, if the threads of a core share anything.
    pub(super) fn all(capabilities: &Capabilities) -> Result<KVec<Pin<KBox<Self>>>> {
        let mut cores = KVec::new();
        if !capabilities.shares_extra() && !capabilities.any_exclusive() {
            return Ok(cores);
        }
        for _ in 0..nr_cpu_ids() {
            let core = pin_init!(Self {
                number: AtomicU64::new(0),
                extra <- RawSpinLock::new(ExtraInUse::default()),
                counters <- RawSpinLock::new(Siblings::default()),
            });
            cores.push(KBox::pin_init(core, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(cores)
    }

    /// Whether this stands for the core of this number. If it stands for none, it does so
    /// from now on: threads that search in the same order find the same one.
    fn is_of(&self, number: u64) -> bool {
        let number = number.wrapping_add(1);
        match self.number.compare_exchange(0, number, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(found) => found == number,
        }
    }
}
