// SPDX-License-Identifier: GPL-2.0

//! Who has the counters of a CPU, and since when.
//!
//! Nothing here allocates, locks, sleeps, prints or panics.

use crate::system::{
    local::{
        LocalFlag,
        LocalWord, //
    },
    time::jiffies, //
};

/// Who has a CPU's counters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Not this driver: they may be anyone's.
    Free,
    /// This driver.
    Ours,
    /// This driver, once the system has woken up. Until then the counters may lose their state,
    /// and NMIs must leave them alone.
    Asleep,
}

/// The driver's hold on a CPU's counters.
///
/// Changed on that CPU only, with interrupts disabled. NMIs leave all of it as it is.
#[derive(Default)]
pub(super) struct Tenure {
    /// An [`Ownership`].
    ownership: LocalWord,
    /// Whether the driver has been told that the CPU is online, and not since that it goes offline.
    /// While the CPU comes online, perf may put events on it before that.
    online: LocalFlag,
    /// The time in jiffies at which the last event left the CPU.
    empty_since: LocalWord,
    /// Whether a guest may have used the counters since the last event left the CPU.
    lent: LocalFlag,
}

impl Tenure {
    /// Who has this CPU's counters. Any context; another CPU may see an old value.
    #[inline(always)]
    pub(super) fn ownership(&self) -> Ownership {
        match self.ownership.get() {
            1 => Ownership::Ours,
            2 => Ownership::Asleep,
            _ => Ownership::Free,
        }
    }

    pub(super) fn set_ownership(&self, ownership: Ownership) {
        self.ownership.set(ownership as u64);
    }

    /// Whether this driver has the counters and may use them. Any context; another CPU may see an old
    /// value.
    #[inline(always)]
    pub(super) fn is_ours(&self) -> bool {
        self.ownership() == Ownership::Ours
    }

    /// Whether the driver has been told that the CPU is online.
    pub(super) fn is_online(&self) -> bool {
        self.online.get()
    }

    /// The driver is told that the CPU is online, or goes offline.
    pub(super) fn set_online(&self, online: bool) {
        self.online.set(online);
    }

    /// The last event has left the CPU.
    pub(super) fn note_empty(&self) {
        self.empty_since.set(jiffies() as u64);
    }

    /// A guest gets the counters. No event is on the CPU.
    pub(super) fn lend(&self) {
        self.lent.set(true);
    }

    /// Whether others may have written the registers since the last event left the CPU: a guest has had
    /// the counters, or that was more than a tick ago. From now on no guest has had them.
    pub(super) fn take_may_be_changed(&self) -> bool {
        let is_late = self.empty_since.get() != jiffies() as u64;
        let was_lent = self.lent.get();
        if was_lent {
            self.lent.set(false);
        }
        is_late || was_lent
    }
}
