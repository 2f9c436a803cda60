// SPDX-License-Identifier: GPL-2.0

//! The package with the patched QEMU, `packaging/qemu`.

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{self, Compression};
use super::licences;
use super::version::Version;
use crate::context::Context;
use crate::packages;
use crate::qemu::Built;
use crate::step::Step;

/// The package.
pub const PACKAGE: &str = "qemu-system-x86-pmu";
/// Its program, which is also the name of the manual page.
pub const PROGRAM: &str = "qemu-system-x86_64-pmu";

/// The folder with what is its own.
pub const FOLDER: &str = "packaging/qemu";

/// The manual page.
pub fn page(ctx: &Context) -> PathBuf {
    ctx.top.join(FOLDER).join(format!("{PROGRAM}.1"))
}

/// Builds the package of QEMU, and has lintian and mandoc check it.
pub fn package(
    ctx: &Context,
    qemu: &Built,
    version: &Version,
    compression: Compression,
) -> Result<PathBuf> {
    let step = Step::start(ctx, "deb-qemu", "Debian package of QEMU")?;
    build::check_page(&step, &page(ctx))?;
    let work = tempfile::tempdir()?;
    let source = work.path().join("source");
    fill(ctx, qemu, version, &source)?;
    let mut debs = build::packages(&step, &source, version, compression, &[])?;
    let deb = debs.pop().context("dpkg-buildpackage made no package")?;
    let copy = ctx.private(&deb.file_name().unwrap_or_default().to_string_lossy());
    fs::copy(deb, &copy)?;
    step.done();
    Ok(copy)
}

/// Makes the tree that dpkg-buildpackage builds.
fn fill(ctx: &Context, qemu: &Built, version: &Version, source: &Path) -> Result<()> {
    let folder = ctx.top.join(FOLDER);
    let debian = source.join("debian");
    fs::create_dir_all(source.join("stage"))?;
    fs::create_dir(&debian)?;
    let of_qemu = qemu.version()?;
    let without_epoch = of_qemu.split_once(':').map_or(of_qemu.as_str(), |it| it.1);
    let of_package = format!("{without_epoch}+{}", version.commits);
    build::changelog("qemu-x86-pmu", &of_package, version, &debian)?;

    let control = fs::read_to_string(folder.join("control.in"))?;
    fs::write(
        debian.join("control"),
        control.replace("@QEMU_VERSION@", &of_qemu),
    )?;
    fs::write(debian.join("copyright"), licences::of_qemu(ctx, qemu)?)?;
    fs::copy(folder.join("rules"), debian.join("rules"))?;

    let program = source.join("stage").join(PROGRAM);
    fs::copy(&qemu.binary, program)?;
    fs::write(debian.join("install"), format!("stage/{PROGRAM} usr/bin\n"))?;
    fs::copy(page(ctx), source.join(format!("{PROGRAM}.1")))?;
    fs::write(debian.join("manpages"), format!("{PROGRAM}.1\n"))?;
    Ok(())
}

/// Checks that the package has files of its own names only, so that it is in no other's way.
pub fn check_files(step: &Step, deb: &Path) -> Result<()> {
    let list = packages::output(Command::new("dpkg-deb").arg("--contents").arg(deb))?;
    let foreign: Vec<_> = foreign_files(&list).collect();
    ensure!(
        foreign.is_empty(),
        step.failure(&format!("the package has {}", foreign.join(", ")))
    );
    Ok(())
}

/// The files in a list of `dpkg-deb --contents` that are not of this package's names.
fn foreign_files(list: &str) -> impl Iterator<Item = &str> {
    list.lines()
        .filter(|line| !line.starts_with('d'))
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| !path.contains(PACKAGE) && !path.contains(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_packages_are_found() {
        let list = "drwxr-xr-x root/root 0 2026-11-25 14:00 ./usr/bin/\n\
                    -rwxr-xr-x root/root 1 2026-11-25 14:00 ./usr/bin/qemu-system-x86_64-pmu\n\
                    -rw-r--r-- root/root 1 2026-11-25 14:00 ./usr/share/doc/qemu-system-x86-pmu/a\n\
                    lrwxrwxrwx root/root 0 2026-11-25 14:00 ./usr/bin/qemu-system-x86_64 -> b\n";
        let foreign: Vec<_> = foreign_files(list).collect();
        assert_eq!(foreign, ["./usr/bin/qemu-system-x86_64"]);
    }
}
