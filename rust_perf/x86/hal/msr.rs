// SPDX-License-Identifier: GPL-2.0

//! The addresses of the performance monitoring registers (SDM vol. 4, table
//! "IA-32 Architectural MSRs").

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

    /// The `i`th of a row of registers, of which there are 32 at the most.
    pub(super) const fn nth(self, i: usize) -> Msr {
        // INVARIANT: Within the row.
        Msr(self.0.wrapping_add(i as u32 & 31))
    }
}

/// The general counters; writes extend bit 31.
pub const PMC0: Msr = Msr(0x0c1);
/// What the general counters count.
pub const PERFEVTSEL0: Msr = Msr(0x186);
/// The fixed counters.
pub const FIXED_CTR0: Msr = Msr(0x309);
/// What performance monitoring can do, [`PERF_CAPABILITIES_FW_WRITE`] for one.
pub const PERF_CAPABILITIES: Msr = Msr(0x345);
/// What the fixed counters count, four bits each.
pub const FIXED_CTR_CTRL: Msr = Msr(0x38d);
/// Which counters have overflowed.
pub const GLOBAL_STATUS: Msr = Msr(0x38e);
/// Which counters count.
pub const GLOBAL_CTRL: Msr = Msr(0x38f);
/// Clears bits of GLOBAL_STATUS; version 4 calls it GLOBAL_STATUS_RESET.
pub const GLOBAL_OVF_CTRL: Msr = Msr(0x390);
/// The general counters; writes set all bits.
pub const A_PMC0: Msr = Msr(0x4c1);

/// In PERF_CAPABILITIES: [`A_PMC0`] and its row exist.
pub const PERF_CAPABILITIES_FW_WRITE: u64 = 1 << 13;
