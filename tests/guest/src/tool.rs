// SPDX-License-Identifier: GPL-2.0
//! Running perf(1) and reading what it prints.

use std::ffi::OsStr;
use std::process::{Command, Output};

use anyhow::{bail, ensure, Context, Result};

/// A perf command line.
pub struct Perf(Command);

impl Perf {
    /// `perf` with its subcommand.
    pub fn new(subcommand: &str) -> Self {
        let mut command = Command::new("perf");
        // No pager, no colours, numbers as everywhere.
        command
            .env("LC_ALL", "C")
            .env("PAGER", "cat")
            .arg(subcommand);
        Self(command)
    }

    /// `perf stat` for scripts: fields separated by commas.
    pub fn stat() -> Self {
        let mut perf = Self::new("stat");
        perf.0.arg("-x,");
        perf
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.0.args(args);
        self
    }

    /// The command, for those that need more of it.
    pub fn command(&mut self) -> &mut Command {
        &mut self.0
    }

    /// Runs it; an exit status other than 0 is an error, with what perf said.
    pub fn run(mut self) -> Result<Output> {
        let output = self.0.output().context("perf")?;
        check(&self.0, output)
    }

    /// Runs it, and returns what it printed.
    pub fn text(self) -> Result<String> {
        Ok(String::from_utf8(self.run()?.stdout)?)
    }

    /// Runs `perf stat`, and returns its rows.
    pub fn rows(self) -> Result<Vec<Row>> {
        parse_rows(&self.run()?)
    }
}

/// Makes an exit status other than 0 an error.
pub fn check(command: &Command, output: Output) -> Result<Output> {
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

/// One event of `perf stat`.
#[derive(Debug, PartialEq)]
pub struct Row {
    /// What comes before the value: the CPU, or the core and its CPUs.
    pub place: String,
    pub value: f64,
    pub event: String,
    /// The relative deviation of repeated runs in percent.
    pub deviation: Option<f64>,
    /// Percent of the time that the event was counting.
    pub running: f64,
}

/// The rows that `perf stat -x,` printed.
pub fn parse_rows(output: &Output) -> Result<Vec<Row>> {
    let text = String::from_utf8_lossy(&output.stderr);
    let rows = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| parse_row(line).transpose())
        .collect::<Result<Vec<_>>>()
        .with_context(|| format!("perf stat printed\n{text}"))?;
    ensure!(!rows.is_empty(), "perf stat printed no count\n{text}");
    Ok(rows)
}

/// `[place,[cpus,]]value,unit,event,[deviation%,]run time,percent[,metric…]`
///
/// The row of a metric alone, which has no event, is `None`.
fn parse_row(line: &str) -> Result<Option<Row>> {
    // An event with terms holds commas itself: cpu/event=0xc0,umask=0/.
    let fields = split(line);
    let Some(at) = fields.iter().position(|field| is_event(field)) else {
        if line.contains("<not ") {
            bail!("«{line}»");
        }
        return Ok(None);
    };
    let place = fields[..at.saturating_sub(2)].join(",");
    let value = at
        .checked_sub(2)
        .map(|value| &fields[value])
        .context("no value")?;
    let value = value.parse().with_context(|| format!("«{line}»"))?;
    let mut rest = fields[at + 1..].iter();
    let mut next = rest.next().context("no run time")?;
    let mut deviation = None;
    if let Some(percent) = next.strip_suffix('%') {
        deviation = Some(percent.parse()?);
        next = rest.next().context("no run time")?;
    }
    next.parse::<u64>().context("run time")?;
    let running = rest.next().context("no share of the time")?.parse()?;
    Ok(Some(Row {
        place,
        value,
        event: fields[at].clone(),
        deviation,
        running,
    }))
}

/// Splits at the commas outside of slashes.
fn split(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut inside = false;
    for c in line.chars() {
        inside ^= c == '/';
        match c {
            ',' if !inside => fields.push(String::new()),
            c => fields.last_mut().expect("never empty").push(c),
        }
    }
    fields
}

/// Is this field the name of an event of ours?
fn is_event(field: &str) -> bool {
    field.contains('/')
        || ["task-clock", "page-faults", "context-switches"]
            .iter()
            .any(|event| field.starts_with(event))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> Row {
        parse_row(line)
            .expect("a good row")
            .expect("a row with an event")
    }

    #[test]
    fn plain() {
        let row = row("20000004,,cpu/instructions/u,95038101,100.00,,");
        assert_eq!(row.place, "");
        assert_eq!(row.value, 20_000_004.0);
        assert_eq!(row.event, "cpu/instructions/u");
        assert_eq!(row.deviation, None);
        assert_eq!(row.running, 100.0);
    }

    #[test]
    fn repeated() {
        let row = row("4,,cpu/instructions/u,0.00%,95038101,100.00,0.31,insn per cycle");
        assert_eq!(row.deviation, Some(0.0));
    }

    #[test]
    fn per_core() {
        let row = row("S0-D0-C1,1,400,,cpu/event=0xc0,umask=0/u,95038101,50.00,,");
        assert_eq!(row.place, "S0-D0-C1,1");
        assert_eq!(row.value, 400.0);
        assert_eq!(row.event, "cpu/event=0xc0,umask=0/u");
        assert_eq!(row.running, 50.0);
    }

    #[test]
    fn software() {
        let row = row("12.5,msec,task-clock,12500000,100.00,0.9,CPUs utilized");
        assert_eq!((row.value, row.event.as_str()), (12.5, "task-clock"));
    }

    #[test]
    fn not_counted() {
        assert!(parse_row("<not counted>,,cpu/cycles/,0,100.00,,").is_err());
    }
}
