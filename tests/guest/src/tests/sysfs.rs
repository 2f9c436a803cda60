// SPDX-License-Identifier: GPL-2.0
//! The PMU's files in sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};

use crate::ctx::{Ctx, Test};
use crate::pmu::{CpuPmu, Event, Vendor};
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Counters];
    format,
    events,
    events_as_in_tree: [InTree],
    events_are_numbers: [Module],
    module_is_live: [Module],
];

fn content(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    Ok(text.trim_end().to_string())
}

fn expect_text(file: &Path, want: &str) -> Result<()> {
    let got = content(file)?;
    ensure!(
        got == want,
        "{}: «{got}», expected «{want}»",
        file.display()
    );
    Ok(())
}

/// `format/` has the fields of EVENTSEL (SDM vol. 3B, "Performance Monitoring"; APM vol. 2,
/// "Performance Event-Select Registers").
fn format(ctx: &Ctx) -> Result<()> {
    let dir = ctx.pmu()?.dir().join("format");
    let CpuPmu {
        vendor, version, ..
    } = CpuPmu::probe();
    let amd = matches!(vendor, Vendor::Amd | Vendor::Hygon);
    for (field, bits) in [
        ("event", if amd { "0-7,32-35" } else { "0-7" }),
        ("umask", if version >= 6 { "8-15,40-47" } else { "8-15" }),
        ("edge", "18"),
        ("inv", "23"),
        ("cmask", "24-31"),
    ] {
        expect_text(&dir.join(field), &format!("config:{bits}"))?;
    }
    // AMD has no PC bit. AnyThread exists from version 3 on, EQ from version 6 on.
    for (field, bits, there) in [
        ("pc", "19", !amd),
        ("any", "21", version >= 3),
        ("eq", "36", version >= 6),
    ] {
        let file = dir.join(field);
        if ctx.is_rust_pmu() && !there {
            ensure!(!file.exists(), "format/{field} on a CPU without it");
        }
        if file.exists() {
            expect_text(&file, &format!("config:{bits}"))?;
        }
    }
    Ok(())
}

/// The expected contents of an event's file, or `None` if the CPU does not have the
/// event.
fn terms(event: Event) -> Option<&'static str> {
    let CpuPmu {
        vendor,
        family,
        fixed,
        global_control,
        ..
    } = CpuPmu::probe();
    let zen = family >= 0x17;
    match vendor {
        // SDM vol. 3, table "UMask and Event Select Encodings for Pre-Defined
        // Architectural Performance Events". Fixed counter 2 counts ref-cycles.
        Vendor::Intel => match event {
            Event::CpuCycles => Some("event=0x3c"),
            Event::Instructions => Some("event=0xc0"),
            Event::Branches => Some("event=0xc4"),
            Event::BranchMisses => Some("event=0xc5"),
            Event::CacheReferences => Some("event=0x2e,umask=0x4f"),
            Event::CacheMisses => Some("event=0x2e,umask=0x41"),
            Event::BusCycles => Some("event=0x3c,umask=0x01"),
            Event::RefCycles => (fixed >= 3).then_some("event=0x00,umask=0x03"),
        },
        // BKDG (before Zen) and PPR, "Core Performance Monitor Counters".
        Vendor::Amd | Vendor::Hygon => match event {
            Event::CpuCycles => Some("event=0x76"),
            Event::Instructions => Some("event=0xc0"),
            Event::Branches => Some("event=0xc2"),
            Event::BranchMisses => Some("event=0xc3"),
            Event::CacheReferences if zen => Some("event=0x60,umask=0xff"),
            Event::CacheReferences => Some("event=0x7d,umask=0x07"),
            Event::CacheMisses if zen => Some("event=0x64,umask=0x09"),
            Event::CacheMisses => Some("event=0x7e,umask=0x07"),
            Event::BusCycles => None,
            // Since Zen 4, like PerfMonV2.
            Event::RefCycles => global_control.then_some("event=0x120,umask=0x01"),
        },
        // arch/x86/events/zhaoxin/core.c, ZXD. There is no public manual.
        Vendor::Zhaoxin => match event {
            Event::CpuCycles => Some("event=0x82"),
            Event::Instructions => Some("event=0xc0"),
            Event::Branches => Some("event=0x00,umask=0x07"),
            Event::BranchMisses => Some("event=0x09,umask=0x07"),
            Event::CacheReferences => Some("event=0x15,umask=0x05"),
            Event::CacheMisses => Some("event=0x1a,umask=0x05"),
            Event::BusCycles => Some("event=0x83"),
            Event::RefCycles => None,
        },
    }
}

