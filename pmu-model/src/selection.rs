// SPDX-License-Identifier: GPL-2.0

//! General-purpose counters that must be cleared before they count a new event.
//!
//! On Nehalem and Westmere, a counter "may count at core frequency or not count at all instead
//! of counting the programmed event" (errata AAK100, AAP53 and BD53 in Intel's specification
//! updates). Software avoids this as follows. It writes the [`CLEARING`] values to EVENTSELs, so
//! that each counter has one of them, and enables all of these counters in GLOBAL_CTRL. The
//! EVENTSELs that it writes afterwards, until counters run again, select right.
//!
//! Here every other change of an EVENTSEL goes wrong, and such a counter counts cycles.

use serde::{Deserialize, Serialize};

use crate::{msr::EventSel, shape::MAX_GENERAL};

/// Events that count nothing, as EVENTSELs that are enabled in both modes.
const CLEARING: [u64; 3] = [0x43_00b5, 0x43_00d2, 0x43_00b1];

/// What has become of the selection of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Selection {
    /// The values of [`CLEARING`] that have been written since counters ran.
    written: [bool; CLEARING.len()],
    /// Whether the counters have been cleared since counters ran.
    cleared: bool,
    /// Whether each counter counts cycles instead of its event.
    wrong: [bool; MAX_GENERAL],
}

impl Selection {
    /// An EVENTSEL is changed.
    pub(crate) fn select(&mut self, counter: usize, before: EventSel, after: EventSel) {
        if let Some(i) = position(after) {
            self.written[i] = true;
        } else if code(before) != code(after) {
            self.wrong[counter] = !self.cleared;
        }
    }

    /// GLOBAL_CTRL is written, and enables the counters in the bitmap `enabled`. These are the
    /// EVENTSELs of all counters that there are.
    pub(crate) fn enable(&mut self, enabled: u64, eventsels: &[EventSel]) {
        let is_enabled = |i: usize| (enabled >> i) & 1 != 0;
        let mut all = eventsels.iter().enumerate();
        if all.all(|(i, &eventsel)| is_enabled(i) && position(eventsel).is_some()) {
            self.cleared |= self.written == [true; CLEARING.len()];
            return;
        }
        let mut all = eventsels.iter().enumerate();
        if all.any(|(i, eventsel)| is_enabled(i) && eventsel.has(EventSel::EN)) {
            self.written = Default::default();
            self.cleared = false;
        }
    }

    /// Whether a counter counts cycles instead of its event.
    pub(crate) fn is_wrong(&self, counter: usize) -> bool {
        self.wrong[counter]
    }
}

/// The position of an EVENTSEL in [`CLEARING`].
fn position(eventsel: EventSel) -> Option<usize> {
    CLEARING.iter().position(|&value| value == eventsel.0)
}

/// What an EVENTSEL selects.
fn code(eventsel: EventSel) -> [u8; 2] {
    [eventsel.event(), eventsel.umask()]
}
