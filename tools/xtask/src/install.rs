// SPDX-License-Identifier: GPL-2.0

//! `make install` and `make uninstall`: the module among those of a kernel of this machine.

use anyhow::{bail, ensure, Context as _, Result};
use clap::Args;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::context::Context;
use crate::module::{self, ToolChain, Tree};
use crate::step::Step;

/// The machine, as it is seen from the build root.
pub const HOST: &str = "/.host";
const FILE: &str = "rust_perf.ko";

/// Which kernel, and where.
#[derive(Args)]
pub struct Options {
    /// The kernel's build tree (default: that of the running kernel).
    #[arg(long, env = "RUST_PERF_KDIR")]
    kdir: Option<PathBuf>,
    /// A directory that stands for the machine's root.
    #[arg(long, env = "RUST_PERF_DESTDIR")]
    destdir: Option<PathBuf>,
}

/// `make install`.
pub fn install(ctx: &Context, options: &Options) -> Result<ExitCode> {
    let kdir = options.kdir.as_deref().context("name KDIR=")?;
    let tree = Tree::read(kdir)?;
    let target = Target::new(options, tree.release());
    target.check()?;
    let module = module::for_tree(ctx, kdir)?;
    target.install(ctx, &module)?;
    println!("{}", target.shown(&target.file()));
    Ok(ExitCode::SUCCESS)
}

/// `make uninstall`.
pub fn uninstall(ctx: &Context, options: &Options) -> Result<ExitCode> {
    let release = match &options.kdir {
        Some(kdir) => Tree::read(kdir)?.release().to_owned(),
        None => running()?,
    };
    let target = Target::new(options, &release);
    target.uninstall(ctx)?;
    let loaded = fs::read_to_string("/proc/modules").unwrap_or_default();
    if loaded.lines().any(|line| line.starts_with("rust_perf ")) {
        println!("rust_perf is still loaded: rmmod rust_perf");
    }
    Ok(ExitCode::SUCCESS)
}

/// The release of the running kernel.
fn running() -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(release.trim().to_owned())
}

/// Where the module of a kernel is installed.
pub struct Target {
    /// The root directory.
    root: PathBuf,
    /// Whether that is this machine's.
    is_machine: bool,
    release: String,
}

impl Target {
    fn new(options: &Options, release: &str) -> Self {
        let destdir = options.destdir.as_deref().unwrap_or(Path::new("/"));
        let destdir = destdir.strip_prefix("/").unwrap_or(destdir);
        Self {
            is_machine: options.destdir.is_none(),
            ..Self::below(&Path::new(HOST).join(destdir), release)
        }
    }

    /// Below a directory that is not the machine's root.
    pub fn below(root: &Path, release: &str) -> Self {
        Self {
            root: root.to_owned(),
            is_machine: false,
            release: release.to_owned(),
        }
    }

    fn modules(&self) -> PathBuf {
        self.root.join("lib/modules").join(&self.release)
    }

    fn updates(&self) -> PathBuf {
        self.modules().join("updates")
    }

    fn file(&self) -> PathBuf {
        self.updates().join(FILE)
    }

