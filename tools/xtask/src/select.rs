// SPDX-License-Identifier: GPL-2.0

//! Chooses the suites and tests of `make test`, by `SUITE=`, `TEST=` and `ALL=1`.

use anyhow::{bail, ensure, Result};
use std::collections::HashSet;
use suites::{Filter, Inventory, OtherKernel, Runs, Suite, SUITES};

/// Those of `all` whose names match the globs; all of them if there are no globs.
pub fn chosen<T>(
    what: &str,
    all: Vec<T>,
    globs: Option<&str>,
    name: impl Fn(&T) -> &str,
) -> Result<Vec<T>> {
    let Some(globs) = globs else {
        return Ok(all);
    };
    let filter = Filter::new(globs);
    let names: Vec<_> = all.iter().map(&name).collect();
    if let Some(glob) = filter.unmatched(names.iter().copied()).first() {
        bail!("no {what} matches {glob}. There is: {}", names.join(", "));
    }
    Ok(all.into_iter().filter(|it| filter.has(name(it))).collect())
}

/// A suite to run.
#[derive(Debug, PartialEq)]
pub struct Selected {
    /// The suite.
    pub suite: &'static Suite,
    /// The titles of the tests to run; all of the suite without.
    pub tests: Option<Vec<String>>,
}

impl Selected {
    fn whole(suite: &'static Suite) -> Self {
        Self { suite, tests: None }
    }
}

/// What the user asked for.
#[derive(Clone, Default)]
pub struct Request {
    /// Globs of suites.
    pub suites: Option<Filter>,
    /// Globs of tests.
    pub tests: Option<Filter>,
    /// Whether to run every suite that comes into question.
    pub all: bool,
    /// Whether it is CI that asks.
    pub ci: bool,
    /// Which suites come into question at all; any without.
    pub only: Option<fn(&Suite) -> bool>,
    /// Whether to leave out those that are not for this kernel besides the usual one.
    pub on: Option<OtherKernel>,
}

impl Request {
    /// Whether nothing is left out but what is not for this kernel.
    pub fn is_everything(&self) -> bool {
        self.all && self.suites.is_none() && self.tests.is_none()
    }

    /// Whether this is a run of all suites, whole, on the usual kernel.
    pub fn is_full(&self) -> bool {
        self.is_everything() && self.on.is_none()
    }

    fn runs(&self) -> Runs {
        match self {
            Self { all: true, .. } => Runs::All,
            Self { ci: true, .. } => Runs::Ci,
            _ => Runs::Every,
        }
    }

    /// The suites to run, in the order of [`SUITES`].
    ///
    /// Without `all`, a test that is asked for by name runs in the first suite that has
    /// it, unless suites are named too.
    pub fn select(&self, inventory: &Inventory) -> Result<Vec<Selected>> {
        let suites = self.suites()?;
        let Some(tests) = &self.tests else {
            return Ok(suites.into_iter().map(Selected::whole).collect());
        };
        let has = |suites: &[&'static Suite]| {
            let titles = suites.iter().flat_map(|suite| titles(suite, inventory));
            titles.collect::<Vec<_>>()
        };
        let here = has(&suites);
        let unmatched = tests.unmatched_tests(here.iter().copied());
        if let Some(glob) = unmatched.first() {
            bail!(
                "{}",
                no_test(glob, &here, &has(&SUITES.iter().collect::<Vec<_>>()))
            );
        }
        let once = self.suites.is_none() && !self.all;
        let mut chosen = HashSet::new();
        let mut selected = Vec::new();
        for suite in suites {
            let tests: Vec<_> = titles(suite, inventory)
                .filter(|title| tests.has_test(title))
                .filter(|title| chosen.insert(title.to_string()) || !once)
                .map(str::to_owned)
                .collect();
            if !tests.is_empty() {
                selected.push(Selected {
                    suite,
                    tests: Some(tests),
                });
            }
        }
        Ok(selected)
    }

    /// The suites that come into question.
    pub fn suites(&self) -> Result<Vec<&'static Suite>> {
        let mut suites = self.named()?;
        suites.retain(|suite| self.only.is_none_or(|only| only(suite)));
        Ok(suites)
    }

    /// The suites that are named, or those of such a run.
    fn named(&self) -> Result<Vec<&'static Suite>> {
        let Some(filter) = &self.suites else {
            let wanted = |suite: &&Suite| match self.on {
                Some(kernel) => suite.is_also_on(kernel),
                None => suite.runs <= self.runs() || self.tests.is_some(),
            };
            return Ok(SUITES.iter().filter(wanted).collect());
        };
        let names = || SUITES.iter().map(|suite| suite.name);
        if let Some(glob) = filter.unmatched(names()).first() {
            bail!("{}", no_suite(glob));
        }
        let suites: Vec<_> = SUITES
            .iter()
            .filter(|suite| filter.has(suite.name))
            .collect();
        ensure!(!suites.is_empty(), "SUITE= names no suite");
        Ok(suites)
    }
}

/// Finds the one suite that a user named for a guest.
pub fn suite(name: &str) -> Result<&'static Suite> {
    match suites::find(name) {
        Some(suite) => Ok(suite),
        None => bail!("{}", no_suite(name)),
    }
}

/// The titles of a suite's tests.
fn titles<'a>(suite: &Suite, inventory: &'a Inventory) -> impl Iterator<Item = &'a str> {
    suite
        .groups()
        .filter_map(|group| inventory.get(group.name()))
        .flatten()
        .map(String::as_str)
}

