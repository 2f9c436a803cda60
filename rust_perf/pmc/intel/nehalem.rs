// SPDX-License-Identifier: GPL-2.0

//! Nehalem.

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
        event::EventSel,
        extra::{
            Encoding,
            ExtraEvents,
            ExtraRegister, //
        },
        named::{
            always,
            EventName,
            Events,
            NamedEvent, //
        },
        period::PeriodLimit, //
    },
    events::{
        with,
        NAMED,
        NO_SUCH_OPERATION,
        PSEUDO,
        THREE_FIXED, //
    }, //
};

/// In-tree: `intel_nehalem_event_constraints`.
pub(super) static NEHALEM: Events = with(Constraints {
    fixed: THREE_FIXED,
    gp: &[
        PSEUDO,
        // L1D_CACHE_LD, L1D_CACHE_ST, L1D_CACHE_LOCK, L1D_ALL_REF.
        Constraint::events(0x40, 0x43, 0b0011),
        // L1D_PEND_MISS.
        Constraint::event(0x48, 0b0011),
        // L1D_PREFETCH.
        Constraint::event(0x4e, 0b0011),
        // L1D.
        Constraint::event(0x51, 0b0011),
        // CACHE_LOCK_CYCLES.
        Constraint::event(0x63, 0b0011),
    ],
})
.with_named(&[&NAMED, &BRANCH_MISSES, &FRONTEND_STALLS, &BACKEND_STALLS])
.with_cache(&[&CACHE, &OFFCORE_CACHE, &NO_SUCH_OPERATION])
.with_extra(EXTRA)
// In-tree: `nhm_limit_period()`.
.with_period_limit(PeriodLimit::at_least(32))
.with_clearing();

/// In-tree: `intel_nehalem_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0xffff)],
    // MEM_INST_RETIRED.LATENCY_ABOVE_THRESHOLD.
    &[Encoding::new(0x100b, ExtraRegister::LoadLatency, 0xffff)],
]);

/// In-tree: `nehalem_hw_cache_event_ids`.
const CACHE: [CacheEvents; 8] = [
    counted(Cache::L1d, Operation::Read, 0x010b, 0x0151),
    counted(Cache::L1d, Operation::Write, 0x020b, 0x0251),
    counted(Cache::L1d, Operation::Prefetch, 0x014e, 0x024e),
    counted(Cache::L1i, Operation::Read, 0x0380, 0x0280),
    counted(Cache::Dtlb, Operation::Read, 0x0f40, 0x0108),
    counted(Cache::Dtlb, Operation::Write, 0x0f41, 0x010c),
    counted(Cache::Itlb, Operation::Read, 0x01c0, 0x20c8),
    counted(Cache::Bpu, Operation::Read, 0x00c4, 0x03e8),
];

/// What is outside the core, on Westmere, too: requests in bits 7:0, responses in bits 15:8
/// (SDM vol. 3, "Off-core Response Performance Monitoring"). In-tree:
/// `nehalem_hw_cache_extra_regs`.
pub(super) const OFFCORE_CACHE: [CacheEvents; 6] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0xf701, 0xf001),
    offcore(Cache::Ll, Operation::Write, 0x01b7, 0xf70a, 0xf00a),
    offcore(Cache::Ll, Operation::Prefetch, 0x01b7, 0xf730, 0xf030),
    offcore(Cache::Node, Operation::Read, 0x01b7, 0x7001, 0x2001),
    offcore(Cache::Node, Operation::Write, 0x01b7, 0x700a, 0x200a),
    offcore(Cache::Node, Operation::Prefetch, 0x01b7, 0x7030, 0x2030),
];

/// BR_MISP_EXEC.ANY, where CPUID says that the architectural event does not work (erratum
/// AAJ80). It counts too many.
const BRANCH_MISSES: [NamedEvent; 1] = [always(EventName::BranchMisses, 0x7f89)];

/// Cycles without UOPS_ISSUED.ANY, until Ivy Bridge.
pub(super) const FRONTEND_STALLS: [NamedEvent; 1] =
    [always(EventName::StalledCyclesFrontend, without(0x010e))];

/// Cycles without UOPS_EXECUTED.CORE_ACTIVE_CYCLES, on Westmere, too.
pub(super) const BACKEND_STALLS: [NamedEvent; 1] =
    [always(EventName::StalledCyclesBackend, without(0x3fb1))];

/// Counts the cycles without the event of this code.
pub(super) const fn without(code: u64) -> u64 {
    EventSel::from_raw(code)
        .with(EventSel::INV, 1)
        .with(EventSel::CMASK, 1)
        .into_raw()
}
