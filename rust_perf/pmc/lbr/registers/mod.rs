// SPDX-License-Identifier: GPL-2.0

//! The registers of branch records.

mod amd;
mod architectural;
mod legacy;

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
    control::is_call_stack,
    layout::{
        Layout,
        Lbr,
        SelectRegister, //
    },
    record::Record, //
};
use crate::system::local::{
    LocalFlag,
    LocalWord, //
};

/// The largest number of records of any CPU.
pub const MAX_DEPTH: usize = 32;

bitfield! {
    /// IA32_DEBUGCTL (SDM vol. 3B, figure "IA32_DEBUGCTL MSR"; APM vol. 2, "Debug-Control MSR").
    struct DebugCtl(u64) {
        /// A PMI stops the recording of branches, until LBR_FRZ of GLOBAL_STATUS is cleared.
        11:11 FREEZE_LBRS_ON_PMI;
        /// Branches are recorded, on Intel's CPUs without LBR_CTL. On AMD's a branch is recorded by itself.
        0:0 LBR;
    }
}

/// The registers of the records that hold addresses.
pub(super) fn addresses(lbr: &Lbr) -> impl Iterator<Item = Msr> {
    let (from, to) = match lbr.layout {
        Layout::Architectural => (msr::LBR_FROM, msr::LBR_TO),
        Layout::Legacy(legacy) => (legacy.from, legacy.to),
        Layout::Amd(_) => (amd::FROM, amd::TO),
    };
    records(from, lbr.depth).chain(records(to, lbr.depth))
}

/// The other registers.
pub(super) fn others(lbr: &Lbr) -> impl Iterator<Item = Msr> {
    let (control, info) = match lbr.layout {
        Layout::Architectural => (
            [Some(msr::LBR_CTL), Some(msr::LBR_DEPTH)],
            Some(msr::LBR_INFO),
        ),
        Layout::Legacy(legacy) => (
            [
                Some(msr::LBR_TOS),
                (legacy.select != SelectRegister::None).then_some(msr::LBR_SELECT),
            ],
            legacy.info(),
        ),
        Layout::Amd(_) => ([Some(amd::SELECT), Some(amd::DEBUG_EXTN_CTL)], None),
    };
    let depth = lbr.depth;
    let info = info.into_iter().flat_map(move |it| records(it, depth));
    [msr::DEBUGCTL]
        .into_iter()
        .chain(control.into_iter().flatten())
        .chain(info)
}

fn records(range: MsrRange, depth: u8) -> impl Iterator<Item = Msr> {
    (0..depth.into()).map(move |i| range.nth(i))
}

/// What the registers of one CPU's branch records hold.
///
/// # Invariants
///
/// While the driver owns the counters, `freezes` is DEBUGCTL.FREEZE_LBRS_ON_PMI or [`UNKNOWN`], and `select`
/// is what LBR_SELECT of the CPU holds, or [`UNKNOWN`]. If `used` is not set, the driver has written none of
/// the registers since it took the counters. If `is_off` is set, no branches are recorded. Otherwise they
/// may be: not only the driver stops that.
pub struct LbrShadow {
    is_off: LocalFlag,
    freezes: LocalWord,
    select: LocalWord,
    used: LocalFlag,
}

impl Default for LbrShadow {
    fn default() -> Self {
        LbrShadow {
            is_off: LocalFlag::default(),
            freezes: LocalWord::new(UNKNOWN),
            select: LocalWord::new(UNKNOWN),
            used: LocalFlag::default(),
        }
    }
}

/// What the CPU records when the handler of a PMI begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Branches, also those of the handler.
    On,
    /// Nothing until the handler clears the status.
    Frozen,
    /// Nothing until the handler resumes it: the PMI has stopped recording.
    StoppedByPmi,
    /// Nothing, since a time before the PMI: a debug exception has stopped recording, or a BPF program
    /// that takes a snapshot has.
    Lost,
}

