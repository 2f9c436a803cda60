// SPDX-License-Identifier: GPL-2.0

//! Which general-purpose counters of a processor count which events.
//!
//! Intel's event lists (perfmon-events.intel.com, the column "Counter") and SDM vol. 3B,
//! "Performance Monitoring Events", have this for each event. Linux's driver
//! (`intel_*_event_constraints` in arch/x86/events/intel/core.c) has it for ranges of event
//! selects. A range can contain numbers that are no event.
//!
//! AMD's family 15H is the only one of AMD's with counters that differ (BKDG family 15H, models 00H
//! to 0FH, "Core Performance Counter Events", where each event has its PERF_CTLs).
//!
//! An event of a list counts instructions on its counters, unless it is one that is modelled, and
//! nothing on the others. A
//! driver that puts it on the wrong counter thus reads 0. What the event really counts is
//! not modelled.

use core::ops::RangeInclusive;

use crate::msr::EventSel;

/// The unit masks of a [`Constraint`].
#[derive(Debug)]
enum UnitMasks {
    Any,
    One(u8),
    /// All that have this bit.
    Bit(u8),
    /// All with two bits or more.
    Several,
    /// All with a bit in each half.
    BothHalves,
}

/// The counters that count some events.
#[derive(Debug)]
pub(super) struct Constraint {
    /// Event selects, of 12 bits.
    events: RangeInclusive<u16>,
    unit_masks: UnitMasks,
    /// A bitmap of general-purpose counters.
    counters: u16,
    /// Whether the events disturb the other thread of the core, see [`crate::SmtCore`].
    disturbs: bool,
}

impl Constraint {
    const fn disturbs(self) -> Constraint {
        Constraint {
            disturbs: true,
            ..self
        }
    }

    fn applies(&self, eventsel: EventSel) -> bool {
        let unit_mask = eventsel.umask();
        let unit_masks = match self.unit_masks {
            UnitMasks::Any => true,
            UnitMasks::One(value) => unit_mask == value,
            UnitMasks::Bit(bit) => unit_mask & bit != 0,
            UnitMasks::Several => unit_mask.count_ones() > 1,
            UnitMasks::BothHalves => unit_mask & 0x0f != 0 && unit_mask & 0xf0 != 0,
        };
        // Intel's have 8 bits. The model has nothing that sets bits 35:32 there.
        unit_masks && self.events.contains(&eventsel.amd_event())
    }
}

/// Some general-purpose counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GeneralCounters(u16);

impl GeneralCounters {
    /// Whether a counter is one of them.
    pub(crate) const fn contains(self, counter: usize) -> bool {
        self.0 & (1 << counter) != 0
    }
}

/// The counters that count an event, `None` if all do.
pub(super) fn counters(constraints: &[Constraint], eventsel: EventSel) -> Option<GeneralCounters> {
    let mut constraints = constraints.iter();
    let constraint = constraints.find(|it| it.applies(eventsel))?;
    (constraint.counters != ALL).then_some(GeneralCounters(constraint.counters))
}

/// Whether the event disturbs the other thread of the core.
pub(super) fn disturbs(constraints: &[Constraint], eventsel: EventSel) -> bool {
    let mut constraints = constraints.iter();
    let constraint = constraints.find(|it| it.applies(eventsel));
    constraint.is_some_and(|it| it.disturbs)
}

const LOW_2: u16 = 0b11;
const LOW_3: u16 = 0b111;
const LOW_4: u16 = 0xf;
const HIGH_3: u16 = 0b11_1000;
const NONE: u16 = 0;
/// In an exception to a range that follows.
const ALL: u16 = u16::MAX;

/// One event select with any unit mask.
const fn event(event: u16, counters: u16) -> Constraint {
    events(event..=event, counters)
}

/// One event select with some unit masks.
const fn masks(event: u16, unit_masks: UnitMasks, counters: u16) -> Constraint {
    Constraint {
        events: event..=event,
        unit_masks,
        counters,
        disturbs: false,
    }
}

/// Event selects with any unit mask.
const fn events(events: RangeInclusive<u16>, counters: u16) -> Constraint {
    Constraint {
        events,
        unit_masks: UnitMasks::Any,
        counters,
        disturbs: false,
    }
}

/// One event select with one unit mask.
const fn unit(event: u16, unit_mask: u8, counters: u16) -> Constraint {
    masks(event, UnitMasks::One(unit_mask), counters)
}

