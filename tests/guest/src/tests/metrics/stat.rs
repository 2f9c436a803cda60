// SPDX-License-Identifier: GPL-2.0
//! `perf stat` and `perf list`: the calls that perf makes, and what it prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;

use anyhow::{ensure, Context, Result};
use serde_json::Value;

use crate::pmu::Pmu;
use crate::program::Installed;
use crate::tool::Perf;
use crate::waiting;

/// What perf asks the kernel for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    pub type_: u32,
    pub config: u64,
    pub config1: u64,
    pub config2: u64,
    pub exclude_host: bool,
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type {}, config {:#x}", self.type_, self.config)?;
        if self.config1 != 0 {
            write!(f, ", config1 {:#x}", self.config1)?;
        }
        Ok(())
    }
}

impl Attr {
    /// Sets a field as perf prints it: `0xc0 (inst_retired.any)`. `None` if that is no number.
    fn set(&mut self, field: &str, value: &str) -> Option<()> {
        let number = || {
            let word = value.split_whitespace().next()?;
            match word.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => word.parse().ok(),
            }
        };
        match field {
            "type" => self.type_ = number()? as u32,
            "config" => self.config = number()?,
            "{ bp_addr, config1 }" => self.config1 = number()?,
            "{ bp_len, config2 }" => self.config2 = number()?,
            "exclude_host" => self.exclude_host = number()? != 0,
            _ => {}
        }
        Some(())
    }
}

/// A call of perf_event_open().
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub attr: Attr,
    /// The file of the group's leader.
    pub group: Option<i32>,
    /// The file, or the errno.
    pub result: Result<i32, i32>,
}

/// The result of a call until the next line says why it has failed.
const NO_RESULT: i32 = -1;

impl Call {
    /// Parses `181  cpu -1  group_fd 4  flags 0x8 = 5`. What follows the flags is missing if the
    /// call has failed.
    fn parse(attr: Attr, call: &str) -> Option<Self> {
        let after = |word: &str| {
            let mut words = call.split_whitespace().skip_while(|it| *it != word);
            words.nth(1)?.parse::<i32>().ok()
        };
        let group = after("group_fd")?;
        Some(Self {
            attr,
            group: (group >= 0).then_some(group),
            result: Ok(after("=").unwrap_or(NO_RESULT)),
        })
    }
}

/// The calls in what `perf stat -vv` prints.
pub fn calls(text: &str) -> Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    let mut attr = Attr::default();
    for line in text.lines() {
        let field = line.strip_prefix("  ").and_then(|it| it.split_once("  "));
        if line.starts_with("perf_event_attr:") {
            attr = Attr::default();
        } else if let Some((field, value)) = field {
            let set = attr.set(field, value.trim_start());
            set.with_context(|| line.to_owned())?;
        } else if let Some(call) = line.strip_prefix("sys_perf_event_open: pid ") {
            calls.push(Call::parse(attr, call).with_context(|| line.to_owned())?);
        } else if let Some(error) = line.strip_prefix("sys_perf_event_open failed, error -") {
            let call = calls.last_mut().context("an error without a call")?;
            call.result = Err(error.trim().parse()?);
        }
    }
    let lost = calls.iter().find(|call| call.result == Ok(NO_RESULT));
    ensure!(lost.is_none(), "no result of {lost:?}");
    Ok(calls)
}

/// A row of `perf stat -j`: an event, and the count, or why there is none.
#[derive(Debug)]
pub struct Row {
    pub event: String,
    pub value: String,
    /// The part of the time that it was on a counter, in percent.
    running: f64,
}

impl Row {
    fn parse(line: &str) -> Result<Option<Self>> {
        let row: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let text = |key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(event), Some(value)) = (text("event"), text("counter-value")) else {
            // A metric of several events has a row without one.
            return Ok(None);
        };
        let running = row.get("pcnt-running").and_then(Value::as_f64);
        Ok(Some(Self {
            event,
            value,
            running: running.unwrap_or(0.0),
        }))
    }

    /// The count, if the event has been counted all the time.
    pub fn count(&self) -> Option<u64> {
        let count = self.value.parse::<f64>().ok()?;
        (self.running == 100.0).then_some(count as u64)
    }
}

/// What `perf stat` has done.
pub struct Stat {
    pub rows: Vec<Row>,
    /// What it printed besides.
    pub text: String,
    pub success: bool,
}

/// Counts [`PATTERN`] in user mode.
pub fn stat(program: &Installed, arguments: &[&str]) -> Result<Stat> {
    let file = program.dir().join("stat");
    fs::write(&file, "")?;
    let stat = Perf::new("stat").args(["--all-user", "-j", "-o"]);
    let mut stat = stat.args([&file]).args(arguments).args([program.path()]);
    let output = waiting::output(stat.command()).context("perf")?;
    let rows = fs::read_to_string(&file)?;
    let rows = rows.lines().filter(|line| line.starts_with('{'));
    let rows: Vec<_> = rows.map(Row::parse).collect::<Result<_>>()?;
    Ok(Stat {
        rows: rows.into_iter().flatten().collect(),
        text: String::from_utf8_lossy(&output.stderr).into_owned(),
        success: output.status.success(),
    })
}

