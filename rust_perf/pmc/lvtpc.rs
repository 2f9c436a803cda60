// SPDX-License-Identifier: GPL-2.0

//! When the handler of a PMI unmasks LVTPC.

use super::Capabilities;

/// When the handler of a PMI unmasks LVTPC, which delivering the PMI has masked.
///
/// The SDM only says that the handler has to (vol. 3, "Local Vector Table"). The order is that of the
/// in-tree driver, whose authors could see on hardware which one is right
/// (`intel_pmu_handle_irq()` in `arch/x86/events/intel/core.c`).
///
/// A PMI that comes while LVTPC is masked is lost. With [`Self::Late`] that happens if a counter overflows
/// in kernel mode within the few instructions from its start on, and the CPU or the hypervisor delivers
/// the PMI within them. The status has the overflow until the next PMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LvtpcOrder {
    /// When GLOBAL_STATUS has shown an overflow, before its bit is cleared: cores before Haswell, Atoms
    /// before Tremont, Xeon Phi, and CPUs that the driver does not know.
    ///
    /// The in-tree driver does it a little earlier, before it stops the counters. Then nothing could tell
    /// a PMI that arrives late from an NMI of another device: that is what the mask bit is for. In between,
    /// the counters are stopped and the status is read.
    Early,
    /// When the overflows have been handled, before the counters run again: Atoms from Gracemont on. In-tree:
    /// `mid_ack`.
    Middle,
    /// When the counters run again: cores from Haswell on, and Tremont. In-tree: `late_ack`, which avoids
    /// spurious NMIs.
    Late,
}

impl Capabilities {
    /// When the handler of a PMI unmasks LVTPC, if delivering the PMI masks it.
    pub fn lvtpc_order(&self) -> LvtpcOrder {
        self.events.lvtpc_order
    }
}
