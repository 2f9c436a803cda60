// SPDX-License-Identifier: GPL-2.0

//! The events of a kind of CPU: their names for perf and in sysfs, the fields of
//! `attr.config`, and which counters can count what.
//!
//! The tables are in the vendors' folders.

use super::{
    cache::{
        self,
        CacheEvent,
        CacheEvents, //
    },
    constraint::Constraints,
    event::EventSel,
    extra::ExtraEvents,
    lvtpc::LvtpcOrder,
    period::PeriodLimit,
    topdown::Topdown,
    transactions, //
};
use core::{
    ffi::CStr,
    fmt, //
};

/// The events of a kind of CPU.
pub(super) struct Events {
    /// The events that have a name.
    pub(super) named: &'static [&'static [NamedEvent]],
    /// perf's cache events.
    pub(super) cache: &'static [&'static [CacheEvents]],
    /// Which counters can count which events.
    pub(super) constraints: Constraints,
    /// Which events need an extra register.
    pub(super) extra: ExtraEvents,
    /// The events for top-down analysis.
    pub(super) topdown: Topdown,
    /// The files of the events of transactions, if some CPUs with this table have these.
    pub(super) transactions: transactions::Files,
    /// From where on counters count right.
    pub(super) period_limit: PeriodLimit,
    /// Whether GP counters must be cleared before they count a new event.
    pub(super) needs_clearing: bool,
    /// When the handler of a PMI unmasks LVTPC.
    pub(super) lvtpc_order: LvtpcOrder,
    /// The bits of `attr.config` that `format/` in sysfs names.
    pub(super) format: u64,
    /// Whether the first period of an event that is sampled at a frequency depends on its rate, if
    /// there is a global control: see [`frequency`](super::frequency).
    pub(super) assumes_rates: bool,
}

/// The name of an event. Up to [`Self::RefCycles`] the numbers are those of
/// `enum perf_hw_id` (`include/uapi/linux/perf_event.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventName {
    /// Cycles while not halted.
    CpuCycles,
    /// Retired instructions.
    Instructions,
    /// Accesses to the last-level cache.
    CacheReferences,
    /// Misses of the last-level cache.
    CacheMisses,
    /// Retired branches.
    BranchInstructions,
    /// Mispredicted branches.
    BranchMisses,
    /// Bus cycles while not halted.
    BusCycles,
    /// Cycles in which the front end delivers nothing.
    StalledCyclesFrontend,
    /// Cycles in which the back end accepts nothing.
    StalledCyclesBackend,
    /// Cycles of a clock with a fixed rate, while not halted.
    RefCycles,
    /// Issue slots of the pipeline. No generic event of perf.
    Slots,
}

impl EventName {
    /// The files of this event in sysfs. The first is the in-tree driver's.
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
    pub name: EventName,
    /// Its encoding in `attr.config`.
    pub config: u64,
    /// What tells whether the CPU has it.
    pub(super) presence: Presence,
}

impl NamedEvent {
    /// The encoding as the perf tool parses it and as sysfs shows it.
    pub const fn terms(&self) -> Terms {
        Terms(EventSel::from_raw(self.config))
    }
}

/// Prints an encoding field by field.
#[derive(Clone, Copy)]
pub struct Terms(pub(super) EventSel);

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Terms(event) = self;
        write!(f, "event={:#04x}", event.event12())?;
        let umask = event.get(EventSel::UMASK);
        if umask != 0 {
            write!(f, ",umask={umask:#04x}")?;
        }
        if event.has(EventSel::EDGE) {
            write!(f, ",edge")?;
        }
        if event.has(EventSel::INV) {
            write!(f, ",inv")?;
        }
        let cmask = event.get(EventSel::CMASK);
        if cmask != 0 {
            write!(f, ",cmask={cmask:#04x}")?;
        }
        Ok(())
    }
}

/// What tells whether a CPU has an event.
#[derive(Clone, Copy)]
pub(super) enum Presence {
    /// It is the architectural event with this bit in CPUID.
    Architectural(u8),
    /// It is what this fixed counter counts.
    Fixed(u8),
    /// Every CPU with this table has it.
    Always,
}

/// An event that every CPU with this table has.
pub(super) const fn always(name: EventName, config: u64) -> NamedEvent {
    NamedEvent {
        name,
        config,
        presence: Presence::Always,
    }
}

/// The architectural event with this bit in CPUID.
pub(super) const fn architectural(bit: u8, name: EventName, config: u64) -> NamedEvent {
    NamedEvent {
        name,
        config,
        presence: Presence::Architectural(bit),
    }
}

/// The event that only this fixed counter counts.
pub(super) const fn fixed(counter: u8, name: EventName, config: u64) -> NamedEvent {
    NamedEvent {
        name,
        config,
        presence: Presence::Fixed(counter),
    }
}

