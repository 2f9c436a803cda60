// SPDX-License-Identifier: GPL-2.0

//! The build tree of a kernel, for Rust modules.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;

use super::symbols::check_symbols;
use super::{resolve_debian, Kernel, Options};
use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::debug_kernel;
use crate::packages;
use crate::source::{self, Part};

/// How Debian builds its kernels. With a plain compiler name the build would warn that
/// the compiler differs.
pub const MAKE_ARGS: &[&str] = &[
    "CC=x86_64-linux-gnu-gcc-14",
    "HOSTCC=gcc-14",
    "HOSTCXX=g++-14",
    "LIBCLANG_PATH=/usr/lib/llvm-19/lib",
];

/// Procedural macros run for a second, but take 20 s to be optimised.
pub const QUICK_MACROS: &str = "HOSTRUSTFLAGS=-Copt-level=0";

/// What saves time when the tree is prepared. It changes nothing in the crates.
const PREPARE_ARGS: &[&str] = &[
    QUICK_MACROS,
    // No resolve_btfids: the BTF of a module needs vmlinux, which is not there.
    "CONFIG_DEBUG_INFO_BTF=",
];

/// The part of the kernel's source that no module build reads. Kconfig files and headers
/// stay.
const NOT_NEEDED: &[&str] = &[
    "Documentation/*.rst",
    "Documentation/*.yaml",
    "Documentation/*.txt",
    "arch/*/boot/dts",
    "drivers/*.c",
    "drivers/*.S",
    "fs/*.c",
    "net/*.c",
    "sound/*.c",
    "tools/perf",
    "tools/testing",
];

pub fn kdir_entry(ctx: &Context, kernel: &Kernel) -> Entry<'static> {
    Entry {
        name: "kdir",
        key: Key::new(ctx)
            .recipe(0)
            .text(&kernel.release)
            .text(&kernel.version.to_string())
            .texts(MAKE_ARGS)
            .texts(PREPARE_ARGS)
            .texts(NOT_NEEDED)
            .finish(),
        title: format!("Rust metadata for {}", kernel.release),
        megabytes: 3500,
    }
}

/// Makes the build tree of a kernel, with Rust metadata.
pub fn kdir(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    if let Some(flavour) = kernel.flavour {
        return debug_kernel::tree(ctx, kernel, flavour);
    }
    let source = || source::get(ctx, kernel);
    kdir_entry(ctx, kernel).get_from(ctx, source, |step, kdir, source| {
        let part = Part {
            not_needed: NOT_NEEDED,
            ..Part::default()
        };
        source.unpack(step, &part, kdir)?;

        let package = tempfile::tempdir_in(kdir)?;
        let name = kernel.package("headers");
        packages::unpack(ctx, step, &[&name], &kernel.version, package.path())?;
        let headers = package.path().join("usr/src").join(name);
        let config = fs::read_to_string(headers.join(".config"))
            .context("the headers package has no .config")?;
        fs::write(kdir.join(".config"), with_local_version(&config, kernel))?;
        fs::copy(headers.join("Module.symvers"), kdir.join("Module.symvers"))
            .context("the headers package has no Module.symvers")?;

        step.run(
            make(kdir)
                .arg(format!("-j{}", jobs()))
                .args(PREPARE_ARGS)
                .args(["olddefconfig", "prepare", "modules_prepare"]),
        )?;
        let release = fs::read_to_string(kdir.join("include/config/kernel.release"))?;
        ensure!(
            release.trim() == kernel.release,
            step.failure(&format!("the tree says it is {}", release.trim()))
        );
        fs::write(kdir.join("rust/symbols"), check_symbols(kdir)?)?;
        Ok(())
    })
}

/// Sets the end of the release, which Debian's build does not take from `.config`.
fn with_local_version(config: &str, kernel: &Kernel) -> String {
    let suffix = &kernel.release[kernel.release.find('+').unwrap_or(kernel.release.len())..];
    config
        .lines()
        .map(|line| match line.strip_prefix("CONFIG_LOCALVERSION=") {
            Some(_) => format!("CONFIG_LOCALVERSION=\"{suffix}\"\n"),
            None => format!("{line}\n"),
        })
        .collect()
}

/// `make` for a kernel tree.
pub fn make(kdir: &Path) -> Command {
    let mut command = Command::new("make");
    command.arg("-C").arg(kdir).args(MAKE_ARGS);
    command
}

/// How many jobs to build with.
pub fn jobs() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}

/// `make rust-headers`.
pub fn rust_headers(ctx: &Context, options: &Options) -> Result<ExitCode> {
    let kernel = resolve_debian(ctx, options)?;
    let kdir = kdir(ctx, &kernel)?;
    let symbols = fs::read_to_string(kdir.join("rust/symbols"))?;
    eprintln!(
        "Rust symbols exported by the rebuilt crates, found in the stock {}: {}.\n\
         Any Rust module for this kernel builds with it and the build root's tools. In the\n\
         module's directory:\n  \
         {}/tools/bootstrap run make -C {} M=$PWD {} modules\n\
         KDIR is",
        kernel.release,
        symbols.trim().replace('\n', ", "),
        ctx.top.display(),
        kdir.display(),
        MAKE_ARGS.join(" ")
    );
    println!("{}", kdir.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_version() {
        let kernel = Kernel::parse("7.3.4+deb13-amd64 7.3.4-1").unwrap();
        assert_eq!(
            with_local_version("A=y\nCONFIG_LOCALVERSION=\"\"\n", &kernel),
            "A=y\nCONFIG_LOCALVERSION=\"+deb13-amd64\"\n"
        );
    }
}
