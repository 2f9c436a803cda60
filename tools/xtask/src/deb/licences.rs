// SPDX-License-Identifier: GPL-2.0

//! What packages say of the licences of their programs.

use anyhow::{Context as _, Result};
use std::fs;
use std::process::Command;

use super::qemu;
use crate::context::Context;
use crate::packages;
use crate::qemu::Built;

/// The copyright of the packages of `packaging/debian`.
pub fn of_programs(ctx: &Context) -> Result<String> {
    let text = fs::read_to_string(ctx.top.join("packaging/debian/copyright"))?;
    Ok(text.replace("@CRATES@", &crates(ctx, &["counted", "guest-tests"])?))
}

/// The copyright of the package of QEMU.
pub fn of_qemu(ctx: &Context, qemu: &Built) -> Result<String> {
    let text = fs::read_to_string(ctx.top.join(qemu::FOLDER).join("copyright.in"))?;
    let text = text
        .replace("@QEMU_VERSION@", &qemu.version()?)
        .replace("@CRATES@", &crates(ctx, &["pmu-bridge"])?);
    let of_source = fs::read_to_string(qemu.source.join("debian/copyright"))?;
    let (_, paragraphs) = of_source
        .split_once("\n\n")
        .context("QEMU's debian/copyright has no paragraphs")?;
    Ok(text + paragraphs)
}

/// The paragraph of debian/copyright about the crates that these packages of the workspace are linked with.
fn crates(ctx: &Context, packages: &[&str]) -> Result<String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["tree", "--locked"]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    let tree = packages::output(
        cargo
            .args(["--edges", "normal,no-proc-macro", "--prefix", "none"])
            .args(["--format", "{p}: {l}"])
            .current_dir(&ctx.top),
    )?;
    let paragraph = fs::read_to_string(ctx.top.join("packaging/crates.in"))?;
    Ok(paragraph.trim_end().replace("@CRATES@", &licences(&tree)))
}

/// The crates of cargo's list but for the workspace's own, whose place is in parentheses.
fn licences(tree: &str) -> String {
    let mut crates: Vec<_> = tree
        .lines()
        .filter(|line| !line.contains('(') && !line.is_empty())
        .map(|line| format!("  {line}"))
        .collect();
    crates.sort();
    crates.dedup();
    crates.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_others_are_listed_once() {
        let tree = "pmu-bridge v0.1.0 (/a/qemu/bridge): GPL-2.0\nserde v1.0.229: MIT\n\
                    pmu-model v0.1.0 (/a/pmu-model): GPL-2.0\nitoa v1.0.18: MIT\n\
                    serde v1.0.229: MIT\n";
        assert_eq!(licences(tree), "  itoa v1.0.18: MIT\n  serde v1.0.229: MIT");
    }
}
