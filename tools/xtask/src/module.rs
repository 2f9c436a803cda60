// SPDX-License-Identifier: GPL-2.0

//! Builds rust_perf.ko, and as modules of their own examples and what tests need.

mod tree;

use anyhow::{ensure, Context as _, Result};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use suites::TestModule;

use crate::cache;
use crate::context::Context;
use crate::debug_kernel;
use crate::kernel::{self, Kernel};
use crate::step::Step;

pub use tree::{ToolChain, Tree};

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
    let out = output_dir(ctx, tree.release(), target, clippy);
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
    let title = format!("{file} for {}{with}", tree.release());
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
    keep(ctx, &module, tree.release(), name)
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
    fn warnings() {
        assert!(warns("warning: unused import: `x`\n"));
        assert!(warns("a.c:1:2: warning: unused variable\n"));
        assert!(!warns("  CC [M]  warning.o\n"));
    }
}
