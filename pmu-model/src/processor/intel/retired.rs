// SPDX-License-Identifier: GPL-2.0

//! The codes of kinds of instructions.
//!
//! They are from Intel's event lists: BR_INST_RETIRED.CONDITIONAL, .COND, .JCC and so on,
//! MEM_INST_RETIRED and MEM_UOPS_RETIRED. Each load or store has one micro-operation here.

use crate::event::Event;

/// Loads and stores, from Sandy Bridge and Goldmont on.
const LOADS: (u64, Event) = (0x81d0, Event::Loads);
const STORES: (u64, Event) = (0x82d0, Event::Stores);

pub(super) const NEHALEM: &[(u64, Event)] = &[
    (0x01c4, Event::ConditionalBranches),
    (0x010b, Event::Loads),
    (0x020b, Event::Stores),
];

pub(super) const SANDY_BRIDGE: &[(u64, Event)] = &[
    (0x01c4, Event::ConditionalBranches),
    (0x10c4, Event::NotTaken),
    (0x20c4, Event::NearTaken),
    LOADS,
    STORES,
];

pub(super) const ICE_LAKE: &[(u64, Event)] = &[
    (0x11c4, Event::ConditionalBranches),
    (0x01c4, Event::ConditionalTaken),
    (0x10c4, Event::NotTaken),
    (0x20c4, Event::NearTaken),
    LOADS,
    STORES,
];

/// Some have a second unit mask.
pub(super) const LION_COVE: &[(u64, Event)] = &[
    ((0x01 << 40) | 0x11c4, Event::ConditionalBranches),
    ((0x01 << 40) | 0x01c4, Event::ConditionalTaken),
    (0x10c4, Event::NotTaken),
    (0x20c4, Event::NearTaken),
    LOADS,
    STORES,
];

pub(super) const PANTHER_COVE: &[(u64, Event)] = &[
    (0x07c4, Event::ConditionalBranches),
    (0x03c4, Event::ConditionalTaken),
    (0x04c4, Event::NotTaken),
    (0xfbc4, Event::NearTaken),
    LOADS,
    STORES,
];

pub(super) const SILVERMONT: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x80c4, Event::Taken),
    (0x4004, Event::Loads),
    (0x8004, Event::Stores),
];

/// Knights Landing's list has no event of all branches that are taken.
pub(super) const KNIGHTS_LANDING: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x4004, Event::Loads),
    (0x8004, Event::Stores),
];

pub(super) const GOLDMONT: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x80c4, Event::Taken),
    LOADS,
    STORES,
];

/// Tremont's list has no event of all branches that are taken.
pub(super) const TREMONT: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    LOADS,
    STORES,
];

pub(super) const GRACEMONT: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x80c4, Event::Taken),
    (0xc0c4, Event::NearTaken),
    LOADS,
    STORES,
];

pub(super) const SKYMONT: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x7fc4, Event::NotTaken),
    (0x80c4, Event::Taken),
    (0xc0c4, Event::NearTaken),
    LOADS,
    STORES,
];

/// Arctic Wolf's list has no loads and stores. Linux's driver counts them by the codes of the other Atoms.
pub(super) const ARCTIC_WOLF: &[(u64, Event)] = &[
    (0x07c4, Event::ConditionalBranches),
    (0x03c4, Event::ConditionalTaken),
    (0x04c4, Event::NotTaken),
    LOADS,
    STORES,
];
