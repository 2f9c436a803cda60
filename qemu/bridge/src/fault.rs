// SPDX-License-Identifier: GPL-2.0

//! The syntax of the property `pmu-fault`.

use std::num::NonZeroU64;

use pmu_model::{Defect, Foreign, PmiFault};

/// Parses `text`. `None` if it is not a [`Defect`].
pub fn parse(text: &str) -> Option<Defect> {
    let mut fields = text.split(':');
    let kind = fields.next()?;
    let what = match kind {
        "foreign" => Some(parse_foreign(fields.next()?)?),
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

fn parse_foreign(text: &str) -> Option<Foreign> {
    Some(match text {
        "eventsel" => Foreign::EventSel,
        "fixed-ctr-ctrl" => Foreign::FixedCtrCtrl,
        "counter" => Foreign::Counter,
        "global-ctrl" => Foreign::GlobalCtrl,
        "zero" => Foreign::Zero,
        _ => return None,
    })
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
        let every = |n| NonZeroU64::new(n).unwrap();
        let pmi = |n, fault| Defect::Pmi {
            every: every(n),
            fault,
        };
        let foreign = |what, n, seed| Defect::Foreign {
            what,
            every: every(n),
            seed,
        };
        let gp = |msr, after| Defect::GeneralProtection { msr, after };
        for (text, defect) in [
            ("lose:3", pmi(3, PmiFault::Lose)),
            ("delay:1:1000", pmi(1, PmiFault::Delay(1000))),
            ("repeat:0x10:7", pmi(16, PmiFault::Repeat(7))),
            ("spurious:100000", Defect::Spurious(every(100_000))),
            ("status:0x70000000f", Defect::Status(0x7_0000_000f)),
            ("gp:0x38f:0", gp(0x38f, 0)),
            ("gp:0xc0010200:1000", gp(0xc001_0200, 1000)),
            ("mask-lvtpc", Defect::MaskLvtpc),
            ("garbage:0x1f", Defect::Garbage(every(31))),
            (
                "foreign:eventsel:1000:7",
                foreign(Foreign::EventSel, 1000, 7),
            ),
            (
                "foreign:fixed-ctr-ctrl:1:0",
                foreign(Foreign::FixedCtrCtrl, 1, 0),
            ),
            ("foreign:counter:5:1", foreign(Foreign::Counter, 5, 1)),
            (
                "foreign:global-ctrl:5:1",
                foreign(Foreign::GlobalCtrl, 5, 1),
            ),
            ("foreign:zero:5:0", foreign(Foreign::Zero, 5, 0)),
        ] {
            assert_eq!(parse(text), Some(defect), "{text}");
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
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
