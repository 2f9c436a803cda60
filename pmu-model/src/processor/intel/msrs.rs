// SPDX-License-Identifier: GPL-2.0

//! The registers that only some of Intel's processors have.
//!
//! SDM vol. 4 lists the registers of each family and model. Linux's driver
//! (`intel_*_extra_regs` in arch/x86/events/intel/core.c) has the bits that can be written, and the
//! events that each register describes. A reserved bit raises #GP.

use super::super::{ModelMsr, ResponseBits};
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
pub(super) const OFFCORE_NEHALEM: ResponseBits = ResponseBits {
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

pub(super) const fn offcore_rsp_0(writable: u64) -> ModelMsr {
    msr(MSR_OFFCORE_RSP_0, writable).describes(&[0x01b7])
}

pub(super) const fn offcore_rsp_1(writable: u64) -> ModelMsr {
    msr(MSR_OFFCORE_RSP_1, writable).describes(&[0x01bb])
}

impl ModelMsr {
    const fn describes(self, codes: &'static [u16]) -> ModelMsr {
        ModelMsr { codes, ..self }
    }

    pub(super) const fn with(self, responses: ResponseBits) -> ModelMsr {
        ModelMsr { responses, ..self }
    }

    /// The threads of a core share it. Linux's driver has that for Nehalem, Westmere and the
    /// Atoms: `PMU_FL_NO_HT_SHARING` in arch/x86/events/intel/core.c is for the others.
    pub(super) const fn of_core(self) -> ModelMsr {
        ModelMsr {
            of_core: true,
            ..self
        }
    }
}

/// Registers whose events differ in the unit mask.
pub(super) const fn unit_mask_rsp(bits_of_0: u64, bits_of_1: u64) -> [ModelMsr; 2] {
    [
        offcore_rsp_0(bits_of_0),
        offcore_rsp_1(bits_of_1).describes(&[0x02b7]),
    ]
}

/// Those of an Atom.
pub(super) const fn atom_rsp(bits_of_0: u64, bits_of_1: u64) -> [ModelMsr; 2] {
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
pub(super) const LD_LAT: ModelMsr = msr(MSR_PEBS_LD_LAT, 0xffff);

/// Bits 7:0 select an event: bits 7:5 are reserved, and before Golden Cove bit 3 is. Bits
/// 22:8 are numbers of cycles and of empty slots.
pub(super) const FRONTEND_SKYLAKE: ModelMsr = msr(MSR_PEBS_FRONTEND, 0x7f_ff17);
pub(super) const FRONTEND_GOLDEN_COVE: ModelMsr = msr(MSR_PEBS_FRONTEND, 0x7f_ff1f);

pub(super) const fn both_offcore_rsp(writable: u64, rest: [ModelMsr; 2]) -> [ModelMsr; 4] {
    let [a, b] = rest;
    [offcore_rsp_0(writable), offcore_rsp_1(writable), a, b]
}

/// Both OFFCORE_RSPs with the events of Golden Cove, and what else it has.
pub(super) const fn both_ocr(writable: u64) -> [ModelMsr; 4] {
    [
        offcore_rsp_0(writable).describes(&[0x012a]),
        offcore_rsp_1(writable).describes(&[0x012b]),
        LD_LAT,
        FRONTEND_GOLDEN_COVE,
    ]
}

pub(super) const SANDY_BRIDGE_MSRS: [ModelMsr; 3] = [
    offcore_rsp_0(0x3f_807f_8fff),
    offcore_rsp_1(0x3f_807f_8fff),
    LD_LAT,
];

/// The servers of Sandy Bridge and Ivy Bridge, and all of Haswell and Broadwell.
pub(super) const SANDY_BRIDGE_SERVER_MSRS: [ModelMsr; 3] = [
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

pub(super) const PANTHER_COVE_MSRS: [ModelMsr; 6] = {
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

pub(super) const GRACEMONT_MSRS: [ModelMsr; 3] = and(
    atom_rsp(0x8003_f03f_ffff_ffff, 0x0003_f03f_ffff_ffff),
    [LD_LAT],
);

pub(super) const CRESTMONT_MSRS: [ModelMsr; 5] = and(
    atom_rsp(0x800f_f3ff_ffff_ffff, 0x000f_f3ff_ffff_ffff),
    [
        LD_LAT,
        snoop_rsp(MSR_SNOOP_RSP_0, &[0x0127]).of_core(),
        snoop_rsp(MSR_SNOOP_RSP_1, &[0x0227]).of_core(),
    ],
);

pub(super) const ARCTIC_WOLF_MSRS: [ModelMsr; 7] = {
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
