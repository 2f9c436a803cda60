// SPDX-License-Identifier: GPL-2.0

//! What git knows about the source that is packaged.

use anyhow::{ensure, Context as _, Result};
use std::path::Path;
use std::process::Command;

use crate::context::Context;

/// A commit.
pub struct Version {
    /// The number of commits up to it, by which versions grow.
    pub commits: String,
    /// When it was made, in seconds since 1970.
    pub seconds: String,
    /// When it was made, as the header of a mail has it.
    pub date: String,
}

impl Version {
    /// Reads that of the checkout.
    pub fn read(ctx: &Context) -> Result<Self> {
        let commits = git(ctx, &["rev-list", "--count", "HEAD"])?;
        let dates = git(ctx, &["log", "-1", "--format=%ct %cD"])?;
        let (seconds, date) = dates.trim().split_once(' ').context("git log: no date")?;
        Ok(Self {
            commits: commits.trim().to_owned(),
            seconds: seconds.to_owned(),
            date: date.to_owned(),
        })
    }

    /// The version of the packages.
    pub fn of_packages(&self) -> String {
        format!("{}+{}", env!("CARGO_PKG_VERSION"), self.commits)
    }
}

/// The source of the module: what git tracks, without the tests. The documentation includes an
/// example.
pub fn module_sources(ctx: &Context) -> Result<Vec<String>> {
    let files = git(ctx, &["ls-files", "Kbuild", "rust_perf"])?;
    let is_other =
        |file: &str| file.starts_with("rust_perf/pmc/tests/") || file.ends_with("Cargo.toml");
    let files = files.lines().filter(|file| !is_other(file));
    Ok(files.map(str::to_owned).collect())
}

/// Writes the source of the last commit into a tar file, below this directory.
pub fn archive(ctx: &Context, directory: &str, tar: &Path) -> Result<()> {
    let tar = format!("--output={}", tar.display());
    git(
        ctx,
        &["archive", &format!("--prefix={directory}/"), &tar, "HEAD"],
    )?;
    Ok(())
}

fn git(ctx: &Context, arguments: &[&str]) -> Result<String> {
    // In a user namespace, the checkout may be another user's.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "-C"])
        .arg(&ctx.top)
        .args(arguments)
        .output()
        .context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git {}: {} (packages are made from a git checkout)",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}
