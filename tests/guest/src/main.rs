// SPDX-License-Identifier: GPL-2.0
//! Tests of rust_pmu from inside the guest.
//!
//! They run as root, in suites (the crate `suites`), and report in KTAP. Most
//! workloads are assembly with a known number of instructions, so a test expects
//! an exact count, not a range.
//!
//! Without a suite, they run those tests that any machine may run: [`machine`].
//!
//! `--pmu cpu` runs the same tests on the in-tree driver, which tells a fault of
//! the driver from one of the emulated hardware.

mod accesses;
mod bench;
mod bpf;
mod clocks;
mod ctx;
mod generic_events;
mod keeper;
mod kmsg;
mod ktap;
mod kvm;
mod list;
mod machine;
mod module;
mod msr;
mod need;
mod pmu;
mod probe;
mod program;
mod selftest;
mod setting;
mod signals;
mod stress;
mod suite;
mod tests;
mod tool;
mod trace;
mod undo;
mod waiting;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Result};
use clap::{Parser, Subcommand};
use suites::log::Machine;
use suites::SystemEvent;

use crate::ctx::{Ctx, IN_TREE, RUST_PMU};
use crate::ktap::Entry;
use crate::setting::SampleRate;
use crate::waiting::Limits;

/// Runs tests of the module rust_perf, as root, and reports in KTAP.
///
/// Exits with 0 if no test failed, with 1 if one did, and with 4 if none applies.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The suite whose guest this is. Without it, only tests run that leave the machine as it is.
    #[arg(long, value_name = "NAME", env = "RUST_PERF_SUITE")]
    suite: Option<String>,
    /// Run only the tests that match a glob, such as `sampling::*`.
    #[arg(value_name = "THEME::TEST")]
    tests: Vec<String>,
    /// The PMU to test (default: the module's).
    #[arg(long)]
    pmu: Option<String>,
    /// The seed of random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the names of all tests as JSON, by group, and run none.
    #[arg(long)]
    names: bool,
    /// Print what each test asserts, and run none.
    #[arg(long)]
    list: bool,
}

/// What else there is than tests.
#[derive(Subcommand)]
enum Command {
    /// Stress the module's PMUs with random operations, from a seed.
    Stress(stress::Options),
    /// Measure what operations on events cost.
    Bench(bench::Options),
    /// Run tests that wait too long, to see what comes of that.
    #[command(hide = true)]
    Wait {
        /// The limits.
        seconds: u64,
    },
}

fn main() -> ExitCode {
    ktap::record_locations();
    match run(Args::parse()) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("guest-tests: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<ExitCode> {
    if args.names {
        println!("{}", serde_json::to_string(&suite::inventory())?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.list {
        print!("{}", list::markdown());
        return Ok(ExitCode::SUCCESS);
    }
    let name = match (args.suite, &args.command) {
        (_, Some(Command::Wait { seconds })) => {
            return waiting::check::run(Duration::from_secs(*seconds));
        }
        (Some(name), _) => name,
        (None, None) => return machine::run(&args.tests, args.pmu.as_deref(), args.seed),
        (None, Some(_)) => bail!("stress and bench need the guest of a suite: --suite NAME"),
    };
    let suite = suite::find(&name)?;
    let pmu = match &args.command {
        Some(Command::Stress(options)) => options.pmu.clone(),
        Some(Command::Bench(_) | Command::Wait { .. }) | None => args.pmu,
    };
    let own = if suite.primary { IN_TREE } else { RUST_PMU };
    let ctx = Ctx {
        suite,
        pmu: pmu.unwrap_or_else(|| own.to_owned()),
        seed: args.seed,
        no_counters: None,
        cpus: None,
    };
    match &args.command {
        Some(Command::Stress(options)) => {
            return stress::run(&ctx, options).map(|()| ExitCode::SUCCESS)
        }
        Some(Command::Bench(options)) => {
            return bench::run(&ctx, options).map(|()| ExitCode::SUCCESS)
        }
        Some(Command::Wait { .. }) | None => {}
    }
    let selected = suite::select(suite, &args.tests)?.into_iter();
    let selected: Vec<_> = selected
        .map(|test| Entry {
            ctx: &ctx,
            test,
            title: test.title(),
        })
        .collect();
    // Per tick that is more samples than any test takes, also if the host delays ticks.
    let rate = SampleRate::fixed(1_000_000_000)?;
    match suite.event {
        SystemEvent::None | SystemEvent::Saved => {}
        SystemEvent::Kexec => tests::kexec::reboot_once(&ctx)?,
        SystemEvent::Sleep => tests::sleep::prepare()?,
    }
    let totals = ktap::run(&selected, Machine::Guest, Limits::of(suite))?;
    drop(rate);
    if suite.event == SystemEvent::Sleep {
        tests::sleep::power_off();
    }
    Ok(match totals.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
