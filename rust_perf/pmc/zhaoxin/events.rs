// SPDX-License-Identifier: GPL-2.0

//! Zhaoxin's and Centaur's events, from the tables in
//! `arch/x86/events/zhaoxin/core.c`.

use super::super::{
    cache::{
        counted,
        invalid,
        Cache,
        CacheEvents,
        Operation, //
    },
    constraint::{
        Constraints,
        FixedEvent, //
    },
    event::EventSel,
    extra::ExtraEvents,
    lvtpc::LvtpcOrder,
    named::{
        always,
        architectural,
        EventName,
        Events,
        NamedEvent, //
    },
    period::PeriodLimit,
    topdown::Topdown, //
};

/// All tables.
#[cfg(test)]
pub(in super::super) static ALL: [&Events; 3] = [&ZXC, &ZXD, &ZXE];

/// The ZXC: family 6, models 0FH (from stepping EH on) and 19H.
pub(in super::super) static ZXC: Events = Events {
    named: &[&[architectural(0, EventName::CpuCycles, 0x0082)]],
    cache: &[],
    // `zxc_event_constraints`
    constraints: Constraints {
        fixed: &[FixedEvent::new(0x0082, 1)],
        gp: &[],
    },
    extra: ExtraEvents::NONE,
    topdown: Topdown::NONE,
    transactions: &[],
    period_limit: PeriodLimit::NONE,
    needs_clearing: false,
    lvtpc_order: LvtpcOrder::Early,
    format: EventSel::COMMON,
    assumes_rates: false,
};

/// The ZXD: family 7, model 1BH.
pub(in super::super) static ZXD: Events = Events {
    named: &[&named(0x0700, 0x0709)],
    cache: &[&ZXD_CACHE],
    constraints: ZXD_CONSTRAINTS,
    extra: ExtraEvents::NONE,
    topdown: Topdown::NONE,
    transactions: &[],
    period_limit: PeriodLimit::NONE,
    needs_clearing: false,
    lvtpc_order: LvtpcOrder::Early,
    format: EventSel::COMMON,
    assumes_rates: false,
};

/// The ZXE: family 7, model 3BH.
pub(in super::super) static ZXE: Events = Events {
    named: &[&named(0x0028, 0x0029)],
    cache: &[&ZXE_CACHE],
    constraints: ZXD_CONSTRAINTS,
    extra: ExtraEvents::NONE,
    topdown: Topdown::NONE,
    transactions: &[],
    period_limit: PeriodLimit::NONE,
    needs_clearing: false,
    lvtpc_order: LvtpcOrder::Early,
    format: EventSel::COMMON,
    assumes_rates: false,
};

/// `zxd_event_constraints`
const ZXD_CONSTRAINTS: Constraints = Constraints {
    fixed: &[
        FixedEvent::new(0x00c0, 0),
        FixedEvent::new(0x0082, 1),
        FixedEvent::new(0x0083, 2),
    ],
    gp: &[],
};

/// `zx_pmon_event_map`. The two encodings differ between the models of family 7.
const fn named(branches: u64, branch_misses: u64) -> [NamedEvent; 9] {
    [
        architectural(0, EventName::CpuCycles, 0x0082),
        architectural(1, EventName::Instructions, 0x00c0),
        architectural(3, EventName::CacheReferences, 0x0515),
        architectural(4, EventName::CacheMisses, 0x051a),
        architectural(5, EventName::BranchInstructions, branches),
        architectural(6, EventName::BranchMisses, branch_misses),
        architectural(2, EventName::BusCycles, 0x0083),
        always(
            EventName::StalledCyclesFrontend,
            EventSel::from_raw(0x0101)
                .with(EventSel::INV, 1)
                .with(EventSel::CMASK, 1)
                .into_raw(),
        ),
        always(EventName::StalledCyclesBackend, 0x040f),
    ]
}

/// `zxd_hw_cache_event_ids`
const ZXD_CACHE: [CacheEvents; 21] = [
    counted(Cache::L1d, Operation::Read, 0x0042, 0x0538),
    counted(Cache::L1d, Operation::Write, 0x0043, 0x0562),
    invalid(Cache::L1d, Operation::Prefetch),
    counted(Cache::L1i, Operation::Read, 0x0300, 0x0301),
    invalid(Cache::L1i, Operation::Write),
    counted(Cache::L1i, Operation::Prefetch, 0x030a, 0x030b),
    invalid(Cache::Ll, Operation::Read),
    invalid(Cache::Ll, Operation::Write),
    invalid(Cache::Ll, Operation::Prefetch),
    counted(Cache::Dtlb, Operation::Read, 0x0042, 0x052c),
    counted(Cache::Dtlb, Operation::Write, 0x0043, 0x0530),
    counted(Cache::Dtlb, Operation::Prefetch, 0x0564, 0x0565),
    counted(Cache::Itlb, Operation::Read, 0x00c0, 0x0534),
    invalid(Cache::Itlb, Operation::Write),
    invalid(Cache::Itlb, Operation::Prefetch),
    counted(Cache::Bpu, Operation::Read, 0x0700, 0x0709),
    invalid(Cache::Bpu, Operation::Write),
    invalid(Cache::Bpu, Operation::Prefetch),
    invalid(Cache::Node, Operation::Read),
    invalid(Cache::Node, Operation::Write),
    invalid(Cache::Node, Operation::Prefetch),
];

/// `zxe_hw_cache_event_ids`
const ZXE_CACHE: [CacheEvents; 18] = [
    counted(Cache::L1d, Operation::Read, 0x0568, 0x054b),
    counted(Cache::L1d, Operation::Write, 0x0669, 0x0562),
    invalid(Cache::L1d, Operation::Prefetch),
    counted(Cache::L1i, Operation::Read, 0x0300, 0x0301),
    invalid(Cache::L1i, Operation::Write),
    counted(Cache::L1i, Operation::Prefetch, 0x030a, 0x030b),
    counted(Cache::Dtlb, Operation::Read, 0x0568, 0x052c),
    counted(Cache::Dtlb, Operation::Write, 0x0669, 0x0530),
    counted(Cache::Dtlb, Operation::Prefetch, 0x0564, 0x0565),
    counted(Cache::Itlb, Operation::Read, 0x00c0, 0x0534),
    invalid(Cache::Itlb, Operation::Write),
    invalid(Cache::Itlb, Operation::Prefetch),
    counted(Cache::Bpu, Operation::Read, 0x0028, 0x0029),
    invalid(Cache::Bpu, Operation::Write),
    invalid(Cache::Bpu, Operation::Prefetch),
    invalid(Cache::Node, Operation::Read),
    invalid(Cache::Node, Operation::Write),
    invalid(Cache::Node, Operation::Prefetch),
];
