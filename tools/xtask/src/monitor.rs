// SPDX-License-Identifier: GPL-2.0

//! QEMU's monitor, and with it the logs of a guest that timed out: what the guest and its QEMU are
//! doing.

use anyhow::{anyhow, ensure, Context as _, Result};
use serde_json::{json, Value};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::context::GuestLogs;

/// How long an answer may take. A QEMU that hangs itself gives none.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// QEMU's monitor, by the protocol QMP (docs/interop/qmp-spec.rst of QEMU).
pub struct Monitor {
    answers: BufReader<UnixStream>,
    socket: UnixStream,
}

impl Monitor {
    /// Connects to the socket at `path`. A command fails if its answer takes longer than this.
    pub fn connect(path: &Path, patience: Option<Duration>) -> Result<Self> {
        let socket = UnixStream::connect(path).context("QEMU's monitor")?;
        socket.set_read_timeout(patience)?;
        socket.set_write_timeout(patience)?;
        let mut monitor = Self {
            answers: BufReader::new(socket.try_clone()?),
            socket,
        };
        let greeting = monitor.read()?;
        ensure!(greeting.get("QMP").is_some(), "not QMP: {greeting}");
        monitor.execute(&json!({ "execute": "qmp_capabilities" }))?;
        Ok(monitor)
    }

    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .context("QEMU's monitor does not answer")?;
        ensure!(!line.is_empty(), "QEMU's monitor has closed");
        Ok(serde_json::from_str(&line)?)
    }

    /// Runs a command, and returns its answer.
    pub fn execute(&mut self, command: &Value) -> Result<Value> {
        // In one piece: QEMU may do it, and close the socket, before the end of the line.
        self.socket.write_all(format!("{command}\n").as_bytes())?;
        loop {
            let answer = self.read()?;
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
            if let Some(error) = answer.get("error") {
                return Err(anyhow!("{command}: {error}"));
            }
            // Events come in between.
        }
    }

    /// Runs a command of the monitor for humans.
    pub fn human(&mut self, line: &str) -> Result<String> {
        let answer = self.execute(&json!({
            "execute": "human-monitor-command",
            "arguments": { "command-line": line },
        }))?;
        let text = answer.as_str().context("not a text")?;
        Ok(text.replace("\r\n", "\n"))
    }
}

/// Saves the registers of all virtual CPUs, their local APICs and the backtraces of
/// QEMU's threads. What cannot be had is said in the log instead.
pub fn save(logs: &GuestLogs, socket: &Path, cpus: u32, qemu: u32) -> Result<()> {
    // The threads first: a query of the monitor changes what they do.
    threads(&logs.threads(), qemu)?;
    let mut text = String::new();
    if let Err(error) = registers(&mut text, socket, cpus) {
        writeln!(text, "{error:#}")?;
    }
    fs::write(logs.registers(), text)?;
    Ok(())
}

fn registers(text: &mut String, socket: &Path, cpus: u32) -> Result<()> {
    let mut monitor = Monitor::connect(socket, Some(PATIENCE))?;
    let commands = ["info status", "info cpus", "info registers -a"];
    let apics = (0..cpus).map(|id| format!("info lapic {id}"));
    for command in commands.map(str::to_owned).into_iter().chain(apics) {
        writeln!(text, "(qemu) {command}")?;
        text.push_str(&monitor.human(&command)?);
        text.push('\n');
    }
    Ok(())
}

/// eu-stack shows less than gdb would (no frames of translated code), but gdb would
/// double what the build root has of libraries.
fn threads(log: &Path, qemu: u32) -> Result<()> {
    let log = File::create(log)?;
    let mut said = log.try_clone()?;
    let status = Command::new("timeout")
        .arg(PATIENCE.as_secs().to_string())
        .args(["eu-stack", "-p", &qemu.to_string()])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status();
    match status {
        Ok(status) if status.success() => {}
        // 1: some frame has no unwind information, as in translated code.
        Ok(status) => writeln!(said, "eu-stack: {status}")?,
        Err(error) => writeln!(said, "eu-stack: {error}")?,
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// A monitor that answers so, until the other side closes.
    pub fn serve(listener: &UnixListener, mut answer: impl FnMut(&Value) -> Value) {
        let (mut socket, _) = listener.accept().unwrap();
        let lines = BufReader::new(socket.try_clone().unwrap());
        writeln!(socket, "{}", json!({ "QMP": { "version": {} } })).unwrap();
        for line in lines.lines() {
            let command = serde_json::from_str(&line.unwrap()).unwrap();
            writeln!(socket, "{}", json!({ "event": "RTC_CHANGE" })).unwrap();
            writeln!(socket, "{}", answer(&command)).unwrap();
        }
    }

    #[test]
    fn what_the_monitor_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qmp");
        let listener = UnixListener::bind(&path).unwrap();
        let known = [
            "info status",
            "info cpus",
            "info registers -a",
            "info lapic 0",
        ];
        let mut i = 0..;
        let answer = |command: &Value| {
            let i = i.next();
            match command["arguments"]["command-line"].as_str() {
                None => json!({ "return": {} }),
                Some(line) if known.contains(&line) => {
                    json!({ "return": format!("{}\r\n", i.unwrap()) })
                }
                Some(line) => json!({ "error": { "desc": line } }),
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| serve(&listener, answer));
            let mut text = String::new();
            let error = registers(&mut text, &path, 2).unwrap_err();
            assert!(text.contains("(qemu) info status\n1\n\n"), "{text}");
            assert!(text.contains("(qemu) info lapic 0\n4\n\n"), "{text}");
            assert!(error.to_string().contains("info lapic 1"), "{error}");
        });
    }

    #[test]
    fn there_is_a_log_without_a_monitor() {
        let dir = tempfile::tempdir().unwrap();
        let mut text = String::new();
        assert!(registers(&mut text, &dir.path().join("qmp"), 1).is_err());
        // Its own threads it cannot see; the log says so.
        let log = dir.path().join("threads");
        threads(&log, std::process::id()).unwrap();
        assert!(!fs::read(&log).unwrap().is_empty());
    }
}
