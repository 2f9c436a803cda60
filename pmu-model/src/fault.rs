// SPDX-License-Identifier: GPL-2.0

//! Defects as texts: the grammar of QEMU's property `pmu-fault`.

use core::{fmt, str::FromStr};
use std::num::NonZeroU64;

use crate::pmi::{Defect, Foreign, PmiFault};

/// A defect, and which cores have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The defect.
    pub defect: Defect,
    /// Whether only the efficient cores of a hybrid processor have it.
    pub of_efficient_cores: bool,
}

/// What is before the text of a defect that only efficient cores have.
const EFFICIENT: &str = "efficient:";

/// The forms of the text of a defect. A word in capitals stands for a number, and REGISTER for
/// [`Foreign::name`].
///
/// Numbers are decimal or begin with `0x`. They are at least 1, but for AFTER and the SEED of
/// `foreign`.
pub const FAULT_FORMS: [&str; 9] = [
    "lose:N",
    "delay:N:INSNS",
    "repeat:N:INSNS",
    "spurious:INSNS",
    "status:BITS",
    "gp:ADDRESS:AFTER",
    "mask-lvtpc",
    "garbage:SEED",
    "foreign:REGISTER:INSNS:SEED",
];

const fn at_least_1(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).expect("the number is at least 1")
}

/// A function panics if a number is 0 that must not be.
impl Fault {
    const fn of_all_cores(defect: Defect) -> Fault {
        Fault {
            defect,
            of_efficient_cores: false,
        }
    }

    /// This fault, of efficient cores only.
    #[must_use]
    pub const fn of_efficient_cores(self) -> Fault {
        Fault {
            of_efficient_cores: true,
            ..self
        }
    }

    const fn pmi(every: u64, fault: PmiFault) -> Fault {
        let every = at_least_1(every);
        Fault::of_all_cores(Defect::Pmi { every, fault })
    }

    /// Every so manieth PMI is lost.
    pub const fn lose(every: u64) -> Fault {
        Fault::pmi(every, PmiFault::Lose)
    }

    /// Every so manieth PMI is late by so many instructions.
    pub const fn delay(every: u64, instructions: u64) -> Fault {
        Fault::pmi(every, PmiFault::Delay(at_least_1(instructions).get()))
    }

    /// Every so manieth PMI arrives again after so many instructions.
    pub const fn repeat(every: u64, instructions: u64) -> Fault {
        Fault::pmi(every, PmiFault::Repeat(at_least_1(instructions).get()))
    }

    /// See [`Defect::Spurious`].
    pub const fn spurious(instructions: u64) -> Fault {
        Fault::of_all_cores(Defect::Spurious(at_least_1(instructions)))
    }

    /// See [`Defect::Status`].
    pub const fn status(bits: u64) -> Fault {
        Fault::of_all_cores(Defect::Status(at_least_1(bits).get()))
    }

    /// See [`Defect::GeneralProtection`].
    pub const fn gp(msr: u32, after: u64) -> Fault {
        assert!(msr != 0, "the address is at least 1");
        Fault::of_all_cores(Defect::GeneralProtection { msr, after })
    }

    /// See [`Defect::MaskLvtpc`].
    pub const MASK_LVTPC: Fault = Fault::of_all_cores(Defect::MaskLvtpc);

    /// See [`Defect::Garbage`].
    pub const fn garbage(seed: u64) -> Fault {
        Fault::of_all_cores(Defect::Garbage(at_least_1(seed)))
    }

    /// See [`Defect::Foreign`].
    pub const fn foreign(what: Foreign, instructions: u64, seed: u64) -> Fault {
        let every = at_least_1(instructions);
        Fault::of_all_cores(Defect::Foreign { what, every, seed })
    }
}

