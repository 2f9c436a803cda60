// SPDX-License-Identifier: GPL-2.0

//! The program that tests rust_pmu inside the guest.

use anyhow::{ensure, Context as _, Result};
use std::path::PathBuf;
use std::process::Command;
use suites::Inventory;

use crate::context::Context;
use crate::host::cargo;
use crate::step::Step;

/// Builds the program.
///
/// It is one of the workspace's binaries, so that its dependencies are built as those of
/// the host tests are, and only once.
pub fn build(ctx: &Context) -> Result<PathBuf> {
    let step = Step::start(ctx, "guest-tests", "guest tests: build")?;
    step.run(cargo(ctx, "build").args(["--workspace", "--locked", "--bin", "guest-tests"]))?;
    step.done();
    Ok(ctx.out.join("target/debug/guest-tests"))
}

/// The tests that a built program has.
pub fn inventory(program: &PathBuf) -> Result<Inventory> {
    let output = Command::new(program).arg("--names").output()?;
    ensure!(output.status.success(), "guest-tests --names failed");
    serde_json::from_slice(&output.stdout).context("guest-tests --names")
}
