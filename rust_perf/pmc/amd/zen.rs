// SPDX-License-Identifier: GPL-2.0

//! The events of Zen, from family 17H on, and of Hygon
//! (`arch/x86/events/amd/core.c`, and the Processor Programming References).

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
        Constraints, //
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

/// Zen 1 and Zen+, and Hygon.
pub(super) static ZEN1: Events = zen(&[&ZEN1_NAMED]);

/// Zen 2 and 3.
pub(super) static ZEN2: Events = zen(&[&ZEN2_NAMED]);

/// Zen 4 and later.
pub(super) static ZEN4: Events = zen(&[&ZEN4_NAMED]);

const fn zen(named: &'static [&'static [NamedEvent]]) -> Events {
    Events {
        named,
        cache: &[&ZEN_CACHE],
        constraints: Constraints {
            fixed: &[],
            gp: &ZEN_CONSTRAINTS,
        },
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

/// PPR family 17H, "Large Increment per Cycle Events": more floating-point operations can
/// retire in a cycle than one counter can add, so that the event takes two, which are merged
/// (`amd_is_pair_event_code()`). Nothing enumerates that. In-tree, all CPUs from family 17H on
/// have it if they have PerfCtrExtCore, which only a hypervisor can take away
/// (`amd_core_pmu_init()`). If it did, the event is refused.
static ZEN_CONSTRAINTS: [Constraint; 1] = [Constraint::pair(0x003)];

/// `amd_zen1_perfmon_event_map`
const ZEN1_NAMED: [NamedEvent; 8] = [
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
const ZEN2_NAMED: [NamedEvent; 7] = [
    always(EventName::CpuCycles, 0x0076),
    always(EventName::Instructions, 0x00c0),
    always(EventName::CacheReferences, 0xff60),
    always(EventName::CacheMisses, 0x0964),
    always(EventName::BranchInstructions, 0x00c2),
    always(EventName::BranchMisses, 0x00c3),
    always(EventName::StalledCyclesFrontend, 0x00a9),
];

/// `amd_zen4_perfmon_event_map`
const ZEN4_NAMED: [NamedEvent; 8] = [
    always(EventName::CpuCycles, 0x0076),
    always(EventName::Instructions, 0x00c0),
    always(EventName::CacheReferences, 0xff60),
    always(EventName::CacheMisses, 0x0964),
    always(EventName::BranchInstructions, 0x00c2),
    always(EventName::BranchMisses, 0x00c3),
    always(EventName::StalledCyclesFrontend, 0x00a9),
    always(EventName::RefCycles, 0x1_0000_0120),
];

/// `amd_hw_cache_event_ids_f17h`
const ZEN_CACHE: [CacheEvents; 13] = [
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
