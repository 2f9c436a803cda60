// SPDX-License-Identifier: GPL-2.0
//! The list of all tests, with what each asserts: docs/results/tests.md, and `--list`.

use std::fmt::Write as _;

use suites::Elsewhere;

use crate::ctx::Test;
use crate::suite;

/// A file of tests.
pub struct Theme {
    /// Its name.
    pub name: &'static str,
    /// What they are about.
    pub about: &'static str,
    /// The name of each test, and what it asserts.
    pub tests: &'static [(&'static str, &'static str)],
}

include!(concat!(env!("OUT_DIR"), "/asserts.rs"));

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0 -->
<!-- Made from the doc comments in tests/guest/src, by: guest-tests --list -->
# What each guest test asserts

`guest-tests --list` prints this page, and so does `rust-perf-tests --list`, which is the same program. A
test with a mark also runs by default on a computer that is no guest of this project:
[testing.md](../testing.md#on-any-machine) says which may.
";

/// Makes docs/results/tests.md.
pub fn markdown() -> String {
    let mut text = HEAD.to_owned();
    for theme in THEMES {
        let about = plain(theme.about);
        write!(text, "\n## {}\n\n{about}\n\n", theme.name).expect("writing to memory");
        text.push_str("| test | elsewhere | what it asserts |\n|---|---|---|\n");
        for (name, asserts) in theme.tests {
            let mark = match runs_elsewhere(&format!("{}::{name}", theme.name)) {
                true => "yes",
                false => "",
            };
            let asserts = plain(asserts).replace('|', "\\|");
            writeln!(text, "| `{name}` | {mark} | {asserts} |").expect("writing to memory");
        }
    }
    text
}

/// Whether a test may run without a suite.
fn runs_elsewhere(title: &str) -> bool {
    let has = |test: &Test| test.title() == title && test.is_for_any_machine();
    suite::groups().any(|(group, tests)| {
        !matches!(group.elsewhere(), Elsewhere::No(_)) && tests.iter().any(has)
    })
}

/// Without links to code.
fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_is_listed() {
        for (_, tests) in suite::groups() {
            for test in tests {
                let title = test.title();
                let (theme, name) = title.split_once("::").unwrap();
                let theme = THEMES.iter().find(|it| it.name == theme).unwrap();
                assert!(theme.tests.iter().any(|it| it.0 == name), "{title}");
            }
        }
    }

    #[test]
    fn the_page_is_up_to_date() {
        let page = include_str!("../../../docs/results/tests.md");
        assert!(
            page == markdown(),
            "docs/results/tests.md is out of date. Build guest-tests, as make test does, and run: \
             out/target/debug/guest-tests --list >docs/results/tests.md"
        );
    }
}
