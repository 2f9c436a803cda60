// SPDX-License-Identifier: GPL-2.0

//! The driver as a whole: all of its PMUs, loading it, random operations, and guests that sleep or are
//! saved.

use super::shared::DEFAULT;
use crate::group::TestGroup::*;
use crate::machine;
use crate::suite::{
    OtherKernel::{Checking, Older},
    Suite, SystemEvent, Timing,
};

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite::new("default", &[DEFAULT]).also_on(&[Older]),
    Suite::new("one-cpu", &[&[PerfTool, Counting, Modes, Events, Sampling]])
        .cpus(1)
        .with_all(),
    Suite::new("rdpmc-orders", &[&[RdpmcOrders]])
        .on(machine::V4)
        .also_on(&[Older]),
    Suite::new("lifecycle", &[&[Lifecycle, Parameters, Beside, Generic]])
        .on(machine::V4)
        .unloaded()
        .also_on(&[Older]),
    Suite::new("sleep", &[&[Sleep]]).event(SystemEvent::Sleep),
    Suite::new("saved", &[&[Saved, SavedKinds]])
        .event(SystemEvent::Saved)
        .on(machine::SKYLAKE_DEFAULT),
    Suite::new("saved-amd", &[&[Saved, SavedKinds]])
        .event(SystemEvent::Saved)
        .on(machine::ZEN_3_DEFAULT)
        .with_all(),
    // On Haswell a period goes on later if less than 128 instructions were left when the task was
    // preempted.
    Suite::new("saved-siblings", &[&[Saved]])
        .event(SystemEvent::Saved)
        .on(machine::SANDY_BRIDGE_DEFAULT)
        .hyper_threading()
        .with_all(),
    Suite::new("saved-ref-cycles", &[&[SavedRefCycles]])
        .event(SystemEvent::Saved)
        .on(machine::V4_TSC)
        .cpus(1)
        .timing(Timing::Icount),
    Suite::new("stress", &[&[Stress]])
        .on(machine::V4)
        .also_on(&[Checking]),
    Suite::new("stress-amd-v2", &[&[Stress]])
        .on(machine::AMD_V2)
        .with_all(),
    Suite::new("stress-amd-legacy", &[&[Stress]])
        .on(machine::AMD_LEGACY)
        .with_all(),
    Suite::new("stress-branches", &[&[Stress]])
        .on(machine::CRESTMONT_V5)
        .with_all(),
    Suite::new("stress-v1", &[&[Stress]])
        .on(machine::V1)
        .with_all(),
];
