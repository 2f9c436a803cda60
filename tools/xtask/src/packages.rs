// SPDX-License-Identifier: GPL-2.0

//! Debian's packages, and what the package index has of the kernel's.

mod index;

use anyhow::{ensure, Context as _, Result};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache;
use crate::context::Context;
use crate::signals::Staging;
use crate::step::{describe, Step};

pub use index::{Index, Version};

/// What a command prints. Fails if the command does.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", describe(command)))?;
    ensure!(
        output.status.success(),
        "{} failed: {}",
        describe(command),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Where `make update` puts an index that is newer than the build root's.
fn newer_lists(ctx: &Context) -> PathBuf {
    ctx.cache.join(lists_name(ctx))
}

/// The name has the build root's in it, because a later root has a newer index itself.
fn lists_name(ctx: &Context) -> String {
    let root = ctx.root.file_name().unwrap_or_default();
    format!("lists-{}", root.to_string_lossy())
}

/// apt-get with the newest index.
fn apt_get(ctx: &Context) -> Command {
    let lists = newer_lists(ctx);
    apt_get_with(lists.is_dir().then_some(lists.as_path()))
}

/// apt-get with the index in `lists` instead of the build root's.
fn apt_get_with(lists: Option<&Path>) -> Command {
    let mut command = Command::new("apt-get");
    // apt's own user does not exist in a user namespace that maps one user only.
    command.args(["-q", "-o", "APT::Sandbox::User=root"]);
    // Other threads install packages, too.
    command.args(["-o", "DPkg::Lock::Timeout=600"]);
    if let Some(lists) = lists {
        command.args(["-o", &format!("Dir::State::Lists={}", lists.display())]);
    }
    command
}

/// Fetches a new index.
pub fn update(ctx: &Context) -> Result<()> {
    const TITLE: &str = "Debian package index";
    let name = lists_name(ctx);
    let lists = newer_lists(ctx);
    let _lock = cache::lock(&cache::lock_of(ctx, &name), TITLE)?;
    let step = Step::start(ctx, "index", TITLE)?;
    let staging = Staging::create(ctx.cache.join(format!(".staging-{name}")))?;
    step.run(apt_get_with(Some(staging.path())).args(["update", "--error-on=any"]))?;
    // If this run ends before it is removed, a later one sweeps it as a staging directory.
    let old = ctx.cache.join(format!(".staging-{name}-old"));
    if lists.is_dir() {
        fs::rename(&lists, &old)?;
    }
    staging.commit(&lists)?;
    step.done();
    let _ = fs::remove_dir_all(old);
    Ok(())
}

/// Downloads binary packages of one version and unpacks them into `dir`.
pub fn unpack(
    ctx: &Context,
    step: &Step,
    names: &[&str],
    version: &Version,
    dir: &Path,
) -> Result<()> {
    let names = names.iter().map(|name| format!("{name}={version}"));
    unpack_newest(ctx, step, names, dir)
}

/// Downloads binary packages and unpacks them into `dir`. A name may be `name=version`; otherwise the newest
/// version is taken.
pub fn unpack_newest<T: AsRef<OsStr>>(
    ctx: &Context,
    step: &Step,
    names: impl IntoIterator<Item = T>,
    dir: &Path,
) -> Result<()> {
    let debs = tempfile::tempdir_in(dir)?;
    step.run(
        apt_get(ctx)
            .current_dir(debs.path())
            .arg("download")
            .args(names),
    )?;
    for deb in fs::read_dir(debs.path())? {
        step.run(Command::new("dpkg-deb").arg("-x").arg(deb?.path()).arg(dir))?;
    }
    Ok(())
}

/// Downloads a binary package of Debian's stable release, with what it needs and the
/// build root does not have, and unpacks all of it into `dir`.
pub fn unpack_with_dependencies(ctx: &Context, step: &Step, name: &str, dir: &Path) -> Result<()> {
    let debs = tempfile::tempdir_in(dir)?;
    download(ctx, step, &[name], debs.path())?;
    for deb in fs::read_dir(debs.path())? {
        let deb = deb?.path();
        if deb.extension() == Some("deb".as_ref()) {
            step.run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(dir))?;
        }
    }
    Ok(())
}

/// The directory with apt's newest index.
pub fn lists(ctx: &Context) -> PathBuf {
    let lists = newer_lists(ctx);
    match lists.is_dir() {
        true => lists,
        false => "/var/lib/apt/lists".into(),
    }
}

/// Adds apt's index to a key: what [`download`] gets is what the index names.
pub fn add_index(ctx: &Context, mut key: cache::Key) -> Result<cache::Key> {
    let mut files: Vec<PathBuf> = fs::read_dir(lists(ctx))?
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with("_InRelease"))
        .collect();
    files.sort();
    ensure!(!files.is_empty(), "apt has no index");
    for file in &files {
        key = key.file(file)?;
    }
    Ok(key)
}

/// apt-get for the installation of packages, whose files are in `archives`.
fn apt_get_install(ctx: &Context, archives: &Path) -> Command {
    let mut command = apt_get(ctx);
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args([
            "-o",
            &format!("Dir::Cache::Archives={}", archives.display()),
        ])
        .args(["install", "--yes", "--no-install-recommends"]);
    command
}

