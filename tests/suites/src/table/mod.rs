// SPDX-License-Identifier: GPL-2.0

//! The suites: which tests run together, and in which guest.

mod bench;
mod cpus;
mod exact;
mod faults;
mod general;
mod hardware;
mod hybrid;
mod models;
mod primary;
mod programs;
mod shared;
mod software;
mod system;

use crate::suite::Suite;

pub use bench::{BENCH, BENCH_CPUS};
pub use cpus::CPUS;

/// Stands for a machine that is not the guest of a suite: see [`TestGroup::elsewhere`](crate::TestGroup::elsewhere).
pub const NO_SUITE: Suite = Suite::new("", &[]);
/// [`NO_SUITE`] with the module in the place of the in-tree driver.
pub const NO_SUITE_PRIMARY: Suite = NO_SUITE.primary();

/// Finds a suite by its name, or one of [`BENCH`].
pub fn find(name: &str) -> Option<&'static Suite> {
    let mut all = SUITES.iter().chain(BENCH);
    all.find(|suite| suite.name == name)
}

/// All suites.
///
/// A test that is asked for by name runs in the first suite that has it. Suites that
/// take long come early, so that none is left alone at the end of a run.
///
/// Without `ALL=1` `make test` leaves out machines on which no other group of tests runs than on
/// one that stays:
///
/// - those with the fewest counters that a generation can have, but for `hw-v2-fewest`;
/// - those of generations that another suite with the same tests has (version 2: `hw-v2-fewest`,
///   version 4: `default`, version 6: `hw-v6-gaps`), or, for a comparison with the in-tree driver, versions 1, 2 and 5;
/// - those with the signature of a model, but for Sandy Bridge, Panther Cove and the hybrid Alder Lake;
/// - faults on other machines than Intel's version 4, where a register says which counters have
///   overflowed, and AMD's legacy counters, where none does;
/// - stress on other machines than Intel's version 4;
/// - perf's metrics of Intel's CPUs, of which there are hundreds, and what the in-tree driver counts for
///   those of Zen 4;
/// - one CPU, and no PMU with this project's QEMU.
///
/// It leaves out perf's own tests as well, which take minutes. CI has 45 minutes for a cold run, so it
/// runs the same suites on the usual kernel.
///
/// Those of [`CPUS`], which are short, come last.
pub const SUITES: &[Suite] = &concatenate::<{ count(TABLES) }>(TABLES);

const TABLES: &[&[Suite]] = &[
    general::SUITES,
    hardware::SUITES,
    primary::SUITES,
    programs::SUITES,
    models::SUITES,
    hybrid::SUITES,
    exact::SUITES,
    software::SUITES,
    system::SUITES,
    faults::SUITES,
    CPUS,
];

/// How many suites there are in all tables.
const fn count(tables: &[&[Suite]]) -> usize {
    let mut count = 0;
    let mut i = 0;
    while i < tables.len() {
        count += tables[i].len();
        i += 1;
    }
    count
}

/// The suites of all tables, which are `N`.
const fn concatenate<const N: usize>(tables: &[&[Suite]]) -> [Suite; N] {
    let mut all = [NO_SUITE; N];
    let (mut n, mut i) = (0, 0);
    while i < tables.len() {
        let mut j = 0;
        while j < tables[i].len() {
            all[n] = tables[i][j];
            n += 1;
            j += 1;
        }
        i += 1;
    }
    assert!(n == N);
    all
}

#[cfg(test)]
mod tests {
    use super::shared::HARDWARE;
    use super::*;
    use crate::group::TestGroup::{self, *};
    use crate::suite::Runs;
    use pmu_model::{Defect, Fault};
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_need_no_quotes() {
        let names: HashSet<_> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(plain)));
    }

    #[test]
    fn the_first_suite_is_the_default_guest() {
        let suite = SUITES[0];
        assert_eq!(suite.cpu_properties(), "");
        assert_eq!(suite.kernel_command_line(), "");
        assert_eq!(suite.timing.qemu_args(), "");
        assert!(suite.load_module && suite.runs == Runs::Every);
    }

    #[test]
    fn faults_that_number_pmis_have_one_cpu() {
        let numbered = |suite: &&Suite| {
            let other = |it: Fault| it.of_efficient_cores || it.defect == Defect::MaskLvtpc;
            suite.fault.is_some_and(|fault| !other(fault))
        };
        assert!(SUITES.iter().filter(numbered).all(|suite| suite.cpus == 1));
    }

    /// CI runs every group, and `HARDWARE` on each generation.
    #[test]
    fn ci_leaves_out_machines_only() {
        let in_ci = || SUITES.iter().filter(|suite| suite.runs <= Runs::Ci);
        for group in TestGroup::ALL {
            let group = match group {
                // The whole of compare.rs has it.
                CompareSysfs => &Compare,
                // They take minutes.
                PerfTest | PerfTestBranches => continue,
                group => group,
            };
            assert!(
                in_ci().any(|suite| suite.has(&[*group])),
                "{}",
                group.name()
            );
        }
        let generation = |suite: &Suite| {
            let pmu = suite.machine.pmu.unwrap();
            (suite.machine.vendor.cpuid(), pmu.version)
        };
        let with_hardware = |suite: &&Suite| {
            // The whole of overflow.rs has its quick part.
            let mut groups = HARDWARE.iter();
            groups.all(|group| suite.has(&[*group]) || suite.has(&[Overflow]))
        };
        let all: HashSet<_> = SUITES
            .iter()
            .filter(with_hardware)
            .map(generation)
            .collect();
        let some: HashSet<_> = in_ci().filter(with_hardware).map(generation).collect();
        // Version 4 is what the default suite runs on, without naming it.
        let missing: Vec<_> = all.difference(&some).collect();
        assert_eq!(missing, [&("GenuineIntel", Some(4))]);
    }
}
