// SPDX-License-Identifier: GPL-2.0

//! A Debian on which the packages are installed: a copy of the fresh root. Programs run in it by
//! chroot, and guests boot from it.

use anyhow::{ensure, Context as _, Result};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::Context;
use crate::packages;
use crate::signals::Staging;
use crate::step::Step;

/// The machine.
pub struct Machine<'a> {
    ctx: &'a Context,
    root: PathBuf,
    /// The packages that apt can install besides local ones.
    packages: &'a Path,
    /// Removes the machine when this is dropped, or on a signal.
    _staging: Option<Staging>,
}

impl<'a> Machine<'a> {
    /// Copies a root into a directory that is removed in the end.
    pub fn copy_of(
        ctx: &'a Context,
        step: &Step,
        original: &Path,
        packages: &'a Path,
    ) -> Result<Self> {
        let staging = Staging::create(ctx.out.join("install-test"))?;
        let mut machine = Self::made_in(ctx, step, original, staging.path(), packages)?;
        machine._staging = Some(staging);
        Ok(machine)
    }

    /// Copies a root into a directory of the caller's, as `root`.
    pub fn made_in(
        ctx: &'a Context,
        step: &Step,
        original: &Path,
        directory: &Path,
        packages: &'a Path,
    ) -> Result<Self> {
        let root = directory.join("root");
        step.run(
            Command::new("cp")
                .args(["--archive", "--reflink=auto"])
                .arg(original)
                .arg(&root),
        )?;
        Ok(Self {
            ctx,
            root,
            packages,
            _staging: None,
        })
    }

    /// Its root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A command in it. The mounts that the command needs vanish with it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        command
            .arg("--mount")
            .arg(self.ctx.top.join("tools/enter-fresh-root"))
            .arg(&self.root)
            .arg(packages::lists(self.ctx))
            .arg(self.packages)
            .arg(program);
        command
    }

    /// Installs packages of the cache, or of files in the machine. apt prefers those of this suite.
    pub fn install<T: AsRef<OsStr>>(
        &self,
        step: &Step,
        suite: &str,
        names: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        let mut apt_get = self.apt_get();
        // There is no network. With --no-download apt would not take local files.
        apt_get.args(["install", "--no-install-recommends"]);
        step.run(apt_get.args(["--target-release", suite]).args(names))
    }

    /// Removes packages with their configuration, and what was installed for them.
    pub fn purge<T: AsRef<OsStr>>(
        &self,
        step: &Step,
        names: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        let mut apt_get = self.apt_get();
        // By default it keeps what a package that stays would merely like to have.
        for kept in ["Recommends", "Suggests"] {
            apt_get.args(["-o", &format!("APT::AutoRemove::{kept}Important=false")]);
        }
        step.run(apt_get.args(["purge", "--autoremove"]).args(names))
    }

    fn apt_get(&self) -> Command {
        let mut command = self.command("apt-get");
        // apt's own user does not exist in a user namespace that maps one user only.
        command.args(["-q", "--yes", "-o", "APT::Sandbox::User=root"]);
        command.args(["-o", "Dpkg::Use-Pty=false"]);
        command
    }

    /// Copies a file into the machine. Returns its name there.
    pub fn copy(&self, file: &Path) -> Result<PathBuf> {
        let name = Path::new("/root").join(file.file_name().unwrap_or_default());
        fs::copy(file, self.path(&name))
            .with_context(|| format!("cannot copy {}", file.display()))?;
        Ok(name)
    }

    /// Where a file of the machine is.
    pub fn path(&self, name: &Path) -> PathBuf {
        self.root.join(name.strip_prefix("/").unwrap_or(name))
    }

    /// What a command prints.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(program).args(arguments).output()?;
        ensure!(
            output.status.success(),
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }
    /// Runs a script of the shell as an ordinary user with this home. Returns what the script prints.
    pub fn as_user(&self, step: &Step, home: &str, script: &str) -> Result<String> {
        let output = self
            .command("setpriv")
            .args(["--reuid=1000", "--regid=1000", "--clear-groups"])
            .args(["env", &format!("HOME={home}")])
            .args(["sh", "-euc", script])
            .output()?;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        ensure!(
            output.status.success(),
            step.failure(&format!("{script}\n{}: {text}", output.status))
        );
        Ok(text)
    }
}
