// SPDX-License-Identifier: GPL-2.0

//! `make test`: what needs no guest ([`host`]), then the suites of guest tests.

use anyhow::{ensure, Context as _, Result};
use clap::builder::FalseyValueParser;
use clap::Args;
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::Mutex;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use suites::log::complaint;
use suites::{Filter, OtherKernel, Suite, SystemEvent, TestModule};

use crate::cache;
use crate::context::{Context, GuestLogs};
use crate::deb;
use crate::debug_kernel::Flavour;
use crate::generations;
use crate::guest::{self, End, Guest, LimitOf, Outcome, Parts};
use crate::guest_tests;
use crate::host;
use crate::kernel::{self, Kernel};
use crate::ktap::{Failure, Results};
use crate::module;
use crate::qemu::{Choice, Qemu};
use crate::select::{Request, Selected};
use crate::selftests;
use crate::signals;
use crate::step::{indent, last_lines};

/// Which tests to run.
#[derive(Args)]
pub struct Options {
    /// Run only the suites that match a glob, and no host tests.
    #[arg(long, env = "RUST_PERF_SUITE", value_name = "GLOB…")]
    suite: Option<String>,
    /// Run only the guest tests that match a glob, and no host tests.
    #[arg(long, env = "RUST_PERF_TEST", value_name = "GLOB…")]
    test: Option<String>,
    /// Run every suite.
    #[arg(long, env = "RUST_PERF_ALL", value_parser = FalseyValueParser::new())]
    all: bool,
    /// With CI=true in the environment some suites also run on a kernel that checks itself, and the
    /// installation test runs. It has no effect with --all, or if suites or tests are named.
    #[arg(long, env = "CI", hide = true, value_parser = FalseyValueParser::new())]
    ci: bool,
    #[command(flatten)]
    guest: guest::Options,
}

impl Options {
    fn request(&self) -> Request {
        let filter = |globs: &Option<String>| globs.as_deref().map(Filter::new);
        Request {
            suites: filter(&self.suite),
            tests: filter(&self.test),
            all: self.all,
            on: None,
        }
    }

    /// Whether this is CI's run.
    fn is_ci(&self) -> bool {
        self.ci && !self.all && self.suite.is_none() && self.test.is_none()
    }
}

/// The sum of all results.
#[derive(Default)]
pub struct Tally {
    /// How many tests passed.
    pub passed: usize,
    /// How many tests failed.
    pub failed: usize,
    /// The commands that run those again that failed.
    pub again: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.again.extend(other.again);
    }

    /// Counts a check that passes or fails as a whole, such as rustfmt.
    pub fn check(&mut self, check: impl FnOnce() -> Result<()>) {
        match check() {
            Ok(()) => self.passed += 1,
            Err(error) => {
                // After a signal the error would be noise.
                signals::park_if_interrupted();
                eprintln!("{error:#}");
                self.failed += 1;
            }
        }
    }

    /// Counts a check that has a name, and prints its result. `again` is the command that runs it alone.
    pub fn check_named(&mut self, name: &str, again: &str, check: impl FnOnce() -> Result<()>) {
        let started = Instant::now();
        let failed = self.failed;
        self.check(check);
        let result = match self.failed == failed {
            true => "PASS",
            false => {
                self.again.push(again.to_owned());
                "FAIL"
            }
        };
        eprintln!(
            "{name:43} {:5.0} s  {result}",
            started.elapsed().as_secs_f64()
        );
    }
}

