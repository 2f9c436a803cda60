// SPDX-License-Identifier: GPL-2.0

//! What the threads of a core share.
//!
//! On some CPUs the threads share the extra registers. On others a counter that has an event of one
//! thread must not be used by another thread. CPUs of neither kind have no [`Core`], and take no lock.
//!
//! Everything here runs with interrupts disabled, and not in an NMI.

use super::cpu_pmu::CpuPmu;
use crate::{
    pmc::{
        siblings::Siblings,
        Capabilities,
        ExtraInUse, //
    },
    system::{
        local::LocalWord,
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

/// Which [`Core`] a CPU is a thread of, once that has been looked up. Used on that CPU only, with
/// interrupts disabled.
#[derive(Default)]
pub(super) struct CoreIndex {
    /// The index of the core, plus 1. 0 if it has not been looked up.
    plus_one: LocalWord,
}

impl CoreIndex {
    fn get(&self) -> Option<usize> {
        Some(self.plus_one.get().checked_sub(1)? as usize)
    }

    fn set(&self, index: usize) {
        self.plus_one.set(index.wrapping_add(1) as u64);
    }

    /// Has the core looked up again.
    pub(super) fn forget(&self) {
        self.plus_one.set(0);
    }
}

impl<'a> CpuPmu<'a> {
    /// The extra registers of this CPU's core, if its threads share them.
    pub(super) fn shared_extra(self) -> Option<&'a RawSpinLock<ExtraInUse>> {
        if !self.capabilities().shares_extra() {
            return None;
        }
        self.core().map(|core| &core.extra)
    }

    /// The counters of the threads of this CPU's core, if they disturb each other.
    pub(super) fn siblings(self) -> Option<&'a RawSpinLock<Siblings>> {
        if !self.capabilities().any_exclusive() {
            return None;
        }
        self.core().map(|core| &core.counters)
    }

    /// The core that this CPU is a thread of. Its threads must share something.
    fn core(self) -> Option<&'a Core> {
        let cached = &self.state().core;
        let index = match cached.get() {
            Some(index) => index,
            None => {
                let index = self.claim_core()?;
                cached.set(index);
                index
            }
        };
        self.driver().cores.get(index).map(|core| &**core)
    }

    /// The index of this CPU's core. There are as many as CPUs, so one is always left. Not inlined,
    /// because `tools/xtask/src/callgraph.rs` knows it by name.
    #[cold]
    #[inline(never)]
    fn claim_core(self) -> Option<usize> {
        let number = self.hardware().cpu.core_number(self.irqs_disabled());
        let mut cores = self.driver().cores.iter();
        cores.position(|core| core.is_of(number.into()))
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
    /// One for each core that there can be, if the threads of a core share anything.
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
