// SPDX-License-Identifier: GPL-2.0

//! The tarball: `counted` with QEMU, a kernel, and all that they need of a distribution.
//!
//! `counted/src/host/tarball.rs` says where `counted` finds what.

mod parts;
mod trial;

use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::context::Context;
use crate::counted;
use crate::deb::Version;
use crate::kernel::{self, Kernel};
use crate::module;
use crate::qemu::Built;
use crate::step::Step;
use parts::{OfDebian, Tree};

/// `make tarball`.
pub fn tarball(ctx: &Context, options: &kernel::Options) -> Result<ExitCode> {
    let kernel = kernel::resolve_debian(ctx, options)?;
    let tarball = make(ctx, &kernel)?;
    let copy = ctx.out.join(tarball.file_name().unwrap_or_default());
    let incomplete = ctx.out.join(".new-tarball");
    fs::copy(&tarball, &incomplete).with_context(|| format!("cannot write {}", copy.display()))?;
    // So that `counted-*` means one file.
    for entry in fs::read_dir(&ctx.out)? {
        let entry = entry?;
        if is_tarball(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    fs::rename(incomplete, &copy)?;
    println!("{}", copy.display());
    Ok(ExitCode::SUCCESS)
}

/// Whether a file has the name of a tarball of some version.
fn is_tarball(name: &str) -> bool {
    name.starts_with("counted-") && name.ends_with("-x86_64.tar.xz")
}

/// Makes the tarball, and tries it on another release of Debian.
pub fn make(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    trial::check(ctx)?;
    let version = Version::read(ctx)?;
    let name = format!("counted-{}-x86_64", version.of_packages());
    let image = kernel::image(ctx, kernel)?;
    let module = module::for_kernel(ctx, kernel)?;
    let qemu = Built::get(ctx)?;
    let counted = counted::build(ctx)?;
    let of_debian = OfDebian::of(ctx, &qemu)?;

    let step = Step::start(ctx, "tarball", "tarball of counted")?;
    let work = tempfile::tempdir()?;
    let tree = Tree {
        ctx,
        step: &step,
        path: work.path().join(&name),
    };
    tree.counted(&counted)?;
    tree.qemu(&qemu, &of_debian)?;
    tree.kernel(kernel, &image, &module)?;
    tree.documents(kernel, &image, &qemu, &of_debian)?;
    tree.source(&version)?;

    let tarball = ctx.private(&format!("{name}.tar.xz"));
    step.run(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
            // The umask of this user is no business of others.
            .arg("--mode=u+rwX,go+rX,go-w")
            .arg(format!("--mtime=@{}", version.seconds))
            .args([
                "--use-compress-program",
                "xz --threads=0",
                "--create",
                "--file",
            ])
            .arg(&tarball)
            .arg("--directory")
            .arg(work.path())
            .arg(&name),
    )?;
    step.done();
    trial::run(ctx, &tarball, &name, &kernel.release)?;
    Ok(tarball)
}
