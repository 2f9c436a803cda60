// SPDX-License-Identifier: GPL-2.0

//! `make test`: formatting, lints, host tests, and the suites of guest tests.

use anyhow::{ensure, Context as _, Result};
use clap::Args;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::cache;
use crate::context::Context;
use crate::generations;
use crate::guest::{self, Guest, Outcome, Parts};
use crate::kernel;
use crate::ktap::Results;
use crate::module;
use crate::qemu::Qemu;
use crate::signals;
use crate::step::{indent, last_lines, Step};

/// Which tests.
#[derive(Args)]
pub struct Options {
    /// Run this suite of guest tests only.
    #[arg(long, env = "RUST_PERF_SUITE")]
    suite: Option<String>,
    /// Make docs/generations.md what this run gives, instead of comparing.
    #[arg(long, env = "RUST_PERF_BLESS", value_parser = clap::builder::FalseyValueParser::new())]
    bless: bool,
    #[command(flatten)]
    guest: guest::Options,
}

/// The sum of it.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    /// A check that passes or fails as a whole, such as rustfmt.
    fn check(&mut self, check: impl FnOnce() -> Result<()>) {
        match check() {
            Ok(()) => self.passed += 1,
            Err(error) => {
                // After a signal this would be noise.
                signals::park_if_interrupted();
                eprintln!("{error:#}");
                self.failed += 1;
            }
        }
    }
}

