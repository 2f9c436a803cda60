// SPDX-License-Identifier: GPL-2.0

//! Which vCPU is which core of a hybrid processor.

use pmu_model::CoreType;

/// The type of core of vCPU `cpu` of `cpus`. `text` is `E` or `E+L`: the last L vCPUs are
/// low-power cores, the E before them efficient ones, and the others performance cores.
/// `None` if it is neither, or leaves no performance core or nothing else, or if there is no
/// such vCPU.
pub(crate) fn core_type(text: &str, cpu: u32, cpus: u32) -> Option<CoreType> {
    let (efficient, low_power) = match text.split_once('+') {
        Some((efficient, low_power)) => (number(efficient)?, number(low_power)?),
        None => (number(text)?, 0),
    };
    if cpu >= cpus {
        return None;
    }
    let performance = cpus.checked_sub(efficient.checked_add(low_power)?)?;
    if performance == 0 || performance == cpus {
        return None;
    }
    Some(if cpu < performance {
        CoreType::Performance
    } else if cpu - performance < efficient {
        CoreType::Efficient
    } else {
        CoreType::LowPower
    })
}

/// A decimal number without a sign.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, cpus: u32) -> Option<String> {
        let letter = |cpu| {
            core_type(text, cpu, cpus).map(|core_type| match core_type {
                CoreType::Performance => 'P',
                CoreType::Efficient => 'E',
                CoreType::LowPower => 'L',
            })
        };
        (0..cpus).map(letter).collect()
    }

    #[test]
    fn valid() {
        for (text, cpus, expected) in [
            ("1", 2, "PE"),
            ("2", 4, "PPEE"),
            ("3", 4, "PEEE"),
            ("2+1", 4, "PEEL"),
            ("0+1", 2, "PL"),
            ("1+0", 2, "PE"),
        ] {
            assert_eq!(all(text, cpus).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid() {
        for text in [
            "",
            "0",
            "0+0",
            "4",
            "5",
            "2+2",
            "3+2",
            "4294967295+1",
            "-1",
            "+1",
            "1+",
            "1+1+1",
            "0x1",
            "all",
        ] {
            assert_eq!(all(text, 4), None, "{text}");
        }
    }
}
