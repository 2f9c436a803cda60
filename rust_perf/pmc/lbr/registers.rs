// SPDX-License-Identifier: GPL-2.0

//! The registers of branch records.

use super::{
    super::{
        bitfield::Field,
        intel::msr,
        msr::{
            Msr,
            MsrRange, //
        },
        registers::Registers,
        shadow::UNKNOWN, //
    },
    Branch,
    Lbr, //
};
use crate::system::local::{
    LocalFlag,
    LocalWord, //
};

/// The largest number of records of any CPU.
pub const MAX_DEPTH: usize = 32;

bitfield! {
    /// IA32_LBR_CTL (SDM vol. 3B, "Last Branch Records", figure "IA32_LBR_CTL MSR Layout").
    pub(super) struct LbrCtl(u64) {
        /// All kinds of branches.
        22:16 KINDS;
        /// Far branches, interrupts and exceptions.
        22:22 OTHER;
        /// Near returns.
        21:21 RETURN;
        /// Near indirect calls.
        20:20 IND_CALL;
        /// Near relative calls.
        19:19 REL_CALL;
        /// Near indirect jumps.
        18:18 IND_JUMP;
        /// Near relative jumps.
        17:17 REL_JUMP;
        /// Conditional branches.
        16:16 COND;
        /// A near return removes the record of the call.
        3:3 CALL_STACK;
        /// Branches to other levels than CPL 0.
        2:2 USR;
        /// Branches to CPL 0.
        1:1 OS;
        /// Branches are recorded.
        0:0 EN;
    }

    /// IA32_DEBUGCTL (SDM vol. 3B, figure "IA32_DEBUGCTL MSR").
    struct DebugCtl(u64) {
        /// A PMI stops the recording of branches, until LBR_FRZ of GLOBAL_STATUS is cleared.
        11:11 FREEZE_LBRS_ON_PMI;
    }
}

/// Whether branches to the kernel are recorded if LBR_CTL has this value.
pub const fn records_kernel(control: u64) -> bool {
    LbrCtl::from_raw(control).has(LbrCtl::OS)
}

/// The registers of this number of branch records that hold addresses.
pub(super) fn addresses(depth: u8) -> impl Iterator<Item = Msr> {
    let records = |range: MsrRange| (0..depth.into()).map(move |i| range.nth(i));
    records(msr::LBR_FROM).chain(records(msr::LBR_TO))
}

/// The other registers of this number of branch records.
pub(super) fn others(depth: u8) -> impl Iterator<Item = Msr> {
    let records = |range: MsrRange| (0..depth.into()).map(move |i| range.nth(i));
    [msr::DEBUGCTL, msr::LBR_CTL, msr::LBR_DEPTH]
        .into_iter()
        .chain(records(msr::LBR_INFO))
}

/// What the registers of one CPU's branch records hold.
///
/// # Invariants
///
/// While the driver owns the counters, `freezes` is DEBUGCTL.FREEZE_LBRS_ON_PMI or [`UNKNOWN`]. If `used`
/// is not set, the driver has written none of the registers since it took the counters. If `is_off` is
/// set, LBR_CTL does not record. Otherwise it may: not only the driver stops that.
pub struct LbrShadow {
    is_off: LocalFlag,
    freezes: LocalWord,
    used: LocalFlag,
}

impl Default for LbrShadow {
    fn default() -> Self {
        LbrShadow {
            is_off: LocalFlag::default(),
            freezes: LocalWord::new(UNKNOWN),
            used: LocalFlag::default(),
        }
    }
}

/// Whether, if LBR_CTL has this value, a near return removes the record of the call.
pub const fn is_call_stack(control: u64) -> bool {
    LbrCtl::from_raw(control).has(LbrCtl::CALL_STACK)
}

/// The branch records of the CPU that the code runs on.
///
/// The caller must stay on the CPU that the shadow belongs to, with interrupts disabled. NMIs may call
/// [`Self::is_stopped`] and [`Self::is_recording`], and, unless it is stopped, [`Self::pause`],
/// [`Self::resume`] and [`Self::for_each`].
#[derive(Clone, Copy)]
pub struct BranchRecords<'a, R> {
    shadow: &'a LbrShadow,
    lbr: &'a Lbr,
    regs: R,
}

impl<'a, R: Registers> BranchRecords<'a, R> {
    /// The records with this shadow.
    pub const fn new(shadow: &'a LbrShadow, lbr: &'a Lbr, regs: R) -> Self {
        BranchRecords { shadow, lbr, regs }
    }

