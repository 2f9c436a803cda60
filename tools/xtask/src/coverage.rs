// SPDX-License-Identifier: GPL-2.0

//! `make coverage`: which lines and branches of the kernel-free crate, of the model and of its
//! bridge the host tests reach, by cargo-llvm-cov.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::cargo_tool::CargoTool;
use crate::context::Context;
use crate::event_lists;
use crate::kernel;
use crate::step::Step;

const LLVM_COV: CargoTool = CargoTool {
    name: "cargo-llvm-cov",
    version: "0.6.21",
};

/// What is measured.
const MEASURED: [&str; 3] = ["pmc", "pmu-model", "pmu-bridge"];

/// Where other tests of these crates are.
const FUZZ: &str = "fuzz";

/// Of a directory or of all: how many there are, and how many of them are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    all: u64,
    reached: u64,
}

impl Count {
    fn of(summary: &Value, what: &str) -> Option<Self> {
        let summary = summary.get(what)?;
        Some(Self {
            all: summary.get("count")?.as_u64()?,
            reached: summary.get("covered")?.as_u64()?,
        })
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.reached += other.reached;
    }

    fn cell(self) -> String {
        match self.all {
            0 => "none".to_owned(),
            all => {
                let percent = self.reached as f64 * 100.0 / all as f64;
                format!("{} of {all}, {percent:.1} %", self.reached)
            }
        }
    }
}

/// `make coverage`.
pub fn coverage(ctx: &Context, kernel: &kernel::Options) -> Result<ExitCode> {
    event_lists::link(ctx, &kernel::resolve_debian(ctx, kernel)?)?;
    let out = ctx.out.join("coverage");
    let json = out.join("coverage.json");
    let run = |arguments: &[&str]| -> Result<Command> {
        let mut command = LLVM_COV.command(ctx)?;
        command
            .args(arguments)
            .current_dir(&ctx.top)
            .env("CARGO_TARGET_DIR", &out)
            // rustc does not count branches without -Z, which Debian's takes with this. It is set
            // for this build only.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("LLVM_COV", "/usr/lib/llvm-19/bin/llvm-cov")
            .env("LLVM_PROFDATA", "/usr/lib/llvm-19/bin/llvm-profdata");
        Ok(command)
    };
    let measured = MEASURED.map(|name| format!("--package={name}"));
    // What an older build has left would count as well.
    let mut clean = run(&["clean", "--workspace"])?;
    let mut tests = run(&["--no-report", "--branch", "--locked"])?;
    tests.args(&measured).arg(format!("--package={FUZZ}"));
    let mut html = run(&["report", "--branch", "--html"])?;
    html.args(&measured).arg("--output-dir").arg(&out);
    let mut summary = run(&["report", "--branch", "--json", "--summary-only"])?;
    summary.args(&measured).arg("--output-path").arg(&json);
    let step = Step::start(ctx, "coverage", "host tests, with coverage")?;
    fs::create_dir_all(&out)?;
    for command in [&mut clean, &mut tests, &mut html, &mut summary] {
        step.run(command)?;
    }
    let table = table(&ctx.top, &fs::read_to_string(&json)?)
        .context("cargo-llvm-cov's summary does not have the numbers")?;
    step.done();
    print!("{table}");
    println!("lines: {}/html/index.html", out.display());
    Ok(ExitCode::SUCCESS)
}

/// The table by directory, from the summary.
fn table(top: &Path, json: &str) -> Option<String> {
    let json: Value = serde_json::from_str(json).ok()?;
    let mut directories: BTreeMap<String, [Count; 2]> = BTreeMap::new();
    let mut sum = [Count::default(); 2];
    for file in json.pointer("/data/0/files")?.as_array()? {
        let name = Path::new(file.get("filename")?.as_str()?);
        // Functions of the standard library that were inlined are not counted.
        let Ok(name) = name.strip_prefix(top) else {
            continue;
        };
        let directory = name.parent()?.display().to_string();
        let of_directory = directories.entry(directory).or_default();
        for (i, what) in ["lines", "branches"].into_iter().enumerate() {
            let count = Count::of(file.get("summary")?, what)?;
            of_directory[i].add(count);
            sum[i].add(count);
        }
    }
    let mut table = "| directory | lines | branches |\n|---|---|---|\n".to_owned();
    let rows = directories
        .into_iter()
        .map(|(directory, counts)| (format!("`{directory}`"), counts));
    for (name, [lines, branches]) in rows.chain([("all".to_owned(), sum)]) {
        table += &format!("| {name} | {} | {} |\n", lines.cell(), branches.cell());
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_added_by_directory() {
        let file = |name: &str, lines: [u64; 2], branches: [u64; 2]| {
            format!(
                r#"{{"filename": "/top/{name}", "summary": {{
                    "lines": {{"count": {}, "covered": {}}},
                    "branches": {{"count": {}, "covered": {}}}}}}}"#,
                lines[0], lines[1], branches[0], branches[1]
            )
        };
        let files = [
            file("a/b/c.rs", [10, 9], [2, 1]),
            file("a/b/d.rs", [10, 10], [2, 1]),
            file("a/e.rs", [1, 1], [0, 0]),
        ];
        let json = format!(r#"{{"data": [{{"files": [{}]}}]}}"#, files.join(","));
        let expected = "| directory | lines | branches |\n\
                        |---|---|---|\n\
                        | `a` | 1 of 1, 100.0 % | none |\n\
                        | `a/b` | 19 of 20, 95.0 % | 2 of 4, 50.0 % |\n\
                        | all | 20 of 21, 95.2 % | 2 of 4, 50.0 % |\n";
        assert_eq!(table(Path::new("/top"), &json).as_deref(), Some(expected));
        assert_eq!(table(Path::new("/top"), "{}"), None);
    }
}
