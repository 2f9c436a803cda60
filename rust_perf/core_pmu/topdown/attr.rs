// SPDX-License-Identifier: GPL-2.0

//! What an event of slots or a metric asks for. Task context.

use crate::{
    core_pmu::{
        event::CoreEvent,
        CorePmu, //
    },
    perf::{
        Attr,
        Event,
        NewEvent,
        Selector, //
    },
    pmc::event::EventSel, //
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::prelude::*;

/// The number of a leader that has not been started since its first metric was opened.
pub(super) const NEVER_STARTED: u64 = 1;

impl CorePmu {
    /// Checks an event that asks for slots or a metric. Task context.
    pub(in crate::core_pmu) fn check_topdown(
        &self,
        event: &NewEvent<'_, Self>,
        selector: Selector,
    ) -> Result {
        let capabilities = &self.hardware.capabilities;
        let Selector::Config(config) = selector else {
            return Ok(());
        };
        let config = EventSel::from_raw(config);
        let is_metric = capabilities.is_metric(config);
        if capabilities.metrics.is_empty() || !(is_metric || config.is_slots()) {
            return Ok(());
        }
        if config.has_modifiers() {
            return Err(EINVAL);
        }
        // Both registers begin at 0, so neither event can take samples.
        let has_leader =
            |leader: &Event<Self>| leader.eventsel().is_slots() && !leader.is_sampling();
        if is_metric && (event.is_sampling() || !event.leader().is_some_and(has_leader)) {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Whether an event is slots, and RDPMC of its metrics is to clear them. Task context.
    pub(in crate::core_pmu) fn wants_metrics_clear(&self, attr: &Attr, selector: Selector) -> bool {
        let is_slots = match selector {
            Selector::Config(config) => EventSel::from_raw(config).is_slots(),
            Selector::Hardware(_) | Selector::HwCache(_) => false,
        };
        let [config1, ..] = attr.extended_config();
        is_slots && config1 == 1 && self.hardware.capabilities.has_metrics_clear()
    }

    /// Binds a metric, whose EVENTSEL this is, to its leader, of which it is a part. Fails with
    /// `EINVAL` if the two count in different modes: there is one counter. Task context.
    pub(in crate::core_pmu) fn join_slots(
        &self,
        event: &NewEvent<'_, Self>,
        eventsel: EventSel,
    ) -> Result {
        if !self.hardware.capabilities.is_metric(eventsel) {
            return Ok(());
        }
        let leader = event.leader().ok_or(EINVAL)?;
        if !leader.eventsel().has_modes_of(eventsel) {
            return Err(EINVAL);
        }
        event.require_leader();
        let [number, _] = leader.scratch();
        // It may have other metrics already.
        let _ = number.compare_exchange(0, NEVER_STARTED, Relaxed, Relaxed);
        Ok(())
    }
}
