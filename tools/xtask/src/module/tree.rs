// SPDX-License-Identifier: GPL-2.0

//! A kernel build tree, and the tool chain that can read its Rust metadata.

use anyhow::{bail, ensure, Context as _, Result};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A kernel build tree.
pub struct Tree {
    config: HashMap<String, String>,
    release: String,
}

impl Tree {
    /// Reads and checks a tree.
    pub fn read(kdir: &Path) -> Result<Self> {
        let name = kdir.display();
        let read = |file: &str| fs::read_to_string(kdir.join(file));
        let (Ok(config), Ok(release)) = (
            read("include/config/auto.conf"),
            read("include/config/kernel.release"),
        ) else {
            bail!(
                "KDIR={name} is not a kernel build tree, or not a configured one: it has no \
                 include/config/auto.conf (in a kernel source: make modules_prepare)"
            );
        };
        let tree = Self {
            config: parse_config(&config),
            release: release.trim().to_owned(),
        };
        ensure!(
            tree.config("CONFIG_RUST") == Some("y"),
            "KDIR={name}: its kernel is built without Rust (CONFIG_RUST is not set), so no Rust \
             module can be built for it"
        );
        ensure!(
            kdir.join("rust/libkernel.rmeta").exists() && kdir.join("rust/libcore.rmeta").exists(),
            "KDIR={name} has no Rust metadata (rust/*.rmeta), as distributions' headers packages \
             do not. For a Debian backports kernel, make deb KERNEL={0} makes a package of them, \
             and make rust-headers KERNEL={0} a KDIR; in a kernel source: make prepare \
             modules_prepare",
            tree.release
        );
        Ok(tree)
    }

    /// What `uname -r` says of its kernel.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// An option of its configuration.
    pub fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    /// The version of the rustc that made its metadata, such as 1.85.1. No other can read it.
    pub fn rustc(&self) -> Result<String> {
        self.config("CONFIG_RUSTC_VERSION_TEXT")
            .and_then(|text| text.split(' ').nth(1))
            .map(str::to_owned)
            .context("the kernel's configuration names no rustc")
    }
}

fn parse_config(auto_conf: &str) -> HashMap<String, String> {
    auto_conf
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

/// The tool chain that can read a tree's Rust metadata.
pub enum ToolChain {
    /// The build root's.
    Root,
    /// The machine's own.
    Host,
}

impl ToolChain {
    /// A command that runs one of its programs.
    pub fn command(&self, program: &str) -> Command {
        match self {
            Self::Root => Command::new(program),
            Self::Host => {
                let mut command = Command::new("chroot");
                command.args(["/.host", "env"]);
                for (variable, of_host) in [
                    ("PATH", "RUST_PERF_HOST_PATH"),
                    ("HOME", "RUST_PERF_HOST_HOME"),
                ] {
                    let value = std::env::var(of_host).unwrap_or_default();
                    command.arg(format!("{variable}={value}"));
                }
                command.arg(program);
                command
            }
        }
    }

    fn rustc_version(&self) -> Option<String> {
        let output = self.command("rustc").arg("--version").output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The one that built the tree: no other rustc can read its metadata.
    pub fn of(tree: &Tree, kdir: &Path) -> Result<Self> {
        let wanted = tree.config("CONFIG_RUSTC_VERSION_TEXT").unwrap_or_default();
        let mut there = Vec::new();
        for (chain, name) in [(Self::Root, "the build root"), (Self::Host, "this machine")] {
            match chain.rustc_version() {
                Some(version) if version == wanted => return Ok(chain),
                Some(version) => there.push(format!("{name} has {version}")),
                None => there.push(format!("{name} has no rustc")),
            }
        }
        bail!(
            "KDIR={}: only {wanted} can read its Rust metadata, but {}",
            kdir.display(),
            there.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config() {
        let config =
            parse_config("CONFIG_RUST=y\nCONFIG_RUSTC_VERSION_TEXT=\"rustc 1.85.1 (x)\"\n");
        assert_eq!(config["CONFIG_RUST"], "y");
        assert_eq!(config["CONFIG_RUSTC_VERSION_TEXT"], "rustc 1.85.1 (x)");
        let tree = Tree {
            config,
            release: String::new(),
        };
        assert_eq!(tree.rustc().unwrap(), "1.85.1");
    }

    #[test]
    fn what_is_not_a_tree_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let error = |dir: &Path| Tree::read(dir).map(drop).unwrap_err().to_string();
        assert!(error(dir.path()).contains("is not a kernel build tree"));

        let config = dir.path().join("include/config");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("auto.conf"), "CONFIG_X=y\n").unwrap();
        fs::write(config.join("kernel.release"), "7.3.4+deb13-amd64\n").unwrap();
        assert!(error(dir.path()).contains("without Rust"));

        fs::write(config.join("auto.conf"), "CONFIG_RUST=y\n").unwrap();
        assert!(error(dir.path()).contains("KERNEL=7.3.4+deb13-amd64"));
    }
}