impl Defect {
    /// The form of its text, `None` of [`Defect::None`].
    pub const fn form(&self) -> Option<&'static str> {
        let index = match self {
            Defect::None => return None,
            Defect::Pmi {
                fault: PmiFault::Lose,
                ..
            } => 0,
            Defect::Pmi {
                fault: PmiFault::Delay(_),
                ..
            } => 1,
            Defect::Pmi {
                fault: PmiFault::Repeat(_),
                ..
            } => 2,
            Defect::Spurious(_) => 3,
            Defect::Status(_) => 4,
            Defect::GeneralProtection { .. } => 5,
            Defect::MaskLvtpc => 6,
            Defect::Garbage(_) => 7,
            Defect::Foreign { .. } => 8,
        };
        Some(FAULT_FORMS[index])
    }
}

impl Foreign {
    /// All registers.
    pub const ALL: [Foreign; 5] = [
        Foreign::EventSel,
        Foreign::FixedCtrCtrl,
        Foreign::Counter,
        Foreign::GlobalCtrl,
        Foreign::Zero,
    ];

    /// Its name in the text of a defect.
    pub const fn name(self) -> &'static str {
        match self {
            Foreign::EventSel => "eventsel",
            Foreign::FixedCtrCtrl => "fixed-ctr-ctrl",
            Foreign::Counter => "counter",
            Foreign::GlobalCtrl => "global-ctrl",
            Foreign::Zero => "zero",
        }
    }
}

/// A defect has its text in the form of [`FAULT_FORMS`], and [`Defect::None`] an empty one.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(form) = self.defect.form() else {
            return Ok(());
        };
        if self.of_efficient_cores {
            f.write_str(EFFICIENT)?;
        }
        f.write_str(form.split(':').next().unwrap_or(form))?;
        match self.defect {
            Defect::None | Defect::MaskLvtpc => Ok(()),
            Defect::Pmi { every, fault } => match fault {
                PmiFault::Lose => write!(f, ":{every}"),
                PmiFault::Delay(insns) | PmiFault::Repeat(insns) => write!(f, ":{every}:{insns}"),
            },
            Defect::Spurious(number) | Defect::Garbage(number) => write!(f, ":{number}"),
            Defect::Status(bits) => write!(f, ":{bits:#x}"),
            Defect::GeneralProtection { msr, after } => write!(f, ":{msr:#x}:{after}"),
            Defect::Foreign { what, every, seed } => write!(f, ":{}:{every}:{seed}", what.name()),
        }
    }
}

/// The text of a [`Fault`] has none of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidFault;

impl fmt::Display for InvalidFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fault must be {}", FAULT_FORMS.join(", "))
    }
}

impl std::error::Error for InvalidFault {}

impl FromStr for Fault {
    type Err = InvalidFault;

    fn from_str(text: &str) -> Result<Fault, InvalidFault> {
        let (text, of_efficient_cores) = match text.strip_prefix(EFFICIENT) {
            Some(text) => (text, true),
            None => (text, false),
        };
        let defect = parse(text).ok_or(InvalidFault)?;
        Ok(Fault {
            defect,
            of_efficient_cores,
        })
    }
}

fn parse(text: &str) -> Option<Defect> {
    let mut fields = text.split(':');
    let kind = fields.next()?;
    let what = match kind {
        "foreign" => Some(parse_register(fields.next()?)?),
        _ => None,
    };
    let mut number_or_0 = || parse_number(fields.next()?);
    let mut number = || number_or_0().and_then(NonZeroU64::new);
    let defect = match kind {
        "lose" => Defect::Pmi {
            every: number()?,
            fault: PmiFault::Lose,
        },
        "delay" => Defect::Pmi {
            every: number()?,
            fault: PmiFault::Delay(number()?.get()),
        },
        "repeat" => Defect::Pmi {
            every: number()?,
            fault: PmiFault::Repeat(number()?.get()),
        },
        "spurious" => Defect::Spurious(number()?),
        "status" => Defect::Status(number()?.get()),
        "gp" => Defect::GeneralProtection {
            msr: number()?.get().try_into().ok()?,
            after: number_or_0()?,
        },
        "mask-lvtpc" => Defect::MaskLvtpc,
        "garbage" => Defect::Garbage(number()?),
        "foreign" => Defect::Foreign {
            what: what?,
            every: number()?,
            seed: number_or_0()?,
        },
        _ => return None,
    };
    fields.next().is_none().then_some(defect)
}

