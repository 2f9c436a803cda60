// SPDX-License-Identifier: GPL-2.0

//! Saves a guest in a file when it asks for that, by a virtio port.
//!
//! [`Saver`] is for tests. The tests write a byte to a virtio port. QEMU then saves the guest, which
//! runs meanwhile, and ends. [`Guest::run`](crate::guest::Guest::run) starts another QEMU that restores
//! the guest. The tests then find a byte at the port.

use anyhow::{bail, Context as _, Result};
use boot::monitor::Monitor;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The name of the virtio port at which tests ask.
const PORT: &str = "save";

/// A virtio port, served by a thread.
pub struct Port {
    path: PathBuf,
    /// QEMU has ended, and there will be no other.
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Port {
    /// Listens on a new socket in `dir`. `serve` serves one QEMU after the other.
    pub fn start(
        dir: &Path,
        name: &str,
        mut serve: impl FnMut(UnixStream) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let path = dir.join(name);
        let ended = Arc::new(AtomicBool::new(false));
        let listener = UnixListener::bind(&path)?;
        let has_ended = Arc::clone(&ended);
        let thread = thread::spawn(move || loop {
            let (port, _) = listener.accept()?;
            if has_ended.load(Ordering::Acquire) {
                return Ok(());
            }
            serve(port)?;
        });
        Ok(Self {
            path,
            ended,
            thread,
        })
    }

    /// QEMU's arguments for the port `name` that is served in `dir`, with these properties.
    pub fn arguments(dir: &Path, name: &str, properties: &str) -> [String; 4] {
        [
            "-chardev".to_owned(),
            format!("socket,id={name},path={}", dir.join(name).display()),
            "-device".to_owned(),
            format!("virtserialport,chardev={name},name={name}{properties}"),
        ]
    }

    /// Ends. QEMU must have ended. Returns why the port could not be served.
    pub fn finish(self) -> Result<()> {
        self.ended.store(true, Ordering::Release);
        // The thread may wait for a QEMU to connect.
        drop(UnixStream::connect(&self.path));
        match self.thread.join() {
            Ok(result) => result.context("saving the guest"),
            Err(_) => bail!("the thread that saves the guest panicked"),
        }
    }
}

/// Saves a guest as often as its tests ask for that.
pub struct Saver {
    dir: PathBuf,
    /// The guest is saved and QEMU ends.
    saved: Arc<AtomicBool>,
    port: Port,
}

impl Saver {
    /// Listens on a new socket in `dir`, where the saved guest will be too.
    pub fn start(dir: &Path, monitor: &Path) -> Result<Self> {
        let saved = Arc::new(AtomicBool::new(false));
        let mut server = Server {
            monitor: monitor.to_owned(),
            state: state(dir),
            saved: Arc::clone(&saved),
            is_restored: false,
        };
        Ok(Self {
            dir: dir.to_owned(),
            saved,
            port: Port::start(dir, PORT, move |port| server.serve(port))?,
        })
    }

    /// QEMU's arguments for the port.
    pub fn arguments(&self) -> [String; 4] {
        Port::arguments(&self.dir, PORT, "")
    }

    /// The arguments of a QEMU that restores the guest.
    pub fn restoring_arguments(&self) -> [String; 2] {
        let state = state(&self.dir);
        ["-incoming".to_owned(), format!("file:{}", state.display())]
    }

    /// Whether QEMU has ended because the guest is saved. The next time it is another QEMU.
    pub fn take_saved(&self) -> bool {
        self.saved.swap(false, Ordering::AcqRel)
    }

    /// Ends. QEMU must have ended. Returns why the guest could not be saved.
    pub fn finish(self) -> Result<()> {
        self.port.finish()
    }
}

fn state(dir: &Path) -> PathBuf {
    dir.join("state")
}

/// What the thread of a [`Saver`] has.
struct Server {
    /// The socket of QEMU's monitor.
    monitor: PathBuf,
    /// The saved guest.
    state: PathBuf,
    saved: Arc<AtomicBool>,
    /// Whether the next QEMU restores the guest.
    is_restored: bool,
}

impl Server {
    /// Serves a QEMU.
    fn serve(&mut self, mut port: UnixStream) -> Result<()> {
        // Nothing comes if QEMU ends, or an error if it has not read what was sent.
        let sent = match self.is_restored {
            true => port.write_all(b"r"),
            false => Ok(()),
        };
        self.is_restored = sent.is_ok() && matches!(port.read(&mut [0]), Ok(1));
        if self.is_restored {
            let mut monitor = Monitor::connect(&self.monitor, None)?;
            let saved = monitor.save(&self.state);
            self.saved.store(saved.is_ok(), Ordering::Release);
            // It may end before it answers.
            let _ = monitor.execute(&json!({ "execute": "quit" }));
            saved?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::tests::serve;
    use serde_json::Value;

    /// A QEMU that has a guest, which asks once to be saved.
    fn save_with(migrate: Value, status: &str) -> (bool, Result<()>) {
        let dir = tempfile::tempdir().unwrap();
        let monitor = dir.path().join("monitor");
        let listener = UnixListener::bind(&monitor).unwrap();
        let saver = Saver::start(dir.path(), &monitor).unwrap();
        let mut port = UnixStream::connect(dir.path().join(PORT)).unwrap();
        port.write_all(b"s").unwrap();
        let mut commands = Vec::new();
        serve(&listener, |command| {
            let name = command["execute"].as_str().unwrap().to_owned();
            let answer = match name.as_str() {
                "migrate" => migrate.clone(),
                "query-migrate" => json!({ "return": { "status": status } }),
                _ => json!({ "return": {} }),
            };
            commands.push(name);
            answer
        });
        assert_eq!(commands.last().map(String::as_str), Some("quit"));
        drop(port);
        let saved = saver.take_saved();
        assert!(!saver.take_saved());
        if saved {
            // The QEMU that restores it.
            let mut port = UnixStream::connect(dir.path().join(PORT)).unwrap();
            port.read_exact(&mut [0]).unwrap();
        }
        (saved, saver.finish())
    }

    #[test]
    fn a_guest_is_saved_when_it_asks_for_that() {
        let (saved, result) = save_with(json!({ "return": {} }), "completed");
        assert!(saved);
        result.unwrap();
    }

    #[test]
    fn a_guest_that_cannot_be_saved() {
        let blocked = json!({ "error": { "desc": "disabled" } });
        for (migrate, status) in [(blocked, "completed"), (json!({ "return": {} }), "failed")] {
            let (saved, result) = save_with(migrate, status);
            assert!(!saved && result.is_err());
        }
    }

    #[test]
    fn a_guest_that_does_not_ask() {
        let dir = tempfile::tempdir().unwrap();
        let saver = Saver::start(dir.path(), &dir.path().join("monitor")).unwrap();
        drop(UnixStream::connect(dir.path().join(PORT)).unwrap());
        assert!(!saver.take_saved());
        saver.finish().unwrap();
    }
}
