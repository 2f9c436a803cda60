// SPDX-License-Identifier: GPL-2.0
//! The tests on a machine that is not the guest of a suite, with any CPU: [`TestGroup::elsewhere`](suites::TestGroup::elsewhere)
//! says which.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{bail, Context as _, Result};
use nix::unistd::geteuid;
use suites::log::Machine;
use suites::{Elsewhere, Suite, NO_SUITE, NO_SUITE_PRIMARY};

use crate::ctx::{Ctx, IN_TREE, RUST_PMU};
use crate::keeper;
use crate::ktap::{self, Entry, Totals};
use crate::module;
use crate::need::cpus_of;
use crate::pmu::{is_tcg, Event, Mode, Pmu};
use crate::setting::SampleRate;
use crate::suite;
use crate::waiting::Limits;

/// The exit status of a kselftest that does not apply (KSFT_SKIP).
const SKIPPED: u8 = 4;

/// Runs the tests, or those that match a glob.
pub fn run(globs: &[String], pmu: Option<&str>, seed: u64) -> Result<ExitCode> {
    if let Some(why) = nothing_to_test() {
        ktap::skip_all(why);
        return Ok(ExitCode::from(SKIPPED));
    }
    let Some(directory) = keeper::directory() else {
        return keeper::run();
    };
    keeper::enter(&directory)?;
    let subjects = subjects(pmu, seed);
    let tests = tests(&subjects, globs)?;
    // An emulated CPU is so slow that perf would lower the rate, which takes samples away. No other
    // machine gets more than perf's limit.
    let rate = is_tcg().then(|| SampleRate::fixed(1_000_000_000));
    let rate = rate.transpose()?;
    let totals = ktap::run(&tests, Machine::Any, Limits::of(&NO_SUITE))?;
    drop(rate);
    let Totals {
        passed,
        failed,
        skipped,
    } = totals;
    println!("# Totals: pass:{passed} fail:{failed} xfail:0 xpass:0 skip:{skipped} error:0");
    std::io::stdout().flush()?;
    Ok(match (failed, passed) {
        (0, 0) => ExitCode::from(SKIPPED),
        (0, _) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Why no test can run.
fn nothing_to_test() -> Option<&'static str> {
    if !geteuid().is_root() {
        Some("needs root")
    } else if !module::is_loaded() {
        Some("needs the module: modprobe rust_perf")
    } else {
        None
    }
}

/// What the tests of counters are given, for each PMU. The other tests are given the first.
fn subjects(pmu: Option<&str>, seed: u64) -> Vec<Ctx> {
    let is_primary = pmus(RUST_PMU).is_empty() && pmus(IN_TREE).iter().any(|it| is_in_place(it));
    let (suite, names): (&'static Suite, _) = match (is_primary, pmu) {
        (true, None) => (&NO_SUITE_PRIMARY, pmus(IN_TREE)),
        (false, None) => (&NO_SUITE, pmus(RUST_PMU)),
        (true, Some(pmu)) => (&NO_SUITE_PRIMARY, vec![pmu.to_owned()]),
        (false, Some(pmu)) => (&NO_SUITE, vec![pmu.to_owned()]),
    };
    let subject = |pmu: String| Ctx {
        suite,
        no_counters: no_counters(&pmu),
        cpus: cpus_of(&pmu),
        pmu,
        seed,
    };
    if names.is_empty() {
        return vec![subject(RUST_PMU.to_owned())];
    }
    names.into_iter().map(subject).collect()
}

/// The PMU of this name, or on a hybrid CPU those of the types of cores.
fn pmus(name: &str) -> Vec<String> {
    ["", "_core", "_atom", "_lowpower"]
        .iter()
        .map(|suffix| format!("{name}{suffix}"))
        .filter(|pmu| Pmu::find(pmu).is_ok())
        .collect()
}

/// Whether a PMU with the in-tree driver's name is the module's: it has no `rdpmc`.
fn is_in_place(pmu: &str) -> bool {
    let device = Path::new("/sys/bus/event_source/devices").join(pmu);
    device.exists() && !device.join("rdpmc").exists()
}

/// Why no event of a PMU can count.
fn no_counters(pmu: &str) -> Option<String> {
    let Ok(found) = Pmu::find(pmu) else {
        return Some(format!(
            "needs {pmu}: the kernel log says why there is none"
        ));
    };
    let error = found.open(Event::Instructions, Mode::User).err()?;
    let errno = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::raw_os_error);
    Some(match errno {
        Some(libc::EBUSY) => {
            "needs free counters. The NMI watchdog has some: sysctl kernel.nmi_watchdog=0"
                .to_owned()
        }
        _ => format!("needs counters: {error:#}"),
    })
}

/// The tests that run on this machine, or those of them that match a glob.
fn tests<'a>(subjects: &'a [Ctx], globs: &[String]) -> Result<Vec<Entry<'a>>> {
    let first = subjects.first().context("no PMU to test")?;
    let mut tests = Vec::new();
    let mut add = |ctx: &'a Ctx, groups: Elsewhere| {
        let chosen = suite::groups().filter(|(group, _)| group.elsewhere() == groups);
        for test in chosen.flat_map(|(_, tests)| tests) {
            let title = test.title();
            let title = match subjects.len() > 1 && groups == Elsewhere::OfCounters {
                true => format!("{}/{title}", ctx.pmu),
                false => title,
            };
            tests.push(Entry { ctx, test, title });
        }
    };
    for subject in subjects {
        add(subject, Elsewhere::OfCounters);
    }
    let has_cpu_0 = |it: &&Ctx| it.cpus.as_ref().is_none_or(|cpus| cpus.contains(&0));
    if let Some(subject) = subjects.iter().find(has_cpu_0) {
        add(subject, Elsewhere::OfCpu0);
    }
    add(first, Elsewhere::Once);
    if !globs.is_empty() {
        let filter = suites::Filter::new(&globs.join(" "));
        let titles: Vec<_> = tests.iter().map(|it| it.test.title()).collect();
        let unmatched = filter.unmatched_tests(titles.iter().map(String::as_str));
        if let Some(glob) = unmatched.first() {
            bail!("no test {glob} for any machine: --list has all, and a mark at those");
        }
        tests.retain(|it| filter.has_test(&it.test.title()));
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_test_runs_once() {
        let subjects = subjects(Some("none"), 1);
        let tests = tests(&subjects, &[]).unwrap();
        let titles: HashSet<_> = tests.iter().map(|it| it.title.as_str()).collect();
        assert_eq!(titles.len(), tests.len());
        assert!(titles.contains("bounds::no_instruction_is_missed"));
    }

    #[test]
    fn without_the_pmu_its_tests_say_so() {
        let subjects = subjects(Some("none"), 1);
        let why = subjects[0].no_counters.as_deref();
        assert_eq!(
            why,
            Some("needs none: the kernel log says why there is none")
        );
    }
}
