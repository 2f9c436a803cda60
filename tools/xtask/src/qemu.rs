// SPDX-License-Identifier: GPL-2.0

//! QEMU: Debian's own package, or built from Debian's source, pristine or with the x86
//! PMU.
//!
//! The C files of the PMU are in `qemu/pmu`; patches hook them in. The model of the PMU is a
//! static library. QEMU's build directory is an entry of the cache, and each binary linked there
//! is another. So a change of the model needs a link, not a build of QEMU.

mod changes;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use nix::mount::{mount, umount, MsFlags};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{self, Entry, Key};
use crate::context::Context;
use crate::kernel;
use crate::packages;
use crate::step::Step;
use changes::Changes;

/// What configure is called with. The package has the same QEMU as the guests here, so that what is
/// tested is what is installed: with the devices and displays that a user expects. The firmware is
/// where Debian's packages have it.
const CONFIGURATION: &[&str] = &[
    "--target-list=x86_64-softmmu",
    "--prefix=/usr",
    "--sysconfdir=/etc",
    "--localstatedir=/var",
    "--firmwarepath=/usr/share/qemu:/usr/share/seabios:/usr/lib/ipxe/qemu",
    "--without-default-features",
    "--enable-trace-backends=nop",
    "--enable-tcg",
    "--enable-virtfs",
    "--enable-attr",
    "--enable-slirp",
    "--enable-vhost-user",
    "--enable-pixman",
    "--enable-vnc",
    "--enable-curses",
    "--enable-iconv",
    "--disable-docs",
    "--disable-install-blobs",
    "--disable-download",
    "--disable-fdt",
    "--disable-werror",
    "--disable-debug-info",
];

/// What `--version` says of one with this project's patches.
const VERSION: &str = "--with-pkgversion=with an x86 PMU";

/// Where QEMU is built and linked. The build directory contains its own name, so it is
/// always mounted here.
const WORK: &str = "/qemu";

const LIBRARY: &str = "libpmu_bridge.a";
const BINARY: &str = "qemu-system-x86_64";

/// Which QEMU the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// With this project's PMU.
    Patched,
    /// As Debian ships it, without a PMU.
    Debian,
}

/// A QEMU that is ready to run.
#[derive(Clone)]
pub struct Qemu {
    binary: PathBuf,
    /// Shared libraries that the build root does not have: those of Debian's QEMU.
    libraries: Option<PathBuf>,
    /// Whether it is where configure was told, so that it finds its firmware by itself.
    is_installed: bool,
    cpu: &'static str,
}

/// A QEMU with the PMU that was built here.
pub struct Built {
    /// The program.
    pub binary: PathBuf,
    /// The source that it was built from, with Debian's packaging.
    pub source: PathBuf,
}

impl Qemu {
    /// The one that the user wants.
    pub fn chosen(ctx: &Context, choice: Choice) -> Result<Self> {
        match choice {
            Choice::Patched => Self::patched(ctx),
            Choice::Debian => Self::debian(ctx),
        }
    }

    /// QEMU as Debian ships it. Its packages are unpacked apart from the build root, so
    /// that only those who ask for it download them.
    pub fn debian(ctx: &Context) -> Result<Self> {
        const PACKAGE: &str = "qemu-system-x86";
        let version = packages::source_version(ctx, "qemu")?;
        let entry = Entry {
            name: "qemu-debian",
            key: Key::new(ctx).recipe(0).text(&version).finish(),
            title: format!("QEMU {version}, Debian's"),
            megabytes: 250,
        }
        .get(ctx, |step, dir| {
            packages::unpack_with_dependencies(ctx, step, PACKAGE, dir)
        })?;
        Ok(Self {
            binary: entry.join("usr/bin").join(BINARY),
            libraries: Some(entry.join("usr/lib/x86_64-linux-gnu")),
            is_installed: false,
            cpu: "max",
        })
    }

    /// QEMU without this project's patches.
    pub fn pristine(ctx: &Context) -> Result<Self> {
        let version = packages::source_version(ctx, "qemu")?;
        let entry = Entry {
            name: "qemu-pristine",
            key: Key::new(ctx)
                .recipe(0)
                .text(&version)
                .texts(CONFIGURATION)
                .finish(),
            title: format!("QEMU {version}, pristine"),
            megabytes: 1500,
        }
        .get(ctx, |step, dir| {
            let work = tempfile::tempdir_in(dir)?;
            build(ctx, step, work.path(), None, &[])?;
            fs::copy(work.path().join("build").join(BINARY), dir.join(BINARY))?;
            Ok(())
        })?;
        Ok(Self {
            binary: entry.join(BINARY),
            libraries: None,
            is_installed: false,
            cpu: "max",
        })
    }

    /// QEMU with the PMU.
    pub fn patched(ctx: &Context) -> Result<Self> {
        Ok(Self::built(&Built::get(ctx)?))
    }

    /// One with the PMU, where it was built.
    pub fn built(built: &Built) -> Self {
        Self {
            binary: built.binary.clone(),
            libraries: None,
            is_installed: false,
            cpu: suites::BASE_CPU,
        }
    }

