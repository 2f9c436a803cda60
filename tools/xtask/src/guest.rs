// SPDX-License-Identifier: GPL-2.0

//! The guest: a stock Debian kernel with the build root as its userland.
//!
//! The guest mounts the build root read-only by 9p, as the lower layer of an overlay.
//! It gets its command, the module and other files in a directory of its own, at
//! /run/xtask. The command's output comes through two virtio ports, apart from the
//! kernel's console, which goes to a log.

use anyhow::{bail, ensure, Context as _, Result};
use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use suites::log::complaint;
use suites::{Suite, SystemEvent, WITHOUT_IN_TREE};
use terminal_size::{terminal_size, Height, Width};

use crate::context::{Context, GuestLogs};
use crate::guest_tests;
use crate::initramfs::initramfs;
use crate::kernel::{self, Image, Kernel};
use crate::module;
use crate::monitor;
use crate::packages;
use crate::pump::{News, Pump, Sink};
use crate::qemu::{self, Qemu};
use crate::saver::Saver;
use crate::select;
use crate::selftests;
use crate::signals::{self, TerminalModes};
use crate::step::{indent, last_lines};
use crate::tsc;

/// The script that the initramfs starts from /run/xtask.
const RUN: &str = include_str!("../guest/run");
/// A function of this script and of the next one.
const FINISH: &str = include_str!("../guest/finish");
/// The script that it goes on with in a guest that is to be saved.
const SAVED: &str = include_str!("../guest/saved");

/// The kernel's command line, but for what the suite and the user add.
const KERNEL_ARGUMENTS: &[&str] = &[
    "console=ttyS0",
    "loglevel=5",
    // A kernel that has panicked ends the guest.
    "panic=-1",
    "oops=panic",
    // The check of the timer interrupt can fail on a slow host.
    "no_timer_check",
    // The watchdog uses a counter of every CPU; tests that want that ask for it.
    "nmi_watchdog=0",
    // The clocksource watchdog of kernel 7.3 can deadlock at boot. While
    // clocksource_done_booting() leaves jiffies by stop_machine(), the other CPUs wait in
    // multi_cpu_stop() with interrupts off. If a tick then runs clocksource_watchdog() on
    // the CPU that keeps jiffies, it sends the others an IPI and waits, with interrupts
    // off, for their answer or for a time-out that it reads from jiffies. Neither comes.
    "tsc=nowatchdog",
    // The kernel's tests of its ciphers take the emulated CPU 0.7 s beside the guest's command.
    "cryptomgr.notests=1",
];

/// The exit status of a guest that timed out, as of timeout(1).
const TIMED_OUT: u8 = 124;
/// The exit status that a shell gives a command that SIGPIPE ended.
const BROKEN_PIPE: u8 = 141;

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

/// A guest that the user asked for.
#[derive(Args)]
pub struct UserGuest {
    /// Make the guest like that of a suite, with guest-tests in PATH.
    #[arg(long, env = "RUST_PERF_SUITE")]
    suite: Option<String>,
    /// Load this example of rust_perf/examples as well.
    #[arg(long, env = "RUST_PERF_EXAMPLE")]
    example: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// What a guest is made of: the same for all guests of a run.
#[derive(Clone)]
pub struct Parts {
    /// QEMU.
    pub qemu: Qemu,
    /// The userland.
    pub root: PathBuf,
    /// The kernel.
    pub kernel: Kernel,
    /// Its image and modules.
    pub image: Image,
    /// The initramfs.
    pub initramfs: PathBuf,
}

impl Parts {
    /// Makes what is missing.
    pub fn prepare(ctx: &Context, options: &kernel::Options, qemu: Qemu) -> Result<Self> {
        let kernel = kernel::resolve(ctx, options)?;
        let image = kernel::image(ctx, &kernel)?;
        Ok(Self {
            initramfs: initramfs(ctx, &kernel, &image)?,
            qemu,
            root: ctx.root.clone(),
            kernel,
            image,
        })
    }
}

/// A guest to run.
pub struct Guest<'a> {
    /// Its logs.
    pub logs: &'a GuestLogs,
    /// The module, which is loaded unless the suite or the options say no.
    pub module: Option<&'a Path>,
    /// An example. It is loaded unless there is a suite, whose tests do that.
    pub example: Option<&'a Path>,
    /// A module that is for tests alone, which load it.
    pub test_module: Option<&'a Path>,
    /// The directory with the kernel's selftests.
    pub selftests: Option<&'a Path>,
    /// The command, for sh; the guest is interactive without one.
    pub command: Option<&'a str>,
    /// The suite whose guest this is.
    pub suite: Option<&'static Suite>,
    /// The program guest-tests, to have it in PATH.
    pub tests: Option<&'a Path>,
    /// What the time limit applies to.
    pub limit: LimitOf,
    /// What the user chose.
    pub options: &'a Options,
}

