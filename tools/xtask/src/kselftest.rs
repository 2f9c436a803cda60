// SPDX-License-Identifier: GPL-2.0

//! The guest tests as a kselftest collection: `make kselftest-install`, and what the package
//! rust-perf-tests has.
//!
//! The layout is that of the kernel's `make kselftest-install`, with the kernel's own
//! run_kselftest.sh, so that what runs the kernel's collections runs this one.

use anyhow::{Context as _, Result};
use clap::Args;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::guest_tests;
use crate::install::HOST;
use crate::kernel::{self, Kernel};
use crate::source::{self, Part};

/// The collection.
const COLLECTION: &str = "rust_perf";
/// Its test.
const TEST: &str = "rust-perf-tests";

/// What runs collections, in the kernel's source.
const RUNNER: Part<'_> = Part {
    directory: "tools/testing/selftests",
    needed: &[
        "run_kselftest.sh",
        "kselftest/ktap_helpers.sh",
        "kselftest/prefix.pl",
        "kselftest/runner.sh",
    ],
    not_needed: &[],
};

/// By default, the kernel's runner stops a test after 45 seconds.
const SETTINGS: &str = "timeout=3600\n";

/// Where to install.
#[derive(Args)]
pub struct Options {
    /// The directory (default: out/kselftest).
    #[arg(long, env = "RUST_PERF_INSTALL_PATH")]
    install_path: Option<PathBuf>,
}

/// `make kselftest-install`.
pub fn install(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    let kernel = kernel::resolve_debian(ctx, kernel)?;
    let collection = Collection::build(ctx, &kernel)?;
    let shown = match &options.install_path {
        Some(path) => path.clone(),
        None => ctx.out.join("kselftest"),
    };
    let into = match &options.install_path {
        Some(path) => Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path)),
        None => shown.clone(),
    };
    collection
        .lay_out(&into)
        .with_context(|| format!("cannot install in {}", shown.display()))?;
    println!("{}", shown.join("run_kselftest.sh").display());
    Ok(ExitCode::SUCCESS)
}

/// What is installed.
pub struct Collection {
    program: PathBuf,
    runner: PathBuf,
}

impl Collection {
    /// Builds the program, and gets the runner from the source of a kernel.
    pub fn build(ctx: &Context, kernel: &Kernel) -> Result<Self> {
        Ok(Self {
            program: guest_tests::build(ctx)?,
            runner: runner(ctx, kernel)?,
        })
    }

    /// The program in a directory where the collection is.
    pub fn program_in(directory: &Path) -> PathBuf {
        directory.join(COLLECTION).join(TEST)
    }

    /// Copies it to a directory.
    pub fn lay_out(&self, into: &Path) -> Result<()> {
        let collection = into.join(COLLECTION);
        fs::create_dir_all(&collection)?;
        fs::create_dir_all(into.join("kselftest"))?;
        for file in RUNNER.needed {
            copy(&self.runner.join(file), &into.join(file))?;
        }
        copy(&self.program, &Self::program_in(into))?;
        fs::write(collection.join("settings"), SETTINGS)?;
        let list = format!("{COLLECTION}:{TEST}\n");
        fs::write(into.join("kselftest-list.txt"), list)?;
        Ok(())
    }
}

/// Copies a program, a script, or a part of a script. A program that runs is replaced.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let directory = to.parent().context("no directory")?;
    let file = tempfile::NamedTempFile::new_in(directory)?;
    fs::copy(from, file.path())?;
    let content = fs::read(from)?;
    let can_run = content.starts_with(b"#!") || content.starts_with(b"\x7fELF");
    let mode = if can_run { 0o755 } else { 0o644 };
    fs::set_permissions(file.path(), Permissions::from_mode(mode))?;
    file.persist(to)?;
    Ok(())
}

/// Gets what runs collections.
fn runner(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    Entry {
        name: "kselftest-runner",
        key: Key::new(ctx)
            .recipe(0)
            .text(&kernel.source_package())
            .text(&kernel.version.to_string())
            .text(RUNNER.directory)
            .texts(RUNNER.needed)
            .finish(),
        title: format!("kselftest's runner of {}", kernel.source_package()),
        megabytes: 1,
    }
    .get_from(
        ctx,
        || source::get(ctx, kernel),
        |step, dir, source| source.unpack(step, &RUNNER, dir),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let runner = dir.path().join("runner");
        fs::create_dir_all(runner.join("kselftest")).unwrap();
        for file in RUNNER.needed {
            fs::write(runner.join(file), "").unwrap();
        }
        let program = dir.path().join("guest-tests");
        fs::write(&program, "\x7fELF").unwrap();
        let into = dir.path().join("a/b");
        let collection = Collection { program, runner };
        for _ in 0..2 {
            collection.lay_out(&into).unwrap();
        }
        let list = fs::read_to_string(into.join("kselftest-list.txt")).unwrap();
        let (collection, test) = list.trim_end().split_once(':').unwrap();
        let test = into.join(collection).join(test);
        assert_eq!(
            fs::metadata(test).unwrap().permissions().mode() & 0o777,
            0o755
        );
        let names = fs::read_dir(&into)
            .unwrap()
            .map(|it| it.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(
            names,
            [
                "kselftest",
                "kselftest-list.txt",
                "run_kselftest.sh",
                "rust_perf"
            ]
        );
    }
}