pub(super) const CORE: &[Constraint] = &[
    event(0x11, 1 << 1),
    event(0x12, 1 << 1),
    event(0x13, 1 << 1),
    event(0x14, 1 << 0),
    event(0x19, 1 << 1),
    event(0xc1, 1 << 0),
];

pub(super) const CORE_2: &[Constraint] = &[
    event(0x10, 1 << 0),
    event(0x11, 1 << 1),
    event(0x12, 1 << 1),
    event(0x13, 1 << 1),
    event(0x14, 1 << 0),
    event(0x18, 1 << 0),
    event(0x19, 1 << 1),
    event(0xa1, 1 << 0),
    event(0xc9, 1 << 0),
    event(0xcb, 1 << 0),
];

pub(super) const NEHALEM: &[Constraint] = &[
    events(0x40..=0x43, LOW_2),
    event(0x48, LOW_2),
    event(0x4e, LOW_2),
    event(0x51, LOW_2),
    event(0x63, LOW_2),
];

pub(super) const WESTMERE: &[Constraint] = &[
    event(0x51, LOW_2),
    event(0x60, 1 << 0),
    event(0x63, LOW_2),
    event(0xb3, 1 << 0),
];

pub(super) const SANDY_BRIDGE: &[Constraint] = &[
    event(0x48, 1 << 2),
    unit(0xa3, 0x02, 1 << 2),
    unit(0xa3, 0x04, LOW_4),
    unit(0xa3, 0x05, LOW_4),
    unit(0xa3, 0x06, 1 << 2),
    unit(0xc0, 0x01, 1 << 1),
    event(0xcd, 1 << 3),
    events(0xd0..=0xd3, LOW_4).disturbs(),
];

pub(super) const IVY_BRIDGE: &[Constraint] = &[
    unit(0x48, 0x01, 1 << 2),
    unit(0x79, 0x02, LOW_4),
    unit(0x9c, 0x01, LOW_4),
    unit(0xa3, 0x02, LOW_4),
    unit(0xa3, 0x04, LOW_4),
    unit(0xa3, 0x05, LOW_4),
    unit(0xa3, 0x06, LOW_4),
    unit(0xa3, 0x08, 1 << 2),
    unit(0xa3, 0x0c, 1 << 2),
    unit(0xc0, 0x01, 1 << 1),
    events(0xd0..=0xd3, LOW_4).disturbs(),
];

pub(super) const HASWELL: &[Constraint] = &[
    unit(0x48, 0x01, 1 << 2),
    unit(0xa3, 0x04, LOW_4),
    unit(0xa3, 0x08, 1 << 2),
    unit(0xa3, 0x0c, 1 << 2),
    unit(0xc0, 0x01, 1 << 1),
    event(0xcd, 1 << 3),
    events(0xd0..=0xd3, LOW_4).disturbs(),
];

pub(super) const BROADWELL: &[Constraint] = &[
    unit(0x48, 0x01, 1 << 2),
    masks(0xa3, UnitMasks::Bit(0x08), 1 << 2),
    event(0xcd, LOW_4),
    events(0xd0..=0xd2, LOW_4),
];

pub(super) const SKYLAKE: &[Constraint] = &[
    unit(0xc0, 0x01, 1 << 1),
    event(0xc6, LOW_4),
    event(0xcd, LOW_4),
    events(0xd0..=0xd2, LOW_4),
];

pub(super) const ICE_LAKE: &[Constraint] = &[
    events(0x03..=0x0a, LOW_4),
    events(0x1f..=0x28, LOW_4),
    event(0x32, LOW_4),
    events(0x48..=0x56, LOW_4),
    events(0x60..=0x8b, LOW_4),
    unit(0xa3, 0x04, ALL),
    unit(0xa3, 0x10, ALL),
    unit(0xa3, 0x14, ALL),
    event(0xa3, LOW_4),
    events(0xa8..=0xb0, LOW_4),
    events(0xb7..=0xbd, LOW_4),
    events(0xd0..=0xe6, LOW_4),
    event(0xef, LOW_4),
    events(0xf0..=0xf4, LOW_4),
];

