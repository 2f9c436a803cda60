// SPDX-License-Identifier: GPL-2.0

//! Finding out that someone else has written the registers of counters that count.

use super::{
    counter::{
        Counter,
        CounterSet, //
    },
    event::EventSel,
    period,
    registers::Registers,
    shadow::UNKNOWN,
    Counters, //
};

/// The bits of a GP counter's EVENTSEL that say what it counts. Some hypervisors keep none of the
/// other bits.
const EVENTSEL: u64 = 0xf_ffff_ffff & !EventSel::PC.mask() & !EventSel::ANY.mask();

/// The bits of a fixed counter's field in FIXED_CTR_CTRL that say what it counts: both modes and the
/// PMI.
const FIXED_CTR: u64 = 0b1011;

impl<R: Registers> Counters<'_, R> {
    /// Whether the registers say that `active` counters, all of which have been started, count
    /// what they have been programmed to, and since then.
    ///
    /// This reads each of the registers, and is not for paths that are taken often. The caller
    /// must notice an NMI that comes meanwhile, and then ignore the result.
    ///
    /// A wrong value of a counter is found only if the counter is behind its start, and only where
    /// GLOBAL_STATUS tells it from one that has overflowed.
    pub fn are_as_written(self, active: CounterSet) -> bool {
        self.are_enabled(active) && self.count_the_right_events(active) && self.is_ahead(active)
    }

    fn are_enabled(self, active: CounterSet) -> bool {
        let Some(global) = self.caps.any_global() else {
            return true;
        };
        let running = self.shadow.running.get();
        let wanted = active.global().bits();
        running == UNKNOWN || self.regs.rdmsr(global.ctrl) & wanted == wanted
    }

    fn count_the_right_events(self, active: CounterSet) -> bool {
        let general = active.gp_part().into_iter().all(|counter| {
            let read = || self.regs.rdmsr(self.caps.generation.eventsel(counter));
            let written = self.shadow.eventsel(counter);
            written.is_none_or(|written| (written ^ read()) & EVENTSEL == 0)
        });
        let fields = active.into_iter().filter_map(|counter| counter.as_fixed());
        let fixed = fields.fold(0, |fields, i| {
            fields | FIXED_CTR.wrapping_shl(u32::from(i).wrapping_mul(4))
        });
        general
            && match (self.caps.fixed_ctr_ctrl(), self.shadow.fixed_ctr_ctrl()) {
                (Some(msr), Some(written)) if fixed != 0 => {
                    (written ^ self.regs.rdmsr(msr)) & fixed == 0
                }
                _ => true,
            }
    }

    /// Whether each counter that has wrapped has also overflowed.
    fn is_ahead(self, active: CounterSet) -> bool {
        let Some(global) = self.caps.generation.global else {
            return true;
        };
        let mut counters = active & self.caps.counters;
        if !self.caps.metrics.is_empty() {
            // With metrics it starts from 0.
            counters = counters & !CounterSet::of(Counter::SLOTS);
        }
        let wrapped: CounterSet = counters
            .into_iter()
            .filter(|&counter| {
                let value = self.regs.rdpmc(counter.rdpmc());
                period::has_wrapped(value, self.caps.width(counter))
            })
            .collect();
        wrapped.is_empty() || self.regs.rdmsr(global.status) & wrapped.bits() == wrapped.bits()
    }
}
