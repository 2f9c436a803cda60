// SPDX-License-Identifier: GPL-2.0

//! Debian packages: the module by DKMS, the Rust metadata that Debian's headers of a kernel lack, the
//! guest tests, `counted`, and the patched QEMU.
//!
//! [`build`] makes the packages, [`trial`] installs them in the build root that this process sees,
//! which is thrown away when it ends, and [`install_test`] installs them on a Debian that has
//! nothing else.

mod build;
mod counted_trial;
mod counting;
pub mod install_test;
pub mod licences;
mod listing;
mod machine;
mod qemu;
mod qemu_trial;
mod secure_boot;
mod trial;
mod version;
mod vng_trial;

use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{self, Kernel};
use crate::packages;
use crate::qemu::Built;
use crate::step::Step;
use build::Compression;

pub use machine::Machine;
pub use qemu::{page as page_of_qemu, PROGRAM as QEMU_PROGRAM};
pub use qemu_trial::{Example, LOOP};
pub use version::{archive, Version};

/// The package with the module's source.
const DKMS: &str = "rust-perf-dkms";
/// The package with the guest tests as a kselftest collection.
const TESTS: &str = "rust-perf-tests";
/// The package with the program that runs commands in guests.
const COUNTED: &str = "counted";

/// The package with the Rust metadata of a kernel's headers.
fn metadata_package(kernel: &Kernel) -> String {
    format!("linux-headers-{}-rust", kernel.release)
}

/// The packages of a kernel.
struct Packages {
    dkms: PathBuf,
    metadata: PathBuf,
    tests: PathBuf,
    counted: PathBuf,
}

/// `make deb`.
pub fn deb(ctx: &Context, options: &kernel::Options) -> Result<ExitCode> {
    let kernel = kernel::resolve_debian(ctx, options)?;
    let kdir = kernel::kdir(ctx, &kernel)?;
    install_tools(ctx)?;
    let version = Version::read(ctx)?;
    let built = build::build(ctx, &kernel, &kdir, &version, Compression::Usual)?;
    let module = trial::install(ctx, &kernel, &built, &version)?;
    let of_qemu = qemu::package(ctx, &Built::get(ctx)?, &version, Compression::Usual)?;
    qemu_trial::run(ctx, &kernel, &of_qemu, &module)?;
    let out = ctx.out.join("deb");
    fs::create_dir_all(&out)?;
    for deb in [
        &built.metadata,
        &built.dkms,
        &built.tests,
        &built.counted,
        &of_qemu,
    ] {
        let copy = out.join(deb.file_name().unwrap_or_default());
        fs::copy(deb, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
        println!("{}", copy.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs what makes and checks packages, and what the build root does not have, in the build
/// root that this process sees.
fn install_tools(ctx: &Context) -> Result<()> {
    let names = ["debhelper", "dh-dkms", "dkms", "lintian", "mandoc"];
    install(ctx, "deb-tools", "tools for packages", &names)
}

/// Installs packages in the build root that this process sees. The cache has them, with what they
/// need, as the entry `entry`.
fn install(ctx: &Context, entry: &str, title: &str, names: &[&str]) -> Result<()> {
    let key = Key::new(ctx).recipe(2).texts(names);
    let debs = Entry {
        name: entry,
        key: packages::add_index(ctx, key)?.finish(),
        title: title.to_owned(),
        megabytes: 100,
    }
    .get(ctx, |step, dir| packages::download(ctx, step, names, dir))?;
    let step = Step::start(
        ctx,
        &format!("{entry}-install"),
        &format!("{title}, installed"),
    )?;
    packages::install(ctx, &step, names, &debs)?;
    step.done();
    Ok(())
}
