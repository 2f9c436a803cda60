// SPDX-License-Identifier: GPL-2.0

//! The line from the PMU to the local APIC, and what can go wrong on it.

use std::{collections::VecDeque, num::NonZeroU64};

/// Something that happens to a PMI on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmiFault {
    /// It does not arrive.
    Lose,
    /// It arrives this many instructions late, retired in whatever mode.
    Delay(u64),
    /// It arrives, and again this many instructions later.
    Repeat(u64),
}

/// What goes wrong with a PMU again and again, from power-up on and after each RESET
/// anew: a defect, and no single fault as [`PmiFault`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defect {
    /// Nothing.
    #[default]
    None,
    /// Of the PMIs that counters ask for, numbered from RESET on, this happens to every
    /// `every`th. Counters that overflow in one instruction ask for one.
    Pmi {
        /// The distance of two PMIs that it happens to.
        every: NonZeroU64,
        /// What happens.
        fault: PmiFault,
    },
    /// A PMI that no counter asked for, whenever this many more instructions have
    /// retired, in whatever mode, while some counter counted.
    Spurious(NonZeroU64),
    /// These bits of GLOBAL_STATUS, of counters that there are, are set at RESET.
    Status(u64),
    /// RDMSR and WRMSR of one register raise #GP once it has been accessed a number of
    /// times.
    ///
    /// Only this address faults: an alias of the register and RDPMC still work.
    /// Accesses that raise #GP anyway are not counted. RESET restarts the count.
    GeneralProtection {
        /// The address of a register that this PMU has.
        msr: u32,
        /// The accesses that work, reads and writes together.
        after: u64,
    },
    /// AMD: the local APIC sets the mask bit of LVTPC when it delivers a PMI, as
    /// Intel's does. KVM's emulated local APIC did so before Linux commit 49ff3b4aec51
    /// ("KVM: x86/pmu: Do not mask LVTPC when handling a PMI on AMD platforms").
    MaskLvtpc,
}

/// The line. PMIs that are due at the same time are one.
#[derive(Debug, Default)]
pub(crate) struct PmiLine {
    due: bool,
    /// Instructions until each PMI that is under way arrives, none of them 0.
    late: Vec<u64>,
    /// What is to happen to the next PMIs, one by one.
    faults: VecDeque<PmiFault>,
    /// What happens to PMIs that nothing else happens to.
    defect: Defect,
    /// PMIs that counters have asked for.
    asked: u64,
    /// Instructions that have retired while some counter counted since the last PMI of
    /// [`Defect::Spurious`].
    counted: u64,
}

impl PmiLine {
    /// A line with this defect.
    pub(crate) fn new(defect: Defect) -> PmiLine {
        PmiLine {
            defect,
            ..PmiLine::default()
        }
    }

    /// What the defect has happen to the PMI that is asked for now.
    fn defect_hits(&self) -> Option<PmiFault> {
        match self.defect {
            Defect::Pmi { every, fault } => (self.asked % every == 0).then_some(fault),
            Defect::None
            | Defect::Spurious(_)
            | Defect::Status(_)
            | Defect::GeneralProtection { .. }
            | Defect::MaskLvtpc => None,
        }
    }

    /// A counter asks for a PMI.
    pub(crate) fn raise(&mut self) {
        self.asked += 1;
        match self.faults.pop_front().or_else(|| self.defect_hits()) {
            None => self.due = true,
            Some(PmiFault::Lose) => {}
            Some(PmiFault::Delay(instructions)) => self.send(instructions),
            Some(PmiFault::Repeat(instructions)) => {
                self.due = true;
                self.send(instructions);
            }
        }
    }

    /// A PMI sets out that no counter need have asked for.
    pub(crate) fn send(&mut self, instructions: u64) {
        match instructions {
            0 => self.due = true,
            _ => self.late.push(instructions),
        }
    }

    pub(crate) fn inject(&mut self, fault: PmiFault) {
        self.faults.push_back(fault);
    }

    /// So many instructions have retired; `counting` says whether some counter counted.
    pub(crate) fn retire(&mut self, instructions: u64, counting: bool) {
        if let (Defect::Spurious(every), true) = (self.defect, counting) {
            let counted = u128::from(self.counted) + u128::from(instructions);
            let every = u128::from(every.get());
            self.due |= counted >= every;
            self.counted = (counted % every) as u64;
        }
        let due = &mut self.due;
        self.late.retain_mut(|left| {
            *left = left.saturating_sub(instructions);
            *due |= *left == 0;
            *left != 0
        });
    }

    /// Whether PMIs are under way.
    pub(crate) fn under_way(&self) -> bool {
        !self.late.is_empty()
    }

    /// Instructions until the next PMI that no overflow brings, if some counter
    /// counts till then, or none does.
    pub(crate) fn next(&self, counting: bool) -> Option<u64> {
        let spurious = match self.defect {
            Defect::Spurious(every) if counting => Some(every.get() - self.counted),
            _ => None,
        };
        self.late.iter().copied().chain(spurious).min()
    }

    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }
}
