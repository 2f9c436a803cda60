// SPDX-License-Identifier: GPL-2.0
//! The limits of what tests wait for.

use std::env;
use std::process::Command;

use anyhow::{ensure, Context, Result};

use crate::ctx::{Ctx, Test};
use crate::tests;
use crate::waiting::{self, check};

pub const TESTS: &[Test] = tests![have_limits: [Root]];

/// Tests that wait too long fail, and say what they waited for and where their processes were, with their
/// stacks. These are ended, and the next test runs. If a test waits on, the program is ended.
fn have_limits(_: &Ctx) -> Result<()> {
    let program = env::current_exe().context("this program")?;
    let output = check::check(|seconds| {
        let mut command = Command::new(&program);
        Ok(waiting::output(
            command.args(["wait", &seconds.to_string()]),
        )?)
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(text.contains("[<0>] "), "no stacks in\n{text}");
    Ok(())
}
