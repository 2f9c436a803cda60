// SPDX-License-Identifier: GPL-2.0

//! What is in the tarball.

use anyhow::{ensure, Context as _, Result};
use boot::modules::{self, FOR_HOST_FILES};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::deb::{self, Version};
use crate::kernel::{Image, Kernel};
use crate::packages;
use crate::qemu::Built;
use crate::step::Step;

/// The folder with what is the tarball's own.
const FOLDER: &str = "packaging/tarball";

/// QEMU, and its manual page.
const QEMU: &str = deb::QEMU_PROGRAM;

/// The directories with QEMU's firmware, and what x86 needs of them.
const FIRMWARE: [(&str, &[&str]); 2] = [
    (
        "/usr/share/seabios",
        &["bios-256k.bin", "vgabios-stdvga.bin", "vgabios-virtio.bin"],
    ),
    (
        "/usr/share/qemu",
        &[
            "keymaps",
            "kvmvapic.bin",
            "linuxboot.bin",
            "linuxboot_dma.bin",
            "multiboot.bin",
            "multiboot_dma.bin",
            "pvh.bin",
            "efi-e1000.rom",
            "efi-e1000e.rom",
            "efi-virtio.rom",
        ],
    ),
];

/// The texts of licences that Debian's copyright files refer to.
const COMMON_LICENCES: &str = "/usr/share/common-licenses";

/// What QEMU has of Debian's packages.
pub struct OfDebian {
    /// Its libraries, by the names that it loads them by.
    libraries: Vec<PathBuf>,
    /// Files and directories of firmware, by the names that it reads them by.
    firmware: Vec<PathBuf>,
    /// The packages that these belong to.
    packages: BTreeSet<String>,
    /// The directory with what Debian says of the licence of each.
    licences: PathBuf,
}

impl OfDebian {
    /// Finds it.
    pub fn of(ctx: &Context, qemu: &Built) -> Result<Self> {
        let list = packages::output(Command::new("ldd").arg(&qemu.binary))?;
        ensure!(!list.contains("not found"), "{list}");
        let libraries: Vec<_> = libraries(&list).into_iter().map(PathBuf::from).collect();
        let in_directory = |(directory, names): (&str, &[&str])| -> Vec<_> {
            let directory = Path::new(directory);
            names.iter().map(|name| directory.join(name)).collect()
        };
        let firmware: Vec<_> = FIRMWARE.into_iter().flat_map(in_directory).collect();
        let files = libraries
            .iter()
            .chain(&firmware)
            .map(|it| it.canonicalize());
        let packages = packages_of(&files.collect::<io::Result<Vec<_>>>()?)?;
        Ok(Self {
            libraries,
            firmware,
            licences: licences(ctx, &packages)?,
            packages,
        })
    }
}

/// The directory whose contents the tarball has.
pub struct Tree<'a> {
    pub ctx: &'a Context,
    pub step: &'a Step,
    pub path: PathBuf,
}