    /// A path as the user sees it.
    fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix(HOST).unwrap_or(path);
        Path::new("/").join(path).display().to_string()
    }

    /// Whether a kernel is there, and not only a directory that is to be packaged.
    fn has_kernel(&self) -> bool {
        self.modules().join("modules.builtin").exists()
    }

    /// Finds what is wrong before anything is built.
    fn check(&self) -> Result<()> {
        ensure!(
            !self.is_machine || self.has_kernel(),
            "kernel {} is not installed here: {} has no modules.builtin. To install the module \
             elsewhere, name DESTDIR=",
            self.release,
            self.shown(&self.modules())
        );
        let dkms = self.updates().join("dkms");
        for name in fs::read_dir(&dkms).into_iter().flatten() {
            let name = name?.file_name();
            ensure!(
                !name.to_string_lossy().starts_with(FILE),
                "DKMS has installed {}: use that, or first apt remove rust-perf-dkms",
                self.shown(&dkms.join(name))
            );
        }
        Ok(())
    }

    /// Installs a module.
    pub fn install(&self, ctx: &Context, module: &Path) -> Result<()> {
        self.check()?;
        let step = Step::start(
            ctx,
            "install",
            &format!("{FILE} for {}, installed", self.release),
        )?;
        let new = tempfile::tempdir()?;
        let stripped = new.path().join(FILE);
        step.run(
            Command::new("strip")
                .arg("--strip-debug")
                .arg("-o")
                .arg(&stripped)
                .arg(module),
        )?;
        let copy = || -> std::io::Result<()> {
            fs::create_dir_all(self.updates())?;
            // Whoever reads the file finds the old or the new one.
            let file = tempfile::NamedTempFile::new_in(self.updates())?;
            fs::copy(&stripped, file.path())?;
            fs::set_permissions(file.path(), Permissions::from_mode(0o644))?;
            file.persist(self.file())?;
            Ok(())
        };
        copy().map_err(|error| self.explain(error))?;
        self.depmod(&step)?;
        step.done();
        Ok(())
    }

    /// Removes the module.
    pub fn uninstall(&self, ctx: &Context) -> Result<()> {
        match fs::remove_file(self.file()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(
                "{} is not there: name KDIR= or DESTDIR= as for make install",
                self.shown(&self.file())
            ),
            Err(error) => return Err(self.explain(error)),
        }
        let step = Step::start(
            ctx,
            "uninstall",
            &format!("{FILE} for {}, removed", self.release),
        )?;
        // Others may have modules there.
        let _ = fs::remove_dir(self.updates());
        self.depmod(&step)?;
        step.done();
        Ok(())
    }

    fn explain(&self, error: std::io::Error) -> anyhow::Error {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                ": run make as root, or name DESTDIR="
            }
            _ => "",
        };
        anyhow::anyhow!("cannot write {}: {error}{hint}", self.shown(&self.file()))
    }

    /// Has modprobe find what is there now. Whoever packages the directory does it later.
    fn depmod(&self, step: &Step) -> Result<()> {
        if !self.has_kernel() {
            return Ok(());
        }
        let mut depmod = match self.is_machine {
            // The machine's modprobe reads what it writes.
            true => ToolChain::Host.command("depmod"),
            false => {
                let mut depmod = Command::new("depmod");
                depmod.arg("--basedir").arg(&self.root);
                depmod
            }
        };
        step.run(depmod.arg(&self.release))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str) {
        let path = root.join("lib/modules/7.3.4").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn only_the_machine_itself_must_have_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let mut target = Target::below(root.path(), "7.3.4");
        target.check().unwrap();
        target.is_machine = true;
        let error = target.check().unwrap_err().to_string();
        assert!(error.contains("7.3.4 is not installed here"), "{error}");
        write(root.path(), "modules.builtin");
        target.check().unwrap();
    }

    #[test]
    fn a_module_of_dkms_is_not_hidden() {
        let root = tempfile::tempdir().unwrap();
        let target = Target::below(root.path(), "7.3.4");
        write(root.path(), "updates/dkms/other.ko.xz");
        target.check().unwrap();
        write(root.path(), "updates/dkms/rust_perf.ko.xz");
        let error = target.check().unwrap_err().to_string();
        assert!(error.contains("DKMS has installed"), "{error}");
    }

    #[test]
    fn paths_are_shown_as_the_user_knows_them() {
        let options = |destdir: Option<&str>| Options {
            kdir: None,
            destdir: destdir.map(PathBuf::from),
        };
        let shown = |destdir| {
            let target = Target::new(&options(destdir), "7.3.4");
            (target.is_machine, target.shown(&target.file()))
        };
        let file = "/lib/modules/7.3.4/updates/rust_perf.ko";
        assert_eq!(shown(None), (true, file.to_owned()));
        assert_eq!(shown(Some("/image")), (false, format!("/image{file}")));
    }
}
