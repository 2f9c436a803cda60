// SPDX-License-Identifier: GPL-2.0

//! Subcommands of cargo that Debian does not have. They come from crates.io.

use anyhow::Result;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::cache::{Entry, Key};
use crate::context::Context;

/// A subcommand.
pub struct CargoTool {
    /// Its name, and that of its crate.
    pub name: &'static str,
    /// The newest version that the build root's Rust compiles.
    pub version: &'static str,
}

impl CargoTool {
    /// Installs it in the cache, and returns the directory with the program.
    pub fn directory(&self, ctx: &Context) -> Result<PathBuf> {
        let Self { name, version } = self;
        let entry = Entry {
            name,
            key: Key::new(ctx).recipe(0).text(version).finish(),
            title: format!("{name} {version}"),
            megabytes: 1000,
        };
        let root = entry.get(ctx, |step, dir| {
            let build = dir.join("build");
            step.run(
                Command::new("cargo")
                    .args(["install", "--locked", "--debug", "--root"])
                    .arg(dir)
                    .arg(format!("{name}@{version}"))
                    .env("CARGO_TARGET_DIR", &build),
            )?;
            Ok(fs::remove_dir_all(build)?)
        })?;
        Ok(root.join("bin"))
    }

    /// The subcommand, without arguments.
    pub fn command(&self, ctx: &Context) -> Result<Command> {
        let subcommand = self.name.trim_start_matches("cargo-");
        let mut command = Command::new(self.directory(ctx)?.join(self.name));
        command.arg(subcommand).env("CARGO", "/usr/bin/cargo");
        Ok(command)
    }
}
