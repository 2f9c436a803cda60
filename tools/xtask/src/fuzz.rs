// SPDX-License-Identifier: GPL-2.0

//! `make fuzz`: has libFuzzer look for inputs on which a target of `tests/fuzz` fails.
//!
//! It takes LLVM's coverage pass and libFuzzer, which the crate `libfuzzer-sys` brings. The pass is
//! part of stable Rust; only its sanitizers are not, and there is little unsafe code here that they
//! could check.

use anyhow::{bail, Result};
use clap::Args;
use std::fs;
use std::process::{Command, ExitCode};

use crate::context::Context;
use crate::host;
use crate::select;
use crate::step::Step;

/// The targets (`tests/fuzz/src/lib.rs`).
const TARGETS: [&str; 5] = ["attributes", "branches", "bridge", "counts", "registers"];

/// As cargo-fuzz has it, without a sanitizer.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The code of a build with these flags is apart from that of procedural macros, which cannot
/// have them.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What to fuzz.
#[derive(Args)]
pub struct Options {
    /// Only the targets that match a glob.
    #[arg(long, env = "RUST_PERF_FUZZ", value_name = "GLOB…")]
    fuzz: Option<String>,
    /// For how many seconds each.
    #[arg(long, env = "RUST_PERF_SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// `make fuzz`.
pub fn fuzz(ctx: &Context, options: &Options) -> Result<ExitCode> {
    let globs = options.fuzz.as_deref();
    let targets = select::chosen("fuzz target", TARGETS.to_vec(), globs, |name| name)?;
    let out = ctx.out.join("fuzz");
    let step = Step::start(ctx, "fuzz-build", "fuzz targets")?;
    step.run(
        host::cargo(ctx, "build")
            .args(["--package=fuzz", "--features=libfuzzer", "--locked"])
            .args(["--target", TRIPLE])
            .env("CARGO_TARGET_DIR", &out)
            // The build root has no c++.
            .env("CXX", "g++-14")
            // With the checks of a debug build.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "2")
            .env("RUSTFLAGS", RUSTFLAGS),
    )?;
    step.done();
    let mut failed = Vec::new();
    for target in targets {
        let corpus = out.join("corpus").join(target);
        fs::create_dir_all(&corpus)?;
        let step = Step::start(ctx, &format!("fuzz-{target}"), &format!("fuzz {target}"))?;
        let program = out
            .join(TRIPLE)
            .join("debug")
            .join(format!("fuzz-{target}"));
        let ran = step.run(
            Command::new(&program)
                .arg(format!("-max_total_time={}", options.seconds))
                .arg(format!("-artifact_prefix={}/{target}-", out.display()))
                // A case that takes this long hangs.
                .args(["-timeout=60", "-print_final_stats=1"])
                .arg(&corpus),
        );
        let log = fs::read_to_string(step.log())?;
        match ran {
            Ok(()) => step.end(&format!("{} inputs", inputs(&log))),
            Err(error) => {
                eprintln!("{error:#}");
                eprintln!(
                    "  again: tools/bootstrap run {} FILE, with the file that the log names",
                    program.display()
                );
                failed.push(target);
            }
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

/// How many inputs libFuzzer has tried, by its log.
fn inputs(log: &str) -> u64 {
    let line = log
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_those_of_the_crate() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/fuzz_targets");
        let files = fs::read_dir(directory).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, TARGETS.map(|target| format!("{target}.rs")));
    }

    #[test]
    fn libfuzzer_says_how_many_inputs() {
        let log = "Done 5 runs\nstat::number_of_executed_units: 12345\nstat::peak_rss_mb: 40\n";
        assert_eq!(inputs(log), 12345);
        assert_eq!(inputs(""), 0);
    }
}
