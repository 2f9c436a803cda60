// SPDX-License-Identifier: GPL-2.0

//! What kinds of CPUs count: the events that have a name, for perf and in
//! sysfs, how others are written there, and which counters can count them. A
//! file a vendor.

pub(super) mod amd;
pub(super) mod intel;
pub(super) mod zhaoxin;

use crate::pmc::event::{
    Constraints,
    EventSel, //
};
use core::{
    ffi::CStr,
    fmt, //
};

/// What a kind of CPUs counts.
pub(super) struct Events {
    /// The events that have a name.
    pub(super) named: &'static [NamedEvent],
    /// perf's cache events.
    pub(super) cache: &'static [CacheEvents],
    /// Which counters can count which events.
    pub(super) constraints: Constraints,
    /// The bits of `attr.config` that have a name.
    pub(super) format: u64,
}

/// The name of an event: those of `enum perf_hw_id` in
/// `include/uapi/linux/perf_event.h`, by their numbers, and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Cycles, while not halted.
    CpuCycles,
    /// Retired instructions.
    Instructions,
    /// Accesses to the cache that perf takes for the last.
    CacheReferences,
    /// Those that missed it.
    CacheMisses,
    /// Retired branches.
    BranchInstructions,
    /// Those that were mispredicted.
    BranchMisses,
    /// Cycles of the bus, while not halted.
    BusCycles,
    /// Cycles without new work.
    StalledCyclesFrontend,
    /// Cycles in which new work has to wait.
    StalledCyclesBackend,
    /// Cycles of a clock of fixed rate, while not halted.
    RefCycles,
    /// Not one of perf's: places for work in the pipeline.
    Slots,
}

impl Name {
    /// The files of this event in sysfs: the in-tree driver's name first.
    pub const fn files(self) -> &'static [&'static CStr] {
        match self {
            Self::CpuCycles => &[c"cpu-cycles", c"cycles"],
            Self::Instructions => &[c"instructions"],
            Self::CacheReferences => &[c"cache-references"],
            Self::CacheMisses => &[c"cache-misses"],
            Self::BranchInstructions => &[c"branch-instructions", c"branches"],
            Self::BranchMisses => &[c"branch-misses"],
            Self::BusCycles => &[c"bus-cycles"],
            Self::StalledCyclesFrontend => &[c"stalled-cycles-frontend"],
            Self::StalledCyclesBackend => &[c"stalled-cycles-backend"],
            Self::RefCycles => &[c"ref-cycles"],
            Self::Slots => &[c"slots"],
        }
    }
}

/// An event with a name.
pub struct NamedEvent {
    /// Its name.
    pub name: Name,
    /// Its encoding, as in `attr.config`.
    pub config: u64,
    /// What says whether the CPU has it.
    pub(super) presence: Presence,
}

impl NamedEvent {
    /// The encoding as the perf tool takes it, and as sysfs has it.
    pub const fn terms(&self) -> Terms {
        Terms(self.config)
    }
}

/// Shows an encoding by its fields.
pub struct Terms(u64);

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Terms(config) = self;
        let event = (config & EventSel::EVENT) | ((config & EventSel::EVENT_HIGH) >> 24);
        write!(f, "event={event:#04x}")?;
        let umask = (config & EventSel::UMASK) >> 8;
        if umask != 0 {
            write!(f, ",umask={umask:#04x}")?;
        }
        if config & EventSel::INV != 0 {
            write!(f, ",inv")?;
        }
        let cmask = (config & EventSel::CMASK) >> 24;
        if cmask != 0 {
            write!(f, ",cmask={cmask:#04x}")?;
        }
        Ok(())
    }
}

/// What says whether a CPU has an event.
#[derive(Clone, Copy)]
pub(super) enum Presence {
    /// It is this architectural event, by its bit in CPUID.
    Architectural(u8),
    /// There is the fixed counter that counts it.
    Fixed(u8),
    /// Every CPU that the table is for has it.
    Always,
}

/// An event that every CPU has which the table is for.
const fn always(name: Name, config: u64) -> NamedEvent {
    NamedEvent {
        name,
        config,
        presence: Presence::Always,
    }
}

/// The architectural event of this bit in CPUID.
const fn architectural(bit: u8, name: Name, config: u64) -> NamedEvent {
    NamedEvent {
        name,
        config,
        presence: Presence::Architectural(bit),
    }
}

/// The event that just this fixed counter counts.
const fn fixed(counter: u8, name: Name, config: u64) -> NamedEvent {
    NamedEvent {
        name,
        config,
        presence: Presence::Fixed(counter),
    }
}

