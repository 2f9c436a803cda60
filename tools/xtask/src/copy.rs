// SPDX-License-Identifier: GPL-2.0

//! A copy of the checkout, whose source can be changed.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::context::Context;

/// What the copy does not need.
const LEFT_OUT: &[&str] = &[".git", "out", "target"];

/// Copies the checkout to /tmp/rust_perf-`name`. /tmp belongs to this mount namespace, so nothing of the copy
/// is left however the run ends. What is built from it stays in out/`name`, for the next run.
///
/// The copy always has the same path, so that cargo and Kbuild can use what an earlier run has
/// built. Its files have the time of now: that run may have ended with a build of changed source, which
/// must not look newer than the source.
pub fn checkout(ctx: &Context, name: &str) -> Result<Context> {
    let copy = Context {
        top: PathBuf::from(format!("/tmp/rust_perf-{name}")),
        out: ctx.out.join(name),
        ..ctx.clone()
    };
    fs::create_dir(&copy.top).with_context(|| format!("{}", copy.top.display()))?;
    fs::create_dir_all(&copy.out)?;
    for file in fs::read_dir(&ctx.top)? {
        let file = file?;
        if !LEFT_OUT.iter().any(|name| file.file_name() == *name) {
            let mut copying = Command::new("cp");
            copying.args(["-dR", "--preserve=mode,links"]);
            copying.arg(file.path()).arg(&copy.top);
            ensure!(copying.status()?.success(), "cannot copy the checkout");
        }
    }
    Ok(copy)
}
