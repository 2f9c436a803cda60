// SPDX-License-Identifier: GPL-2.0

//! GP counters that must be cleared before they count a new event.
//!
//! On Nehalem and Westmere, a counter may not count at all, or count cycles, instead of the
//! event that has been written to its EVENTSEL (errata AAK100, AAP53 and BD53 in Intel's
//! specification updates). The workaround is to run [`CLEARING`] on all GP counters before
//! EVENTSELs are written. In-tree: `intel_pmu_nhm_workaround()`.
//!
//! That takes all GP counters for a moment. So EVENTSELs are written as on any other CPU, and
//! [`Counters::is_uncleared`] says afterwards whether that was right. If not, the driver stops
//! all events on GP counters, clears these, and starts the events again.

use super::{
    counter::CounterSet,
    registers::Registers,
    Counters, //
};
use core::iter;

/// Three events that count nothing, with EN and both modes. In practice some of them do count,
/// and there must be four.
const CLEARING: [u64; 4] = [0x43_00b5, 0x43_00d2, 0x43_00b1, 0x43_00b1];

impl<R: Registers> Counters<'_, R> {
    /// Takes note that the EVENTSEL of a GP counter, with this value up to now, is written.
    pub(super) fn note_selection(self, before: Option<u64>) {
        let is_cleared = before.is_some_and(|value| CLEARING.contains(&value));
        if self.caps.needs_clearing() && !is_cleared {
            self.shadow.uncleared.set(1);
        }
    }

    /// Whether GP counters must be cleared before any of them is run.
    #[inline]
    pub fn is_uncleared(self) -> bool {
        self.shadow.uncleared.get() != 0
    }

    /// Clears all GP counters, of which none may be running, also those that the driver leaves out:
    /// the erratum is about all. They lose what they are programmed for. Those in `used`, and no
    /// others, must be programmed again before any counter is run.
    pub fn clear_selection(self, used: CounterSet) {
        let Some(global) = self.caps.generation.global else {
            return;
        };
        let all = self.caps.existing_gp;
        // A clearing event must not overflow.
        self.clear(all);
        // If there are fewer counters than events, some get more than one.
        let number = (all.len() as usize).max(CLEARING.len());
        let counters = iter::repeat(all).flatten().take(number);
        for (counter, event) in counters.zip(CLEARING) {
            self.write_eventsel(counter, event);
        }
        self.regs.wrmsr(global.ctrl, all.bits());
        self.regs.wrmsr(global.ctrl, 0);
        self.shadow.known.set(0);
        for counter in all & !used {
            self.write_eventsel(counter, 0);
        }
        self.shadow.uncleared.set(0);
    }
}
