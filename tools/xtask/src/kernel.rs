// SPDX-License-Identifier: GPL-2.0

//! The stock Debian kernel, and a build tree of it for Rust modules. [`debug_kernel`] makes others.
//!
//! Debian builds its kernels with `CONFIG_RUST=y`, but its headers packages have no Rust
//! metadata (`rust/*.rmeta`, the proc-macro libraries). The metadata is rebuilt from the
//! same source and `.config` by the same tool chain. Then every symbol that the rebuilt
//! crates export must be in the stock kernel's `Module.symvers`, or the build fails.

mod choose;
mod image;
mod symbols;
mod tree;

use anyhow::{Context as _, Result};
use clap::Args;
use std::fs;
use std::path::Path;

use crate::context::Context;
use crate::debug_kernel::Flavour;
use crate::packages::{Index, Version};
use crate::source;
use image::image_entry;
use tree::kdir_entry;

pub use choose::{before, older, resolve, resolve_debian, update};
pub use image::{image, Image};
pub use tree::{jobs, kdir, make, rust_headers, MAKE_ARGS, QUICK_MACROS};

/// The series that rust_perf was built and tested with, newest first.
const SUPPORTED: &[&str] = &["7.3", "7.2"];

/// How the names of Debian's kernels for trixie on x86-64 end. Those of "cloud" and "rt"
/// kernels end differently.
const FLAVOUR: &str = "+deb13-amd64";

/// Which kernel.
#[derive(Args, Default)]
pub struct Options {
    /// A Debian kernel, such as 7.3.4+deb13-amd64, instead of the newest that is supported; or
    /// one that checks itself and is built here: debug or debug-kcsan.
    #[arg(long, env = "RUST_PERF_KERNEL", global = true)]
    kernel: Option<String>,
}

impl Options {
    /// A kernel by its name.
    pub fn named(name: &str) -> Self {
        Self {
            kernel: Some(name.to_owned()),
        }
    }

    /// What is written behind a suite that runs on it.
    pub fn suffix(&self) -> String {
        let name = self.kernel.as_deref();
        name.map_or_else(String::new, |name| format!(" on {name}"))
    }

    /// Whether it is a certain kernel, and not the newest that is supported.
    pub fn is_named(&self) -> bool {
        self.kernel.is_some()
    }

    /// The variable that chooses this kernel again, for a `make` command.
    pub fn variable(&self) -> String {
        match &self.kernel {
            Some(name) => format!(" KERNEL={}", shell_words::quote(name)),
            None => String::new(),
        }
    }
}

/// A kernel of the package index, or one that is built from its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// What `uname -r` says.
    pub release: String,
    /// The version of its packages.
    pub version: Version,
    /// Which debug kernel it is, if it is not Debian's.
    pub flavour: Option<Flavour>,
}

impl Kernel {
    fn series(&self) -> &str {
        let end = self
            .release
            .match_indices('.')
            .nth(1)
            .map_or(self.release.len(), |(at, _)| at);
        &self.release[..end]
    }

    /// Its package of this kind, such as "headers".
    pub fn package(&self, kind: &str) -> String {
        format!("linux-{kind}-{}", self.release)
    }

    /// The package with its source.
    pub fn source_package(&self) -> String {
        format!("linux-source-{}", self.series())
    }

    /// The packages that must all be there in one version.
    fn packages(&self) -> [String; 5] {
        [
            self.package("base"),
            self.package("binary"),
            self.package("modules"),
            self.package("headers"),
            self.source_package(),
        ]
    }

    fn available(&self, index: &Index) -> bool {
        self.packages()
            .iter()
            .all(|name| index.has(name, &self.version))
    }

    /// Whether a recorded kernel can still be used. The list of series may have changed
    /// since, and the mirror does not keep old packages.
    fn usable(&self, ctx: &Context) -> Result<bool> {
        Ok(SUPPORTED.contains(&self.series())
            && (self.is_cached(ctx) || self.available(&Index::read(ctx)?)))
    }

    /// Whether nothing of the kernel has to be downloaded.
    fn is_cached(&self, ctx: &Context) -> bool {
        let entries = [image_entry, kdir_entry, source::entry];
        entries.iter().all(|entry| entry(ctx, self).exists(ctx))
    }

    /// The memory that a guest needs, for QEMU.
    pub fn memory(&self) -> &'static str {
        match self.flavour {
            Some(Flavour::Kasan | Flavour::Kcsan) => "3G",
            Some(Flavour::Plain) | None => "1G",
        }
    }

    fn announce(&self) {
        let Self {
            release, version, ..
        } = self;
        match self.flavour {
            Some(_) => eprintln!("kernel: {release}, of Debian's source ({version})"),
            None => eprintln!("kernel: Debian's {release} ({version})"),
        }
    }

    /// The kernel of a flavour that is built from this kernel's source.
    pub fn with_flavour(self, flavour: Flavour) -> Self {
        let upstream = self.release.split('+').next().unwrap_or_default();
        Self {
            release: flavour.release(upstream),
            flavour: Some(flavour),
            ..self
        }
    }

    fn recorded(path: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn record(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path.parent().context("a record has a directory")?)?;
        fs::write(path, format!("{} {}\n", self.release, self.version))?;
        Ok(())
    }

    fn parse(record: &str) -> Option<Self> {
        let (release, version) = record.trim().split_once(' ')?;
        Some(Self {
            release: release.to_owned(),
            version: version.into(),
            flavour: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back() {
        let kernel = Kernel::parse("7.3.4+deb13-amd64 7.3.4-1~bpo13+1\n").unwrap();
        assert_eq!(kernel.series(), "7.3");
        assert_eq!(kernel.source_package(), "linux-source-7.3");
        assert_eq!(Kernel::parse("7.3.4"), None);
    }
}
