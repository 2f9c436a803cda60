// SPDX-License-Identifier: GPL-2.0
//! Tests of rust_pmu from inside the guest.
//!
//! They run as root, in suites (see [`suite`]), and report in KTAP. The truth
//! is known wherever it can be: the workloads are assembly whose instructions
//! are counted in its comments, so a test asserts a number, not a range.
//!
//! `--pmu cpu` turns the same tests on the in-tree driver. That is how to tell
//! a fault of the driver from one of the emulated hardware.

mod bpf;
mod ctx;
mod kmsg;
mod ktap;
mod module;
mod msr;
mod need;
mod pmu;
mod program;
mod setting;
mod suite;
mod tests;
mod tool;
mod workload;

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgGroup, Parser};

use crate::ctx::{Ctx, RUST_PMU};
use crate::setting::SampleRate;
use crate::suite::SystemEvent;

/// Tests of rust_pmu, to be run in the guest as root.
#[derive(Parser)]
#[command(group = ArgGroup::new("what").required(true))]
struct Args {
    /// List the suites and the guests they want, tab-separated
    #[arg(long, group = "what")]
    list: bool,
    /// Run a suite and report in KTAP
    #[arg(long, group = "what", value_name = "NAME")]
    suite: Option<String>,
    /// The PMU to test
    #[arg(long, default_value = RUST_PMU)]
    pmu: String,
    /// What random choices begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let Some(name) = args.suite else {
        suite::list();
        return Ok(ExitCode::SUCCESS);
    };
    let suite = suite::find(&name)?;
    let ctx = Ctx {
        pmu: args.pmu,
        seed: args.seed,
    };
    let _rate = SampleRate::fixed(1_000_000)?;
    match suite.event {
        SystemEvent::None => {}
        SystemEvent::Kexec => tests::kexec::reboot_once(&ctx)?,
        SystemEvent::Sleep => tests::sleep::prepare()?,
    }
    let good = ktap::run(&ctx, suite.tests)?;
    if suite.event == SystemEvent::Sleep {
        tests::sleep::power_off();
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
