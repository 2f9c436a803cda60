// SPDX-License-Identifier: GPL-2.0

//! The bugs of `tests/planted`: each is a patch whose header names the test that catches it.

use anyhow::{bail, ensure, Result};
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use suites::Suite;

use crate::context::Context;
use crate::planted::header::{read_all, Header, Sign};
use crate::select;

/// The folder of the patches.
const FOLDER: &str = "tests/planted";

/// A bug that a test must catch.
#[derive(Debug, PartialEq)]
pub struct Bug {
    /// Its name: that of the file, without `.patch`.
    pub name: String,
    /// The patch.
    pub patch: PathBuf,
    /// What is wrong, in one sentence.
    pub what: String,
    /// The test that catches it.
    pub test: Test,
    /// How the test shows it: in one of these ways. More than one if that depends on timing.
    pub signs: Vec<Sign>,
}

/// A test that catches bugs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// A host test.
    Host(HostTests, String),
    /// A guest test: the suite's name and the test's title.
    Guest(&'static str, String),
}

/// The host tests that one program has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostTests {
    /// The package.
    pub package: String,
    /// The file in the package's `tests`, or `None` for the tests in the library.
    pub file: Option<String>,
}

impl HostTests {
    /// The arguments by which cargo knows the program.
    pub fn cargo_arguments(&self) -> Vec<&str> {
        let mut arguments = vec!["--package", &self.package];
        match &self.file {
            Some(file) => arguments.extend(["--test", file]),
            None => arguments.push("--lib"),
        }
        arguments
    }
}

impl fmt::Display for HostTests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}/{file}", self.package),
            None => f.write_str(&self.package),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(tests, name) => write!(f, "host {tests} {name}"),
            Self::Guest(suite, title) => write!(f, "guest {suite} {title}"),
        }
    }
}

impl Test {
    /// Its name in its program or suite.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(_, name) | Self::Guest(_, name) => name,
        }
    }

    /// Whether both are of the same program or suite.
    pub fn runs_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host(one, _), Self::Host(other, _)) => one == other,
            (Self::Guest(one, _), Self::Guest(other, _)) => one == other,
            _ => false,
        }
    }

    /// Reads `host PACKAGE[/FILE] NAME` or `guest SUITE TITLE`.
    fn parse(text: &str) -> Result<Self> {
        let words: Vec<_> = text.split_whitespace().collect();
        match words[..] {
            ["host", program, name] => {
                let (package, file) = match program.split_once('/') {
                    Some((package, file)) => (package, Some(file.to_owned())),
                    None => (program, None),
                };
                let package = package.to_owned();
                Ok(Self::Host(HostTests { package, file }, name.to_owned()))
            }
            ["guest", suite, title] => {
                let suite: &Suite = select::suite(suite)?;
                // Its tests get no other module than rust_perf.ko. One that needs another fails
                // without the bug, too.
                ensure!(
                    suite.example.is_none()
                        && suite.kernel_programs().is_none()
                        && !suite.has_bolt()
                        && !suite.debian_qemu,
                    "suite {} needs more than rust_perf.ko",
                    suite.name
                );
                Ok(Self::Guest(suite.name, title.to_owned()))
            }
            _ => bail!("not \"host PACKAGE[/FILE] NAME\" or \"guest SUITE TITLE\": {text}"),
        }
    }
}

impl Bug {
    /// Reads a patch. Its header has lines `Bug:`, `Test:` and perhaps `Expect:`, with one or
    /// more [`Sign`]s. A line that begins with a space continues the one before.
    fn parse(patch: &Path, text: &str) -> Result<Self> {
        let (mut header, diff) = Header::parse(text)?;
        header.take("SPDX-License-Identifier")?;
        let what = header.take("Bug")?;
        let test = Test::parse(&header.take("Test")?)?;
        let signs = header.signs()?;
        header.finish()?;
        // QEMU is linked with the model of the checkout.
        let files = diff.lines().filter_map(|line| line.strip_prefix("+++ b/"));
        if let (Test::Guest(..), Some(file)) = (
            &test,
            files
                .into_iter()
                .find(|file| !file.starts_with("rust_perf/")),
        ) {
            bail!("a guest test cannot see a bug in {file}: guests get rust_perf/ alone from it");
        }
        let name = patch.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            patch: patch.to_owned(),
            what,
            test,
            signs,
        })
    }

    /// Its line in the table of docs/results/planted-bugs.md.
    fn row(&self) -> String {
        let verbs: Vec<_> = self
            .signs
            .iter()
            .map(|sign| match sign {
                Sign::Failure => "fails",
                Sign::Hang => "hangs",
                Sign::KernelLog => "leaves a complaint in the kernel log",
            })
            .collect();
        let how = match self.signs[..] {
            [Sign::Failure] => String::new(),
            _ => format!(", which {}", verbs.join(" or ")),
        };
        format!(
            "| [{0}](../../{FOLDER}/{0}.patch) | {1} | {2}{how} |",
            self.name,
            self.what,
            match &self.test {
                Test::Host(tests, name) => format!("host, {tests}: `{name}`"),
                Test::Guest(suite, title) => format!("guest, suite {suite}: `{title}`"),
            }
        )
    }
}

