// SPDX-License-Identifier: GPL-2.0

//! `make planted-in-tree`: puts faults that arch/x86/events and kernel/events once had back into the
//! kernel's source, and runs the test that is to find each.
//!
//! The faults are the patches of tests/regressions. The header of each names the commit that mended it.

use anyhow::{Context as _, Result};
use clap::Args;
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use super::{runner, tree};
use crate::cache;
use crate::context::Context;
use crate::guest;
use crate::guest_tests;
use crate::kernel;
use crate::planted::header::{check_table, read_all, Header, Sign};
use crate::planted::outcome::{of_guest, sum, tell, Outcome, Verdict};
use crate::planted::patch;
use crate::qemu::Qemu;
use crate::select::{self, Selected};
use crate::signals;

/// The folder of the patches.
const FOLDER: &str = "tests/regressions";

/// Where the table of the faults is.
const PAGE: &str = "docs/in-tree.md";

/// The seconds after which a test counts as one that hangs, if it reports nothing for so long.
const LIMIT: u64 = 120;

/// Which faults to put back.
#[derive(Args)]
pub struct Options {
    /// Only the faults that match a glob.
    #[arg(long, env = "RUST_PERF_PLANTED", value_name = "GLOB…")]
    planted: Option<String>,
}

/// A fault that the kernel once had.
#[derive(Debug)]
struct Regression {
    /// The name of the file, without `.patch`.
    name: String,
    patch: PathBuf,
    /// What goes wrong.
    what: String,
    /// The title of the commit that mended it.
    upstream: String,
    /// The files that it changes.
    files: Vec<String>,
    suite: String,
    title: String,
    signs: Vec<Sign>,
}

impl Regression {
    /// Its suite and test.
    fn test(&self) -> (String, String) {
        (self.suite.clone(), self.title.clone())
    }

    fn parse(patch: &Path, text: &str) -> Result<Self> {
        let (mut header, diff) = Header::parse(text)?;
        header.take("SPDX-License-Identifier")?;
        let what = header.take("Fault")?;
        let upstream = header.take("Upstream")?;
        let test = header.take("Test")?;
        let (suite, title) = test
            .split_once(' ')
            .with_context(|| format!("Test: {test}: not \"SUITE TITLE\""))?;
        let signs = header.signs()?;
        header.finish()?;
        select::suite(suite)?;
        let files = diff.lines().filter_map(|line| line.strip_prefix("+++ b/"));
        let name = patch.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            patch: patch.to_owned(),
            what,
            upstream: upstream.trim_matches('"').to_owned(),
            files: files.map(str::to_owned).collect(),
            suite: suite.to_owned(),
            title: title.to_owned(),
            signs,
        })
    }
}

/// The table of docs/in-tree.md.
fn table(faults: &[Regression]) -> String {
    let head = "| fault | mended by | found by |\n|---|---|---|\n";
    faults.iter().fold(head.to_owned(), |table, fault| {
        let Regression {
            name,
            what,
            upstream,
            suite,
            title,
            ..
        } = fault;
        let link = format!("[{name}](../{FOLDER}/{name}.patch)");
        table + &format!("| {link}: {what} | {upstream} | suite {suite}: `{title}` |\n")
    })
}

/// Checks that the table in the documentation is that of the patches.
pub fn check(ctx: &Context) -> Result<()> {
    check_table(ctx, PAGE, "faults", &table(&all(ctx)?))
}

/// All faults, by their names.
fn all(ctx: &Context) -> Result<Vec<Regression>> {
    read_all(&ctx.top.join(FOLDER), Regression::parse)
}

/// `make planted-in-tree`.
pub fn planted_in_tree(
    ctx: &Context,
    kernel: &kernel::Options,
    options: &Options,
) -> Result<ExitCode> {
    let globs = options.planted.as_deref();
    let faults = select::chosen("fault", all(ctx)?, globs, |it| &it.name)?;
    let _lock = cache::lock(&ctx.out.join(".lock-planted"), "make planted-in-tree")?;
    let clean = tree::built(ctx, kernel)?;
    let bench = Bench {
        ctx,
        program: guest_tests::build(ctx)?,
        qemu: Qemu::patched(ctx)?,
        tree: tree::own(ctx, &clean, "in-tree-planted")?,
        clean,
    };
    // An interrupted run may have left any of them.
    let files = all(ctx)?.into_iter().flat_map(|it| it.files);
    bench.restore(&files.collect::<Vec<_>>())?;
    let sound = bench.sound(&faults)?;
    let mut missed = 0;
    for fault in &faults {
        let started = Instant::now();
        let verdict = match sound.get(&fault.test()) {
            Some(Outcome::Passed) => bench.verdict(fault)?,
            other => Err(format!("does not pass without the fault: {other:?}")),
        };
        signals::park_if_interrupted();
        missed += usize::from(verdict.is_err());
        let test = format!("{} {}", fault.suite, fault.title);
        tell(&fault.name, "found", &verdict, started, &test);
    }
    Ok(sum("found", faults.len(), missed))
}

