// SPDX-License-Identifier: GPL-2.0

//! Intel's processors.
//!
//! The sources are SDM vol. 4, whose tables list the registers of each family and model,
//! and Linux's driver (arch/x86/events/intel/core.c). Its `intel_pmu_init()` says which
//! models have the same PMU, and its `intel_*_extra_regs` which bits of a register can be
//! written, and which events it describes. A reserved bit raises #GP. The numbers of counters are from SDM vol. 3B,
//! "Performance Monitoring", the sections on the microarchitectures. The codes of kinds of
//! instructions are from Intel's event lists: BR_INST_RETIRED.CONDITIONAL, .COND, .JCC and so on,
//! MEM_INST_RETIRED and MEM_UOPS_RETIRED. Each load or store has one micro-operation here.

use super::{constraint, Counters, ModelMsr, Models::These, Processor, ResponseBits};
use crate::event::Event;
use crate::metrics::{LEVEL_1, LEVEL_2};
use crate::msr::{
    MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1, MSR_OMR_0, MSR_OMR_1, MSR_OMR_2, MSR_OMR_3,
    MSR_PEBS_FRONTEND, MSR_PEBS_LD_LAT, MSR_SNOOP_RSP_0, MSR_SNOOP_RSP_1,
};

/// SDM vol. 3B, "Off-core Response Performance Monitoring": bits 15:0 are requests, and bit 16 is
/// any response. From bit 17 on are the suppliers and what the snoops have found.
const OFFCORE: ResponseBits = ResponseBits {
    requests: 0xffff,
    lowest: 16,
    any: 1 << 16,
};

/// Nehalem and Westmere: bits 7:0 are requests, bits 15:8 responses, of which none is any.
const OFFCORE_NEHALEM: ResponseBits = ResponseBits {
    requests: 0xff,
    lowest: 8,
    any: 0,
};

/// MSR_OMR_0 to 3: bits 31:0 are requests, and bit 62 is any response (`pnc_hw_cache_extra_regs`
/// in Linux).
const OMR_BITS: ResponseBits = ResponseBits {
    requests: 0xffff_ffff,
    lowest: 32,
    any: 1 << 62,
};

/// What snoops have found. Here each bit is one more.
const SNOOPS: ResponseBits = ResponseBits {
    requests: u64::MAX,
    lowest: 0,
    any: 0,
};

/// A register without an effect.
const fn msr(address: u32, writable: u64) -> ModelMsr {
    ModelMsr {
        address,
        writable,
        codes: &[],
        responses: OFFCORE,
        of_core: false,
    }
}

const fn offcore_rsp_0(writable: u64) -> ModelMsr {
    msr(MSR_OFFCORE_RSP_0, writable).describes(&[0x01b7])
}

const fn offcore_rsp_1(writable: u64) -> ModelMsr {
    msr(MSR_OFFCORE_RSP_1, writable).describes(&[0x01bb])
}

impl ModelMsr {
    const fn describes(self, codes: &'static [u16]) -> ModelMsr {
        ModelMsr { codes, ..self }
    }

    const fn with(self, responses: ResponseBits) -> ModelMsr {
        ModelMsr { responses, ..self }
    }

    /// The threads of a core share it. Linux's driver has that for Nehalem, Westmere and the
    /// Atoms: `PMU_FL_NO_HT_SHARING` in arch/x86/events/intel/core.c is for the others.
    const fn of_core(self) -> ModelMsr {
        ModelMsr {
            of_core: true,
            ..self
        }
    }
}

/// Registers whose events differ in the unit mask.
const fn unit_mask_rsp(bits_of_0: u64, bits_of_1: u64) -> [ModelMsr; 2] {
    [
        offcore_rsp_0(bits_of_0),
        offcore_rsp_1(bits_of_1).describes(&[0x02b7]),
    ]
}

/// Those of an Atom.
const fn atom_rsp(bits_of_0: u64, bits_of_1: u64) -> [ModelMsr; 2] {
    let [rsp_0, rsp_1] = unit_mask_rsp(bits_of_0, bits_of_1);
    [rsp_0.of_core(), rsp_1.of_core()]
}