/// `make test`.
pub fn test(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    let mut tally = Tally::default();
    // Whatever keeps the tests from running is a failure too: the last line is
    // there however this ends.
    if let Err(error) = run(ctx, kernel, options, &mut tally) {
        tally.check(|| Err(error));
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(match tally.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn run(
    ctx: &Context,
    kernel: &kernel::Options,
    options: &Options,
    tally: &mut Tally,
) -> Result<()> {
    // Two runs in one checkout would take each other's logs for their results.
    let _lock = cache::lock(&ctx.out.join(".lock-test"), "make test")?;
    let parts = Parts::prepare(ctx, kernel, Qemu::patched(ctx)?)?;
    if options.suite.is_none() {
        host(ctx, &parts, tally)?;
    }
    let suites = suites(ctx, options.suite.as_deref())?;
    let results = run_suites(ctx, &parts, &options.guest, &suites, tally)?;
    // Of other guests, or when something has failed, the table says nothing.
    if options.suite.is_none() && options.guest.are_usual() && tally.failed == 0 {
        tally.check(|| {
            let machines = suites.iter().map(|suite| suite.machine.as_str());
            generations::check(ctx, machines.zip(&results), options.bless)
        });
    }
    Ok(())
}

fn cargo(ctx: &Context, subcommand: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .arg(subcommand)
        .current_dir(&ctx.top)
        .env("CARGO_TARGET_DIR", ctx.out.join("target"));
    command
}

/// What needs no guest.
fn host(ctx: &Context, parts: &Parts, tally: &mut Tally) -> Result<()> {
    tally.check(|| {
        let step = Step::start(ctx, "rustfmt", "rustfmt")?;
        step.run(cargo(ctx, "fmt").args(["--all", "--check"]))?;
        // Not a member of the workspace; its modules are found from here.
        step.run(
            Command::new("rustfmt")
                .args(["--check", "--edition", "2021", "rust_perf/rust_perf.rs"])
                .current_dir(&ctx.top),
        )?;
        step.done();
        Ok(())
    });
    tally.check(|| {
        let step = Step::start(ctx, "clippy", "clippy")?;
        step.run(cargo(ctx, "clippy").args([
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "--deny=warnings",
        ]))?;
        step.done();
        Ok(())
    });
    tally.check(|| module::lint(ctx, &parts.kernel));

    let step = Step::start(ctx, "cargo-test", "host tests")?;
    let ran = step.run(cargo(ctx, "test").args(["--workspace", "--locked", "--no-fail-fast"]));
    let (passed, failed) = cargo_results(&fs::read_to_string(step.log())?);
    match &ran {
        Ok(()) => step.done(),
        Err(error) => eprintln!("{error:#}"),
    }
    tally.passed += passed;
    // It may fail without a test that does: when something does not compile.
    tally.failed += failed.max(usize::from(ran.is_err()));
    Ok(())
}

/// Sums up the "test result:" lines of `cargo test`.
fn cargo_results(log: &str) -> (usize, usize) {
    let count = |line: &str, what: &str| {
        line.split([';', '.'])
            .find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok())
            .unwrap_or(0)
    };
    log.lines()
        .filter(|line| line.starts_with("test result:"))
        .fold((0, 0), |(passed, failed), line| {
            (
                passed + count(line, "passed"),
                failed + count(line, "failed"),
            )
        })
}

/// A line of `guest-tests --list`.
#[derive(Debug, PartialEq)]
struct Suite {
    name: String,
    smp: u32,
    qemu_args: String,
    append: String,
    load: bool,
    /// Whether the report is on the console.
    console: bool,
    /// Whether the guest boots another kernel itself, with the same initramfs.
    kexec: bool,
    cpu: String,
    machine: String,
}

impl Suite {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let [name, smp, qemu_args, append, flag, cpu, machine] = fields[..] else {
            return None;
        };
        Some(Self {
            name: name.to_owned(),
            smp: smp.parse().ok()?,
            qemu_args: qemu_args.to_owned(),
            append: append.to_owned(),
            load: flag != "noload",
            console: flag == "console",
            kexec: flag == "kexec",
            cpu: cpu.to_owned(),
            machine: machine.to_owned(),
        })
    }

    /// Its guest, as the user would have it.
    fn options(&self, user: &guest::Options, cpu: &str) -> guest::Options {
        let join = |suite: &str, user: &str| format!("{suite} {user}").trim().to_owned();
        let mut cpu = user.cpu.clone().unwrap_or_else(|| cpu.to_owned());
        if !self.cpu.is_empty() {
            cpu = format!("{cpu},{}", self.cpu);
        }
        guest::Options {
            share: user.share.clone(),
            qemu_args: join(&self.qemu_args, &user.qemu_args),
            append: join(&self.append, &user.append),
            smp: user.smp.or(Some(self.smp)),
            cpu: Some(cpu),
            no_module: !self.load,
            timeout: user.timeout,
        }
    }
}

fn binary(ctx: &Context) -> PathBuf {
    ctx.out.join("target/release/guest-tests")
}

/// Builds the guest tests and asks them for their suites.
fn suites(ctx: &Context, only: Option<&str>) -> Result<Vec<Suite>> {
    let step = Step::start(ctx, "guest-tests", "guest tests: build")?;
    step.run(cargo(ctx, "build").args(["--release", "--locked", "--package", "guest-tests"]))?;
    step.done();
    let list = Command::new(binary(ctx)).arg("--list").output()?;
    let list = String::from_utf8(list.stdout)?;
    let suites = list
        .lines()
        .map(|line| Suite::parse(line).with_context(|| format!("not a suite: {line:?}")))
        .collect::<Result<Vec<_>>>()?;
    let names: Vec<_> = suites.iter().map(|suite| suite.name.clone()).collect();
    let suites: Vec<_> = suites
        .into_iter()
        .filter(|suite| only.is_none_or(|name| suite.name == name))
        .collect();
    ensure!(
        !suites.is_empty(),
        "no suite {}: there are {}",
        only.unwrap_or("at all"),
        names.join(", ")
    );
    Ok(suites)
}

/// What became of a suite.
struct Verdict {
    results: Results,
    /// Why there is more to it than the tests that failed.
    trouble: Option<String>,
    elapsed: Duration,
}

impl Verdict {
    fn failed(&self) -> usize {
        let failed = self.results.failures.len() + self.results.missing();
        failed.max(usize::from(self.trouble.is_some()))
    }
}

/// Runs the suites, a guest for each core at a time, and returns their results
/// in the suites' order.
fn run_suites(
    ctx: &Context,
    parts: &Parts,
    user: &guest::Options,
    suites: &[Suite],
    tally: &mut Tally,
) -> Result<Vec<Results>> {
    let module = module::for_kernel(ctx, &parts.kernel)?;
    let queue = Mutex::new(suites.iter().enumerate());
    let mut all: Vec<_> = suites.iter().map(|_| Results::default()).collect();
    let (report, reports) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..kernel::jobs().min(suites.len()) {
            let report = report.clone();
            let (queue, module) = (&queue, &module);
            scope.spawn(move || loop {
                let suite = queue.lock().ok().and_then(|mut queue| queue.next());
                let Some((i, suite)) = suite else { return };
                let started = Instant::now();
                let (results, trouble) = run_suite(ctx, parts, user, suite, module)
                    .unwrap_or_else(|error| (Results::default(), Some(format!("{error:#}"))));
                // Our own killing of the guest says nothing, and starts no other.
                signals::park_if_interrupted();
                let verdict = Verdict {
                    results,
                    trouble,
                    elapsed: started.elapsed(),
                };
                // The receiver is gone only if this whole function is.
                let _ = report.send((i, verdict));
            });
        }
        drop(report);
        for (i, verdict) in reports {
            show(&suites[i].name, &verdict);
            tally.passed += verdict.results.passed();
            tally.failed += verdict.failed();
            all[i] = verdict.results;
        }
    });
    Ok(all)
}

