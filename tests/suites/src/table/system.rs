// SPDX-License-Identifier: GPL-2.0

//! What the kernel does besides: another kernel by kexec, the NMI watchdog, parameters of the module,
//! and loading it when something is missing.

use crate::group::TestGroup::*;
use crate::machine;
use crate::suite::{OtherKernel::Checking, Suite, SystemEvent};

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::new("kexec", &[&[Kexec, CountingQuick]]).event(SystemEvent::Kexec),
    Suite::new("watchdog", &[&[Watchdog]]).kernel_arguments("nmi_watchdog=1"),
    Suite::new("parameters-amd", &[&[Parameters, Beside, Generic]])
        .unloaded()
        .on(machine::AMD_V2),
    Suite::new("unreserved", &[&[Unreserved]])
        .unloaded()
        .kernel_arguments("nmi_watchdog=1")
        .on(machine::V6_MOST),
    Suite::new("fail-nth", &[&[FailNth]]).also_on(&[Checking]),
    Suite::new("load-faults", &[&[LoadFaults]]).unloaded(),
    Suite::new("load-faults-amd-legacy", &[&[LoadFaults]])
        .on(machine::AMD_LEGACY)
        .unloaded()
        .with_all(),
];
