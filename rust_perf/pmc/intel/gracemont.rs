// SPDX-License-Identifier: GPL-2.0

//! Gracemont and Crestmont. Every GP counter counts every event.

use super::{
    super::{
        cache::{
            offcore,
            Cache,
            CacheEvents,
            Operation, //
        },
        constraint::{
            Constraints,
            FixedEvent, //
        },
        extra::{
            Encoding,
            ExtraEvents,
            ExtraRegister, //
        },
        named::Events, //
    },
    events::{
        with,
        NAMED,
        NO_SUCH_OPERATION,
        PSEUDO,
        REF_CYCLES, //
    },
    goldmont,
    topdown,
    tremont, //
};

/// Gracemont without other cores.
pub(super) static GRACEMONT: Events = gracemont().with_topdown(topdown::TREMONT);

/// The efficient cores of Alder Lake and Raptor Lake.
pub(super) static ALDER_LAKE: Events = gracemont().with_topdown(topdown::HYBRID_GRACEMONT);

/// Crestmont without other cores.
pub(super) static CRESTMONT: Events = crestmont().with_topdown(topdown::CRESTMONT);

/// The efficient cores of Meteor Lake and Arrow Lake-U, and the low-power cores of Arrow Lake-H.
pub(super) static METEOR_LAKE: Events = crestmont().with_topdown(topdown::HYBRID_GRACEMONT);

const fn gracemont() -> Events {
    with(CONSTRAINTS)
        .with_named(&[&REF_CYCLES, &NAMED])
        .with_cache(&[
            &goldmont::PLUS_CACHE,
            &tremont::TLB_CACHE,
            &OFFCORE_CACHE,
            &NO_SUCH_OPERATION,
        ])
        .with_extra(EXTRA)
        .with_middle_unmasking()
}

const fn crestmont() -> Events {
    with(CONSTRAINTS)
        .with_named(&[&REF_CYCLES, &NAMED])
        .with_cache(&[
            &goldmont::PLUS_CACHE,
            &tremont::TLB_CACHE,
            &CRESTMONT_CACHE,
            &NO_SUCH_OPERATION,
        ])
        .with_extra(CRESTMONT_EXTRA)
        .with_middle_unmasking()
}

/// In-tree: `intel_grt_event_constraints`.
const CONSTRAINTS: Constraints = Constraints {
    fixed: &[
        // INST_RETIRED.ANY.
        FixedEvent::new(0x00c0, 0),
        FixedEvent::new(0x0100, 0),
        // CPU_CLK_UNHALTED.CORE.
        FixedEvent::new(0x003c, 1),
        FixedEvent::new(0x0200, 1),
        // CPU_CLK_UNHALTED.REF_TSC.
        FixedEvent::new(0x0300, 2),
        FixedEvent::new(0x013c, 2),
    ],
    gp: &[PSEUDO],
};

/// In-tree: `intel_grt_extra_regs`.
const EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x8003_f03f_ffff_ffff),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0x3_f03f_ffff_ffff),
    ],
    // MEM_UOPS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x05d0, ExtraRegister::LoadLatency, 0xffff)],
]);

/// Of Darkmont, too. In-tree: `intel_cmt_extra_regs`.
pub(super) const CRESTMONT_EXTRA: ExtraEvents = ExtraEvents::per_core(&[
    // OFFCORE_RESPONSE.
    &[
        Encoding::new(0x01b7, ExtraRegister::OffcoreRsp0, 0x800f_f3ff_ffff_ffff),
        Encoding::new(0x02b7, ExtraRegister::OffcoreRsp1, 0xf_f3ff_ffff_ffff),
    ],
    // MEM_UOPS_RETIRED.LOAD_LATENCY.
    &[Encoding::new(0x05d0, ExtraRegister::LoadLatency, 0xffff)],
    // SNOOP_RESPONSE, whose registers do not stand in for each other.
    &[Encoding::new(0x0127, ExtraRegister::SnoopRsp0, u64::MAX)],
    // The second one.
    &[Encoding::new(0x0227, ExtraRegister::SnoopRsp1, u64::MAX)],
]);

/// In-tree: `grt_hw_cache_extra_regs`.
const OFFCORE_CACHE: [CacheEvents; 2] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0x3f_8440_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x3f_8440_0002,
    ),
];

/// In-tree: `cmt_hw_cache_extra_regs`.
const CRESTMONT_CACHE: [CacheEvents; 2] = [
    offcore(Cache::Ll, Operation::Read, 0x01b7, 0x1_0001, 0x3f_bfc0_0001),
    offcore(
        Cache::Ll,
        Operation::Write,
        0x01b7,
        0x1_0002,
        0x3f_bfc0_0002,
    ),
];
