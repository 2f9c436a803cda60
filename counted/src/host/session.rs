// SPDX-License-Identifier: GPL-2.0

//! A guest, from its start to the end of its command.

use anyhow::{bail, ensure, Context as _, Result};
use boot::monitor::Monitor;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

use super::job::{job, padded};
use super::kernel::Kernel;
use super::machine::{self, CONSOLE, JOB, MONITOR};
use super::options::Options;
use super::ports::Ports;
use super::state::State;
use super::terminal::{is_terminal, size, RawTerminal};
use crate::talk::{Status, ToGuest, ToHost};

/// The exit status of a command that took too long, as that of timeout(1).
const TIMED_OUT: u8 = 124;

/// How long QEMU may take to hand over what the command has written.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long QEMU may take to restore a guest, which takes a second.
const RESTORING: Duration = Duration::from_secs(60);

/// How long a guest may take to boot, which takes some seconds.
const BOOTING: Duration = Duration::from_secs(600);

/// What happens while the guest runs.
pub enum Event {
    /// The guest can be talked to.
    Connected(UnixStream),
    /// The guest says something.
    Said(ToHost),
    /// There was so much output: to standard output, or to standard error.
    Output(usize, u64),
    /// Nobody reads an output: 0 is standard output, 1 is standard error.
    Unread(usize),
    /// An output cannot be written.
    NotWritten(io::Error),
    /// A signal has come.
    Signal(i32),
    /// QEMU has ended.
    Ended,
}

/// What came of a guest.
pub enum Outcome {
    /// This is the exit status.
    Code(u8),
    /// It was not restored, for this reason. The command has not begun.
    NotRestored(String),
    /// It was saved, and the command is to run in one that is restored.
    Saved,
}

/// How far a guest is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Booting,
    Restoring,
    /// It knows what to run.
    HasJob,
}

/// A guest that starts.
pub struct Session<'a> {
    options: &'a Options,
    /// Where to save the guest, or where it was saved.
    state: Option<&'a State>,
    /// Whether the command gets a terminal.
    has_terminal: bool,
    raw: Option<RawTerminal>,
    input: Option<&'a Path>,
    directory: TempDir,
    initramfs: PathBuf,
    qemu: Child,
    ports: Ports,
    events: Receiver<Event>,
    stage: Stage,
    control: Option<UnixStream>,
}

