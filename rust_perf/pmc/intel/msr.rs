// SPDX-License-Identifier: GPL-2.0

//! Intel's registers (SDM vol. 4, table "IA-32 Architectural MSRs", and the tables of
//! the models for what is not architectural).

use super::super::{
    bitfield::Field,
    extra::ExtraRegister,
    msr::{
        Msr,
        MsrRange, //
    }, //
};

/// MSR_LASTBRANCH_x_FROM_IP of Core 2, Bonnell and Silvermont (SDM vol. 4, tables of these models).
pub(in super::super) const LASTBRANCH_FROM_40H: MsrRange = MsrRange::declare(0x40, 1, 8);
/// MSR_LASTBRANCH_x_TO_IP of these models.
pub(in super::super) const LASTBRANCH_TO_60H: MsrRange = MsrRange::declare(0x60, 1, 8);
/// IA32_PMCx: the GP counters. A write sets bits 31:0 and extends bit 31.
pub(in super::super) const PMC: MsrRange = MsrRange::declare(0x0c1, 1, 10);
/// IA32_PERFEVTSELx: what the GP counters count.
pub(in super::super) const PERFEVTSEL: MsrRange = MsrRange::declare(0x186, 1, 10);
/// IA32_DEBUGCTL: see [`lbr`](super::super::lbr).
pub(in super::super) const DEBUGCTL: Msr = Msr::declare(0x1d9);
/// MSR_LBR_SELECT: which branches are not recorded.
pub(in super::super) const LBR_SELECT: Msr = Msr::declare(0x1c8);
/// MSR_LASTBRANCH_TOS: which branch record is the newest.
pub(in super::super) const LBR_TOS: Msr = Msr::declare(0x1c9);
/// MSR_OFFCORE_RSP_0 and MSR_OFFCORE_RSP_1: see [`ExtraRegister`](super::super::ExtraRegister).
pub(in super::super) const OFFCORE_RSP_0: Msr = Msr::declare(0x1a6);
/// MSR_OFFCORE_RSP_1.
pub(in super::super) const OFFCORE_RSP_1: Msr = Msr::declare(0x1a7);
/// IA32_FIXED_CTRx: the fixed counters.
pub(in super::super) const FIXED_CTR: MsrRange = MsrRange::declare(0x309, 1, 7);
/// MSR_PERF_METRICS: see [`metrics`](super::super::metrics).
pub(in super::super) const PERF_METRICS: Msr = Msr::declare(0x329);
/// IA32_PERF_CAPABILITIES: see [`PerfCapabilities`].
pub const PERF_CAPABILITIES: Msr = Msr::declare(0x345);
/// IA32_FIXED_CTR_CTRL: what the fixed counters count.
pub(in super::super) const FIXED_CTR_CTRL: Msr = Msr::declare(0x38d);
/// IA32_PERF_GLOBAL_STATUS: which counters have overflowed.
pub(in super::super) const GLOBAL_STATUS: Msr = Msr::declare(0x38e);
/// IA32_PERF_GLOBAL_CTRL: which counters count.
pub(in super::super) const GLOBAL_CTRL: Msr = Msr::declare(0x38f);
/// IA32_PERF_GLOBAL_OVF_CTRL, from version 4 on IA32_PERF_GLOBAL_STATUS_RESET:
/// clears bits of GLOBAL_STATUS.
pub(in super::super) const GLOBAL_OVF_CTRL: Msr = Msr::declare(0x390);
/// MSR_OMR_0 to MSR_OMR_3 (`arch/x86/include/asm/msr-index.h`).
pub(in super::super) const OMR_0: Msr = Msr::declare(0x3e0);
/// MSR_OMR_1.
pub(in super::super) const OMR_1: Msr = Msr::declare(0x3e1);
/// MSR_OMR_2.
pub(in super::super) const OMR_2: Msr = Msr::declare(0x3e2);
/// MSR_OMR_3.
pub(in super::super) const OMR_3: Msr = Msr::declare(0x3e3);
/// MSR_PEBS_LD_LAT: the least latency of a load that is counted, in cycles.
pub(in super::super) const PEBS_LD_LAT_THRESHOLD: Msr = Msr::declare(0x3f6);
/// MSR_PEBS_FRONTEND: which events of the front end are counted.
pub(in super::super) const PEBS_FRONTEND: Msr = Msr::declare(0x3f7);
/// IA32_A_PMCx: the GP counters. A write sets all bits.
pub(in super::super) const A_PMC: MsrRange = MsrRange::declare(0x4c1, 1, 10);
/// MSR_LASTBRANCH_x_FROM_IP: where each branch was, from Nehalem on.
pub(in super::super) const LASTBRANCH_FROM: MsrRange = MsrRange::declare(0x680, 1, 32);
/// MSR_LASTBRANCH_x_TO_IP: where each branch led to.
pub(in super::super) const LASTBRANCH_TO: MsrRange = MsrRange::declare(0x6c0, 1, 32);
/// MSR_LBR_INFO_x: more about each branch record, from Skylake on.
pub(in super::super) const LASTBRANCH_INFO: MsrRange = MsrRange::declare(0xdc0, 1, 32);
/// IA32_LBR_x_INFO: more about each branch record.
pub(in super::super) const LBR_INFO: MsrRange = MsrRange::declare(0x1200, 1, 32);
/// MSR_SNOOP_RSP_0 and MSR_SNOOP_RSP_1 (`arch/x86/include/asm/msr-index.h`).
pub(in super::super) const SNOOP_RSP_0: Msr = Msr::declare(0x1328);
/// MSR_SNOOP_RSP_1.
pub(in super::super) const SNOOP_RSP_1: Msr = Msr::declare(0x1329);
/// IA32_LBR_CTL: which branches are recorded.
pub(in super::super) const LBR_CTL: Msr = Msr::declare(0x14ce);
/// IA32_LBR_DEPTH: the number of branch records. A write clears them.
pub(in super::super) const LBR_DEPTH: Msr = Msr::declare(0x14cf);
/// IA32_LBR_x_FROM_IP: where each branch was.
pub(in super::super) const LBR_FROM: MsrRange = MsrRange::declare(0x1500, 1, 32);
/// IA32_LBR_x_TO_IP: where each branch led to.
pub(in super::super) const LBR_TO: MsrRange = MsrRange::declare(0x1600, 1, 32);
/// IA32_PMC_GPx_CTR: the GP counters in version 6. A write sets all bits.
pub(in super::super) const GP_CTR: MsrRange = MsrRange::declare(0x1900, 4, 32);
/// IA32_PMC_GPx_CFG_A: what the GP counters count in version 6.
pub(in super::super) const GP_CFG_A: MsrRange = MsrRange::declare(0x1901, 4, 32);
/// IA32_PMC_FXx_CTR: the fixed counters in version 6.
pub(in super::super) const FX_CTR: MsrRange = MsrRange::declare(0x1980, 4, 16);

