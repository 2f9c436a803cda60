// SPDX-License-Identifier: GPL-2.0

//! Events: their encoding in PERFEVTSEL, and the counters that can count them.

use super::counter::{
    Counter,
    CounterSet, //
};

/// A value of IA32_PERFEVTSELx (SDM vol. 3, "Architectural Performance
/// Monitoring Version 1 Facilities", figure "Layout of IA32_PERFEVTSELx") or
/// AMD's PERF_CTLx (APM vol. 2, "Performance Event-Select Registers"), which
/// differ little.
///
/// But for USR, OS, PC, INT and EN it is also what perf's `attr.config` holds,
/// as the in-tree driver has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSel(u64);

impl EventSel {
    /// Event select: which logic unit.
    pub const EVENT: u64 = 0xff;
    /// Unit mask: which condition of it.
    pub const UMASK: u64 = 0xff << 8;
    /// Counts at CPL 1 to 3.
    pub const USR: u64 = 1 << 16;
    /// Counts at CPL 0.
    pub const OS: u64 = 1 << 17;
    /// Counts rising edges of the condition.
    pub const EDGE: u64 = 1 << 18;
    /// Pin control.
    pub const PC: u64 = 1 << 19;
    /// Raises a PMI on overflow.
    pub const INT: u64 = 1 << 20;
    /// Counts for every thread of the core (version 3, deprecated later).
    pub const ANY: u64 = 1 << 21;
    /// Counts at all.
    pub const EN: u64 = 1 << 22;
    /// Inverts the comparison with CMASK.
    pub const INV: u64 = 1 << 23;
    /// Counts cycles with at least so many occurrences.
    pub const CMASK: u64 = 0xff << 24;

    /// AMD's upper bits of the event select.
    pub const EVENT_HIGH: u64 = 0xf << 32;

    /// What the user chooses in `attr.config` on either.
    const COMMON: u64 = Self::EVENT | Self::UMASK | Self::EDGE | Self::INV | Self::CMASK;
    /// What the user chooses on Intel's.
    pub const INTEL: u64 = Self::COMMON | Self::ANY;
    /// What the user chooses on AMD's.
    pub const AMD: u64 = Self::COMMON | Self::EVENT_HIGH;

    /// What the driver decides on. Raw event codes are often passed around as
    /// whole PERFEVTSEL values (`0x5300c0`), so these bits are ignored there,
    /// as the in-tree driver does.
    const DECIDED: u64 = Self::USR | Self::OS | Self::PC | Self::INT | Self::EN;

    /// The event that `attr.config` asks for, to be counted in these modes;
    /// `chosen` is [`Self::INTEL`] or [`Self::AMD`].
    ///
    /// The INT bit is always set: a counter that is only read must still be
    /// noticed when it wraps.
    ///
    /// Returns `None` if a reserved bit is set.
    pub const fn from_config(config: u64, chosen: u64, user: bool, kernel: bool) -> Option<Self> {
        if config & !(chosen | Self::DECIDED) != 0 {
            return None;
        }
        let user = if user { Self::USR } else { 0 };
        let kernel = if kernel { Self::OS } else { 0 };
        Some(EventSel((config & chosen) | user | kernel | Self::INT))
    }

    /// A value that was an `EventSel` before.
    pub const fn from_bits(bits: u64) -> Self {
        EventSel(bits)
    }

    /// The register's value, without EN.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether events of other threads are to be counted.
    pub const fn any_thread(self) -> bool {
        self.0 & Self::ANY != 0
    }

    /// The architectural name of the event: unit mask and event select.
    const fn code(self) -> u16 {
        (self.0 & (Self::UMASK | Self::EVENT)) as u16
    }

    /// Whether the event is counted as it occurs: fixed counters can do
    /// nothing else.
    const fn is_plain(self) -> bool {
        self.0 & (Self::EDGE | Self::INV | Self::CMASK) == 0
    }

    /// This counter's field of FIXED_CTR_CTRL, shifted to bit 0 (SDM vol. 3,
    /// figure "Layout of IA32_FIXED_CTR_CTRL").
    pub const fn fixed_ctrl(self) -> u64 {
        let os = (self.0 & Self::OS != 0) as u64;
        let usr = (self.0 & Self::USR != 0) as u64;
        let any = (self.0 & Self::ANY != 0) as u64;
        let pmi = (self.0 & Self::INT != 0) as u64;
        os | (usr << 1) | (any << 2) | (pmi << 3)
    }

