// SPDX-License-Identifier: GPL-2.0

//! The registers: their addresses, their fields and where each is documented.
//!
//! "SDM" is the Intel 64 and IA-32 Architectures Software Developer's Manual. Addresses
//! are from vol. 4, table "IA-32 Architectural MSRs". Fields are from vol. 3B, chapter
//! "Performance Monitoring", the sections on the versions of architectural performance
//! monitoring.
//!
//! "APM" is the AMD64 Architecture Programmer's Manual. "PPR" and "BKDG" are the Processor
//! Programming References and the BIOS and Kernel Developer's Guides of AMD's families.
//! Addresses are from APM vol. 2, appendix "MSR Cross-Reference". Fields are from its
//! chapter "Debug and Performance Resources", section "Performance Monitoring Counters".

use serde::{Deserialize, Serialize};

/// General-purpose counter 0. On Intel a write is sign-extended from bit 31.
pub const IA32_PMC0: u32 = 0x0c1;
/// The event select of general-purpose counter 0.
pub const IA32_PERFEVTSEL0: u32 = 0x186;
/// Debug control. The PMU's part of it is the bits that freeze counters on a PMI.
pub const IA32_DEBUGCTL: u32 = 0x1d9;
/// Fixed-function counter 0.
pub const IA32_FIXED_CTR0: u32 = 0x309;
/// How the slots were used that fixed-function counter 3 has counted, on processors that
/// have it (PERF_CAPABILITIES bit 15).
pub const MSR_PERF_METRICS: u32 = 0x329;
/// Capabilities of the PMU that CPUID leaf 0AH does not report.
pub const IA32_PERF_CAPABILITIES: u32 = 0x345;
/// Control of the fixed-function counters, four bits for each.
pub const IA32_FIXED_CTR_CTRL: u32 = 0x38d;
/// The counters that have overflowed, and whether the counters are frozen.
pub const IA32_PERF_GLOBAL_STATUS: u32 = 0x38e;
/// The counters that are enabled.
pub const IA32_PERF_GLOBAL_CTRL: u32 = 0x38f;
/// Clears bits of GLOBAL_STATUS. Before version 4 its name is GLOBAL_OVF_CTRL.
pub const IA32_PERF_GLOBAL_STATUS_RESET: u32 = 0x390;
/// Sets bits of GLOBAL_STATUS.
pub const IA32_PERF_GLOBAL_STATUS_SET: u32 = 0x391;
/// The counters that are programmed.
pub const IA32_PERF_GLOBAL_INUSE: u32 = 0x392;
/// The alias of general-purpose counter 0 for full-width writes.
pub const IA32_A_PMC0: u32 = 0x4c1;
/// Version 6: general-purpose counter 0, for full-width writes.
pub const IA32_PMC_GP0_CTR: u32 = 0x1900;
/// Version 6: the event select of general-purpose counter 0.
pub const IA32_PMC_GP0_CFG_A: u32 = 0x1901;
/// Version 6: fixed-function counter 0.
pub const IA32_PMC_FX0_CTR: u32 = 0x1980;
/// Version 6: the distance from a register of one counter to the same register of the
/// next counter. The remaining addresses are for auto counter reload and PEBS, which are
/// not modelled.
pub const IA32_PMC_V6_STEP: u32 = 4;

/// Which requests and responses the event OFFCORE_RESPONSE_0 counts. This and the
/// following registers are not architectural: SDM vol. 4 lists them in the tables of the
/// models that have them.
pub const MSR_OFFCORE_RSP_0: u32 = 0x1a6;
/// Which requests and responses the event OFFCORE_RESPONSE_1 counts.
pub const MSR_OFFCORE_RSP_1: u32 = 0x1a7;
/// Which requests and responses an event of Panther Cove or Arctic Wolf counts. Four such registers
/// replace the two OFFCORE_RSPs there.
pub const MSR_OMR_0: u32 = 0x3e0;
/// The second of four such registers.
pub const MSR_OMR_1: u32 = 0x3e1;
/// The third.
pub const MSR_OMR_2: u32 = 0x3e2;
/// The fourth.
pub const MSR_OMR_3: u32 = 0x3e3;
/// The latency from which a load is sampled by PEBS.
pub const MSR_PEBS_LD_LAT: u32 = 0x3f6;
/// What the event FRONTEND_RETIRED counts.
pub const MSR_PEBS_FRONTEND: u32 = 0x3f7;
/// Which responses to snoops an event of Crestmont counts.
pub const MSR_SNOOP_RSP_0: u32 = 0x1328;
/// The second of two such registers.
pub const MSR_SNOOP_RSP_1: u32 = 0x1329;