impl Tree<'_> {
    /// A directory, which is made.
    fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Copies a program, without its symbols.
    fn program(&self, from: &Path, to: &Path) -> Result<()> {
        self.step
            .run(Command::new("strip").arg("-o").arg(to).arg(from))
    }

    /// A manual page of the project.
    fn page(&self, page: &Path) -> Result<()> {
        let name = page.file_name().unwrap_or_default();
        copy(page, &self.directory("share/man/man1")?.join(name))
    }

    /// The program `counted`.
    pub fn counted(&self, program: &Path) -> Result<()> {
        self.program(program, &self.directory("bin")?.join("counted"))?;
        self.page(&self.ctx.top.join("packaging/counted.1"))
    }

    /// QEMU, its libraries and its firmware.
    pub fn qemu(&self, qemu: &Built, of_debian: &OfDebian) -> Result<()> {
        let script = self.ctx.top.join(FOLDER).join(QEMU);
        copy(&script, &self.directory("bin")?.join(QEMU))?;
        self.page(&deb::page_of_qemu(self.ctx))?;
        let to = self.directory("lib/qemu")?;
        self.program(&qemu.binary, &to.join(QEMU))?;
        for library in &of_debian.libraries {
            copy(library, &to.join(library.file_name().unwrap_or_default()))?;
        }
        let to = self.directory("share/qemu")?;
        for firmware in &of_debian.firmware {
            self.copy_all(firmware, &to.join(firmware.file_name().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// The kernel, the modules that a guest needs, and rust_perf.
    pub fn kernel(&self, kernel: &Kernel, image: &Image, rust_perf: &Path) -> Result<()> {
        let to = self.directory("lib/counted")?;
        copy(&image.vmlinuz, &to.join("vmlinuz"))?;
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg("-o");
        self.step
            .run(strip.arg(to.join("rust_perf.ko")).arg(rust_perf))?;
        let release = Path::new("lib/modules").join(&kernel.release);
        let from = image.modules.join(&kernel.release);
        let modules = to.join(release);
        fs::create_dir_all(modules.join("kernel"))?;
        // Not compressed, because the machine may lack the program that decompresses them.
        for (name, contents) in modules::read(&from, &FOR_HOST_FILES)? {
            fs::write(modules.join("kernel").join(name), contents)?;
        }
        for name in ["modules.builtin", "modules.order"] {
            copy(&from.join(name), &modules.join(name))?;
        }
        self.step.run(
            Command::new("depmod")
                .arg("--basedir")
                .arg(&to)
                .arg(&kernel.release),
        )
    }

    /// The page to read first, and the licences.
    pub fn documents(
        &self,
        kernel: &Kernel,
        image: &Image,
        qemu: &Built,
        of_debian: &OfDebian,
    ) -> Result<()> {
        let packages = &of_debian.packages;
        let of_kernel = ["binary", "modules"].map(|kind| kernel.package(kind));
        let to = self.directory("share/doc/counted")?;
        for name in packages {
            copy(
                &of_debian.licences.join(name),
                &to.join(format!("copyright-of-{name}")),
            )?;
        }
        for name in &of_kernel {
            let from = image.modules.join("../../share/doc").join(name);
            let to = to.join(format!("copyright-of-{name}"));
            copy(&from.join("copyright"), &to)?;
        }
        self.copy_all(Path::new(COMMON_LICENCES), &to.join("common-licenses"))?;
        fs::write(
            to.join("copyright-of-counted"),
            deb::licences::of_programs(self.ctx)?,
        )?;
        fs::write(
            to.join(format!("copyright-of-{QEMU}")),
            deb::licences::of_qemu(self.ctx, qemu)?,
        )?;

        let readme = fs::read_to_string(self.ctx.top.join(FOLDER).join("README.in"))?;
        let mut readme = readme
            .replace("@RELEASE@", &kernel.release)
            .replace("@QEMU_VERSION@", &qemu.version()?);
        readme += &sources(packages)?;
        for name in of_kernel {
            readme += &format!("{name} linux {}\n", kernel.version);
        }
        Ok(fs::write(self.path.join("README"), readme)?)
    }

    /// The source of this project.
    pub fn source(&self, version: &Version) -> Result<()> {
        let name = format!("rust_perf-{}", version.of_packages());
        let tar = self.directory("source")?.join(format!("{name}.tar"));
        deb::archive(self.ctx, &name, &tar)?;
        self.step.run(Command::new("xz").arg(tar))
    }

    /// Copies a directory, or a file.
    fn copy_all(&self, from: &Path, to: &Path) -> Result<()> {
        self.step.run(
            Command::new("cp")
                .args(["--recursive", "--dereference"])
                .arg(from)
                .arg(to),
        )
    }
}

/// Gets what Debian says of the licences of packages: a file for each, of its name. It is that of the newest
/// version, because a mirror may no longer have the one of the build root.
fn licences(ctx: &Context, packages: &BTreeSet<String>) -> Result<PathBuf> {
    Entry {
        name: "licences",
        key: Key::new(ctx).recipe(0).texts(packages).finish(),
        title: "licences of QEMU's libraries".to_owned(),
        megabytes: 200,
    }
    .get(ctx, |step, dir| {
        let unpacked = tempfile::tempdir_in(dir)?;
        let documents = unpacked.path().join("usr/share/doc");
        let mut missing = packages.clone();
        let mut seen = BTreeSet::new();
        while !missing.is_empty() {
            packages::unpack_newest(ctx, step, &missing, unpacked.path())?;
            seen.append(&mut missing);
            // The directory of a package may be a link to that of another one.
            for name in &seen {
                if let Ok(other) = fs::read_link(documents.join(name)) {
                    missing.insert(other.to_string_lossy().into_owned());
                }
            }
            missing.retain(|name| !seen.contains(name));
        }
        for name in packages {
            copy(&documents.join(name).join("copyright"), &dir.join(name))?;
        }
        Ok(())
    })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// The shared libraries in the output of ldd, with that which loads the others.
fn libraries(list: &str) -> Vec<&str> {
    let paths = list
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.collect()
}

/// The packages that files belong to.
fn packages_of(files: &[PathBuf]) -> Result<BTreeSet<String>> {
    let found = packages::output(Command::new("dpkg-query").arg("--search").args(files))?;
    let names: BTreeSet<_> = found
        .lines()
        .filter_map(package)
        .map(str::to_owned)
        .collect();
    ensure!(!names.is_empty(), "no packages: {found}");
    Ok(names)
}

/// The package in a line such as `zlib1g:amd64: /usr/lib/x86_64-linux-gnu/libz.so.1.3.1`.
fn package(line: &str) -> Option<&str> {
    line.split(':').next()
}

/// A line for each package: its name, its source package, and the version of that.
fn sources(packages: &BTreeSet<String>) -> Result<String> {
    let format = "${Package} ${source:Package} ${source:Version}\n";
    packages::output(
        Command::new("dpkg-query")
            .args(["--show", "--showformat", format])
            .args(packages),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_program() {
        let list = "\tlinux-vdso.so.1 (0x00007f0)\n\
                    \tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f1)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n";
        assert_eq!(
            libraries(list),
            [
                "/lib/x86_64-linux-gnu/libz.so.1",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
    }

    #[test]
    fn packages_of_files() {
        assert_eq!(package("zlib1g:amd64: /usr/lib/libz.so.1"), Some("zlib1g"));
        assert_eq!(
            package("seabios: /usr/share/seabios/bios.bin"),
            Some("seabios")
        );
    }
}
