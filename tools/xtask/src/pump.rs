// SPDX-License-Identifier: GPL-2.0

//! Copies the output of a guest's command from its virtio ports.

use anyhow::{bail, Context as _, Result};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Where a guest's output goes.
pub type Sink = Box<dyn Write + Send>;

/// What the one who waits for a guest is told.
pub enum News {
    /// There was output.
    Output,
    /// QEMU has ended.
    Ended,
    /// Nobody reads the output, or it cannot be used.
    Unread,
}

/// Copies the output of one port as it comes.
pub struct Pump {
    path: PathBuf,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Pump {
    /// Listens on a new socket at `path`, to which QEMU must connect. If it ends and another QEMU
    /// restores the guest, that connects to it too.
    pub fn start(path: PathBuf, mut sink: Sink, tell: Sender<News>) -> Result<Self> {
        let listener = UnixListener::bind(&path)?;
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let (mut port, _) = listener.accept()?;
            let mut buffer = [0; 65536];
            let mut result = Ok(());
            loop {
                let n = port.read(&mut buffer)?;
                if n == 0 {
                    // Whoever was to connect has then done so.
                    listener.set_nonblocking(has_ended.load(Ordering::Acquire))?;
                    match listener.accept() {
                        Ok((next, _)) => port = next,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return result,
                        Err(error) => return Err(error),
                    }
                    continue;
                }
                // Fails if QEMU has ended, which is news enough.
                let _ = tell.send(News::Output);
                // Reads on after an error: the guest waits until its output is read.
                if result.is_ok() {
                    result = sink.write_all(&buffer[..n]).and_then(|()| sink.flush());
                    if result.is_err() {
                        let _ = tell.send(News::Unread);
                    }
                }
            }
        });
        Ok(Self {
            path,
            ended,
            thread,
        })
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the end of the output. QEMU must have ended.
    pub fn finish(self) -> Result<()> {
        self.ended.store(true, Ordering::Release);
        // The thread may wait for a QEMU to connect.
        drop(UnixStream::connect(&self.path));
        match self.thread.join() {
            Ok(result) if broken_pipe(&result) => Ok(()),
            Ok(result) => result.context("copying the guest's output"),
            Err(_) => bail!("the thread that copies the guest's output panicked"),
        }
    }
}

fn broken_pipe(result: &io::Result<()>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_pump_ends_if_nobody_connects() {
        let dir = tempfile::tempdir().unwrap();
        let (tell, _news) = mpsc::channel();
        let pump = Pump::start(dir.path().join("p"), Box::new(io::sink()), tell).unwrap();
        pump.finish().unwrap();
    }

    #[test]
    fn a_pump_outlasts_a_qemu() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let log = dir.path().join("log");
        let (tell, _news) = mpsc::channel();
        let sink = Box::new(std::fs::File::create(&log).unwrap());
        let pump = Pump::start(path.clone(), sink, tell).unwrap();
        for text in ["first ", "second"] {
            let mut port = UnixStream::connect(&path).unwrap();
            port.write_all(text.as_bytes()).unwrap();
        }
        pump.finish().unwrap();
        assert_eq!(std::fs::read_to_string(log).unwrap(), "first second");
    }

    #[test]
    fn a_pump_reads_on_if_nobody_reads_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let (tell, news) = mpsc::channel();
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        let pump = Pump::start(path.clone(), Box::new(writer), tell).unwrap();
        let mut port = UnixStream::connect(path).unwrap();
        // More than a socket holds.
        port.write_all(&vec![0; 4 << 20]).unwrap();
        drop(port);
        let mut news = news.iter();
        assert!(matches!(news.next(), Some(News::Output)));
        assert!(news.any(|news| matches!(news, News::Unread)));
        pump.finish().unwrap();
    }

    #[test]
    fn a_pump_tells_of_output_that_cannot_be_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let (tell, news) = mpsc::channel();
        // A file that is open for reading only.
        let sink = std::fs::File::open(dir.path()).unwrap();
        let pump = Pump::start(path.clone(), Box::new(sink), tell).unwrap();
        let mut port = UnixStream::connect(path).unwrap();
        port.write_all(b"text").unwrap();
        drop(port);
        assert!(pump.finish().is_err());
        assert!(news.iter().any(|news| matches!(news, News::Unread)));
    }
}
