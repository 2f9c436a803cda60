// SPDX-License-Identifier: GPL-2.0

//! `make bench-ci`: what counting by `counted` costs, and what it counts, beside cachegrind. Prints the table
//! of docs/ci.md.

use anyhow::{ensure, Context as _, Result};
use clap::Args;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::cache::{Entry, Key};
use crate::context::Context;
use crate::counted::Provided;
use crate::kernel;
use crate::packages;
use crate::step::describe;

/// Debian's packages that the build root does not have.
const PACKAGES: [&str; 2] = ["valgrind", "sqlite3"];

/// A program with four threads.
const THREADS: &str = include_str!("../bench-ci/threads.rs");

/// What sqlite3 does: tables, an index and queries, in memory.
const SQL: &str = include_str!("../bench-ci/queries.sql");

/// What python3 does.
const PYTHON: &str = "print(sum(len(str(i * i)) for i in range(300000)))";

/// The events.
const USER: &str = "instructions:u";
const KERNEL: &str = "instructions:k";

/// What the user chose.
#[derive(Args)]
pub struct Options {
    /// How often each program is counted. The table has the difference of the most and the fewest
    /// instructions.
    #[arg(long, env = "RUST_PERF_ROUNDS", default_value_t = 10)]
    rounds: u32,
}

/// What was measured of a program.
struct Row {
    name: &'static str,
    native: Duration,
    cachegrind: (Duration, u64),
    counted: Counted,
    exact: Counted,
}

/// What several runs by `counted` came to.
struct Counted {
    /// The shortest time.
    time: Duration,
    /// User instructions of each run.
    user: Vec<u64>,
    /// Instructions of the kernel.
    kernel: Vec<u64>,
}

/// `make bench-ci`.
pub fn bench_ci(ctx: &Context, options: &kernel::Options, rounds: &Options) -> Result<ExitCode> {
    ensure!(rounds.rounds > 0, "ROUNDS=0: at least one is needed");
    let kernel = kernel::resolve_debian(ctx, options)?;
    install(ctx)?;
    let dir = tempfile::tempdir()?;
    let provided = Provided::new(ctx, &kernel, dir.path())?;
    println!("{}", head(rounds.rounds));
    for (name, script) in programs(dir.path(), &provided.image.vmlinux)? {
        let row = Row {
            name,
            native: native(&script)?,
            cachegrind: cachegrind(&script)?,
            counted: counted(&provided, dir.path(), &[], &script, rounds.rounds)?,
            exact: counted(&provided, dir.path(), &["--exact"], &script, rounds.rounds)?,
        };
        println!("{}", row.text());
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts the packages into the build root that this process sees.
fn install(ctx: &Context) -> Result<()> {
    let entry = Entry {
        name: "bench-ci",
        key: packages::add_index(ctx, Key::new(ctx).recipe(0).texts(PACKAGES))?.finish(),
        title: "valgrind and sqlite3, Debian's".to_owned(),
        megabytes: 200,
    };
    let files = entry.get(ctx, |step, dir| {
        PACKAGES
            .iter()
            .try_for_each(|name| packages::unpack_with_dependencies(ctx, step, name, dir))
    })?;
    // `usr` alone: the build root's other directories are links to it.
    run(Command::new("cp")
        .args(["--archive", "--no-target-directory"])
        .args([&files.join("usr"), Path::new("/usr")]))?;
    Ok(())
}

/// The programs: names, and scripts for sh.
fn programs(dir: &Path, vmlinux: &Path) -> Result<Vec<(&'static str, String)>> {
    const BYTES: u64 = 5_000_000;
    let file = |name: &str| dir.join(name);
    let data = file("data");
    let mut source = File::open(vmlinux)?.take(BYTES);
    std::io::copy(&mut source, &mut File::create(&data)?)?;
    fs::write(file("queries.sql"), SQL)?;
    fs::write(file("threads.rs"), THREADS)?;
    run(Command::new("rustc")
        .args(["-O", "-o"])
        .args([file("threads"), file("threads.rs")]))?;
    let quoted = |path: PathBuf| shell_words::quote(&path.to_string_lossy()).into_owned();
    let data = quoted(data);
    Ok(vec![
        (
            "`xz -1`, 5 MB",
            format!("exec xz -1 -T1 -c {data} >/dev/null"),
        ),
        ("`gzip`, 5 MB", format!("exec gzip -c {data} >/dev/null")),
        (
            "`sqlite3`, 50,000 rows",
            format!(
                "exec sqlite3 :memory: <{} >/dev/null",
                quoted(file("queries.sql"))
            ),
        ),
        (
            "a Rust program with 4 threads",
            format!("exec {} >/dev/null", quoted(file("threads"))),
        ),
        (
            "`python3`",
            format!("exec python3 -c {} >/dev/null", shell_words::quote(PYTHON)),
        ),
    ])
}

/// Runs a command, and returns what it wrote to standard error, with how long it took.
fn run(command: &mut Command) -> Result<(Duration, String)> {
    let started = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| describe(command))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "{}: {}\n{text}",
        describe(command),
        output.status
    );
    Ok((started.elapsed(), text))
}

