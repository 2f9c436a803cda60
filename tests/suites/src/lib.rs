// SPDX-License-Identifier: GPL-2.0

//! The guests that tests run in: a [`Machine`], what is wrong with its PMU
//! ([`Fault`]), and the tests to run there ([`Suite`]).
//!
//! Two programs use this crate. `tools/xtask` boots the guest of a suite.
//! `tests/guest`, the test program inside the guest, maps the suite's
//! [`TestGroup`]s to functions and takes the fault's numbers from the [`Fault`].

#![forbid(unsafe_code)]

mod filter;
mod group;
pub mod log;
mod machine;
mod suite;
mod table;

use std::collections::BTreeMap;

pub use filter::{nearest, Filter};
pub use group::{Elsewhere, TestGroup};
pub use machine::{Counters, Machine, Pmu, Signature, Vendor, BASE_CPU, WITHOUT_IN_TREE};
pub use pmu_model::{Defect, Fault, Foreign, PmiFault};
pub use suite::{KernelPrograms, OtherKernel, Runs, Suite, SystemEvent, TestModule, Timing};
pub use table::{find, BENCH, BENCH_CPUS, CPUS, NO_SUITE, NO_SUITE_PRIMARY, SUITES};

/// The titles (`theme::name`) of the tests of each group, by the group's name.
///
/// Only the guest's test program knows them: `guest-tests --names` prints them as JSON.
pub type Inventory = BTreeMap<String, Vec<String>>;