/// Which branches the architectural LBRs record.
pub const IA32_LBR_CTL: u32 = 0x14ce;
/// How many of them are in use. A write clears them.
pub const IA32_LBR_DEPTH: u32 = 0x14cf;
/// INFO of the youngest record.
pub const IA32_LBR_0_INFO: u32 = 0x1200;
/// FROM of the youngest record.
pub const IA32_LBR_0_FROM_IP: u32 = 0x1500;
/// TO of the youngest record.
pub const IA32_LBR_0_TO_IP: u32 = 0x1600;

/// Which branches the legacy LBRs suppress. This and the following registers are in the tables of the models
/// that have them (SDM vol. 4).
pub const MSR_LBR_SELECT: u32 = 0x1c8;
/// The number of the youngest record of the legacy LBRs.
pub const MSR_LASTBRANCH_TOS: u32 = 0x1c9;
/// FROM of record 0 of the legacy LBRs of Core 2, Bonnell and Silvermont.
pub const MSR_LASTBRANCH_0_FROM_IP_LOW: u32 = 0x40;
/// TO of record 0 of the legacy LBRs of Core 2, Bonnell and Silvermont.
pub const MSR_LASTBRANCH_0_TO_IP_LOW: u32 = 0x60;
/// FROM of record 0 of the legacy LBRs of other processors.
pub const MSR_LASTBRANCH_0_FROM_IP: u32 = 0x680;
/// TO of record 0 of the legacy LBRs of other processors.
pub const MSR_LASTBRANCH_0_TO_IP: u32 = 0x6c0;
/// INFO of record 0 of the legacy LBRs.
pub const MSR_LBR_INFO_0: u32 = 0xdc0;

/// FROM of the last event record: IA32_LER_FROM_IP, or MSR_LER_FROM_LIP of processors with legacy LBRs.
pub const IA32_LER_FROM_IP: u32 = 0x1dd;
/// TO of the last event record.
pub const IA32_LER_TO_IP: u32 = 0x1de;
/// INFO of the last event record, with architectural LBRs only.
pub const IA32_LER_INFO: u32 = 0x1e0;

/// AMD's legacy PERF_CTL0. A PERF_CTL is what Intel calls an event select.
pub const K7_PERF_CTL0: u32 = 0xc001_0000;
/// AMD's legacy PERF_CTR0. A PERF_CTR is what Intel calls a general-purpose counter.
pub const K7_PERF_CTR0: u32 = 0xc001_0004;
/// AMD's PERF_CTL0. PERF_CTLs and PERF_CTRs alternate.
pub const PERF_CTL0: u32 = 0xc001_0200;
/// AMD's PERF_CTR0.
pub const PERF_CTR0: u32 = 0xc001_0201;
/// AMD's PerfCntrGlobalStatus.
pub const PERF_CNTR_GLOBAL_STATUS: u32 = 0xc000_0300;
/// AMD's PerfCntrGlobalCtl.
pub const PERF_CNTR_GLOBAL_CTL: u32 = 0xc000_0301;
/// AMD's PerfCntrGlobalStatusClr.
pub const PERF_CNTR_GLOBAL_STATUS_CLR: u32 = 0xc000_0302;
/// AMD's PerfCntrGlobalStatusSet.
pub const PERF_CNTR_GLOBAL_STATUS_SET: u32 = 0xc000_0303;
/// AMD's LastBranchStackSelect: which branches are suppressed.
pub const LAST_BRANCH_STACK_SELECT: u32 = 0xc000_010e;
/// AMD's DebugExtnCtl. The PMU's part of it is the bit that enables the LBR stack.
pub const DEBUG_EXTN_CTL: u32 = 0xc000_010f;
/// AMD's LastBranchStackFromIp of the youngest record. The FromIps and ToIps alternate.
pub const LAST_BRANCH_STACK_FROM_IP_0: u32 = 0xc001_0300;

