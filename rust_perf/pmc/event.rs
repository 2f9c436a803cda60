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
    /// Intel: counts cycles with just CMASK occurrences (where CPUID leaf 23H
    /// has it, as the next).
    pub const EQ: u64 = 1 << 36;
    /// Intel: more conditions of the logic unit.
    pub const UMASK2: u64 = 0xff << 40;

    /// What the user chooses in `attr.config` on all.
    pub const COMMON: u64 = Self::EVENT | Self::UMASK | Self::EDGE | Self::INV | Self::CMASK;
    /// What the user chooses on Intel's where there is AnyThread.
    pub const INTEL: u64 = Self::COMMON | Self::ANY;
    /// What the user chooses on AMD's.
    pub const AMD: u64 = Self::COMMON | Self::EVENT_HIGH;

    /// What the driver decides on. Raw event codes are often passed around as
    /// whole PERFEVTSEL values (`0x5300c0`), so these bits are ignored there,
    /// as the in-tree driver does.
    const DECIDED: u64 = Self::USR | Self::OS | Self::PC | Self::INT | Self::EN;

    /// The event that `attr.config` asks for, to be counted in these modes;
    /// `chosen` is what the user chooses on this CPU.
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

    /// AMD's event select, with the upper bits above the lower.
    const fn event12(self) -> u16 {
        ((self.0 & Self::EVENT) | ((self.0 & Self::EVENT_HIGH) >> 24)) as u16
    }

    /// The unit mask.
    const fn umask(self) -> u8 {
        ((self.0 & Self::UMASK) >> 8) as u8
    }

    /// Whether the event is counted as it occurs: fixed counters can do
    /// nothing else.
    const fn is_plain(self) -> bool {
        self.0 & (Self::EDGE | Self::INV | Self::CMASK | Self::EQ | Self::UMASK2) == 0
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

    /// Those of the counters `present` that can count this event.
    pub fn counters(self, present: CounterSet, constraints: &Constraints) -> CounterSet {
        let fixed = constraints
            .fixed
            .iter()
            .find(|event| event.code == self.code() && self.is_plain())
            .and_then(|event| Counter::fixed(event.counter))
            .map_or(CounterSet::EMPTY, CounterSet::of);

        // Event select 0 means nothing to a general counter: such codes are
        // perf's names for what only a fixed counter can count.
        let general = if self.0 & Self::EVENT == 0 && !fixed.is_empty() {
            CounterSet::EMPTY
        } else {
            constraints
                .general
                .iter()
                .find(|constraint| constraint.is_for(self))
                .map_or(present, |constraint| present & constraint.counters)
                .general_part()
        };
        (fixed & present) | general
    }
}

/// Which counters can count which events.
pub struct Constraints {
    /// What the fixed counters count.
    pub fixed: &'static [FixedEvent],
    /// Events that not every general counter can count. The first that is for
    /// an event holds.
    pub general: &'static [Constraint],
}

/// What a fixed counter counts.
pub struct FixedEvent {
    code: u16,
    counter: u8,
}

impl FixedEvent {
    /// Fixed counter `counter` counts the event with this unit mask and event
    /// select.
    pub const fn new(code: u16, counter: u8) -> Self {
        FixedEvent { code, counter }
    }
}

/// Events and the general counters that can count them.
pub struct Constraint {
    mask: u16,
    code: u16,
    umask: UnitMask,
    counters: CounterSet,
}

impl Constraint {
    /// The events whose event select of 12 bits has the value `code` in the
    /// bits of `mask`, and whose unit mask is such, are for the general
    /// counters whose bits are set in `counters`.
    pub const fn new(mask: u16, code: u16, umask: UnitMask, counters: u32) -> Self {
        Constraint {
            mask,
            code,
            umask,
            counters: CounterSet::from_bits(counters as u64),
        }
    }

    const fn is_for(&self, event: EventSel) -> bool {
        event.event12() & self.mask == self.code && self.umask.is(event.umask())
    }
}

/// Unit masks.
#[derive(Clone, Copy)]
pub enum UnitMask {
    /// All.
    Any,
    /// Those of more than one bit.
    Several,
    /// Those of bits in both halves.
    BothHalves,
}