fn no_suite(glob: &str) -> String {
    let names = || SUITES.iter().map(|suite| suite.name);
    let mut near = suites::nearest(glob, names());
    if near.is_empty() {
        near = names().collect();
    }
    format!("no suite matches {glob}. There is: {}", near.join(", "))
}

/// Why a glob is an error: no test `here` matches it, and perhaps none of `all`.
fn no_test(glob: &str, here: &[&str], all: &[&str]) -> String {
    let filter = Filter::new(glob);
    if all.iter().any(|title| filter.has_test(title)) {
        let elsewhere = "it is in other suites: leave SUITE= out to run it in one that has it";
        return format!("no test of these suites matches {glob}, but {elsewhere}");
    }
    let mut near = suites::nearest(glob, here.iter().chain(all).copied());
    let mut what = "Similar";
    if near.is_empty() {
        let themes = all.iter().filter_map(|title| title.split("::").next());
        near = themes.collect();
        near.sort_unstable();
        near.dedup();
        what = "Tests are named THEME::TEST; the themes";
    }
    format!("no test matches {glob}. {what}: {}", near.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use suites::TestGroup;

    fn inventory() -> Inventory {
        TestGroup::ALL
            .iter()
            .map(|group| {
                let titles: &[&str] = match group {
                    TestGroup::Sampling => &["sampling::no_skid", "sampling::frequency"],
                    TestGroup::SamplingQuick => &["sampling::no_skid"],
                    TestGroup::OverflowWidth => &["overflow::longer"],
                    TestGroup::Kexec => &["kexec::next"],
                    _ => &["x::y"],
                };
                let titles = titles.iter().map(ToString::to_string).collect();
                (group.name().to_owned(), titles)
            })
            .collect()
    }

    fn select(suites: &str, tests: &str, all: bool) -> Result<Vec<(&'static str, Vec<String>)>> {
        let filter = |globs: &str| (!globs.is_empty()).then(|| Filter::new(globs));
        let request = Request {
            suites: filter(suites),
            tests: filter(tests),
            all,
            ..Request::default()
        };
        let selected = request.select(&inventory())?.into_iter();
        Ok(selected
            .map(|it| (it.suite.name, it.tests.unwrap_or_default()))
            .collect())
    }

    fn error(suites: &str, tests: &str) -> String {
        select(suites, tests, false).unwrap_err().to_string()
    }

    #[test]
    fn nothing_named() {
        let names = |all| -> Vec<_> {
            let selected = select("", "", all).unwrap().into_iter();
            selected.map(|(name, _)| name).collect()
        };
        assert_eq!(names(true).len(), SUITES.len());
        assert!(names(false).contains(&"hw-v3") && !names(false).contains(&"hw-v2-few"));
        let ci = Request {
            ci: true,
            ..Request::default()
        };
        let in_ci = ci.suites().unwrap().len();
        assert!(names(false).len() < in_ci && in_ci < SUITES.len());
        let on_checking = |all| {
            let request = Request {
                all,
                on: Some(OtherKernel::Checking),
                ..Request::default()
            };
            request.suites().unwrap()
        };
        assert_eq!(on_checking(true), on_checking(false));
        assert!(Request {
            all: true,
            ..Request::default()
        }
        .is_full());
    }

    #[test]
    fn suites_by_globs() {
        let selected = select("hw-v2* sleep", "", false).unwrap();
        let names: Vec<_> = selected.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["sleep", "hw-v2", "hw-v2-fewest", "hw-v2-few"]);
        assert!(error("hw2 sleep", "").contains("hw-v2"));
        assert!(error("qqqq", "").contains("default, one-cpu"));
    }

    #[test]
    fn a_test_runs_in_the_first_suite_that_has_it() {
        let run = |tests| select("", tests, false).unwrap();
        let title = |name: &str| vec![name.to_owned()];
        assert_eq!(
            run("sampling::no_skid"),
            [("default", title("sampling::no_skid"))]
        );
        assert_eq!(
            run("sampling::no_skid kexec::*"),
            [
                ("default", title("sampling::no_skid")),
                ("kexec", title("kexec::next"))
            ]
        );
        assert_eq!(run("longer"), [("32-bit", title("overflow::longer"))]);
    }

    #[test]
    fn a_test_runs_in_all_suites_that_are_named() {
        let selected = select("hw-v? icount", "sampling::*", false).unwrap();
        assert_eq!(selected.len(), 7);
        assert_eq!(selected[0].1.len(), 2);
        assert_eq!(
            selected[6],
            ("icount", vec!["sampling::no_skid".to_owned()])
        );
        assert!(select("", "sampling::*", true).unwrap().len() > 20);
    }

    #[test]
    fn a_test_that_is_not_there_is_an_error() {
        assert!(error("", "sampling::noskid").contains("Similar: sampling::no_skid"));
        assert!(error("", "sampling::no_skid nothing").contains("no test matches nothing"));
        assert!(error("", "zz").contains("kexec, overflow, sampling, x"));
        assert!(error("sleep", "kexec::next").contains("other suites"));
    }

    #[test]
    fn a_guest_is_like_one_suite() {
        assert_eq!(suite("hw-v2").unwrap().name, "hw-v2");
        assert!(suite("hw-*").is_err());
    }
}
