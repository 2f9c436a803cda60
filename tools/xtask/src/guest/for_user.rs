// SPDX-License-Identifier: GPL-2.0

//! `make guest` and `make shell`: a guest that the user asked for.

use anyhow::{bail, ensure, Result};
use clap::Args;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use suites::Suite;

use super::settings::Settings;
use super::{Guest, LimitOf, Options, Outcome, Parts};
use crate::bolt;
use crate::context::Context;
use crate::guest_tests;
use crate::kernel;
use crate::kernel_programs;
use crate::module;
use crate::qemu::Qemu;
use crate::select;

/// The exit status of a guest that timed out, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// The exit status that a shell gives a command that SIGPIPE ended.
const BROKEN_PIPE: u8 = 141;

/// A guest that the user asked for.
#[derive(Args)]
pub struct UserGuest {
    /// Make the guest like that of a suite, with guest-tests in PATH.
    #[arg(long, env = "RUST_PERF_SUITE")]
    suite: Option<String>,
    /// Load this example of rust_perf/examples as well.
    #[arg(long, env = "RUST_PERF_EXAMPLE")]
    example: Option<String>,
    #[command(flatten)]
    options: Options,
}

impl Guest<'_> {
    /// Runs it for the user: its output and exit status become ours.
    pub fn run_for_user(&self, ctx: &Context, parts: &Parts) -> Result<ExitCode> {
        let end = self.run(ctx, parts, Box::new(io::stdout()), Box::new(io::stderr()))?;
        match end.outcome {
            Outcome::Exited(status) => Ok(ExitCode::from(status)),
            Outcome::Unread => Ok(ExitCode::from(BROKEN_PIPE)),
            Outcome::TimedOut => {
                eprintln!("rust_perf: {}", self.explain(&end));
                Ok(ExitCode::from(TIMED_OUT))
            }
            Outcome::Died(_) => bail!("{}", self.explain(&end)),
        }
    }
}

/// `make guest`.
pub fn command(
    ctx: &Context,
    kernel: &kernel::Options,
    guest: &UserGuest,
    cmd: &str,
) -> Result<ExitCode> {
    user_guest(ctx, kernel, guest, "guest", Some(cmd))
}

/// `make shell`.
pub fn shell(ctx: &Context, kernel: &kernel::Options, guest: &UserGuest) -> Result<ExitCode> {
    ensure!(
        io::stdin().is_terminal(),
        "make shell needs a terminal; for one command: make guest CMD='…'"
    );
    user_guest(ctx, kernel, guest, "shell", None)
}

fn user_guest(
    ctx: &Context,
    kernel: &kernel::Options,
    guest: &UserGuest,
    name: &str,
    command: Option<&str>,
) -> Result<ExitCode> {
    let options = &guest.options;
    let suite = guest.suite.as_deref().map(select::suite).transpose()?;
    let parts = Parts::prepare(ctx, kernel, Qemu::chosen(ctx, options.qemu(suite)?)?)?;
    // A suite's tests may load the module themselves.
    let module = match (options.no_module, suite) {
        (true, None) => None,
        _ => Some(module::for_kernel(ctx, &parts.kernel)?),
    };
    let of_suite = suite.and_then(|suite| suite.example);
    let example = guest.example.as_deref().or(of_suite);
    let example = example.map(|name| module::example(ctx, &parts.kernel, name));
    let example = example.transpose()?;
    let test_module = suite.and_then(|suite| suite.test_module());
    let test_module = test_module.map(|it| module::of_tests(ctx, &parts.kernel, it));
    let test_module = test_module.transpose()?;
    let kernel_programs = suite.and_then(|suite| suite.kernel_programs());
    let kernel_programs = kernel_programs.map(|it| kernel_programs::build(ctx, &parts.kernel, it));
    let kernel_programs = kernel_programs.transpose()?;
    let bolt = suite.filter(|suite| suite.has_bolt());
    let bolt = bolt.map(|_| bolt::get(ctx)).transpose()?;
    let tests = suite.map(|_| guest_tests::build(ctx)).transpose()?;
    if command.is_none() {
        let loaded = Settings::new(suite, options, "").load_module;
        eprintln!("{}", welcome(&options.share(ctx)?, suite, loaded));
    }
    Guest {
        logs: &ctx.guest_logs(name)?,
        module: module.as_deref(),
        example: example.as_deref(),
        test_module: test_module.as_deref(),
        kernel_programs: kernel_programs.as_deref(),
        bolt: bolt.as_deref(),
        command,
        suite,
        tests: tests.as_deref(),
        limit: LimitOf::Guest,
        may_restore: false,
        options,
    }
    .run_for_user(ctx, &parts)
}

/// What the user of an interactive guest should know.
fn welcome(share: &Path, suite: Option<&Suite>, loaded: bool) -> String {
    let module = match loaded {
        true => "The module is loaded",
        false => "The module is not loaded",
    };
    let tests = suite.map_or(String::new(), |suite| {
        format!(
            "\nThis guest is that of suite {0}: `guest-tests` runs the suite, \
             `guest-tests 'THEME::TEST'` some of it.",
            suite.name
        )
    });
    format!(
        "{module}. {} is /mnt/share, the checkout is /mnt/checkout.{tests}\n\
         exit or Ctrl-D powers off; Ctrl-A x ends the guest at once.",
        share.display()
    )
}
