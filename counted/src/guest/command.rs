// SPDX-License-Identifier: GPL-2.0

//! The command of the user, and its standard streams.

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg, FdFlag, OFlag};
use nix::libc::{waitpid, WEXITSTATUS, WIFEXITED, WTERMSIG};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::pty::{openpty, Winsize};
use nix::sys::signal::{kill, killpg, Signal};
use nix::sys::stat::Mode;
use nix::unistd::{pipe2, setgid, setgroups, setsid, setuid, Gid, Pid, Uid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::port::Port;
use crate::talk::{Job, Size, Status, ToGuest, ToHost, STREAMS, TERMINAL};

nix::ioctl_write_ptr_bad!(set_size, nix::libc::TIOCSWINSZ, Winsize);
nix::ioctl_write_int_bad!(set_controlling_terminal, nix::libc::TIOCSCTTY);

/// Runs the command. `messages` is what the host says meanwhile.
pub fn run(job: &Job, messages: BufReader<File>) -> Result<ToHost> {
    let mut command = command_of(job)?;
    let streams = match job.terminal {
        Some(size) => Streams::terminal(&mut command, size, job)?,
        None => Streams::pipes(&mut command, job.input.as_deref())?,
    };
    let spawned = command.spawn();
    // The command's ends of the pipes are open in it alone now.
    drop(command);
    let (status, why) = match spawned {
        Ok(child) => {
            let child = Pid::from_raw(child.id() as i32);
            let terminal = streams
                .terminal
                .as_ref()
                .map(OwnedFd::try_clone)
                .transpose()?;
            let unread = streams.unread.clone();
            thread::spawn(move || obey(messages, child, terminal, &unread));
            (wait_for(child)?, None)
        }
        Err(error) => {
            let status = match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOENT) => Status::NotFound,
                Some(Errno::EACCES | Errno::ENOEXEC) => Status::NotExecutable,
                _ => return Err(error).context("the command"),
            };
            (status, Some(error.to_string()))
        }
    };
    // What the command has started ends with it.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    let [output, error] = streams.finish()?;
    Ok(ToHost::Ended {
        status,
        output,
        error,
        why,
    })
}

fn command_of(job: &Job) -> Result<Command> {
    let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
    let mut words = job.command.iter().map(text);
    let mut command = Command::new(words.next().context("no command")?);
    std::env::set_current_dir(&job.directory)
        .with_context(|| format!("cannot enter {}", job.directory.display()))?;
    let variables = job
        .environment
        .iter()
        .map(|(name, value)| (text(name), text(value)));
    command.args(words).env_clear().envs(variables);
    let (user, group) = (Uid::from_raw(job.user), Gid::from_raw(job.group));
    let groups: Vec<_> = job.groups.iter().map(|it| Gid::from_raw(*it)).collect();
    let umask = Mode::from_bits_truncate(job.umask);
    let become_user = move || {
        nix::sys::stat::umask(umask);
        setgroups(&groups)?;
        setgid(group)?;
        Ok(setuid(user)?)
    };
    // SAFETY: the closure makes four system calls, which a child may make after fork(), and does not
    // allocate.
    unsafe { command.pre_exec(become_user) };
    Ok(command)
}

/// Waits for the end of the command. Others that have lost their parents end meanwhile, too.
fn wait_for(child: Pid) -> Result<Status> {
    loop {
        let mut status = 0;
        // nix::sys::wait::wait() fails after a real-time signal.
        // SAFETY: the number is valid during the call.
        let pid = unsafe { waitpid(-1, &mut status, 0) };
        match Errno::result(pid) {
            Ok(pid) if pid != child.as_raw() => {}
            Ok(_) if WIFEXITED(status) => return Ok(Status::Exited(WEXITSTATUS(status))),
            Ok(_) => return Ok(Status::Killed(WTERMSIG(status))),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("wait"),
        }
    }
}

/// Does what the host says.
fn obey(
    messages: BufReader<File>,
    child: Pid,
    terminal: Option<OwnedFd>,
    unread: &[Arc<AtomicBool>; 2],
) {
    for line in messages.lines() {
        let Ok(line) = line else { return };
        match (serde_json::from_str(&line), &terminal) {
            (Ok(ToGuest::Signal(number)), _) => {
                // It may have ended.
                let _ = Signal::try_from(number).and_then(|signal| killpg(child, signal));
            }
            (Ok(ToGuest::Unread(stream)), _) => {
                if let Some(unread) = unread.get(stream) {
                    unread.store(true, Ordering::Relaxed);
                }
            }
            (Ok(ToGuest::Resized(size)), Some(terminal)) => {
                // SAFETY: the descriptor is open, and the size is valid during the call.
                let _ = unsafe { set_size(terminal.as_raw_fd(), &window(size)) };
            }
            _ => {}
        }
    }
}

fn window(size: Size) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// What is copied between the command and the ports.
struct Streams {
    /// The other end of the command's terminal.
    terminal: Option<OwnedFd>,
    /// They copy what the command writes, until the command has ended.
    outputs: Vec<JoinHandle<Result<u64>>>,
    /// Closed when the command has ended.
    ended: Option<OwnedFd>,
    /// Which outputs nobody reads any more.
    unread: [Arc<AtomicBool>; 2],
}

