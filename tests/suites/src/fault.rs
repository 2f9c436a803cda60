// SPDX-License-Identifier: GPL-2.0

//! What is wrong with an emulated PMU: QEMU's property `pmu-fault`.

use std::fmt;

/// A defect of the emulated PMU. qemu/README.md defines each one.
///
/// PMIs are numbered from RESET on, for each vCPU, starting with 1. Numbers must
/// be at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every `every`th PMI is lost.
    Lose {
        /// Which PMIs.
        every: u64,
    },
    /// Every `every`th PMI comes late.
    Delay {
        /// Which PMIs.
        every: u64,
        /// By how many instructions, of any mode.
        instructions: u64,
    },
    /// Every `every`th PMI comes twice.
    Repeat {
        /// Which PMIs.
        every: u64,
        /// How many instructions, of any mode, lie between the two.
        instructions: u64,
    },
    /// PMIs come that no counter asked for.
    Spurious {
        /// One per this many instructions, of any mode, while a counter counts.
        instructions: u64,
    },
    /// Bits of GLOBAL_STATUS are set at RESET, without a PMI.
    Status {
        /// The bits.
        bits: u64,
    },
    /// RDMSR and WRMSR of a register raise #GP.
    Gp {
        /// The register's address.
        msr: u32,
        /// How many accesses succeed first.
        after: u64,
    },
    /// RDMSR and WRMSR of a register raise #GP on the efficient cores of a hybrid CPU.
    EfficientGp {
        /// The register's address.
        msr: u32,
    },
    /// The delivery of a PMI masks LVTPC on AMD as well.
    MaskLvtpc,
    /// The registers hold garbage at RESET.
    Garbage {
        /// What it follows from.
        seed: u64,
    },
    /// A register changes behind the driver's back.
    Foreign {
        /// Which register.
        register: Foreign,
        /// Once per this many instructions, of any mode, while a counter counts.
        instructions: u64,
        /// What the value follows from.
        seed: u64,
    },
}

/// The registers that change in [`Fault::Foreign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// EVENTSEL of a general counter that counts.
    EventSel,
    /// FIXED_CTR_CTRL.
    FixedCtrCtrl,
    /// A counter that counts.
    Counter,
    /// GLOBAL_CTRL.
    GlobalCtrl,
    /// All of them, to 0.
    Zero,
}

impl Foreign {
    fn name(self) -> &'static str {
        match self {
            Self::EventSel => "eventsel",
            Self::FixedCtrCtrl => "fixed-ctr-ctrl",
            Self::Counter => "counter",
            Self::GlobalCtrl => "global-ctrl",
            Self::Zero => "zero",
        }
    }
}

/// The value of the property `pmu-fault`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Lose { every } => write!(f, "lose:{every}"),
            Self::Delay {
                every,
                instructions,
            } => write!(f, "delay:{every}:{instructions}"),
            Self::Repeat {
                every,
                instructions,
            } => write!(f, "repeat:{every}:{instructions}"),
            Self::Spurious { instructions } => write!(f, "spurious:{instructions}"),
            Self::Status { bits } => write!(f, "status:{bits:#x}"),
            Self::Gp { msr, after } => write!(f, "gp:{msr:#x}:{after}"),
            Self::EfficientGp { msr } => write!(f, "efficient:gp:{msr:#x}:0"),
            Self::MaskLvtpc => f.write_str("mask-lvtpc"),
            Self::Garbage { seed } => write!(f, "garbage:{seed}"),
            Self::Foreign {
                register,
                instructions,
                seed,
            } => write!(f, "foreign:{}:{instructions}:{seed}", register.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_property() {
        let (every, instructions) = (3, 20_000);
        for (fault, text) in [
            (Fault::Lose { every: 5 }, "lose:5"),
            (
                Fault::Delay {
                    every,
                    instructions,
                },
                "delay:3:20000",
            ),
            (
                Fault::Repeat {
                    every,
                    instructions,
                },
                "repeat:3:20000",
            ),
            (
                Fault::Spurious {
                    instructions: 100_003,
                },
                "spurious:100003",
            ),
            (
                Fault::Status {
                    bits: 0x7_0000_000f,
                },
                "status:0x70000000f",
            ),
            (
                Fault::Gp {
                    msr: 0x38f,
                    after: 7,
                },
                "gp:0x38f:7",
            ),
            (Fault::EfficientGp { msr: 0x187 }, "efficient:gp:0x187:0"),
            (Fault::MaskLvtpc, "mask-lvtpc"),
            (Fault::Garbage { seed: 7 }, "garbage:7"),
            (
                Fault::Foreign {
                    register: Foreign::FixedCtrCtrl,
                    instructions: 5,
                    seed: 1,
                },
                "foreign:fixed-ctr-ctrl:5:1",
            ),
        ] {
            assert_eq!(fault.to_string(), text);
        }
    }
}