/// What a guest's time limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOf {
    /// The guest's whole time.
    Guest,
    /// The time from one output to the next. A guest that reports the results of tests may
    /// take as long as a busy host makes it take.
    Silence,
}

/// A guest's time limit.
struct Limit {
    time: Duration,
    of: LimitOf,
    started: Instant,
}

impl Limit {
    fn new(time: Duration, of: LimitOf, started: Instant) -> Self {
        Self { time, of, started }
    }

    /// Takes note of an output.
    fn heard(&mut self, now: Instant) {
        if self.of == LimitOf::Silence {
            self.started = now;
        }
    }

    /// The time that is left.
    fn left(&self, now: Instant) -> Duration {
        self.time.saturating_sub(now - self.started)
    }
}

/// How a guest ended.
pub enum Outcome {
    /// The command exited with this status.
    Exited(u8),
    /// The guest was stopped because it took too long.
    TimedOut,
    /// The guest was stopped because nobody reads its output, as after `| head`.
    Unread,
    /// The guest ended before the command did, by a panic or a bad argument of QEMU's.
    Died,
}

/// What a guest leaves.
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// What its kernel wrote to the console.
    pub console: String,
    /// What QEMU wrote to standard error.
    qemu: String,
    /// Why the guest could not be saved when it asked for that.
    unsaved: Option<String>,
}

/// What a suite and the user's options make of a guest. The options win.
#[derive(Debug, PartialEq)]
struct Settings {
    cpus: u32,
    threads: u32,
    cpu: String,
    qemu_args: String,
    kernel_command_line: String,
    load_module: bool,
    /// Whether the module takes the place of the in-tree driver.
    primary: bool,
}

impl Settings {
    fn new(suite: Option<&Suite>, options: &Options, base_cpu: &str) -> Self {
        let join = |parts: &[&str], separator: &str| {
            let parts: Vec<_> = parts.iter().copied().filter(|it| !it.is_empty()).collect();
            parts.join(separator)
        };
        let properties = suite.map(Suite::cpu_properties).unwrap_or_default();
        let of_suite = suite.map(Suite::kernel_command_line).unwrap_or_default();
        let pmu = match options.pmu {
            None => "",
            Some(Pmu::On) => "pmu=on",
            Some(Pmu::Off) => "pmu=off",
        };
        let primary = options.primary || suite.is_some_and(|suite| suite.primary);
        let without_in_tree = if primary { WITHOUT_IN_TREE } else { "" };
        Self {
            cpus: options
                .smp
                .unwrap_or_else(|| suite.map_or(2, |suite| suite.cpus)),
            // The number of CPUs that the user chooses may not be a multiple.
            threads: match options.smp {
                None => suite.map_or(1, |suite| suite.threads),
                Some(_) => 1,
            },
            cpu: join(
                &[options.cpu.as_deref().unwrap_or(base_cpu), &properties, pmu],
                ",",
            ),
            qemu_args: join(
                &[
                    suite.map_or("", |suite| suite.timing.qemu_args()),
                    &options.qemu_args,
                ],
                " ",
            ),
            kernel_command_line: join(
                &[
                    &KERNEL_ARGUMENTS.join(" "),
                    without_in_tree,
                    &of_suite,
                    &options.append,
                ],
                " ",
            ),
            load_module: !options.no_module && suite.is_none_or(|suite| suite.load_module),
            primary,
        }
    }
}