/// `enum perf_hw_cache_id`, by number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    L1d,
    L1i,
    Ll,
    Dtlb,
    Itlb,
    Bpu,
    Node,
}

/// `enum perf_hw_cache_op_id`, by number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Write,
    Prefetch,
}

/// What a cache event is to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// An event of this encoding, as in `attr.config`.
    Config(u64),
    /// The CPU has no event for it.
    Missing,
    /// There is no such thing.
    Invalid,
}

/// The events of an operation of a cache.
pub(super) struct CacheEvents {
    cache: Cache,
    operation: Operation,
    access: CacheEvent,
    miss: CacheEvent,
}

/// Accesses and misses: 0, which is no event's encoding, if there is no event.
const fn counted(cache: Cache, operation: Operation, access: u64, miss: u64) -> CacheEvents {
    const fn event(config: u64) -> CacheEvent {
        match config {
            0 => CacheEvent::Missing,
            _ => CacheEvent::Config(config),
        }
    }
    CacheEvents {
        cache,
        operation,
        access: event(access),
        miss: event(miss),
    }
}

/// An operation that the cache has not.
const fn invalid(cache: Cache, operation: Operation) -> CacheEvents {
    CacheEvents {
        cache,
        operation,
        access: CacheEvent::Invalid,
        miss: CacheEvent::Invalid,
    }
}

impl Events {
    /// The cache event of this number: cache, operation and result, a byte
    /// each (`include/uapi/linux/perf_event.h`). What comes above them is
    /// nothing, as to the in-tree driver.
    pub(super) fn cache_event(&self, id: u64) -> CacheEvent {
        let [cache, operation, result, ..] = id.to_le_bytes();
        if cache > Cache::Node as u8 || operation > Operation::Prefetch as u8 || result > 1 {
            return CacheEvent::Invalid;
        }
        self.cache
            .iter()
            .find(|row| row.cache as u8 == cache && row.operation as u8 == operation)
            .map_or(CacheEvent::Missing, |row| match result {
                0 => row.access,
                _ => row.miss,
            })
    }
}

/// A field of `attr.config`.
pub struct FormatField {
    /// Its name in sysfs.
    pub name: &'static CStr,
    /// Its bits in `config`.
    pub bits: &'static str,
    /// The same as a mask.
    mask: u64,
}

const fn field(name: &'static CStr, bits: &'static str, mask: u64) -> FormatField {
    FormatField { name, bits, mask }
}

/// See [`EventSel`]. Of fields of one name that of more bits first.
static FIELDS: [FormatField; 10] = [
    field(
        c"event",
        "0-7,32-35",
        EventSel::EVENT | EventSel::EVENT_HIGH,
    ),
    field(c"event", "0-7", EventSel::EVENT),
    field(c"umask", "8-15,40-47", EventSel::UMASK | EventSel::UMASK2),
    field(c"umask", "8-15", EventSel::UMASK),
    field(c"edge", "18", EventSel::EDGE),
    field(c"pc", "19", EventSel::PC),
    field(c"any", "21", EventSel::ANY),
    field(c"inv", "23", EventSel::INV),
    field(c"cmask", "24-31", EventSel::CMASK),
    field(c"eq", "36", EventSel::EQ),
];

/// The fields of `attr.config` where the bits of `format` have names.
pub(super) fn format_fields(format: u64) -> impl Iterator<Item = &'static FormatField> {
    let there = move |field: &&FormatField| format & field.mask == field.mask;
    FIELDS.iter().filter(there).filter(move |field| {
        let first = FIELDS
            .iter()
            .filter(there)
            .find(|other| other.name == field.name);
        first.is_some_and(|first| first.mask == field.mask)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATIONS: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Prefetch];

    #[test]
    fn no_row_of_a_table_hides_another() {
        let tables = [&intel::INTEL]
            .into_iter()
            .chain(amd::ALL)
            .chain(zhaoxin::ALL);
        for events in tables {
            for row in events.cache {
                let same = |other: &&CacheEvents| {
                    other.cache == row.cache && other.operation == row.operation
                };
                assert_eq!(events.cache.iter().filter(same).count(), 1);
                assert!(OPERATIONS.contains(&row.operation));
            }
            for event in events.named {
                let same = |other: &&NamedEvent| other.name == event.name;
                assert_eq!(events.named.iter().filter(same).count(), 1);
            }
        }
    }
}