/// The results of a suite, and what trouble there was besides.
fn run_suite(
    ctx: &Context,
    parts: &Parts,
    user: &guest::Options,
    suite: &Suite,
    module: &Path,
) -> Result<(Results, Option<String>)> {
    let name = format!("suite-{}", suite.name);
    let options = suite.options(user, parts.qemu.cpu());
    let command = format!("exec /run/xtask/guest-tests --suite {}", suite.name);
    let tests = binary(ctx);
    let mut files = vec![tests.as_path()];
    if suite.kexec {
        files.push(&parts.initramfs);
    }
    let guest = Guest {
        name: &name,
        module: Some(module),
        command: Some(&command),
        files: &files,
        options: &options,
    };
    let ktap = ctx.logs.join(format!("{name}.ktap"));
    let errors = ctx.logs.join(format!("{name}.stderr.log"));
    let run = || {
        guest.run(
            ctx,
            parts,
            Box::new(File::create(&ktap)?),
            Box::new(File::create(&errors)?),
        )
    };
    let mut end = run()?;
    // An emulated machine hangs while it boots, once in some hundred times: before the module
    // or a test has had a part in it.
    if matches!(end.outcome, Outcome::TimedOut) && fs::read(&ktap)?.is_empty() {
        println!("suite {}: the guest did not boot; once more", suite.name);
        end = run()?;
    }
    if suite.console {
        fs::write(&ktap, &end.console)?;
    }

    let results = Results::parse(&String::from_utf8_lossy(&fs::read(&ktap)?));
    let stderr = fs::read(&errors)?;
    let stderr = String::from_utf8_lossy(&stderr);
    let trouble = match end.outcome {
        Outcome::Exited(0) => results.trouble(),
        Outcome::Exited(_) if !results.failures.is_empty() && results.missing() == 0 => {
            results.trouble()
        }
        Outcome::Exited(status) => Some(format!(
            "it exited with {status}:\n{}",
            indent(last_lines(&stderr, 15))
        )),
        Outcome::TimedOut | Outcome::Unread | Outcome::Died => Some(guest.explain(ctx, &end)),
    };
    let trouble = trouble.or_else(|| {
        // Perhaps when the tests were over.
        guest::complaint(&end.console)
            .map(|complaint| format!("its kernel complained:\n{}", indent(&complaint)))
    });
    Ok((results, trouble))
}

fn show(suite: &str, verdict: &Verdict) {
    let results = &verdict.results;
    let mut text = format!(
        "{:43} {:5.0} s  {} passed, {} failed",
        format!("suite {suite}"),
        verdict.elapsed.as_secs_f64(),
        results.passed(),
        verdict.failed()
    );
    if results.skipped() > 0 {
        text += &format!(", {} skipped", results.skipped());
    }
    for failure in &results.failures {
        text += &format!(
            "\n  not ok: {}\n{}",
            failure.name,
            indent(&failure.why.join("\n"))
        );
    }
    if results.missing() > 0 {
        text += &format!("\n  {} tests gave no result", results.missing());
    }
    if let Some(trouble) = &verdict.trouble {
        text += &format!("\n{trouble}");
    }
    // One write, so that lines of other threads do not get between.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_cargo_test() {
        let log = "running 3 tests\n\
                   test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s\n\
                   test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s\n";
        assert_eq!(cargo_results(log), (4, 2));
        assert_eq!(cargo_results("error: could not compile"), (0, 0));
    }

    fn options() -> guest::Options {
        guest::Options {
            share: None,
            qemu_args: "-s".to_owned(),
            smp: None,
            append: String::new(),
            cpu: None,
            no_module: false,
            timeout: None,
        }
    }

    #[test]
    fn a_suite_says_what_guest_it_wants() {
        let suite =
            Suite::parse("icount\t1\t-icount shift=0\tnmi_watchdog=1\tnoload\tpmu=off\tv4 4+3")
                .unwrap();
        let options = suite.options(&options(), "max,pmu=on");
        assert_eq!(options.qemu_args, "-icount shift=0 -s");
        assert_eq!(options.cpu.as_deref(), Some("max,pmu=on,pmu=off"));
        assert_eq!(options.smp, Some(1));
        assert_eq!(options.append, "nmi_watchdog=1");
        assert!(options.no_module);
        assert_eq!(Suite::parse("short\t1"), None);
    }

    #[test]
    fn the_user_beats_the_suite() {
        let suite = Suite::parse("a\t1\t\t\t\t\t").unwrap();
        let user = guest::Options {
            smp: Some(4),
            cpu: Some("qemu64".to_owned()),
            ..options()
        };
        let options = suite.options(&user, "max");
        assert_eq!(
            (options.smp, options.cpu.as_deref()),
            (Some(4), Some("qemu64"))
        );
    }

    #[test]
    fn a_complaint_of_the_kernel_is_seen() {
        let console = "..MP-BIOS bug: 8254 timer not connected to IO-APIC\n\
                       INFO: NMI handler took too long\n";
        assert_eq!(guest::complaint(console), None);
        let console = format!("{console}[    9.1] WARNING: CPU: 0 PID: 1 at x\nCall Trace:\n");
        assert!(guest::complaint(&console).unwrap().contains("Call Trace"));
    }

    #[test]
    fn a_suite_that_ends_early_has_failed() {
        let verdict = |text, trouble: Option<&str>| Verdict {
            results: Results::parse(text),
            trouble: trouble.map(str::to_owned),
            elapsed: Duration::ZERO,
        };
        assert_eq!(verdict("1..3\nok 1 a\n", None).failed(), 2);
        assert_eq!(verdict("", Some("panic")).failed(), 1);
        assert_eq!(verdict("1..1\nok 1 a\n", None).failed(), 0);
    }
}