const fn and<const N: usize, const M: usize, const SUM: usize>(
    first: [ModelMsr; N],
    second: [ModelMsr; M],
) -> [ModelMsr; SUM] {
    assert!(N + M == SUM);
    let mut all = [first[0]; SUM];
    let mut i = 0;
    while i < SUM {
        all[i] = if i < N { first[i] } else { second[i - N] };
        i += 1;
    }
    all
}

/// Bits 15:0 are the threshold (SDM vol. 4, MSR_PEBS_LD_LAT_THRESHOLD).
const LD_LAT: ModelMsr = msr(MSR_PEBS_LD_LAT, 0xffff);

/// Bits 7:0 select an event: bits 7:5 are reserved, and before Golden Cove bit 3 is. Bits
/// 22:8 are numbers of cycles and of empty slots.
const FRONTEND_SKYLAKE: ModelMsr = msr(MSR_PEBS_FRONTEND, 0x7f_ff17);
const FRONTEND_GOLDEN_COVE: ModelMsr = msr(MSR_PEBS_FRONTEND, 0x7f_ff1f);

const fn both_offcore_rsp(writable: u64, rest: [ModelMsr; 2]) -> [ModelMsr; 4] {
    let [a, b] = rest;
    [offcore_rsp_0(writable), offcore_rsp_1(writable), a, b]
}

/// The same registers with the events of Golden Cove.
const fn both_ocr(writable: u64) -> [ModelMsr; 4] {
    [
        offcore_rsp_0(writable).describes(&[0x012a]),
        offcore_rsp_1(writable).describes(&[0x012b]),
        LD_LAT,
        FRONTEND_GOLDEN_COVE,
    ]
}

const SANDY_BRIDGE_MSRS: [ModelMsr; 3] = [
    offcore_rsp_0(0x3f_807f_8fff),
    offcore_rsp_1(0x3f_807f_8fff),
    LD_LAT,
];

/// The servers of Sandy Bridge and Ivy Bridge, and all of Haswell and Broadwell.
const SANDY_BRIDGE_SERVER_MSRS: [ModelMsr; 3] = [
    offcore_rsp_0(0x3f_ffff_8fff),
    offcore_rsp_1(0x3f_ffff_8fff),
    LD_LAT,
];

/// The address and the bits of an OMR, and its events.
const fn omr(address: u32, writable: u64, codes: &'static [u16]) -> ModelMsr {
    msr(address, writable).describes(codes).with(OMR_BITS)
}

/// The address of a SNOOP_RSP, and its event.
const fn snoop_rsp(address: u32, codes: &'static [u16]) -> ModelMsr {
    msr(address, u64::MAX).describes(codes).with(SNOOPS)
}

const PANTHER_COVE_MSRS: [ModelMsr; 6] = {
    const OMR: u64 = 0x40ff_ffff_0000_ffff;
    [
        omr(MSR_OMR_0, OMR, &[0x012a, 0x014f, 0x01d6]),
        omr(MSR_OMR_1, OMR, &[0x022a, 0x024f, 0x02d6]),
        omr(MSR_OMR_2, OMR, &[0x042a, 0x044f, 0x04d6]),
        omr(MSR_OMR_3, OMR, &[0x082a, 0x084f, 0x08d6]),
        LD_LAT,
        FRONTEND_GOLDEN_COVE,
    ]
};

const GRACEMONT_MSRS: [ModelMsr; 3] = and(
    atom_rsp(0x8003_f03f_ffff_ffff, 0x0003_f03f_ffff_ffff),
    [LD_LAT],
);

const CRESTMONT_MSRS: [ModelMsr; 5] = and(
    atom_rsp(0x800f_f3ff_ffff_ffff, 0x000f_f3ff_ffff_ffff),
    [
        LD_LAT,
        snoop_rsp(MSR_SNOOP_RSP_0, &[0x0127]).of_core(),
        snoop_rsp(MSR_SNOOP_RSP_1, &[0x0227]).of_core(),
    ],
);

