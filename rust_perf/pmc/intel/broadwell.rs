// SPDX-License-Identifier: GPL-2.0

//! Broadwell. There are eight GP counters if Hyper-Threading is off, otherwise four.

use super::{
    super::{
        cache::{
            offcore,
            Cache,
            CacheEvents,
            Operation, //
        },
        constraint::{
            Constraint,
            Constraints,
            UnitMask, //
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
    haswell,
    sandy_bridge,
    topdown,
    transactions, //
};

/// In-tree: `intel_bdw_event_constraints`.
pub(super) static BROADWELL: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // L1D_PEND_MISS.PENDING.
        Constraint::code(0x0148, 0b0100),
        // CYCLE_ACTIVITY: L1D misses pending, with any other condition.
        Constraint::new(0xff, 0xa3, UnitMask::Has(0x08), 0b0100),
        // MEM_TRANS_RETIRED.
        Constraint::event(0xcd, 0xf),
        // MEM_UOPS_RETIRED, MEM_LOAD_UOPS_*.
        Constraint::events(0xd0, 0xd2, 0xf),
    ],
})
.with_cache(&[&haswell::CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION])
.with_extra(sandy_bridge::SERVER_EXTRA)
.with_topdown(topdown::SANDY_BRIDGE)
.with_transactions(transactions::HASWELL)
.with_late_unmasking()
// Errata BDM11 and BDM55. In-tree: `bdw_limit_period()`.
.with_period_limit(PeriodLimit::NONE.inst_retired_at_least(128, 64));

/// As on Haswell, but local memory is another bit. In-tree: `intel_pmu_init()`.
const OFFCORE_CACHE: [CacheEvents; 4] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0x1f_bc00_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x1f_bc00_0002,
    ),
    offcore(
        Cache::Node,
        Operation::Read,
        0x01b7,
        0x1f_8400_0001,
        0x1f_b800_0001,
    ),
    offcore(
        Cache::Node,
        Operation::Write,
        0x01b7,
        0x1f_8400_0002,
        0x1f_b800_0002,
    ),
];
