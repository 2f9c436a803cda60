// SPDX-License-Identifier: GPL-2.0

//! Runs suites, several at a time.

use anyhow::{Context as _, Result};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{mpsc, Mutex};
use std::thread;
use std::time::Instant;
use suites::{KernelPrograms, Suite, SystemEvent, TestModule};

use super::reporter::Reporter;
use super::tally::Tally;
use super::verdict::{judge, Ran, Verdict};
use crate::context::Context;
use crate::generations;
use crate::guest::{self, Guest, LimitOf, Outcome, Parts};
use crate::in_tree::Record;
use crate::kernel;
use crate::module;
use crate::qemu::Choice;
use crate::select::Selected;
use crate::signals;

/// What all suites of a run have in common.
pub struct Runner<'a> {
    pub ctx: &'a Context,
    pub parts: &'a Parts,
    /// The name of the kernel in those of the logs, if it is not the usual one.
    pub other_kernel: Option<&'a str>,
    /// `parts` with Debian's QEMU, if any suite needs it.
    pub on_debian_qemu: Option<&'a Parts>,
    /// What some suites need besides.
    pub built: Built,
    pub program: &'a Path,
    /// rust_perf.ko, if there is to be one.
    pub module: Option<&'a Path>,
    /// The PMU to test, if it is not the module's.
    pub pmu: Option<&'a str>,
    /// What the results are compared with, if they are.
    pub record: Option<&'a Record>,
    pub user: &'a guest::Options,
}

/// What was built for the suites that need it.
#[derive(Default)]
pub struct Built {
    /// The modules of examples, by name.
    pub examples: HashMap<&'static str, PathBuf>,
    /// The other modules that tests load.
    pub test_modules: HashMap<TestModule, PathBuf>,
    /// The programs of the kernel's source.
    pub kernel_programs: HashMap<KernelPrograms, PathBuf>,
    /// The directory with BOLT.
    pub bolt: Option<PathBuf>,
}

/// How many guests run at the same time: one a core, less what runs beside. Most guests have two CPUs, so
/// that two threads share a core already.
pub fn guests_at_a_time(ctx: &Context) -> usize {
    match ctx.is_aside {
        true => 1,
        false => kernel::jobs(),
    }
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
    let mut built = Built::default();
    if let Some(it) = selected.suite.test_module() {
        let module = module::of_tests(ctx, &parts.kernel, it)?;
        built.test_modules.insert(it, module);
    }
    Runner {
        built,
        module: Some(module),
        ..Runner::new(ctx, parts, program, user)
    }
    .suite(selected)
}

/// What a thread that runs suites has done.
enum Report {
    Suite(&'static Suite, Verdict),
    Beside(Tally),
}

impl<'a> Runner<'a> {
    /// With the usual kernel and QEMU, without a module and all that only some suites need.
    pub fn new(
        ctx: &'a Context,
        parts: &'a Parts,
        program: &'a Path,
        user: &'a guest::Options,
    ) -> Self {
        Self {
            ctx,
            parts,
            other_kernel: None,
            on_debian_qemu: None,
            built: Built::default(),
            program,
            module: None,
            pmu: None,
            record: None,
            user,
        }
    }

    /// Runs suites and reports each when it ends. `beside` takes the place of a guest until it ends.
    /// Returns whether no suite failed.
    pub fn run(
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
                tally.add_guest(verdict.times);
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
        let mut ran = self.suite(selected).unwrap_or_else(|error| Ran {
            trouble: Some(format!("{error:#}")),
            ..Ran::default()
        });
        // After a signal the guest was killed, and no other may start.
        signals::park_if_interrupted();
        if let Some(record) = self.record {
            record.compare(selected, &mut ran);
        }
        Verdict {
            results: ran.results,
            trouble: ran.trouble,
            elapsed: started.elapsed(),
            times: ran.times,
        }
    }

    /// Runs a suite.
    pub fn suite(&self, selected: &Selected) -> Result<Ran> {
        let suite = selected.suite;
        let mut name = generations::log_name(suite);
        if let Some(kernel) = self.other_kernel {
            name = format!("{name}-{kernel}");
        }
        let logs = self.ctx.guest_logs(&name)?;
        let mut command = "exec guest-tests".to_owned();
        if let Some(pmu) = self.pmu {
            command = format!("{command} --pmu {pmu}");
        }
        for title in selected.tests.iter().flatten() {
            command = format!("{command} {title}");
        }
        let guest = Guest {
            logs: &logs,
            module: self.module,
            example: suite
                .example
                .and_then(|name| self.built.examples.get(name))
                .map(PathBuf::as_path),
            test_module: suite
                .test_module()
                .and_then(|it| self.built.test_modules.get(&it))
                .map(PathBuf::as_path),
            kernel_programs: suite
                .kernel_programs()
                .and_then(|it| self.built.kernel_programs.get(&it))
                .map(PathBuf::as_path),
            bolt: self.built.bolt.as_deref().filter(|_| suite.has_bolt()),
            command: Some(&command),
            suite: Some(suite),
            tests: Some(self.program),
            limit: LimitOf::Silence,
            may_restore: true,
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
            times: end.times,
        })
    }
}
