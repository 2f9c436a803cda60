// SPDX-License-Identifier: GPL-2.0

//! The image of a kernel, and its modules.

use anyhow::{Context as _, Result};
use boot::image::payload;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Kernel;
use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::debug_kernel;
use crate::packages;

/// The kernel image and its modules.
#[derive(Clone)]
pub struct Image {
    /// The image as Debian ships it.
    pub vmlinuz: PathBuf,
    /// The kernel within it, which QEMU starts by the PVH entry. The emulated CPU takes 2 s
    /// to decompress an image. But QEMU loads `vmlinux` again when the guest resumes from
    /// suspend, and so overwrites its memory.
    pub vmlinux: PathBuf,
    /// The directory that holds `RELEASE/modules.dep`.
    pub modules: PathBuf,
}

impl Image {
    /// That of a Debian in which the kernel's packages are installed.
    pub fn installed(root: &Path, kernel: &Kernel) -> Self {
        let modules = root.join("usr/lib/modules");
        let vmlinuz = root
            .join("boot")
            .join(format!("vmlinuz-{}", kernel.release));
        Self {
            vmlinux: vmlinuz.clone(),
            vmlinuz,
            modules,
        }
    }
}

/// The packages of an image. depmod needs modules.builtin and modules.order of "base".
fn image_packages(kernel: &Kernel) -> [String; 3] {
    ["binary", "modules", "base"].map(|kind| kernel.package(kind))
}

pub fn image_entry(ctx: &Context, kernel: &Kernel) -> Entry<'static> {
    Entry {
        name: "kernel",
        key: Key::new(ctx)
            .recipe(1)
            .texts(image_packages(kernel))
            .text(&kernel.version.to_string())
            .finish(),
        title: format!("kernel {}", kernel.release),
        megabytes: 600,
    }
}

/// Gets the image of a kernel.
pub fn image(ctx: &Context, kernel: &Kernel) -> Result<Image> {
    if let Some(flavour) = kernel.flavour {
        return debug_kernel::image(ctx, kernel, flavour);
    }
    let entry = image_entry(ctx, kernel).get(ctx, |step, dir| {
        let names = image_packages(kernel);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        packages::unpack(ctx, step, &names, &kernel.version, dir)?;
        let modules = dir.join("usr/lib/modules");
        remove_devices(&modules.join(&kernel.release).join("kernel"))?;
        step.run(
            Command::new("depmod")
                .arg("--basedir")
                .arg(dir.join("usr"))
                .arg(&kernel.release),
        )?;
        let vmlinuz = modules.join(&kernel.release).join("vmlinuz");
        let vmlinuz = fs::read(vmlinuz).context("the packages hold no kernel image")?;
        let compressed = dir.join("vmlinux.zst");
        fs::write(&compressed, payload(&vmlinuz)?)?;
        step.run(
            Command::new("zstd")
                .args(["--decompress", "--quiet", "--rm"])
                .arg(&compressed),
        )
    })?;
    let modules = entry.join("usr/lib/modules");
    Ok(Image {
        vmlinuz: vmlinuz(&modules, kernel),
        vmlinux: entry.join("vmlinux"),
        modules,
    })
}

fn vmlinuz(modules: &Path, kernel: &Kernel) -> PathBuf {
    modules.join(&kernel.release).join("vmlinuz")
}

/// Removes the modules of devices that no guest has: sound, and of the drivers those that
/// lie a directory deeper than their class. When perf begins to record, it reads every
/// directory of modules, and by 9p each costs the guest 6 ms.
fn remove_devices(modules: &Path) -> Result<()> {
    fs::remove_dir_all(modules.join("sound"))?;
    for class in fs::read_dir(modules.join("drivers"))? {
        for entry in fs::read_dir(class?.path())? {
            let path = entry?.path();
            // kvm_amd depends on ccp.
            if path.is_dir() && !path.ends_with("crypto/ccp") {
                fs::remove_dir_all(path)?;
            }
        }
    }
    Ok(())
}
