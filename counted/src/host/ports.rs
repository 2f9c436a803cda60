// SPDX-License-Identifier: GPL-2.0

//! The sockets that QEMU connects the guest's ports to. Each is served by a thread.

use anyhow::{Context as _, Result};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::session::Event;
use crate::talk::{CONTROL, PORTS, STREAMS, TERMINAL};

/// The sockets of a guest.
pub struct Ports {
    /// Lets the guest have the input.
    input: Sender<()>,
    /// They copy the output.
    outputs: Vec<JoinHandle<()>>,
    /// How many of these wait for who reads it.
    writing: Arc<AtomicUsize>,
}

impl Ports {
    /// Listens at the sockets in `directory`. What happens there is told.
    pub fn serve(directory: &Path, has_terminal: bool, tell: &Sender<Event>) -> Result<Self> {
        let listen = |name: &str| {
            let path = directory.join(name);
            UnixListener::bind(&path).with_context(|| {
                format!(
                    "a socket {}: name another directory by TMPDIR",
                    path.display()
                )
            })
        };
        let [input, output, error] = STREAMS;
        let [input, output, error] = [listen(input)?, listen(output)?, listen(error)?];
        let terminal = listen(TERMINAL)?;
        control(listen(CONTROL)?, tell.clone());
        let (go, is_wanted) = mpsc::channel();
        let is_wanted = move || is_wanted.recv().is_ok();
        let writing = Arc::new(AtomicUsize::new(0));
        let stdout = Output::new(0, io::stdout(), &writing, tell)?;
        let stderr = Output::new(1, io::stderr(), &writing, tell)?;
        let outputs = if has_terminal {
            // QEMU connects to the others, too.
            idle([input, output, error]);
            vec![keys_and_output(terminal, stdout, is_wanted)]
        } else {
            idle([terminal]);
            pieces_of_input(input, is_wanted);
            vec![stdout.serve(output), stderr.serve(error)]
        };
        Ok(Self {
            input: go,
            outputs,
            writing,
        })
    }

    /// The guest will read the input. Nothing is read before, so that another guest may have it.
    pub fn give_input(&self) {
        // The thread may have ended.
        let _ = self.input.send(());
    }

    /// Whether output waits for who reads it.
    pub fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Relaxed) > 0
    }

    /// Waits until all output is written that has come. QEMU must have ended.
    pub fn finish(self, directory: &Path) {
        drop(self.input);
        for name in PORTS {
            // A thread may wait for a QEMU that has not connected.
            drop(UnixStream::connect(directory.join(name)));
        }
        for output in self.outputs {
            // A thread that has panicked has said so.
            let _ = output.join();
        }
    }
}

/// Keeps connections that nothing is done with.
fn idle<const N: usize>(listeners: [UnixListener; N]) {
    for listener in listeners {
        thread::spawn(move || {
            let connection = listener.accept();
            thread::park();
            drop(connection);
        });
    }
}

fn control(listener: UnixListener, tell: Sender<Event>) {
    thread::spawn(move || -> Result<()> {
        let (stream, _) = listener.accept()?;
        tell.send(Event::Connected(stream.try_clone()?))?;
        for line in BufReader::new(stream).lines() {
            tell.send(Event::Said(serde_json::from_str(&line?)?))?;
        }
        Ok(())
    });
}

fn pieces_of_input(listener: UnixListener, is_wanted: impl FnOnce() -> bool + Send + 'static) {
    thread::spawn(move || -> io::Result<()> {
        let (mut port, _) = listener.accept()?;
        if !is_wanted() {
            return Ok(());
        }
        let mut buffer = [0; 65536];
        loop {
            // What cannot be read is at its end.
            let length = io::stdin().read(&mut buffer).unwrap_or(0);
            let (piece, _) = buffer.split_at(length);
            port.write_all(&(length as u32).to_le_bytes())?;
            port.write_all(piece)?;
            if piece.is_empty() {
                // The port stays open.
                thread::park();
            }
        }
    });
}

fn keys_and_output(
    listener: UnixListener,
    output: Output,
    is_wanted: impl FnOnce() -> bool + Send + 'static,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let Ok((port, _)) = listener.accept() else {
            return;
        };
        if let Ok(mut input) = port.try_clone() {
            thread::spawn(move || match is_wanted() {
                true => io::copy(&mut io::stdin(), &mut input),
                false => Ok(0),
            });
        }
        output.copy(port);
    })
}

/// An output of the command.
struct Output {
    /// 0 is standard output, 1 is standard error.
    stream: usize,
    /// Not buffered, so that no part of a line is kept.
    to: File,
    writing: Arc<AtomicUsize>,
    tell: Sender<Event>,
}

impl Output {
    fn new(
        stream: usize,
        to: impl AsFd,
        writing: &Arc<AtomicUsize>,
        tell: &Sender<Event>,
    ) -> io::Result<Self> {
        Ok(Self {
            stream,
            to: to.as_fd().try_clone_to_owned()?.into(),
            writing: Arc::clone(writing),
            tell: tell.clone(),
        })
    }

    fn serve(self, listener: UnixListener) -> JoinHandle<()> {
        thread::spawn(move || {
            // Without a guest there is no output.
            if let Ok((port, _)) = listener.accept() {
                self.copy(port);
            }
        })
    }

    /// Copies the output of a port. If nobody reads it, or it cannot be written, the rest is dropped.
    fn copy(&self, mut port: UnixStream) {
        let mut buffer = [0; 65536];
        let mut is_read = true;
        loop {
            // An error comes if QEMU has ended.
            let length = port.read(&mut buffer).unwrap_or(0);
            let (data, _) = buffer.split_at(length);
            if data.is_empty() {
                return;
            }
            self.writing.fetch_add(1, Ordering::Relaxed);
            let _ = self.tell.send(Event::Output(self.stream, length as u64));
            let written = if is_read { self.write(data) } else { Ok(()) };
            self.writing.fetch_sub(1, Ordering::Relaxed);
            if let Err(error) = written {
                is_read = false;
                let _ = self.tell.send(match error.kind() {
                    ErrorKind::BrokenPipe => Event::Unread(self.stream),
                    _ => Event::NotWritten(error),
                });
            }
        }
    }

    /// Writes all. It waits where others who have the file open do not want to.
    fn write(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            match (&self.to).write(data) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => data = data.get(length..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let file = PollFd::new(self.to.as_fd(), PollFlags::POLLOUT);
                    poll(&mut [file], PollTimeout::NONE)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