impl<'a> Session<'a> {
    /// Starts QEMU, which restores the guest that is saved if `may_restore`. `input` is a file that the
    /// command gets instead of standard input.
    pub fn start(
        options: &'a Options,
        kernel: &Kernel,
        state: Option<&'a State>,
        may_restore: bool,
        input: Option<&'a Path>,
    ) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("counted-").tempdir()?;
        let (tell, events) = mpsc::channel();
        let has_terminal = is_terminal();
        let ports = Ports::serve(directory.path(), has_terminal, &tell)?;
        let of_signals = tell.clone();
        let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH])?;
        thread::spawn(move || {
            signals
                .forever()
                .all(|it| of_signals.send(Event::Signal(it)).is_ok())
        });
        let saved = state.filter(|it| may_restore && it.is_there());
        let initramfs = match saved {
            Some(state) => state.initramfs(),
            None => directory.path().join("initramfs"),
        };
        if saved.is_none() {
            kernel.write_initramfs(&initramfs)?;
        }
        if options.exact {
            let job = job(options, has_terminal, input)?;
            fs::write(directory.path().join(JOB), padded(&job)?)?;
        }
        let boots = saved.is_none();
        let mut command = machine::command(options, kernel, boots, &initramfs, directory.path());
        command.args(saved.map(State::arguments).iter().flatten());
        Ok(Self {
            options,
            state,
            has_terminal,
            raw: None,
            input,
            qemu: start_qemu(command, directory.path(), tell)?,
            directory,
            initramfs,
            ports,
            events,
            stage: match saved {
                Some(_) => Stage::Restoring,
                None => Stage::Booting,
            },
            control: None,
        })
    }

    /// Has the guest run the command.
    pub fn run(mut self) -> Result<Outcome> {
        let outcome = self.serve();
        // It may have ended.
        let _ = self.qemu.kill();
        self.qemu.wait()?;
        self.ports.finish(self.directory.path());
        outcome
    }

    fn serve(&mut self) -> Result<Outcome> {
        let mut deadline = Some(match self.stage {
            Stage::Restoring => Instant::now() + RESTORING,
            _ => Instant::now() + BOOTING,
        });
        let mut written = [0; 2];
        let mut ended: Option<(Status, [u64; 2])> = None;
        let mut is_late = false;
        loop {
            match &ended {
                Some((status, expected)) if written == *expected => {
                    return Ok(Outcome::Code(match is_late {
                        true => TIMED_OUT,
                        false => status.code(),
                    }));
                }
                _ => {}
            }
            let Ok(event) = self.next(deadline) else {
                match self.stage {
                    Stage::Restoring => {
                        return Ok(Outcome::NotRestored("it takes too long".to_owned()));
                    }
                    Stage::Booting => bail!("the guest does not boot{}", self.logs()),
                    Stage::HasJob if ended.is_some() && self.ports.is_writing() => {
                        deadline = Some(Instant::now() + PATIENCE);
                        continue;
                    }
                    Stage::HasJob if ended.is_some() => {
                        bail!("QEMU did not hand over all output of the command")
                    }
                    Stage::HasJob if is_late => return Ok(Outcome::Code(TIMED_OUT)),
                    Stage::HasJob => {}
                }
                self.raw = None;
                eprintln!("counted: the command took longer than the time limit");
                is_late = true;
                self.say(&ToGuest::Signal(SIGKILL));
                deadline = Some(Instant::now() + PATIENCE);
                continue;
            };
            match event {
                Event::Connected(stream) => {
                    self.control = Some(stream);
                    // It has said that it is ready before it was saved.
                    if self.stage == Stage::Restoring {
                        let sent = match self.options.exact {
                            true => self.resume(),
                            false => self.send_job(),
                        };
                        // QEMU may have ended.
                        if let Err(error) = sent {
                            return Ok(Outcome::NotRestored(format!("{error:#}")));
                        }
                    }
                }
                Event::Said(ToHost::Ready) => {
                    let saved = self.save();
                    if self.options.exact {
                        saved.context("cannot save the guest, as --exact needs it")?;
                        return Ok(Outcome::Saved);
                    }
                    if let Err(error) = saved {
                        eprintln!(
                            "counted: cannot save the guest, so that the next one boots, too: {error:#}"
                        );
                    }
                    self.send_job()?;
                }
                Event::Said(ToHost::HasJob) => {
                    self.stage = Stage::HasJob;
                    let limit = self.options.timeout.map(Duration::from_secs);
                    deadline = limit.map(|it| Instant::now() + it);
                    if self.has_terminal {
                        self.raw = RawTerminal::new();
                    }
                    if self.input.is_none() {
                        self.ports.give_input();
                    }
                }
                Event::Said(ToHost::Ended {
                    status,
                    output,
                    error,
                    why,
                }) => {
                    if let Some(why) = why {
                        let command = self.options.command.first().map(|it| it.to_string_lossy());
                        eprintln!("counted: {}: {why}", command.unwrap_or_default());
                    }
                    ended = Some((status, [output, error]));
                    deadline = Some(Instant::now() + PATIENCE);
                }
                Event::Said(ToHost::Failed(why)) => bail!("{why}"),
                Event::Output(stream, length) => {
                    if let Some(sum) = written.get_mut(stream) {
                        *sum += length;
                    }
                }
                Event::Unread(stream) => self.say(&ToGuest::Unread(stream)),
                Event::NotWritten(error) => bail!("cannot write the output: {error}"),
                Event::Signal(SIGWINCH) => {
                    if self.stage == Stage::HasJob && self.has_terminal {
                        self.say(&ToGuest::Resized(size()));
                    }
                }
                Event::Signal(number) if self.stage == Stage::HasJob => {
                    self.say(&ToGuest::Signal(number));
                }
                Event::Signal(number) => return Ok(Outcome::Code(128 + number as u8)),
                Event::Ended if self.stage == Stage::Restoring => {
                    return Ok(Outcome::NotRestored(self.logs()));
                }
                Event::Ended => bail!("the guest has ended by itself{}", self.logs()),
            }
        }
    }

    fn next(&self, deadline: Option<Instant>) -> Result<Event, RecvTimeoutError> {
        match deadline {
            None => self.events.recv().map_err(RecvTimeoutError::from),
            Some(at) => {
                let left = at.saturating_duration_since(Instant::now());
                self.events.recv_timeout(left)
            }
        }
    }

    /// Saves the guest, if there is a place for it.
    fn save(&self) -> Result<()> {
        let Some(state) = self.state else {
            return Ok(());
        };
        let mut monitor = Monitor::connect(&self.directory.path().join(MONITOR), None)?;
        if self.options.exact {
            wait_until_stopped(&mut monitor)?;
        }
        state.save(&mut monitor, &self.initramfs)
    }

    /// Lets a guest go on that had stopped itself before it was saved.
    fn resume(&self) -> Result<()> {
        let mut monitor = Monitor::connect(&self.directory.path().join(MONITOR), Some(RESTORING))?;
        wait_until_stopped(&mut monitor)?;
        monitor.execute(&json!({ "execute": "cont" }))?;
        Ok(())
    }

    fn send_job(&self) -> Result<()> {
        let job = job(self.options, self.has_terminal, self.input)?;
        send(self.control.as_ref().context("no guest")?, &job)
    }

    /// Says something to a guest that runs the command. One that does not listen ends by itself.
    fn say(&self, message: &ToGuest) {
        drop(self.control.as_ref().map(|it| send(it, message)));
    }

    /// What QEMU and the guest's kernel have written.
    fn logs(&self) -> String {
        let read = |name: &str| fs::read(self.directory.path().join(name)).unwrap_or_default();
        let text = [read(QEMU), read(CONSOLE)].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(20));
        last.fold(String::new(), |all, line| format!("{all}\n  {line}"))
    }
}

/// The log of QEMU in the directory of a guest.
const QEMU: &str = "qemu";

/// Starts QEMU. That it has ended is told.
fn start_qemu(mut command: Command, directory: &Path, tell: Sender<Event>) -> Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(directory.join(QEMU))?)
        // A key such as Ctrl-C is for the command.
        .process_group(0);
    // SAFETY: the closure makes one system call, which a child may make after fork().
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    let mut child = command.spawn().with_context(|| {
        format!(
            "cannot run {}: install the package qemu-system-x86-pmu, or name QEMU by --qemu",
            command.get_program().to_string_lossy()
        )
    })?;
    let mut output = child.stdout.take().context("no pipe")?;
    thread::spawn(move || {
        // QEMU has the pipe until it ends, and writes nothing.
        let _ = output.read_to_end(&mut Vec::new());
        tell.send(Event::Ended)
    });
    Ok(child)
}

/// Waits until a guest has stopped itself.
fn wait_until_stopped(monitor: &mut Monitor) -> Result<()> {
    let until = Instant::now() + RESTORING;
    loop {
        let status = monitor.execute(&json!({ "execute": "query-status" }))?;
        if status["status"] == "guest-panicked" {
            return Ok(());
        }
        ensure!(Instant::now() < until, "the guest does not stop: {status}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn send(mut to: &UnixStream, message: &impl serde::Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).context("the guest")
}
