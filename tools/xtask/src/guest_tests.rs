// SPDX-License-Identifier: GPL-2.0

//! The program that tests rust_pmu inside the guest.

use anyhow::{ensure, Context as _, Result};
use std::path::PathBuf;
use std::process::Command;
use suites::Inventory;

use crate::context::Context;
use crate::host::{cargo, target};
use crate::step::Step;

/// Builds the program.
///
/// It is linked statically: so it runs on any distribution, and a guest, where tests start it often,
/// loads no libraries for it. The flag is for this program alone, so that most of its dependencies are
/// those of the host tests.
pub fn build(ctx: &Context) -> Result<PathBuf> {
    let step = Step::start(ctx, "guest-tests", "guest tests: build")?;
    step.run(
        cargo(ctx, "rustc")
            .args(["--package", "guest-tests", "--bin", "guest-tests"])
            .args(["--locked", "--", "-Ctarget-feature=+crt-static"]),
    )?;
    step.done();
    Ok(target(ctx).join("debug/guest-tests"))
}

/// The tests that a built program has.
pub fn inventory(program: &PathBuf) -> Result<Inventory> {
    let output = Command::new(program).arg("--names").output()?;
    ensure!(output.status.success(), "guest-tests --names failed");
    serde_json::from_slice(&output.stdout).context("guest-tests --names")
}