/// All bugs, by their names.
pub fn all(ctx: &Context) -> Result<Vec<Bug>> {
    let bugs = read_all(&ctx.top.join(FOLDER), Bug::parse)?;
    let numbers: HashSet<_> = bugs.iter().map(|bug| bug.name.split('-').next()).collect();
    ensure!(
        numbers.len() == bugs.len(),
        "two patches in {FOLDER} have the same number"
    );
    Ok(bugs)
}

/// The table of docs/results/planted-bugs.md.
pub fn table(bugs: &[Bug]) -> String {
    let head = "| bug | what is wrong | the test that catches it |\n|---|---|---|\n";
    bugs.iter()
        .fold(head.to_owned(), |table, bug| table + &bug.row() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\n--- a/rust_perf/a.rs\n+++ b/rust_perf/a.rs\n@@ -1 +1 @@\n-1\n+2\n";

    fn parse(header: &str) -> Result<Bug> {
        let text = format!("SPDX-License-Identifier: GPL-2.0\n{header}{DIFF}");
        Bug::parse(Path::new("x/07-a-bug.patch"), &text)
    }

    #[test]
    fn a_header_names_the_test() {
        let bug = parse("Bug: one too\n many\nTest: host pmc period::x\n").unwrap();
        assert_eq!(bug.name, "07-a-bug");
        assert_eq!(bug.signs, [Sign::Failure]);
        assert_eq!(bug.what, "one too many");
        assert_eq!(bug.test.to_string(), "host pmc period::x");
        assert_eq!(
            bug.row(),
            "| [07-a-bug](../../tests/planted/07-a-bug.patch) | one too many \
             | host, pmc: `period::x` |"
        );
        let bug = parse("Bug: b\nTest: host pmc/counters x\n").unwrap();
        let Test::Host(tests, _) = bug.test else {
            panic!("{:?}", bug.test)
        };
        assert_eq!(
            tests.cargo_arguments(),
            ["--package", "pmc", "--test", "counters"]
        );
        let bug = parse("Bug: b\nTest: guest hw-v2 a::b\nExpect: kernel log\n").unwrap();
        assert_eq!(bug.test, Test::Guest("hw-v2", "a::b".to_owned()));
        assert_eq!(bug.signs, [Sign::KernelLog]);
        let bug = parse("Bug: b\nTest: host pmc x\nExpect: failure or kernel log\n").unwrap();
        assert_eq!(bug.signs, [Sign::Failure, Sign::KernelLog]);
        assert!(bug
            .row()
            .ends_with("which fails or leaves a complaint in the kernel log |"));
    }

    #[test]
    fn a_wrong_header_is_an_error() {
        for (header, part) in [
            ("Test: host pmc x\n", "no line \"Bug"),
            ("Bug: b\n", "no line \"Test"),
            ("Bug: b\nTest: pmc x\n", "not \"host PACKAGE"),
            ("Bug: b\nTest: guest nothing a::b\n", "no suite matches"),
            (
                "Bug: b\nTest: guest example a::b\n",
                "more than rust_perf.ko",
            ),
            ("Bug: b\nTest: host pmc x\nExpect: pass\n", "Expect: pass"),
            (
                "Bug: b\nTest: host pmc x\nExpect: hang or pass\n",
                "Expect: pass",
            ),
            ("Bug: b\nTest: host pmc x\nTset: y\n", "\"Tset:\""),
            ("Bug: b\nTest: host pmc x\nwords\n", "\"Name: text\""),
        ] {
            let error = parse(header).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = Bug::parse(Path::new("a.patch"), "Bug: b\n").unwrap_err();
        assert!(error.to_string().contains("no diff"));
    }

    #[test]
    fn a_guest_has_no_bug_of_the_model() {
        let header = "SPDX-License-Identifier: GPL-2.0\nBug: b\nTest: guest default a::b\n";
        let text = format!("{header}{}", DIFF.replace("rust_perf/", "pmu-model/src/"));
        let error = Bug::parse(Path::new("a.patch"), &text).unwrap_err();
        assert!(error.to_string().contains("pmu-model/src/a.rs"), "{error}");
    }
}