const ARCTIC_WOLF_MSRS: [ModelMsr; 7] = {
    const OMR: u64 = 0xc0ff_ffff_ffff_ffff;
    [
        omr(MSR_OMR_0, OMR, &[0x01b7]),
        omr(MSR_OMR_1, OMR, &[0x02b7]),
        omr(MSR_OMR_2, OMR, &[0x04b7]),
        omr(MSR_OMR_3, OMR, &[0x08b7]),
        LD_LAT,
        snoop_rsp(MSR_SNOOP_RSP_0, &[0x0127]),
        snoop_rsp(MSR_SNOOP_RSP_1, &[0x0227]),
    ]
};

const CORE: Counters = Counters {
    version: 1,
    general: 2,
    general_of_thread: 2,
    fixed: 0,
    width: 40,
    full_width: false,
    metrics: 0,
    needs_clearing: false,
    metrics_clear: false,
    rdpmc_user_disable: false,
};

/// Loads and stores, from Sandy Bridge and Goldmont on.
const LOADS: (u64, Event) = (0x81d0, Event::Loads);
const STORES: (u64, Event) = (0x82d0, Event::Stores);

/// L1D and L1D_PREFETCH.MISS, too.
const NEHALEM_RETIRED: &[(u64, Event)] = &[
    (0x01c4, Event::ConditionalBranches),
    (0x010b, Event::Loads),
    (0x020b, Event::Stores),
    (0x0151, Event::LoadMisses),
    (0x0251, Event::StoreMisses),
    (0x024e, Event::Misses),
];

/// L1D, too.
const WESTMERE_RETIRED: &[(u64, Event)] = &[
    (0x01c4, Event::ConditionalBranches),
    (0x010b, Event::Loads),
    (0x020b, Event::Stores),
    (0x0151, Event::LoadMisses),
    (0x0251, Event::StoreMisses),
];

const SANDY_BRIDGE_RETIRED: &[(u64, Event)] = &[
    (0x01c4, Event::ConditionalBranches),
    (0x10c4, Event::NotTaken),
    (0x20c4, Event::NearTaken),
    LOADS,
    STORES,
];

/// L1D.REPLACEMENT, and DTLB_LOAD_MISSES and DTLB_STORE_MISSES, too.
const ICE_LAKE_RETIRED: &[(u64, Event)] = &[
    (0x11c4, Event::ConditionalBranches),
    (0x01c4, Event::ConditionalTaken),
    (0x10c4, Event::NotTaken),
    (0x20c4, Event::NearTaken),
    LOADS,
    STORES,
    (0x0151, Event::LoadMisses),
    (0x0e08, Event::LoadMisses),
    (0x0e49, Event::StoreMisses),
];

/// Golden Cove counts misses by other events: L2_RQSTS.ALL_DEMAND_DATA_RD, which misses in the first
/// level, and DTLB_LOAD_MISSES and DTLB_STORE_MISSES.
const GOLDEN_COVE_RETIRED: &[(u64, Event)] = &[
    (0x11c4, Event::ConditionalBranches),
    (0x01c4, Event::ConditionalTaken),
    (0x10c4, Event::NotTaken),
    (0x20c4, Event::NearTaken),
    LOADS,
    STORES,
    (0xe124, Event::LoadMisses),
    (0x0e12, Event::LoadMisses),
    (0x0e13, Event::StoreMisses),
];

/// Some have a second unit mask.
const LION_COVE_RETIRED: &[(u64, Event)] = &[
    ((0x01 << 40) | 0x11c4, Event::ConditionalBranches),
    ((0x01 << 40) | 0x01c4, Event::ConditionalTaken),
    (0x10c4, Event::NotTaken),
    (0x20c4, Event::NearTaken),
    LOADS,
    STORES,
];

const PANTHER_COVE_RETIRED: &[(u64, Event)] = &[
    (0x07c4, Event::ConditionalBranches),
    (0x03c4, Event::ConditionalTaken),
    (0x04c4, Event::NotTaken),
    (0xfbc4, Event::NearTaken),
    LOADS,
    STORES,
];

const SILVERMONT_RETIRED: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x80c4, Event::Taken),
    (0x4004, Event::Loads),
    (0x8004, Event::Stores),
];

/// Knights Landing's list has no event of all branches that are taken.
const KNIGHTS_LANDING_RETIRED: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x4004, Event::Loads),
    (0x8004, Event::Stores),
];

const GOLDMONT_RETIRED: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x80c4, Event::Taken),
    LOADS,
    STORES,
];