/// A register of the PMU, independent of its address. The names are Intel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    /// The event select of a general-purpose counter.
    EventSel(usize),
    /// A general-purpose counter. A write is sign-extended from bit 31 (SDM vol. 3B,
    /// "Full-Width Writes to Performance Counter Registers").
    Pmc(usize),
    /// A general-purpose counter at an address where a write sets all of its bits. AMD's counters
    /// have no other.
    PmcFullWidth(usize),
    FixedCtr(usize),
    FixedCtrCtrl,
    GlobalCtrl,
    GlobalStatus,
    GlobalStatusReset,
    GlobalStatusSet,
    GlobalInUse,
    PerfCapabilities,
    PerfMetrics,
    DebugCtl,
    Lbr(LbrRegister),
    /// A register of one processor, by its index in the table of processors.
    Model(usize),
}

/// A register of the LBRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LbrRegister {
    /// Which branches are recorded: LBR_CTL, LBR_SELECT or LastBranchStackSelect.
    Select,
    /// LBR_DEPTH.
    Depth,
    /// The number of the youngest record.
    Tos,
    DebugExtnCtl,
    /// A register of a record, by the number of the record.
    Record(LbrField, usize),
    /// A register of the last event record.
    LastEvent(LbrField),
}

/// The registers of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LbrField {
    From,
    To,
    Info,
}

impl LbrField {
    pub(crate) const ALL: [LbrField; 3] = [LbrField::From, LbrField::To, LbrField::Info];
}

/// The value of an event select (EVENTSEL) or of a PERF_CTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSel(pub u64);

impl EventSel {
    /// Bits 7:0: the event.
    pub const EVENT: u64 = 0xff;
    /// Bits 15:8: the unit mask.
    pub const UMASK: u64 = 0xff << 8;
    /// Count in user mode.
    pub const USR: u64 = 1 << 16;
    /// Count in kernel mode.
    pub const OS: u64 = 1 << 17;
    /// Edge detect: count the starts of the condition.
    pub const EDGE: u64 = 1 << 18;
    /// Pin control. It can be written and has no effect.
    pub const PC: u64 = 1 << 19;
    /// Raise a PMI on overflow.
    pub const INT: u64 = 1 << 20;
    /// AnyThread: count for all threads of the core. It has no effect, because a core has
    /// one thread here.
    pub const ANY: u64 = 1 << 21;
    /// Enable the counter.
    pub const EN: u64 = 1 << 22;
    /// Invert the comparison with CMASK.
    pub const INV: u64 = 1 << 23;
    /// Bits 31:24: the counter mask, compared with the number of events in a cycle.
    pub const CMASK: u64 = 0xff << 24;
    /// Version 6: the comparison with CMASK is for equality.
    pub const EQ: u64 = 1 << 36;
    /// Where CPUID leaf 1CH has the counter: branch records say how much it has counted between them
    /// (SDM vol. 3B, "Last Branch Records": EN_LBR_LOG).
    pub const LBR_LOG: u64 = 1 << 35;
    /// Version 6, where CPUID leaf 23H has the flag: RDPMC in user mode reads 0.
    pub const RDPMC_USER_DISABLE: u64 = 1 << 37;
    /// Version 6: bits 47:40, the second unit mask.
    pub const UMASK2: u64 = 0xff << 40;
    /// AMD: bits 35:32, which are bits 11:8 of the event.
    pub const EVENT_HIGH: u64 = 0xf << 32;
    /// AMD: count in guests only. The counter counts nothing while EFER.SVME is clear.
    pub const GUEST_ONLY: u64 = 1 << 40;
    /// AMD: count on the host only. As with GUEST_ONLY, EFER.SVME must be set.
    pub const HOST_ONLY: u64 = 1 << 41;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    /// This value with these bits clear.
    pub(crate) const fn without(self, bits: u64) -> Self {
        Self(self.0 & !bits)
    }

    /// The modes in which the counter counts, by [`Mode`](crate::Mode).
    pub(crate) const fn modes(self) -> [bool; 2] {
        [self.has(EventSel::USR), self.has(EventSel::OS)]
    }

    /// Intel's event, which has 8 bits.
    pub(crate) const fn event(self) -> u8 {
        self.0 as u8
    }

    /// AMD's event, which has 12 bits.
    pub(crate) const fn amd_event(self) -> u16 {
        self.event() as u16 | ((self.0 & EventSel::EVENT_HIGH) >> 24) as u16
    }

