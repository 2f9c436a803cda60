// SPDX-License-Identifier: GPL-2.0

//! `make mutants`: cargo-mutants changes the kernel-free crate and the PMU model in small ways, one
//! after the other, and runs their tests. A change that no test notices is shown.

use anyhow::{ensure, Context as _, Result};
use clap::Args;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::cache;
use crate::cargo_tool::CargoTool;
use crate::context::Context;
use crate::copy;
use crate::event_lists;
use crate::host;
use crate::kernel;
use crate::select;
use crate::step::{exit_code, Step};

const MUTANTS: CargoTool = CargoTool {
    name: "cargo-mutants",
    version: "26.0.0",
};

/// The crates that are changed: package and directory.
const CRATES: [(&str, &str); 2] = [("pmc", "rust_perf/pmc/"), ("pmu-model", "pmu-model/src/")];

/// What makes a mutant a matter of seconds. Most of the time goes to the tests, which optimized code
/// runs ten times as fast, and to what rustc writes for debuggers. Overflow is still checked.
const FASTER: [(&str, &str); 3] = [
    ("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_DEV_DEBUG", "false"),
    // How many cases a property is tried with.
    ("PROPTEST_CASES", "32"),
];

/// The seconds after which a test hangs.
const LIMIT: &str = "60";

/// What cargo-mutants has found, by the files that it writes, and how the last line calls it.
const FOUND: [(&str, &str); 4] = [
    ("caught.txt", "caught"),
    ("missed.txt", "missed"),
    ("timeout.txt", "timed out"),
    ("unviable.txt", "unviable"),
];

/// What to change.
#[derive(Args)]
pub struct Options {
    /// Only the files that match a glob.
    #[arg(long, env = "RUST_PERF_MUTANTS", value_name = "GLOB…")]
    mutants: Option<String>,
    /// Only each n-th mutant, from the k-th on; 0 is the first.
    #[arg(long, env = "RUST_PERF_SHARD", value_name = "k/n")]
    shard: Option<String>,
}

/// `make mutants`.
pub fn mutants(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    let mut program = MUTANTS.command(ctx)?;
    let list = program
        .args(["--list-files", "--package=pmc", "--package=pmu-model"])
        .current_dir(&ctx.top)
        .output()?;
    ensure!(list.status.success(), "cargo-mutants cannot list the files");
    let files = String::from_utf8(list.stdout)?;
    let files = files.lines().map(str::to_owned).collect();
    let globs = options.mutants.as_deref();
    let files = select::chosen("file", files, globs, |name| name)?;

    let _lock = cache::lock(&ctx.out.join(".lock-mutants"), "make mutants")?;
    let copy = copy::checkout(ctx, "mutants")?;
    // For the test that reads Intel's lists.
    symlink(&copy.out, copy.top.join("out"))?;
    event_lists::link(&copy, &kernel::resolve_debian(ctx, kernel)?)?;
    let shard = options.shard.as_deref();
    let mut found = [0; FOUND.len()];
    for (package, directory) in CRATES {
        let files: Vec<_> = files
            .iter()
            .filter(|it| it.starts_with(directory))
            .collect();
        if files.is_empty() {
            continue;
        }
        sound(&copy, package)?;
        let out = copy.out.join(package);
        // It does not remove what an earlier run has found.
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out)?;
        let status = MUTANTS
            .command(ctx)?
            .args(["--in-place", "--baseline=skip", "--no-shuffle"])
            .args(["--colors=never", "--timeout", LIMIT, "--package", package])
            .args(files.into_iter().flat_map(|file| ["--file", file]))
            .args(
                shard
                    .iter()
                    .flat_map(|it| ["--sharding", "round-robin", "--shard", it]),
            )
            .arg("--output")
            .arg(&out)
            .current_dir(&copy.top)
            .env("CARGO_TARGET_DIR", host::target(&copy))
            .envs(FASTER)
            .status()?;
        // 2: some were missed, 3: some timed out.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            return Ok(exit_code(status));
        }
        for (sum, (name, _)) in found.iter_mut().zip(FOUND) {
            *sum += lines(&out.join("mutants.out").join(name))?;
        }
    }
    let counts = found.iter().zip(FOUND);
    let counts = counts.map(|(count, (_, what))| format!("{count} {what}"));
    println!("{}", counts.collect::<Vec<_>>().join(", "));
    Ok(match found {
        [_, 0, ..] => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Checks that the tests pass without a change.
fn sound(copy: &Context, package: &str) -> Result<()> {
    let step = Step::start(copy, package, &format!("{package}, unchanged"))?;
    let mut test: Command = host::cargo(copy, "test");
    step.run(test.args(["--locked", "--package", package]).envs(FASTER))?;
    step.done();
    Ok(())
}

fn lines(file: &Path) -> Result<usize> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.lines().count())
}