/// Tremont's list has no event of all branches that are taken.
const TREMONT_RETIRED: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    LOADS,
    STORES,
];

const GRACEMONT_RETIRED: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x80c4, Event::Taken),
    (0xc0c4, Event::NearTaken),
    LOADS,
    STORES,
];

const SKYMONT_RETIRED: &[(u64, Event)] = &[
    (0x7ec4, Event::ConditionalBranches),
    (0xfec4, Event::ConditionalTaken),
    (0x7fc4, Event::NotTaken),
    (0x80c4, Event::Taken),
    (0xc0c4, Event::NearTaken),
    LOADS,
    STORES,
];

/// Arctic Wolf's list has no loads and stores.
const ARCTIC_WOLF_RETIRED: &[(u64, Event)] = &[
    (0x07c4, Event::ConditionalBranches),
    (0x03c4, Event::ConditionalTaken),
    (0x04c4, Event::NotTaken),
];

/// The first steppings of Merom do not report the fixed-function counters that they have.
const CORE_2: Counters = Counters {
    version: 2,
    fixed: 3,
    ..CORE
};

const NEHALEM: Counters = Counters {
    version: 3,
    general: 4,
    general_of_thread: 4,
    fixed: 3,
    width: 48,
    full_width: false,
    metrics: 0,
    needs_clearing: true,
    metrics_clear: false,
    rdpmc_user_disable: false,
};

/// Two threads share the eight counters of a core.
const SANDY_BRIDGE: Counters = Counters {
    general: 8,
    full_width: true,
    needs_clearing: false,
    ..NEHALEM
};

const SKYLAKE: Counters = Counters {
    version: 4,
    ..SANDY_BRIDGE
};

const ICE_LAKE: Counters = Counters {
    version: 5,
    general_of_thread: 8,
    fixed: 4,
    metrics: LEVEL_1,
    ..SKYLAKE
};

/// PERF_METRICS has the fields of level 2 as well.
const GOLDEN_COVE: Counters = Counters {
    metrics: LEVEL_2,
    ..ICE_LAKE
};

/// The processor has ten general-purpose counters, two more than the model can have.
const LION_COVE: Counters = Counters {
    version: 6,
    metrics_clear: true,
    ..GOLDEN_COVE
};

const PANTHER_COVE: Counters = Counters {
    rdpmc_user_disable: true,
    ..LION_COVE
};

const BONNELL: Counters = Counters {
    version: 3,
    ..CORE_2
};

const SILVERMONT: Counters = Counters {
    full_width: true,
    ..BONNELL
};

const GOLDMONT: Counters = Counters {
    version: 4,
    full_width: true,
    needs_clearing: false,
    ..NEHALEM
};

const TREMONT: Counters = Counters {
    version: 5,
    ..GOLDMONT
};

const GRACEMONT: Counters = Counters {
    general: 6,
    general_of_thread: 6,
    ..TREMONT
};

const CRESTMONT: Counters = Counters {
    general: 8,
    general_of_thread: 8,
    ..GRACEMONT
};

/// The fixed-function counters from 4 on are not modelled.
const DARKMONT: Counters = Counters {
    version: 6,
    ..CRESTMONT
};

/// Coyote Cove: Nova Lake.
pub(super) const COYOTE_COVE: Processor = Processor {
    signatures: &[(18, These(&[0x01, 0x03]))],
    counters: PANTHER_COVE,
    msrs: &PANTHER_COVE_MSRS,
    constraints: constraint::PANTHER_COVE,
    retired: PANTHER_COVE_RETIRED,
};

/// Arctic Wolf, which no processor has without other cores.
pub(super) const ARCTIC_WOLF: Processor = Processor {
    signatures: &[],
    counters: DARKMONT,
    msrs: &ARCTIC_WOLF_MSRS,
    constraints: constraint::ARCTIC_WOLF,
    retired: ARCTIC_WOLF_RETIRED,
};

/// Lion Cove.
const LION_COVE_PROCESSOR: Processor = Processor {
    signatures: &[(6, These(&[0xbd, 0xc5, 0xc6]))],
    counters: LION_COVE,
    msrs: &both_ocr(0xfff_ffff_ffff),
    constraints: constraint::LION_COVE,
    retired: LION_COVE_RETIRED,
};