impl Events {
    /// These events, of which `extra` says which need an extra register.
    pub(super) const fn with_extra(self, extra: ExtraEvents) -> Self {
        Events { extra, ..self }
    }

    /// These events, with names. Of rows with the same name, the first one applies
    /// whose event the CPU has.
    pub(super) const fn with_named(self, named: &'static [&'static [NamedEvent]]) -> Self {
        Events { named, ..self }
    }

    /// These events, with `topdown` for top-down analysis.
    pub(super) const fn with_topdown(self, topdown: Topdown) -> Self {
        Events { topdown, ..self }
    }

    /// These events, with `transactions` if the CPU has transactions.
    pub(super) const fn with_transactions(self, transactions: transactions::Files) -> Self {
        Events {
            transactions,
            ..self
        }
    }

    /// These events, if the CPU counts right only from the distances of `period_limit` on.
    pub(super) const fn with_period_limit(self, period_limit: PeriodLimit) -> Self {
        Events {
            period_limit,
            ..self
        }
    }

    /// These events, if GP counters count right only after they have been cleared.
    pub(super) const fn with_clearing(self) -> Self {
        Events {
            needs_clearing: true,
            ..self
        }
    }

    /// These events, if the handler of a PMI unmasks LVTPC last.
    pub(super) const fn with_late_unmasking(self) -> Self {
        Events {
            lvtpc_order: LvtpcOrder::Late,
            ..self
        }
    }

    /// These events, if the handler of a PMI unmasks LVTPC between the overflows and the start of the
    /// counters.
    pub(super) const fn with_middle_unmasking(self) -> Self {
        Events {
            lvtpc_order: LvtpcOrder::Middle,
            ..self
        }
    }

    /// These events, with `cache` for perf's cache events.
    pub(super) const fn with_cache(self, cache: &'static [&'static [CacheEvents]]) -> Self {
        Events { cache, ..self }
    }

    /// The cache event with this number: see [`cache::find`].
    pub(super) fn cache_event(&self, id: u64) -> CacheEvent {
        cache::find(self.cache, id)
    }
}

/// A field of `attr.config`.
pub struct FormatField {
    /// Its name in sysfs.
    pub name: &'static CStr,
    /// Its bits, as sysfs shows them.
    pub bits: &'static str,
    pub(super) mask: u64,
}

const fn field(name: &'static CStr, bits: &'static str, mask: u64) -> FormatField {
    FormatField { name, bits, mask }
}

/// See [`EventSel`]. Fields of different vendors share bits.
static FIELDS: [FormatField; 12] = [
    field(
        c"event",
        "0-7,32-35",
        EventSel::EVENT.mask() | EventSel::EVENT_HIGH.mask(),
    ),
    field(c"event", "0-7", EventSel::EVENT.mask()),
    field(
        c"umask",
        "8-15,40-47",
        EventSel::UMASK.mask() | EventSel::UMASK2.mask(),
    ),
    field(c"umask", "8-15", EventSel::UMASK.mask()),
    field(c"edge", "18", EventSel::EDGE.mask()),
    field(c"pc", "19", EventSel::PC.mask()),
    field(c"any", "21", EventSel::ANY.mask()),
    field(c"inv", "23", EventSel::INV.mask()),
    field(c"cmask", "24-31", EventSel::CMASK.mask()),
    field(c"in_tx", "32", EventSel::IN_TX.mask()),
    field(c"in_tx_cp", "33", EventSel::IN_TXCP.mask()),
    field(c"eq", "36", EventSel::EQ.mask()),
];

/// The fields of `attr.config` whose bits are all in `format`, without those that are parts of
/// others.
pub(super) fn format_fields(format: u64) -> impl Iterator<Item = &'static FormatField> {
    let present = move |field: &&FormatField| format & field.mask == field.mask;
    FIELDS.iter().filter(present).filter(move |field| {
        let mut others = FIELDS.iter().filter(present);
        !others.any(|other| other.mask != field.mask && other.mask & field.mask == field.mask)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        amd,
        intel,
        zhaoxin, //
    };
    use super::*;

    /// A row with the name of an earlier one is for CPUs without the earlier event.
    #[test]
    fn no_row_of_a_table_hides_another() {
        let tables = intel::all().chain(amd::all()).chain(zhaoxin::ALL);
        for events in tables {
            let rows: Vec<_> = events.named.iter().copied().flatten().collect();
            for (i, event) in rows.iter().enumerate() {
                let mut earlier = rows.iter().take(i).filter(|row| row.name == event.name);
                assert!(earlier.all(|row| matches!(row.presence, Presence::Architectural(_))));
            }
        }
    }
}
