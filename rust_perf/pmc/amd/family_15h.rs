// SPDX-License-Identifier: GPL-2.0

//! The events of family 15H: those of K7, with constraints.

use super::{
    super::{
        constraint::{
            Constraint,
            UnitMask, //
        },
        named::Events, //
    },
    k7, //
};

/// Family 15H.
pub(super) static F15H: Events = k7::before_zen(&F15H_CONSTRAINTS);

const NONE: u32 = 0;

/// BKDG family 15H, models 00H to 0FH, "Core Performance Counter Events", which
/// lists the counters for each event. Mostly they follow from the event's unit,
/// bits 7:4 of its code.
static F15H_CONSTRAINTS: [Constraint; 32] = {
    const PMC0: u32 = 0b00_0001;
    const PMC3: u32 = 0b00_1000;
    const PMC30: u32 = 0b00_1001;
    const PMC20: u32 = 0b00_0111;
    const PMC53: u32 = 0b11_1000;
    const PMC50: u32 = 0b11_1111;

    const fn event(code: u16, counters: u32) -> Constraint {
        Constraint::new(0xfff, code, UnitMask::Any, counters)
    }
    const fn unit(mask: u16, code: u16, counters: u32) -> Constraint {
        Constraint::new(mask, code, UnitMask::Any, counters)
    }

    [
        // Floating point.
        Constraint::new(0xfff, 0x000, UnitMask::BothHalves, PMC3),
        event(0x003, PMC3),
        Constraint::new(0xfff, 0x004, UnitMask::Several, PMC3),
        event(0x00b, PMC3),
        event(0x00d, PMC3),
        unit(0x0e0, 0x000, PMC53),
        // Load and store, data cache, execution.
        event(0x023, PMC20),
        event(0x02d, PMC3),
        event(0x02e, PMC30),
        Constraint::new(0xfff, 0x031, UnitMask::Several, NONE),
        event(0x031, PMC20),
        event(0x043, PMC20),
        event(0x045, PMC20),
        event(0x046, PMC20),
        event(0x054, PMC20),
        event(0x055, PMC20),
        event(0x1c0, PMC53),
        unit(0x0e0, 0x020, PMC50),
        unit(0x0e0, 0x040, PMC50),
        unit(0x0f0, 0x0c0, PMC50),
        // Cache unit, instruction cache and decoding.
        event(0x08f, PMC0),
        event(0x187, PMC0),
        event(0x188, PMC0),
        event(0x0db, PMC50),
        unit(0xffc, 0x0dc, PMC50),
        event(0x1d6, PMC50),
        event(0x1d8, PMC50),
        unit(0x0e0, 0x060, PMC20),
        unit(0x0e0, 0x080, PMC20),
        unit(0x0f0, 0x0d0, PMC20),
        // The northbridge, which has counters of its own.
        unit(0x0e0, 0x0e0, NONE),
        // No unit has these codes.
        unit(0x000, 0x000, NONE),
    ]
};
