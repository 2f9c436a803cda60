// SPDX-License-Identifier: GPL-2.0

//! PERF_METRICS: how the slots that fixed counter 3 has counted were used.
//!
//! The register has eight fields of eight bits. Each is the part of the slots, in 255ths,
//! that was used in one way (SDM vol. 3, "Performance Metrics"). Each field counts as a
//! counter of its own here, the metrics of [`counter`](super::counter).

use super::{
    capabilities::Capabilities,
    counter::{
        Counter,
        CounterSet, //
    },
    event::{
        EventSel,
        FixedCtrCtrl, //
    },
    msr::Msr,
    registers::Registers,
    Counters, //
};

/// The value of a field that all slots belong to.
const ALL_SLOTS: u64 = 0xff;

/// The pseudo-encoding of the first metric. The others follow with the next unit masks
/// (`arch/x86/include/asm/perf_event.h`).
const FIRST_METRIC: u16 = 0x8000;

/// The pseudo-encoding of slots.
const SLOTS: u16 = 0x0400;

/// The values of fixed counter 3 and PERF_METRICS at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The slots since both registers were 0.
    pub slots: u64,
    /// PERF_METRICS.
    pub fields: u64,
}

impl Metrics {
    /// The slots that belong to a metric. 0 if `counter` is none.
    pub fn of(self, counter: Counter) -> u64 {
        let Some(i) = counter.as_metric() else {
            return 0;
        };
        let field = self.fields.wrapping_shr(u32::from(i).wrapping_mul(8)) & ALL_SLOTS;
        // Up to 56 bits of slots fit; they do not get near that.
        self.slots.saturating_mul(field).wrapping_div(ALL_SLOTS)
    }
}

impl EventSel {
    /// The metric that this event asks for, on CPUs with PERF_METRICS.
    pub(super) fn metric(self) -> Option<Counter> {
        let i = self.code().checked_sub(FIRST_METRIC)?;
        // The unit masks differ, the event select is 0.
        let [event, number] = i.to_le_bytes();
        (event == 0 && self.is_plain())
            .then(|| Counter::metric(number))
            .flatten()
    }

    /// Whether this is the event that metrics are fractions of.
    pub fn is_slots(self) -> bool {
        self.code() == SLOTS
    }

    /// Whether both are counted at the same privilege levels.
    pub fn has_modes_of(self, other: Self) -> bool {
        self.get(Self::USR) == other.get(Self::USR) && self.get(Self::OS) == other.get(Self::OS)
    }

    /// Whether a field is set by which counters modify an event. Slots and metrics do not
    /// have these fields. In-tree: `X86_ALL_EVENT_FLAGS`.
    pub fn has_modifiers(self) -> bool {
        !self.is_plain() || self.has(Self::ANY) || self.has(Self::PC)
    }
}

impl<R: Registers> Counters<'_, R> {
    /// Programs fixed counter 3, which must not be running, to count `slots`, and both
    /// registers with `values`.
    pub fn program_metrics(self, slots: EventSel, values: Metrics) {
        self.program_control(Counter::SLOTS, slots);
        self.set_metrics(values);
    }

    /// Writes both registers, neither of which may be running. PERF_METRICS comes last:
    /// otherwise "undefined results may be observed" (SDM vol. 3, "Performance Metrics").
    pub fn set_metrics(self, values: Metrics) {
        let Metrics { slots, fields } = values;
        let is = |counter, value| self.known(counter) == Some(value);
        // User mode may have cleared what is known.
        let trusted = values == Metrics::default() || !self.clears_metrics();
        if trusted && is(Counter::SLOTS, slots) && is(Counter::PERF_METRICS, fields) {
            return;
        }
        self.set(Counter::SLOTS, slots);
        self.set(Counter::PERF_METRICS, fields);
    }

    /// Reads PERF_METRICS. Neither register may be running. This may clear both.
    pub fn read_fields(self) -> u64 {
        let fields = self.read(Counter::PERF_METRICS);
        if self.clears_metrics() {
            self.shadow.learn(Counter::SLOTS, 0);
            self.shadow.learn(Counter::PERF_METRICS, 0);
        }
        fields
    }

    /// Whether RDPMC of PERF_METRICS may clear the registers.
    fn clears_metrics(self) -> bool {
        let ctrl = self.shadow.fixed_ctr_ctrl();
        ctrl.is_some_and(|ctrl| FixedCtrCtrl::from_raw(ctrl).clears_metrics())
    }
}

impl Capabilities {
    /// These capabilities without PERF_METRICS.
    #[must_use]
    pub fn without_metrics(self) -> Self {
        Capabilities {
            metrics: CounterSet::EMPTY,
            ..self
        }
    }

    /// PERF_METRICS, if there are metrics.
    pub fn metrics_register(&self) -> Option<Msr> {
        let fixed = self.generation.fixed.as_ref();
        let fixed = fixed.filter(|_| !self.metrics.is_empty());
        fixed.map(|fixed| fixed.metrics)
    }

    /// Whether slots can be counted so that RDPMC of PERF_METRICS clears both registers
    /// ([`EventSel::METRICS_CLEAR`]).
    pub fn has_metrics_clear(&self) -> bool {
        self.metrics_clear && !self.metrics.is_empty()
    }
}

impl CounterSet {
    /// The bits in GLOBAL_CTRL and GLOBAL_STATUS, which have one bit for all metrics.
    pub(super) const fn global(self) -> Self {
        let metrics = self.metrics_part();
        if metrics.is_empty() {
            return self;
        }
        Self::from_bits(self.bits() ^ metrics.bits() | Self::of(Counter::PERF_METRICS).bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn metrics_have_unit_masks_from_80h_on() {
        let metric = |config| EventSel::from_raw(config).metric();
        for i in 0..8 {
            assert_eq!(metric(0x8000 | (i << 8)), Counter::metric(i as u8));
        }
        for config in [
            0x0400,
            0x7f00,
            0x8001,
            0x8800,
            0xff00,
            0x0080,
            0x1_8000_8000,
        ] {
            assert_eq!(metric(config), None, "{config:#x}");
        }
        assert!(EventSel::from_raw(0x13_0400).is_slots());
    }

    #[test]
    fn one_bit_enables_all_metrics() {
        let set = CounterSet::from_bits((0xc0 << 48) | 0b101);
        assert_eq!(set.global().bits(), (1 << 48) | 0b101);
        assert_eq!(CounterSet::from_bits(0b101).global().bits(), 0b101);
    }

    proptest! {
        #[test]
        fn level_1_is_all_slots(slots in 0u64..1 << 49, a: u8, b: u8, c: u8) {
            let mut borders = [a, b, c];
            borders.sort();
            let [a, b, c] = borders;
            let fields = [a, b - a, c - b, 0xff - c].map(u64::from);
            let fields = fields.iter().rev().fold(0, |word, field| (word << 8) | field);
            let metrics = Metrics { slots, fields };
            let sum: u64 = (0..4).map(|i| metrics.of(Counter::metric(i).unwrap())).sum();
            // Each is rounded down.
            prop_assert!((sum..=sum + 3).contains(&slots), "{sum} of {slots}");
        }
    }
}
