// SPDX-License-Identifier: GPL-2.0

//! The events from K7 to family 16H (`arch/x86/events/amd/core.c`, and the BIOS and
//! Kernel Developer's Guides).

use super::super::{
    cache::{
        counted,
        invalid,
        Cache,
        CacheEvents,
        Operation, //
    },
    constraint::{
        Constraint,
        Constraints,
        UnitMask, //
    },
    event::EventSel,
    extra::ExtraEvents,
    lvtpc::LvtpcOrder,
    named::{
        always,
        EventName,
        Events,
        NamedEvent, //
    },
    period::PeriodLimit,
    topdown::Topdown, //
};

/// K7 to family 16H, except for the CPUs below.
pub(super) static K7: Events = before_zen(&[]);

/// K7 to family 16H with several cores that share a northbridge, whose events the cores'
/// counters count. Two cores must not count such an event on the same counter
/// (BKDG family 10H, "Performance Monitor Counters"). The driver does not
/// coordinate the cores, so it does not offer these events.
pub(super) static K7_SHARED: Events =
    before_zen(&[Constraint::new(0x0e0, 0x0e0, UnitMask::Any, 0)]);

/// The events of these families with the constraints `gp`.
pub(super) const fn before_zen(gp: &'static [Constraint]) -> Events {
    Events {
        named: &[&K7_NAMED],
        cache: &[&K7_CACHE],
        constraints: Constraints { fixed: &[], gp },
        extra: ExtraEvents::NONE,
        topdown: Topdown::NONE,
        transactions: &[],
        period_limit: PeriodLimit::NONE,
        needs_clearing: false,
        // Of these CPUs' APICs only one that older KVM emulates masks LVTPC.
        lvtpc_order: LvtpcOrder::Middle,
        format: EventSel::AMD,
        assumes_rates: false,
    }
}

/// `amd_perfmon_event_map`
const K7_NAMED: [NamedEvent; 8] = [
    always(EventName::CpuCycles, 0x0076),
    always(EventName::Instructions, 0x00c0),
    always(EventName::CacheReferences, 0x077d),
    always(EventName::CacheMisses, 0x077e),
    always(EventName::BranchInstructions, 0x00c2),
    always(EventName::BranchMisses, 0x00c3),
    always(EventName::StalledCyclesFrontend, 0x00d0),
    always(EventName::StalledCyclesBackend, 0x00d1),
];

/// `amd_hw_cache_event_ids`
const K7_CACHE: [CacheEvents; 17] = [
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
