// SPDX-License-Identifier: GPL-2.0

//! AMD's registers (APM vol. 2, appendix "MSR Cross-Reference",
//! "Performance-Monitoring MSRs").

use super::super::msr::{
    Msr,
    MsrRange, //
};

/// PerfEvtSel0 to 3: what the legacy counters count.
pub(super) const LEGACY_EVTSEL: MsrRange = MsrRange::declare(0xc001_0000, 1, 4);
/// PerfCtr0 to 3: the legacy counters.
pub(super) const LEGACY_CTR: MsrRange = MsrRange::declare(0xc001_0004, 1, 4);
/// PERF_CTLx: what the core counters count. The counters are in between.
pub(super) const CTL: MsrRange = MsrRange::declare(0xc001_0200, 2, 16);
/// PERF_CTRx: the core counters.
pub(super) const CTR: MsrRange = MsrRange::declare(0xc001_0201, 2, 16);
/// LastBranchStackSelect: which branches are not recorded.
pub(in super::super) const LAST_BRANCH_STACK_SELECT: Msr = Msr::declare(0xc000_010e);
/// DebugExtnCtl: whether branches are recorded.
pub(in super::super) const DEBUG_EXTN_CTL: Msr = Msr::declare(0xc000_010f);
/// LastBranchStackFromIp: where each branch was. LastBranchStackToIp is in between.
pub(in super::super) const LAST_BRANCH_STACK_FROM: MsrRange = MsrRange::declare(0xc001_0300, 2, 32);
/// LastBranchStackToIp: where each branch led to.
pub(in super::super) const LAST_BRANCH_STACK_TO: MsrRange = MsrRange::declare(0xc001_0301, 2, 32);
/// PerfCntrGlobalStatus: which counters have overflowed.
pub(super) const GLOBAL_STATUS: Msr = Msr::declare(0xc000_0300);
/// PerfCntrGlobalCtl: which counters count.
pub(super) const GLOBAL_CTL: Msr = Msr::declare(0xc000_0301);
/// PerfCntrGlobalStatusClr: clears bits of PerfCntrGlobalStatus.
pub(super) const GLOBAL_STATUS_CLR: Msr = Msr::declare(0xc000_0302);
