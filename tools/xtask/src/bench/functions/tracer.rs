// SPDX-License-Identifier: GPL-2.0

//! Has QEMU log while the guest asks for that.

use anyhow::{ensure, Context as _, Result};
use boot::monitor::Monitor;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::Sender;

/// The files that guest, QEMU and this program share.
#[derive(Clone)]
pub struct Files(pub PathBuf);

impl Files {
    /// The pipe of QEMU's log.
    pub fn trace(&self) -> PathBuf {
        self.0.join("trace")
    }

    pub fn monitor(&self) -> PathBuf {
        self.0.join("monitor")
    }

    pub fn symbols(&self) -> PathBuf {
        self.0.join("kallsyms")
    }

    /// Exists while QEMU logs, for the guest.
    pub fn on(&self) -> PathBuf {
        self.0.join("on")
    }
}

/// What the guest tells.
pub enum Told {
    /// How often a window does the operation.
    Times(u64),
    /// Windows of another kind follow.
    Kind,
    /// A window has ended.
    Window,
}

/// Has QEMU log while the guest asks for that.
pub struct Tracer {
    files: Files,
    output: Vec<u8>,
    monitor: Option<Monitor>,
    tell: Sender<Told>,
}

impl Tracer {
    /// A tracer that tells what it hears.
    pub fn new(files: Files, tell: Sender<Told>) -> Self {
        Self {
            files,
            output: Vec::new(),
            monitor: None,
            tell,
        }
    }

    /// Does what a line of the guest's output asks for.
    fn obey(&mut self, line: &str) -> Result<()> {
        let monitor = match &mut self.monitor {
            Some(monitor) => monitor,
            none => none.insert(Monitor::connect(&self.files.monitor(), None)?),
        };
        // The monitor answers with a text if it cannot do that.
        let mut order = |order: &str| {
            let answer = monitor.human(order)?;
            ensure!(answer.trim().is_empty(), "{order}: {answer}");
            Ok(())
        };
        match line {
            "begin" => {
                // So that each instruction has a line of its own.
                order("one-insn-per-tb on")?;
                order("log exec,nochain")?;
                fs::write(self.files.on(), "")?;
            }
            "end" => {
                order("log none")?;
                order("one-insn-per-tb off")?;
                fs::remove_file(self.files.on())?;
                self.tell.send(Told::Window)?;
            }
            "kind" => self.tell.send(Told::Kind)?,
            times => {
                let times = times.parse().with_context(|| times.to_owned())?;
                self.tell.send(Told::Times(times))?;
            }
        }
        Ok(())
    }
}

impl Write for Tracer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        while let Some(end) = self.output.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.output.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.obey(line.trim()).map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::tests::serve;
    use serde_json::{json, Value};
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn the_log_is_on_while_the_guest_asks_for_that() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files(dir.path().to_owned());
        let listener = UnixListener::bind(files.monitor()).unwrap();
        let mut orders = Vec::new();
        let answer = |command: &Value| {
            let order = command["arguments"]["command-line"].as_str();
            orders.extend(order.map(str::to_owned));
            let text = match orders.len() {
                6.. => "no such command",
                _ => "",
            };
            json!({ "return": text })
        };
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let server = scope.spawn(|| serve(&listener, answer));
            let mut tracer = Tracer::new(files.clone(), tell);
            tracer.write_all(b"20\nkind\nbeg").unwrap();
            assert!(!files.on().exists());
            tracer.write_all(b"in\n").unwrap();
            assert!(files.on().exists());
            tracer.write_all(b"end\n").unwrap();
            assert!(!files.on().exists());
            let error = tracer.write_all(b"begin\n").unwrap_err().to_string();
            assert!(error.contains("no such command"), "{error}");
            drop(tracer);
            server.join().unwrap();
        });
        let told: Vec<_> = told.iter().collect();
        assert!(matches!(
            told[..],
            [Told::Times(20), Told::Kind, Told::Window]
        ));
        assert_eq!(
            orders,
            [
                "one-insn-per-tb on",
                "log exec,nochain",
                "log none",
                "one-insn-per-tb off",
                "one-insn-per-tb on",
                "log exec,nochain",
            ]
        );
    }
}