/// What `perf list` says of all metrics.
fn list() -> Result<Vec<Value>> {
    let text = Perf::new("list").args(["-j", "metrics"]).text()?;
    Ok(serde_json::from_str(&text)?)
}

/// A member of what `perf list` says of a metric.
fn member<'a>(metric: &'a Value, key: &str) -> Option<&'a str> {
    metric.get(key)?.as_str()
}

/// The expressions of all metrics, by their names.
fn expressions() -> Result<BTreeMap<String, String>> {
    let list = list()?;
    let expressions = list.iter().filter_map(|metric| {
        let name = member(metric, "MetricName")?;
        Some((name.to_owned(), member(metric, "MetricExpr")?.to_owned()))
    });
    Ok(expressions.collect())
}

/// The names of the groups of metrics.
pub fn metric_groups() -> Result<Vec<String>> {
    let list = list()?;
    let groups = list
        .iter()
        .filter_map(|metric| member(metric, "MetricGroup"));
    let names = groups
        .flat_map(|groups| groups.split(';'))
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let names: BTreeSet<_> = names.map(str::to_owned).collect();
    ensure!(names.len() > 10, "few groups of metrics: {names:?}");
    Ok(names.into_iter().collect())
}

/// Whether a metric has an event of a PMU that the guest does not have. perf would refuse it.
fn is_of_missing_pmu(metric: &str, expressions: &BTreeMap<String, String>) -> bool {
    let Some(expression) = expressions.get(metric) else {
        return false;
    };
    let is_part = |c: char| c.is_alphanumeric() || "_.@".contains(c);
    let mut words = expression.split(|c| !is_part(c));
    // The names of events have other letters, as in `EVENT@cmask\=1@`.
    let is_pmu = |name: &str| {
        name.chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'))
    };
    words.any(|word| match word.split_once('@') {
        Some((pmu, event)) if !event.is_empty() => is_pmu(pmu) && Pmu::find(pmu).is_err(),
        _ => word.starts_with("UNC_") || is_of_missing_pmu(word, expressions),
    })
}

/// The names of the metrics.
pub fn metrics() -> Result<Vec<String>> {
    let expressions = expressions()?;
    let names = expressions.keys();
    let metrics = names.filter(|name| !is_of_missing_pmu(name, &expressions));
    let metrics: Vec<_> = metrics.cloned().collect();
    println!(
        "# {} metrics, {} of them with a PMU that the guest does not have",
        expressions.len(),
        expressions.len() - metrics.len()
    );
    ensure!(metrics.len() > 20, "few metrics: {metrics:?}");
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_in_what_perf_prints() {
        let text = "\
perf_event_attr:
  type                             4 (cpu)
  size                             144
  config                           0xc0 (inst_retired.any)
  exclude_kernel                   1
------------------------------------------------------------
sys_perf_event_open: pid 181  cpu -1  group_fd -1  flags 0x8 = 4
perf_event_attr:
  type                             3 (PERF_TYPE_HW_CACHE)
  config                           0 (PERF_COUNT_HW_CACHE_L1D)
  { bp_addr, config1 }             0x5
------------------------------------------------------------
sys_perf_event_open: pid 181  cpu -1  group_fd 4  flags 0x8
sys_perf_event_open failed, error -22
";
        let calls = calls(text).unwrap();
        let [first, second] = &calls[..] else {
            panic!("{calls:?}");
        };
        assert_eq!((first.attr.type_, first.attr.config), (4, 0xc0));
        assert_eq!((first.group, first.result), (None, Ok(4)));
        let attr = second.attr;
        assert_eq!((attr.type_, attr.config, attr.config1), (3, 0, 5));
        assert_eq!((second.group, second.result), (Some(4), Err(22)));
    }

    #[test]
    fn rows_are_what_perf_prints() {
        let row = |value: &str, running: &str| {
            let line = format!(
                r#"{{"counter-value" : "{value}", "unit" : "", "event" : "cycles", "pcnt-running" : {running}}}"#
            );
            Row::parse(&line).unwrap().unwrap().count()
        };
        assert_eq!(row("4516000.000000", "100.00"), Some(4_516_000));
        assert_eq!(row("4516000.000000", "50.00"), None);
        assert_eq!(row("<not counted>", "100.00"), None);
        assert!(Row::parse(r#"{"metric-value" : "1"}"#).unwrap().is_none());
    }

    #[test]
    fn a_missing_pmu_is_in_the_expression() {
        let expressions = [
            ("a", r"no_such_pmu@c2\-residency@ / INST_RETIRED.ANY"),
            ("b", "1e9 * a"),
            ("c", "UNC_CHA_CLOCKTICKS / duration_time"),
            ("d", r"no_pmu\,edge@ / INST_RETIRED.ANY"),
            ("e", r"INST_RETIRED.ANY_P@cmask\=1@ / INST_RETIRED.ANY"),
        ];
        let expressions = expressions.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let expressions = BTreeMap::from(expressions);
        let missing = |metric: &&str| is_of_missing_pmu(metric, &expressions);
        let missing: Vec<_> = ["a", "b", "c", "d", "e"]
            .into_iter()
            .filter(missing)
            .collect();
        assert_eq!(missing, ["a", "b", "c"]);
    }
}
