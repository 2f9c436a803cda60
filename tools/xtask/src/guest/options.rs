// SPDX-License-Identifier: GPL-2.0

//! What the user may choose about a guest.

use anyhow::{ensure, Context as _, Result};
use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use std::fs;
use std::path::PathBuf;
use suites::Suite;

use crate::context::Context;
use crate::qemu;

/// Whether a CPU has a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pmu {
    /// It has one.
    On,
    /// It has none.
    Off,
}

/// What the user may choose about a guest.
#[derive(Args, Clone, Default)]
// clap names a group after its struct, and "test" has Options of its own as well.
#[group(id = "guest")]
pub struct Options {
    /// A host directory for /mnt/share in the guest (default: out/share).
    #[arg(long, env = "RUST_PERF_SHARE")]
    pub share: Option<PathBuf>,
    /// More arguments for QEMU.
    #[arg(
        long,
        env = "RUST_PERF_QEMU_ARGS",
        default_value = "",
        allow_hyphen_values = true
    )]
    pub qemu_args: String,
    /// The number of virtual CPUs (default: 2, or the suite's).
    #[arg(long, env = "RUST_PERF_SMP")]
    pub smp: Option<u32>,
    /// More arguments for the kernel's command line.
    #[arg(long, env = "RUST_PERF_APPEND", default_value = "")]
    pub append: String,
    /// QEMU's -cpu. A suite's properties come after it.
    #[arg(long, env = "RUST_PERF_CPU")]
    pub cpu: Option<String>,
    /// Whether the CPU has a PMU (default: on, or the suite's; off with Debian's QEMU).
    #[arg(long, env = "RUST_PERF_PMU")]
    pub pmu: Option<Pmu>,
    /// Which QEMU runs the guest (default: patched, or the suite's).
    #[arg(long, env = "RUST_PERF_QEMU")]
    pub qemu: Option<qemu::Choice>,
    /// Do not load the module.
    #[arg(long)]
    pub no_module: bool,
    /// Boot without the in-tree driver, and load the module in its place.
    #[arg(long, env = "RUST_PERF_PRIMARY", value_parser = FalseyValueParser::new())]
    pub primary: bool,
    /// Seconds until the guest is stopped (default: 600; an interactive one is not); for
    /// the guest of a suite, seconds without a result.
    #[arg(long, env = "RUST_PERF_TIMEOUT")]
    pub timeout: Option<u64>,
}

impl Options {
    /// Whether they leave the guest as it is by default.
    pub fn are_usual(&self) -> bool {
        self.variables().is_empty() && !self.no_module
    }

    /// Which QEMU runs the guest. Fails if it cannot have the PMU that the user wants.
    pub fn qemu(&self, suite: Option<&Suite>) -> Result<qemu::Choice> {
        let of_suite = match suite.is_some_and(|suite| suite.debian_qemu) {
            true => qemu::Choice::Debian,
            false => qemu::Choice::Patched,
        };
        let choice = self.qemu.unwrap_or(of_suite);
        ensure!(
            (choice, self.pmu) != (qemu::Choice::Debian, Some(Pmu::On)),
            "PMU=on needs this project's QEMU: Debian's emulates no x86 PMU"
        );
        ensure!(
            !self.primary || choice == qemu::Choice::Patched && self.pmu != Some(Pmu::Off),
            "PRIMARY=1 needs a CPU with counters: neither PMU=off nor QEMU=debian"
        );
        Ok(choice)
    }

    /// The variables that make this guest again, for a `make` command.
    pub fn variables(&self) -> String {
        let smp = self.smp.map(|smp| smp.to_string());
        let pmu = self.pmu.map(|pmu| match pmu {
            Pmu::On => "on",
            Pmu::Off => "off",
        });
        let qemu = self.qemu.map(|qemu| match qemu {
            qemu::Choice::Patched => "patched",
            qemu::Choice::Debian => "debian",
        });
        [
            ("SMP", smp.as_deref().unwrap_or_default()),
            ("PMU", pmu.unwrap_or_default()),
            ("QEMU", qemu.unwrap_or_default()),
            ("PRIMARY", if self.primary { "1" } else { "" }),
            ("CPU", self.cpu.as_deref().unwrap_or_default()),
            ("APPEND", self.append.as_str()),
            ("QEMU_ARGS", self.qemu_args.as_str()),
        ]
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .fold(String::new(), |variables, (name, value)| {
            variables + &format!(" {name}={}", shell_words::quote(value))
        })
    }

    /// The timeout of a guest that is not interactive.
    pub fn seconds(&self) -> u64 {
        self.timeout.unwrap_or(600)
    }

    /// The directory for /mnt/share.
    pub fn share(&self, ctx: &Context) -> Result<PathBuf> {
        let share = self.share.clone().unwrap_or_else(|| ctx.out.join("share"));
        fs::create_dir_all(&share).with_context(|| format!("cannot make {}", share.display()))?;
        Ok(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debians_qemu_is_chosen_by_the_user_or_the_suite() {
        let options = |qemu, pmu| Options {
            qemu,
            pmu,
            ..Options::default()
        };
        let debian = Some(qemu::Choice::Debian);
        let suite = suites::find("no-pmu-debian");
        let choice = |options: &Options, suite| options.qemu(suite).unwrap();
        assert_eq!(choice(&Options::default(), None), qemu::Choice::Patched);
        assert_eq!(choice(&Options::default(), suite), qemu::Choice::Debian);
        assert_eq!(choice(&options(debian, None), None), qemu::Choice::Debian);
        assert_eq!(
            choice(&options(Some(qemu::Choice::Patched), None), suite),
            qemu::Choice::Patched
        );
        assert_eq!(
            choice(&options(debian, Some(Pmu::Off)), None),
            qemu::Choice::Debian
        );
        let error = options(debian, Some(Pmu::On)).qemu(None).unwrap_err();
        assert!(error.to_string().contains("PMU=on"), "{error}");
        assert_eq!(options(debian, None).variables(), " QEMU=debian");
    }
}
