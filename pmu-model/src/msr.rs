// SPDX-License-Identifier: GPL-2.0

//! The registers: their numbers, their fields, and where each is documented.
//!
//! "SDM" is the Intel 64 and IA-32 Architectures Software Developer's Manual.
//! Numbers are from vol. 4, table "IA-32 Architectural MSRs"; fields from vol. 3B,
//! chapter "Performance Monitoring", and its sections on the versions of
//! architectural performance monitoring.
//!
//! "APM" is the AMD64 Architecture Programmer's Manual, "PPR" and "BKDG" are the
//! Processor Programming References and the BIOS and Kernel Developer's Guides of
//! AMD's families. Numbers are from APM vol. 2, appendix "MSR Cross-Reference"; fields
//! from its chapter "Debug and Performance Resources", section "Performance Monitoring
//! Counters".

/// First of the general counters' legacy numbers: IA32_PMC0.
pub const IA32_PMC0: u32 = 0x0c1;
/// First of the general counters' event selects.
pub const IA32_PERFEVTSEL0: u32 = 0x186;
/// Debug control; the PMU has the bits that freeze it.
pub const IA32_DEBUGCTL: u32 = 0x1d9;
/// First of the fixed counters.
pub const IA32_FIXED_CTR0: u32 = 0x309;
/// What the PMU can do beyond CPUID leaf 0xA.
pub const IA32_PERF_CAPABILITIES: u32 = 0x345;
/// Control of the fixed counters, four bits each.
pub const IA32_FIXED_CTR_CTRL: u32 = 0x38d;
/// Which counters have overflowed, and whether they are frozen.
pub const IA32_PERF_GLOBAL_STATUS: u32 = 0x38e;
/// Which counters may count.
pub const IA32_PERF_GLOBAL_CTRL: u32 = 0x38f;
/// Clears bits of GLOBAL_STATUS. Called GLOBAL_OVF_CTRL before version 4.
pub const IA32_PERF_GLOBAL_STATUS_RESET: u32 = 0x390;
/// Sets bits of GLOBAL_STATUS.
pub const IA32_PERF_GLOBAL_STATUS_SET: u32 = 0x391;
/// Which counters are programmed.
pub const IA32_PERF_GLOBAL_INUSE: u32 = 0x392;
/// First of the general counters' full-width aliases.
pub const IA32_A_PMC0: u32 = 0x4c1;
/// First of the general counters in version 6's range of registers, in full width;
/// that of the next counter is [`V6_STRIDE`] on. So are those that follow here.
pub const IA32_PMC_GP0_CTR: u32 = 0x1900;
/// First of the event selects in version 6's range.
pub const IA32_PMC_GP0_CFG_A: u32 = 0x1901;
/// First of the fixed counters in version 6's range.
pub const IA32_PMC_FX0_CTR: u32 = 0x1980;
/// How far two counters' registers are apart in version 6's range. What is between, for
/// counters that reload each other and for PEBS, is not there.
pub const V6_STRIDE: u32 = 4;

/// First of AMD's legacy PERF_CTLs, which are what Intel calls EVENTSEL.
pub const K7_PERF_CTL0: u32 = 0xc001_0000;
/// First of AMD's legacy PERF_CTRs, which are what Intel calls PMC.
pub const K7_PERF_CTR0: u32 = 0xc001_0004;
/// First of AMD's PERF_CTLs; each is followed by its PERF_CTR, and then by the next.
pub const PERF_CTL0: u32 = 0xc001_0200;
/// First of AMD's PERF_CTRs.
pub const PERF_CTR0: u32 = 0xc001_0201;
/// AMD's PerfCntrGlobalStatus.
pub const PERF_CNTR_GLOBAL_STATUS: u32 = 0xc000_0300;
/// AMD's PerfCntrGlobalCtl.
pub const PERF_CNTR_GLOBAL_CTL: u32 = 0xc000_0301;
/// AMD's PerfCntrGlobalStatusClr.
pub const PERF_CNTR_GLOBAL_STATUS_CLR: u32 = 0xc000_0302;
/// AMD's PerfCntrGlobalStatusSet.
pub const PERF_CNTR_GLOBAL_STATUS_SET: u32 = 0xc000_0303;

/// A register of the PMU, whatever number a generation gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    /// EVENTSEL of a general counter.
    EventSel(usize),
    /// A general counter; a write is sign-extended from bit 31 (SDM vol. 3B,
    /// "Full-Width Writes to Performance Counter Registers").
    Pmc(usize),
    /// The same counter, written in full, as AMD's only ever is.
    FullPmc(usize),
    FixedCtr(usize),
    FixedCtrCtrl,
    GlobalCtrl,
    GlobalStatus,
    GlobalStatusReset,
    GlobalStatusSet,
    GlobalInUse,
    PerfCapabilities,
    DebugCtl,
}