/// What the faults are put into.
struct Bench<'a> {
    ctx: &'a Context,
    program: PathBuf,
    qemu: Qemu,
    /// The source without a fault, as it was built.
    clean: PathBuf,
    /// A copy of that.
    tree: PathBuf,
}

impl Bench<'_> {
    /// What the tests of all faults come to without a fault.
    fn sound(&self, faults: &[Regression]) -> Result<HashMap<(String, String), Outcome>> {
        tree::build(self.ctx, &self.tree)?;
        let mut outcomes = HashMap::new();
        for fault in faults {
            if let Entry::Vacant(entry) = outcomes.entry(fault.test()) {
                entry.insert(self.run(fault)?);
                signals::park_if_interrupted();
            }
        }
        Ok(outcomes)
    }

    /// Puts a fault in, builds the kernel, runs the test, and takes the fault out.
    fn verdict(&self, fault: &Regression) -> Result<Verdict> {
        let applied = patch(&self.tree, &fault.patch).output()?;
        let outcome = match applied.status.success() {
            false => {
                let why = String::from_utf8_lossy(&applied.stdout);
                Outcome::None(format!("the patch does not apply:\n{why}"))
            }
            true => tree::build(self.ctx, &self.tree)
                .and_then(|()| self.run(fault))
                .unwrap_or_else(|error| Outcome::None(format!("{error:#}"))),
        };
        // After a signal the next run takes the fault out.
        signals::park_if_interrupted();
        self.restore(&fault.files)?;
        Ok(outcome.verdict(&fault.signs))
    }

    /// Gives files their contents without a fault. A file that has them keeps its time of change, so that
    /// it is not compiled again.
    fn restore(&self, files: &[String]) -> Result<()> {
        for file in files {
            let contents = fs::read(self.clean.join(file)).with_context(|| file.clone())?;
            if fs::read(self.tree.join(file))? != contents {
                fs::write(self.tree.join(file), contents)?;
            }
        }
        Ok(())
    }

    /// Runs the test of a fault with the kernel's driver.
    fn run(&self, fault: &Regression) -> Result<Outcome> {
        let parts = tree::parts(self.ctx, self.qemu.clone(), &self.tree)?;
        let user = guest::Options {
            timeout: Some(LIMIT),
            ..guest::Options::default()
        };
        let selected = Selected {
            suite: select::suite(&fault.suite)?,
            tests: Some(vec![fault.title.clone()]),
        };
        let ran = runner(self.ctx, &parts, &self.program, &user).suite(&selected)?;
        Ok(of_guest(&ran, &[&fault.title]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "SPDX-License-Identifier: GPL-2.0\nFault: one too\n many\n\
        Upstream: \"perf/x86: Count right\"\nTest: hw-v3 a::b\n\n\
        --- a/arch/x86/events/core.c\n+++ b/arch/x86/events/core.c\n@@ -1 +1 @@\n-1\n+2\n";

    #[test]
    fn a_header_names_the_test() {
        let fault = Regression::parse(Path::new("x/03-a-fault.patch"), TEXT).unwrap();
        assert_eq!(fault.name, "03-a-fault");
        assert!(table(&[fault]).ends_with(
            "| [03-a-fault](../tests/regressions/03-a-fault.patch): one too many | perf/x86: Count right \
             | suite hw-v3: `a::b` |\n"
        ));
        let fault = Regression::parse(Path::new("x/03-a-fault.patch"), TEXT).unwrap();
        assert_eq!(fault.files, ["arch/x86/events/core.c"]);
        assert_eq!((&*fault.suite, &*fault.title), ("hw-v3", "a::b"));
        assert_eq!(fault.signs, [Sign::Failure]);
    }

    #[test]
    fn a_wrong_header_is_an_error() {
        for (from, to, part) in [
            ("Fault: ", "Bug: ", "no line \"Fault"),
            ("Upstream: ", "X: ", "no line \"Upstream"),
            ("hw-v3 ", "", "not \"SUITE TITLE\""),
            ("hw-v3 ", "nothing ", "no suite matches"),
        ] {
            let text = TEXT.replace(from, to);
            let error = Regression::parse(Path::new("a.patch"), &text).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }
}