/// The architectural events are exceptions to the range of low event selects.
pub(super) const GOLDEN_COVE: &[Constraint] = &[
    event(0x2e, ALL),
    event(0x3c, ALL),
    events(0x01..=0x8f, LOW_4),
    unit(0xa3, 0x01, LOW_4),
    unit(0xa3, 0x02, LOW_4),
    unit(0xa3, 0x05, LOW_4),
    unit(0xa3, 0x06, LOW_4),
    unit(0xa3, 0x08, LOW_4),
    unit(0xa3, 0x0c, LOW_4),
    unit(0xa4, 0x04, 1 << 0),
    unit(0xa4, 0x08, 1 << 0),
    unit(0xcd, 0x01, ALL & !1),
    unit(0xcd, 0x02, 1 << 0),
    event(0xce, 1 << 0),
    events(0xd0..=0xdf, LOW_4),
];

pub(super) const LION_COVE: &[Constraint] = &[
    event(0x20, LOW_4),
    unit(0x48, 0x01, 1 << 2),
    unit(0x75, 0x01, 1 << 2),
    unit(0xa3, 0x08, 1 << 2),
    unit(0xa3, 0x0c, 1 << 2),
    unit(0xa4, 0x04, 1 << 0),
    unit(0xa4, 0x08, 1 << 0),
    unit(0xa4, 0x10, 1 << 3),
    unit(0xb1, 0x01, 1 << 3),
    unit(0xcd, 0x01, ALL & !LOW_2),
    unit(0xcd, 0x02, LOW_2),
    unit(0xd0, 0x87, ALL),
    events(0xd0..=0xdf, LOW_4),
];

pub(super) const PANTHER_COVE: &[Constraint] = &[
    event(0x20, LOW_4),
    unit(0x46, 0x04, LOW_4),
    unit(0x46, 0x08, LOW_4),
    unit(0x47, 0x08, LOW_4),
    unit(0x48, 0x01, LOW_4),
    unit(0x75, 0x02, LOW_4),
    unit(0x76, 0x01, LOW_4),
    event(0x79, LOW_4),
    unit(0xa4, 0x04, 1 << 0),
    unit(0xa4, 0x08, 1 << 0),
    unit(0xb1, 0x01, 1 << 3),
    unit(0xb2, 0x01, LOW_4),
    unit(0xb2, 0x02, LOW_4),
    unit(0xcd, 0x01, 0xfc),
    unit(0xcd, 0x02, LOW_2),
    event(0xce, 1 << 0),
    event(0xd0, LOW_4),
    event(0xd1, LOW_4),
    event(0xd4, LOW_4),
    event(0xd6, LOW_4),
    event(0xdf, LOW_4),
];

pub(super) const ARCTIC_WOLF: &[Constraint] = &[
    unit(0xb7, 0x01, 1 << 0),
    unit(0xb7, 0x02, 1 << 1),
    unit(0xb7, 0x04, 1 << 2),
    unit(0xb7, 0x08, 1 << 3),
    unit(0x75, 0x01, 1 << 0),
    unit(0x75, 0x02, 1 << 1),
    unit(0xd3, 0x21, 1 << 0),
    unit(0xd3, 0x22, 1 << 0),
];

/// Floating point has counters 3 to 5, the cache unit and decoding 0 to 2. No event of the
/// northbridge, from E0H on, is modelled: it has counters of its own.
pub(super) const FAMILY_15H: &[Constraint] = &[
    masks(0x00, UnitMasks::BothHalves, 1 << 3),
    event(0x03, 1 << 3),
    masks(0x04, UnitMasks::Several, 1 << 3),
    event(0x0b, 1 << 3),
    event(0x0d, 1 << 3),
    events(0x00..=0x1f, HIGH_3),
    event(0x23, LOW_3),
    event(0x2d, 1 << 3),
    event(0x2e, 0b1001),
    masks(0x31, UnitMasks::Several, NONE),
    event(0x31, LOW_3),
    event(0x43, LOW_3),
    events(0x45..=0x46, LOW_3),
    events(0x54..=0x55, LOW_3),
    events(0x60..=0x7f, LOW_3),
    event(0x8f, 1 << 0),
    events(0x80..=0x9f, LOW_3),
    events(0xd0..=0xda, LOW_3),
    events(0x187..=0x188, 1 << 0),
    event(0x1c0, HIGH_3),
];

#[cfg(test)]
mod tests {
    use super::super::intel;

    /// AMD's family 15H has one without.
    #[test]
    fn each_event_of_intels_lists_has_a_counter() {
        for processor in intel::PROCESSORS {
            for constraint in processor.constraints {
                assert_ne!(constraint.counters, 0, "{processor:?} {constraint:?}");
            }
        }
    }
}
