// SPDX-License-Identifier: GPL-2.0

//! The addresses of the performance monitoring registers.

/// The address of a performance monitoring register.
///
/// # Invariants
///
/// It is one of the registers that this module declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msr(u32);

impl Msr {
    /// The address.
    pub const fn address(self) -> u32 {
        self.0
    }
}

/// A row of registers, one a counter.
#[derive(Clone, Copy)]
pub(super) struct Row {
    first: Msr,
    stride: u32,
}

impl Row {
    const fn new(first: u32, stride: u32) -> Self {
        Row {
            first: Msr(first),
            stride,
        }
    }

    /// The `i`th register, of 32 at the most.
    pub(super) const fn nth(self, i: usize) -> Msr {
        // INVARIANT: Within the row.
        Msr((i as u32 & 31)
            .wrapping_mul(self.stride)
            .wrapping_add(self.first.0))
    }
}

/// Intel's (SDM vol. 4, table "IA-32 Architectural MSRs").
pub mod intel {
    use super::{
        Msr,
        Row, //
    };

    /// IA32_PMCx: the general counters; writes extend bit 31.
    pub(in super::super) const PMC: Row = Row::new(0x0c1, 1);
    /// IA32_PERFEVTSELx: what the general counters count.
    pub(in super::super) const PERFEVTSEL: Row = Row::new(0x186, 1);
    /// IA32_FIXED_CTRx: the fixed counters.
    pub(in super::super) const FIXED_CTR: Row = Row::new(0x309, 1);
    /// IA32_PERF_CAPABILITIES: what performance monitoring can do.
    pub const PERF_CAPABILITIES: Msr = Msr(0x345);
    /// IA32_FIXED_CTR_CTRL: what the fixed counters count, four bits each.
    pub(in super::super) const FIXED_CTR_CTRL: Msr = Msr(0x38d);
    /// IA32_PERF_GLOBAL_STATUS: which counters have overflowed.
    pub(in super::super) const GLOBAL_STATUS: Msr = Msr(0x38e);
    /// IA32_PERF_GLOBAL_CTRL: which counters count.
    pub(in super::super) const GLOBAL_CTRL: Msr = Msr(0x38f);
    /// IA32_PERF_GLOBAL_OVF_CTRL, in version 4 GLOBAL_STATUS_RESET: clears bits
    /// of the status.
    pub(in super::super) const GLOBAL_OVF_CTRL: Msr = Msr(0x390);
    /// IA32_A_PMCx: the general counters; writes set all bits.
    pub(in super::super) const A_PMC: Row = Row::new(0x4c1, 1);
    /// IA32_PMC_GPx_CTR: the general counters in version 6; writes set all bits.
    pub(in super::super) const GP_CTR: Row = Row::new(0x1900, 4);
    /// IA32_PMC_GPx_CFG_A: what they count.
    pub(in super::super) const GP_CFG_A: Row = Row::new(0x1901, 4);
    /// IA32_PMC_FXx_CTR: the fixed counters in version 6.
    pub(in super::super) const FX_CTR: Row = Row::new(0x1980, 4);

    /// In PERF_CAPABILITIES: IA32_A_PMCx exist.
    pub(in super::super) const FW_WRITE: u64 = 1 << 13;
}

/// AMD's (APM vol. 2, appendix "MSR Cross-Reference", "Performance-Monitoring
/// MSRs").
pub(super) mod amd {
    use super::{
        Msr,
        Row, //
    };

    /// PerfEvtSel0 to 3.
    pub(in super::super) const LEGACY_EVTSEL: Row = Row::new(0xc001_0000, 1);
    /// PerfCtr0 to 3.
    pub(in super::super) const LEGACY_CTR: Row = Row::new(0xc001_0004, 1);
    /// PERF_CTL0 and on, with the counters in between.
    pub(in super::super) const CTL: Row = Row::new(0xc001_0200, 2);
    /// PERF_CTR0 and on.
    pub(in super::super) const CTR: Row = Row::new(0xc001_0201, 2);
    /// PerfCntrGlobalStatus: which counters have overflowed.
    pub(in super::super) const GLOBAL_STATUS: Msr = Msr(0xc000_0300);
    /// PerfCntrGlobalCtl: which counters count.
    pub(in super::super) const GLOBAL_CTL: Msr = Msr(0xc000_0301);
    /// PerfCntrGlobalStatusClr: clears bits of the status.
    pub(in super::super) const GLOBAL_STATUS_CLR: Msr = Msr(0xc000_0302);
}
