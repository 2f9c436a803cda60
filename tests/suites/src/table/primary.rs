// SPDX-License-Identifier: GPL-2.0

//! The module in the place of the in-tree driver.

use super::shared::{PRIMARY, WATCHDOG};
use crate::group::TestGroup::*;
use crate::machine;
use crate::suite::{OtherKernel::Older, Suite, SystemEvent};

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::new("primary", PRIMARY)
        .on(machine::SKYLAKE_DEFAULT)
        .primary()
        .also_on(&[Older]),
    Suite::new("primary-sleep", &[&[Sleep]])
        .event(SystemEvent::Sleep)
        .primary()
        .with_all(),
    Suite::new("primary-watchdog", &[&[Lockup]])
        .kernel_arguments(WATCHDOG)
        .primary(),
    Suite::new("primary-unloaded", &[&[SvmPrimary, LoadFaultsPrimary]])
        .on(machine::AMD_V2)
        .unloaded()
        .primary(),
    Suite::new("primary-amd", PRIMARY)
        .on(machine::ZEN_3_DEFAULT)
        .primary()
        .with_all(),
];
