// SPDX-License-Identifier: GPL-2.0

//! `make bench`: what operations on events cost with both drivers, on each generation; and what the
//! emulated PMU costs.

mod environment;
mod figures;
mod functions;
mod page;
mod plot;

use anyhow::{ensure, Result};
use clap::Args;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use suites::Suite;

use crate::context::Context;
use crate::kernel;
use figures::Figures;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// How many rounds of guests measure the emulated PMU. With 0 none does.
    #[arg(long, env = "RUST_PERF_ROUNDS", default_value_t = 5)]
    rounds: usize,
    /// Only the generations whose names contain one of these, such as `v4`.
    #[arg(long, env = "RUST_PERF_GENERATIONS", value_delimiter = ' ')]
    generations: Vec<String>,
    /// The bench.json of another driver, to compare with.
    #[arg(long, env = "RUST_PERF_BEFORE")]
    before: Option<PathBuf>,
    /// A bench.json to make the page and the plots of. Nothing is measured.
    #[arg(long, env = "RUST_PERF_FROM")]
    from: Option<PathBuf>,
    /// Instead, show in which functions the instructions of this operation are.
    #[arg(long, env = "RUST_PERF_FUNCTIONS", conflicts_with_all = ["from", "before"])]
    functions: Option<String>,
}

/// `make bench`.
pub fn bench(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    if let Some(operation) = &options.functions {
        functions::show(ctx, kernel, &chosen(&options.generations)?, operation)?;
        return Ok(ExitCode::SUCCESS);
    }
    let before = options.before.as_deref().map(Figures::read).transpose()?;
    let out = ctx.out.join("bench");
    fs::create_dir_all(&out)?;
    let figures = match &options.from {
        Some(file) => Figures::read(file)?,
        None => {
            let figures = figures::measure(ctx, kernel, &chosen(&options.generations)?)?;
            figures.write(&out.join("bench.json"))?;
            figures
        }
    };
    let page = page::page(&figures, before.as_ref())?;
    fs::write(out.join("performance.md"), &page)?;
    plot::draw(&figures, &out)?;
    println!("{page}");
    println!(
        "In {}: bench.json, performance.md and the plots.",
        out.display()
    );

    if options.rounds > 0 && options.from.is_none() {
        environment::measure(ctx, kernel, options.rounds)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The guests of the generations whose names contain one of these, or of all.
fn chosen(names: &[String]) -> Result<Vec<&'static Suite>> {
    let is_chosen = |suite: &&Suite| {
        names.is_empty() || names.iter().any(|name| suite.name.contains(name.as_str()))
    };
    let chosen: Vec<_> = suites::BENCH.iter().filter(is_chosen).collect();
    ensure!(
        !chosen.is_empty(),
        "no generation has such a name; there is {}",
        suites::BENCH
            .iter()
            .map(|suite| suite.name)
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(chosen)
}
