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
    }, //
};

impl CorePmu {
    /// The extra register of an open event, with the event's value. Any context.
    pub(super) fn extra_of(event: &Event<Self>) -> Option<Extra> {
        let perf::ExtraRegister { index, value } = event.extra_register()?;
        let register = ExtraRegister::from_index(index)?;
        Some(Extra { register, value })
    }

    /// Gives an event that needs `extra` that register, or another one that does as well.
    /// Returns whether there is one: not if all of them have other values.
    pub(super) fn take_extra(
        &self,
        on: OnCpu<'_, Self>,
        of_this_cpu: &mut ExtraInUse,
        event: AddedEvent<'_, Self>,
        extra: Extra,
    ) -> bool {
        let capabilities = &self.hardware.capabilities;
        let choices = capabilities.extra_choices(Self::eventsel_of(&event), extra);
        let taken = self.with_extra_in_use(on, of_this_cpu, |in_use| in_use.take(choices));
        let Some(taken) = taken else {
            return false;
        };
        event.move_extra_register(taken.register.index());
        true
    }

    /// Undoes [`Self::take_extra`] for an event that has an extra register.
    #[inline(never)]
    pub(super) fn release_extra(
        &self,
        on: OnCpu<'_, Self>,
        of_this_cpu: &mut ExtraInUse,
        event: &Event<Self>,
    ) {
        if let Some(extra) = Self::extra_of(event) {
            self.with_extra_in_use(on, of_this_cpu, |in_use| in_use.release(extra.register));
        }
    }

    fn with_extra_in_use<R>(
        &self,
        on: OnCpu<'_, Self>,
        of_this_cpu: &mut ExtraInUse,
        f: impl FnOnce(&mut ExtraInUse) -> R,
    ) -> R {
        match self.shared_extra(on) {
            Some(extra) => extra.with(on.irqs_disabled(), f),
            None => f(of_this_cpu),
        }
    }
}
