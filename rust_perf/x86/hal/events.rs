// SPDX-License-Identifier: GPL-2.0

//! The events that have a name, for perf and in sysfs.

use core::ffi::CStr;

/// An event with a name.
pub struct NamedEvent {
    /// The files that have it in sysfs: the in-tree driver's name first.
    pub names: &'static [&'static CStr],
    /// Its number among perf's generic hardware events, `PERF_COUNT_HW_*`.
    pub hardware: u64,
    /// Its encoding, as in `attr.config`.
    pub config: u64,
    /// What says whether the CPU has it.
    pub(super) presence: Presence,
}

/// What says whether a CPU has an event.
#[derive(Clone, Copy)]
pub(super) enum Presence {
    /// Its bit in CPUID.0AH:EBX is clear.
    Architectural(u8),
    /// There is the fixed counter that counts it.
    Fixed(u8),
}

/// SDM vol. 3, table "UMask and Event Select Encodings for Pre-Defined
/// Architectural Performance Events", and for `ref-cycles` perf's
/// pseudo-encoding of what fixed counter 2 counts.
pub(super) const INTEL: [NamedEvent; 8] = [
    NamedEvent {
        names: &[c"cpu-cycles", c"cycles"],
        hardware: 0,
        config: 0x003c,
        presence: Presence::Architectural(0),
    },
    NamedEvent {
        names: &[c"instructions"],
        hardware: 1,
        config: 0x00c0,
        presence: Presence::Architectural(1),
    },
    NamedEvent {
        names: &[c"cache-references"],
        hardware: 2,
        config: 0x4f2e,
        presence: Presence::Architectural(3),
    },
    NamedEvent {
        names: &[c"cache-misses"],
        hardware: 3,
        config: 0x412e,
        presence: Presence::Architectural(4),
    },
    NamedEvent {
        names: &[c"branch-instructions", c"branches"],
        hardware: 4,
        config: 0x00c4,
        presence: Presence::Architectural(5),
    },
    NamedEvent {
        names: &[c"branch-misses"],
        hardware: 5,
        config: 0x00c5,
        presence: Presence::Architectural(6),
    },
    NamedEvent {
        names: &[c"bus-cycles"],
        hardware: 6,
        config: 0x013c,
        presence: Presence::Architectural(2),
    },
    NamedEvent {
        names: &[c"ref-cycles"],
        hardware: 9,
        config: 0x0300,
        presence: Presence::Fixed(2),
    },
];
