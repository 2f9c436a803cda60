// SPDX-License-Identifier: GPL-2.0

//! `xtask` builds what a guest with `rust_perf` needs, runs guests, and reports.
//!
//! The Makefile calls `tools/bootstrap`, which starts this program inside the build
//! root, as process 1 of its own PID namespace and in its own mount namespace. What a
//! command needs is made in steps ([`step`]). Each is an entry of the cache ([`cache`])
//! with a hash of its inputs in its name.

#![forbid(unsafe_code)]

mod bench;
mod bench_ci;
mod bolt;
mod cache;
mod callgraph;
mod cargo_tool;
mod context;
mod copy;
mod counted;
mod coverage;
mod cpus;
mod deb;
mod debug_kernel;
mod demo;
mod event_lists;
mod fuzz;
mod generations;
mod guest;
mod guest_tests;
mod hints;
mod host;
mod in_tree;
mod initramfs;
mod install;
mod kernel;
mod kernel_programs;
mod kselftest;
mod ktap;
mod module;
mod monitor;
mod mutants;
mod packages;
mod planted;
mod pump;
mod qemu;
mod saver;
mod select;
mod signals;
mod source;
mod step;
mod sysrq;
mod tarball;
mod test;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

use context::Context;

/// Prepares the build root, kernel, QEMU and guest of rust_perf, and runs them.
#[derive(Parser)]
#[command(name = "tools/bootstrap")]
struct Cli {
    #[command(flatten)]
    kernel: kernel::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Profile a real program in a guest.
    Demo(demo::Options),
    /// Run tests.
    Test(test::Options),
    /// Run the tests with the kernel's own driver.
    TestInTree(in_tree::Options),
    /// Check that the tests catch faults that the kernel's own driver has had.
    PlantedInTree(in_tree::PlantedOptions),
    /// Run the tests of `counted`: commands in guests.
    TestCounted(counted::Options),
    /// Make generations.md and cpus.md of docs/results from the last full run of the tests.
    Generations,
    /// Run an interactive guest.
    Shell(guest::UserGuest),
    /// Run one command in a fresh guest and exit with its status.
    Guest {
        /// The command, for sh.
        #[arg(long, env = "RUST_PERF_CMD")]
        cmd: Option<String>,
        #[command(flatten)]
        guest: guest::UserGuest,
    },
    /// Build rust_perf.ko.
    Module(module::Options),
    /// Make the stock Debian kernel's build tree fit for Rust modules.
    RustHeaders,
    /// Build Debian packages, and try them.
    Deb,
    /// Make a tarball of `counted` that needs no distribution, and try it.
    Tarball,
    /// Build the module for a kernel of this machine, and install it.
    Install(install::Options),
    /// Remove the module that was installed.
    Uninstall(install::Options),
    /// Install the guest tests as a kselftest collection.
    KselftestInstall(kselftest::Options),
    /// Install the packages on a Debian that has nothing else, and upgrade its kernel; also with Secure
    /// Boot.
    InstallTest,
    /// Unpack Intel's event lists from the kernel's source.
    EventLists,
    /// Check that the tests catch the bugs of tests/planted.
    Planted(planted::Options),
    /// Have libFuzzer look for inputs that make a fuzz target fail.
    Fuzz(fuzz::Options),
    /// Measure how much of the code the host tests reach.
    Coverage,
    /// Change the code in small ways, and see whether the host tests notice.
    Mutants(mutants::Options),
    /// Measure what the emulated PMU costs.
    Bench(bench::Options),
    /// Compare what `counted` counts and costs with cachegrind.
    BenchCi(bench_ci::Options),
    /// Look for a newer kernel in the package index.
    Update,
    /// Run a command in the build root, in the current directory.
    Run {
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, required = true)]
        argv: Vec<String>,
    },
}

fn run(cli: &Cli) -> Result<ExitCode> {
    let ctx = Context::from_env()?;
    signals::install()?;
    cache::sweep(&ctx)?;
    match &cli.command {
        Command::Demo(options) => demo::demo(&ctx, &cli.kernel, options),
        Command::Test(options) => test::test(&ctx, &cli.kernel, options),
        Command::TestInTree(options) => in_tree::test_in_tree(&ctx, &cli.kernel, options),
        Command::PlantedInTree(options) => in_tree::planted_in_tree(&ctx, &cli.kernel, options),
        Command::TestCounted(which) => counted::test_counted(&ctx, &cli.kernel, which),
        Command::Generations => generations::make(&ctx),
        Command::Shell(guest) => guest::shell(&ctx, &cli.kernel, guest),
        Command::Guest { cmd, guest } => {
            let cmd = cmd
                .as_deref()
                .context("name the command: make guest CMD='perf stat true'")?;
            guest::command(&ctx, &cli.kernel, guest, cmd)
        }
        Command::Module(options) => module::module(&ctx, &cli.kernel, options),
        Command::RustHeaders => kernel::rust_headers(&ctx, &cli.kernel),
        Command::Deb => deb::deb(&ctx, &cli.kernel),
        Command::Tarball => tarball::tarball(&ctx, &cli.kernel),
        Command::Install(options) => install::install(&ctx, options),
        Command::Uninstall(options) => install::uninstall(&ctx, options),
        Command::KselftestInstall(options) => kselftest::install(&ctx, &cli.kernel, options),
        Command::InstallTest => deb::install_test::install_test(&ctx, &cli.kernel),
        Command::EventLists => event_lists::event_lists(&ctx, &cli.kernel),
        Command::Planted(options) => planted::planted(&ctx, &cli.kernel, options),
        Command::Fuzz(options) => fuzz::fuzz(&ctx, options),
        Command::Coverage => coverage::coverage(&ctx, &cli.kernel),
        Command::Mutants(options) => mutants::mutants(&ctx, &cli.kernel, options),
        Command::Bench(options) => bench::bench(&ctx, &cli.kernel, options),
        Command::BenchCi(rounds) => bench_ci::bench_ci(&ctx, &cli.kernel, rounds),
        Command::Update => kernel::update(&ctx, &cli.kernel),
        Command::Run { argv } => {
            let status = std::process::Command::new(&argv[0])
                .args(&argv[1..])
                .current_dir(std::env::var_os("RUST_PERF_CWD").unwrap_or(".".into()))
                .status()
                .with_context(|| format!("cannot run {}", argv[0]))?;
            Ok(step::exit_code(status))
        }
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            signals::park_if_interrupted();
            eprintln!("rust_perf: {error:#}");
            ExitCode::FAILURE
        }
    }
}
