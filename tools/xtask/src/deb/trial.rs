// SPDX-License-Identifier: GPL-2.0

//! Installs the packages in the build root that this process sees, one after the other, and purges
//! them.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::version::Version;
use super::{metadata_package, Packages, COUNTED, DKMS, TESTS};
use crate::context::Context;
use crate::kernel::Kernel;
use crate::packages;
use crate::step::Step;

/// Tries the packages. Leaves the module that DKMS builds in `out/deb`, and returns its name.
pub fn install(
    ctx: &Context,
    kernel: &Kernel,
    built: &Packages,
    version: &Version,
) -> Result<PathBuf> {
    let headers = format!("{}={}", kernel.package("headers"), kernel.version);
    let title = format!("headers of {}", kernel.release);
    super::install(ctx, "deb-headers", &title, &[&headers])?;

    let step = Step::start(ctx, "deb-install", "Debian packages, installed")?;
    let modules = Path::new("/usr/lib/modules").join(&kernel.release);
    let module = modules.join("updates/dkms/rust_perf.ko");
    let install = |package: &Path| step.run(Command::new("dpkg").arg("--install").arg(package));

    install(&built.dkms)?;
    let log = fs::read_to_string(step.log())?;
    ensure!(
        !module.exists() && log.contains("have no Rust metadata"),
        step.failure("without metadata, DKMS built the module or did not say why it cannot")
    );
    // What the installation of a kernel runs, which must not fail.
    step.run(Command::new("dkms").args(["autoinstall", "-k", &kernel.release]))?;
    install(&built.metadata)?;
    ensure!(module.exists(), step.failure("DKMS built no module"));
    let output = Command::new("modinfo")
        .args(["--field", "vermagic"])
        .arg(&module)
        .output()
        .context("cannot run modinfo")?;
    let vermagic = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        vermagic.split(' ').next() == Some(&kernel.release),
        step.failure(&format!("the module is for {vermagic}"))
    );
    fs::create_dir_all(ctx.out.join("deb"))?;
    let copy = ctx.out.join("deb/rust_perf.ko");
    fs::copy(&module, &copy)?;

    install(&built.tests)?;
    step.run(Command::new(TESTS).arg("--list"))?;
    // It depends on the package of QEMU, which is tried later.
    step.run(
        Command::new("dpkg")
            .args(["--install", "--force-depends"])
            .arg(&built.counted),
    )?;
    step.run(Command::new(COUNTED).arg("--help"))?;

    let ours = [
        DKMS.to_owned(),
        metadata_package(kernel),
        TESTS.to_owned(),
        COUNTED.to_owned(),
    ];
    packages::purge(ctx, &step, &ours)?;
    let sources = format!("/usr/src/linux-headers-{}", kernel.release);
    let left: Vec<PathBuf> = [
        module,
        "/var/lib/dkms/rust-perf".into(),
        format!("/usr/src/rust-perf-{}", version.of_packages()).into(),
        format!("{sources}/rust").into(),
        format!("{sources}/scripts/target.json").into(),
        "/usr/share/man/man4/rust_pmu.4.gz".into(),
        "/usr/bin/counted".into(),
        "/usr/share/man/man1/counted.1.gz".into(),
        "/usr/bin/rust-perf-tests".into(),
        "/usr/lib/rust-perf-tests".into(),
        "/usr/share/man/man1/rust-perf-tests.1.gz".into(),
    ]
    .into_iter()
    .filter(|path: &PathBuf| path.exists())
    .collect();
    ensure!(
        left.is_empty(),
        step.failure(&format!("left behind: {left:?}"))
    );
    step.done();
    Ok(copy)
}
