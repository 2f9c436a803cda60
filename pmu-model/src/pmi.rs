// SPDX-License-Identifier: GPL-2.0

//! PMIs on their way to the local APIC, and the faults that can happen to them.

use std::{collections::VecDeque, num::NonZeroU64};

use serde::{Deserialize, Serialize};

/// A fault that happens to one PMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PmiFault {
    /// The PMI is lost.
    Lose,
    /// The PMI arrives after this many more instructions have retired in either mode.
    Delay(u64),
    /// The PMI arrives, and arrives again after this many more instructions have retired
    /// in either mode.
    Repeat(u64),
}

/// A permanent defect of a PMU, in contrast to a single [`PmiFault`].
///
/// All numbers start again at RESET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Defect {
    /// No defect.
    #[default]
    None,
    /// A fault happens to every `every`th PMI.
    ///
    /// PMIs that counters request are numbered from 1. Counters that overflow in the same
    /// instruction request one PMI.
    Pmi {
        /// The fault happens to the PMIs whose number is a multiple of this.
        every: NonZeroU64,
        /// The fault.
        fault: PmiFault,
    },
    /// A PMI that no counter has requested arrives whenever this many more instructions
    /// have retired. Instructions of both modes are included, but only those that retire
    /// while at least one counter counts.
    Spurious(NonZeroU64),
    /// These bits of GLOBAL_STATUS are set at RESET. They must be bits of counters that
    /// exist.
    Status(u64),
    /// RDMSR and WRMSR of one address raise #GP once the register has been accessed a
    /// number of times.
    ///
    /// Other addresses of the same register and RDPMC still work. An access that raises #GP
    /// for another reason is not counted.
    GeneralProtection {
        /// The address. The PMU must have a register there.
        msr: u32,
        /// The number of accesses that succeed, reads and writes counted together.
        after: u64,
    },
    /// AMD: the local APIC sets the mask bit of LVTPC when it delivers a PMI, as Intel's
    /// does. KVM's emulated local APIC did so before Linux commit 49ff3b4aec51
    /// ("KVM: x86/pmu: Do not mask LVTPC when handling a PMI on AMD platforms").
    MaskLvtpc,
    /// At RESET the registers that can be written hold what follows from this seed, as firmware or
    /// a kernel before a kexec may leave it: about half of the counters count instructions, or will
    /// as soon as they are enabled, and half of them overflow within 2^20 events. GLOBAL_STATUS
    /// may say that the counters are frozen. Registers that the threads of a core share hold 0.
    Garbage(NonZeroU64),
    /// A register changes as if firmware, a hypervisor or another driver had written it, whenever
    /// this many more instructions have retired. Instructions of both modes are included, but only
    /// those that retire while at least one counter counts.
    Foreign {
        /// Which register.
        what: Foreign,
        /// The number of instructions.
        every: NonZeroU64,
        /// What is written, and which counter it concerns if there are several, follows from this.
        seed: u64,
    },
}

/// The registers that change in [`Defect::Foreign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Foreign {
    /// EVENTSEL of a general-purpose counter that counts gets another value.
    EventSel,
    /// FIXED_CTR_CTRL: each fixed-function counter counts in the modes in which it did not.
    FixedCtrCtrl,
    /// A counter that counts is set to 0.
    Counter,
    /// GLOBAL_CTRL: no counter that counts goes on.
    GlobalCtrl,
    /// GLOBAL_CTRL, FIXED_CTR_CTRL, all EVENTSELs and all counters are set to 0, as by KVM's
    /// mediated vPMU.
    Zero,
}

/// The PMIs that counters have requested and the local APIC has not delivered.
///
/// The local APIC has one LVT entry for PMIs: PMIs that are pending at the same time are
/// one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PmiDelivery {
    /// A PMI is pending.
    pending: bool,
    /// For each delayed PMI, the number of instructions until it is pending. It is never
    /// 0.
    delayed: Vec<u64>,
    /// The faults that will happen to the next PMIs, one to each.
    injected: VecDeque<PmiFault>,
    /// Applies to PMIs for which no fault was injected.
    defect: Defect,
    /// The number of PMIs that counters have requested.
    requested: u64,
    /// [`Defect::Spurious`]: the instructions that have retired since the last spurious
    /// PMI while at least one counter counted.
    since_spurious: u64,
}

impl PmiDelivery {
    pub(crate) fn new(defect: Defect) -> PmiDelivery {
        PmiDelivery {
            defect,
            ..PmiDelivery::default()
        }
    }

    /// The defect of the PMU.
    pub(crate) fn defect(&self) -> Defect {
        self.defect
    }

    /// Whether there can be such PMIs.
    pub(crate) fn is_possible(&self) -> bool {
        let until_spurious = match self.defect {
            Defect::Spurious(every) => every.get(),
            _ => 1,
        };
        !self.delayed.contains(&0)
            && self.since_spurious < until_spurious
            && self.requested < u64::MAX / 2
    }

    /// The fault that the defect causes for the PMI requested last.
    fn fault_of_defect(&self) -> Option<PmiFault> {
        match self.defect {
            Defect::Pmi { every, fault } => (self.requested % every == 0).then_some(fault),
            Defect::None
            | Defect::Spurious(_)
            | Defect::Status(_)
            | Defect::GeneralProtection { .. }
            | Defect::MaskLvtpc
            | Defect::Garbage(_)
            | Defect::Foreign { .. } => None,
        }
    }

    /// A counter requests a PMI.
    pub(crate) fn request(&mut self) {
        self.requested += 1;
        match self.injected.pop_front().or_else(|| self.fault_of_defect()) {
            None => self.pending = true,
            Some(PmiFault::Lose) => {}
            Some(PmiFault::Delay(instructions)) => self.schedule(instructions),
            Some(PmiFault::Repeat(instructions)) => {
                self.pending = true;
                self.schedule(instructions);
            }
        }
    }

    /// Makes a PMI pending after this many more instructions.
    pub(crate) fn schedule(&mut self, instructions: u64) {
        match instructions {
            0 => self.pending = true,
            _ => self.delayed.push(instructions),
        }
    }

    /// The next PMI without a planned fault has this one.
    pub(crate) fn inject(&mut self, fault: PmiFault) {
        self.injected.push_back(fault);
    }

    /// Instructions have retired. `counting` says whether at least one counter counted.
    pub(crate) fn retire(&mut self, instructions: u64, counting: bool) {
        if let (Defect::Spurious(every), true) = (self.defect, counting) {
            let since_spurious = u128::from(self.since_spurious) + u128::from(instructions);
            let every = u128::from(every.get());
            self.pending |= since_spurious >= every;
            self.since_spurious = (since_spurious % every) as u64;
        }
        let pending = &mut self.pending;
        self.delayed.retain_mut(|remaining| {
            *remaining = remaining.saturating_sub(instructions);
            *pending |= *remaining == 0;
            *remaining != 0
        });
    }

    /// Whether a delayed PMI will become pending.
    pub(crate) fn has_delayed(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// The number of instructions until a delayed or spurious PMI becomes pending.
    /// `counting` says whether at least one counter counts until then.
    pub(crate) fn until_next(&self, counting: bool) -> Option<u64> {
        let spurious = match self.defect {
            Defect::Spurious(every) if counting => Some(every.get() - self.since_spurious),
            _ => None,
        };
        self.delayed.iter().copied().chain(spurious).min()
    }

    /// Whether a PMI is pending. Afterwards none is.
    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.pending)
    }
}