/// The branch records of the CPU that the code runs on.
///
/// `control` is what [`Lbr::control`] returns for what the events want.
///
/// The caller must stay on the CPU that the shadow belongs to, with interrupts disabled. NMIs may call
/// [`Self::is_stopped`], [`Self::is_enabled`], [`Self::pmi_stops`], [`Self::sees_kernel`] and
/// [`Self::at_pmi`], and, unless it is stopped, [`Self::pause`], [`Self::resume`] and [`Self::for_each`].
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

    /// Records branches. What has been recorded stays. The register that enables this is written, or at
    /// least read, in any case: a debug exception may have stopped recording.
    ///
    /// In the call-stack mode PMIs do not stop recording: a return would find no call.
    pub fn record(self, control: u64) {
        self.shadow.used.set(true);
        let freezes = self.freezes(control);
        match &self.lbr.layout {
            Layout::Architectural => self.record_architectural(control, freezes),
            Layout::Legacy(legacy) => self.record_legacy(legacy, control, freezes),
            Layout::Amd(_) => self.record_amd(control, freezes),
        }
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

    /// Whether the register that enables recording says so.
    pub fn is_enabled(self) -> bool {
        match self.lbr.layout {
            Layout::Architectural => self.is_enabled_architectural(),
            Layout::Legacy(_) => self.is_enabled_legacy(),
            Layout::Amd(_) => self.is_enabled_amd(),
        }
    }

    /// What the CPU records when the handler of a PMI begins. `is_frozen`: whether the status has LBR_FRZ.
    pub fn at_pmi(self, control: u64, is_frozen: bool) -> Recording {
        match (self.is_enabled(), is_frozen) {
            (true, true) => Recording::Frozen,
            (true, false) => Recording::On,
            // A debug exception, and a BPF program that takes a snapshot, look alike. Then the records are
            // those before that.
            (false, _) if self.pmi_stops(control) => Recording::StoppedByPmi,
            (false, _) => Recording::Lost,
        }
    }

    /// Whether recording goes on after a PMI only if the handler resumes it.
    pub fn pmi_stops(self, control: u64) -> bool {
        match self.lbr.layout {
            Layout::Legacy(legacy) => legacy.pmi_clears_lbr && !is_call_stack(control),
            Layout::Architectural | Layout::Amd(_) => false,
        }
    }

    /// Whether branches of the kernel are recorded.
    pub fn sees_kernel(self, control: u64) -> bool {
        self.lbr.records_kernel(control)
    }

    /// Records no branches until [`Self::resume`].
    pub fn pause(self) {
        match self.lbr.layout {
            Layout::Architectural => self.pause_architectural(),
            Layout::Legacy(_) => self.set_lbr(false),
            Layout::Amd(_) => self.pause_amd(),
        }
    }

    /// Records branches again, as [`Self::record`] was told. A BPF program that takes a snapshot may have
    /// changed what PMIs do, too.
    pub fn resume(self, control: u64) {
        match self.lbr.layout {
            Layout::Architectural => self.enable_architectural(control),
            Layout::Legacy(_) => self.record_by_debugctl(self.freezes(control)),
            Layout::Amd(_) => self.resume_amd(self.freezes(control)),
        }
    }

    /// Removes all records, so that [`Self::for_each`] finds none, now or after branches have been recorded
    /// as `control` says. Branches must not be recorded meanwhile.
    pub fn wipe(self, control: u64) {
        self.shadow.used.set(true);
        match &self.lbr.layout {
            Layout::Architectural => self.wipe_architectural(),
            Layout::Legacy(legacy) if is_call_stack(control) => self.wipe_all_legacy(legacy),
            Layout::Legacy(legacy) => self.wipe_legacy(legacy),
            Layout::Amd(_) => self.wipe_amd(),
        }
    }

    /// Stops recording, removes the records, and has PMIs stop nothing.
    pub fn give_back(self) {
        if self.shadow.used.get() {
            self.pause();
            match &self.lbr.layout {
                Layout::Architectural => self.wipe_architectural(),
                Layout::Legacy(legacy) => self.give_back_legacy(legacy),
                Layout::Amd(_) => self.give_back_amd(),
            }
            self.set_freezes(false);
            self.forget();
            self.shadow.used.set(false);
        }
    }

    /// The registers may have lost their state, or others may have written them.
    pub fn forget(self) {
        self.shadow.is_off.set(false);
        self.shadow.freezes.set(UNKNOWN);
        self.shadow.select.set(UNKNOWN);
    }

    /// Calls `f` for each record, the newest first, until it has none. Returns the index of the newest one
    /// in the hardware.
    ///
    /// No branch may be recorded meanwhile. That is so in the handler of a PMI until it clears the status, if
    /// the PMI has frozen the records.
    pub fn for_each(self, control: u64, f: impl FnMut(Record)) -> u64 {
        match &self.lbr.layout {
            Layout::Architectural => self.for_each_architectural(f),
            Layout::Legacy(legacy) => return self.for_each_legacy(legacy, control, f),
            Layout::Amd(_) => self.for_each_amd(f),
        }
        0
    }

    /// Whether the registers still hold records, if there were any: a deep C-state may have cleared them.
    /// `newest` is what [`Self::for_each`] has returned.
    pub fn are_kept(self, newest: u64) -> bool {
        let from = match self.lbr.layout {
            Layout::Architectural => msr::LBR_FROM,
            Layout::Legacy(legacy) => legacy.from,
            Layout::Amd(_) => amd::FROM,
        };
        !self.lbr.is_lost_in_deep_c || self.regs.rdmsr(from.nth(newest as usize)) != 0
    }

    /// Replaces the records, from the newest to the oldest. No branch may be recorded meanwhile.
    pub fn restore(self, control: u64, records: impl ExactSizeIterator<Item = Record>) {
        self.shadow.used.set(true);
        match &self.lbr.layout {
            Layout::Architectural => self.restore_architectural(records),
            Layout::Legacy(legacy) => self.restore_legacy(legacy, control, records),
            // There are no call stacks, so that nothing is saved.
            Layout::Amd(_) => {}
        }
    }

    /// Whether PMIs are to stop recording.
    fn freezes(self, control: u64) -> bool {
        !is_call_stack(control) && self.lbr.can_freeze()
    }

    /// Selects the branches that are recorded, where LBR_SELECT does.
    fn select(self, register: Msr, select: u64) {
        if self.shadow.select.swap(select) != select {
            self.regs.wrmsr(register, select);
        }
    }

    /// Has PMIs stop the recording of branches.
    fn set_freezes(self, freezes: bool) {
        if self.shadow.freezes.get() != freezes.into() {
            self.change_debugctl(|it| it.with(DebugCtl::FREEZE_LBRS_ON_PMI, freezes.into()));
            self.shadow.freezes.set(freezes.into());
        }
    }

    /// Sets DEBUGCTL.LBR, and has PMIs stop the recording of branches if `freezes`.
    fn record_by_debugctl(self, freezes: bool) {
        self.change_debugctl(|it| {
            it.with(DebugCtl::LBR, 1)
                .with(DebugCtl::FREEZE_LBRS_ON_PMI, freezes.into())
        });
        self.shadow.freezes.set(freezes.into());
    }

    fn set_lbr(self, value: bool) {
        self.change_debugctl(|it| it.with(DebugCtl::LBR, value.into()));
    }

    /// Changes DEBUGCTL. The kernel, too, changes bits of it, each time with interrupts disabled.
    fn change_debugctl(self, change: impl FnOnce(DebugCtl) -> DebugCtl) {
        self.change(msr::DEBUGCTL, |it| {
            change(DebugCtl::from_raw(it)).into_raw()
        });
    }

    /// Changes a register, which is written only if it has another value.
    fn change(self, register: Msr, change: impl FnOnce(u64) -> u64) {
        let before = self.regs.rdmsr(register);
        let wanted = change(before);
        if wanted != before {
            self.regs.wrmsr(register, wanted);
        }
    }
}