/// `make test`.
pub fn test(ctx: &Context, kernel: &kernel::Options, options: &Options) -> Result<ExitCode> {
    let mut tally = Tally::default();
    // What keeps the tests from running is a failure too. The last line is there in any
    // case.
    if let Err(error) = run(ctx, kernel, options, &mut tally) {
        tally.check(|| Err(error));
    }
    if !tally.again.is_empty() {
        println!("To run what failed again:\n  {}", tally.again.join("\n  "));
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
    let request = options.request();
    // A wrong name should not be found after minutes of building.
    request.suites()?;
    // Two runs at a time would take longer than one after the other.
    let _lock = cache::lock(&ctx.out.join(".lock-test"), "make test")?;
    // Checked before anything takes time.
    options.guest.qemu(None)?;
    ensure!(
        !options.guest.primary,
        "PRIMARY=1 is for demo, guest and shell; to test it: make test SUITE='primary*'"
    );
    let is_ci = options.is_ci();
    let on_older = request.is_everything() && !kernel.is_named();
    let parts = Parts::prepare(ctx, kernel, Qemu::patched(ctx)?)?;
    let ctx = &match is_ci {
        true => ctx.in_lines(),
        false => ctx.clone(),
    };
    thread::scope(|scope| {
        let asides = asides(ctx, kernel, &parts.kernel, options, &request);
        // In CI nobody watches: they start before the suites, while rustc keeps one core busy.
        let (now, later) = match is_ci {
            true => (asides, Vec::new()),
            false => (Vec::new(), asides),
        };
        let now: Vec<_> = now.into_iter().map(|it| scope.spawn(it)).collect();
        let mut wait = Some(|| {
            let join =
                |it: ScopedJoinHandle<_>| it.join().unwrap_or_else(|it| panic::resume_unwind(it));
            let mut tally = Tally::default();
            later.into_iter().for_each(|it| tally.add(it()));
            now.into_iter().for_each(|it| tally.add(join(it)));
            tally
        });
        let beside = || wait.take().map_or_else(Tally::default, |it| it());
        let ran = run_on(ctx, kernel, &parts, options, &request, tally, beside);
        // It failed before there were suites. That is said now, and again at the end.
        if let (Err(error), Some(wait), true) = (&ran, wait, is_ci) {
            eprintln!("{error:#}");
            tally.add(wait());
        }
        ran
    })?;
    if on_older {
        let older = || Ok(kernel::older(ctx, &parts.kernel)?.release);
        run_on_other(ctx, OtherKernel::Older, older, options, &request, tally);
    }
    Ok(())
}

/// A part of a run that is no suite on the usual kernel.
type Aside<'a> = Box<dyn FnOnce() -> Tally + Send + 'a>;

/// What runs beside the suites. Each leaves a core idle for much of its time.
fn asides<'a>(
    ctx: &Context,
    user: &kernel::Options,
    usual: &'a Kernel,
    options: &'a Options,
    request: &'a Request,
) -> Vec<Aside<'a>> {
    let is_ci = options.is_ci();
    let is_whole = is_ci || request.is_everything();
    let is_stock = usual.flavour.is_none();
    let mut asides = Vec::<Aside<'a>>::new();
    if is_whole && !user.is_named() {
        let ctx = ctx.aside("checking");
        asides.push(Box::new(move || {
            let mut tally = Tally::default();
            let checking = || Ok(Flavour::Kasan.name().to_owned());
            run_on_other(
                &ctx,
                OtherKernel::Checking,
                checking,
                options,
                request,
                &mut tally,
            );
            tally
        }));
    }
    if is_whole && is_stock {
        let ctx = ctx.aside("install");
        asides.push(Box::new(move || {
            let mut tally = Tally::default();
            if is_ci {
                if let Err(error) = host::test(&ctx, usual, &mut tally) {
                    tally.check(|| Err(error));
                }
            }
            tally.check_named("installation test", "make install-test", || {
                deb::install_test::run(&ctx, usual)
            });
            tally
        }));
    }
    asides
}

/// Runs the suites that are to run on another kernel as well.
fn run_on_other(
    ctx: &Context,
    other: OtherKernel,
    name: impl FnOnce() -> Result<String>,
    options: &Options,
    request: &Request,
    tally: &mut Tally,
) {
    let result = name().and_then(|name| {
        let request = Request {
            on: Some(other),
            ..request.clone()
        };
        let kernel = kernel::Options::named(&name);
        let parts = Parts::prepare(ctx, &kernel, Qemu::patched(ctx)?)?;
        run_on(
            ctx,
            &kernel,
            &parts,
            options,
            &request,
            tally,
            Tally::default,
        )
    });
    if let Err(error) = result {
        tally.check(|| Err(error));
    }
}

