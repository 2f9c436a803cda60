// SPDX-License-Identifier: GPL-2.0

//! The guest: a stock Debian kernel with the build root as its userland.
//!
//! The guest mounts the build root read-only by 9p, as the lower layer of an overlay.
//! It gets its command, the module and other files in a directory of its own, at
//! /run/xtask. The command's output comes through two virtio ports, apart from the
//! kernel's console, which goes to a log.

mod command_line;
mod explain;
mod files;
mod for_user;
mod options;
mod settings;
mod start;
mod times;
mod wait;

use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{mpsc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use suites::{Suite, SystemEvent};

use crate::context::{Context, GuestLogs};
use crate::initramfs::initramfs;
use crate::kernel::{self, Image, Kernel};
use crate::monitor;
use crate::pump::{Pump, Sink};
use crate::qemu::Qemu;
use crate::saver::Saver;
use crate::signals::{self, TerminalModes};
use crate::sysrq::Keyboard;
use command_line::monitor as monitor_of;
use settings::Settings;
use start::Start;
use wait::{wait, Ended, Limit};

pub use for_user::{command, shell, UserGuest};
pub use options::{Options, Pmu};
pub use times::Times;
pub use wait::LimitOf;

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
    /// A directory with programs of the kernel's source.
    pub kernel_programs: Option<&'a Path>,
    /// The directory with BOLT, to have its programs in PATH.
    pub bolt: Option<&'a Path>,
    /// The command, for sh; the guest is interactive without one.
    pub command: Option<&'a str>,
    /// The suite whose guest this is.
    pub suite: Option<&'static Suite>,
    /// The program guest-tests, to have it in PATH.
    pub tests: Option<&'a Path>,
    /// What the time limit applies to.
    pub limit: LimitOf,
    /// Whether it may start from a state that an earlier run has saved.
    pub may_restore: bool,
    /// What the user chose.
    pub options: &'a Options,
}

/// How a guest ended.
pub enum Outcome {
    /// The command exited with this status.
    Exited(u8),
    /// The guest was stopped because it took too long.
    TimedOut,
    /// The guest was stopped because nobody reads its output, as after `| head`.
    Unread,
    /// The guest ended before the command did, by a panic or a bad argument of QEMU's, or because
    /// something killed QEMU.
    Died(ExitStatus),
}

/// What a guest leaves.
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// What its kernel wrote to the console.
    pub console: String,
    /// Where its time went.
    pub times: Times,
    /// What QEMU wrote to standard error.
    qemu: String,
    /// Why the guest could not be saved when it asked for that.
    unsaved: Option<String>,
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
        let monitor = monitor_of(run.path());

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
        let mut keyboard = Keyboard::new(run.path())?;
        let saver = match is_saved {
            true => Some(Saver::start(run.path(), &monitor)?),
            false => None,
        };
        command.args(saver.iter().flat_map(Saver::arguments));
        let words = shell_words::split(&settings.qemu_args).context("QEMU_ARGS")?;
        command.args(words);
        let mut start = match self.may_be_saved(ctx, parts) {
            true => Some(Start::new(ctx, &command, run.path(), self.logs)?),
            false => None,
        };
        let spawn = |incoming: &[String]| {
            let log = self.logs.qemu();
            let log = File::options().create(true).append(true).open(log)?;
            let mut command = copy_of(&command);
            command.args(incoming).stderr(log);
            if !interactive {
                command.stdin(Stdio::null()).stdout(Stdio::null());
            }
            signals::park_if_interrupted();
            command.spawn().context("cannot run QEMU")
        };
        let _modes = TerminalModes::save();
        let started = SystemTime::now();
        let incoming = start.as_ref().map_or(Vec::new(), Start::incoming);
        let mut child = spawn(&incoming)?;

        let mut limit = match self.options.timeout {
            None if interactive => None,
            _ => {
                let time = Duration::from_secs(self.options.seconds());
                Some(Limit::new(time, self.limit, Instant::now()))
            }
        };
        let mut save = |pid| {
            // The registers first: to answer, the kernel has to do something else.
            let saved = monitor::save(self.logs, &monitor, settings.cpus, pid);
            if let Err(error) = saved.and_then(|()| keyboard.save(self.logs, &monitor)) {
                eprintln!("cannot save the state of the guest: {error:#}");
            }
        };
        let ended = loop {
            let ended = wait(child, &mut limit, tell.clone(), &news, &mut save)?;
            let incoming = match &saver {
                _ if matches!(ended, Ended::Stopped(_)) => break ended,
                Some(saver) if saver.take_saved() => saver.restoring_arguments().to_vec(),
                _ if start.as_mut().is_some_and(Start::is_refused) => Vec::new(),
                _ => break ended,
            };
            child = spawn(&incoming)?;
        };
        for pump in pumps {
            pump.finish()?;
        }
        let is_asleep = self.suite.is_some_and(|it| it.event == SystemEvent::Sleep);
        let end = SystemTime::now();
        let is_restored = start.is_some_and(Start::finish);
        let times = Times::read(run.path(), started, end, !is_asleep).restored(is_restored);
        fs::write(self.logs.times(), format!("{times}\n"))?;
        let saving = saver.map_or(Ok(()), Saver::finish);
        let read = |path: PathBuf| {
            let text = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        };
        Ok(End {
            outcome: match ended {
                Ended::Stopped(outcome) => outcome,
                Ended::Itself(status) => read(run.path().join("status"))
                    .trim()
                    .parse()
                    .map_or(Outcome::Died(status), Outcome::Exited),
            },
            console: read(self.logs.console()),
            times,
            qemu: read(self.logs.qemu()),
            unsaved: saving.err().map(|error| format!("{error:#}")),
        })
    }
}

/// A command with the program, arguments and environment of another, and with standard streams of its own.
fn copy_of(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    copy
}
