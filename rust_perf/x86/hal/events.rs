// SPDX-License-Identifier: GPL-2.0

//! The events that have a name, for perf and in sysfs, and how others are
//! written there.

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
    /// Every CPU that the table is for has it.
    Always,
}

/// A field of `attr.config`.
pub struct FormatField {
    /// Its name in sysfs.
    pub name: &'static CStr,
    /// Its bits in `config`.
    pub bits: &'static str,
}

/// See [`EventSel`](crate::pmc::event::EventSel). The last is for CPUs with
/// AnyThread only.
pub(super) static INTEL_FORMAT: [FormatField; 7] = [
    FormatField {
        name: c"event",
        bits: "0-7",
    },
    FormatField {
        name: c"umask",
        bits: "8-15",
    },
    FormatField {
        name: c"edge",
        bits: "18",
    },
    FormatField {
        name: c"pc",
        bits: "19",
    },
    FormatField {
        name: c"inv",
        bits: "23",
    },
    FormatField {
        name: c"cmask",
        bits: "24-31",
    },
    FormatField {
        name: c"any",
        bits: "21",
    },
];

/// As above.
pub(super) static AMD_FORMAT: [FormatField; 5] = [
    FormatField {
        name: c"event",
        bits: "0-7,32-35",
    },
    FormatField {
        name: c"umask",
        bits: "8-15",
    },
    FormatField {
        name: c"edge",
        bits: "18",
    },
    FormatField {
        name: c"inv",
        bits: "23",
    },
    FormatField {
        name: c"cmask",
        bits: "24-31",
    },
];

/// SDM vol. 3, table "UMask and Event Select Encodings for Pre-Defined
/// Architectural Performance Events", and for `ref-cycles` perf's
/// pseudo-encoding of what fixed counter 2 counts.
pub(super) static INTEL: [NamedEvent; 8] = [
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

/// AMD before family 17H: `amd_perfmon_event_map` of
/// `arch/x86/events/amd/core.c`, from the BIOS and Kernel Developer's Guides.
pub(super) static AMD_K7: [NamedEvent; 8] = [
    NamedEvent {
        names: &[c"cpu-cycles", c"cycles"],
        hardware: 0,
        config: 0x0076,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"instructions"],
        hardware: 1,
        config: 0x00c0,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"cache-references"],
        hardware: 2,
        config: 0x077d,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"cache-misses"],
        hardware: 3,
        config: 0x077e,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"branch-instructions", c"branches"],
        hardware: 4,
        config: 0x00c2,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"branch-misses"],
        hardware: 5,
        config: 0x00c3,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"stalled-cycles-frontend"],
        hardware: 7,
        config: 0x00d0,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"stalled-cycles-backend"],
        hardware: 8,
        config: 0x00d1,
        presence: Presence::Always,
    },
];

/// AMD from family 17H on: what the `amd_zen*_perfmon_event_map`s of
/// `arch/x86/events/amd/core.c` agree on, from the Processor Programming
/// References.
pub(super) static AMD_ZEN: [NamedEvent; 6] = [
    NamedEvent {
        names: &[c"cpu-cycles", c"cycles"],
        hardware: 0,
        config: 0x0076,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"instructions"],
        hardware: 1,
        config: 0x00c0,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"cache-references"],
        hardware: 2,
        config: 0xff60,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"cache-misses"],
        hardware: 3,
        config: 0x0964,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"branch-instructions", c"branches"],
        hardware: 4,
        config: 0x00c2,
        presence: Presence::Always,
    },
    NamedEvent {
        names: &[c"branch-misses"],
        hardware: 5,
        config: 0x00c3,
        presence: Presence::Always,
    },
];
