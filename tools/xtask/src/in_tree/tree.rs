// SPDX-License-Identifier: GPL-2.0

//! The kernel that is tested: its source, and how it is built.

use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::Context;
use crate::debug_kernel::{self, make_at_its_place, make_at_one_place, Flavour, MAKE_ARGS};
use crate::guest::Parts;
use crate::initramfs::initramfs;
use crate::install::HOST;
use crate::kernel::{self, Image, Kernel, QUICK_MACROS};
use crate::qemu::Qemu;
use crate::step::Step;

/// What a guest needs, and loads no module for.
const NEEDED: &[&str] = &[
    "9P_FS",
    "BLK_DEV_INITRD",
    "DEVTMPFS",
    "NET_9P_VIRTIO",
    "OVERLAY_FS",
    "PERF_EVENTS",
    "SERIAL_8250_CONSOLE",
    "TMPFS",
    "VIRTIO_CONSOLE",
    "VIRTIO_PCI",
    "X86_MSR",
];

/// The file in a copy that names what was copied.
const ORIGIN: &str = ".copy-of";

/// The file that is there while a tree is built.
const BUILDING: &str = ".building";

/// A copy in `out` of Debian's source as it was [`built`]. It is made if it is missing.
pub fn own(ctx: &Context, built: &Path, name: &str) -> Result<PathBuf> {
    let tree = ctx.out.join(name);
    if tree.is_dir() {
        let origin = fs::read_to_string(tree.join(ORIGIN)).unwrap_or_default();
        ensure!(
            Path::new(&origin) == built,
            "out/{name} is a copy of another kernel, or of one that was configured otherwise.\n  \
             try: move or remove it"
        );
        return Ok(tree);
    }
    let step = Step::start(ctx, "in-tree-copy", &format!("out/{name}"))?;
    // A name of its own until it is whole.
    let new = ctx.out.join(format!(".{name}"));
    if new.is_dir() {
        fs::remove_dir_all(&new)?;
    }
    step.run(
        Command::new("cp")
            .args(["--archive", "--reflink=auto"])
            .args([built, &new]),
    )?;
    fs::write(new.join(ORIGIN), built.to_string_lossy().as_bytes())?;
    fs::rename(&new, &tree)?;
    step.done();
    Ok(tree)
}

/// The tree in the cache that [`own`] copies.
pub fn built(ctx: &Context, options: &kernel::Options) -> Result<PathBuf> {
    let kernel = kernel::resolve_debian(ctx, options)?.with_flavour(Flavour::Plain);
    debug_kernel::tree(ctx, &kernel, Flavour::Plain)
}

/// The configuration of a tree.
struct Config(String);

impl Config {
    fn of(tree: &Path) -> Result<Self> {
        let config = fs::read_to_string(tree.join(".config")).with_context(|| {
            format!(
                "{} has no .config: it must be the source of a kernel, configured",
                tree.display()
            )
        })?;
        Ok(Self(config))
    }

    /// Whether this is built in.
    fn has(&self, name: &str) -> bool {
        let line = format!("CONFIG_{name}=y");
        self.0.lines().any(|it| it == line)
    }
}

/// Checks that a guest can run with the kernel of a tree.
pub fn check(tree: &Path) -> Result<()> {
    let config = Config::of(tree)?;
    let missing = NEEDED.iter().filter(|name| !config.has(name));
    let missing: Vec<_> = missing.copied().collect();
    if !missing.is_empty() {
        bail!(
            "{}: the guest needs more built in, not as modules.\n  \
             try: scripts/config -e {} && make olddefconfig",
            tree.display(),
            missing.join(" -e ")
        );
    }
    Ok(())
}

/// Builds the kernel of a tree, or what has changed of it.
pub fn build(ctx: &Context, tree: &Path) -> Result<()> {
    let config = Config::of(tree)?;
    let step = Step::start(ctx, "in-tree-kernel", "kernel: build")?;
    remove_unfinished(&step, tree)?;
    fs::write(tree.join(BUILDING), "")?;
    let mut make = match tree.starts_with(&ctx.out) {
        true => make_at_one_place(tree),
        false => make_at_its_place(tree),
    };
    if config.has("CC_IS_CLANG") {
        make.args(MAKE_ARGS);
    }
    make.args([QUICK_MACROS, &format!("-j{}", kernel::jobs())]);
    make.arg(match config.has("PVH") {
        true => "vmlinux",
        false => "bzImage",
    });
    step.run(&mut make)?;
    fs::remove_file(tree.join(BUILDING))?;
    step.done();
    Ok(())
}

/// Removes what a build has made that did not end by itself. A signal kills make and the compilers at once,
/// so that make cannot remove what is half written.
fn remove_unfinished(step: &Step, tree: &Path) -> Result<()> {
    let building = tree.join(BUILDING);
    if !building.exists() {
        return Ok(());
    }
    step.run(
        Command::new("find")
            .arg(tree)
            .arg("-newer")
            .arg(&building)
            .args(["-type", "f", "(", "-name", "*.o", "-o", "-name", "*.a"])
            .args(["-o", "-name", "*.rmeta", "-o", "-name", "*vmlinux*", ")"])
            .arg("-delete"),
    )
}

/// What a guest with the kernel of a tree is made of.
pub fn parts(ctx: &Context, qemu: Qemu, tree: &Path) -> Result<Parts> {
    let release = fs::read_to_string(tree.join("include/config/kernel.release"))?;
    let image = match Config::of(tree)?.has("PVH") {
        true => tree.join("vmlinux"),
        false => tree.join("arch/x86/boot/bzImage"),
    };
    with_image(ctx, qemu, release.trim(), &image)
}

/// What a guest with the image of a kernel is made of.
pub fn parts_of_image(ctx: &Context, qemu: Qemu, image: &Path) -> Result<Parts> {
    with_image(ctx, qemu, "KERNEL_IMAGE", &seen(image)?)
}

/// Where a file of the machine is seen here.
pub fn seen(image: &Path) -> Result<PathBuf> {
    let seen = Path::new(HOST).join(image.strip_prefix("/").unwrap_or(image));
    ensure!(
        seen.is_file(),
        "KERNEL_IMAGE={}: there is no such file",
        image.display()
    );
    Ok(seen)
}

fn with_image(ctx: &Context, qemu: Qemu, release: &str, image: &Path) -> Result<Parts> {
    let kernel = Kernel {
        release: release.to_owned(),
        version: "".into(),
        flavour: Some(Flavour::Plain),
    };
    // QEMU shares the directory, which a kernel without modules does not need.
    let modules = ctx.out.join("no-modules");
    fs::create_dir_all(&modules)?;
    let image = Image {
        vmlinuz: image.to_owned(),
        vmlinux: image.to_owned(),
        modules,
    };
    Ok(Parts {
        initramfs: initramfs(ctx, &kernel, &image)?,
        qemu,
        root: ctx.root.clone(),
        kernel,
        image,
    })
}
