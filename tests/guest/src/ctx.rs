// SPDX-License-Identifier: GPL-2.0
//! What a test is, and what it is given.

use std::env;
use std::fmt;
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use suites::log::is_from_module;
use suites::Suite;

use crate::kmsg::Kmsg;
use crate::need::{self, Need};
use crate::pmu::Pmu;
use crate::setting::Affinity;

/// The PMU that the module registers. On a hybrid CPU there are several, whose names begin
/// with this.
pub const RUST_PMU: &str = "rust_pmu";
/// The PMU of the in-tree driver, likewise.
pub const IN_TREE: &str = "cpu";

/// One line of the report.
pub struct Test {
    /// The module that it is in.
    pub module: &'static str,
    /// The name of its function.
    pub name: &'static str,
    /// What all tests of its list need, and what it needs besides.
    pub needs: [&'static [Need]; 2],
    /// The function.
    pub function: fn(&Ctx) -> Result<()>,
}

impl Test {
    /// The name in the report: `theme::name`. A theme is a file of `tests/`.
    pub fn title(&self) -> String {
        let theme = self.module.rsplit("::").next().unwrap_or_default();
        format!("{theme}::{}", self.name)
    }

    /// Checks what the test needs, then runs it. The error is [`Skipped`] if a need is
    /// not met.
    pub fn run(&self, ctx: &Ctx) -> Result<()> {
        need::check(ctx, self.needs.concat().as_slice())?;
        (self.function)(ctx)
    }

    /// Whether it may run on a machine that is not the guest of a suite.
    pub fn is_for_any_machine(&self) -> bool {
        let is_guest = |need: &Need| matches!(need, Need::Guest(_));
        !self.needs.into_iter().flatten().any(is_guest)
    }
}

/// Makes a list of [`Test`]s from functions. A test's [needs](crate::need::Need) follow
/// its name; those of all tests in the list come first:
///
/// ```ignore
/// const TESTS: &[Test] = tests![
///     all need [ExactCounts];
///     page_faults,
///     moving_between_cpus: [Cpus(2)],
/// ];
/// ```
#[macro_export]
macro_rules! tests {
    // Each test's entry has a copy of the common needs, here as one token tree.
    (@list $common:tt; $($name:ident $(: [$($need:expr),* $(,)?])?),*) => {
        &[$($crate::ctx::Test {
            module: module_path!(),
            name: stringify!($name),
            needs: {
                #[allow(unused_imports, reason = "a test may have no needs")]
                use $crate::need::Need::*;
                [&$common, &[$($($need),*)?]]
            },
            function: $name,
        }),*]
    };
    (all need $common:tt; $($name:ident $(: $needs:tt)?),* $(,)?) => {
        $crate::tests!(@list $common; $($name $(: $needs)?),*)
    };
    ($($name:ident $(: $needs:tt)?),* $(,)?) => {
        $crate::tests!(@list []; $($name $(: $needs)?),*)
    };
}

/// What every test is given.
pub struct Ctx {
    /// The suite that is running.
    pub suite: &'static Suite,
    /// The name of the PMU under test.
    pub pmu: String,
    /// The seed of random choices.
    pub seed: u64,
    /// Why no test can count by the PMU, if that is known.
    pub no_counters: Option<String>,
    /// The CPUs to run on, if not all.
    pub cpus: Option<Vec<usize>>,
}

impl Ctx {
    /// The PMU under test.
    pub fn pmu(&self) -> Result<Pmu> {
        Pmu::find(&self.pmu)
    }

    /// Restricts the calling thread to the CPUs to run on. It has its present affinity again when the
    /// result is dropped, even if it has bound itself to a CPU meanwhile.
    pub fn enter(&self) -> Result<Affinity> {
        let affinity = Affinity::save()?;
        if let Some(cpus) = &self.cpus {
            affinity.restrict_to(cpus)?;
        }
        Ok(affinity)
    }

    /// Whether the module is in the place of the in-tree driver, whose PMUs' names it has.
    pub fn is_primary(&self) -> bool {
        self.suite.primary
    }

    /// Whether the PMU under test is the module's.
    pub fn is_rust_pmu(&self) -> bool {
        self.is_primary() || self.pmu.starts_with(RUST_PMU)
    }

    /// The in-tree PMU, for comparison. It is there if the test has one of the needs
    /// `InTree…`.
    pub fn in_tree(&self) -> Result<Pmu> {
        ensure!(!self.is_primary(), "the module is in its place");
        Pmu::find(&in_tree_name(&self.pmu))
    }

    /// The module's file.
    pub fn module_file(&self) -> Result<PathBuf> {
        env::var_os("RUST_PERF_KO")
            .map(PathBuf::from)
            .context("RUST_PERF_KO is not set")
    }

    /// Starts to collect what the module prints to the kernel log.
    pub fn module_log(&self) -> Result<ModuleLog> {
        Ok(ModuleLog(Kmsg::from_now()?))
    }
}

/// The PMU of the in-tree driver that is for the same CPUs as `pmu`.
pub fn in_tree_name(pmu: &str) -> String {
    pmu.replacen(RUST_PMU, IN_TREE, 1)
}

/// The lines of the kernel log that the module prints.
pub struct ModuleLog(Kmsg);

impl ModuleLog {
    /// The lines since the last call.
    pub fn lines(&mut self) -> Result<Vec<String>> {
        let mut lines = self.0.lines()?;
        lines.retain(|line| is_from_module(line));
        Ok(lines)
    }
}

/// The error of a test that does not apply here.
#[derive(Debug)]
pub struct Skipped(String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// Ends a test that does not apply here.
pub fn skip<T>(why: impl Into<String>) -> Result<T> {
    Err(Skipped(why.into()).into())
}
