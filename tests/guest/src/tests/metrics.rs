// SPDX-License-Identifier: GPL-2.0
//! perf's metrics of this CPU: their events count what the PMU model counts, or are refused.
//!
//! This holds for both drivers. Suites with `-in-tree` in their names have the in-tree driver, the
//! others the module in its place.
//!
//! perf counts the program [`PATTERN`] in user mode. It adds the same to each event wherever it
//! starts, so that the counts can be computed. If another task runs in user mode meanwhile, some
//! counts change: cycles, and events that occur once every so many instructions or branches. That
//! is rare. These events have several attempts.

mod model;
mod stat;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{ensure, Context, Result};
use libc::ENOENT;
use perf_event::events::Raw;
use perf_event::{Builder, Counter};

use self::model::{due, Due, Model, PERF_TYPE_RAW};
use self::stat::{calls, metric_groups, metrics, stat, Attr, Call, Row, Stat};
use super::compare::report::{name, Report};
use crate::ctx::{Ctx, Test, IN_TREE};
use crate::generic_events::{PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE};
use crate::module;
use crate::pmu::Pmu;
use crate::program::{Installed, PATTERN};
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Root, ExactCounts, EmulatedPmu, PerfTool];
    events_count_as_modelled,
];

/// The suite's module is not loaded.
pub const IN_TREE_TESTS: &[Test] = tests![
    all need [Root, EmulatedPmu, PerfTool];
    metrics_as_in_tree,
    metric_groups_as_in_tree,
];

/// The kind of events that count something.
const THAT_COUNT: &str = "that count";

/// What perf says if a metric needs a PMU that the guest does not have.
const NO_PMU: &str = "Unable to find PMU or event on a PMU of";

/// Runs perf for all metrics. It takes long to start, so there are several metrics at a time. A metric
/// that it refuses is alone in the end.
fn of_all_metrics(
    program: &Installed,
    arguments: &[&str],
    mut with: impl FnMut(Stat) -> Result<()>,
) -> Result<()> {
    const TOGETHER: usize = 16;
    // Each metric has the groups that it has alone.
    let run = |arguments: &[&str], metrics: &str| {
        stat(
            program,
            &[arguments, &["--metric-no-merge", "-M", metrics]].concat(),
        )
    };
    let all = metrics()?;
    let mut left: Vec<_> = all.chunks(TOGETHER).rev().collect();
    while let Some(metrics) = left.pop() {
        if let [metric] = metrics {
            with(run(&["-vv"], metric)?).with_context(|| metric.clone())?;
            continue;
        }
        let together = run(arguments, &metrics.join(","))?;
        if together.success {
            with(together)?;
        } else {
            let (first, second) = metrics.split_at(metrics.len() / 2);
            left.extend([second, first]);
        }
    }
    Ok(())
}

/// What is needed to count an event and to check its count.
struct Events {
    program: Installed,
    pmu: Pmu,
    model: Model,
    /// How many events there are of each kind.
    numbers: BTreeMap<&'static str, usize>,
}

impl Events {
    /// Checks that none of the events should have been opened.
    fn expect_refused(&self, stat: &Stat) -> Result<()> {
        let calls = calls(&stat.text)?;
        ensure!(!calls.is_empty(), "no call\n{}", stat.text);
        for call in calls {
            let due = due(&self.pmu, &self.model, &call.attr)?;
            let right = match due {
                Due::Count { .. } => false,
                Due::Refused(errno) => call.result == Err(errno),
                Due::Other => true,
            };
            let (attr, result) = (call.attr, call.result);
            ensure!(right, "{attr}: {result:?}, expected {due:?}\n{}", stat.text);
        }
        Ok(())
    }

