// SPDX-License-Identifier: GPL-2.0

//! Intel's processors.
//!
//! `intel_pmu_init()` in Linux's driver (arch/x86/events/intel/core.c) says which models have the
//! same PMU. What a PMU has is in the files beside this one, and in `constraint.rs`.

mod caches;
mod counters;
mod lbrs;
mod msrs;
mod retired;

use super::{constraint, Models::These, Processor};

/// Coyote Cove: Nova Lake.
pub(super) const COYOTE_COVE: Processor = Processor {
    signatures: &[(18, These(&[0x01, 0x03]))],
    counters: counters::PANTHER_COVE,
    lbrs: lbrs::LOGGED,
    msrs: &msrs::PANTHER_COVE_MSRS,
    constraints: constraint::PANTHER_COVE,
    retired: retired::PANTHER_COVE,
    caches: caches::PANTHER_COVE,
};

/// Arctic Wolf, which no processor has without other cores.
pub(super) const ARCTIC_WOLF: Processor = Processor {
    signatures: &[],
    counters: counters::DARKMONT,
    lbrs: lbrs::LOGGED,
    msrs: &msrs::ARCTIC_WOLF_MSRS,
    constraints: constraint::ARCTIC_WOLF,
    retired: retired::ARCTIC_WOLF,
    caches: caches::GOLDMONT_PLUS,
};

/// Lion Cove.
const LION_COVE_PROCESSOR: Processor = Processor {
    signatures: &[(6, These(&[0xbd, 0xc5, 0xc6]))],
    counters: counters::LION_COVE,
    lbrs: lbrs::LOGGED,
    msrs: &msrs::both_ocr(0xfff_ffff_ffff),
    constraints: constraint::LION_COVE,
    retired: retired::LION_COVE,
    caches: caches::GOLDEN_COVE,
};

/// Goldmont.
const GOLDMONT_PROCESSOR: Processor = Processor {
    signatures: &[(6, These(&[0x5c, 0x5f]))],
    counters: counters::GOLDMONT,
    lbrs: lbrs::GOLDMONT,
    msrs: &msrs::atom_rsp(0x76_0005_ffbf, 0x36_0005_ffbf),
    constraints: &[],
    retired: retired::GOLDMONT,
    caches: caches::GOLDMONT,
};

/// Darkmont.
const DARKMONT_PROCESSOR: Processor = Processor {
    signatures: &[(6, These(&[0xdd]))],
    counters: counters::DARKMONT,
    lbrs: lbrs::LOGGED,
    msrs: &msrs::CRESTMONT_MSRS,
    constraints: &[],
    retired: retired::PANTHER_COVE,
    caches: caches::GOLDMONT_PLUS,
};

/// Skymont, which no processor has without other cores.
pub(super) const SKYMONT: Processor = Processor {
    signatures: &[],
    retired: retired::SKYMONT,
    ..DARKMONT_PROCESSOR
};

/// Crestmont: Sierra Forest and Grand Ridge.
const CRESTMONT_PROCESSOR: Processor = Processor {
    signatures: &[(6, These(&[0xaf, 0xb6]))],
    counters: counters::CRESTMONT,
    lbrs: lbrs::LOGGED,
    msrs: &msrs::CRESTMONT_MSRS,
    constraints: &[],
    retired: retired::GRACEMONT,
    caches: caches::GOLDMONT_PLUS,
};

/// Crestmont of Meteor Lake, which came before event logging.
pub(super) const CRESTMONT: Processor = Processor {
    signatures: &[],
    lbrs: lbrs::ARCHITECTURAL,
    ..CRESTMONT_PROCESSOR
};