bitfield! {
    /// IA32_PERF_CAPABILITIES (SDM vol. 3, figure "Layout of
    /// IA32_PERF_CAPABILITIES MSR").
    pub(in super::super) struct PerfCapabilities(u64) {
        /// RDPMC can clear PERF_METRICS.
        19:19 RDPMC_METRICS_CLEAR;
        /// PERF_METRICS exists.
        15:15 PERF_METRICS;
        /// IA32_A_PMCx exist.
        13:13 FW_WRITE;
        /// What is in a branch record.
        5:0 LBR_FMT;
    }
}

impl ExtraRegister {
    /// The address of the register.
    pub const fn msr(self) -> Msr {
        match self {
            Self::OffcoreRsp0 => OFFCORE_RSP_0,
            Self::OffcoreRsp1 => OFFCORE_RSP_1,
            Self::LoadLatency => PEBS_LD_LAT_THRESHOLD,
            Self::Frontend => PEBS_FRONTEND,
            Self::SnoopRsp0 => SNOOP_RSP_0,
            Self::SnoopRsp1 => SNOOP_RSP_1,
            Self::Omr0 => OMR_0,
            Self::Omr1 => OMR_1,
            Self::Omr2 => OMR_2,
            Self::Omr3 => OMR_3,
        }
    }
}
