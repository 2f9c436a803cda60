// SPDX-License-Identifier: GPL-2.0
//! Programs that tests run: where those are that xtask has built, and the perf tool, whose output is parsed.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{bail, ensure, Context, Result};

use crate::setting::Setting;
use crate::waiting;

/// The directory with the programs of the kernel's source that xtask has built for this suite.
pub fn kernel_programs() -> Result<PathBuf> {
    const VARIABLE: &str = "RUST_PERF_KERNEL_PROGRAMS";
    let directory = env::var_os(VARIABLE).with_context(|| format!("{VARIABLE} is not set"))?;
    Ok(directory.into())
}

/// A perf command line.
pub struct Perf(Command);

impl Perf {
    /// `perf SUBCOMMAND`.
    pub fn new(subcommand: &str) -> Self {
        let mut command = Command::new("perf");
        // No pager, no colours, numbers with a decimal point.
        command
            .env("LC_ALL", "C")
            .env("PAGER", "cat")
            .arg(subcommand);
        Self(command)
    }

    /// `perf stat -x,`, which prints fields separated by commas.
    pub fn stat() -> Self {
        let mut perf = Self::new("stat");
        perf.0.arg("-x,");
        perf
    }

    /// `perf record -q` without build IDs, for which perf reads each file that has a sample.
    pub fn record() -> Self {
        Self::new("record").args(["-q", "-B"])
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.0.args(args);
        self
    }

    /// The command, for what the other methods do not offer.
    pub fn command(&mut self) -> &mut Command {
        &mut self.0
    }

    /// Runs it. An exit status other than 0 is an error with what perf printed.
    pub fn run(mut self) -> Result<Output> {
        let output = waiting::output(&mut self.0).context("perf")?;
        check(&self.0, output)
    }

    /// Runs it and returns its standard output.
    pub fn text(self) -> Result<String> {
        Ok(String::from_utf8(self.run()?.stdout)?)
    }

    /// Runs `perf stat` and returns its rows.
    pub fn rows(self) -> Result<Vec<Row>> {
        parse_rows(&self.run()?)
    }

    /// Runs `perf stat` and returns the rows. `None` if the program ended before each event had its turn: perf
    /// prints "<not counted>" for such an event.
    pub fn rows_if_all_ran(self) -> Result<Option<Vec<Row>>> {
        let output = self.run()?;
        let all_ran = !String::from_utf8_lossy(&output.stderr).contains("<not counted>");
        all_ran.then(|| parse_rows(&output)).transpose()
    }

    /// Runs `perf stat` and returns the rows of what it counted. An interval, or a type of core,
    /// in which the program did not run has none: perf prints "<not counted>" for it.
    pub fn counted_rows(self) -> Result<Vec<Row>> {
        let mut output = self.run()?;
        let text = String::from_utf8(output.stderr)?;
        let ran = text.lines().filter(|line| !line.contains("<not counted>"));
        output.stderr = ran.collect::<Vec<_>>().join("\n").into_bytes();
        parse_rows(&output)
    }
}

/// Hides the kernel's symbols from `perf record`, which reads them whether or not it needs them. On an
/// emulated CPU that takes two seconds.
pub fn without_kernel_symbols() -> Result<Setting> {
    Setting::change("/proc/sys/kernel/kptr_restrict", 2)
}

/// Turns an exit status other than 0 into an error with what perf printed.
pub fn check(command: &Command, output: Output) -> Result<Output> {
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

/// Runs a command, which must succeed, and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = waiting::output(command).with_context(|| format!("{command:?}"))?;
    Ok(String::from_utf8(check(command, output)?.stdout)?)
}

/// One event of `perf stat`.
#[derive(Debug, PartialEq)]
pub struct Row {
    /// The fields before the value: the CPU, or the core and its number of CPUs.
    pub place: String,
    /// The count. Clocks have fractions.
    pub value: f64,
    /// The event as perf prints it.
    pub event: String,
    /// The relative deviation of repeated runs, in percent.
    pub deviation: Option<f64>,
    /// The part of the time that the event was on a counter, in percent.
    pub running: f64,
}

/// Parses the rows that `perf stat -x,` printed.
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

/// Parses `[place,[cpus,]]value,unit,event,[deviation%,]run time,percent[,metric…]`.
///
/// Returns `None` for the row of a metric, which has no event.
fn parse_row(line: &str) -> Result<Option<Row>> {
    // An event with terms contains commas, too: cpu/event=0xc0,umask=0/.
    let fields = split(line);
    let Some(at) = (2..fields.len()).find(|at| is_event(&fields, *at)) else {
        if line.contains("<not ") {
            bail!("perf did not count: {line:?}");
        }
        return Ok(None);
    };
    let place = fields[..at - 2].join(",");
    let value = fields[at - 2].parse()?;
    let mut rest = fields[at + 1..].iter();
    let mut next = rest.next().context("no run time")?;
    let mut deviation = None;
    if let Some(percent) = next.strip_suffix('%') {
        deviation = Some(percent.parse()?);
        next = rest.next().context("no run time")?;
    }
    next.parse::<u64>().context("run time")?;
    let running = rest.next().context("no percentage of the time")?.parse()?;
    Ok(Some(Row {
        place,
        value,
        event: fields[at].clone(),
        deviation,
        running,
    }))
}

/// Splits a line at its commas, except those between slashes.
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

/// Whether a field is an event: a name between a value with its unit and a time or a deviation.
fn is_event(fields: &[String], at: usize) -> bool {
    let is_number = |at: usize| fields[at].parse::<f64>().is_ok();
    let next = fields.get(at + 1).map_or("", String::as_str);
    let is_name = !fields[at].is_empty() && !is_number(at);
    is_name && is_number(at - 2) && (next.ends_with('%') || next.parse::<u64>().is_ok())
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
    fn without_a_pmu() {
        let row = row("24087031,,cpu-cycles,130942795,100.00,0.2,GHz  cycles_frequency");
        assert_eq!(
            (row.value, row.event.as_str()),
            (24_087_031.0, "cpu-cycles")
        );
        assert_eq!(parse_row(",,,,,0.31,insn per cycle").unwrap(), None);
    }

    #[test]
    fn not_counted() {
        assert!(parse_row("<not counted>,,cpu/cycles/,0,100.00,,").is_err());
    }
}
