// SPDX-License-Identifier: GPL-2.0

//! Intel's architectural events.
//!
//! perf's cache events are not architectural. Of the other events of the models, the
//! tables in this folder have those that not every counter can count, and those that
//! need a further register.

use super::super::{
    cache::{
        invalid,
        Cache,
        CacheEvents,
        Operation, //
    },
    constraint::{
        Constraint,
        Constraints,
        FixedEvent,
        UnitMask, //
    },
    event::EventSel,
    extra::ExtraEvents,
    lvtpc::LvtpcOrder,
    named::{
        architectural,
        fixed,
        EventName,
        Events,
        NamedEvent, //
    },
    period::PeriodLimit,
    topdown::Topdown, //
};

/// The events of every CPU with architectural performance monitoring.
pub(in super::super) static EVENTS: Events = with(CONSTRAINTS);

/// The constraints of models with three fixed counters, whose GP counters count every
/// event.
pub(super) const SIMPLE: Constraints = Constraints {
    fixed: THREE_FIXED,
    gp: &[PSEUDO],
};

/// The architectural events with these constraints.
pub(super) const fn with(constraints: Constraints) -> Events {
    Events {
        named: &[&NAMED],
        cache: &[],
        constraints,
        extra: ExtraEvents::NONE,
        topdown: Topdown::NONE,
        transactions: &[],
        period_limit: PeriodLimit::NONE,
        needs_clearing: false,
        lvtpc_order: LvtpcOrder::Early,
        // PC is ignored. It is named because the in-tree driver names it.
        format: EventSel::COMMON | EventSel::PC.mask(),
        assumes_rates: true,
    }
}

/// The constraints of the architectural events.
pub(in super::super) const CONSTRAINTS: Constraints = Constraints {
    fixed: &FIXED,
    gp: &[PSEUDO],
};

/// The unit masks of event select 0 are pseudo-encodings for what fixed counters
/// count. A GP counter counts nothing for them.
pub(super) const PSEUDO: Constraint = Constraint::new(0xff, 0x00, UnitMask::NotZero, 0);

/// What the fixed counters of models with three of them count. In-tree:
/// `intel_gen_event_constraints`.
pub(super) const THREE_FIXED: &[FixedEvent] = &[
    FixedEvent::new(0x00c0, 0),
    FixedEvent::new(0x003c, 1),
    FixedEvent::new(0x0300, 2),
];

/// SDM vol. 3, table "Association of Fixed-Function Performance Counters with
/// Architectural Performance Events". From fixed counter 2 on there is no
/// PERFEVTSEL encoding, and the code is the kernel's pseudo-encoding: unit mask
/// *i* + 1 for fixed counter *i* (`arch/x86/include/asm/perf_event.h`).
const FIXED: [FixedEvent; 16] = [
    // INST_RETIRED.ANY
    FixedEvent::new(0x00c0, 0),
    // CPU_CLK_UNHALTED.THREAD
    FixedEvent::new(0x003c, 1),
    // CPU_CLK_UNHALTED.REF_TSC
    FixedEvent::new(0x0300, 2),
    // TOPDOWN.SLOTS
    FixedEvent::new(0x0400, 3),
    // The remaining ones are not architectural.
    FixedEvent::new(0x0500, 4),
    FixedEvent::new(0x0600, 5),
    FixedEvent::new(0x0700, 6),
    FixedEvent::new(0x0800, 7),
    FixedEvent::new(0x0900, 8),
    FixedEvent::new(0x0a00, 9),
    FixedEvent::new(0x0b00, 10),
    FixedEvent::new(0x0c00, 11),
    FixedEvent::new(0x0d00, 12),
    FixedEvent::new(0x0e00, 13),
    FixedEvent::new(0x0f00, 14),
    FixedEvent::new(0x1000, 15),
];

/// SDM vol. 3, table "UMask and Event Select Encodings for Pre-Defined
/// Architectural Performance Events". `ref-cycles` and `slots` have the
/// pseudo-encodings of fixed counters 2 and 3.
pub(super) const NAMED: [NamedEvent; 9] = [
    architectural(0, EventName::CpuCycles, 0x003c),
    architectural(1, EventName::Instructions, 0x00c0),
    architectural(3, EventName::CacheReferences, 0x4f2e),
    architectural(4, EventName::CacheMisses, 0x412e),
    architectural(5, EventName::BranchInstructions, 0x00c4),
    architectural(6, EventName::BranchMisses, 0x00c5),
    architectural(2, EventName::BusCycles, 0x013c),
    fixed(2, EventName::RefCycles, 0x0300),
    fixed(3, EventName::Slots, 0x0400),
];

/// `ref-cycles` of models on which general counters count them, too, as the architectural
/// event `bus-cycles`. In-tree: `intel_pmu_ref_cycles_ext()`.
pub(super) const REF_CYCLES: [NamedEvent; 1] = [architectural(2, EventName::RefCycles, 0x013c)];

/// The operations that these caches do not have on any model.
pub(super) const NO_SUCH_OPERATION: [CacheEvents; 5] = [
    invalid(Cache::L1i, Operation::Write),
    invalid(Cache::Itlb, Operation::Write),
    invalid(Cache::Itlb, Operation::Prefetch),
    invalid(Cache::Bpu, Operation::Write),
    invalid(Cache::Bpu, Operation::Prefetch),
];
