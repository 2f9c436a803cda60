// SPDX-License-Identifier: GPL-2.0

//! docs/generations.md: which tests pass on which generation of PMU, as a run
//! of all suites finds.
//!
//! Nothing of it is written by hand: a column is a machine that suites name, a
//! section is a theme of tests, a row is a test.

use anyhow::{bail, Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use crate::context::Context;
use crate::ktap::{Outcome, Results};

const FILE: &str = "docs/generations.md";

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0 -->
<!-- Made by `make test BLESS=1` from what the tests report; `make test` compares. -->
# What is tested on which generation

A column is an emulated CPU (`tests/guest/src/suite.rs`): whose generation of
performance monitoring it has, and how many general and, behind the `+`, fixed
counters. A number says how many tests of a theme pass there, and of how many
where some are skipped. `·`: no suite runs it there; it is about what does not
depend on the generation, or is tested on some that stand for the others.

";

/// What became of one test on one machine.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Passed,
    /// And why.
    Skipped(String),
}

/// A test, by its theme and its own name.
type Test<'a> = (&'a str, &'a str);

/// What became of the tests.
#[derive(Default)]
struct Table<'a> {
    machines: BTreeSet<&'a str>,
    /// In the order in which the suites have them.
    tests: Vec<Test<'a>>,
    cells: BTreeMap<(Test<'a>, &'a str), Cell>,
}

impl<'a> Table<'a> {
    /// Of the suites' machines and results, in the suites' order. A test that
    /// passed in one suite of a machine has passed there.
    fn new(suites: impl IntoIterator<Item = (&'a str, &'a Results)>) -> Self {
        let mut table = Self::default();
        for (machine, results) in suites {
            // A machine without a name has nothing to test.
            if machine.is_empty() {
                continue;
            }
            table.machines.insert(machine);
            for (name, outcome) in &results.outcomes {
                // What the program that runs the tests looks at has no theme.
                let Some(test) = name.split_once('.') else {
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

    fn cell(&self, test: Test<'a>, machine: &'a str) -> Option<&Cell> {
        self.cells.get(&(test, machine))
    }

    /// How many tests of a theme passed on a machine, and of how many.
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

    /// The whole file; `about` says what a theme is about.
    fn markdown(&self, about: impl Fn(&str) -> Result<String>) -> Result<String> {
        let mut text = HEAD.to_owned();
        let machines: Vec<_> = self.machines.iter().copied().collect();
        header(&mut text, "theme", &machines);
        for theme in self.themes() {
            let cells = machines.iter().map(|machine| self.sum(theme, machine));
            row(&mut text, &plain(theme), cells);
        }

        let mut reasons = Vec::new();
        for theme in self.themes() {
            let machines: Vec<_> = machines
                .iter()
                .copied()
                .filter(|machine| {
                    self.of_theme(theme)
                        .any(|test| self.cell(test, machine).is_some())
                })
                .collect();
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

/// The place of a reason among all, from 1 on.
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

/// A name of the program's as words.
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

/// Compares docs/generations.md with what these suites, all there are, gave; or
/// with `bless` makes it so.
pub fn check<'a>(
    ctx: &Context,
    suites: impl IntoIterator<Item = (&'a str, &'a Results)>,
    bless: bool,
) -> Result<()> {
    let text = Table::new(suites).markdown(|theme| {
        let file = format!("tests/guest/src/tests/{theme}.rs");
        let source = fs::read_to_string(ctx.top.join(&file)).context(file)?;
        Ok(summary(&source))
    })?;
    let file = ctx.top.join(FILE);
    if bless {
        fs::create_dir_all(ctx.top.join("docs"))?;
        return fs::write(&file, text).with_context(|| format!("cannot write {FILE}"));
    }
    let before = fs::read_to_string(&file).unwrap_or_default();
    if let Some((line, (old, new))) = first_difference(&before, &text) {
        bail!(
            "{FILE} is not what this run gives, from line {line} on:\n  - {old}\n  + {new}\n\
             `make test BLESS=1` makes it so"
        );
    }
    Ok(())
}

/// The first line in which two texts differ, and its number.
fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    let end = "(no more lines)";
    let lines = |text: &'a str| text.lines().chain(std::iter::repeat(end));
    let count = old.lines().count().max(new.lines().count());
    (1..=count)
        .zip(lines(old).zip(lines(new)))
        .find(|(_, (old, new))| old != new)
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
                of("1..3\nok 1 count.one\nok 2 count.two # SKIP no such event\nok 3 kernel_log\n"),
            ),
            (
                "v1 1",
                of("1..2\nok 1 count.one\nok 2 count.two # SKIP no such event\n"),
            ),
            (
                "v2 4+3",
                of("1..2\nok 1 count.two\nok 2 hot_plug.off # SKIP one CPU\n"),
            ),
            ("", of("1..1\nok 1 no_pmu.refuses\n")),
        ];
        let suites = suites.iter().map(|(machine, results)| (*machine, results));
        let text = Table::new(suites)
            .markdown(|theme| Ok(format!("About {theme}.")))
            .unwrap();
        let text = text.strip_prefix(HEAD).unwrap();
        assert_eq!(
            text,
            "\
| theme | v1<br>1 | v2<br>4+3 |
| --- | :-: | :-: |
| count | 1/2 | 2 |
| hot plug | · | 0/1 |

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

    #[test]
    fn differences() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, ("b", "c"))));
        assert_eq!(
            first_difference("", "a\n"),
            Some((1, ("(no more lines)", "a")))
        );
    }
}
