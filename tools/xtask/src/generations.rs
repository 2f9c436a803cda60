// SPDX-License-Identifier: GPL-2.0

//! docs/results/generations.md: which tests pass on which generation of PMU.
//!
//! The file is made from the reports of a full run. A column is a machine of the suites,
//! a section is a theme of tests, a row is a test. Each PMU of the module has a table of
//! its themes.

use anyhow::{Context as _, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::iter;
use std::os::unix::fs::symlink;
use std::process::ExitCode;
use suites::{Suite, CPUS, SUITES};

use crate::context::{Context, GuestLogs};
use crate::cpus;
use crate::ktap::{Outcome, Results};
use crate::test::read_results;

const FILE: &str = "docs/results/generations.md";

/// A link in `out` to the logs of the last full run without a failure.
const FULL_RUN: &str = "full-run";

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0 -->
<!-- Made by `make generations` from the reports of `make test ALL=1`. -->
# What is tested on which generation

A column is an emulated CPU (`tests/suites/src/machine/table.rs`): its generation of performance
monitoring, its number of general counters and, behind the `+`, of fixed counters. The
first table says how many tests of a theme pass; `3/5` means that the other two are
skipped. `·` means that no suite runs the theme there: it does not depend on the
generation, or other machines stand for this one. rust_clock and rust_trace need no
counters, so they run on a CPU without a PMU as well.
";

/// The module's PMUs, and how the names of their themes start.
const PMUS: &[(&str, &[&str])] = &[
    ("rust_clock", &["clock", "cost"]),
    ("rust_trace", &["trace", "probe"]),
];

/// What the other themes are about.
const OTHERS: &str = "rust_pmu, and the module as a whole";

/// The PMU that a theme is about.
fn pmu(theme: &str) -> &'static str {
    let is_about = |starts: &[&str]| starts.iter().any(|start| theme.starts_with(start));
    PMUS.iter()
        .find(|(_, starts)| is_about(starts))
        .map_or(OTHERS, |(pmu, _)| *pmu)
}

/// What came of one test on one machine.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Passed,
    /// For this reason.
    Skipped(String),
}

/// A test: its theme and its name.
type Test<'a> = (&'a str, &'a str);

/// What came of all tests.
#[derive(Default)]
struct Table<'a> {
    machines: BTreeSet<&'a str>,
    /// In the suites' order.
    tests: Vec<Test<'a>>,
    cells: BTreeMap<(Test<'a>, &'a str), Cell>,
}

impl<'a> Table<'a> {
    /// Takes each suite's machine and results. A test has passed on a machine if it has
    /// passed in one suite there.
    fn new(suites: impl IntoIterator<Item = (&'a str, &'a Results)>) -> Self {
        let mut table = Self::default();
        for (machine, results) in suites {
            table.machines.insert(machine);
            for (name, outcome) in &results.outcomes {
                // What is not a test has no theme.
                let Some(test) = name.split_once("::") else {
                    continue;
                };
                let cell = match outcome {
                    Outcome::Passed => Cell::Passed,
                    Outcome::Skipped(why) => Cell::Skipped(why.clone()),
                    Outcome::Failed => continue,
                };
                if !table.tests.contains(&test) {
                    table.tests.push(test);
                }
                table
                    .cells
                    .entry((test, machine))
                    .and_modify(|before| {
                        if cell == Cell::Passed {
                            *before = Cell::Passed;
                        }
                    })
                    .or_insert(cell);
            }
        }
        table
    }

