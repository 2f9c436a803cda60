// SPDX-License-Identifier: GPL-2.0

//! Extra registers: which events of a CPU, or of a core, have them.
//!
//! The hold of an event on its register begins with `add` and ends with `del`. In
//! between the register has the event's value, which `start` may write in an NMI: all
//! holders agree on it.

use super::CorePmu;
use crate::{
    perf::{
        self,
        AddedEvent,
        Event,
        OnCpu, //
    },
    pmc::{
        Extra,
        ExtraInUse,
        ExtraRegister, //
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
    /// The extra register of an open event, with the event's value. Any context.
    pub(super) fn extra_of(event: &Event<Self>) -> Option<Extra> {
        let perf::ExtraRegister { index, value } = event.extra_register()?;
        let register = ExtraRegister::from_index(index)?;
        Some(Extra { register, value })
    }

    /// Gives an event that needs `extra` that register, or another one that does as well.
    /// Fails with `EAGAIN` if all of them have other values.
    pub(super) fn take_extra(
        &self,
        on: &OnCpu<'_, Self>,
        of_this_cpu: &mut ExtraInUse,
        event: &AddedEvent<'_, Self>,
        extra: Extra,
    ) -> Result {
        let capabilities = &self.hardware.capabilities;
        let choices = capabilities.extra_choices(Self::eventsel_of(event), extra);
        let taken = self
            .with_extra_in_use(on, of_this_cpu, |in_use| in_use.take(choices))
            .ok_or(EAGAIN)?;
        event.move_extra_register(taken.register.index());
        Ok(())
    }

    /// Undoes [`Self::take_extra`] for an event that has an extra register.
    pub(super) fn release_extra(
        &self,
        on: &OnCpu<'_, Self>,
        of_this_cpu: &mut ExtraInUse,
        event: &Event<Self>,
    ) {
        if let Some(extra) = Self::extra_of(event) {
            self.with_extra_in_use(on, of_this_cpu, |in_use| in_use.release(extra.register));
        }
    }

    fn with_extra_in_use<R>(
        &self,
        on: &OnCpu<'_, Self>,
        of_this_cpu: &mut ExtraInUse,
        f: impl FnOnce(&mut ExtraInUse) -> R,
    ) -> R {
        match self.core_of(on) {
            Some(core) => core.extra.with(on.irqs_disabled(), f),
            None => f(of_this_cpu),
        }
    }

    /// The core that this CPU is a thread of, if its threads share the extra registers.
    fn core_of(&self, on: &OnCpu<'_, Self>) -> Option<&Core> {
        if self.cores.is_empty() {
            return None;
        }
        let cached = &on.state().core;
        let index = match cached.load(Relaxed).checked_sub(1) {
            Some(index) => index,
            None => {
                let index = self.claim_core(on.irqs_disabled())?;
                cached.store(index.wrapping_add(1), Relaxed);
                index
            }
        };
        self.cores.get(index).map(|core| &**core)
    }

    /// The index of this CPU's core. There are as many as CPUs, so one is always left.
    fn claim_core(&self, irqs: IrqsDisabled<'_>) -> Option<usize> {
        let number = u64::from(self.hardware.cpu.core_number(irqs));
        self.cores.iter().position(|core| core.is_of(number))
    }
}

/// A core whose threads share the extra registers.
#[pin_data]
pub(super) struct Core {
    /// One more than the core's number. 0 if it stands for none yet.
    number: AtomicU64,
    #[pin]
    extra: RawSpinLock<ExtraInUse>,
}

impl Core {
    /// As many as there can be.
    pub(super) fn all() -> Result<KVec<Pin<KBox<Self>>>> {
        let mut cores = KVec::new();
        for _ in 0..nr_cpu_ids() {
            let core = pin_init!(Self {
                number: AtomicU64::new(0),
                extra <- RawSpinLock::new(ExtraInUse::default()),
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