/// The shortest of three runs.
fn native(script: &str) -> Result<Duration> {
    let times = (0..3).map(|_| Ok(run(Command::new("sh").args(["-c", script]))?.0));
    let times: Vec<_> = times.collect::<Result<_>>()?;
    times.into_iter().min().context("three runs")
}

/// One run, and the instructions that cachegrind has counted.
fn cachegrind(script: &str) -> Result<(Duration, u64)> {
    let (time, text) = run(Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .args(["--cachegrind-out-file=/dev/null", "--trace-children=yes"])
        .args(["sh", "-c", script]))?;
    let instructions = refs(&text).with_context(|| format!("valgrind printed\n{text}"))?;
    Ok((time, instructions))
}

/// The number of a line such as `==12== I refs:   1,234`. The shell becomes the program, which has the last
/// one.
fn refs(text: &str) -> Option<u64> {
    let lines = text.lines().rev();
    let mut numbers = lines.filter_map(|line| line.split_once("I refs:"));
    numbers.next()?.1.trim().replace(',', "").parse().ok()
}

/// Runs a program some times. Before, a guest is saved for all of them.
fn counted(
    provided: &Provided,
    dir: &Path,
    options: &[&str],
    script: &str,
    rounds: u32,
) -> Result<Counted> {
    let command = || {
        let mut command = Command::new(&provided.program);
        command
            .arg("--qemu")
            .arg(&provided.qemu)
            .arg("--kernel")
            .arg(&provided.image.vmlinuz)
            .args(options)
            .args(["--", "perf", "stat", "-x,"])
            .args(["-e", &format!("{USER},{KERNEL}"), "sh", "-c", script])
            .env("XDG_CACHE_HOME", dir.join("saved"));
        command
    };
    run(&mut command())?;
    let mut all = Counted {
        time: Duration::MAX,
        user: Vec::new(),
        kernel: Vec::new(),
    };
    for _ in 0..rounds {
        let (time, text) = run(&mut command())?;
        let count = |event| {
            count_of(&text, event).with_context(|| format!("no {event}; perf printed\n{text}"))
        };
        all.user.push(count(USER)?);
        all.kernel.push(count(KERNEL)?);
        all.time = all.time.min(time);
    }
    Ok(all)
}

/// The count of an event in what `perf stat -x,` prints: `count,unit,event,…`.
fn count_of(text: &str, event: &str) -> Option<u64> {
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let row = rows.find(|row| row.get(2) == Some(&event))?;
    row.first()?.parse().ok()
}

/// The head of the table.
fn head(rounds: u32) -> String {
    format!(
        "| program | native | cachegrind | `counted` | `--exact` | instructions, cachegrind | user, `counted` \
         | spread of {rounds} | kernel | user, `--exact` | kernel | spread of {rounds} |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|"
    )
}

impl Row {
    fn text(&self) -> String {
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        let least = |counts: &[u64]| counts.iter().min().copied().unwrap_or_default();
        let spread =
            |counts: &[u64]| counts.iter().max().copied().unwrap_or_default() - least(counts);
        let (time, refs) = self.cachegrind;
        let of_exact = spread(&self.exact.user) + spread(&self.exact.kernel);
        format!(
            "| {} | {} | {} | {} | {} | {refs} | {} | {} | {} | {} | {} | {of_exact} |",
            self.name,
            seconds(self.native),
            seconds(time),
            seconds(self.counted.time),
            seconds(self.exact.time),
            least(&self.counted.user),
            spread(&self.counted.user),
            least(&self.counted.kernel),
            least(&self.exact.user),
            least(&self.exact.kernel),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_valgrind_prints() {
        let text = "==1== \n==1== I refs:        1,234\n==2== I refs:        56,789\n";
        assert_eq!(refs(text), Some(56_789));
        assert_eq!(refs("nothing"), None);
    }

    #[test]
    fn what_perf_prints() {
        let text = "<not counted>,,instructions:u,0,100.00,,\n7,,instructions:k,1,100.00,,\n";
        assert_eq!(count_of(text, USER), None);
        assert_eq!(count_of(text, KERNEL), Some(7));
    }
}