/// Runs what is asked for on a kernel. One guest less runs at a time until `beside` has ended.
fn run_on(
    ctx: &Context,
    kernel: &kernel::Options,
    parts: &Parts,
    options: &Options,
    request: &Request,
    tally: &mut Tally,
    beside: impl FnOnce() -> Tally + Send,
) -> Result<()> {
    let is_stock = parts.kernel.flavour.is_none();
    let is_usual = is_stock && request.on.is_none();
    let has_host_tests = request.suites.is_none() && request.tests.is_none() && is_usual;
    // A person sees them first. In CI they are beside.
    if has_host_tests && !options.is_ci() {
        host::test(ctx, &parts.kernel, tally)?;
    }
    let program = guest_tests::build(ctx)?;
    let selected = request.select(&guest_tests::inventory(&program)?)?;
    let module = module::for_kernel(ctx, &parts.kernel)?;
    let mut on_debian_qemu = None;
    let mut examples = HashMap::new();
    let mut test_modules = HashMap::new();
    let mut selftests = None;
    for selected in &selected {
        if let Some(name) = selected.suite.example {
            examples.insert(name, module::example(ctx, &parts.kernel, name)?);
        }
        if let Some(it) = selected.suite.test_module() {
            if let Entry::Vacant(entry) = test_modules.entry(it) {
                entry.insert(module::of_tests(ctx, &parts.kernel, it)?);
            }
        }
        if selected.suite.has_selftests() && selftests.is_none() {
            selftests = Some(selftests::build(ctx, &parts.kernel)?);
        }
        let choice = options.guest.qemu(Some(selected.suite))?;
        if choice == Choice::Debian && on_debian_qemu.is_none() {
            on_debian_qemu = Some(Parts {
                qemu: Qemu::debian(ctx)?,
                ..parts.clone()
            });
        }
    }
    let runner = Runner {
        ctx,
        other_kernel: request.on.map(|_| parts.kernel.release.as_str()),
        parts,
        on_debian_qemu: on_debian_qemu.as_ref(),
        examples: &examples,
        test_modules: &test_modules,
        selftests: selftests.as_deref(),
        program: &program,
        module: &module,
        user: &options.guest,
    };
    let reporter = Reporter {
        user: &options.guest,
        kernel,
    };
    let good = runner.run(&selected, beside, &reporter, tally);
    if request.is_full() && options.guest.are_usual() && is_stock && good {
        generations::keep(ctx)?;
    }
    Ok(())
}

/// What all suites of a run have in common.
struct Runner<'a> {
    ctx: &'a Context,
    parts: &'a Parts,
    /// The name of the kernel in those of the logs, if it is not the usual one.
    other_kernel: Option<&'a str>,
    /// What a guest on Debian's QEMU has, if any suite needs it.
    on_debian_qemu: Option<&'a Parts>,
    /// The modules of the examples that suites need, by name.
    examples: &'a HashMap<&'static str, PathBuf>,
    /// The other modules that the tests of suites load.
    test_modules: &'a HashMap<TestModule, PathBuf>,
    /// The kernel's selftests, if any suite needs them.
    selftests: Option<&'a Path>,
    program: &'a Path,
    module: &'a Path,
    user: &'a guest::Options,
}

/// Writes what the user reads about suites.
struct Reporter<'a> {
    /// What the user chose about the guests.
    user: &'a guest::Options,
    /// The kernel, by the name that the user chose it by.
    kernel: &'a kernel::Options,
}

/// How many guests run at the same time: one a core, less what runs beside. A guest with two CPUs has
/// two threads that run and wait for each other's inter-processor interrupts. With more of them than
/// cores, a CPU spins for one that does not run.
pub fn guests_at_a_time(ctx: &Context) -> usize {
    match ctx.is_aside {
        true => 1,
        false => kernel::jobs(),
    }
}

/// What came of a guest with tests.
#[derive(Default)]
pub struct Ran {
    /// What it reported.
    pub results: Results,
    /// What is wrong besides the tests that failed.
    pub trouble: Option<String>,
    /// Whether it was stopped because it reported nothing any more.
    pub hung: bool,
}

