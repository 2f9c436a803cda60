// SPDX-License-Identifier: GPL-2.0

//! `make test`: what needs no guest ([`host`]), then the suites of guest tests.

mod reporter;
mod runner;
mod tally;
mod verdict;

use anyhow::{ensure, Result};
use clap::builder::FalseyValueParser;
use clap::Args;
use std::collections::hash_map::Entry;
use std::panic;
use std::process::ExitCode;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;
use suites::{Filter, OtherKernel};

use crate::bolt;
use crate::cache;
use crate::context::Context;
use crate::counted;
use crate::deb;
use crate::debug_kernel::Flavour;
use crate::generations;
use crate::guest::{self, Parts};
use crate::guest_tests;
use crate::host;
use crate::kernel::{self, Kernel};
use crate::kernel_programs;
use crate::module;
use crate::qemu::{Choice, Qemu};
use crate::select::Request;
use crate::tarball;

pub use reporter::Reporter;
pub use runner::{guests_at_a_time, tests_with, Built, Runner};
pub use tally::Tally;
pub use verdict::{judge, read_results, Ran};

/// Which tests to run.
#[derive(Args)]
pub struct Options {
    /// Run only the suites that match a glob, and no host tests.
    #[arg(long, env = "RUST_PERF_SUITE", value_name = "GLOB…")]
    suite: Option<String>,
    /// Run only the guest tests that match a glob, and no host tests.
    #[arg(long, env = "RUST_PERF_TEST", value_name = "GLOB…")]
    test: Option<String>,
    /// Run every suite.
    #[arg(long, env = "RUST_PERF_ALL", value_parser = FalseyValueParser::new())]
    all: bool,
    /// With CI=true in the environment there are more suites, some also run on a kernel that checks
    /// itself, and the tests of counted, the installation test and the tarball's run. It has no effect with
    /// --all, or if suites or tests are named.
    #[arg(long, env = "CI", hide = true, value_parser = FalseyValueParser::new())]
    ci: bool,
    #[command(flatten)]
    guest: guest::Options,
}

impl Options {
    fn request(&self) -> Request {
        let filter = |globs: &Option<String>| globs.as_deref().map(Filter::new);
        Request {
            suites: filter(&self.suite),
            tests: filter(&self.test),
            all: self.all,
            ci: self.ci,
            only: None,
            on: None,
        }
    }

    /// Whether this is CI's run.
    fn is_ci(&self) -> bool {
        self.ci && !self.all && self.suite.is_none() && self.test.is_none()
    }
}

/// `make test`.
pub fn test(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    let started = Instant::now();
    let mut tally = Tally::default();
    // What keeps the tests from running is a failure too. The last line is there in any
    // case.
    if let Err(error) = run(ctx, kernel, options, &mut tally) {
        tally.check(|| Err(error));
    }
    Ok(tally.finish(started.elapsed()))
}

fn run(
    ctx: &Context,
    kernel: &kernel::Options,
    options: &Options,
    tally: &mut Tally,
) -> Result<()> {
    let request = options.request();
    // A wrong name should not be found after minutes of building.
    request.suites()?;
    // Two runs at a time would take longer than one after the other.
    let _lock = cache::lock(&ctx.out.join(".lock-test"), "make test")?;
    // Checked before anything takes time.
    options.guest.qemu(None)?;
    ensure!(
        !options.guest.primary,
        "PRIMARY=1 is for demo, guest and shell; to test it: make test SUITE='primary*'"
    );
    let on_older = request.is_everything() && !kernel.is_named();
    let parts = Parts::prepare(ctx, kernel, Qemu::patched(ctx)?)?;
    let asides = asides(ctx, kernel, &parts.kernel, options, &request);
    let ctx = &match asides.is_empty() {
        true => ctx.clone(),
        false => ctx.in_lines(),
    };
    thread::scope(|scope| {
        // They start before the suites, while rustc keeps one core busy.
        let running: Vec<_> = asides.into_iter().map(|it| scope.spawn(it)).collect();
        let mut wait = Some(|| {
            let join =
                |it: ScopedJoinHandle<_>| it.join().unwrap_or_else(|it| panic::resume_unwind(it));
            let mut tally = Tally::default();
            running.into_iter().for_each(|it| tally.add(join(it)));
            tally
        });
        let beside = || wait.take().map_or_else(Tally::default, |it| it());
        let ran = run_on(ctx, kernel, &parts, options, &request, tally, beside);
        // It failed before there were suites. That is said now, and again at the end.
        if let (Err(error), Some(wait)) = (&ran, wait) {
            eprintln!("{error:#}");
            tally.add(wait());
        }
        ran
    })?;
    if on_older {
        let older = || Ok(kernel::older(ctx, &parts.kernel)?.release);
        run_on_other(ctx, OtherKernel::Older, older, options, &request, tally);
    }
    Ok(())
}

/// A part of a run that is no suite on the usual kernel.
type Aside<'a> = Box<dyn FnOnce() -> Tally + Send + 'a>;

