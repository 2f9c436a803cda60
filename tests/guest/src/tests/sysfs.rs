// SPDX-License-Identifier: GPL-2.0
//! What sysfs tells of the PMU, and that it is true.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use perf_event::events::Dynamic;
use perf_event::Builder;

use super::{expect, measure_alone};
use crate::ctx::{Ctx, Test};
use crate::pmu::{ArchPerfmon, BuilderExt, Event, Mode};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    format,
    events,
    events_as_in_tree,
    events_count_what_they_say,
    module_is_live
];

fn content(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    Ok(text.trim_end().to_string())
}

fn expect_text(file: &Path, want: &str) -> Result<()> {
    let got = content(file)?;
    ensure!(
        got == want,
        "{}: «{got}» where «{want}» was due",
        file.display()
    );
    Ok(())
}

/// The fields of EVENTSEL (SDM vol. 3B, "Performance Monitoring").
fn format(ctx: &Ctx) -> Result<()> {
    let dir = ctx.pmu()?.dir().join("format");
    for (field, bits) in [
        ("event", "config:0-7"),
        ("umask", "config:8-15"),
        ("edge", "config:18"),
        ("pc", "config:19"),
        ("inv", "config:23"),
        ("cmask", "config:24-31"),
    ] {
        expect_text(&dir.join(field), bits)?;
    }
    // AnyThread came with version 3.
    let any = dir.join("any");
    if ctx.need_module().is_ok() && ArchPerfmon::probe().version < 3 {
        ensure!(!any.exists(), "format/any without AnyThread");
    }
    if any.exists() {
        expect_text(&any, "config:21")?;
    }
    Ok(())
}

/// `event=0x…[,umask=0x…]` as a config.
fn parse(text: &str) -> Result<u64> {
    let mut config = 0;
    for term in text.split(',') {
        let (field, value) = term
            .split_once('=')
            .with_context(|| format!("term «{term}»"))?;
        let value = value.strip_prefix("0x").context("not hexadecimal")?;
        let value = u64::from_str_radix(value, 16)?;
        config |= match field {
            "event" => value,
            "umask" => value << 8,
            _ => anyhow::bail!("field «{field}»"),
        };
    }
    Ok(config)
}

fn events(ctx: &Ctx) -> Result<()> {
    let dir = ctx.pmu()?.dir().join("events");
    for event in Event::ALL {
        let file = dir.join(event.name());
        let text = content(&file)?;
        let config = parse(&text).with_context(|| format!("{}: {text}", file.display()))?;
        ensure!(
            config == event.config(),
            "{}: {text} is {config:#x}",
            file.display()
        );
    }
    Ok(())
}

fn events_as_in_tree(ctx: &Ctx) -> Result<()> {
    let (ours, theirs) = (ctx.pmu()?.dir(), ctx.in_tree()?.dir());
    for event in Event::ALL {
        let file = Path::new("events").join(event.name());
        expect_text(&ours.join(&file), &content(&theirs.join(&file))?)?;
    }
    Ok(())
}

/// Opens each event by what sysfs says, as a tool does.
fn events_count_what_they_say(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(100);
    for event in Event::ALL {
        let by_name = by_name(&pmu.name, event.name())?;
        let mut counter = Builder::new(by_name)
            .exclude_hv(false)
            .filter(Mode::User)
            .build()?;
        measure_alone(&workload, &mut counter)?;
        let by_name = counter.read()?;
        let mut counter = pmu.open(event, Mode::User)?;
        measure_alone(&workload, &mut counter)?;
        expect(
            "by name and by config",
            event.name(),
            by_name,
            counter.read()?,
        )?;
    }
    Ok(())
}

fn by_name(pmu: &str, event: &str) -> Result<Dynamic> {
    let mut builder = Dynamic::builder(pmu)?;
    // perf-event2 takes a field that the event does not name for a parameter.
    let fields: Vec<String> = builder.params().map(String::from).collect();
    for field in fields {
        builder.field(&field, 0)?;
    }
    Ok(builder.event(event)?.build()?)
}

fn module_is_live(ctx: &Ctx) -> Result<()> {
    ctx.need_module()?;
    ensure!(
        Path::new("/sys/module/rust_perf").is_dir(),
        "no /sys/module/rust_perf"
    );
    let state = content(Path::new("/sys/module/rust_perf/initstate"))?;
    ensure!(state == "live", "the module is {state}");
    Ok(())
}
