// SPDX-License-Identifier: GPL-2.0

//! AMD's and Hygon's events, from the tables in `arch/x86/events/amd/core.c`, the
//! BIOS and Kernel Developer's Guides (BKDG) and the Processor Programming
//! References (PPR).

use super::super::{
    constraint::{
        Constraint,
        Constraints,
        UnitMask, //
    },
    event::EventSel,
    named::{
        always,
        counted,
        invalid,
        Cache,
        CacheEvents,
        EventName,
        Events,
        NamedEvent,
        Operation, //
    }, //
};

/// All tables.
#[cfg(test)]
pub(in super::super) static ALL: [&Events; 6] = [&K7, &K7_SHARED, &F15H, &ZEN1, &ZEN2, &ZEN4];

/// K7 to family 16H, except for the CPUs below.
pub(super) static K7: Events = before_zen(&[]);

/// The same CPUs if several cores share the northbridge, whose events the cores'
/// counters count. Two cores must not count such an event on the same counter
/// (BKDG family 10H, "Performance Monitor Counters"). The driver does not
/// coordinate the cores, so it does not offer these events.
pub(super) static K7_SHARED: Events =
    before_zen(&[Constraint::new(0x0e0, 0x0e0, UnitMask::Any, NONE)]);

/// Family 15H.
pub(super) static F15H: Events = before_zen(&F15H_CONSTRAINTS);

/// Zen 1 and Zen+, and Hygon.
pub(super) static ZEN1: Events = zen(&ZEN1_NAMED);

/// Zen 2 and 3.
pub(super) static ZEN2: Events = zen(&ZEN2_NAMED);

/// Zen 4 and later.
pub(super) static ZEN4: Events = zen(&ZEN4_NAMED);

const fn before_zen(gp: &'static [Constraint]) -> Events {
    Events {
        named: &K7_NAMED,
        cache: &K7_CACHE,
        constraints: Constraints { fixed: &[], gp },
        format: EventSel::AMD,
    }
}

const fn zen(named: &'static [NamedEvent]) -> Events {
    Events {
        named,
        cache: &ZEN_CACHE,
        constraints: Constraints {
            fixed: &[],
            gp: &ZEN_CONSTRAINTS,
        },
        format: EventSel::AMD,
    }
}

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

/// PPR family 17H, "Large Increment per Cycle Events": more floating-point
/// operations can retire in a cycle than one counter can add. The event needs two
/// merged counters, which the assignment does not support.
static ZEN_CONSTRAINTS: [Constraint; 1] = [Constraint::new(0xfff, 0x003, UnitMask::Any, NONE)];

/// `amd_perfmon_event_map`
static K7_NAMED: [NamedEvent; 8] = [
    always(EventName::CpuCycles, 0x0076),
    always(EventName::Instructions, 0x00c0),
    always(EventName::CacheReferences, 0x077d),
    always(EventName::CacheMisses, 0x077e),
    always(EventName::BranchInstructions, 0x00c2),
    always(EventName::BranchMisses, 0x00c3),
    always(EventName::StalledCyclesFrontend, 0x00d0),
    always(EventName::StalledCyclesBackend, 0x00d1),
];

/// `amd_zen1_perfmon_event_map`
static ZEN1_NAMED: [NamedEvent; 8] = [
    always(EventName::CpuCycles, 0x0076),
    always(EventName::Instructions, 0x00c0),
    always(EventName::CacheReferences, 0xff60),
    always(EventName::CacheMisses, 0x0964),
    always(EventName::BranchInstructions, 0x00c2),
    always(EventName::BranchMisses, 0x00c3),
    always(EventName::StalledCyclesFrontend, 0x0287),
    always(EventName::StalledCyclesBackend, 0x0187),
];

/// `amd_zen2_perfmon_event_map`
static ZEN2_NAMED: [NamedEvent; 7] = [
    always(EventName::CpuCycles, 0x0076),
    always(EventName::Instructions, 0x00c0),
    always(EventName::CacheReferences, 0xff60),
    always(EventName::CacheMisses, 0x0964),
    always(EventName::BranchInstructions, 0x00c2),
    always(EventName::BranchMisses, 0x00c3),
    always(EventName::StalledCyclesFrontend, 0x00a9),
];

/// `amd_zen4_perfmon_event_map`
static ZEN4_NAMED: [NamedEvent; 8] = [
    always(EventName::CpuCycles, 0x0076),
    always(EventName::Instructions, 0x00c0),
    always(EventName::CacheReferences, 0xff60),
    always(EventName::CacheMisses, 0x0964),
    always(EventName::BranchInstructions, 0x00c2),
    always(EventName::BranchMisses, 0x00c3),
    always(EventName::StalledCyclesFrontend, 0x00a9),
    always(EventName::RefCycles, 0x1_0000_0120),
];

/// `amd_hw_cache_event_ids`
static K7_CACHE: [CacheEvents; 17] = [
    counted(Cache::L1d, Operation::Read, 0x0040, 0x0141),
    counted(Cache::L1d, Operation::Prefetch, 0x0267, 0x0167),
    counted(Cache::L1i, Operation::Read, 0x0080, 0x0081),
    invalid(Cache::L1i, Operation::Write),
    counted(Cache::L1i, Operation::Prefetch, 0x014b, 0),
    counted(Cache::Ll, Operation::Read, 0x037d, 0x037e),
    counted(Cache::Ll, Operation::Write, 0x017f, 0),
    counted(Cache::Dtlb, Operation::Read, 0x0040, 0x0746),
    counted(Cache::Itlb, Operation::Read, 0x0080, 0x0385),
    invalid(Cache::Itlb, Operation::Write),
    invalid(Cache::Itlb, Operation::Prefetch),
    counted(Cache::Bpu, Operation::Read, 0x00c2, 0x00c3),
    invalid(Cache::Bpu, Operation::Write),
    invalid(Cache::Bpu, Operation::Prefetch),
    counted(Cache::Node, Operation::Read, 0xb8e9, 0x98e9),
    invalid(Cache::Node, Operation::Write),
    invalid(Cache::Node, Operation::Prefetch),
];

/// `amd_hw_cache_event_ids_f17h`
static ZEN_CACHE: [CacheEvents; 13] = [
    counted(Cache::L1d, Operation::Read, 0x0040, 0xc860),
    counted(Cache::L1d, Operation::Prefetch, 0xff5a, 0),
    counted(Cache::L1i, Operation::Read, 0x0080, 0x0081),
    invalid(Cache::L1i, Operation::Write),
    counted(Cache::Dtlb, Operation::Read, 0xff45, 0xf045),
    counted(Cache::Itlb, Operation::Read, 0x0084, 0xff85),
    invalid(Cache::Itlb, Operation::Write),
    invalid(Cache::Itlb, Operation::Prefetch),
    counted(Cache::Bpu, Operation::Read, 0x00c2, 0x00c3),
    invalid(Cache::Bpu, Operation::Write),
    invalid(Cache::Bpu, Operation::Prefetch),
    invalid(Cache::Node, Operation::Write),
    invalid(Cache::Node, Operation::Prefetch),
];
