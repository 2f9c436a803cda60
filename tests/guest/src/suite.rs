// SPDX-License-Identifier: GPL-2.0
//! The tests of each group that a suite can name.

use anyhow::{bail, ensure, Result};
use suites::{Filter, Inventory, Suite, TestGroup, SUITES};

use crate::ctx::Test;
use crate::stress;
use crate::tests::{
    accesses, attr, beside, bounds, clock, clock_compare, clock_icount, codes, compare,
    constraints, contents, cost, counting, delivery, event_zero, events, example, exclude,
    extra_registers, fail_nth, faults, foreign_fault, foreign_writes, garbage, gp_fault, groups,
    hotplug, hybrid, kernel_selftests, kexec, kinds, lifecycle, load_faults, lockup, lvtpc,
    memory_map, metrics, mixed, model_events, modes, no_pmu, offline, overflow, pairs, parameters,
    perf_test, perf_tool, primary, probes, processor, programs, random_groups, rdpmc_orders,
    ref_cycles, rotation, sampling, saved, security, shared_registers, sharing, siblings, sleep,
    svm, sysfs, tasks, throttled, topdown, trace, trace_compare, trace_cost, unreserved, user_read,
    watchdog,
};

/// The tests of a group.
fn tests(group: TestGroup) -> &'static [Test] {
    match group {
        TestGroup::Accesses => accesses::TESTS,
        TestGroup::Attr => attr::TESTS,
        TestGroup::Beside => beside::TESTS,
        TestGroup::Bounds => bounds::TESTS,
        TestGroup::Clock => clock::TESTS,
        TestGroup::ClockCompare => clock_compare::TESTS,
        TestGroup::ClockIcount => clock_icount::TESTS,
        TestGroup::Codes => codes::TESTS,
        TestGroup::Compare => compare::TESTS,
        TestGroup::CompareSysfs => compare::SYSFS,
        TestGroup::Constraints => constraints::TESTS,
        TestGroup::Contents => contents::TESTS,
        TestGroup::Cost => cost::TESTS,
        TestGroup::Counting => counting::TESTS,
        TestGroup::CountingQuick => counting::QUICK,
        TestGroup::Delivery => delivery::TESTS,
        TestGroup::EventZero => event_zero::TESTS,
        TestGroup::Events => events::TESTS,
        TestGroup::Example => example::TESTS,
        TestGroup::Exclude => exclude::TESTS,
        TestGroup::ExtraRegisters => extra_registers::TESTS,
        TestGroup::FailNth => fail_nth::TESTS,
        TestGroup::FaultsDelay => faults::DELAY,
        TestGroup::FaultsDelayLong => faults::DELAY_LONG,
        TestGroup::FaultsForeign => foreign_fault::TESTS,
        TestGroup::FaultsGarbage => garbage::TESTS,
        TestGroup::FaultsLose => faults::LOSE,
        TestGroup::FaultsRepeat => faults::REPEAT,
        TestGroup::FaultsRepeatAtOnce => faults::REPEAT_AT_ONCE,
        TestGroup::FaultsSpurious => faults::SPURIOUS,
        TestGroup::FaultsStatus => faults::STATUS,
        TestGroup::ForeignWrites => foreign_writes::TESTS,
        TestGroup::GpFault => gp_fault::TESTS,
        TestGroup::Groups => groups::TESTS,
        TestGroup::Hotplug => hotplug::TESTS,
        TestGroup::Hybrid => hybrid::TESTS,
        TestGroup::HybridCpu => hybrid::CPU,
        TestGroup::HybridFault => hybrid::FAULT,
        TestGroup::KernelSelftests => kernel_selftests::TESTS,
        TestGroup::Kexec => kexec::TESTS,
        TestGroup::Kinds => kinds::TESTS,
        TestGroup::Lifecycle => lifecycle::TESTS,
        TestGroup::LoadFaults => load_faults::TESTS,
        TestGroup::Lockup => lockup::TESTS,
        TestGroup::Lvtpc => lvtpc::TESTS,
        TestGroup::MemoryMap => memory_map::TESTS,
        TestGroup::Metrics => metrics::TESTS,
        TestGroup::MetricsInTree => metrics::IN_TREE_TESTS,
        TestGroup::Mixed => mixed::TESTS,
        TestGroup::ModelEvents => model_events::TESTS,
        TestGroup::Modes => modes::TESTS,
        TestGroup::NoPmu => no_pmu::TESTS,
        TestGroup::NoPmuLoaded => no_pmu::LOADED,
        TestGroup::Offline => offline::TESTS,
        TestGroup::Overflow => overflow::TESTS,
        TestGroup::OverflowQuick => overflow::QUICK,
        TestGroup::OverflowWidth => overflow::WIDTH,
        TestGroup::Pairs => pairs::TESTS,
        TestGroup::Parameters => parameters::TESTS,
        TestGroup::PerfTest => perf_test::TESTS,
        TestGroup::PerfTool => perf_tool::TESTS,
        TestGroup::Processor => processor::TESTS,
        TestGroup::Primary => primary::TESTS,
        TestGroup::Probes => probes::TESTS,
        TestGroup::ProbesCost => probes::COST,
        TestGroup::Programs => programs::TESTS,
        TestGroup::RandomGroups => random_groups::TESTS,
        TestGroup::RdpmcOrders => rdpmc_orders::TESTS,
        TestGroup::RefCycles => ref_cycles::TESTS,
        TestGroup::RotationMany => rotation::MANY,
        TestGroup::RotationSteady => rotation::STEADY,
        TestGroup::Sampling => sampling::TESTS,
        TestGroup::SamplingQuick => sampling::QUICK,
        TestGroup::Saved => saved::TESTS,
        TestGroup::SavedKinds => saved::KINDS,
        TestGroup::SavedRefCycles => saved::REF_CYCLES,
        TestGroup::Security => security::TESTS,
        TestGroup::SecurityCost => security::COST,
        TestGroup::SharedRegisters => shared_registers::TESTS,
        TestGroup::Sharing => sharing::TESTS,
        TestGroup::Siblings => siblings::TESTS,
        TestGroup::Sleep => sleep::TESTS,
        TestGroup::Stress => stress::TESTS,
        TestGroup::Svm => svm::TESTS,
        TestGroup::Sysfs => sysfs::TESTS,
        TestGroup::Tasks => tasks::TESTS,
        TestGroup::Throttled => throttled::TESTS,
        TestGroup::Topdown => topdown::TESTS,
        TestGroup::Trace => trace::TESTS,
        TestGroup::TraceCompare => trace_compare::TESTS,
        TestGroup::TraceCost => trace_cost::TESTS,
        TestGroup::Unreserved => unreserved::TESTS,
        TestGroup::UserRead => user_read::TESTS,
        TestGroup::UserReadHidden => user_read::HIDDEN,
        TestGroup::Watchdog => watchdog::TESTS,
    }
}

