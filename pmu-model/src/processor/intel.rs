// SPDX-License-Identifier: GPL-2.0

//! Intel's processors.
//!
//! The sources are SDM vol. 4, whose tables list the registers of each family and model,
//! and Linux's driver (arch/x86/events/intel/core.c). Its `intel_pmu_init()` says which
//! models have the same PMU, and its `intel_*_extra_regs` which bits of a register can be
//! written. A reserved bit raises #GP.

use super::{ModelMsr, Processor};
use crate::msr::{
    MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1, MSR_OMR_0, MSR_OMR_1, MSR_OMR_2, MSR_OMR_3,
    MSR_PEBS_FRONTEND, MSR_PEBS_LD_LAT, MSR_SNOOP_RSP_0, MSR_SNOOP_RSP_1,
};

const fn msr(address: u32, writable: u64) -> ModelMsr {
    ModelMsr { address, writable }
}

const fn offcore_rsp_0(writable: u64) -> ModelMsr {
    msr(MSR_OFFCORE_RSP_0, writable)
}

const fn offcore_rsp_1(writable: u64) -> ModelMsr {
    msr(MSR_OFFCORE_RSP_1, writable)
}

/// Bits 15:0 are the threshold (SDM vol. 4, MSR_PEBS_LD_LAT_THRESHOLD).
const LD_LAT: ModelMsr = msr(MSR_PEBS_LD_LAT, 0xffff);

/// Bits 7:0 select an event: bits 7:5 are reserved, and before Golden Cove bit 3 is. Bits
/// 22:8 are numbers of cycles and of empty slots.
const FRONTEND_SKYLAKE: ModelMsr = msr(MSR_PEBS_FRONTEND, 0x7f_ff17);
const FRONTEND_GOLDEN_COVE: ModelMsr = msr(MSR_PEBS_FRONTEND, 0x7f_ff1f);

const SNOOP_RSP_0: ModelMsr = msr(MSR_SNOOP_RSP_0, u64::MAX);
const SNOOP_RSP_1: ModelMsr = msr(MSR_SNOOP_RSP_1, u64::MAX);

const fn both_offcore_rsp(writable: u64, rest: [ModelMsr; 2]) -> [ModelMsr; 4] {
    let [a, b] = rest;
    [offcore_rsp_0(writable), offcore_rsp_1(writable), a, b]
}

const SANDY_BRIDGE: [ModelMsr; 3] = [
    offcore_rsp_0(0x3f_807f_8fff),
    offcore_rsp_1(0x3f_807f_8fff),
    LD_LAT,
];

/// The servers of Sandy Bridge and Ivy Bridge, and all of Haswell and Broadwell.
const SANDY_BRIDGE_SERVER: [ModelMsr; 3] = [
    offcore_rsp_0(0x3f_ffff_8fff),
    offcore_rsp_1(0x3f_ffff_8fff),
    LD_LAT,
];

const GOLDEN_COVE: [ModelMsr; 4] = both_offcore_rsp(0x3f_ffff_ffff, [LD_LAT, FRONTEND_GOLDEN_COVE]);

const PANTHER_COVE: [ModelMsr; 6] = {
    const OMR: u64 = 0x40ff_ffff_0000_ffff;
    [
        msr(MSR_OMR_0, OMR),
        msr(MSR_OMR_1, OMR),
        msr(MSR_OMR_2, OMR),
        msr(MSR_OMR_3, OMR),
        LD_LAT,
        FRONTEND_GOLDEN_COVE,
    ]
};

