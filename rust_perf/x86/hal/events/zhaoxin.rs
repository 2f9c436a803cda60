// SPDX-License-Identifier: GPL-2.0

//! Zhaoxin's and Centaur's events. Their counters are Intel's of version 2,
//! the encodings are their own: those of the tables in
//! `arch/x86/events/zhaoxin/core.c`, for the models that are known there.

use super::{
    always,
    architectural,
    counted,
    invalid,
    Cache,
    CacheEvents,
    Events,
    Name,
    NamedEvent,
    Operation, //
};
use crate::pmc::event::{
    Constraints,
    EventSel,
    FixedEvent, //
};

/// All tables.
#[cfg(test)]
pub(super) static ALL: [&Events; 3] = [&ZXC, &ZXD, &ZXE];

/// Like family 6, models 0FH, from stepping EH on, and 19H.
pub(in super::super) static ZXC: Events = Events {
    named: &[architectural(0, Name::CpuCycles, 0x0082)],
    cache: &[],
    // `zxc_event_constraints`
    constraints: Constraints {
        fixed: &[FixedEvent::new(0x0082, 1)],
        general: &[],
    },
    format: EventSel::COMMON,
};

/// Family 7, model 1BH.
pub(in super::super) static ZXD: Events = Events {
    named: &named(0x0700, 0x0709),
    cache: &ZXD_CACHE,
    constraints: ZXD_CONSTRAINTS,
    format: EventSel::COMMON,
};

/// Family 7, model 3BH.
pub(in super::super) static ZXE: Events = Events {
    named: &named(0x0028, 0x0029),
    cache: &ZXE_CACHE,
    constraints: ZXD_CONSTRAINTS,
    format: EventSel::COMMON,
};

/// `zxd_event_constraints`
const ZXD_CONSTRAINTS: Constraints = Constraints {
    fixed: &[
        FixedEvent::new(0x00c0, 0),
        FixedEvent::new(0x0082, 1),
        FixedEvent::new(0x0083, 2),
    ],
    general: &[],
};

/// `zx_pmon_event_map`, with what differs in family 7.
const fn named(branches: u64, branch_misses: u64) -> [NamedEvent; 9] {
    [
        architectural(0, Name::CpuCycles, 0x0082),
        architectural(1, Name::Instructions, 0x00c0),
        architectural(3, Name::CacheReferences, 0x0515),
        architectural(4, Name::CacheMisses, 0x051a),
        architectural(5, Name::BranchInstructions, branches),
        architectural(6, Name::BranchMisses, branch_misses),
        architectural(2, Name::BusCycles, 0x0083),
        // Cycles in which there are none.
        always(
            Name::StalledCyclesFrontend,
            0x0101 | EventSel::INV | CMASK_1,
        ),
        always(Name::StalledCyclesBackend, 0x040f),
    ]
}

const CMASK_1: u64 = 1 << 24;

/// `zxd_hw_cache_event_ids`
static ZXD_CACHE: [CacheEvents; 21] = [
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
static ZXE_CACHE: [CacheEvents; 18] = [
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
