// SPDX-License-Identifier: GPL-2.0

//! Counts between branches: a record says how often events have occurred since the record before.
//!
//! The events of a group that ask for it are on counters that the CPU can log, and EVENTSEL says that it
//! should. A sample of any event of the group that shows branches has the counts in the group's order. The
//! records are wiped when the group comes to the CPU: another group may have used the counters before.

use super::super::{
    cpu_pmu::CpuPmu,
    event::CoreEvent,
    placed::PlacedEvent,
    CorePmu, //
};
use crate::{
    perf::{
        Attr,
        CpuEvent,
        NewEvent,
        Selector, //
    },
    pmc::{
        counter::Counter,
        event::EventSel,
        lbr::{
            BranchRequest,
            Lbr,
            LOGGED_COUNTERS, //
        }, //
    }, //
};
use kernel::prelude::*;

/// The fields of `attr.config` that an event can have whose counter is logged. In-tree:
/// `INTEL_ARCH_EVENT_MASK`.
const CODE: u64 = EventSel::EVENT.mask() | EventSel::UMASK.mask();

/// Which branches an event asks for.
fn request(attr: &Attr) -> BranchRequest {
    BranchRequest::from_raw(attr.branch_sample_type())
}

/// Whether an event asks for its counts between branches.
fn asks_for_counts(attr: &Attr) -> bool {
    request(attr).has(BranchRequest::COUNTERS)
}

impl CorePmu {
    /// Whether the CPU can say how often events occur between branches.
    fn logs(&self) -> bool {
        let lbr = self.hardware.capabilities.lbr.as_ref();
        lbr.is_some_and(Lbr::logs)
    }

    /// Whether the counter of an event that is being opened, and needs `control` in LBR_CTL, is to be logged.
    /// Task context.
    ///
    /// Fails with `EINVAL` if it cannot be: an event with modifiers, a group with more such events than
    /// counters that can be logged, with call stacks, or whose leader needs no branches.
    pub(in super::super) fn check_logging(
        &self,
        event: &NewEvent<'_, Self>,
        selector: Selector,
        control: u64,
    ) -> Result<bool> {
        let Some(lbr) = self.hardware.capabilities.lbr.filter(Lbr::logs) else {
            return Ok(false);
        };
        if !asks_for_counts(event.attr()) {
            return Ok(false);
        }
        if matches!(selector, Selector::Config(config) if config & !CODE != 0) {
            return Err(EINVAL);
        }
        let mut events = 1u32;
        let has_call_stacks = event.any_in_group(|member| {
            if asks_for_counts(member.attr()) {
                events = events.saturating_add(1);
            }
            request(member.attr()).has(BranchRequest::CALL_STACK)
        });
        let of_leader = match event.leader() {
            Some(leader) => leader.branch_control(),
            None if event.leads() => control,
            None => 0,
        };
        if has_call_stacks || events > lbr.logged.len() || of_leader == 0 {
            return Err(EINVAL);
        }
        Ok(true)
    }
}

impl CpuPmu<'_> {
    /// Whether an event that is being added leads a group for which the records must be wiped.
    pub(super) fn begins_logging(self, event: CpuEvent<'_, CorePmu>) -> bool {
        let logs = self.driver().logs() && event.leads();
        logs && event.group().any(|member| asks_for_counts(member.attr()))
    }
}

impl PlacedEvent<'_> {
    /// Whether samples of the event show branches.
    pub(super) fn shows_branches(self) -> bool {
        self.branch_control() != 0 || self.shows_those_of_leader()
    }

    /// Whether samples of the event show the branches that the leader of the group asks for.
    fn shows_those_of_leader(self) -> bool {
        self.pmu().driver().logs() && request(self.attr()).is_of_counts_only()
    }

    /// The branches that samples of the event show.
    pub(super) fn shown_branches(self) -> BranchRequest {
        let own = request(self.attr());
        match self.group().next() {
            Some(leader) if self.shows_those_of_leader() => {
                request(leader.attr()).with_levels_of(own)
            }
            _ => own,
        }
    }

    /// The counters of the group's events that ask for it, in the group's order. `None` if there are none.
    pub(super) fn logged_counters(self) -> Option<[Option<Counter>; LOGGED_COUNTERS]> {
        if !self.pmu().driver().logs() {
            return None;
        }
        let mut counters = [None; LOGGED_COUNTERS];
        let mut places = counters.iter_mut();
        let mut any = false;
        for member in self.group().filter(|it| asks_for_counts(it.attr())) {
            any = true;
            if let Some(place) = places.next() {
                // A member that is disabled is on none.
                *place = member.counter();
            }
        }
        any.then_some(counters)
    }
}