/// Runs some tests of a suite that needs nothing but rust_perf.ko and a module of the tests, with this
/// rust_perf.ko.
pub fn tests_with(
    ctx: &Context,
    parts: &Parts,
    program: &Path,
    module: &Path,
    user: &guest::Options,
    selected: &Selected,
) -> Result<Ran> {
    let mut test_modules = HashMap::new();
    if let Some(it) = selected.suite.test_module() {
        test_modules.insert(it, module::of_tests(ctx, &parts.kernel, it)?);
    }
    Runner {
        ctx,
        parts,
        other_kernel: None,
        on_debian_qemu: None,
        examples: &HashMap::new(),
        test_modules: &test_modules,
        selftests: None,
        program,
        module,
        user,
    }
    .suite(selected)
}

/// What came of a suite.
struct Verdict {
    results: Results,
    /// What is wrong besides the tests that failed.
    trouble: Option<String>,
    elapsed: Duration,
}

/// What a thread that runs suites has done.
enum Report {
    Suite(&'static Suite, Verdict),
    Beside(Tally),
}

impl Verdict {
    fn failed(&self) -> usize {
        let failed = self.results.failures.len() + self.results.missing();
        failed.max(usize::from(self.trouble.is_some()))
    }
}

impl Runner<'_> {
    /// Runs suites and reports each when it ends. `beside` takes the place of a guest until it ends.
    /// Returns whether no suite failed.
    fn run(
        &self,
        selected: &[Selected],
        beside: impl FnOnce() -> Tally + Send,
        reporter: &Reporter<'_>,
        tally: &mut Tally,
    ) -> bool {
        let queue = Mutex::new(selected.iter());
        let mut beside = Some(beside);
        let (report, reports) = mpsc::channel();
        let mut good = true;
        thread::scope(|scope| {
            for _ in 0..guests_at_a_time(self.ctx).min(selected.len()).max(1) {
                let report = report.clone();
                let queue = &queue;
                let beside = beside.take();
                scope.spawn(move || {
                    // The receiver goes only when this whole function does.
                    let send = |it| drop(report.send(it));
                    if let Some(beside) = beside {
                        send(Report::Beside(beside()));
                    }
                    loop {
                        let next = queue.lock().ok().and_then(|mut queue| queue.next());
                        let Some(selected) = next else { return };
                        send(Report::Suite(selected.suite, self.verdict(selected)));
                    }
                });
            }
            drop(report);
            for report in reports {
                let (suite, verdict) = match report {
                    Report::Suite(suite, verdict) => (suite, verdict),
                    Report::Beside(other) => {
                        tally.add(other);
                        continue;
                    }
                };
                // One write, so that lines of other threads do not get between.
                let _ = writeln!(io::stderr().lock(), "{}", reporter.text(suite, &verdict));
                tally.passed += verdict.results.passed();
                tally.failed += verdict.failed();
                if verdict.failed() > 0 {
                    good = false;
                    tally.again.push(reporter.again(suite, &verdict));
                }
            }
        });
        good
    }

    /// Runs a suite, and takes what keeps it from running for a failure.
    fn verdict(&self, selected: &Selected) -> Verdict {
        let started = Instant::now();
        let ran = self.suite(selected).unwrap_or_else(|error| Ran {
            trouble: Some(format!("{error:#}")),
            ..Ran::default()
        });
        // After a signal the guest was killed, and no other may start.
        signals::park_if_interrupted();
        Verdict {
            results: ran.results,
            trouble: ran.trouble,
            elapsed: started.elapsed(),
        }
    }

