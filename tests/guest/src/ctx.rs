// SPDX-License-Identifier: GPL-2.0
//! What a test is, and what it is given.

use std::env;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use suites::Suite;

use crate::kmsg::Kmsg;
use crate::pmu::{CpuPmu, Pmu, Vendor};

/// The PMU that the module registers.
pub const RUST_PMU: &str = "rust_pmu";
/// The in-tree PMU of an x86 CPU.
pub const IN_TREE: &str = "cpu";

/// One line of the report.
pub struct Test {
    /// The module that it is in.
    pub module: &'static str,
    pub name: &'static str,
    pub run: fn(&Ctx) -> Result<()>,
}

impl Test {
    /// What the report calls it: its theme, which is a file, and its name.
    pub fn title(&self) -> String {
        let theme = self.module.rsplit("::").next().unwrap_or_default();
        format!("{theme}::{}", self.name)
    }
}

/// Makes a [`Test`] of a function, under the function's name.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        &[$($crate::ctx::Test {
            module: module_path!(),
            name: stringify!($name),
            run: $name,
        }),*]
    };
}

/// What every test is given.
pub struct Ctx {
    /// The suite that is running.
    pub suite: &'static Suite,
    /// The name of the PMU under test.
    pub pmu: String,
    /// What random choices begin with.
    pub seed: u64,
}

impl Ctx {
    /// The PMU under test.
    pub fn pmu(&self) -> Result<Pmu> {
        Pmu::find(&self.pmu)
    }

    /// The in-tree PMU, for comparison; skips where its driver has not come up.
    pub fn in_tree(&self) -> Result<Pmu> {
        Pmu::find(IN_TREE).or_else(|_| skip("the in-tree driver does not take this PMU"))
    }

    /// The same, for what it counts.
    pub fn in_tree_counts(&self) -> Result<Pmu> {
        // It knows no address of the fixed counters there, and so reads none.
        if CpuPmu::probe().vendor == Vendor::Zhaoxin {
            return skip("the in-tree driver reads no instructions on Zhaoxin");
        }
        self.in_tree()
    }

    /// Skips a test that is about the module when another PMU is under test.
    pub fn need_module(&self) -> Result<()> {
        if self.pmu == RUST_PMU {
            Ok(())
        } else {
            skip(format!("only for {RUST_PMU}"))
        }
    }

    /// Where the module's file is.
    pub fn module_file(&self) -> Result<PathBuf> {
        self.need_module()?;
        env::var_os("RUST_PERF_KO")
            .map(PathBuf::from)
            .context("RUST_PERF_KO is not set")
    }

    /// Starts to collect what the module says in the kernel log.
    pub fn module_log(&self) -> Result<ModuleLog> {
        self.need_module()?;
        Ok(ModuleLog(Kmsg::from_now()?))
    }
}

/// The lines of the kernel log that name the module or its PMU.
pub struct ModuleLog(Kmsg);

impl ModuleLog {
    /// Those that have come since the last call.
    pub fn lines(&mut self) -> Result<Vec<String>> {
        let mut lines = self.0.lines()?;
        lines.retain(|line| is_from_module(line));
        Ok(lines)
    }
}

/// Does the module say this line?
pub fn is_from_module(line: &str) -> bool {
    line.starts_with("rust_perf: ") && !line.contains("taint") && !line.contains("verification")
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