impl UnitMask {
    const fn is(self, umask: u8) -> bool {
        match self {
            Self::Any => true,
            Self::Several => umask.count_ones() > 1,
            Self::BothHalves => umask & 0x0f != 0 && umask & 0xf0 != 0,
        }
    }
}

/// SDM vol. 3, table "Association of Fixed-Function Performance Counters with
/// Architectural Performance Events". Where there is no PERFEVTSEL encoding,
/// the code is perf's pseudo-encoding: that of fixed counter *i* is unit mask
/// *i* + 1.
pub const INTEL_FIXED: [FixedEvent; 16] = [
    // INST_RETIRED.ANY
    FixedEvent::new(0x00c0, 0),
    // CPU_CLK_UNHALTED.THREAD
    FixedEvent::new(0x003c, 1),
    // CPU_CLK_UNHALTED.REF_TSC
    FixedEvent::new(0x0300, 2),
    // TOPDOWN.SLOTS
    FixedEvent::new(0x0400, 3),
    // Not architectural from here on.
    FixedEvent::new(0x0500, 4),
    FixedEvent::new(0x0600, 5),
    FixedEvent::new(0x0700, 6),
    FixedEvent::new(0x0800, 7),
    FixedEvent::new(0x0900, 8),
    FixedEvent::new(0x0a00, 9),
    FixedEvent::new(0x0b00, 10),
    FixedEvent::new(0x0c00, 11),
    FixedEvent::new(0x0d00, 12),
    FixedEvent::new(0x0e00, 13),
    FixedEvent::new(0x0f00, 14),
    FixedEvent::new(0x1000, 15),
];

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: CounterSet =
        CounterSet::from_bits(CounterSet::general(4).bits() | CounterSet::fixed(0b111).bits());

    const INTEL: Constraints = Constraints {
        fixed: &INTEL_FIXED,
        general: &[],
    };

    fn counters(config: u64) -> CounterSet {
        EventSel::from_config(config, EventSel::INTEL, true, true)
            .unwrap()
            .counters(ALL, &INTEL)
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
        let none = Constraints {
            fixed: &[],
            general: &[],
        };
        assert_eq!(event.counters(six, &none), six);
    }

    #[test]
    fn fixed_counters_count_plain_events_only() {
        let chosen = EventSel::INTEL | EventSel::EQ | EventSel::UMASK2;
        for bits in [EventSel::EQ, 1 << 40] {
            let event = EventSel::from_config(0xc0 | bits, chosen, true, true).unwrap();
            assert_eq!(event.counters(ALL, &INTEL), CounterSet::general(4));
        }
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
        // There is no fixed counter from 3 on here.
        for i in 3..16 {
            assert_eq!(counters((i + 1) << 8), CounterSet::EMPTY);
        }
        assert_eq!(counters(0x1100), CounterSet::general(4));
    }

    #[test]
    fn the_first_constraint_for_an_event_holds() {
        const CONSTRAINTS: Constraints = Constraints {
            fixed: &[],
            general: &[
                Constraint::new(0xfff, 0x102, UnitMask::Any, 0b0001),
                Constraint::new(0xfff, 0x003, UnitMask::Several, 0b0010),
                Constraint::new(0xfff, 0x003, UnitMask::BothHalves, 0b1111),
                Constraint::new(0x0f0, 0x000, UnitMask::Any, 0b1100),
                Constraint::new(0x0f0, 0x010, UnitMask::BothHalves, 0),
            ],
        };
        let counters = |config| {
            EventSel::from_config(config, EventSel::AMD, true, true)
                .unwrap()
                .counters(ALL, &CONSTRAINTS)
                .bits()
        };
        assert_eq!(counters(0x1_0000_0002), 0b0001);
        assert_eq!(counters(0x0_0000_0002), 0b1100);
        assert_eq!(counters(0x0003), 0b1100);
        assert_eq!(counters(0x8003), 0b1100);
        assert_eq!(counters(0x8103), 0b0010);
        assert_eq!(counters(0x1_0000_8103), 0b1100);
        assert_eq!(counters(0x0f11), 0b1111);
        assert_eq!(counters(0xf011), 0b1111);
        assert_eq!(counters(0x1011 | 0x0100), 0);
        assert_eq!(counters(0x11_0021), 0b1111);
    }
}