/// Downloads packages into `dir`, with what they need and the build root does not have. A name may
/// have a version: `name=version`.
pub fn download(ctx: &Context, step: &Step, names: &[&str], dir: &Path) -> Result<()> {
    // apt wants it for downloads that are not complete.
    fs::create_dir(dir.join("partial"))?;
    step.run(apt_get_install(ctx, dir).arg("--download-only").args(names))
}

/// Downloads packages into `dir`, with what they need and the Debian in `root` does not have. A name may
/// be that of a file. apt prefers packages of `suite`.
pub fn download_for<T: AsRef<OsStr>>(
    ctx: &Context,
    step: &Step,
    names: impl IntoIterator<Item = T>,
    (root, suite): (&Path, &str),
    dir: &Path,
) -> Result<()> {
    fs::create_dir_all(dir.join("partial"))?;
    let status = root.join("var/lib/dpkg/status");
    step.run(
        apt_get_install(ctx, dir)
            .args(["-o", &format!("Dir::State::status={}", status.display())])
            .args(["--download-only", "--target-release", suite])
            .args(names),
    )
}

/// Installs packages that [`download`] has put into `dir`. They are in the build root that this
/// process sees, which is thrown away when it ends.
pub fn install(ctx: &Context, step: &Step, names: &[&str], dir: &Path) -> Result<()> {
    step.run(apt_get_install(ctx, dir).arg("--no-download").args(names))
}

/// Removes packages there, with their configuration.
pub fn purge(ctx: &Context, step: &Step, names: &[String]) -> Result<()> {
    step.run(
        apt_get(ctx)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["purge", "--yes"])
            .args(names),
    )
}

/// Downloads the source package `name` and unpacks it as `dir`, with Debian's patches.
pub fn unpack_source(ctx: &Context, step: &Step, name: &str, dir: &Path) -> Result<()> {
    let download = tempfile::tempdir()?;
    let is_dsc = |path: &Path| path.extension() == Some("dsc".as_ref());
    let dsc = download_source(ctx, step, name, &[], download.path(), is_dsc)?
        .with_context(|| format!("{name}: no .dsc was downloaded"))?;
    // apt has checked it against the signed index.
    step.run(
        Command::new("dpkg-source")
            .args(["--no-check", "-x"])
            .arg(dsc)
            .arg(dir),
    )
}

/// Downloads upstream's part of the source package `name` and unpacks it as `dir`. A mirror may
/// lack Debian's part of a new version for a while.
pub fn unpack_upstream(ctx: &Context, step: &Step, name: &str, dir: &Path) -> Result<()> {
    let download = tempfile::tempdir()?;
    let is_tar = |path: &Path| {
        let is_signature = path.extension() == Some("asc".as_ref());
        path.to_string_lossy().contains(".orig.tar.") && !is_signature
    };
    let tar = download_source(ctx, step, name, &["--tar-only"], download.path(), is_tar)?
        .with_context(|| format!("{name}: no .orig.tar was downloaded"))?;
    fs::create_dir(dir)?;
    // apt has checked it against the signed index.
    step.run(
        Command::new("tar")
            .args(["--strip-components=1", "-C"])
            .arg(dir)
            .arg("-xf")
            .arg(tar),
    )
}

/// Downloads the source package `name`, or what these arguments of apt-get choose of it. Returns
/// the file that `is_wanted`.
fn download_source(
    ctx: &Context,
    step: &Step,
    name: &str,
    arguments: &[&str],
    into: &Path,
    is_wanted: impl Fn(&Path) -> bool,
) -> Result<Option<PathBuf>> {
    let mut apt_get = apt_get(ctx);
    apt_get
        .args(["source", "--download-only", "--only-source"])
        .args(arguments);
    step.run(apt_get.current_dir(into).arg(name))?;
    let mut files = fs::read_dir(into)?.filter_map(|file| Some(file.ok()?.path()));
    Ok(files.find(|path| is_wanted(path)))
}

/// The version of the source package `name`.
pub fn source_version(ctx: &Context, name: &str) -> Result<String> {
    let text = output(apt_get(ctx).args(["source", "--print-uris", "--only-source", name]))?;
    dsc_version(&text).with_context(|| format!("no source package {name} in the index"))
}

/// The version in the name of the .dsc that `apt-get source --print-uris` lists.
fn dsc_version(uris: &str) -> Option<String> {
    uris.split_whitespace()
        .find_map(|word| word.strip_suffix(".dsc"))
        .and_then(|name| name.split_once('_'))
        .map(|(_, version)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_a_source_package() {
        let uris =
            "'http://m/qemu_10.0.13+ds-0+deb13u1.dsc' qemu_10.0.13+ds-0+deb13u1.dsc 1 SHA256:0\n\
                    'http://m/qemu_10.0.13+ds.orig.tar.xz' qemu_10.0.13+ds.orig.tar.xz 2 SHA256:0";
        assert_eq!(dsc_version(uris).as_deref(), Some("10.0.13+ds-0+deb13u1"));
        assert_eq!(dsc_version("E: nothing"), None);
    }
}
