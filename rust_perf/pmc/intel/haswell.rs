// SPDX-License-Identifier: GPL-2.0

//! Haswell. There are eight GP counters if Hyper-Threading is off, otherwise four.

use super::{
    super::{
        cache::{
            counted,
            offcore,
            Cache,
            CacheEvents,
            Operation, //
        },
        constraint::{
            Constraint,
            Constraints, //
        },
        named::Events,
        period::PeriodLimit, //
    },
    events::{
        with,
        NO_SUCH_OPERATION,
        PSEUDO,
        THREE_FIXED, //
    },
    sandy_bridge,
    topdown,
    transactions, //
};

/// In-tree: `intel_hsw_event_constraints`.
pub(super) static HASWELL: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // L1D_PEND_MISS.PENDING.
        Constraint::code(0x0148, 0b0100),
        // INST_RETIRED.PREC_DIST.
        Constraint::code(0x01c0, 0b0010),
        // MEM_TRANS_RETIRED.
        Constraint::event(0xcd, 0b1000),
        // CYCLE_ACTIVITY: L1D misses pending; without execution.
        Constraint::code(0x08a3, 0b0100),
        Constraint::code(0x0ca3, 0b0100),
        Constraint::code(0x04a3, 0xf),
        // MEM_UOPS_RETIRED, MEM_LOAD_UOPS_*.
        Constraint::events(0xd0, 0xd3, 0xf).exclusive(),
    ],
})
.with_cache(&[&CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION])
.with_extra(sandy_bridge::SERVER_EXTRA)
.with_topdown(topdown::SANDY_BRIDGE)
.with_transactions(transactions::HASWELL)
.with_late_unmasking()
// Erratum HSW11. With less than 32 of other events, one NMI may find two overflows. In-tree:
// `hsw_limit_period()`.
.with_period_limit(PeriodLimit::at_least(32).inst_retired_at_least(128, 1));

/// What is within the core, on Broadwell, too. In-tree: `hsw_hw_cache_event_ids`.
pub(super) const CACHE: [CacheEvents; 7] = [
    counted(Cache::L1d, Operation::Read, 0x81d0, 0x0151),
    counted(Cache::L1d, Operation::Write, 0x82d0, 0),
    counted(Cache::L1i, Operation::Read, 0, 0x0280),
    counted(Cache::Dtlb, Operation::Read, 0x81d0, 0x0108),
    counted(Cache::Dtlb, Operation::Write, 0x82d0, 0x0149),
    counted(Cache::Itlb, Operation::Read, 0x6085, 0x0185),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x00c5),
];

/// In-tree: `hsw_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 4] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0x3f_b840_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x3f_b840_0002,
    ),
    offcore(
        Cache::Node,
        Operation::Read,
        0x01b7,
        0x1f_8040_0001,
        0x1f_b800_0001,
    ),
    offcore(
        Cache::Node,
        Operation::Write,
        0x01b7,
        0x1f_8040_0002,
        0x1f_b800_0002,
    ),
];
