// SPDX-License-Identifier: GPL-2.0

//! The initramfs of a guest: busybox, init and the modules that init needs.

use anyhow::{ensure, Context as _, Result};
use cpio::newc::ModeFileType;
use cpio::{write_cpio, NewcBuilder};
use std::fs::{self, File};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{Image, Kernel};

/// The first process of the guest.
const INIT: &str = include_str!("../guest/init");

/// The modules that init loads, after those they depend on. Debug kernels have them built in.
const MODULES: &[&str] = &["9pnet_virtio", "9p", "overlay"];

/// Makes the initramfs for a kernel.
pub fn initramfs(ctx: &Context, kernel: &Kernel, image: &Image) -> Result<PathBuf> {
    let entry = Entry {
        name: "initramfs",
        key: Key::new(ctx)
            .recipe(0)
            .text(&kernel.release)
            .text(&kernel.version.to_string())
            .text(INIT)
            .texts(MODULES)
            .finish(),
        title: format!("initramfs for {}", kernel.release),
        megabytes: 20,
    }
    .get(ctx, |_, dir| {
        let modules = image.modules.join(&kernel.release);
        let dependencies = fs::read_to_string(modules.join("modules.dep"))?;
        let mut files = Vec::new();
        let mut names = Vec::new();
        let needed = match kernel.flavour {
            Some(_) => &[],
            None => MODULES,
        };
        for path in load_order(&dependencies, needed)? {
            let contents = Command::new("xz")
                .arg("-dc")
                .arg(modules.join(path))
                .output()?;
            ensure!(contents.status.success(), "cannot decompress {path}");
            let name = path.rsplit('/').next().unwrap_or(path);
            let name = name.strip_suffix(".xz").unwrap_or(name).to_owned();
            files.push((name.clone(), contents.stdout));
            names.push(name);
        }
        files.push((
            "init".to_owned(),
            INIT.replace("@MODULES@", &names.join(" ")).into_bytes(),
        ));

        write(files, &dir.join("initramfs"))
    })?;
    Ok(entry.join("initramfs"))
}

/// Writes an initramfs that has busybox and this program as the first process.
pub fn with_init(init: &str, path: &Path) -> Result<()> {
    write(vec![("init".to_owned(), init.as_bytes().to_vec())], path)
}

/// Writes an initramfs with busybox and these files.
fn write(mut files: Vec<(String, Vec<u8>)>, path: &Path) -> Result<()> {
    files.push((
        "bin/busybox".to_owned(),
        fs::read("/usr/bin/busybox").context("no busybox in the build root")?,
    ));
    let entry = |name: &str, file_type, mode| {
        NewcBuilder::new(name)
            .set_mode_file_type(file_type)
            .mode(mode)
    };
    let mut archive = vec![(
        entry("bin", ModeFileType::Directory, 0o40755),
        Cursor::new(Vec::new()),
    )];
    for (name, contents) in files {
        archive.push((
            entry(&name, ModeFileType::Regular, 0o100755),
            Cursor::new(contents),
        ));
    }
    write_cpio(archive.into_iter(), File::create(path)?)?;
    Ok(())
}

/// The paths of modules and of those they depend on, in the order to load them.
fn load_order<'a>(dependencies: &'a str, modules: &[&str]) -> Result<Vec<&'a str>> {
    let mut order = Vec::new();
    for module in modules {
        let suffix = format!("/{module}.ko");
        let (path, needs) = dependencies
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(path, _)| path.strip_suffix(".xz").unwrap_or(path).ends_with(&suffix))
            .with_context(|| format!("the kernel has no module {module}"))?;
        // modules.dep lists a dependency behind what needs it.
        for path in needs.split_whitespace().rev().chain([path]) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_loaded_first() {
        let dependencies =
            "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
                            kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz\n\
                            kernel/fs/netfs/netfs.ko.xz:\n";
        assert_eq!(
            load_order(dependencies, &["9pnet", "9p"]).unwrap(),
            [
                "kernel/fs/netfs/netfs.ko.xz",
                "kernel/net/9p/9pnet.ko.xz",
                "kernel/fs/9p/9p.ko.xz"
            ]
        );
        assert!(load_order(dependencies, &["p"]).is_err());
    }
}