/// Of a hybrid processor, the entry is that of its performance cores, which is what it has if
/// the efficient cores are disabled. `hybrid.rs` has the cores of all types.
pub(super) const PROCESSORS: &[Processor] = &[
    // Core (Yonah).
    Processor {
        signatures: &[(6, These(&[0x0e]))],
        counters: counters::CORE,
        lbrs: None,
        msrs: &[],
        constraints: constraint::CORE,
        retired: &[],
        caches: &[],
    },
    // Core 2.
    Processor {
        signatures: &[(6, These(&[0x0f, 0x16, 0x17, 0x1d]))],
        counters: counters::CORE_2,
        lbrs: lbrs::CORE_2,
        msrs: &[],
        constraints: constraint::CORE_2,
        retired: &[],
        caches: caches::CORE_2,
    },
    // Nehalem.
    Processor {
        signatures: &[(6, These(&[0x1a, 0x1e, 0x1f, 0x2e]))],
        counters: counters::NEHALEM,
        lbrs: lbrs::NEHALEM,
        msrs: &[
            msrs::offcore_rsp_0(0xffff)
                .with(msrs::OFFCORE_NEHALEM)
                .of_core(),
            msrs::LD_LAT,
        ],
        constraints: constraint::NEHALEM,
        retired: retired::NEHALEM,
        caches: caches::NEHALEM,
    },
    // Westmere.
    Processor {
        signatures: &[(6, These(&[0x25, 0x2c, 0x2f]))],
        counters: counters::NEHALEM,
        lbrs: lbrs::NEHALEM,
        msrs: &[
            msrs::offcore_rsp_0(0xffff)
                .with(msrs::OFFCORE_NEHALEM)
                .of_core(),
            msrs::offcore_rsp_1(0xffff)
                .with(msrs::OFFCORE_NEHALEM)
                .of_core(),
            msrs::LD_LAT,
        ],
        constraints: constraint::WESTMERE,
        retired: retired::NEHALEM,
        caches: caches::WESTMERE,
    },
    // Sandy Bridge.
    Processor {
        signatures: &[(6, These(&[0x2a]))],
        counters: counters::SANDY_BRIDGE,
        lbrs: lbrs::NEHALEM,
        msrs: &msrs::SANDY_BRIDGE_MSRS,
        constraints: constraint::SANDY_BRIDGE,
        retired: retired::SANDY_BRIDGE,
        caches: caches::SANDY_BRIDGE,
    },
    Processor {
        signatures: &[(6, These(&[0x2d]))],
        counters: counters::SANDY_BRIDGE,
        lbrs: lbrs::NEHALEM,
        msrs: &msrs::SANDY_BRIDGE_SERVER_MSRS,
        constraints: constraint::SANDY_BRIDGE,
        retired: retired::SANDY_BRIDGE,
        caches: caches::SANDY_BRIDGE,
    },
    // Ivy Bridge.
    Processor {
        signatures: &[(6, These(&[0x3a]))],
        counters: counters::SANDY_BRIDGE,
        lbrs: lbrs::NEHALEM,
        msrs: &msrs::SANDY_BRIDGE_MSRS,
        constraints: constraint::IVY_BRIDGE,
        retired: retired::SANDY_BRIDGE,
        caches: caches::IVY_BRIDGE,
    },
    Processor {
        signatures: &[(6, These(&[0x3e]))],
        counters: counters::SANDY_BRIDGE,
        lbrs: lbrs::NEHALEM,
        msrs: &msrs::SANDY_BRIDGE_SERVER_MSRS,
        constraints: constraint::IVY_BRIDGE,
        retired: retired::SANDY_BRIDGE,
        caches: caches::IVY_BRIDGE,
    },
    // Haswell.
    Processor {
        signatures: &[(6, These(&[0x3c, 0x3f, 0x45, 0x46]))],
        counters: counters::SANDY_BRIDGE,
        lbrs: lbrs::HASWELL,
        msrs: &msrs::SANDY_BRIDGE_SERVER_MSRS,
        constraints: constraint::HASWELL,
        retired: retired::SANDY_BRIDGE,
        caches: caches::HASWELL,
    },
    // Broadwell.
    Processor {
        signatures: &[(6, These(&[0x3d, 0x47, 0x4f, 0x56]))],
        counters: counters::SANDY_BRIDGE,
        lbrs: lbrs::HASWELL,
        msrs: &msrs::SANDY_BRIDGE_SERVER_MSRS,
        constraints: constraint::BROADWELL,
        retired: retired::SANDY_BRIDGE,
        caches: caches::HASWELL,
    },
    // Skylake, Cascade Lake, Cooper Lake, Kaby Lake, Coffee Lake and Comet Lake.
    Processor {
        signatures: &[(6, These(&[0x4e, 0x55, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6]))],
        counters: counters::SKYLAKE,
        lbrs: lbrs::SKYLAKE,
        msrs: &msrs::both_offcore_rsp(0x3f_ffff_8fff, [msrs::LD_LAT, msrs::FRONTEND_SKYLAKE]),
        constraints: constraint::SKYLAKE,
        retired: retired::SANDY_BRIDGE,
        caches: caches::SKYLAKE,
    },
    // Ice Lake, Rocket Lake and Tiger Lake.
    Processor {
        signatures: &[(6, These(&[0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7]))],
        counters: counters::ICE_LAKE,
        lbrs: lbrs::SKYLAKE,
        msrs: &msrs::both_offcore_rsp(0x3f_ffff_bfff, [msrs::LD_LAT, msrs::FRONTEND_SKYLAKE]),
        constraints: constraint::ICE_LAKE,
        retired: retired::ICE_LAKE,
        caches: caches::SKYLAKE,
    },
    // Golden Cove, Raptor Cove and Redwood Cove.
    Processor {
        signatures: &[
            // Sapphire Rapids, Emerald Rapids and Granite Rapids.
            (6, These(&[0x8f, 0xcf, 0xad, 0xae])),
            // Hybrid: Alder Lake, Raptor Lake, Meteor Lake and Arrow Lake-U.
            (6, These(&[0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5])),
        ],
        counters: counters::GOLDEN_COVE,
        lbrs: lbrs::ARCHITECTURAL,
        msrs: &msrs::both_ocr(0x3f_ffff_ffff),
        constraints: constraint::GOLDEN_COVE,
        retired: retired::ICE_LAKE,
        caches: caches::GOLDEN_COVE,
    },
    // Lunar Lake and Arrow Lake.
    LION_COVE_PROCESSOR,
    // Cougar Cove: Panther Lake and Wildcat Lake.
    Processor {
        signatures: &[(6, These(&[0xcc, 0xd5]))],
        retired: retired::PANTHER_COVE,
        caches: caches::PANTHER_COVE,
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
        counters: counters::BONNELL,
        lbrs: lbrs::BONNELL,
        msrs: &[],
        constraints: &[],
        retired: &[],
        caches: caches::BONNELL,
    },
    // Silvermont and Airmont.
    Processor {
        signatures: &[(6, These(&[0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x75]))],
        counters: counters::SILVERMONT,
        lbrs: lbrs::SILVERMONT,
        msrs: &msrs::atom_rsp(0x76_8005_ffff, 0x36_8005_ffff),
        constraints: &[],
        retired: retired::SILVERMONT,
        caches: caches::SILVERMONT,
    },
    GOLDMONT_PROCESSOR,
    // Goldmont Plus.
    Processor {
        signatures: &[(6, These(&[0x7a]))],
        lbrs: lbrs::GOLDMONT_PLUS,
        caches: caches::GOLDMONT_PLUS,
        ..GOLDMONT_PROCESSOR
    },
    // Tremont.
    Processor {
        signatures: &[(6, These(&[0x86, 0x96, 0x9c]))],
        counters: counters::TREMONT,
        lbrs: lbrs::GOLDMONT_PLUS,
        msrs: &msrs::atom_rsp(0x800f_f0ff_ffff_9fff, 0x000f_f0ff_ffff_9fff),
        constraints: &[],
        retired: retired::TREMONT,
        caches: caches::GOLDMONT_PLUS,
    },
    // Gracemont.
    Processor {
        signatures: &[(6, These(&[0xbe]))],
        counters: counters::GRACEMONT,
        lbrs: lbrs::ARCHITECTURAL,
        msrs: &msrs::GRACEMONT_MSRS,
        constraints: &[],
        retired: retired::GRACEMONT,
        caches: caches::GOLDMONT_PLUS,
    },
    CRESTMONT_PROCESSOR,
    // Clearwater Forest.
    DARKMONT_PROCESSOR,
    // Knights Landing and Knights Mill.
    Processor {
        signatures: &[(6, These(&[0x57, 0x85]))],
        counters: counters::SILVERMONT,
        lbrs: lbrs::KNIGHTS_LANDING,
        msrs: &msrs::unit_mask_rsp(0x79_9ffb_b6e7, 0x39_9ffb_ffe7),
        constraints: &[],
        retired: retired::KNIGHTS_LANDING,
        caches: caches::SILVERMONT,
    },
];