impl Guest<'_> {
    /// Boots the guest and waits for its end. If it runs beside suites, it first waits for the end of
    /// another guest that does.
    pub fn run(&self, ctx: &Context, parts: &Parts, stdout: Sink, stderr: Sink) -> Result<End> {
        // Held by the one guest of what is aside.
        static ASIDE: Mutex<()> = Mutex::new(());
        let turn = ctx.is_aside.then(|| ASIDE.lock());
        let _turn = turn.map(|it| it.unwrap_or_else(PoisonError::into_inner));
        let settings = Settings::new(self.suite, self.options, parts.qemu.cpu());
        let run = tempfile::tempdir()?;
        self.fill(run.path(), parts, &settings)?;
        let mut command = self.qemu(ctx, parts, run.path(), &settings)?;
        let monitor = run.path().join("monitor");
        command
            .arg("-qmp")
            .arg(format!("unix:{},server=on,wait=off", monitor.display()));

        let (tell, news) = mpsc::channel();
        let mut pumps = Vec::new();
        let interactive = self.command.is_none();
        if interactive {
            command.args([
                "-chardev",
                "stdio,id=tty,mux=on,signal=off",
                "-device",
                "virtconsole,chardev=tty",
            ]);
        } else {
            command.stdin(Stdio::null()).stdout(Stdio::null());
            for (name, sink) in [("stdout", stdout), ("stderr", stderr)] {
                let pump = Pump::start(run.path().join(name), sink, tell.clone())?;
                command
                    .arg("-chardev")
                    .arg(format!("socket,id={name},path={}", pump.path().display()))
                    .arg("-device")
                    .arg(format!("virtserialport,chardev={name},name={name}"));
                pumps.push(pump);
            }
        }
        let is_saved = self.suite.is_some_and(|it| it.event == SystemEvent::Saved);
        let saver = match is_saved {
            true => Some(Saver::start(run.path(), &monitor)?),
            false => None,
        };
        command.args(saver.iter().flat_map(Saver::arguments));
        let words = shell_words::split(&settings.qemu_args).context("QEMU_ARGS")?;
        signals::park_if_interrupted();
        let _modes = TerminalModes::save();
        command.args(words).stderr(File::create(self.logs.qemu())?);
        let mut child = command.spawn().context("cannot run QEMU")?;

        let mut limit = match self.options.timeout {
            None if interactive => None,
            _ => {
                let time = Duration::from_secs(self.options.seconds());
                Some(Limit::new(time, self.limit, Instant::now()))
            }
        };
        let save = |pid| {
            if let Err(error) = monitor::save(self.logs, &monitor, settings.cpus, pid) {
                eprintln!("cannot save the state of the guest: {error:#}");
            }
        };
        let mut is_restored = false;
        let stopped = loop {
            let stopped = wait(child, &mut limit, tell.clone(), &news, save)?;
            match &saver {
                Some(saver) if stopped.is_none() && saver.take_saved() => {
                    if !is_restored {
                        command.args(saver.restoring_arguments());
                        is_restored = true;
                    }
                    signals::park_if_interrupted();
                    child = command.spawn().context("cannot run QEMU")?;
                }
                _ => break stopped,
            }
        };
        for pump in pumps {
            pump.finish()?;
        }
        let saving = saver.map_or(Ok(()), Saver::finish);
        let read = |path: PathBuf| {
            let text = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        };
        Ok(End {
            outcome: match stopped {
                Some(outcome) => outcome,
                None => read(run.path().join("status"))
                    .trim()
                    .parse()
                    .map_or(Outcome::Died, Outcome::Exited),
            },
            console: read(self.logs.console()),
            qemu: read(self.logs.qemu()),
            unsaved: saving.err().map(|error| format!("{error:#}")),
        })
    }

    /// Makes the files of /run/xtask.
    fn fill(&self, run: &Path, parts: &Parts, settings: &Settings) -> Result<()> {
        let mut environment = String::new();
        let mut set = |name: &str, value: &str| {
            environment += &format!("export {name}={}\n", shell_words::quote(value));
        };
        if let Some(module) = self.module {
            strip(module, &run.join("rust_perf.ko"))?;
            set("RUST_PERF_KO", "/run/xtask/rust_perf.ko");
            if settings.load_module {
                set("LOAD", "1");
            }
            if settings.primary {
                set("PARAMETERS", "primary=1");
            }
        }
        if let Some(example) = self.example {
            let name = example.file_name().unwrap_or_default().to_string_lossy();
            let file = format!("/run/xtask/{name}");
            copy(example, &run.join(&*name))?;
            set("RUST_PERF_EXAMPLE_KO", &file);
            if settings.load_module && self.suite.is_none() {
                set("LOAD_EXAMPLE", "1");
            }
        }
        if let Some(module) = self.test_module {
            copy(module, &run.join("test.ko"))?;
            set("RUST_PERF_TEST_KO", "/run/xtask/test.ko");
        }
        if let Some(selftests) = self.selftests {
            let directory = run.join("selftests");
            fs::create_dir(&directory)?;
            for file in fs::read_dir(selftests)? {
                let file = file?;
                copy(&file.path(), &directory.join(file.file_name()))?;
            }
            set("RUST_PERF_SELFTESTS", "/run/xtask/selftests");
        }
        match self.command {
            Some(command) => fs::write(run.join("command"), command)?,
            None => {
                set("INTERACTIVE", "1");
                set(
                    "TERM",
                    &std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned()),
                );
                if let Some((Width(columns), Height(rows))) = terminal_size() {
                    set("ROWS", &rows.to_string());
                    set("COLUMNS", &columns.to_string());
                }
            }
        }
        if let Some(tests) = self.tests {
            fs::create_dir(run.join("bin"))?;
            copy(tests, &run.join("bin/guest-tests"))?;
        }
        if let Some(suite) = self.suite {
            set("RUST_PERF_SUITE", suite.name);
            match suite.event {
                SystemEvent::Kexec => copy(&parts.initramfs, &run.join("initramfs"))?,
                // A shell needs what 9p has.
                SystemEvent::Saved if self.command.is_some() => set("SAVED", "1"),
                SystemEvent::None | SystemEvent::Saved | SystemEvent::Sleep => {}
            }
        }
        fs::write(run.join("environment"), environment)?;
        for (name, text) in [("run", RUN), ("finish", FINISH), ("saved", SAVED)] {
            fs::write(run.join(name), text)?;
        }
        Ok(())
    }

    fn qemu(
        &self,
        ctx: &Context,
        parts: &Parts,
        run: &Path,
        settings: &Settings,
    ) -> Result<Command> {
        let share = self.options.share(ctx)?;
        let mut kernel_command_line = settings.kernel_command_line.clone();
        // With `-icount` the guest's TSC counts its instructions.
        if let Some(khz) = tsc::khz().filter(|_| !settings.qemu_args.contains("-icount")) {
            write!(kernel_command_line, " tsc_early_khz={khz}")?;
        }
        // Without a suite the guest is a user's, who may suspend it.
        let suspends = self
            .suite
            .is_none_or(|suite| suite.event == SystemEvent::Sleep);
        let kernel = match suspends {
            true => &parts.image.vmlinuz,
            false => &parts.image.vmlinux,
        };
        let mut command = parts.qemu.command();
        command
            .args([
                "-nodefaults",
                "-no-reboot",
                "-display",
                "none",
                "-nic",
                "none",
            ])
            .args(["-m", parts.kernel.memory(), "-smp"])
            .arg(format!("{},threads={}", settings.cpus, settings.threads))
            .args(["-cpu", &settings.cpu])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(&parts.initramfs)
            .args(["-append", &kernel_command_line])
            .arg("-chardev")
            // A QEMU that restores the guest adds to it.
            .arg(format!(
                "file,id=console,append=on,path={}",
                self.logs.console().display()
            ))
            .args(["-serial", "chardev:console"])
            .args(["-device", "virtio-serial-pci"]);
        for (tag, path, access) in [
            ("root", parts.root.as_path(), ",readonly=on"),
            ("modules", &parts.image.modules, ",readonly=on"),
            ("checkout", &ctx.top, ",readonly=on"),
            ("run", run, ""),
            ("share", &share, ""),
        ] {
            command.arg("-virtfs").arg(format!(
                "local,path={},mount_tag={tag},security_model=none,multidevs=remap{access}",
                path.display().to_string().replace(',', ",,")
            ));
        }
        Ok(command)
    }

    /// What to tell the user about a guest that did not end as it should.
    pub fn explain(&self, end: &End) -> String {
        let mut text = match end.outcome {
            Outcome::Exited(status) => return format!("the command exited with {status}"),
            Outcome::Unread => return "nobody reads the output".to_owned(),
            Outcome::TimedOut => format!(
                "the guest {} in {} s and was stopped (TIMEOUT= sets the limit).\n\
                 The registers and local APICs of its CPUs: {}\n\
                 The backtraces of QEMU's threads: {}",
                match self.limit {
                    LimitOf::Guest => "did not finish",
                    LimitOf::Silence => "reported nothing",
                },
                self.options.seconds(),
                self.logs.registers().display(),
                self.logs.threads().display()
            ),
            Outcome::Died => "the guest ended before its command did".to_owned(),
        };
        if let Some(why) = &end.unsaved {
            text += &format!("\n{why}");
        }
        if !end.qemu.trim().is_empty() {
            text += &format!("\nQEMU said:\n{}", indent(last_lines(&end.qemu, 5)));
        }
        format!(
            "{text}\nThe end of the console, {}:\n{}",
            self.logs.console().display(),
            indent(&telling_end(&end.console))
        )
    }

    /// Runs it for the user: its output and exit status become ours.
    pub fn run_for_user(&self, ctx: &Context, parts: &Parts) -> Result<ExitCode> {
        let end = self.run(ctx, parts, Box::new(io::stdout()), Box::new(io::stderr()))?;
        match end.outcome {
            Outcome::Exited(status) => Ok(ExitCode::from(status)),
            Outcome::Unread => Ok(ExitCode::from(BROKEN_PIPE)),
            Outcome::TimedOut => {
                eprintln!("rust_perf: {}", self.explain(&end));
                Ok(ExitCode::from(TIMED_OUT))
            }
            Outcome::Died => bail!("{}", self.explain(&end)),
        }
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Copies a module without its debug information. That is more than nine tenths of it, and the guest's
/// kernel reads it all each time the module is loaded.
fn strip(from: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    packages::output(strip.args(["--strip-debug", "-o"]).arg(to).arg(from))?;
    Ok(())
}

/// The last lines of a console. After a complaint of the kernel's it is the beginning of
/// the first one, because the last lines are only the end of a stack.
fn telling_end(console: &str) -> String {
    complaint(console).unwrap_or_else(|| last_lines(console, 25).to_owned())
}

/// Waits for a child's end. Kills it if that takes too long or nobody reads its output,
/// and returns which of the two. Calls `save` with its PID before it kills it for taking
/// too long.
fn wait(
    mut child: Child,
    limit: &mut Option<Limit>,
    tell: Sender<News>,
    news: &Receiver<News>,
    save: impl FnOnce(u32),
) -> Result<Option<Outcome>> {
    let id = child.id();
    let pid = Pid::from_raw(id.try_into()?);
    let waiter = thread::spawn(move || {
        let status = child.wait();
        // The receiver is there until this thread is joined.
        let _ = tell.send(News::Ended);
        status
    });
    let stopped = loop {
        let next = match limit {
            Some(limit) => news.recv_timeout(limit.left(Instant::now())),
            None => news.recv().map_err(RecvTimeoutError::from),
        };
        match next {
            Ok(News::Output) => {
                if let Some(limit) = limit {
                    limit.heard(Instant::now());
                }
            }
            Ok(News::Ended) => break None,
            Ok(News::Unread) => break Some(Outcome::Unread),
            Err(_) => {
                save(id);
                break Some(Outcome::TimedOut);
            }
        }
    };
    if stopped.is_some() {
        // ESRCH if it has just ended.
        let _ = kill(pid, Signal::SIGKILL);
    }
    match waiter.join() {
        Ok(status) => status.map(|_| stopped).context("waiting for QEMU"),
        Err(_) => bail!("the thread that waits for QEMU panicked"),
    }
}

/// `make guest`.
pub fn command(
    ctx: &Context,
    kernel: &kernel::Options,
    guest: &UserGuest,
    cmd: &str,
) -> Result<ExitCode> {
    user_guest(ctx, kernel, guest, "guest", Some(cmd))
}

/// `make shell`.
pub fn shell(ctx: &Context, kernel: &kernel::Options, guest: &UserGuest) -> Result<ExitCode> {
    ensure!(
        io::stdin().is_terminal(),
        "make shell needs a terminal; for one command: make guest CMD='…'"
    );
    user_guest(ctx, kernel, guest, "shell", None)
}

fn user_guest(
    ctx: &Context,
    kernel: &kernel::Options,
    guest: &UserGuest,
    name: &str,
    command: Option<&str>,
) -> Result<ExitCode> {
    let options = &guest.options;
    let suite = guest.suite.as_deref().map(select::suite).transpose()?;
    let parts = Parts::prepare(ctx, kernel, Qemu::chosen(ctx, options.qemu(suite)?)?)?;
    // A suite's tests may load the module themselves.
    let module = match (options.no_module, suite) {
        (true, None) => None,
        _ => Some(module::for_kernel(ctx, &parts.kernel)?),
    };
    let of_suite = suite.and_then(|suite| suite.example);
    let example = guest.example.as_deref().or(of_suite);
    let example = example.map(|name| module::example(ctx, &parts.kernel, name));
    let example = example.transpose()?;
    let test_module = suite.and_then(|suite| suite.test_module());
    let test_module = test_module.map(|it| module::of_tests(ctx, &parts.kernel, it));
    let test_module = test_module.transpose()?;
    let selftests = suite.filter(|suite| suite.has_selftests());
    let selftests = selftests.map(|_| selftests::build(ctx, &parts.kernel));
    let selftests = selftests.transpose()?;
    let tests = suite.map(|_| guest_tests::build(ctx)).transpose()?;
    if command.is_none() {
        let loaded = Settings::new(suite, options, "").load_module;
        eprintln!("{}", welcome(&options.share(ctx)?, suite, loaded));
    }
    Guest {
        logs: &ctx.guest_logs(name)?,
        module: module.as_deref(),
        example: example.as_deref(),
        test_module: test_module.as_deref(),
        selftests: selftests.as_deref(),
        command,
        suite,
        tests: tests.as_deref(),
        limit: LimitOf::Guest,
        options,
    }
    .run_for_user(ctx, &parts)
}

/// What the user of an interactive guest should know.
fn welcome(share: &Path, suite: Option<&Suite>, loaded: bool) -> String {
    let module = match loaded {
        true => "The module is loaded",
        false => "The module is not loaded",
    };
    let tests = suite.map_or(String::new(), |suite| {
        format!(
            "\nThis guest is that of suite {0}: `guest-tests` runs the suite, \
             `guest-tests 'THEME::TEST'` some of it.",
            suite.name
        )
    });
    format!(
        "{module}. {} is /mnt/share, the checkout is /mnt/checkout.{tests}\n\
         exit or Ctrl-D powers off; Ctrl-A x ends the guest at once.",
        share.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_shown_from_its_start() {
        let console = format!("boot\nKernel panic - not syncing\n{}", "stack\n".repeat(50));
        assert!(telling_end(&console).starts_with("Kernel panic"));
        assert_eq!(telling_end("MP-BIOS bug\nhung"), "MP-BIOS bug\nhung");
    }

    #[test]
    fn a_child_that_takes_too_long_is_killed_after_its_state_is_saved() {
        let run = |time: &str, limit| {
            let limit = Limit::new(limit, LimitOf::Guest, Instant::now());
            let child = Command::new("sleep").arg(time).spawn().unwrap();
            let (tell, news) = mpsc::channel();
            let mut state = String::new();
            let save = |pid| state = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
            let outcome = wait(child, &mut Some(limit), tell, &news, save).unwrap();
            (outcome, state)
        };
        let (outcome, state) = run("60", Duration::from_millis(100));
        assert!(matches!(outcome, Some(Outcome::TimedOut)));
        assert_eq!(state, "sleep\n");
        let (outcome, state) = run("0", Duration::from_secs(30));
        assert!(outcome.is_none() && state.is_empty());
    }

    #[test]
    fn output_gives_a_suite_more_time() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        for (of, left) in [(LimitOf::Guest, 3), (LimitOf::Silence, 8)] {
            let mut limit = Limit::new(10 * second, of, start);
            limit.heard(start + 5 * second);
            assert_eq!(limit.left(start + 7 * second), left * second);
            assert_eq!(limit.left(start + 30 * second), Duration::ZERO);
        }
    }

    #[test]
    fn a_suite_makes_the_guest() {
        let settings = |suite, options: &Options| {
            let suite = suites::find(suite).unwrap();
            Settings::new(Some(suite), options, suites::BASE_CPU)
        };
        let options = Options {
            qemu_args: "-s".to_owned(),
            append: "quiet".to_owned(),
            ..Options::default()
        };
        let icount = settings("icount", &options);
        assert_eq!(icount.qemu_args, "-icount shift=0,sleep=off -s");
        assert_eq!((icount.cpus, icount.cpu.as_str()), (1, suites::BASE_CPU));
        assert!(icount.load_module);
        let fault = settings("faults-delay-v1", &options);
        assert_eq!(
            fault.cpu,
            "max,vendor=GenuineIntel,pmu=on,pmu-version=1,pmu-fault=delay:3:20000"
        );
        assert!(fault.kernel_command_line.ends_with("mitigations=off quiet"));
        assert!(!settings("no-pmu", &options).load_module);
        assert_eq!(settings("models-nehalem", &options).threads, 2);
    }

    #[test]
    fn without_a_suite_or_options_the_guest_is_the_usual() {
        let options = Options::default();
        assert!(options.are_usual());
        let settings = Settings::new(None, &options, suites::BASE_CPU);
        assert_eq!(
            settings,
            Settings {
                cpus: 2,
                threads: 1,
                cpu: suites::BASE_CPU.to_owned(),
                qemu_args: String::new(),
                kernel_command_line: KERNEL_ARGUMENTS.join(" "),
                load_module: true,
                primary: false,
            }
        );
    }

    #[test]
    fn the_module_can_take_the_place_of_the_in_tree_driver() {
        let primary = Options {
            primary: true,
            ..Options::default()
        };
        assert_eq!(primary.variables(), " PRIMARY=1");
        assert!(primary.qemu(None).is_ok());
        let off = Options {
            pmu: Some(Pmu::Off),
            ..primary.clone()
        };
        assert!(off.qemu(None).is_err());
        let suite = suites::find("primary");
        for (suite, options) in [(None, &primary), (suite, &Options::default())] {
            let settings = Settings::new(suite, options, suites::BASE_CPU);
            assert!(settings.primary);
            let arguments = settings.kernel_command_line;
            assert!(arguments.contains(WITHOUT_IN_TREE), "{arguments}");
        }
    }

    #[test]
    fn the_pmu_can_be_left_out() {
        let off = Options {
            pmu: Some(Pmu::Off),
            ..Options::default()
        };
        let settings = Settings::new(None, &off, suites::BASE_CPU);
        assert_eq!(settings.cpu, format!("{},pmu=off", suites::BASE_CPU));
        assert_eq!(off.variables(), " PMU=off");
        let settings = Settings::new(suites::find("hw-v2"), &off, suites::BASE_CPU);
        assert!(settings.cpu.ends_with(",pmu=off"), "{}", settings.cpu);
    }

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

    #[test]
    fn the_user_wins_over_the_suite() {
        let options = Options {
            smp: Some(4),
            cpu: Some("qemu64".to_owned()),
            append: "a b".to_owned(),
            no_module: true,
            ..Options::default()
        };
        let suite = suites::find("one-cpu").unwrap();
        let settings = Settings::new(Some(suite), &options, suites::BASE_CPU);
        assert_eq!((settings.cpus, settings.cpu.as_str()), (4, "qemu64"));
        assert!(!settings.load_module && !options.are_usual());
        assert_eq!(options.variables(), " SMP=4 CPU=qemu64 APPEND='a b'");
    }
}