    pub(crate) const fn umask(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(crate) const fn cmask(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// The fields of FIXED_CTR_CTRL for one counter.
pub mod fixed_ctrl {
    /// The number of bits for each counter.
    pub const BITS: usize = 4;
    /// Count in kernel mode.
    pub const OS: u64 = 1 << 0;
    /// Count in user mode.
    pub const USR: u64 = 1 << 1;
    /// AnyThread.
    pub const ANY: u64 = 1 << 2;
    /// Raise a PMI on overflow.
    pub const PMI: u64 = 1 << 3;
    /// Fixed-function counter 3 only, where PERF_CAPABILITIES has
    /// [`RDPMC_METRICS_CLEAR`](super::RDPMC_METRICS_CLEAR): RDPMC of PERF_METRICS clears both registers.
    pub const METRICS_CLEAR: u64 = 1 << 2;
    /// RDPMC in user mode reads 0. Counters 0 to 6 have the bit; the other bits of a counter with a
    /// higher number would be here.
    pub const RDPMC_USER_DISABLE: u64 = 1 << 33;
}

/// The bits of GLOBAL_STATUS that do not belong to a counter.
pub mod global_status {
    /// The LBRs are frozen.
    pub const LBR_FRZ: u64 = 1 << 58;
    /// The counters are frozen.
    pub const CTR_FRZ: u64 = 1 << 59;
    /// An uncore counter has overflowed.
    pub const OVF_UNCORE: u64 = 1 << 61;
    /// The buffer of the debug store has overflowed.
    pub const OVF_BUF: u64 = 1 << 62;
    /// The register has changed. The model never sets it.
    pub const COND_CHGD: u64 = 1 << 63;
}

/// The bit of PERF_METRICS in GLOBAL_CTRL and GLOBAL_STATUS (SDM vol. 3B, "Performance
/// Metrics": EN_PERF_METRICS, OVF_PERF_METRICS).
pub const PERF_METRICS_BIT: u64 = 1 << 48;

/// The ECX with which RDPMC reads PERF_METRICS (SDM vol. 2B, RDPMC: type 2000H).
pub const RDPMC_METRICS: u32 = 0x2000 << 16;

/// The bit of fixed-function counter 0 in GLOBAL_CTRL and GLOBAL_STATUS.
pub const FIXED_SHIFT: usize = 32;

/// GLOBAL_INUSE: at least one counter has its PMI enabled (SDM vol. 3B, figure
/// "IA32_PERF_GLOBAL_INUSE MSR").
pub const PMI_IN_USE: u64 = 1 << 63;

/// PERF_CAPABILITIES: the general-purpose counters have aliases for full-width writes.
pub const FW_WRITE: u64 = 1 << 13;
/// PERF_CAPABILITIES, bits 5:0, the format of the legacy LBRs: there are none. Processors with architectural
/// LBRs say so; one without any LBRs has 0 here.
pub const LBR_FMT_NONE: u64 = 0x3f;
/// PERF_CAPABILITIES: PERF_METRICS exists.
pub const PERF_METRICS_AVAILABLE: u64 = 1 << 15;
/// PERF_CAPABILITIES: RDPMC can clear PERF_METRICS (SDM vol. 2B, RDPMC).
pub const RDPMC_METRICS_CLEAR: u64 = 1 << 19;

/// DebugExtnCtl: the LBR stack records branches (APM vol. 2, "Last Branch Stack").
pub const LBRSE: u64 = 1 << 6;

/// The bits of DEBUGCTL (SDM vol. 3B, "IA32_DEBUGCTL MSR"). AMD's DebugCtl has the last two in the same
/// place.
pub mod debugctl {
    /// Record last branches. With architectural LBRs, and on AMD, it has no effect.
    pub const LBR: u64 = 1 << 0;
    /// Single-stepping on branches, branch trace messages and the branch trace store. The
    /// bits can be written and have no effect.
    pub const TRACE: u64 = (1 << 1) | (0x1f << 6);
    /// A PMI freezes the LBRs.
    pub const FREEZE_LBRS_ON_PMI: u64 = 1 << 11;
    /// A PMI freezes the counters.
    pub const FREEZE_PERFMON_ON_PMI: u64 = 1 << 12;
}