    fn themes(&self) -> Vec<&'a str> {
        let mut themes = Vec::new();
        for (theme, _) in &self.tests {
            if !themes.contains(theme) {
                themes.push(*theme);
            }
        }
        themes
    }

    fn of_theme(&self, theme: &'a str) -> impl Iterator<Item = Test<'a>> + '_ {
        self.tests
            .iter()
            .copied()
            .filter(move |test| test.0 == theme)
    }

    /// The machines on which there is any test of these themes.
    fn machines_of(&self, themes: &[&'a str]) -> Vec<&'a str> {
        let has = |machine| {
            let mut tests = themes.iter().flat_map(|theme| self.of_theme(theme));
            tests.any(|test| self.cell(test, machine).is_some())
        };
        let machines = self.machines.iter().copied();
        machines.filter(|machine| has(machine)).collect()
    }

    fn cell(&self, test: Test<'a>, machine: &'a str) -> Option<&Cell> {
        self.cells.get(&(test, machine))
    }

    /// How many tests of a theme passed on a machine, and how many there are.
    fn sum(&self, theme: &'a str, machine: &'a str) -> String {
        let cells = || {
            self.of_theme(theme)
                .filter_map(|test| self.cell(test, machine))
        };
        let passed = cells().filter(|cell| **cell == Cell::Passed).count();
        match cells().count() {
            0 => "·".to_owned(),
            all if all == passed => all.to_string(),
            all => format!("{passed}/{all}"),
        }
    }

    /// The whole file. `about` describes a theme.
    fn markdown(&self, about: impl Fn(&str) -> Result<String>) -> Result<String> {
        let mut text = HEAD.to_owned();
        let pmus = iter::once(OTHERS).chain(PMUS.iter().map(|(pmu, _)| *pmu));
        for name in pmus {
            let mut themes = self.themes();
            themes.retain(|theme| pmu(theme) == name);
            if themes.is_empty() {
                continue;
            }
            let machines = self.machines_of(&themes);
            let _ = write!(text, "\n**{name}**\n\n");
            header(&mut text, "theme", &machines);
            for theme in themes {
                let cells = machines.iter().map(|machine| self.sum(theme, machine));
                row(&mut text, &plain(theme), cells);
            }
        }

        let mut reasons = Vec::new();
        for theme in self.themes() {
            let machines = self.machines_of(&[theme]);
            let _ = write!(text, "\n## {}\n\n{}\n\n", plain(theme), about(theme)?);
            header(&mut text, "test", &machines);
            for test in self.of_theme(theme) {
                let cells = machines
                    .iter()
                    .map(|machine| match self.cell(test, machine) {
                        Some(Cell::Passed) => "✓".to_owned(),
                        Some(Cell::Skipped(why)) => format!("[{}]", number(&mut reasons, why)),
                        None => "·".to_owned(),
                    });
                row(&mut text, &plain(test.1), cells);
            }
        }

        if !reasons.is_empty() {
            text += "\n## Why a test is skipped\n\n";
            for (i, why) in reasons.iter().enumerate() {
                let _ = writeln!(text, "- [{}] {why}", i + 1);
            }
        }
        Ok(text)
    }
}

/// The number of a reason, which is added if it is new.
fn number(reasons: &mut Vec<String>, why: &str) -> usize {
    let place = reasons.iter().position(|reason| reason == why);
    place.unwrap_or_else(|| {
        reasons.push(why.to_owned());
        reasons.len() - 1
    }) + 1
}

/// The first paragraph of a module's documentation.
fn summary(source: &str) -> String {
    let lines = source
        .lines()
        .skip_while(|line| !line.starts_with("//!"))
        .map_while(|line| line.strip_prefix("//! "));
    lines.collect::<Vec<_>>().join("\n")
}

/// A name as words.
fn plain(name: &str) -> String {
    name.replace('_', " ")
}

fn header(text: &mut String, first: &str, machines: &[&str]) {
    let names = machines
        .iter()
        .map(|machine| match machine.rsplit_once(' ') {
            Some((generation, counters)) => format!("{generation}<br>{counters}"),
            None => (*machine).to_owned(),
        });
    row(text, first, names);
    row(text, "---", machines.iter().map(|_| ":-:".to_owned()));
}

fn row(text: &mut String, first: &str, cells: impl Iterator<Item = String>) {
    let cells: Vec<_> = cells.collect();
    let _ = writeln!(text, "| {first} | {} |", cells.join(" | "));
}

/// Remembers this run, in which all suites ran and no test failed, for [`make`].
pub fn keep(ctx: &Context) -> Result<()> {
    let link = ctx.out.join(FULL_RUN);
    // There may be an older one.
    let _ = fs::remove_file(&link);
    symlink(&ctx.logs, &link).with_context(|| format!("cannot make {}", link.display()))
}

/// The name of a suite's logs.
pub fn log_name(suite: &Suite) -> String {
    format!("suite-{}", suite.name)
}

/// `make generations`: makes [`FILE`] and [`cpus::FILE`] from the last full run.
pub fn make(ctx: &Context) -> Result<ExitCode> {
    let logs = fs::read_link(ctx.out.join(FULL_RUN))
        .context("no full run without a failure yet: make test ALL=1")?;
    let results_of = |suite: &Suite| {
        let logs = GuestLogs::of(&logs, &log_name(suite));
        read_results(&logs).with_context(|| format!("suite {} is new: make test ALL=1", suite.name))
    };
    let write = |file: &str, text: String| {
        fs::write(ctx.top.join(file), text).with_context(|| format!("cannot write {file}"))?;
        println!("{file}, from {}", logs.display());
        Ok::<_, Error>(())
    };

    let results = SUITES
        .iter()
        .filter(|suite| !CPUS.contains(suite))
        .map(|suite| Ok((suite.column(), results_of(suite)?)))
        .collect::<Result<Vec<_>>>()?;
    let suites = results.iter().map(|(machine, results)| (*machine, results));
    let text = Table::new(suites).markdown(|theme| {
        let file = format!("tests/guest/src/tests/{theme}.rs");
        let source = fs::read_to_string(ctx.top.join(&file)).context(file)?;
        Ok(summary(&source))
    })?;
    write(FILE, text)?;

    let cpus = CPUS
        .iter()
        .map(|suite| Ok((&suite.machine, results_of(suite)?)))
        .collect::<Result<Vec<_>>>()?;
    write(cpus::FILE, cpus::markdown(&cpus)?)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns() {
        let of = Results::parse;
        let suites = [
            (
                "v2 4+3",
                of("1..3\nok 1 count::one\nok 2 count::two # SKIP no such event\nok 3 kernel_log\n"),
            ),
            (
                "v1 1",
                of("1..2\nok 1 count::one\nok 2 count::two # SKIP no such event\n"),
            ),
            (
                "v2 4+3",
                of("1..2\nok 1 count::two\nok 2 hot_plug::off # SKIP one CPU\n"),
            ),
            (
                "no PMU",
                of("1..2\nok 1 clock::ticks\nok 2 no_pmu::loads\n"),
            ),
        ];
        let suites = suites.iter().map(|(machine, results)| (*machine, results));
        let text = Table::new(suites)
            .markdown(|theme| Ok(format!("About {theme}.")))
            .unwrap();
        let text = text.strip_prefix(HEAD).unwrap();
        assert_eq!(
            text,
            "
**rust_pmu, and the module as a whole**

| theme | no<br>PMU | v1<br>1 | v2<br>4+3 |
| --- | :-: | :-: | :-: |
| count | · | 1/2 | 2 |
| hot plug | · | · | 0/1 |
| no pmu | 1 | · | · |

**rust_clock**

| theme | no<br>PMU |
| --- | :-: |
| clock | 1 |

## count

About count.

| test | v1<br>1 | v2<br>4+3 |
| --- | :-: | :-: |
| one | ✓ | ✓ |
| two | [1] | ✓ |

## hot plug

About hot_plug.

| test | v2<br>4+3 |
| --- | :-: |
| off | [2] |

## clock

About clock.

| test | no<br>PMU |
| --- | :-: |
| ticks | ✓ |

## no pmu

About no_pmu.

| test | no<br>PMU |
| --- | :-: |
| loads | ✓ |

## Why a test is skipped

- [1] no such event
- [2] one CPU
"
        );
    }

    #[test]
    fn summaries() {
        let source = "// SPDX\n//! One\n//! paragraph.\n//!\n//! Another.\nuse x;\n";
        assert_eq!(summary(source), "One\nparagraph.");
        assert_eq!(summary("use x;\n"), "");
    }
}
