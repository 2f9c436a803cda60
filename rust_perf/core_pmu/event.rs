// SPDX-License-Identifier: GPL-2.0

//! What an open event of this PMU holds. Any context.

use super::CorePmu;
use crate::{
    perf::{
        self,
        Event, //
    },
    pmc::{
        counter::Counter,
        event::EventSel,
        needs::Needs,
        Extra,
        ExtraRegister, //
    }, //
};

/// In place of the extra register of an event that has none, but needs branch records. So it takes one
/// look to see that an event needs nothing besides its counter.
pub(super) const BRANCHES_ONLY: perf::ExtraRegister = perf::ExtraRegister {
    index: i32::MAX as usize,
    value: 0,
};

/// The words of an open event, as the types that they stand for.
pub(super) trait CoreEvent {
    /// The event's EVENTSEL, without EN.
    fn eventsel(&self) -> EventSel;

    /// What the event needs of a counter.
    fn needs(&self) -> Needs;

    /// The extra register of the event, with the event's value.
    fn extra(&self) -> Option<Extra>;

    /// The counter that the event is on. Another CPU may see an old value.
    fn counter(&self) -> Option<Counter>;
}

impl CoreEvent for Event<CorePmu> {
    #[inline(always)]
    fn eventsel(&self) -> EventSel {
        EventSel::from_raw(self.data())
    }

    #[inline(always)]
    fn needs(&self) -> Needs {
        Needs::from_word(self.constant())
    }

    #[inline(always)]
    fn extra(&self) -> Option<Extra> {
        let perf::ExtraRegister { index, value } = self.extra_register()?;
        let register = ExtraRegister::from_index(index)?;
        Some(Extra { register, value })
    }

    #[inline(always)]
    fn counter(&self) -> Option<Counter> {
        self.index().and_then(Counter::from_index)
    }
}
