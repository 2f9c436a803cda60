// SPDX-License-Identifier: GPL-2.0

//! Builds rust_perf.ko, and as modules of their own examples and what tests need.

use anyhow::{bail, ensure, Context as _, Result};
use clap::Args;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use suites::TestModule;

use crate::cache;
use crate::context::Context;
use crate::debug_kernel;
use crate::kernel::{self, Kernel};
use crate::step::Step;

/// How to build the module.
#[derive(Args)]
pub struct Options {
    /// A kernel build tree (default: that of Debian's kernel).
    #[arg(long, env = "RUST_PERF_KDIR")]
    kdir: Option<PathBuf>,
    /// Run clippy.
    #[arg(long, env = "RUST_PERF_CLIPPY", value_parser = clap::builder::FalseyValueParser::new())]
    clippy: bool,
    /// Build this example of rust_perf/examples instead.
    #[arg(long, env = "RUST_PERF_EXAMPLE")]
    example: Option<String>,
}

/// What to build.
#[derive(Clone, Copy)]
enum Target<'a> {
    /// rust_perf.ko.
    Driver,
    /// An example, by its name.
    Example(&'a str),
    /// A module in C that tests load.
    Test(TestModule),
}

impl<'a> Target<'a> {
    /// rust_perf.ko, unless an example is named.
    fn new(ctx: &Context, example: Option<&'a str>) -> Result<Self> {
        let Some(name) = example else {
            return Ok(Self::Driver);
        };
        let there = examples(ctx)?;
        ensure!(
            there.iter().any(|it| it == name),
            "no example {name}; in rust_perf/examples there is {}",
            there.join(", ")
        );
        Ok(Self::Example(name))
    }

    /// The module's name.
    fn name(self) -> &'a str {
        match self {
            Self::Driver => "rust_perf",
            Self::Example(name) => name,
            Self::Test(module) => module.name(),
        }
    }

    /// The folder that has its Kbuild.
    fn folder(self, ctx: &Context) -> PathBuf {
        match self {
            Self::Driver | Self::Example(_) => ctx.top.clone(),
            Self::Test(module) => ctx.top.join(module.folder()),
        }
    }

    /// What Kbuild knows it by.
    fn make_variable(self) -> String {
        match self {
            // The user's environment may have this variable.
            Self::Driver | Self::Test(_) => "EXAMPLE=".to_owned(),
            Self::Example(name) => format!("EXAMPLE={name}"),
        }
    }
}

/// The source of an example.
pub fn source(name: &str) -> String {
    format!("rust_perf/examples/{name}.rs")
}

/// The names of the examples.
pub fn examples(ctx: &Context) -> Result<Vec<String>> {
    let mut names: Vec<_> = fs::read_dir(ctx.top.join("rust_perf/examples"))?
        .filter_map(|file| {
            let path = file.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".rs")?;
            Some(name.to_owned())
        })
        .collect();
    names.sort();
    Ok(names)
}

/// A kernel build tree.
pub struct Tree {
    config: HashMap<String, String>,
    release: String,
}

impl Tree {
    /// Reads and checks a tree.
    pub fn read(kdir: &Path) -> Result<Self> {
        let name = kdir.display();
        let read = |file: &str| fs::read_to_string(kdir.join(file));
        let (Ok(config), Ok(release)) = (
            read("include/config/auto.conf"),
            read("include/config/kernel.release"),
        ) else {
            bail!(
                "KDIR={name} is not a kernel build tree, or not a configured one: it has no \
                 include/config/auto.conf (in a kernel source: make modules_prepare)"
            );
        };
        let tree = Self {
            config: parse_config(&config),
            release: release.trim().to_owned(),
        };
        ensure!(
            tree.config("CONFIG_RUST") == Some("y"),
            "KDIR={name}: its kernel is built without Rust (CONFIG_RUST is not set), so no Rust \
             module can be built for it"
        );
        ensure!(
            kdir.join("rust/libkernel.rmeta").exists() && kdir.join("rust/libcore.rmeta").exists(),
            "KDIR={name} has no Rust metadata (rust/*.rmeta), as distributions' headers packages \
             do not. For a Debian backports kernel, make deb KERNEL={0} makes a package of them, \
             and make rust-headers KERNEL={0} a KDIR; in a kernel source: make prepare \
             modules_prepare",
            tree.release
        );
        Ok(tree)
    }

    /// What `uname -r` says of its kernel.
    pub fn release(&self) -> &str {
        &self.release
    }

    fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    /// The version of the rustc that made its metadata, such as 1.85.1. No other can read it.
    pub fn rustc(&self) -> Result<String> {
        self.config("CONFIG_RUSTC_VERSION_TEXT")
            .and_then(|text| text.split(' ').nth(1))
            .map(str::to_owned)
            .context("the kernel's configuration names no rustc")
    }
}

fn parse_config(auto_conf: &str) -> HashMap<String, String> {
    auto_conf
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

/// The tool chain that can read a tree's Rust metadata.
pub enum ToolChain {
    /// The build root's.
    Root,
    /// The machine's own.
    Host,
}

impl ToolChain {
    /// A command that runs one of its programs.
    pub fn command(&self, program: &str) -> Command {
        match self {
            Self::Root => Command::new(program),
            Self::Host => {
                let mut command = Command::new("chroot");
                command.args(["/.host", "env"]);
                for (variable, of_host) in [
                    ("PATH", "RUST_PERF_HOST_PATH"),
                    ("HOME", "RUST_PERF_HOST_HOME"),
                ] {
                    let value = std::env::var(of_host).unwrap_or_default();
                    command.arg(format!("{variable}={value}"));
                }
                command.arg(program);
                command
            }
        }
    }

    fn rustc_version(&self) -> Option<String> {
        let output = self.command("rustc").arg("--version").output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The one that built the tree: no other rustc can read its metadata.
    fn of(tree: &Tree, kdir: &Path) -> Result<Self> {
        let wanted = tree.config("CONFIG_RUSTC_VERSION_TEXT").unwrap_or_default();
        let mut there = Vec::new();
        for (chain, name) in [(Self::Root, "the build root"), (Self::Host, "this machine")] {
            match chain.rustc_version() {
                Some(version) if version == wanted => return Ok(chain),
                Some(version) => there.push(format!("{name} has {version}")),
                None => there.push(format!("{name} has no rustc")),
            }
        }
        bail!(
            "KDIR={}: only {wanted} can read its Rust metadata, but {}",
            kdir.display(),
            there.join(", ")
        )
    }
}

/// `make module`.
pub fn module(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    let target = Target::new(ctx, options.example.as_deref())?;
    let module = match &options.kdir {
        Some(kdir) => build(ctx, kdir, target, options.clippy)?,
        None => {
            let kdir = kernel::kdir(ctx, &kernel::resolve(ctx, kernel)?)?;
            build(ctx, &kdir, target, options.clippy)?
        }
    };
    let result = ctx.out.join(format!("{}.ko", target.name()));
    fs::copy(&module, &result)?;
    println!("{}", result.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds the module for a Debian kernel.
pub fn for_kernel(ctx: &Context, kernel: &Kernel) -> Result<PathBuf> {
    build(ctx, &kernel::kdir(ctx, kernel)?, Target::Driver, false)
}

/// Builds the module for the kernel of a build tree.
pub fn for_tree(ctx: &Context, kdir: &Path) -> Result<PathBuf> {
    build(ctx, kdir, Target::Driver, false)
}

/// Builds an example for a Debian kernel.
pub fn example(ctx: &Context, kernel: &Kernel, name: &str) -> Result<PathBuf> {
    let target = Target::new(ctx, Some(name))?;
    build(ctx, &kernel::kdir(ctx, kernel)?, target, false)
}

/// Builds a module that tests load for a Debian kernel.
pub fn of_tests(ctx: &Context, kernel: &Kernel, module: TestModule) -> Result<PathBuf> {
    build(
        ctx,
        &kernel::kdir(ctx, kernel)?,
        Target::Test(module),
        false,
    )
}

/// Builds the module and the examples with clippy. A warning is an error.
pub fn lint(ctx: &Context, kernel: &Kernel) -> Result<()> {
    let kdir = kernel::kdir(ctx, kernel)?;
    build(ctx, &kdir, Target::Driver, true)?;
    for name in examples(ctx)? {
        build(ctx, &kdir, Target::Example(&name), true)?;
    }
    Ok(())
}

/// Where a module is built. Clippy is another compiler, so a build with it has a directory
/// of its own, and so has each example: its objects have the names of the driver's.
fn output_dir(ctx: &Context, release: &str, target: Target, clippy: bool) -> PathBuf {
    let name = if clippy { "clippy" } else { "module" };
    let name = match target {
        Target::Driver => name.to_owned(),
        Target::Example(_) | Target::Test(_) => format!("{name}-{}", target.name()),
    };
    ctx.out.join(name).join(release)
}

/// Builds a module. Returns a copy that no other run changes.
fn build(ctx: &Context, kdir: &Path, target: Target, clippy: bool) -> Result<PathBuf> {
    let tree = Tree::read(kdir)?;
    let chain = ToolChain::of(&tree, kdir)?;
    let out = output_dir(ctx, &tree.release, target, clippy);
    let _lock = cache::lock(&ctx.out.join(".lock-module"), "the module")?;
    if clippy && out.exists() {
        // Clippy warns only of what it compiles.
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;

    let (name, with) = if clippy {
        ("clippy-module", ", with clippy")
    } else {
        ("module", "")
    };
    let file = format!("{}.ko", target.name());
    let title = format!("{file} for {}{with}", tree.release);
    let step = Step::start(ctx, name, &title)?;
    let mut make = chain.command("make");
    make.arg("-C").arg(kdir);
    match chain {
        ToolChain::Host if tree.config("CONFIG_CC_IS_CLANG") == Some("y") => {
            make.arg("LLVM=1");
        }
        ToolChain::Host => {}
        ToolChain::Root if tree.config("CONFIG_CC_IS_CLANG") == Some("y") => {
            make.args(debug_kernel::MAKE_ARGS);
        }
        ToolChain::Root => {
            make.args(kernel::MAKE_ARGS);
        }
    }
    make.arg(format!("M={}", target.folder(ctx).display()))
        .arg(format!("MO={}", out.display()))
        .arg(target.make_variable())
        .arg(format!("-j{}", kernel::jobs()));
    if clippy {
        make.arg("CLIPPY=1");
    }
    step.run(make.arg("modules"))?;
    if clippy {
        let log = fs::read_to_string(step.log())?;
        ensure!(!warns(&log), step.failure("there are warnings"));
    }
    step.done();
    let module = out.join(&file);
    ensure!(
        module.is_file(),
        "the build made no {}: is there a Kbuild?",
        module.display()
    );
    keep(ctx, &module, &tree.release, name)
}

/// Makes the copy that guests get. It changes only as a whole: a guest may be starting meanwhile.
fn keep(ctx: &Context, module: &Path, release: &str, kind: &str) -> Result<PathBuf> {
    let dir = ctx.private(&format!("{kind}-{release}"));
    let copy = dir.join(module.file_name().unwrap_or_default());
    let write = || {
        fs::create_dir_all(&dir)?;
        let new = tempfile::NamedTempFile::new_in(&dir)?;
        fs::copy(module, &new)?;
        new.persist(&copy)?;
        anyhow::Ok(())
    };
    write().with_context(|| format!("cannot write {}", copy.display()))?;
    Ok(copy)
}

/// Whether a build's log has warnings of rustc, clippy, a C compiler or objtool.
fn warns(log: &str) -> bool {
    log.lines().any(|line| {
        line.starts_with("warning:") || line.contains(": warning:") || line.contains(".o: warning")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config() {
        let config =
            parse_config("CONFIG_RUST=y\nCONFIG_RUSTC_VERSION_TEXT=\"rustc 1.85.1 (x)\"\n");
        assert_eq!(config["CONFIG_RUST"], "y");
        assert_eq!(config["CONFIG_RUSTC_VERSION_TEXT"], "rustc 1.85.1 (x)");
        let tree = Tree {
            config,
            release: String::new(),
        };
        assert_eq!(tree.rustc().unwrap(), "1.85.1");
    }

    #[test]
    fn what_is_not_a_tree_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let error = |dir: &Path| Tree::read(dir).map(drop).unwrap_err().to_string();
        assert!(error(dir.path()).contains("is not a kernel build tree"));

        let config = dir.path().join("include/config");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("auto.conf"), "CONFIG_X=y\n").unwrap();
        fs::write(config.join("kernel.release"), "7.3.4+deb13-amd64\n").unwrap();
        assert!(error(dir.path()).contains("without Rust"));

        fs::write(config.join("auto.conf"), "CONFIG_RUST=y\n").unwrap();
        assert!(error(dir.path()).contains("KERNEL=7.3.4+deb13-amd64"));
    }

    #[test]
    fn warnings() {
        assert!(warns("warning: unused import: `x`\n"));
        assert!(warns("a.c:1:2: warning: unused variable\n"));
        assert!(!warns("  CC [M]  warning.o\n"));
    }
}