    /// Counts events at the same time.
    fn count(&mut self, events: &[String]) -> Result<Vec<Wrong>> {
        let mut arguments = vec!["-vv"];
        for event in events {
            arguments.extend(["-e", event]);
        }
        let stat = stat(&self.program, &arguments)?;
        let calls = calls(&stat.text)?;
        let mut all_wrong = Vec::new();
        for (i, event) in events.iter().enumerate() {
            let mut wrong = |text: String, is_certain| {
                all_wrong.push(Wrong {
                    event: event.clone(),
                    text: format!("{event}: {text}"),
                    is_certain,
                });
            };
            // perf may open the leader of a group besides, or try other attributes.
            let call = match events.len() {
                1 => calls.last(),
                n if n == calls.len() => calls.get(i),
                _ => None,
            };
            let row = stat.rows.iter().find(|row| row.event == *event);
            let due = match call {
                Some(call) => due(&self.pmu, &self.model, &call.attr),
                // It is perf's own.
                None if calls.is_empty() && events.len() == 1 && row.is_some() => Ok(Due::Other),
                None => {
                    wrong(format!("not one call\n{}", stat.text), false);
                    continue;
                }
            };
            let due = due.with_context(|| event.clone())?;
            let result = call.map_or(Ok(0), |call| call.result);
            let counted = row.and_then(Row::count);
            let (right, kind, always) = match due {
                Due::Count { count, always } => {
                    let kind = match count {
                        0 => "that count nothing",
                        _ => THAT_COUNT,
                    };
                    (result.is_ok() && counted == Some(count), kind, always)
                }
                Due::Refused(errno) => (result == Err(errno), "that are refused", true),
                Due::Other => (true, "of other PMUs", true),
            };
            if right {
                *self.numbers.entry(kind).or_default() += 1;
                continue;
            }
            let value = row.map_or("no row", |row| &row.value);
            let errno = name(result.err().unwrap_or(0));
            let attr = call.map(|call| call.attr).unwrap_or_default();
            let not_counted = result.is_ok() && counted.is_none();
            wrong(
                format!("{attr}: {value}, {errno}, expected {due:?}"),
                always && !not_counted,
            );
        }
        Ok(all_wrong)
    }
}

/// An event that was not as it should be.
struct Wrong {
    event: String,
    text: String,
    /// Whether this cannot be because of another task, or of too few counters.
    is_certain: bool,
}

/// Each event of a metric.
fn events_count_as_modelled(_: &Ctx) -> Result<()> {
    // More may not fit on the counters.
    const TOGETHER: usize = 4;
    const ATTEMPTS: usize = 10;
    let mut events = Events {
        program: PATTERN.install()?,
        pmu: Pmu::find(IN_TREE)?,
        model: Model::of_this_cpu()?,
        numbers: BTreeMap::new(),
    };
    let mut all = BTreeSet::new();
    let [mut refused, mut without] = [0; 2];
    of_all_metrics(&events.program, &[], |stat| {
        if stat.success {
            all.extend(stat.rows.into_iter().map(|row| row.event));
        } else if stat.text.contains(NO_PMU) {
            without += 1;
        } else {
            refused += 1;
            events.expect_refused(&stat)?;
        }
        Ok(())
    })?;
    println!("# {without} more of other PMUs, {refused} without an event that is supported");
    let all: Vec<_> = all.into_iter().collect();
    let mut all_wrong = Vec::new();
    for some in all.chunks(TOGETHER) {
        for wrong in events.count(some)? {
            let event = [wrong.event.clone()];
            let mut wrong = Some(wrong);
            for _ in 0..ATTEMPTS {
                if wrong.as_ref().is_none_or(|wrong| wrong.is_certain) {
                    break;
                }
                wrong = events.count(&event)?.pop();
            }
            all_wrong.extend(wrong.map(|wrong| wrong.text));
        }
    }
    println!("# {} events: {:?}", all.len(), events.numbers);
    // Metrics are left out if their PMU is missing. It must not be this one.
    let counted = events.numbers.get(THAT_COUNT).copied().unwrap_or_default();
    ensure!(counted >= 10, "only {counted} events count something");
    ensure!(
        all_wrong.is_empty(),
        "{} events are wrong\n{}",
        all_wrong.len(),
        all_wrong.join("\n")
    );
    Ok(())
}