fn parse_register(text: &str) -> Option<Foreign> {
    Foreign::ALL.into_iter().find(|it| it.name() == text)
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid() {
        for (text, fault, shown) in [
            ("lose:3", Fault::lose(3), "lose:3"),
            ("delay:1:1000", Fault::delay(1, 1000), "delay:1:1000"),
            ("repeat:0x10:7", Fault::repeat(16, 7), "repeat:16:7"),
            (
                "spurious:100000",
                Fault::spurious(100_000),
                "spurious:100000",
            ),
            (
                "status:30064771087",
                Fault::status(0x7_0000_000f),
                "status:0x70000000f",
            ),
            ("gp:0x38f:0", Fault::gp(0x38f, 0), "gp:0x38f:0"),
            (
                "gp:0xc0010200:1000",
                Fault::gp(0xc001_0200, 1000),
                "gp:0xc0010200:1000",
            ),
            ("mask-lvtpc", Fault::MASK_LVTPC, "mask-lvtpc"),
            ("garbage:0x1f", Fault::garbage(31), "garbage:31"),
            (
                "foreign:fixed-ctr-ctrl:1:0",
                Fault::foreign(Foreign::FixedCtrCtrl, 1, 0),
                "foreign:fixed-ctr-ctrl:1:0",
            ),
            (
                "efficient:gp:0x187:0",
                Fault::gp(0x187, 0).of_efficient_cores(),
                "efficient:gp:0x187:0",
            ),
        ] {
            assert_eq!(text.parse(), Ok(fault), "{text}");
            assert_eq!(fault.to_string(), shown);
            assert_eq!(shown.parse(), Ok(fault), "{shown}");
        }
        for register in Foreign::ALL {
            let text = format!("foreign:{}:1000:7", register.name());
            assert_eq!(text.parse(), Ok(Fault::foreign(register, 1000, 7)));
        }
    }

    /// Each form, with numbers in it, is the text of a defect of this form.
    #[test]
    fn the_forms_are_what_is_parsed() {
        for form in FAULT_FORMS {
            let field = |field: &str| match field {
                "REGISTER" => "counter".to_owned(),
                "BITS" | "ADDRESS" => "0x4".to_owned(),
                name if name.starts_with(char::is_uppercase) => "5".to_owned(),
                keyword => keyword.to_owned(),
            };
            let text = form.split(':').map(field).collect::<Vec<_>>().join(":");
            let fault: Fault = text.parse().unwrap();
            assert_eq!(fault.defect.form(), Some(form));
            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn invalid() {
        for text in [
            "",
            "lose",
            "lose:",
            "lose:0",
            "lose:3:4",
            "lose:-3",
            "lose:x",
            "Lose:3",
            "delay:3",
            "delay:3:0",
            "delay:3:4:5",
            "repeat:3",
            "repeat::3",
            "spurious:0",
            "status:0",
            "status:0x",
            "status:0x10000000000000000",
            "gp",
            "gp:0x38f",
            "gp:0x38f:",
            "gp::3",
            "gp:0:3",
            "gp:0x100000186:3",
            "gp:0x38f:3:4",
            "mask-lvtpc:",
            "mask-lvtpc:1",
            "mask",
            "lose:3 ",
            "lost:3",
            "garbage",
            "garbage:0",
            "garbage:1:2",
            "foreign",
            "foreign:5:1",
            "foreign:lvtpc:5:1",
            "foreign:counter",
            "foreign:counter:0:1",
            "foreign:counter:5",
            "foreign:counter:5:1:2",
            "efficient:",
            "efficient:efficient:lose:3",
        ] {
            assert_eq!(text.parse::<Fault>(), Err(InvalidFault), "{text:?}");
        }
    }
}
