// SPDX-License-Identifier: GPL-2.0

//! Which counters can count which events.

use super::{
    counter::{
        Counter,
        CounterSet, //
    },
    event::EventSel, //
};

/// Which counters can count which events, for one kind of CPU.
pub struct Constraints {
    /// What the fixed counters count.
    pub fixed: &'static [FixedEvent],
    /// Events that not every GP counter can count. The first constraint that
    /// covers an event applies.
    pub gp: &'static [Constraint],
}

impl Constraints {
    /// The subset of `present` that can count `event`.
    pub fn counters(&self, present: CounterSet, event: EventSel) -> CounterSet {
        let fixed = self
            .fixed
            .iter()
            .find(|fixed| fixed.code == event.code() && event.is_plain())
            .and_then(|fixed| Counter::fixed(fixed.counter))
            .map_or(CounterSet::EMPTY, CounterSet::of);
        let gp = match self.gp_constraint(event) {
            None => present,
            Some(constraint) if constraint.pair => {
                present.with_successor() & EVEN & constraint.counters
            }
            Some(constraint) => present & constraint.counters,
        };
        (fixed & present) | gp.gp_part()
    }

    /// Whether `event` takes a pair of counters: the one that it is on, and the next.
    pub fn needs_pair(&self, event: EventSel) -> bool {
        self.gp_constraint(event)
            .is_some_and(|constraint| constraint.pair)
    }

    /// Whether any event takes a pair of counters.
    pub fn have_pairs(&self) -> bool {
        self.gp.iter().any(|constraint| constraint.pair)
    }

    fn gp_constraint(&self, event: EventSel) -> Option<&'static Constraint> {
        self.gp.iter().find(|constraint| constraint.covers(event))
    }

    /// Whether `event` is [exclusive](Constraint::exclusive).
    pub fn is_exclusive(&self, event: EventSel) -> bool {
        self.gp_constraint(event)
            .is_some_and(|constraint| constraint.exclusive)
    }

    /// Whether any event is exclusive.
    pub fn any_exclusive(&self) -> bool {
        self.gp.iter().any(|constraint| constraint.exclusive)
    }
}

/// The GP counters with even numbers.
const EVEN: CounterSet = CounterSet::gp(0x5555_5555);

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

/// Events, and the GP counters that can count them.
///
/// No constraint depends on the other fields of EVENTSEL.
pub struct Constraint {
    mask: u16,
    first: u16,
    last: u16,
    umask: UnitMask,
    counters: CounterSet,
    pair: bool,
    exclusive: bool,
}

impl Constraint {
    /// The events whose event select of 12 bits equals `code` in the bits of
    /// `mask`, and whose unit mask is one of `umask`. Bit *i* of `counters` stands
    /// for GP counter *i*.
    pub const fn new(mask: u16, code: u16, umask: UnitMask, counters: u32) -> Self {
        Constraint {
            mask,
            first: code,
            last: code,
            umask,
            counters: CounterSet::gp(counters),
            pair: false,
            exclusive: false,
        }
    }

    /// Intel's event with this unit mask and event select. The other bits of AMD's event select
    /// do not count, because Intel has IN_TX and IN_TXCP there.
    pub const fn code(code: u16, counters: u32) -> Self {
        let [event, umask] = code.to_le_bytes();
        Self::new(0xff, event as u16, UnitMask::Is(umask), counters)
    }

    /// Intel's events with this event select.
    pub const fn event(event: u8, counters: u32) -> Self {
        Self::events(event, event, counters)
    }

    /// Intel's events with the event selects from `first` to `last`.
    pub const fn events(first: u8, last: u8, counters: u32) -> Self {
        Constraint {
            mask: 0xff,
            first: first as u16,
            last: last as u16,
            umask: UnitMask::Any,
            counters: CounterSet::gp(counters),
            pair: false,
            exclusive: false,
        }
    }

    /// The events with this event select of 12 bits. They take an even counter and the next
    /// one together.
    pub const fn pair(event: u16) -> Self {
        Constraint {
            pair: true,
            ..Self::new(0xfff, event, UnitMask::Any, u32::MAX)
        }
    }

    /// This constraint, for an exclusive event: while one thread of a core counts it, the counters of the same
    /// number of the other threads may count wrongly (errata BJ122 of Sandy Bridge, BV98 of
    /// Ivy Bridge, HSD29 of Haswell).
    pub const fn exclusive(self) -> Self {
        Constraint {
            exclusive: true,
            ..self
        }
    }

    const fn covers(&self, event: EventSel) -> bool {
        let umask = event.get(EventSel::UMASK) as u8;
        let code = event.event12() & self.mask;
        self.first <= code && code <= self.last && self.umask.covers(umask)
    }
}

/// A set of unit masks.
#[derive(Clone, Copy)]
pub enum UnitMask {
    /// Every unit mask.
    Any,
    /// This unit mask.
    Is(u8),
    /// Unit masks with all these bits set.
    Has(u8),
    /// Every unit mask but 0.
    NotZero,
    /// Unit masks with more than one bit set.
    Several,
    /// Unit masks with bits set in both halves.
    BothHalves,
}

