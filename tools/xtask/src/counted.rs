// SPDX-License-Identifier: GPL-2.0

//! `counted`, which runs commands in guests: its program, and its tests.

use anyhow::{Context as _, Result};
use clap::Args;
use std::fs::{self, Permissions};
use std::os::unix::fs::{symlink, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::context::Context;
use crate::host::{cargo, report, target};
use crate::kernel::{self, Image, Kernel};
use crate::qemu::Qemu;
use crate::step::Step;
use crate::test::Tally;

/// Which tests to run.
#[derive(Args)]
pub struct Options {
    /// Run only the tests whose names have this in them.
    #[arg(long, env = "RUST_PERF_TEST", value_name = "NAME")]
    test: Option<String>,
}

/// What it takes to run `counted` in the build root.
pub struct Provided {
    /// The program.
    pub program: PathBuf,
    /// QEMU, for its option `--qemu`.
    pub qemu: PathBuf,
    /// The kernel of the guests.
    pub image: Image,
}

impl Provided {
    /// Makes what is missing. Some of it is in `dir`.
    pub fn new(ctx: &Context, kernel: &Kernel, dir: &Path) -> Result<Self> {
        let image = kernel::image(ctx, kernel)?;
        install_modules(kernel, &image)?;
        Ok(Self {
            program: build(ctx)?,
            qemu: wrapper_of(&Qemu::patched(ctx)?, dir)?,
            image,
        })
    }
}

/// Builds the program as the package has it. It is linked statically, because it is the first process of
/// the guest, too.
pub fn build(ctx: &Context) -> Result<PathBuf> {
    let step = Step::start(ctx, "counted", "counted: build")?;
    step.run(
        cargo(ctx, "rustc")
            .args(["--release", "--package", "counted", "--bin", "counted"])
            .args(["--locked", "--", "-Ctarget-feature=+crt-static"]),
    )?;
    step.done();
    Ok(target(ctx).join("release/counted"))
}

/// `make test-counted`.
pub fn test_counted(ctx: &Context, options: &kernel::Options, which: &Options) -> Result<ExitCode> {
    let kernel = kernel::resolve_debian(ctx, options)?;
    let mut tally = Tally::default();
    test(ctx, &kernel, which.test.as_deref(), &mut tally)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(match tally.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Runs the tests, or those that have `name` in their names.
pub fn test(ctx: &Context, kernel: &Kernel, name: Option<&str>, tally: &mut Tally) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let provided = Provided::new(ctx, kernel, dir.path())?;
    let step = Step::start(ctx, "counted-test", "tests of counted")?;
    let mut command = cargo(ctx, "test");
    command
        .args(["--package", "counted", "--test", "commands", "--locked"])
        .args(["--", "--ignored", "--test-threads=2"])
        .args(name)
        .env("COUNTED", &provided.program)
        .env("COUNTED_QEMU", &provided.qemu)
        .env("COUNTED_KERNEL", &provided.image.vmlinuz);
    let ran = step.run(&mut command);
    report(step, ran, tally, |failure| {
        format!("make test-counted TEST={}", failure.name)
    })
}

/// A program that runs QEMU with the firmware where it is here, as the one of the package finds it.
fn wrapper_of(qemu: &Qemu, dir: &Path) -> Result<PathBuf> {
    let command = qemu.command();
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words: Vec<_> = words.map(|it| it.to_string_lossy()).collect();
    let path = dir.join("qemu");
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", shell_words::join(words));
    fs::write(&path, script)?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Puts a kernel's modules where an installed kernel has them, in the build root that this process sees.
fn install_modules(kernel: &Kernel, image: &Image) -> Result<()> {
    let all = Path::new("/usr/lib/modules");
    let link = all.join(&kernel.release);
    if !link.exists() {
        fs::create_dir_all(all)?;
        symlink(image.modules.join(&kernel.release), &link)
            .with_context(|| link.display().to_string())?;
    }
    Ok(())
}