/// What runs beside the suites. The guests of each leave a core idle for much of their time.
fn asides<'a>(
    ctx: &Context,
    user: &kernel::Options,
    usual: &'a Kernel,
    options: &'a Options,
    request: &'a Request,
) -> Vec<Aside<'a>> {
    let is_whole = options.is_ci() || request.is_everything();
    let is_stock = usual.flavour.is_none();
    let has_host_tests = request.suites.is_none() && request.tests.is_none() && is_stock;
    let mut asides = Vec::<Aside<'a>>::new();
    if is_whole && !user.is_named() {
        let ctx = ctx.aside("checking");
        asides.push(Box::new(move || {
            let mut tally = Tally::default();
            let checking = || Ok(Flavour::Kasan.name().to_owned());
            run_on_other(
                &ctx,
                OtherKernel::Checking,
                checking,
                options,
                request,
                &mut tally,
            );
            tally
        }));
    }
    if has_host_tests {
        let ctx = ctx.aside("host");
        asides.push(Box::new(move || {
            let mut tally = Tally::default();
            if let Err(error) = host::test(&ctx, usual, &mut tally) {
                tally.check(|| Err(error));
            }
            if is_whole {
                if let Err(error) = counted::test(&ctx, usual, None, &mut tally) {
                    tally.check(|| Err(error));
                }
                tally.check_named("installation test", "make install-test", || {
                    deb::install_test::run(&ctx, usual)
                });
                tally.check_named("tarball", "make tarball", || {
                    tarball::make(&ctx, usual).map(drop)
                });
            }
            tally
        }));
    }
    asides
}

/// Runs the suites that are to run on another kernel as well.
fn run_on_other(
    ctx: &Context,
    other: OtherKernel,
    name: impl FnOnce() -> Result<String>,
    options: &Options,
    request: &Request,
    tally: &mut Tally,
) {
    let result = name().and_then(|name| {
        let request = Request {
            on: Some(other),
            ..request.clone()
        };
        let kernel = kernel::Options::named(&name);
        let parts = Parts::prepare(ctx, &kernel, Qemu::patched(ctx)?)?;
        run_on(
            ctx,
            &kernel,
            &parts,
            options,
            &request,
            tally,
            Tally::default,
        )
    });
    if let Err(error) = result {
        tally.check(|| Err(error));
    }
}

/// Runs what is asked for on a kernel. One guest less runs at a time until `beside` has ended.
fn run_on(
    ctx: &Context,
    kernel: &kernel::Options,
    parts: &Parts,
    options: &Options,
    request: &Request,
    tally: &mut Tally,
    beside: impl FnOnce() -> Tally + Send,
) -> Result<()> {
    let is_stock = parts.kernel.flavour.is_none();
    let program = guest_tests::build(ctx)?;
    let selected = request.select(&guest_tests::inventory(&program)?)?;
    let module = module::for_kernel(ctx, &parts.kernel)?;
    let mut on_debian_qemu = None;
    let mut built = Built::default();
    for selected in &selected {
        if let Some(name) = selected.suite.example {
            let examples = &mut built.examples;
            examples.insert(name, module::example(ctx, &parts.kernel, name)?);
        }
        if let Some(it) = selected.suite.test_module() {
            if let Entry::Vacant(entry) = built.test_modules.entry(it) {
                entry.insert(module::of_tests(ctx, &parts.kernel, it)?);
            }
        }
        if let Some(it) = selected.suite.kernel_programs() {
            if let Entry::Vacant(entry) = built.kernel_programs.entry(it) {
                entry.insert(kernel_programs::build(ctx, &parts.kernel, it)?);
            }
        }
        if selected.suite.has_bolt() && built.bolt.is_none() {
            built.bolt = Some(bolt::get(ctx)?);
        }
        let choice = options.guest.qemu(Some(selected.suite))?;
        if choice == Choice::Debian && on_debian_qemu.is_none() {
            on_debian_qemu = Some(Parts {
                qemu: Qemu::debian(ctx)?,
                ..parts.clone()
            });
        }
    }
    let runner = Runner {
        other_kernel: request.on.map(|_| parts.kernel.release.as_str()),
        on_debian_qemu: on_debian_qemu.as_ref(),
        built,
        module: Some(&module),
        ..Runner::new(ctx, parts, &program, &options.guest)
    };
    let reporter = Reporter {
        command: "make test".to_owned(),
        user: &options.guest,
        kernel,
    };
    let good = runner.run(&selected, beside, &reporter, tally);
    if request.is_full() && options.guest.are_usual() && is_stock && good {
        generations::keep(ctx)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ci_is_a_run_without_names() {
        let options = |ci, all, test: Option<&str>| Options {
            suite: None,
            test: test.map(str::to_owned),
            all,
            ci,
            guest: guest::Options::default(),
        };
        assert!(options(true, false, None).is_ci());
        assert!(!options(true, true, None).is_ci());
        assert!(!options(true, false, Some("a::b")).is_ci());
        assert!(!options(false, false, None).is_ci());
        assert!(options(true, true, None).request().is_full());
        assert!(!options(true, false, None).request().is_full());
        assert!(options(true, true, Some("a::b")).request().all);
    }
}
