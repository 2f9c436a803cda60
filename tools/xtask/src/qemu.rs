// SPDX-License-Identifier: GPL-2.0

//! QEMU, from Debian's source package: pristine, or with the x86 PMU.
//!
//! The PMU's model comes as a static library. Someone who experiments with it
//! waits for a link, not for a build of QEMU: the build directory is one entry
//! of the cache, and each binary linked in it another.

use anyhow::{Context as _, Result};
use nix::mount::{mount, umount, MsFlags};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{self, Entry, Key};
use crate::context::Context;
use crate::kernel;
use crate::packages;
use crate::step::Step;

/// Only what the guest needs: TCG, and 9p for the shared directories.
const CONFIGURE: &[&str] = &[
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--enable-tcg",
    "--enable-virtfs",
    "--enable-attr",
    "--disable-docs",
    "--disable-install-blobs",
    "--disable-download",
    "--disable-fdt",
    "--disable-werror",
    "--disable-debug-info",
];

/// Where QEMU is built and linked: its build directory remembers its name, so
/// that the entry of the cache, which is renamed, is mounted here.
const WORK: &str = "/qemu";

/// Version and number of counters are the model's defaults; QEMU's "max" is an
/// AMD CPU under TCG, whose PMU the model does not have.
const PMU_CPU: &str = "max,vendor=GenuineIntel,pmu=on";

const LIBRARY: &str = "libpmu_bridge.a";
const BINARY: &str = "qemu-system-x86_64";

/// A QEMU that is ready to run.
pub struct Qemu {
    binary: PathBuf,
    cpu: &'static str,
}

impl Qemu {
    /// QEMU as Debian's source has it.
    pub fn pristine(ctx: &Context) -> Result<Self> {
        let version = packages::source_version(ctx, "qemu")?;
        let entry = Entry {
            name: "qemu-pristine",
            key: Key::new(ctx)
                .recipe(0)
                .text(&version)
                .texts(CONFIGURE)
                .finish(),
            title: format!("QEMU {version}, pristine"),
            megabytes: 1500,
        }
        .get(ctx, |step, dir| {
            let work = tempfile::tempdir_in(dir)?;
            build(ctx, step, work.path(), &[], &[])?;
            fs::copy(work.path().join("build").join(BINARY), dir.join(BINARY))?;
            Ok(())
        })?;
        Ok(Self {
            binary: entry.join(BINARY),
            cpu: "max",
        })
    }

    /// QEMU with the PMU.
    pub fn patched(ctx: &Context) -> Result<Self> {
        let version = packages::source_version(ctx, "qemu")?;
        let patches = patches(ctx)?;
        let (library, header) = bridge(ctx)?;

        let option = format!("-Dx86_pmu={WORK}/pmu");
        let mut key = Key::new(ctx)
            .recipe(0)
            .text(&version)
            .texts(CONFIGURE)
            .text(&option)
            .file(&header)?;
        for patch in &patches {
            key = key.file(patch)?;
        }
        let built = Entry {
            name: "qemu-build",
            key: key.finish(),
            title: format!("QEMU {version} with a PMU"),
            megabytes: 1500,
        };
        let built_dir = built.get(ctx, |step, dir| {
            fs::create_dir(dir.join("pmu"))?;
            fs::copy(&header, dir.join("pmu/pmu_bridge.h"))?;
            fs::copy(&library, dir.join("pmu").join(LIBRARY))?;
            build(ctx, step, dir, &patches, &[&option])
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
            step.run(&mut work.ninja())?;
            fs::copy(built_dir.join("build").join(BINARY), dir.join(BINARY))?;
            Ok(())
        })?;
        Ok(Self {
            binary: linked.join(BINARY),
            cpu: PMU_CPU,
        })
    }

    /// A command that runs it, with the firmware that Debian's source leaves out.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(["-L", "/usr/share/seabios", "-L", "/usr/share/qemu"]);
        command
    }

    /// The -cpu for a guest that profiles.
    pub fn cpu(&self) -> &'static str {
        self.cpu
    }
}

/// This project's patches, in their order.
fn patches(ctx: &Context) -> Result<Vec<PathBuf>> {
    let mut patches: Vec<PathBuf> = fs::read_dir(ctx.top.join("qemu"))?
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.extension() == Some("patch".as_ref()))
        .collect();
    patches.sort();
    Ok(patches)
}

/// Builds the model as the static library that QEMU links.
/// Returns copies of it and of its header that are this run's alone, so that
/// what a key says is what is linked.
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

/// Builds QEMU in `dir`/build.
fn build(
    ctx: &Context,
    step: &Step,
    dir: &Path,
    patches: &[PathBuf],
    options: &[&str],
) -> Result<()> {
    let source = dir.join("source");
    packages::unpack_source(ctx, step, "qemu", &source)?;
    for patch in patches {
        step.run(
            Command::new("patch")
                .args(["-p1", "-i"])
                .arg(patch)
                .current_dir(&source),
        )?;
    }
    let work = Mount::new(dir)?;
    fs::create_dir(work.build()).context("QEMU's build directory")?;
    step.run(
        Command::new("../source/configure")
            .args(CONFIGURE)
            .args(options)
            .current_dir(work.build()),
    )?;
    step.run(&mut work.ninja())
}

/// A directory mounted at [`WORK`], in our own mount namespace.
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
            .arg(BINARY)
            .current_dir(self.build());
        command
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Should it stay, it goes with our namespace.
        let _ = umount(WORK);
    }
}