/// The calls that perf makes for each metric with the in-tree driver. rust_pmu opens and refuses
/// the same events of the same groups.
fn metrics_as_in_tree(ctx: &Ctx) -> Result<()> {
    let mut all = Vec::new();
    of_all_metrics(&PATTERN.install()?, &["-vv"], |stat| {
        all.extend(calls(&stat.text)?);
        Ok(())
    })?;
    replay_beside_in_tree(ctx, &all)
}

/// The calls that perf makes for each of its metric groups (`-M`) with the in-tree driver, where it merges
/// the events of several metrics. rust_pmu opens and refuses the same events of the same groups.
fn metric_groups_as_in_tree(ctx: &Ctx) -> Result<()> {
    let program = PATTERN.install()?;
    let mut all = Vec::new();
    let mut without = 0;
    let groups = metric_groups()?;
    for group in &groups {
        let stat = stat(&program, &["-vv", "-M", group])?;
        let calls = calls(&stat.text)?;
        ensure!(
            stat.success || !calls.is_empty() || stat.text.contains(NO_PMU),
            "{group}: {}",
            stat.text
        );
        // Tells xtask, too, that the guest does not hang.
        eprintln!("{group}: {} calls", calls.len());
        without += usize::from(calls.is_empty());
        all.extend(calls);
    }
    println!("# {} groups, {without} without a call", groups.len());
    replay_beside_in_tree(ctx, &all)
}

fn replay_beside_in_tree(ctx: &Ctx, calls: &[Call]) -> Result<()> {
    module::insert(ctx)?.context("insmod")?;
    let result = replay(ctx, calls);
    module::remove().context("rmmod")?;
    result
}

fn replay(ctx: &Ctx, calls: &[Call]) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut report = Report::new(ctx);
    let mut refused = 0;
    // perf closes a file before it gets this number again.
    let mut files: HashMap<i32, Counter> = HashMap::new();
    for call in calls {
        let Attr {
            mut type_,
            mut config,
            mut config1,
            config2,
            exclude_host,
        } = call.attr;
        let mut due = call.result.err().unwrap_or(0);
        if let Ok(file) = call.result {
            files.remove(&file);
        }
        if matches!(type_, PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE) {
            match pmu.generic_by_name(type_, config)? {
                Some(event) => {
                    type_ = PERF_TYPE_RAW;
                    [config, config1] = event;
                }
                None => {
                    // An event that the in-tree driver refuses has no name.
                    config |= u64::from(pmu.type_) << 32;
                    due = if due == 0 { 0 } else { ENOENT };
                }
            }
        }
        let mut builder = Builder::new(Raw::new(config));
        let attrs = builder.attrs_mut();
        attrs.type_ = match type_ {
            PERF_TYPE_RAW => pmu.type_,
            type_ => type_,
        };
        attrs.__bindgen_anon_3.config1 = config1;
        attrs.__bindgen_anon_4.config2 = config2;
        builder.exclude_hv(false).exclude_host(exclude_host);
        let counter = match call.group {
            None => builder.build(),
            Some(group) => match files.get_mut(&group) {
                Some(leader) => builder.enabled(true).build_with_group(leader),
                None => {
                    report.wrong(format!("{}: no leader", call.attr));
                    continue;
                }
            },
        };
        let errno = match &counter {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().context("no errno")?,
        };
        report.called(errno);
        refused += usize::from(due != 0 && call.group.is_some());
        if errno != due {
            let (attr, errno, due) = (call.attr, name(errno), name(due));
            report.wrong(format!("{attr}: {errno}, in-tree {due}"));
        }
        if let (Ok(counter), Ok(file)) = (counter, call.result) {
            files.insert(file, counter);
        }
    }
    println!("# {refused} refused in a group");
    report.finish()
}
