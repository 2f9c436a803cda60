// SPDX-License-Identifier: GPL-2.0

//! The kernel of the guest: one that is installed on the host.

use anyhow::{ensure, Context as _, Result};
use boot::image::release;
use boot::{initramfs, modules};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::guest::{MODULES, PROGRAM};

/// The modules that a guest needs, unless they are built in.
const NEEDED: [&str; 6] = [
    "virtio_pci",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
    "qemu_fw_cfg",
];

/// A kernel.
pub struct Kernel {
    /// Its image.
    pub image: PathBuf,
    /// The directory with its modules.
    modules: PathBuf,
}

impl Kernel {
    /// The kernel with this image, or the newest in /boot.
    pub fn find(image: Option<&Path>) -> Result<Self> {
        let image = match image {
            Some(image) => image.to_owned(),
            None => newest()?.context(
                "there is no kernel with modules in /boot: install one, such as linux-image-amd64, or \
                 name one by --kernel",
            )?,
        };
        // Some distributions let only root read it.
        File::open(&image).with_context(|| {
            format!(
                "cannot read {}: name one that this user may read by --kernel",
                image.display()
            )
        })?;
        let release = release(&image).with_context(|| image.display().to_string())?;
        let modules = modules_of(&release);
        ensure!(
            modules.join("modules.dep").exists(),
            "{} is {release}, whose modules are not in {}",
            image.display(),
            modules.display()
        );
        Ok(Self { image, modules })
    }

    /// Writes an initramfs: this program, and the modules that it loads.
    pub fn write_initramfs(&self, path: &Path) -> Result<()> {
        let relative = |path: &str| path.trim_start_matches('/').to_owned();
        let program = fs::read("/proc/self/exe").context("this program")?;
        let mut files = vec![(relative(PROGRAM), program)];
        let modules = modules::read(&self.modules, &NEEDED)?;
        for (i, (name, contents)) in modules.into_iter().enumerate() {
            files.push((format!("{}/{i:02}-{name}", relative(MODULES)), contents));
        }
        initramfs::write(&[&relative(MODULES)], files, path).context("the initramfs")
    }
}

fn modules_of(release: &str) -> PathBuf {
    Path::new("/lib/modules").join(release)
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
        if modules_of(release).join("modules.dep").exists() {
            let changed = fs::metadata(&path)?.modified()?;
            newest = newest.max(Some((changed, path)));
        }
    }
    Ok(newest.map(|(_, path)| path))
}