/// Darkmont.
const DARKMONT_PROCESSOR: Processor = Processor {
    signatures: &[(6, These(&[0xdd]))],
    counters: DARKMONT,
    msrs: &CRESTMONT_MSRS,
    constraints: &[],
    retired: PANTHER_COVE_RETIRED,
};

/// Skymont, which no processor has without other cores.
pub(super) const SKYMONT: Processor = Processor {
    signatures: &[],
    retired: SKYMONT_RETIRED,
    ..DARKMONT_PROCESSOR
};

/// Of a hybrid processor, the entry is that of its performance cores, which is what it has if
/// the efficient cores are disabled. `hybrid.rs` has the cores of all types.
pub(super) const PROCESSORS: &[Processor] = &[
    // Core (Yonah).
    Processor {
        signatures: &[(6, These(&[0x0e]))],
        counters: CORE,
        msrs: &[],
        constraints: constraint::CORE,
        retired: &[],
    },
    // Core 2.
    Processor {
        signatures: &[(6, These(&[0x0f, 0x16, 0x17, 0x1d]))],
        counters: CORE_2,
        msrs: &[],
        constraints: constraint::CORE_2,
        retired: &[],
    },
    // Nehalem.
    Processor {
        signatures: &[(6, These(&[0x1a, 0x1e, 0x1f, 0x2e]))],
        counters: NEHALEM,
        msrs: &[
            offcore_rsp_0(0xffff).with(OFFCORE_NEHALEM).of_core(),
            LD_LAT,
        ],
        constraints: constraint::NEHALEM,
        retired: NEHALEM_RETIRED,
    },
    // Westmere.
    Processor {
        signatures: &[(6, These(&[0x25, 0x2c, 0x2f]))],
        counters: NEHALEM,
        msrs: &[
            offcore_rsp_0(0xffff).with(OFFCORE_NEHALEM).of_core(),
            offcore_rsp_1(0xffff).with(OFFCORE_NEHALEM).of_core(),
            LD_LAT,
        ],
        constraints: constraint::WESTMERE,
        retired: WESTMERE_RETIRED,
    },
    // Sandy Bridge.
    Processor {
        signatures: &[(6, These(&[0x2a]))],
        counters: SANDY_BRIDGE,
        msrs: &SANDY_BRIDGE_MSRS,
        constraints: constraint::SANDY_BRIDGE,
        retired: SANDY_BRIDGE_RETIRED,
    },
    Processor {
        signatures: &[(6, These(&[0x2d]))],
        counters: SANDY_BRIDGE,
        msrs: &SANDY_BRIDGE_SERVER_MSRS,
        constraints: constraint::SANDY_BRIDGE,
        retired: SANDY_BRIDGE_RETIRED,
    },
    // Ivy Bridge.
    Processor {
        signatures: &[(6, These(&[0x3a]))],
        counters: SANDY_BRIDGE,
        msrs: &SANDY_BRIDGE_MSRS,
        constraints: constraint::IVY_BRIDGE,
        retired: SANDY_BRIDGE_RETIRED,
    },
    Processor {
        signatures: &[(6, These(&[0x3e]))],
        counters: SANDY_BRIDGE,
        msrs: &SANDY_BRIDGE_SERVER_MSRS,
        constraints: constraint::IVY_BRIDGE,
        retired: SANDY_BRIDGE_RETIRED,
    },
    // Haswell.
    Processor {
        signatures: &[(6, These(&[0x3c, 0x3f, 0x45, 0x46]))],
        counters: SANDY_BRIDGE,
        msrs: &SANDY_BRIDGE_SERVER_MSRS,
        constraints: constraint::HASWELL,
        retired: SANDY_BRIDGE_RETIRED,
    },
    // Broadwell.
    Processor {
        signatures: &[(6, These(&[0x3d, 0x47, 0x4f, 0x56]))],
        counters: SANDY_BRIDGE,
        msrs: &SANDY_BRIDGE_SERVER_MSRS,
        constraints: constraint::BROADWELL,
        retired: SANDY_BRIDGE_RETIRED,
    },
    // Skylake, Cascade Lake, Cooper Lake, Kaby Lake, Coffee Lake and Comet Lake.
    Processor {
        signatures: &[(6, These(&[0x4e, 0x55, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6]))],
        counters: SKYLAKE,
        msrs: &both_offcore_rsp(0x3f_ffff_8fff, [LD_LAT, FRONTEND_SKYLAKE]),
        constraints: constraint::SKYLAKE,
        retired: SANDY_BRIDGE_RETIRED,
    },
    // Ice Lake, Rocket Lake and Tiger Lake.
    Processor {
        signatures: &[(6, These(&[0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7]))],
        counters: ICE_LAKE,
        msrs: &both_offcore_rsp(0x3f_ffff_bfff, [LD_LAT, FRONTEND_SKYLAKE]),
        constraints: constraint::ICE_LAKE,
        retired: ICE_LAKE_RETIRED,
    },
    // Golden Cove, Raptor Cove and Redwood Cove.
    Processor {
        signatures: &[
            // Sapphire Rapids, Emerald Rapids and Granite Rapids.
            (6, These(&[0x8f, 0xcf, 0xad, 0xae])),
            // Hybrid: Alder Lake, Raptor Lake, Meteor Lake and Arrow Lake-U.
            (6, These(&[0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5])),
        ],
        counters: GOLDEN_COVE,
        msrs: &both_ocr(0x3f_ffff_ffff),
        constraints: constraint::GOLDEN_COVE,
        retired: GOLDEN_COVE_RETIRED,
    },
    // Lunar Lake and Arrow Lake.
    LION_COVE_PROCESSOR,
    // Cougar Cove: Panther Lake and Wildcat Lake.
    Processor {
        signatures: &[(6, These(&[0xcc, 0xd5]))],
        retired: PANTHER_COVE_RETIRED,
        ..LION_COVE_PROCESSOR
    },
    // Panther Cove: Diamond Rapids.
    Processor {
        signatures: &[(19, These(&[0x01]))],
        ..COYOTE_COVE
    },
    COYOTE_COVE,
    // Bonnell and Saltwell.
    Processor {
        signatures: &[(6, These(&[0x1c, 0x26, 0x27, 0x35, 0x36]))],
        counters: BONNELL,
        msrs: &[],
        constraints: &[],
        retired: &[],
    },
    // Silvermont and Airmont.
    Processor {
        signatures: &[(6, These(&[0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x75]))],
        counters: SILVERMONT,
        msrs: &atom_rsp(0x76_8005_ffff, 0x36_8005_ffff),
        constraints: &[],
        retired: SILVERMONT_RETIRED,
    },
    // Goldmont and Goldmont Plus.
    Processor {
        signatures: &[(6, These(&[0x5c, 0x5f, 0x7a]))],
        counters: GOLDMONT,
        msrs: &atom_rsp(0x76_0005_ffbf, 0x36_0005_ffbf),
        constraints: &[],
        retired: GOLDMONT_RETIRED,
    },
    // Tremont.
    Processor {
        signatures: &[(6, These(&[0x86, 0x96, 0x9c]))],
        counters: TREMONT,
        msrs: &atom_rsp(0x800f_f0ff_ffff_9fff, 0x000f_f0ff_ffff_9fff),
        constraints: &[],
        retired: TREMONT_RETIRED,
    },
    // Gracemont.
    Processor {
        signatures: &[(6, These(&[0xbe]))],
        counters: GRACEMONT,
        msrs: &GRACEMONT_MSRS,
        constraints: &[],
        retired: GRACEMONT_RETIRED,
    },
    // Crestmont: Sierra Forest and Grand Ridge.
    Processor {
        signatures: &[(6, These(&[0xaf, 0xb6]))],
        counters: CRESTMONT,
        msrs: &CRESTMONT_MSRS,
        constraints: &[],
        retired: GRACEMONT_RETIRED,
    },
    // Clearwater Forest.
    DARKMONT_PROCESSOR,
    // Knights Landing and Knights Mill.
    Processor {
        signatures: &[(6, These(&[0x57, 0x85]))],
        counters: SILVERMONT,
        msrs: &unit_mask_rsp(0x79_9ffb_b6e7, 0x39_9ffb_ffe7),
        constraints: &[],
        retired: KNIGHTS_LANDING_RETIRED,
    },
];
