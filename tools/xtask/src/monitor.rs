// SPDX-License-Identifier: GPL-2.0

//! The logs of a guest that timed out: what the guest and its QEMU are doing.

use anyhow::Result;
use boot::monitor::Monitor;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::context::GuestLogs;

/// How long an answer may take. A QEMU that hangs itself gives none.
pub const PATIENCE: Duration = Duration::from_secs(10);

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
    use serde_json::{json, Value};
    use std::io::{BufRead, BufReader};
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