/// The value of an EVENTSEL register, or of a PERF_CTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSel(pub u64);

impl EventSel {
    /// Bits 7:0, the event.
    pub const EVENT: u64 = 0xff;
    /// Bits 15:8, the unit mask.
    pub const UMASK: u64 = 0xff << 8;
    /// Count in user mode.
    pub const USR: u64 = 1 << 16;
    /// Count in kernel mode.
    pub const OS: u64 = 1 << 17;
    /// Count beginnings.
    pub const EDGE: u64 = 1 << 18;
    /// Pin control: no pin here, but the bit can be written.
    pub const PC: u64 = 1 << 19;
    /// Raise a PMI on overflow.
    pub const INT: u64 = 1 << 20;
    /// AnyThread: count for all threads of the core. A core has one here.
    pub const ANY: u64 = 1 << 21;
    /// Enable.
    pub const EN: u64 = 1 << 22;
    /// Invert the comparison with CMASK.
    pub const INV: u64 = 1 << 23;
    /// Bits 31:24, compared with the number of events in a cycle.
    pub const CMASK: u64 = 0xff << 24;
    /// Version 6: the comparison with CMASK is for equality.
    pub const EQ: u64 = 1 << 36;
    /// Version 6: bits 47:40, more of the unit mask.
    pub const UMASK2: u64 = 0xff << 40;
    /// AMD: bits 11:8 of the event.
    pub const EVENT_HIGH: u64 = 0xf << 32;
    /// AMD: count in guests only. With EFER.SVME clear, as it is taken to be here,
    /// this and HOST_ONLY each keep the counter from counting.
    pub const GUEST_ONLY: u64 = 1 << 40;
    /// AMD: count in the host only.
    pub const HOST_ONLY: u64 = 1 << 41;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    pub(crate) const fn event(self) -> u8 {
        self.0 as u8
    }

    /// AMD's event, which has 12 bits.
    pub(crate) const fn event12(self) -> u16 {
        self.event() as u16 | ((self.0 & EventSel::EVENT_HIGH) >> 24) as u16
    }

    pub(crate) const fn umask(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(crate) const fn cmask(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// FIXED_CTR_CTRL's four bits for one counter.
pub mod fixed_ctrl {
    /// How far two counters' fields are apart.
    pub const STRIDE: usize = 4;
    /// Count in kernel mode.
    pub const OS: u64 = 1 << 0;
    /// Count in user mode.
    pub const USR: u64 = 1 << 1;
    /// AnyThread.
    pub const ANY: u64 = 1 << 2;
    /// Raise a PMI on overflow.
    pub const PMI: u64 = 1 << 3;
}

/// Bits of GLOBAL_STATUS beside the counters', which are as in GLOBAL_CTRL.
pub mod global_status {
    /// The LBRs are frozen.
    pub const LBR_FRZ: u64 = 1 << 58;
    /// The counters are frozen.
    pub const CTR_FRZ: u64 = 1 << 59;
    /// An uncore counter has overflowed.
    pub const OVF_UNCORE: u64 = 1 << 61;
    /// The debug store's buffer has overflowed.
    pub const OVF_BUF: u64 = 1 << 62;
    /// The register has changed. This model never sets it.
    pub const COND_CHGD: u64 = 1 << 63;
}

/// The bit of fixed counter 0 in GLOBAL_CTRL and its kin.
pub const FIXED_SHIFT: usize = 32;

/// GLOBAL_INUSE: some counter can raise a PMI (SDM vol. 3B, figure
/// "IA32_PERF_GLOBAL_INUSE MSR").
pub const PMI_IN_USE: u64 = 1 << 63;

/// PERF_CAPABILITIES: the general counters have full-width aliases.
pub const FW_WRITE: u64 = 1 << 13;

/// Bits of DEBUGCTL (SDM vol. 3B, "IA32_DEBUGCTL MSR").
pub mod debugctl {
    /// Record last branches.
    pub const LBR: u64 = 1 << 0;
    /// Trace messages, branch traces and stepping by branches: the bits are
    /// kept, to whatever end.
    pub const TRACE: u64 = (1 << 1) | (0x1f << 6);
    /// A PMI freezes the LBRs.
    pub const FREEZE_LBRS_ON_PMI: u64 = 1 << 11;
    /// A PMI freezes the counters.
    pub const FREEZE_PERFMON_ON_PMI: u64 = 1 << 12;
}
