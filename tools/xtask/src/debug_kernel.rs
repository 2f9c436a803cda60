// SPDX-License-Identifier: GPL-2.0

//! Kernels that are built from Debian's source. Two check themselves: `KERNEL=debug` finds memory errors
//! (KASAN), errors of locking (lockdep), leaks and undefined behaviour, `KERNEL=debug-kcsan` finds
//! data races and indirect calls of functions of another type (kCFI). `KERNEL=plain` has no checks, and
//! keeps what was built: it is there to be changed and built again, see [`in_tree`](crate::in_tree).
//!
//! Unlike Debian's kernel, `debug` has no IBT, and `debug-kcsan` exports what the module can
//! make use of: so the module is built and tested in these cases, too.
//!
//! They are built by clang, as Rust and KASAN need. Their configuration is `allnoconfig` and the
//! files in tools/xtask/kernel.

use anyhow::{ensure, Context as _, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::kernel::{self, Image, Kernel};
use crate::source::{self, Part};
use crate::step::Step;

/// What all of them have.
const BASE: &str = include_str!("../kernel/base.config");

/// How they are built.
pub const MAKE_ARGS: &[&str] = &["LLVM=-19", "LIBCLANG_PATH=/usr/lib/llvm-19/lib"];

/// The part of the source that the build does not read. Kconfig files stay.
const NOT_NEEDED: &[&str] = &[
    "Documentation/*.rst",
    "Documentation/*.yaml",
    "Documentation/*.txt",
    "arch/*/boot/dts",
    "drivers/gpu/*.[ch]",
    "drivers/media/*.[ch]",
    "drivers/net/*/*.[ch]",
    "drivers/scsi/*.[ch]",
    "drivers/staging/*.[ch]",
    "sound/*.[ch]",
    "tools/perf",
    "tools/testing",
];

/// Which checks a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// KASAN, lockdep and the like.
    Kasan,
    /// KCSAN.
    Kcsan,
    /// No checks.
    Plain,
}

impl Flavour {
    const ALL: [Self; 3] = [Self::Kasan, Self::Kcsan, Self::Plain];

    /// The flavour that `KERNEL=` names.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// What `KERNEL=` calls it. The release ends with it as well.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kasan => "debug",
            Self::Kcsan => "debug-kcsan",
            Self::Plain => "plain",
        }
    }

    /// Its configuration, besides [`BASE`].
    fn config(self) -> &'static str {
        match self {
            Self::Kasan => include_str!("../kernel/debug.config"),
            Self::Kcsan => include_str!("../kernel/debug-kcsan.config"),
            Self::Plain => include_str!("../kernel/plain.config"),
        }
    }

    /// The lines that are added to files of the source.
    fn additions(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Kasan | Self::Plain => &[],
            Self::Kcsan => &[
                (
                    "kernel/events/core.c",
                    "EXPORT_SYMBOL_GPL(perf_event_overflow);",
                ),
                // By itself this file compiles two objects of each module for KCSAN, but without kCFI: see
                // docs/upstream/findings.md.
                ("scripts/Makefile.modfinal", "KCSAN_SANITIZE := n"),
            ],
        }
    }

    /// The release of a kernel of this version, such as 7.3.4-debug.
    pub fn release(self, version: &str) -> String {
        format!("{version}-{}", self.name())
    }
}

fn entry(ctx: &Context, kernel: &Kernel, flavour: Flavour) -> Entry<'static> {
    Entry {
        name: "debug-kernel",
        key: Key::new(ctx)
            .recipe(0)
            .text(&kernel.source_package())
            .text(&kernel.version.to_string())
            .text(&kernel.release)
            .texts(MAKE_ARGS)
            .text(kernel::QUICK_MACROS)
            .texts(NOT_NEEDED)
            .texts([BASE, flavour.config()])
            .texts(flavour.additions().iter().flat_map(|it| [it.0, it.1]))
            .finish(),
        title: format!("kernel {}", kernel.release),
        megabytes: 2500,
    }
}

