// SPDX-License-Identifier: GPL-2.0

//! QEMU's monitor, by the protocol QMP (docs/interop/qmp-spec.rst of QEMU).

use anyhow::{anyhow, bail, ensure, Context as _, Result};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often QEMU is asked whether it has saved the guest.
const INTERVAL: Duration = Duration::from_millis(10);

/// A connection to the monitor.
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

    /// Saves the guest in a file. It stands still afterwards.
    pub fn save(&mut self, state: &Path) -> Result<()> {
        // Neither the bandwidth nor the time that the guest stands still is to be limited: it writes to
        // its memory all the time.
        self.execute(&json!({
            "execute": "migrate-set-parameters",
            "arguments": { "max-bandwidth": 1_u64 << 40, "downtime-limit": 60_000 },
        }))?;
        self.execute(&json!({
            "execute": "migrate",
            "arguments": { "uri": format!("file:{}", state.display()) },
        }))?;
        loop {
            let answer = self.execute(&json!({ "execute": "query-migrate" }))?;
            match answer["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => bail!("QEMU cannot save the guest: {answer}"),
                _ => thread::sleep(INTERVAL),
            }
        }
    }
}
