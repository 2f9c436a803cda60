// SPDX-License-Identifier: GPL-2.0

//! Extra registers: which events of a CPU, or of a core, have them.
//!
//! The hold of an event on its register begins with `add` and ends with `del`. In
//! between the register has the event's value, which `start` may write in an NMI: all
//! holders agree on it.

use super::{
    cpu_pmu::CpuPmu,
    event::CoreEvent,
    CorePmu, //
};
use crate::{
    perf::{
        AddedEvent,
        Event, //
    },
    pmc::{
        Extra,
        ExtraInUse, //
    }, //
};

impl CpuPmu<'_> {
    /// Gives an event that needs `extra` that register, or another one that is as good. Returns
    /// `false` if all of them hold other values.
    pub(super) fn take_extra(
        self,
        of_this_cpu: &mut ExtraInUse,
        event: AddedEvent<'_, CorePmu>,
        extra: Extra,
    ) -> bool {
        let choices = self.capabilities().extra_choices(event.eventsel(), extra);
        let taken = self.with_extra_in_use(of_this_cpu, |in_use| in_use.take(choices));
        let Some(taken) = taken else {
            return false;
        };
        event.move_extra_register(taken.register.index());
        true
    }

    /// Undoes [`Self::take_extra`] for an event that has an extra register.
    pub(super) fn release_extra(self, of_this_cpu: &mut ExtraInUse, event: &Event<CorePmu>) {
        if let Some(extra) = event.extra() {
            self.with_extra_in_use(of_this_cpu, |in_use| in_use.release(extra.register));
        }
    }

    fn with_extra_in_use<R>(
        self,
        of_this_cpu: &mut ExtraInUse,
        f: impl FnOnce(&mut ExtraInUse) -> R,
    ) -> R {
        match self.shared_extra() {
            Some(extra) => extra.with(self.irqs_disabled(), f),
            None => f(of_this_cpu),
        }
    }
}
