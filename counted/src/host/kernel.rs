// SPDX-License-Identifier: GPL-2.0

//! The kernel of the guest: one that is installed on the host, or that of the tarball.

use anyhow::{ensure, Context as _, Result};
use boot::image::release;
use boot::{initramfs, modules};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::tarball;
use crate::guest::{MODULES, PROGRAM, RUST_PERF};

/// The directory with the modules of the kernels that are installed.
const INSTALLED: &str = "/lib/modules";

/// A kernel.
pub struct Kernel {
    /// Its image.
    pub image: PathBuf,
    /// The directory with its modules.
    modules: PathBuf,
    /// rust_perf for this kernel, if the host's modprobe cannot find it.
    rust_perf: Option<PathBuf>,
}

impl Kernel {
    /// The kernel with this image. By default that of the tarball, or the newest in /boot.
    pub fn find(image: Option<&Path>) -> Result<Self> {
        if let (None, Some(image)) = (image, tarball::find(tarball::KERNEL)) {
            let part =
                |name| tarball::find(name).context("the tarball is incomplete: unpack it again");
            let rust_perf = part(tarball::RUST_PERF)?;
            return Self::new(image, &part(tarball::MODULES)?, Some(rust_perf));
        }
        let image = match image {
            Some(image) => image.to_owned(),
            None => newest()?.context(
                "there is no kernel with modules in /boot: install one, such as linux-image-amd64, or \
                 name one by --kernel",
            )?,
        };
        Self::new(image, Path::new(INSTALLED), None)
    }

    /// The kernel with this image. `all` is the directory with the modules of all kernels.
    fn new(image: PathBuf, all: &Path, rust_perf: Option<PathBuf>) -> Result<Self> {
        // Some distributions let only root read it.
        File::open(&image).with_context(|| {
            format!(
                "cannot read {}: name one that this user may read by --kernel",
                image.display()
            )
        })?;
        let release = release(&image).with_context(|| image.display().to_string())?;
        let modules = all.join(&release);
        ensure!(
            modules.join("modules.dep").exists(),
            "{} is {release}, whose modules are not in {}",
            image.display(),
            modules.display()
        );
        Ok(Self {
            image,
            modules,
            rust_perf,
        })
    }

    /// The files by which a guest with this kernel differs from one with another.
    pub fn files(&self) -> Vec<PathBuf> {
        let modules = self.modules.join("modules.dep");
        let files = [self.image.clone(), modules].into_iter();
        files.chain(self.rust_perf.clone()).collect()
    }

    /// Writes an initramfs: this program, and the modules that it loads.
    pub fn write_initramfs(&self, path: &Path) -> Result<()> {
        let relative = |path: &str| path.trim_start_matches('/').to_owned();
        let program = fs::read("/proc/self/exe").context("this program")?;
        let mut files = vec![(relative(PROGRAM), program)];
        let modules = modules::read(&self.modules, &modules::FOR_HOST_FILES)?;
        for (i, (name, contents)) in modules.into_iter().enumerate() {
            files.push((format!("{}/{i:02}-{name}", relative(MODULES)), contents));
        }
        if let Some(rust_perf) = &self.rust_perf {
            files.push((relative(RUST_PERF), fs::read(rust_perf)?));
        }
        initramfs::write(&[&relative(MODULES)], files, path).context("the initramfs")
    }
}

/// The newest image in /boot that has modules.
fn newest() -> Result<Option<PathBuf>> {
    let mut newest = None;
    for entry in fs::read_dir("/boot").into_iter().flatten() {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The name ends with the release.
        let Some(release) = name.strip_prefix("vmlinuz-") else {
            continue;
        };
        if Path::new(INSTALLED)
            .join(release)
            .join("modules.dep")
            .exists()
        {
            let changed = fs::metadata(&path)?.modified()?;
            newest = newest.max(Some((changed, path)));
        }
    }
    Ok(newest.map(|(_, path)| path))
}
