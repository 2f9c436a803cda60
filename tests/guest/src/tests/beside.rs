// SPDX-License-Identifier: GPL-2.0
//! What perf prints of events without a PMU, which is the same whether the module is loaded beside
//! the in-tree driver or not.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context, Result};

use super::hybrid::on_each_type;
use crate::ctx::{Ctx, Test};
use crate::generic_events::cache_event_names;
use crate::module;
use crate::pmu::{Pmu, APART};
use crate::program::LOOP;
use crate::setting::Affinity;
use crate::tests;
use crate::tool::Perf;
use crate::waiting;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, InTree, PerfTool];
    events_without_a_pmu,
    metrics_without_a_pmu,
    default_events,
    names_with_the_pmu: [ExactCounts],
];

/// perf's own software events, of which rust_clock and rust_trace have some.
const SOFTWARE: [&str; 8] = [
    "alignment-faults",
    "context-switches",
    "cpu-clock",
    "cpu-migrations",
    "major-faults",
    "minor-faults",
    "page-faults",
    "task-clock",
];

/// What `perf stat` printed: its exit status and, for each row, the event and whether it is
/// supported.
type Printed = (Option<i32>, Vec<(String, bool)>);

/// What `perf stat` prints with these arguments.
fn printed(arguments: &[String]) -> Result<Printed> {
    let mut perf = Perf::new("stat").args(["-j"]).args(arguments);
    let output = waiting::output(perf.command().arg("true")).context("perf")?;
    let text = String::from_utf8(output.stderr)?;
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let row: serde_json::Value = serde_json::from_str(line).context(line.to_owned())?;
        let field = |name: &str| row.get(name).and_then(|it| it.as_str()).unwrap_or_default();
        let supported = field("counter-value") != "<not supported>";
        // A row may be of a metric alone.
        let name = format!("{} {}", field("event"), field("metric-unit"));
        rows.push((name, supported));
    }
    Ok((output.status.code(), rows))
}

/// Expects that `perf stat` prints the same for each list of arguments with and without the module.
fn expect_same(ctx: &Ctx, all: &[Vec<String>]) -> Result<()> {
    // perf prints some metrics only for events that it counted.
    let _affinity = Affinity::pinned_to(0)?;
    let print = || all.iter().map(|it| printed(it)).collect::<Result<Vec<_>>>();
    let without = print()?;
    module::insert(ctx)?.context("insmod")?;
    let with = print();
    module::remove().context("rmmod")?;
    for ((arguments, without), with) in all.iter().zip(&without).zip(with?) {
        ensure!(
            *without == with,
            "perf stat {}: {with:?}, without the module {without:?}",
            arguments.join(" ")
        );
    }
    for (arguments, (status, rows)) in all.iter().zip(&without) {
        // perf has TopdownL1 for some CPUs only.
        let printed = *status == Some(0) && !rows.is_empty();
        ensure!(
            printed || arguments.iter().any(|it| it == "TopdownL1"),
            "perf stat {}: status {status:?}, {} rows",
            arguments.join(" "),
            rows.len()
        );
    }
    Ok(())
}

/// The names of the in-tree driver's events, without those of their scales and units.
fn in_tree_names(ctx: &Ctx) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(ctx.in_tree()?.dir().join("events"))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        if !name.contains('.') {
            names.push(name);
        }
    }
    names.sort();
    ensure!(names.len() >= 6, "only {names:?}");
    Ok(names)
}

/// perf prints the same of each event of the in-tree driver and of its own, with the module as
/// without it.
fn events_without_a_pmu(ctx: &Ctx) -> Result<()> {
    let mut names = BTreeSet::new();
    on_each_type(ctx, |ctx| {
        names.extend(in_tree_names(ctx)?);
        Ok(())
    })?;
    let names: Vec<_> = names.into_iter().collect();
    let of = |events: String| vec!["-e".to_owned(), events];
    expect_same(
        ctx,
        &[
            of("instructions,cycles,branches".into()),
            of(names.join(",")),
            of(SOFTWARE.join(",")),
        ],
    )
}

/// perf prints the same of metrics, whose events it looks up without a PMU, with the module as
/// without it.
fn metrics_without_a_pmu(ctx: &Ctx) -> Result<()> {
    let metric = |name: &str| vec!["-M".to_owned(), name.to_owned()];
    // perf has the first for some CPUs, and the second for all.
    expect_same(ctx, &[metric("TopdownL1"), metric("insn_per_cycle")])
}

/// `perf stat` and `perf stat -d` without events open the same events, with the same results, with
/// the module as without it.
fn default_events(ctx: &Ctx) -> Result<()> {
    expect_same(ctx, &[vec![], vec!["-d".into()]])
}

/// An event of rust_pmu has both names: that of its file, and the in-tree driver's, or perf's in lower
/// case if it is a cache event. They count the same.
fn names_with_the_pmu(ctx: &Ctx) -> Result<()> {
    module::insert(ctx)?.context("insmod")?;
    let result = on_each_type(ctx, |ctx| both_names(ctx, &ctx.pmu()?));
    module::remove().context("rmmod")?;
    result
}

fn both_names(ctx: &Ctx, pmu: &Pmu) -> Result<()> {
    let program = LOOP.install()?;
    let stat = |events: &[String]| {
        let group = format!("{{{}}}", events.join(","));
        let stat = Perf::stat().args(["-e", &group]);
        stat.args([program.path()]).rows()
    };
    let event = |name: &str| format!("{}/{name}/u", pmu.name);
    let caches = cache_event_names().map(|(_, name)| name);
    for name in in_tree_names(ctx)?.into_iter().chain(caches) {
        // Metrics count in a group only, see below. An event with a scale has the file's name only.
        // One counter counts ref-cycles, so that two of these events do not count at once.
        let is_other = ["topdown", "slots", "mem-", "ref-cycles"]
            .iter()
            .any(|it| name.starts_with(it));
        if is_other || !pmu.event_file(&name).exists() {
            continue;
        }
        let events = [event(&name), event(&format!("{APART}{name}"))];
        let rows = stat(&events)?;
        let found: Vec<_> = rows.iter().map(|row| row.event.clone()).collect();
        ensure!(found == events, "{found:?}, expected {events:?}");
        let [by_name, by_file] = [&rows[0], &rows[1]].map(|row| row.value as u64);
        super::expect(&name, "counted by its file", by_file, by_name)?;
        if name == "instructions" {
            super::expect(&name, "counted", by_name, LOOP.instructions)?;
        }
    }
    if pmu.event_file("topdown-retiring").exists() && pmu.event_file("slots").exists() {
        for prefix in ["", APART] {
            let names = ["slots", "topdown-retiring", "topdown-be-bound"];
            let rows = stat(&names.map(|name| event(&format!("{prefix}{name}"))))?;
            super::expect("metrics", "rows", rows.len() as u64, 3)?;
        }
    }
    Ok(())
}