impl UnitMask {
    const fn covers(self, umask: u8) -> bool {
        match self {
            Self::Any => true,
            Self::Is(only) => umask == only,
            Self::Has(bits) => umask & bits == bits,
            Self::NotZero => umask != 0,
            Self::Several => umask.count_ones() > 1,
            Self::BothHalves => umask & 0x0f != 0 && umask & 0xf0 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        event::Modes,
        intel::INTEL_CONSTRAINTS,
        transactions, //
    };
    use super::*;

    const ALL: CounterSet =
        CounterSet::from_bits(CounterSet::first_gp(4).bits() | CounterSet::fixed(0b111).bits());

    fn event(config: u64, chosen: u64) -> EventSel {
        EventSel::from_config(config, chosen, Modes::ALL).unwrap()
    }

    fn counters(config: u64) -> CounterSet {
        INTEL_CONSTRAINTS.counters(ALL, event(config, EventSel::INTEL))
    }

    #[test]
    fn event_select_zero_is_an_event_without_constraints() {
        let six = CounterSet::first_gp(6);
        let none = Constraints {
            fixed: &[],
            gp: &[],
        };
        assert_eq!(none.counters(six, event(0x0300, EventSel::AMD)), six);
    }

    #[test]
    fn fixed_counters_count_plain_events_only() {
        let gp = CounterSet::first_gp(4);
        let v6 = EventSel::INTEL | EventSel::EQ.mask() | EventSel::UMASK2.mask();
        for bits in [EventSel::EQ.mask(), 1 << 40] {
            let event = event(0xc0 | bits, v6);
            assert_eq!(INTEL_CONSTRAINTS.counters(ALL, event), gp);
        }
        assert_eq!(counters(0xc0), gp | CounterSet::fixed(1));
        assert_eq!(counters(0x3c), gp | CounterSet::fixed(2));
        assert_eq!(counters(0xc0 | EventSel::EDGE.mask()), gp);
        assert_eq!(counters(0xc0 | EventSel::INV.mask()), gp);
        assert_eq!(counters(0x0100_00c0), gp);
        assert_eq!(counters(0x013c), gp);
    }

    #[test]
    fn pseudo_encodings_need_their_fixed_counter() {
        assert_eq!(counters(0x0300), CounterSet::fixed(0b100));
        // There is no fixed counter from 3 on here.
        for i in 3..16 {
            assert_eq!(counters((i + 1) << 8), CounterSet::EMPTY);
        }
    }

    /// A GP counter that is given one of these reads 0.
    #[test]
    fn event_select_zero_with_a_unit_mask_is_no_gp_event_on_intel() {
        for umask in 1..=0xff {
            assert!(counters(umask << 8).gp_part().is_empty(), "{umask:#x}");
        }
        for umask in [0x01, 0x02, 0x11, 0x80, 0x87] {
            assert_eq!(counters(umask << 8), CounterSet::EMPTY, "{umask:#x}");
        }
        assert_eq!(counters(0), CounterSet::first_gp(4));
    }

    #[test]
    fn the_first_constraint_that_covers_an_event_applies() {
        const CONSTRAINTS: Constraints = Constraints {
            fixed: &[],
            gp: &[
                Constraint::new(0xfff, 0x102, UnitMask::Any, 0b0001),
                Constraint::new(0xfff, 0x003, UnitMask::Several, 0b0010),
                Constraint::new(0xfff, 0x003, UnitMask::BothHalves, 0b1111),
                Constraint::new(0x0f0, 0x000, UnitMask::Any, 0b1100),
                Constraint::new(0x0f0, 0x010, UnitMask::BothHalves, 0),
            ],
        };
        let counters = |config| {
            CONSTRAINTS
                .counters(ALL, event(config, EventSel::AMD))
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

    #[test]
    fn intel_codes_and_ranges() {
        const CONSTRAINTS: Constraints = Constraints {
            fixed: &[],
            gp: &[
                Constraint::code(0x04a3, 0b0001),
                Constraint::new(0xff, 0xa3, UnitMask::Has(0x0c), 0b0010),
                Constraint::event(0x48, 0b0100),
                Constraint::events(0x40, 0x4f, 0b1000),
            ],
        };
        let counters = |config| {
            CONSTRAINTS
                .counters(ALL, event(config, EventSel::INTEL | transactions::FIELDS))
                .bits()
        };
        for modifiers in [
            0,
            EventSel::EDGE.mask(),
            EventSel::INV.mask(),
            0x0100_0000,
            EventSel::IN_TX.mask(),
            EventSel::IN_TXCP.mask(),
        ] {
            assert_eq!(counters(0x04a3 | modifiers), 0b0001);
            assert_eq!(counters(0x0148 | modifiers), 0b0100);
        }
        for (config, expected) in [
            (0x05a3, 0b1111),
            (0x0ca3, 0b0010),
            (0x1ca3, 0b0010),
            (0x08a3, 0b1111),
            (0x0048, 0b0100),
            (0xff48, 0b0100),
            (0x003f, 0b1111),
            (0x0040, 0b1000),
            (0x014f, 0b1000),
            (0x0050, 0b1111),
        ] {
            assert_eq!(counters(config), expected, "{config:#x}");
        }
    }
}