    /// Runs a suite.
    fn suite(&self, selected: &Selected) -> Result<Ran> {
        let suite = selected.suite;
        let mut name = generations::log_name(suite);
        if let Some(kernel) = self.other_kernel {
            name = format!("{name}-{kernel}");
        }
        let logs = self.ctx.guest_logs(&name)?;
        let mut command = "exec guest-tests".to_owned();
        for title in selected.tests.iter().flatten() {
            command = format!("{command} {title}");
        }
        let guest = Guest {
            logs: &logs,
            module: Some(self.module),
            example: suite
                .example
                .and_then(|name| self.examples.get(name))
                .map(PathBuf::as_path),
            test_module: suite
                .test_module()
                .and_then(|it| self.test_modules.get(&it))
                .map(PathBuf::as_path),
            selftests: self.selftests.filter(|_| suite.has_selftests()),
            command: Some(&command),
            suite: Some(suite),
            tests: Some(self.program),
            limit: LimitOf::Silence,
            options: self.user,
        };
        let parts = match self.user.qemu(Some(suite))? {
            Choice::Patched => self.parts,
            Choice::Debian => self.on_debian_qemu.context("Debian's QEMU")?,
        };
        let end = guest.run(
            self.ctx,
            parts,
            Box::new(File::create(logs.ktap())?),
            Box::new(File::create(logs.stderr())?),
        )?;
        if suite.event == SystemEvent::Sleep {
            fs::write(logs.ktap(), &end.console)?;
        }

        let (results, trouble) = judge(&guest, &end)?;
        Ok(Ran {
            results,
            trouble,
            hung: matches!(end.outcome, Outcome::TimedOut),
        })
    }
}

/// The results of a guest that has run guest-tests, and what is wrong besides.
pub fn judge(guest: &Guest, end: &End) -> Result<(Results, Option<String>)> {
    let results = read_results(guest.logs)?;
    let trouble = match end.outcome {
        Outcome::Exited(0) => results.trouble(),
        Outcome::Exited(_) if !results.failures.is_empty() && results.missing() == 0 => {
            results.trouble()
        }
        Outcome::Exited(status) => {
            let stderr = fs::read(guest.logs.stderr())?;
            let stderr = String::from_utf8_lossy(&stderr);
            Some(format!(
                "guest-tests exited with {status}:\n{}",
                indent(last_lines(&stderr, 15))
            ))
        }
        Outcome::TimedOut | Outcome::Unread | Outcome::Died => Some(guest.explain(end)),
    };
    let trouble = trouble.or_else(|| {
        // The kernel may complain after the tests have ended.
        complaint(&end.console)
            .map(|complaint| format!("the kernel complained:\n{}", indent(&complaint)))
    });
    Ok((results, trouble))
}

impl Reporter<'_> {
    /// The command that runs tests of a suite again.
    fn command(&self, suite: &Suite, tests: &[&str]) -> String {
        let mut command = format!("make test SUITE={}", suite.name);
        if !tests.is_empty() {
            // No title has a character that a shell would expand.
            let quote = if tests.len() > 1 { "'" } else { "" };
            command += &format!(" TEST={quote}{}{quote}", tests.join(" "));
        }
        command + &self.user.variables() + &self.kernel.variable()
    }

    /// The command that runs again what failed in a suite.
    fn again(&self, suite: &Suite, verdict: &Verdict) -> String {
        let failed: Vec<_> = verdict
            .results
            .failures
            .iter()
            .map(|failure| failure.name.as_str())
            .collect();
        // The other failures are not of one test: the kernel log, a guest that died.
        let all = failed.iter().all(|name| is_title(name)) && failed.len() == verdict.failed();
        self.command(suite, if all { &failed } else { &[] })
    }

    /// What the user reads about a suite.
    fn text(&self, suite: &Suite, verdict: &Verdict) -> String {
        let results = &verdict.results;
        let mut text = format!(
            "{:43} {:5.0} s  {} passed, {} failed",
            format!("suite {}{}", suite.name, self.kernel.suffix()),
            verdict.elapsed.as_secs_f64(),
            results.passed(),
            verdict.failed()
        );
        if results.skipped() > 0 {
            text += &format!(", {} skipped", results.skipped());
        }
        for failure in &results.failures {
            text += &self.failure(suite, failure);
        }
        if results.missing() > 0 {
            text += &format!("\n  {} tests have no result", results.missing());
        }
        if let Some(trouble) = &verdict.trouble {
            text += &format!("\n{trouble}\n  | again: {}", self.command(suite, &[]));
        }
        text
    }

    /// A test that failed: the reason, with file and line, and how to run it again.
    fn failure(&self, suite: &Suite, failure: &Failure) -> String {
        let name = failure.name.as_str();
        let tests: &[&str] = if is_title(name) { &[name] } else { &[] };
        format!(
            "\n  not ok: {name}\n{}\n  | again: {}",
            indent(&failure.why.join("\n")),
            self.command(suite, tests)
        )
    }
}

