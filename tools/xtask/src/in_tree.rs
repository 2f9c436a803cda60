// SPDX-License-Identifier: GPL-2.0

//! `make test-in-tree`: the guest tests with the kernel's own driver, arch/x86/events, on emulated CPUs.
//!
//! What fails is compared with a [record](record) of Debian's kernel, so that a developer reads what a
//! change has broken or mended.

mod record;
mod regressions;
mod tree;

use anyhow::{ensure, Result};
use clap::builder::FalseyValueParser;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use suites::{Filter, Inventory, Suite, SystemEvent};

use crate::cache;
use crate::context::Context;
use crate::guest::{self, Parts};
use crate::guest_tests;
use crate::kernel;
use crate::qemu::Qemu;
use crate::select::{Request, Selected};
use crate::test::{Reporter, Runner, Tally};

pub use record::Record;
pub use regressions::{check, planted_in_tree, Options as PlantedOptions};

/// The suites that run if none is named: a CPU of each kind that the driver handles on its own.
const SUITES: &str = "hw-v2 hw-v3 hw-v5 amd-legacy amd-v2";

/// The command of users.
const COMMAND: &str = "make test-in-tree";

/// Which kernel to test, and with which tests.
#[derive(Args)]
pub struct Options {
    /// Build and test this kernel source, which has a .config. Default: out/in-tree, a copy of Debian's source.
    #[arg(long, env = "RUST_PERF_KDIR", value_name = "DIR")]
    kdir: Option<PathBuf>,
    /// Test this image of a kernel.
    #[arg(
        long,
        env = "RUST_PERF_KERNEL_IMAGE",
        value_name = "FILE",
        conflicts_with = "kdir"
    )]
    kernel_image: Option<PathBuf>,
    /// Run the suites that match a glob, instead of one of each kind of CPU.
    #[arg(long, env = "RUST_PERF_SUITE", value_name = "GLOB…")]
    suite: Option<String>,
    /// Run only the tests that match a glob.
    #[arg(long, env = "RUST_PERF_TEST", value_name = "GLOB…")]
    test: Option<String>,
    /// Run every suite that needs nothing but the driver.
    #[arg(long, env = "RUST_PERF_ALL", value_parser = FalseyValueParser::new())]
    all: bool,
    /// Replace the record by what the tests say of Debian's kernel.
    #[arg(long, env = "BLESS", hide = true, value_parser = FalseyValueParser::new())]
    bless: bool,
    #[command(flatten)]
    guest: guest::Options,
}

impl Options {
    /// The suites and tests to run.
    fn select(&self, inventory: &Inventory) -> Result<Vec<Selected>> {
        let suites = match &self.suite {
            None if self.all || self.test.is_some() => None,
            globs => Some(globs.as_deref().unwrap_or(SUITES)),
        };
        let request = Request {
            suites: suites.map(Filter::new),
            tests: self.test.as_deref().map(Filter::new),
            all: self.all,
            only: Some(needs_the_driver_alone),
            ..Request::default()
        };
        let selected = request.select(inventory)?;
        ensure!(
            !selected.is_empty(),
            "these suites need the module, a program or a machine that {COMMAND} does not have.\n  \
             try: SUITE='{SUITES}'"
        );
        Ok(selected)
    }

    /// The command that runs suites with the same kernel.
    fn command(&self) -> String {
        let of = |name, path: &Option<PathBuf>| {
            path.as_ref().map_or_else(String::new, |path| {
                let path = path.to_string_lossy();
                format!(" {name}={}", shell_words::quote(&path))
            })
        };
        let [kdir, image] = [
            of("KDIR", &self.kdir),
            of("KERNEL_IMAGE", &self.kernel_image),
        ];
        format!("{COMMAND}{kdir}{image}")
    }

    /// Checks what takes no time to check.
    fn check(&self) -> Result<()> {
        ensure!(
            !self.guest.primary,
            "PRIMARY=1 is about rust_perf, which is not loaded here"
        );
        let of_debian = self.kdir.is_none() && self.kernel_image.is_none();
        ensure!(
            !self.bless || of_debian && self.test.is_none(),
            "the record is of whole suites and of Debian's kernel: leave out TEST, KDIR and KERNEL_IMAGE"
        );
        match (&self.kdir, &self.kernel_image) {
            (Some(tree), _) => tree::check(tree),
            (None, Some(image)) => tree::seen(image).map(drop),
            (None, None) => Ok(()),
        }
    }

    /// Builds the kernel.
    fn parts(&self, ctx: &Context, kernel: &kernel::Options) -> Result<Parts> {
        let qemu = Qemu::patched(ctx)?;
        if let Some(image) = &self.kernel_image {
            return tree::parts_of_image(ctx, qemu, image);
        }
        let tree = match &self.kdir {
            Some(tree) => tree.clone(),
            None => {
                let built = tree::built(ctx, kernel)?;
                // What was changed in out/in-tree is not Debian's.
                if self.bless {
                    return tree::parts(ctx, qemu, &built);
                }
                tree::own(ctx, &built, "in-tree")?
            }
        };
        tree::build(ctx, &tree)?;
        tree::parts(ctx, qemu, &tree)
    }
}

/// Whether tests of a suite can run without rust_perf and whatever is built for it.
fn needs_the_driver_alone(suite: &Suite) -> bool {
    !suite.primary
        && !suite.debian_qemu
        && suite.example.is_none()
        && suite.kernel_programs().is_none()
        && !suite.has_bolt()
        && suite.event == SystemEvent::None
        && suite.machine.pmu.is_some()
}

/// `make test-in-tree`.
pub fn test_in_tree(
    ctx: &Context,
    kernel: &kernel::Options,
    options: &Options,
) -> Result<ExitCode> {
    let started = Instant::now();
    options.check()?;
    let _lock = cache::lock(&ctx.out.join(".lock-test"), COMMAND)?;
    let program = guest_tests::build(ctx)?;
    // A wrong name should not be found after minutes of building.
    let selected = options.select(&guest_tests::inventory(&program)?)?;
    let parts = options.parts(ctx, kernel)?;
    let record = Record::read(ctx)?;
    let runner = Runner {
        record: Some(&record),
        ..runner(ctx, &parts, &program, &options.guest)
    };
    let reporter = Reporter {
        command: options.command(),
        user: &options.guest,
        kernel: &kernel::Options::default(),
    };
    let mut tally = Tally::default();
    runner.run(&selected, Tally::default, &reporter, &mut tally);
    println!("{}", record.compared());
    if options.bless {
        record.write(ctx, options.all && options.suite.is_none())?;
    }
    Ok(tally.finish(started.elapsed()))
}

/// What runs suites with the kernel's own driver.
fn runner<'a>(
    ctx: &'a Context,
    parts: &'a Parts,
    program: &'a Path,
    user: &'a guest::Options,
) -> Runner<'a> {
    Runner {
        pmu: Some("cpu"),
        ..Runner::new(ctx, parts, program, user)
    }
}
