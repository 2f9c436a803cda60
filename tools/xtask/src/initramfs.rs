// SPDX-License-Identifier: GPL-2.0

//! The initramfs of a guest: busybox, init and the modules that init needs.

use anyhow::{Context as _, Result};
use boot::{initramfs, modules};
use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{Image, Kernel};

/// The first process of the guest.
const INIT: &str = include_str!("../guest/init");

/// The modules that init loads, after those they depend on. Kernels that are built here have them built in.
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
        let mut files = match kernel.flavour {
            Some(_) => Vec::new(),
            None => modules::read(&image.modules.join(&kernel.release), MODULES)?,
        };
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        let init = INIT.replace("@MODULES@", &names.join(" "));
        files.push(("init".to_owned(), init.into_bytes()));
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
    initramfs::write(&["bin"], files, path)
}
