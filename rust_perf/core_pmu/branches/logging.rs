// SPDX-License-Identifier: GPL-2.0

//! Counts between branches: a record says how often events have occurred since the record before.
//!
//! The events of a group that ask for it are on counters that the CPU can log, and EVENTSEL says that it
//! should. A sample of any event of the group that shows branches has the counts in the group's order. The
//! records are wiped when the group comes to the CPU, and when one of its events moves to another counter:
//! other events may have used the counters before.

use super::{
    super::{
        cpu_pmu::CpuPmu,
        event::CoreEvent,
        placed::PlacedEvent,
        CorePmu, //
    },
    request, //
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
    /// counters that can be logged, with call stacks, or whose leader needs no branches. An inherited event is
    /// logged as its parent is: fork() must not fail because the group has lost its leader.
    pub(in super::super) fn check_logging(
        &self,
        event: &NewEvent<'_, Self>,
        selector: Selector,
        control: u64,
    ) -> Result<bool> {
        if !asks_for_counts(event.attr()) {
            return Ok(false);
        }
        let lbr = self.hardware.capabilities.lbr.as_ref();
        let Some(lbr) = lbr.filter(|it| it.logs()) else {
            return Ok(false);
        };
        if let Some(parent) = event.parent() {
            return Ok(parent.eventsel().has(EventSel::LBR_LOG));
        }
        let (Selector::Config(config) | Selector::Hardware(config) | Selector::HwCache(config)) =
            selector;
        if config & !CODE != 0 {
            return Err(EINVAL);
        }
        let mut events = 1u32;
        let mut has_call_stacks = false;
        event.for_all_in_group(|member| {
            if asks_for_counts(member.attr()) {
                events = events.saturating_add(1);
            }
            has_call_stacks |= request(member.attr()).has(BranchRequest::CALL_STACK);
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
    /// An event that needs branches has been added. If it leads a group whose events are logged, the records
    /// are wiped before the counters run. The PMU is disabled.
    pub(in super::super) fn begin_logging(self, event: CpuEvent<'_, CorePmu>) {
        let logs = self.driver().logs() && event.branch_control() != 0 && event.leads();
        if logs && event.group().any(|member| asks_for_counts(member.attr())) {
            self.wipe_branches_later();
        }
    }
}

impl PlacedEvent<'_> {
    /// Whether samples of the event show branches.
    pub(super) fn shows_branches(self) -> bool {
        self.branch_control() != 0 || self.shows_those_of_leader()
    }

    /// Whether samples of the event show the branches that the leader of the group asks for.
    #[inline(never)]
    fn shows_those_of_leader(self) -> bool {
        let counts_only = self.pmu().driver().logs() && request(self.attr()).is_of_counts_only();
        let mut group = self.group();
        counts_only
            && group
                .next()
                .is_some_and(|leader| leader.branch_control() != 0)
    }

    /// The branches that samples of the event show, if any: [`Self::shows_branches`].
    pub(super) fn shown_branches(self) -> BranchRequest {
        match self.branch_control() {
            0 => self.those_of_leader(),
            _ => request(self.attr()),
        }
    }

    /// [`Self::shown_branches`] of an event that asks for counts only.
    #[inline(never)]
    fn those_of_leader(self) -> BranchRequest {
        let own = request(self.attr());
        let leader = self.group().next();
        leader.map_or(own, |leader| {
            request(leader.attr()).limited_to_levels_of(own)
        })
    }

    /// The event, which the CPU may log, moves to another counter. What the records say of it is that of the
    /// old counter. The PMU is disabled.
    pub(in super::super) fn move_logged(self) {
        let pmu = self.pmu();
        if pmu.driver().logs() && self.eventsel().has(EventSel::LBR_LOG) {
            pmu.wipe_branches_later();
        }
    }

    /// The counters of the group's events that ask for it, in the group's order. `None` if there are none.
    pub(super) fn logged_counters(self) -> Option<[Option<Counter>; LOGGED_COUNTERS]> {
        match self.pmu().driver().logs() {
            true => self.counters_of_group(),
            false => None,
        }
    }

    /// [`Self::logged_counters`] on a CPU that logs.
    #[inline(never)]
    fn counters_of_group(self) -> Option<[Option<Counter>; LOGGED_COUNTERS]> {
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