    /// Those of the counters `present` that can count this event, where fixed
    /// counters count `fixed_events`.
    pub fn counters(self, present: CounterSet, fixed_events: &[FixedEvent]) -> CounterSet {
        let fixed = fixed_events
            .iter()
            .find(|event| event.code == self.code() && self.is_plain())
            .and_then(|event| Counter::fixed(event.counter))
            .map_or(CounterSet::EMPTY, CounterSet::of);

        // Event select 0 means nothing to a general counter: such codes are
        // perf's names for what only a fixed counter can count.
        let general = if self.0 & Self::EVENT == 0 && !fixed.is_empty() {
            CounterSet::EMPTY
        } else {
            present.general_part()
        };
        (fixed & present) | general
    }
}

/// What a fixed counter counts.
pub struct FixedEvent {
    code: u16,
    counter: u8,
}

/// SDM vol. 3, table "Association of Fixed-Function Performance Counters with
/// Architectural Performance Events". Where there is no PERFEVTSEL encoding,
/// the code is perf's pseudo-encoding.
pub const INTEL_FIXED: [FixedEvent; 4] = [
    // INST_RETIRED.ANY
    FixedEvent {
        code: 0x00c0,
        counter: 0,
    },
    // CPU_CLK_UNHALTED.THREAD
    FixedEvent {
        code: 0x003c,
        counter: 1,
    },
    // CPU_CLK_UNHALTED.REF_TSC
    FixedEvent {
        code: 0x0300,
        counter: 2,
    },
    // TOPDOWN.SLOTS
    FixedEvent {
        code: 0x0400,
        counter: 3,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: CounterSet =
        CounterSet::from_bits(CounterSet::general(4).bits() | CounterSet::fixed(0b111).bits());

    fn counters(config: u64) -> CounterSet {
        EventSel::from_config(config, EventSel::INTEL, true, true)
            .unwrap()
            .counters(ALL, &INTEL_FIXED)
    }

    #[test]
    fn modes_and_int_are_ours() {
        let event = EventSel::from_config(0xc0, EventSel::INTEL, true, false).unwrap();
        assert_eq!(event.bits(), 0x1100c0);
        assert_eq!(event.fixed_ctrl(), 0b1010);
        let event = EventSel::from_config(0x5300c0, EventSel::INTEL, false, true).unwrap();
        assert_eq!(event.bits(), 0x1200c0);
        assert_eq!(event.fixed_ctrl(), 0b1001);
    }

    #[test]
    fn every_reserved_bit_is_refused() {
        let allowed = |config, chosen| EventSel::from_config(config, chosen, true, true).is_some();
        for bit in 0..64 {
            let config = 0xc0 | (1 << bit);
            assert_eq!(allowed(config, EventSel::INTEL), bit < 32, "bit {bit}");
            // No AnyThread, but an event select of 12 bits.
            let amd = bit < 36 && bit != 21;
            assert_eq!(allowed(config, EventSel::AMD), amd, "bit {bit}");
        }
    }

    #[test]
    fn event_select_zero_is_an_event_where_nothing_is_fixed() {
        let event = EventSel::from_config(0x0300, EventSel::AMD, true, true).unwrap();
        let six = CounterSet::general(6);
        assert_eq!(event.counters(six, &[]), six);
    }

    #[test]
    fn fixed_counters_count_plain_events_only() {
        let general = CounterSet::general(4);
        assert_eq!(counters(0xc0), general | CounterSet::fixed(1));
        assert_eq!(counters(0x3c), general | CounterSet::fixed(2));
        assert_eq!(counters(0xc0 | EventSel::EDGE), general);
        assert_eq!(counters(0xc0 | EventSel::INV), general);
        assert_eq!(counters(0x0100_00c0), general);
        assert_eq!(counters(0x013c), general);
    }

    #[test]
    fn pseudo_encodings_need_their_fixed_counter() {
        assert_eq!(counters(0x0300), CounterSet::fixed(0b100));
        // Slots: there is no fixed counter 3 here.
        assert_eq!(counters(0x0400), CounterSet::EMPTY);
    }
}
