// SPDX-License-Identifier: GPL-2.0

//! A guest that counts with what packages have installed: tests of exact numbers.

use anyhow::{ensure, Result};
use std::fs::File;
use std::path::Path;

use crate::context::Context;
use crate::guest::{self, Guest, LimitOf, Parts};
use crate::step::{indent, Step};
use crate::test;

/// The suite whose machine the guest has.
const SUITE: &str = "default";
/// The tests: they assert exact numbers of instructions, that of a program by perf among them.
pub const TESTS: &[&str] = &[
    "perf_tool::stat",
    "counting::loops_of_all_lengths",
    "counting::branches",
    "counting::page_faults",
    "counting::syscalls",
    "counting::moving_between_cpus",
];

/// The guest.
pub struct Counting<'a> {
    pub parts: &'a Parts,
    /// The program guest-tests.
    pub program: &'a Path,
    /// The module, unless the guest has it installed.
    pub module: Option<&'a Path>,
    pub options: &'a guest::Options,
}

impl Counting<'_> {
    /// Runs a script in the guest, then the tests. A failure of either is an error.
    pub fn run(&self, ctx: &Context, name: &str, title: &str, script: &str) -> Result<()> {
        let step = Step::start(ctx, name, title)?;
        let command = format!("set -e\n{script}\nexec guest-tests {}", TESTS.join(" "));
        let logs = ctx.guest_logs(name)?;
        let guest = Guest {
            logs: &logs,
            module: self.module,
            example: None,
            test_module: None,
            kernel_programs: None,
            bolt: None,
            command: Some(&command),
            suite: suites::find(SUITE),
            tests: Some(self.program),
            limit: LimitOf::Silence,
            may_restore: false,
            options: self.options,
        };
        let end = guest.run(
            ctx,
            self.parts,
            Box::new(File::create(logs.ktap())?),
            Box::new(File::create(logs.stderr())?),
        )?;
        let (results, trouble) = test::judge(&guest, &end)?;
        let failures = results.failures.iter();
        let mut wrong: Vec<_> = failures
            .map(|it| format!("{}: {}", it.name, it.why.join("\n")))
            .chain(trouble)
            .collect();
        if results.skipped() > 0 {
            wrong.push(format!("{} tests were skipped", results.skipped()));
        }
        ensure!(
            wrong.is_empty(),
            step.failure(&format!("\n{}", indent(&wrong.join("\n"))))
        );
        step.end(&format!("{} tests passed", results.passed()));
        Ok(())
    }
}