/// Each file in `events/` has its terms, and an event that the CPU does not have has no file.
fn events(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for event in Event::ALL {
        let file = pmu.event_file(event.name());
        match terms(event) {
            Some(terms) => expect_text(&file, terms)?,
            None => ensure!(!file.exists(), "{} on a CPU without it", file.display()),
        }
    }
    Ok(())
}

/// The files in `events/` have the in-tree driver's terms.
fn events_as_in_tree(ctx: &Ctx) -> Result<()> {
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    for event in Event::ALL {
        // The in-tree driver shows Intel's ref-cycles even if no counter counts it. On
        // Hygon it shows the K7's cache events instead of Zen's.
        let cache = matches!(event, Event::CacheReferences | Event::CacheMisses);
        if event == Event::RefCycles && terms(event).is_none()
            || cache && CpuPmu::probe().vendor == Vendor::Hygon
        {
            continue;
        }
        let name = event.name();
        if theirs.has(event) {
            let due = content(&theirs.event_file(name))?;
            expect_text(&ours.event_file(name), &due)?;
        } else {
            ensure!(!ours.has(event), "only rust_pmu has {}", event.name());
        }
    }
    Ok(())
}

/// The fields of a PMU: their names, and how many bits each has.
fn fields(pmu: &Path) -> Result<BTreeMap<String, u32>> {
    let mut fields = BTreeMap::new();
    for file in fs::read_dir(pmu.join("format"))? {
        let path = file?.path();
        let text = content(&path)?;
        let (word, ranges) = text.split_once(':').with_context(|| text.clone())?;
        ensure!(
            ["config", "config1", "config2", "config3", "config4"].contains(&word),
            "{}: {text}",
            path.display()
        );
        let mut bits = 0;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
            ensure!(first <= last && last < 64, "{}: {text}", path.display());
            bits += last - first + 1;
        }
        let name = path.file_name().unwrap_or_default();
        fields.insert(name.to_string_lossy().into_owned(), bits);
    }
    Ok(fields)
}

/// The number that a term has.
fn parse_number(text: &str) -> Result<u64> {
    Ok(match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16)?,
        None => text.parse()?,
    })
}

/// Every file in `events/` of each PMU of the module is `term=number`, or several of these with commas
/// between, and each term is a field of `format/` that has room for the number. A term alone stands for 1
/// (Documentation/ABI/testing/sysfs-bus-event_source-devices-events). Programs other than perf read these
/// files as well, and understand nothing else. The files with units and scales are perf's own.
fn events_are_numbers(ctx: &Ctx) -> Result<()> {
    let mut pmus: Vec<_> = fs::read_dir("/sys/bus/event_source/devices")?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    let of_module = |name: &str| name.starts_with("rust_") || name == ctx.pmu;
    pmus.retain(|pmu| {
        let name = pmu.file_name().unwrap_or_default();
        of_module(&name.to_string_lossy())
    });
    ensure!(pmus.len() >= 2, "{pmus:?}");
    let mut files = 0;
    for pmu in pmus {
        let fields = fields(&pmu)?;
        for file in fs::read_dir(pmu.join("events"))? {
            let path = file?.path();
            if path.extension().is_some() {
                continue;
            }
            files += 1;
            let text = content(&path)?;
            for term in text.split(',') {
                let what = || format!("{}: {text}", path.display());
                let (name, value) = term.split_once('=').unwrap_or((term, "1"));
                let value = parse_number(value).with_context(what)?;
                let bits = fields.get(name).with_context(what)?;
                ensure!(value.checked_shr(*bits).unwrap_or(0) == 0, "{}", what());
            }
        }
    }
    ensure!(files > 20, "only {files} files");
    Ok(())
}

/// The module is loaded and live.
fn module_is_live(_: &Ctx) -> Result<()> {
    ensure!(
        Path::new("/sys/module/rust_perf").is_dir(),
        "no /sys/module/rust_perf"
    );
    let state = content(Path::new("/sys/module/rust_perf/initstate"))?;
    ensure!(state == "live", "the module is {state}");
    Ok(())
}
