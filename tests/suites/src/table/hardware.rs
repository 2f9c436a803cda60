// SPDX-License-Identifier: GPL-2.0

//! Generations of the hardware, each with few and with many counters.

use super::shared::{COMPARE, HARDWARE, REGISTERS};
use crate::group::TestGroup::*;
use crate::machine;
use crate::suite::{OtherKernel::Older, Suite};

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::new("hw-v5", &[HARDWARE, COMPARE, &[Topdown]]).on(machine::V5_MOST),
    Suite::new("amd-v2", &[HARDWARE, &[Pairs]])
        .on(machine::AMD_V2_MOST)
        .also_on(&[Older]),
    Suite::new("amd-core", &[HARDWARE, COMPARE, REGISTERS, &[Pairs]]).on(machine::AMD_CORE),
    Suite::new("amd-legacy", &[HARDWARE, COMPARE, REGISTERS]).on(machine::AMD_LEGACY),
    Suite::new("hw-v1", &[HARDWARE]).on(machine::V1_MOST),
    Suite::new("hw-v2", &[HARDWARE])
        .on(machine::V2_MOST)
        .with_all(),
    Suite::new("hw-v3", &[HARDWARE]).on(machine::V3_MOST),
    Suite::new("hw-v4", &[HARDWARE])
        .on(machine::V4_MOST)
        .with_all(),
    Suite::new("hw-v6", &[HARDWARE])
        .on(machine::V6_MOST)
        .with_all(),
    Suite::new("hygon", &[HARDWARE, &[Pairs]]).on(machine::HYGON),
    Suite::new("zhaoxin", &[HARDWARE]).on(machine::ZHAOXIN),
    Suite::new("hw-v1-fewest", &[HARDWARE])
        .on(machine::V1_FEWEST)
        .with_all(),
    Suite::new("hw-v2-fewest", &[HARDWARE]).on(machine::V2_FEWEST),
    Suite::new("hw-v2-few", &[HARDWARE])
        .on(machine::V2_FEW)
        .with_all(),
    Suite::new("hw-v3-fewest", &[HARDWARE])
        .on(machine::V3_FEWEST)
        .with_all(),
    Suite::new("hw-v4-fewest", &[HARDWARE])
        .on(machine::V4_FEWEST)
        .with_all(),
    Suite::new("hw-v5-fewest", &[HARDWARE])
        .on(machine::V5_FEWEST)
        .with_all(),
    Suite::new("hw-v5-no-fixed", &[HARDWARE])
        .on(machine::V5_NO_FIXED)
        .with_all(),
    Suite::new("hw-v6-fewest", &[HARDWARE])
        .on(machine::V6_FEWEST)
        .with_all(),
    Suite::new("hw-v6-gaps", &[HARDWARE, REGISTERS]).on(machine::V6_GAPS),
    Suite::new("amd-v2-fewest", &[HARDWARE, &[Pairs]])
        .on(machine::AMD_V2_FEWEST)
        .with_all(),
    Suite::new("compare-v1", &[COMPARE, REGISTERS]).on(machine::V1),
    Suite::new("compare-v2", &[COMPARE]).on(machine::V2),
    Suite::new("compare-v3", &[COMPARE])
        .on(machine::V3)
        .with_all(),
    Suite::new("svm", &[&[Svm]]).on(machine::AMD_CORE),
    Suite::new("svm-v2", &[&[Svm]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::new("svm-legacy", &[&[Svm]])
        .on(machine::AMD_LEGACY)
        .with_all(),
    Suite::new("compare-amd-v2", &[COMPARE, REGISTERS, &[Pairs]]).on(machine::AMD_V2),
    Suite::new("32-bit", &[&[OverflowWidth]]).on(machine::V4_32_BITS),
    Suite::new("sign-extended", &[&[OverflowWidth, Counting]]).on(machine::V4_SIGN_EXTENDED),
    Suite::new("40-bit", &[&[OverflowWidth]])
        .on(machine::V4_40_BITS)
        .with_all(),
];