/// Whether a result is that of a test, not of the program that runs the tests.
fn is_title(name: &str) -> bool {
    name.contains("::")
}

/// Reads a suite's report.
pub fn read_results(logs: &GuestLogs) -> Result<Results> {
    let file = logs.ktap();
    let ktap = fs::read(&file).with_context(|| file.display().to_string())?;
    Ok(Results::parse(&String::from_utf8_lossy(&ktap)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ktap;

    fn verdict(text: &str, trouble: Option<&str>) -> Verdict {
        Verdict {
            results: ktap::Results::parse(text),
            trouble: trouble.map(str::to_owned),
            elapsed: Duration::ZERO,
        }
    }

    fn with_reporter(user: guest::Options, check: impl FnOnce(&Reporter)) {
        check(&Reporter {
            user: &user,
            kernel: &kernel::Options::default(),
        });
    }

    #[test]
    fn a_named_check_is_counted_and_can_be_run_again() {
        let mut tally = Tally::default();
        tally.check_named("a", "make a", || Ok(()));
        tally.check_named("b", "make b", || anyhow::bail!("no"));
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert_eq!(tally.again, ["make b"]);
    }

    #[test]
    fn a_suite_that_ends_early_has_failed() {
        assert_eq!(verdict("1..3\nok 1 a\n", None).failed(), 2);
        assert_eq!(verdict("", Some("panic")).failed(), 1);
        assert_eq!(verdict("1..1\nok 1 a\n", None).failed(), 0);
    }

    #[test]
    fn a_failure_has_a_place_and_a_command() {
        let verdict = verdict(
            "1..3\nok 1 a::b\n# expected 5\n# at tests/guest/src/tests/a.rs:7\n\
             not ok 2 a::c # 4 instructions\nok 3 kernel_log_is_clean\n",
            None,
        );
        let suite = suites::find("hw-v2").unwrap();
        with_reporter(guest::Options::default(), |reporter| {
            let text = reporter.text(suite, &verdict);
            let (_, failure) = text.split_once('\n').unwrap();
            assert_eq!(
                failure,
                "  not ok: a::c\n  | 4 instructions\n  | expected 5\n  \
                 | at tests/guest/src/tests/a.rs:7\n  \
                 | again: make test SUITE=hw-v2 TEST=a::c"
            );
            assert_eq!(
                reporter.again(suite, &verdict),
                "make test SUITE=hw-v2 TEST=a::c"
            );
        });
    }

    #[test]
    fn commands_to_run_again() {
        let suite = suites::find("hw-v2").unwrap();
        let user = guest::Options {
            smp: Some(4),
            ..guest::Options::default()
        };
        with_reporter(user, |reporter| {
            let again = |text, trouble| reporter.again(suite, &verdict(text, trouble));
            assert_eq!(
                again("1..2\nnot ok 1 a::b\nnot ok 2 a::c\n", None),
                "make test SUITE=hw-v2 TEST='a::b a::c' SMP=4"
            );
            // What is wrong is not, or not only, a test.
            for (text, trouble) in [
                ("1..1\nnot ok 1 kernel_log_is_clean\n", None),
                ("1..2\nnot ok 1 a::b\n", None),
                ("", Some("panic")),
            ] {
                assert_eq!(again(text, trouble), "make test SUITE=hw-v2 SMP=4");
            }
        });
    }

    #[test]
    fn ci_is_a_run_without_names() {
        let options = |ci, all, test: Option<&str>| Options {
            suite: None,
            test: test.map(str::to_owned),
            all,
            ci,
            guest: guest::Options::default(),
        };
        assert!(options(true, false, None).is_ci());
        assert!(!options(true, true, None).is_ci());
        assert!(!options(true, false, Some("a::b")).is_ci());
        assert!(!options(false, false, None).is_ci());
        assert!(options(true, true, None).request().is_full());
        assert!(!options(true, false, None).request().is_full());
        assert!(options(true, true, Some("a::b")).request().all);
    }
}