impl Streams {
    /// Pipes for the three streams. They can be opened again, as /dev/stderr, which ports cannot.
    fn pipes(command: &mut Command, input: Option<&Path>) -> Result<Self> {
        // A signal is for all that the command starts.
        command.process_group(0);
        let [port, ports @ ..] = STREAMS;
        match input {
            Some(file) => {
                command.stdin(File::open(file).context("the input")?);
            }
            None => {
                let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
                command.stdin(reader);
                copy_input(Port::open(port)?.file()?, writer);
            }
        }
        let (ended, end) = pipe2(OFlag::O_CLOEXEC)?;
        let mut outputs = Vec::new();
        let mut others = Vec::new();
        let unread: [Arc<AtomicBool>; 2] = Default::default();
        for (name, unread) in ports.into_iter().zip(&unread) {
            let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
            others.push(writer);
            let (port, ended) = (Port::open(name)?.file()?, ended.try_clone()?);
            let unread = Arc::clone(unread);
            // The command gets SIGPIPE when the thread has ended.
            outputs.push(thread::spawn(move || {
                copy_output(&reader, port, &ended, &unread)
            }));
        }
        let [output, error]: [OwnedFd; 2] = others.try_into().ok().context("two outputs")?;
        command.stdout(output).stderr(error);
        Ok(Self {
            terminal: None,
            outputs,
            ended: Some(end),
            unread,
        })
    }

    /// A terminal.
    fn terminal(command: &mut Command, size: Size, job: &Job) -> Result<Self> {
        let both = openpty(Some(&window(size)), None).context("a terminal")?;
        // The command must not hold them open.
        for end in [&both.master, &both.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        // So that the command can open it again.
        std::os::unix::fs::fchown(&both.slave, Some(job.user), Some(job.group))?;
        let lead = || {
            setsid()?;
            // SAFETY: standard input is the terminal.
            unsafe { set_controlling_terminal(0, 0) }?;
            Ok(())
        };
        // SAFETY: the closure makes two system calls, which a child may make after fork(), and does not
        // allocate.
        unsafe { command.pre_exec(lead) };
        command
            .stdin(both.slave.try_clone()?)
            .stdout(both.slave.try_clone()?)
            .stderr(both.slave);
        let port = Port::open(TERMINAL)?;
        copy_keys(port.file()?, both.master.try_clone()?);
        let (ended, end) = pipe2(OFlag::O_CLOEXEC)?;
        let (reader, port) = (both.master.try_clone()?, port.file()?);
        let unread: [Arc<AtomicBool>; 2] = Default::default();
        let [of_terminal, _] = unread.clone();
        let output = thread::spawn(move || copy_output(&reader, port, &ended, &of_terminal));
        Ok(Self {
            terminal: Some(both.master),
            outputs: vec![output],
            ended: Some(end),
            unread,
        })
    }

    /// The command has ended. Returns how much was written to each output.
    fn finish(mut self) -> Result<[u64; 2]> {
        self.ended = None;
        let mut written = [0; 2];
        for (written, output) in written.iter_mut().zip(self.outputs) {
            *written = output.join().ok().context("a thread has panicked")??;
        }
        Ok(written)
    }
}

/// Copies the pieces of standard input, by a thread.
fn copy_input(mut port: File, command: OwnedFd) {
    let mut command = File::from(command);
    thread::spawn(move || -> io::Result<()> {
        loop {
            let mut length = [0; 4];
            port.read_exact(&mut length)?;
            let mut piece = vec![0; u32::from_le_bytes(length) as usize];
            if piece.is_empty() {
                return Ok(());
            }
            port.read_exact(&mut piece)?;
            // Fails if the command has closed its end.
            command.write_all(&piece)?;
        }
    });
}

/// Copies the keys that the host sends, by a thread.
fn copy_keys(mut port: File, terminal: OwnedFd) {
    let mut terminal = File::from(terminal);
    thread::spawn(move || io::copy(&mut port, &mut terminal));
}

/// Copies what the command writes until it has ended, and nothing is left, or until nobody reads it.
fn copy_output(
    command: &OwnedFd,
    mut port: File,
    ended: &OwnedFd,
    unread: &AtomicBool,
) -> Result<u64> {
    let mut from = File::from(command.try_clone()?);
    let mut written = 0;
    let mut buffer = [0; 65536];
    loop {
        let mut both = [command, ended].map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN));
        match poll(&mut both, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("poll"),
        }
        let [is_readable, has_ended] = both.map(|it| it.any().unwrap_or(false));
        if unread.load(Ordering::Relaxed) {
            return Ok(written);
        }
        if is_readable {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(written),
                Ok(length) => {
                    let (data, _) = buffer.split_at(length);
                    port.write_all(data).context("the host")?;
                    written += length as u64;
                }
                // Nobody has the terminal open.
                Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => return Ok(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the output of the command"),
            }
        } else if has_ended {
            return Ok(written);
        }
    }
}