/// Of a hybrid processor, the entry is that of its performance cores.
pub(super) const PROCESSORS: &[Processor] = &[
    // Core (Yonah).
    Processor {
        signatures: &[(6, &[0x0e])],
        msrs: &[],
    },
    // Core 2.
    Processor {
        signatures: &[(6, &[0x0f, 0x16, 0x17, 0x1d])],
        msrs: &[],
    },
    // Nehalem.
    Processor {
        signatures: &[(6, &[0x1a, 0x1e, 0x1f, 0x2e])],
        msrs: &[offcore_rsp_0(0xffff), LD_LAT],
    },
    // Westmere.
    Processor {
        signatures: &[(6, &[0x25, 0x2c, 0x2f])],
        msrs: &[offcore_rsp_0(0xffff), offcore_rsp_1(0xffff), LD_LAT],
    },
    // Sandy Bridge.
    Processor {
        signatures: &[(6, &[0x2a])],
        msrs: &SANDY_BRIDGE,
    },
    Processor {
        signatures: &[(6, &[0x2d])],
        msrs: &SANDY_BRIDGE_SERVER,
    },
    // Ivy Bridge.
    Processor {
        signatures: &[(6, &[0x3a])],
        msrs: &SANDY_BRIDGE,
    },
    Processor {
        signatures: &[(6, &[0x3e])],
        msrs: &SANDY_BRIDGE_SERVER,
    },
    // Haswell.
    Processor {
        signatures: &[(6, &[0x3c, 0x3f, 0x45, 0x46])],
        msrs: &SANDY_BRIDGE_SERVER,
    },
    // Broadwell.
    Processor {
        signatures: &[(6, &[0x3d, 0x47, 0x4f, 0x56])],
        msrs: &SANDY_BRIDGE_SERVER,
    },
    // Skylake, Cascade Lake, Cooper Lake, Kaby Lake, Coffee Lake and Comet Lake.
    Processor {
        signatures: &[(6, &[0x4e, 0x55, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6])],
        msrs: &both_offcore_rsp(0x3f_ffff_8fff, [LD_LAT, FRONTEND_SKYLAKE]),
    },
    // Ice Lake, Rocket Lake and Tiger Lake.
    Processor {
        signatures: &[(6, &[0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7])],
        msrs: &both_offcore_rsp(0x3f_ffff_bfff, [LD_LAT, FRONTEND_SKYLAKE]),
    },
    // Golden Cove and Raptor Cove: Sapphire Rapids and Emerald Rapids.
    Processor {
        signatures: &[(6, &[0x8f, 0xcf])],
        msrs: &GOLDEN_COVE,
    },
    // The same in hybrid processors: Alder Lake and Raptor Lake.
    Processor {
        signatures: &[(6, &[0x97, 0x9a, 0xb7, 0xba, 0xbf])],
        msrs: &GOLDEN_COVE,
    },
    // Redwood Cove: Granite Rapids.
    Processor {
        signatures: &[(6, &[0xad, 0xae])],
        msrs: &GOLDEN_COVE,
    },
    // The same in hybrid processors: Meteor Lake and Arrow Lake-U.
    Processor {
        signatures: &[(6, &[0xaa, 0xac, 0xb5])],
        msrs: &GOLDEN_COVE,
    },
    // Lion Cove and Cougar Cove: Lunar Lake, Arrow Lake, Panther Lake and Wildcat Lake.
    Processor {
        signatures: &[(6, &[0xbd, 0xc5, 0xc6, 0xcc, 0xd5])],
        msrs: &both_offcore_rsp(0xfff_ffff_ffff, [LD_LAT, FRONTEND_GOLDEN_COVE]),
    },
    // Panther Cove: Diamond Rapids. Coyote Cove: Nova Lake.
    Processor {
        signatures: &[(19, &[0x01]), (18, &[0x01, 0x03])],
        msrs: &PANTHER_COVE,
    },
    // Bonnell and Saltwell.
    Processor {
        signatures: &[(6, &[0x1c, 0x26, 0x27, 0x35, 0x36])],
        msrs: &[],
    },
    // Silvermont and Airmont.
    Processor {
        signatures: &[(6, &[0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x75])],
        msrs: &[offcore_rsp_0(0x76_8005_ffff), offcore_rsp_1(0x36_8005_ffff)],
    },
    // Goldmont and Goldmont Plus.
    Processor {
        signatures: &[(6, &[0x5c, 0x5f, 0x7a])],
        msrs: &[offcore_rsp_0(0x76_0005_ffbf), offcore_rsp_1(0x36_0005_ffbf)],
    },
    // Tremont.
    Processor {
        signatures: &[(6, &[0x86, 0x96, 0x9c])],
        msrs: &[
            offcore_rsp_0(0x800f_f0ff_ffff_9fff),
            offcore_rsp_1(0x000f_f0ff_ffff_9fff),
        ],
    },
    // Gracemont.
    Processor {
        signatures: &[(6, &[0xbe])],
        msrs: &[
            offcore_rsp_0(0x8003_f03f_ffff_ffff),
            offcore_rsp_1(0x0003_f03f_ffff_ffff),
            LD_LAT,
        ],
    },
    // Crestmont: Sierra Forest and Grand Ridge. Darkmont: Clearwater Forest.
    Processor {
        signatures: &[(6, &[0xaf, 0xb6, 0xdd])],
        msrs: &[
            offcore_rsp_0(0x800f_f3ff_ffff_ffff),
            offcore_rsp_1(0x000f_f3ff_ffff_ffff),
            LD_LAT,
            SNOOP_RSP_0,
            SNOOP_RSP_1,
        ],
    },
    // Knights Landing and Knights Mill.
    Processor {
        signatures: &[(6, &[0x57, 0x85])],
        msrs: &[offcore_rsp_0(0x79_9ffb_b6e7), offcore_rsp_1(0x39_9ffb_ffe7)],
    },
];