/// All groups with their tests.
pub fn groups() -> impl Iterator<Item = (TestGroup, &'static [Test])> {
    TestGroup::ALL.iter().map(|group| (*group, tests(*group)))
}

/// The titles of all tests.
pub fn inventory() -> Inventory {
    groups()
        .map(|(group, tests)| {
            let titles = tests.iter().map(Test::title).collect();
            (group.name().to_owned(), titles)
        })
        .collect()
}

/// Finds a suite by its name.
pub fn find(name: &str) -> Result<&'static Suite> {
    let Some(suite) = suites::find(name) else {
        let names = || SUITES.iter().map(|suite| suite.name);
        let near = suites::nearest(name, names());
        let near = if near.is_empty() {
            names().collect()
        } else {
            near
        };
        bail!("no suite {name}; there is {}", near.join(", "));
    };
    Ok(suite)
}

/// The tests of a suite that match any of the globs, or all without a glob.
pub fn select(suite: &Suite, globs: &[String]) -> Result<Vec<&'static Test>> {
    let all = suite.groups().flat_map(tests);
    if globs.is_empty() {
        return Ok(all.collect());
    }
    let filter = Filter::new(&globs.join(" "));
    let titles: Vec<_> = all.clone().map(Test::title).collect();
    let titles = || titles.iter().map(String::as_str);
    if let Some(glob) = filter.unmatched_tests(titles()).first() {
        let near = suites::nearest(glob, titles());
        let name = suite.name;
        ensure!(!near.is_empty(), "suite {name} has no test {glob}");
        bail!(
            "suite {name} has no test {glob}; it has {}",
            near.join(", ")
        );
    }
    Ok(all.filter(|test| filter.has_test(&test.title())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_suite_runs_a_test_twice() {
        for suite in SUITES {
            let all = select(suite, &[]).unwrap();
            let titles: HashSet<_> = all.iter().map(|test| test.title()).collect();
            assert_eq!(titles.len(), all.len(), "{}", suite.name);
        }
    }

    #[test]
    fn globs_choose_tests() {
        let suite = find("hw-v2").unwrap();
        let titles = |globs: &[&str]| -> Result<Vec<_>> {
            let globs: Vec<_> = globs.iter().map(ToString::to_string).collect();
            let tests = select(suite, &globs)?;
            Ok(tests.into_iter().map(Test::title).collect())
        };
        assert_eq!(
            titles(&["sampling::no_skid"]).unwrap(),
            ["sampling::no_skid"]
        );
        assert!(titles(&["sampling::*", "counting::fpu"]).unwrap().len() > 2);
        let error = titles(&["sampling::noskid"]).unwrap_err().to_string();
        assert!(error.contains("sampling::no_skid"), "{error}");
    }

    #[test]
    fn an_unknown_suite_is_an_error_with_candidates() {
        let error = find("hw-2").err().unwrap().to_string();
        assert!(error.contains("hw-v2"), "{error}");
    }
}
