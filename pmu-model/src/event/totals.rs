// SPDX-License-Identifier: GPL-2.0

//! What has retired, and in which mode.

use serde::{Deserialize, Serialize};

/// The privilege levels that counters distinguish (SDM vol. 3B, "Performance Monitoring",
/// USR and OS flags of IA32_PERFEVTSELx).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// CPL 1 to 3, counted with EVENTSEL.USR.
    User = 0,
    /// CPL 0, counted with EVENTSEL.OS.
    Kernel = 1,
}

impl Mode {
    /// Both modes. Arrays indexed by mode have this order.
    pub const ALL: [Mode; 2] = [Mode::User, Mode::Kernel];

    /// The other mode.
    pub const fn other(self) -> Mode {
        match self {
            Mode::User => Mode::Kernel,
            Mode::Kernel => Mode::User,
        }
    }
}

/// The instructions that retired in one mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// The number of instructions, branches included.
    pub instructions: u64,
    /// The number of branches.
    pub branches: u64,
    /// The number of these that are conditional, taken or not.
    pub conditional: u64,
    /// The number of these that were taken. This and what follows count only if
    /// [`Pmu::counts_details`](crate::Pmu::counts_details) says so.
    pub conditional_taken: u64,
    /// The number of branches within the code segment that are not conditional.
    pub near_unconditional: u64,
    /// The number of instructions that load from memory.
    pub loads: u64,
    /// The number of instructions that store to memory.
    pub stores: u64,
}

/// The instructions that have retired in one mode since reset.
///
/// 128 bits are enough that neither a sum of [`Retired`] nor the total of an event
/// overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Totals {
    pub(super) instructions: u128,
    pub(super) branches: u128,
    pub(super) conditional: u128,
    pub(super) conditional_taken: u128,
    pub(super) near_unconditional: u128,
    pub(super) loads: u128,
    pub(super) stores: u128,
    /// The cycles of the time-stamp counter.
    pub(super) tsc: u128,
}

impl Totals {
    pub(crate) fn after(self, retired: Retired, tsc: u64) -> Totals {
        debug_assert!(retired.conditional_taken <= retired.conditional);
        Totals {
            instructions: self.instructions + u128::from(retired.instructions),
            branches: self.branches + u128::from(retired.branches),
            conditional: self.conditional + u128::from(retired.conditional),
            conditional_taken: self.conditional_taken + u128::from(retired.conditional_taken),
            near_unconditional: self.near_unconditional + u128::from(retired.near_unconditional),
            loads: self.loads + u128::from(retired.loads),
            stores: self.stores + u128::from(retired.stores),
            tsc: self.tsc + u128::from(tsc),
        }
    }

    /// Whether there can be such totals. If so, the total of no event is negative, and there is
    /// room for more.
    pub(crate) fn are_possible(&self) -> bool {
        const MAX: u128 = 1 << 100;
        let near = self.conditional.saturating_add(self.near_unconditional);
        self.instructions.max(self.tsc) < MAX
            && self.branches.max(self.loads).max(self.stores) <= self.instructions
            && near <= self.branches
            && self.conditional_taken <= self.conditional
    }

    /// The totals after `n` more instructions, all of them conditional branches that are taken,
    /// and that load and store.
    pub(super) fn after_branches(self, n: u64) -> Totals {
        let retired = Retired {
            instructions: n,
            branches: n,
            conditional: n,
            conditional_taken: n,
            near_unconditional: 0,
            loads: n,
            stores: n,
        };
        self.after(retired, 0)
    }
}
