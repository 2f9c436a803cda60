// SPDX-License-Identifier: GPL-2.0
//! The tests of each group that a suite can name.

use anyhow::{bail, ensure, Result};
use suites::{Filter, Inventory, Suite, TestGroup, SUITES};

use crate::ctx::Test;
use crate::stress;
use crate::tests::*;

macro_rules! tests_of_groups {
    ($($(#[doc = $doc:literal])* $group:ident = $tests:path, $elsewhere:expr;)*) => {
        /// The tests of a group.
        fn tests(group: TestGroup) -> &'static [Test] {
            match group {
                $(TestGroup::$group => $tests,)*
            }
        }
    };
}

suites::with_test_groups!(tests_of_groups);

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