/// The build tree of such a kernel, which has its image.
pub fn tree(ctx: &Context, kernel: &Kernel, flavour: Flavour) -> Result<PathBuf> {
    let source = || source::get(ctx, kernel);
    entry(ctx, kernel, flavour).get_from(ctx, source, |step, tree, source| {
        let part = Part {
            not_needed: NOT_NEEDED,
            ..Part::default()
        };
        source.unpack(step, &part, tree)?;
        for (file, line) in flavour.additions() {
            let mut file = File::options().append(true).open(tree.join(file))?;
            writeln!(file, "{line}")?;
        }
        let wanted = format!(
            "{BASE}{}CONFIG_LOCALVERSION=\"-{}\"\n",
            flavour.config(),
            flavour.name()
        );
        let file = tree.join("wanted.config");
        fs::write(&file, &wanted)?;
        let make = || {
            let mut make = match flavour {
                Flavour::Plain => make_at_one_place(tree),
                Flavour::Kasan | Flavour::Kcsan => make_at_its_place(tree),
            };
            make.args(MAKE_ARGS);
            make.args([kernel::QUICK_MACROS, &format!("-j{}", kernel::jobs())]);
            make
        };
        step.run(
            make()
                .arg(format!("KCONFIG_ALLCONFIG={}", file.display()))
                .arg("allnoconfig"),
        )?;
        let missing = missing(&wanted, &fs::read_to_string(tree.join(".config"))?);
        ensure!(
            missing.is_empty(),
            step.failure(&format!("not as configured: {}", missing.join(", ")))
        );
        step.run(make().args(["bzImage", "modules"]))?;
        step.run(
            make()
                .arg(format!("INSTALL_MOD_PATH={}", tree.join("usr").display()))
                .arg("modules_install"),
        )?;
        let release = fs::read_to_string(tree.join("include/config/kernel.release"))?;
        ensure!(
            release.trim() == kernel.release,
            step.failure(&format!("the tree says it is {}", release.trim()))
        );
        match flavour {
            Flavour::Plain => Ok(()),
            Flavour::Kasan | Flavour::Kcsan => remove_objects(step, tree),
        }
    })
}

/// Runs make in a tree.
pub fn make_at_its_place(tree: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("-C").arg(tree);
    make
}

/// Runs make in a tree or in a copy of it, at the same path. The commands that build objtool contain
/// the path. If they change, objtool is built again, and then every object that it has checked.
pub fn make_at_one_place(tree: &Path) -> Command {
    const SCRIPT: &str =
        "place=/usr/src/linux; mkdir -p $place; busybox mount -o bind \"$0\" $place; \
        exec make -C $place \"$@\"";
    let mut make = Command::new("unshare");
    make.args(["--mount", "sh", "-ec", SCRIPT]).arg(tree);
    make
}

/// The image of such a kernel. It has no modules.
pub fn image(ctx: &Context, kernel: &Kernel, flavour: Flavour) -> Result<Image> {
    let tree = tree(ctx, kernel, flavour)?;
    Ok(Image {
        vmlinuz: tree.join("arch/x86/boot/bzImage"),
        vmlinux: tree.join("vmlinux"),
        modules: tree.join("usr/lib/modules"),
    })
}

/// The lines of a configuration that another one does not have.
fn missing<'a>(wanted: &'a str, config: &str) -> Vec<&'a str> {
    let has = |line: &str| config.lines().any(|it| it == line);
    let is_set = |name: &str| {
        config
            .lines()
            .any(|it| it.split_once('=').is_some_and(|(it, _)| it == name))
    };
    wanted
        .lines()
        .filter(|line| line.starts_with("CONFIG_"))
        .filter(|line| match line.strip_suffix("=n") {
            Some(name) => is_set(name),
            None => !has(line),
        })
        .collect()
}

/// Removes what was built on the way to the image. Module builds need the tools.
fn remove_objects(step: &Step, tree: &Path) -> Result<()> {
    let directories = fs::read_dir(tree)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()
        .context("the tree")?;
    let built = directories
        .into_iter()
        .filter(|path| path.is_dir() && !path.ends_with("scripts") && !path.ends_with("tools"));
    step.run(
        Command::new("find")
            .args(built)
            .args(["(", "-name", "*.o", "-o", "-name", "*.a", ")", "-delete"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_configuration_lacks() {
        let config = "CONFIG_A=y\nCONFIG_B=\"x\"\n# CONFIG_C is not set\n";
        assert_eq!(
            missing("CONFIG_A=y\nCONFIG_C=n\nCONFIG_D=n\n", config),
            [""; 0]
        );
        let wanted = "# text\nCONFIG_A=n\nCONFIG_B=\"y\"\nCONFIG_C=y\n";
        assert_eq!(
            missing(wanted, config),
            ["CONFIG_A=n", "CONFIG_B=\"y\"", "CONFIG_C=y"]
        );
    }

    #[test]
    fn flavours_have_names() {
        for flavour in Flavour::ALL {
            assert_eq!(Flavour::named(flavour.name()), Some(flavour));
        }
        assert_eq!(Flavour::named("7.3.4+deb13-amd64"), None);
        assert_eq!(Flavour::Kasan.release("7.3.4"), "7.3.4-debug");
    }
}