    /// Records branches as LBR_CTL says. What has been recorded stays. LBR_CTL is written in any case: a
    /// debug exception may have stopped recording.
    ///
    /// In the call-stack mode PMIs do not stop that: a return would find no call.
    pub fn record(self, control: u64) {
        self.shadow.used.set(true);
        self.set_freezes(!is_call_stack(control));
        self.shadow.is_off.set(false);
        self.regs.wrmsr(msr::LBR_CTL, control);
    }

    /// Records no more branches.
    pub fn stop(self) {
        if !self.shadow.is_off.swap(true) {
            self.pause();
        }
    }

    /// Whether the driver has stopped recording, or is about to. An NMI must not resume it then.
    pub fn is_stopped(self) -> bool {
        self.shadow.is_off.get()
    }

    /// Whether branches are recorded.
    pub fn is_recording(self) -> bool {
        LbrCtl::from_raw(self.regs.rdmsr(msr::LBR_CTL)).has(LbrCtl::EN)
    }

    /// Records no branches until [`Self::resume`].
    pub fn pause(self) {
        self.regs.wrmsr(msr::LBR_CTL, 0);
    }

    /// Records branches again, as [`Self::record`] was told.
    pub fn resume(self, control: u64) {
        self.regs.wrmsr(msr::LBR_CTL, control);
    }

    /// Removes all records, with one write. Branches should not be recorded meanwhile.
    pub fn wipe(self) {
        // A write of the depth clears all records, even if it is the depth already (SDM vol. 3B, "Last
        // Branch Records").
        self.shadow.used.set(true);
        self.regs.wrmsr(msr::LBR_DEPTH, self.lbr.depth.into());
    }

    /// Stops recording, removes the records, and has PMIs stop nothing.
    pub fn give_back(self) {
        if self.shadow.used.get() {
            self.pause();
            self.wipe();
            self.set_freezes(false);
            self.forget();
            self.shadow.used.set(false);
        }
    }

    /// The registers may have lost their state, or others may have written them.
    pub fn forget(self) {
        self.shadow.is_off.set(false);
        self.shadow.freezes.set(UNKNOWN);
    }

    /// Calls `f` for each record, the newest first, until it has none.
    ///
    /// No branch may be recorded meanwhile. That is so in the handler of a PMI until it clears the status, if
    /// the PMI has frozen the records.
    pub fn for_each(self, mut f: impl FnMut(Branch)) {
        for i in 0..usize::from(self.lbr.depth) {
            let from = self.regs.rdmsr(msr::LBR_FROM.nth(i));
            if from == 0 {
                return;
            }
            f(Branch {
                from,
                to: self.regs.rdmsr(msr::LBR_TO.nth(i)),
                info: self.regs.rdmsr(msr::LBR_INFO.nth(i)),
            });
        }
    }

    /// Whether the registers still hold records, if there were any: a deep C-state may have cleared them.
    pub fn are_kept(self) -> bool {
        !self.lbr.is_lost_in_deep_c || self.regs.rdmsr(msr::LBR_FROM.nth(0)) != 0
    }

    /// Replaces the records, from the newest to the oldest. No branch may be recorded meanwhile.
    pub fn restore(self, branches: impl ExactSizeIterator<Item = Branch>) {
        if branches.len() < self.lbr.depth.into() {
            self.wipe();
        }
        self.shadow.used.set(true);
        for (i, branch) in branches.take(self.lbr.depth.into()).enumerate() {
            self.regs.wrmsr(msr::LBR_FROM.nth(i), branch.from);
            self.regs.wrmsr(msr::LBR_TO.nth(i), branch.to);
            self.regs.wrmsr(msr::LBR_INFO.nth(i), branch.info);
        }
    }

    /// Has PMIs stop the recording of branches. The kernel, too, changes bits of DEBUGCTL, each time
    /// with interrupts disabled.
    fn set_freezes(self, freezes: bool) {
        if self.shadow.freezes.get() == freezes.into() {
            return;
        }
        let before = DebugCtl::from_raw(self.regs.rdmsr(msr::DEBUGCTL));
        let wanted = before.with(DebugCtl::FREEZE_LBRS_ON_PMI, freezes.into());
        if wanted != before {
            self.regs.wrmsr(msr::DEBUGCTL, wanted.into_raw());
        }
        self.shadow.freezes.set(freezes.into());
    }
}