    /// One with the PMU that a package has installed.
    pub fn installed(binary: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            libraries: None,
            is_installed: true,
            cpu: suites::BASE_CPU,
        }
    }

    /// A command that runs it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        if !self.is_installed {
            command.args(["-L", "/usr/share/seabios", "-L", "/usr/share/qemu"]);
        }
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    /// The program.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The -cpu of a guest without a suite.
    pub fn cpu(&self) -> &'static str {
        self.cpu
    }
}

impl Built {
    /// Builds it.
    pub fn get(ctx: &Context) -> Result<Self> {
        let version = packages::source_version(ctx, "qemu")?;
        let changes = Changes::find(&ctx.top)?;
        let (library, header) = bridge(ctx)?;

        let option = format!("-Dx86_pmu={WORK}/pmu");
        let options = [VERSION, &option];
        let key = Key::new(ctx).recipe(0).text(&version);
        let key = key.texts(CONFIGURATION).texts(options).file(&header)?;
        let built = Entry {
            name: "qemu-build",
            key: changes.add_to(key)?.finish(),
            title: format!("QEMU {version} with a PMU"),
            megabytes: 1500,
        };
        let built_dir = built.get(ctx, |step, dir| {
            fs::create_dir(dir.join("pmu"))?;
            fs::copy(&header, dir.join("pmu/pmu_bridge.h"))?;
            fs::copy(&library, dir.join("pmu").join(LIBRARY))?;
            build(ctx, step, dir, Some(&changes), &options)
        })?;

        let linked = Entry {
            name: "qemu",
            key: Key::new(ctx)
                .recipe(0)
                .text(&built.key)
                .file(&library)?
                .finish(),
            title: "QEMU with this PMU model".to_owned(),
            megabytes: 100,
        }
        .get(ctx, |step, dir| {
            let _lock = cache::lock(
                &cache::lock_of(ctx, &built.full_name()),
                "QEMU's build directory",
            )?;
            fs::copy(&library, built_dir.join("pmu").join(LIBRARY))?;
            let work = Mount::new(&built_dir)?;
            step.run(work.ninja().arg(BINARY))?;
            fs::copy(built_dir.join("build").join(BINARY), dir.join(BINARY))?;
            Ok(())
        })?;
        Ok(Self {
            binary: linked.join(BINARY),
            source: built_dir.join("source"),
        })
    }

    /// The version of Debian's source package that it was built from.
    pub fn version(&self) -> Result<String> {
        let mut parse = Command::new("dpkg-parsechangelog");
        parse
            .arg("--file")
            .arg(self.source.join("debian/changelog"));
        let version = packages::output(parse.args(["--show-field", "Version"]))?;
        Ok(version.trim().to_owned())
    }
}

/// Builds the model as the static library that QEMU links.
///
/// Returns copies of it and of its header that no other run changes, so that what is
/// linked is what the cache's key names.
fn bridge(ctx: &Context) -> Result<(PathBuf, PathBuf)> {
    let target = ctx.out.join("target");
    let _lock = cache::lock(&ctx.out.join(".lock-bridge"), "PMU model")?;
    let step = Step::start(ctx, "bridge", "PMU model")?;
    step.run(
        Command::new("cargo")
            .args(["build", "--release", "--locked", "--package", "pmu-bridge"])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(&ctx.top),
    )?;
    let library = ctx.private(LIBRARY);
    fs::copy(target.join("release").join(LIBRARY), &library)?;
    let header = ctx.private("pmu_bridge.h");
    fs::copy(ctx.top.join("qemu/bridge/pmu_bridge.h"), &header)?;
    step.done();
    Ok((library, header))
}

/// Unpacks QEMU's source and builds it in `dir`/build.
fn build(
    ctx: &Context,
    step: &Step,
    dir: &Path,
    changes: Option<&Changes>,
    options: &[&str],
) -> Result<()> {
    let source = dir.join("source");
    packages::unpack_source(ctx, step, "qemu", &source)?;
    if let Some(changes) = changes {
        changes.apply(step, &source)?;
    }
    let work = Mount::new(dir)?;
    fs::create_dir(work.build()).context("QEMU's build directory")?;
    step.run(
        Command::new("../source/configure")
            .args(CONFIGURATION)
            .args(options)
            .current_dir(work.build()),
    )?;
    step.run(work.ninja().arg(BINARY))
}

/// A directory that is mounted at [`WORK`] in this process's mount namespace.
struct Mount;

impl Mount {
    fn new(dir: &Path) -> Result<Self> {
        fs::create_dir_all(WORK)?;
        mount(
            Some(dir),
            WORK,
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        )
        .with_context(|| format!("cannot mount {} at {WORK}", dir.display()))?;
        Ok(Self)
    }

    fn build(&self) -> PathBuf {
        Path::new(WORK).join("build")
    }

    fn ninja(&self) -> Command {
        let mut command = Command::new("ninja");
        command
            .arg(format!("-j{}", kernel::jobs()))
            .current_dir(self.build());
        command
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // If this fails, the mount goes with the namespace.
        let _ = umount(WORK);
    }
}
