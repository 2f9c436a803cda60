// SPDX-License-Identifier: GPL-2.0
//! The module's parameters.

use std::ffi::CStr;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use perf_event::Counter;

use super::{expect, expect_count};
use crate::ctx::{skip, Ctx, Test};
use crate::module;
use crate::pmu::{CpuPmu, Event, Mode, Pmu, Vendor};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    no_fixed_counters,
    fewer_general_counters,
    more_than_there_are,
    an_older_generation,
    refused_parameters,
];

/// Loads the module with parameters, and unloads it after `f`.
fn loaded(ctx: &Ctx, parameters: &CStr, f: impl FnOnce(&Pmu) -> Result<()>) -> Result<()> {
    module::insert_with(ctx, parameters)?.with_context(|| format!("insmod {parameters:?}"))?;
    let result = ctx.pmu().and_then(|pmu| {
        let code = workload::tight_loop(1_000);
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        code.measure(&event)?;
        let count = event.read()?;
        expect_count(&code, count)?;
        f(&pmu)
    });
    module::remove().context("rmmod")?;
    result.with_context(|| format!("{parameters:?}"))
}

/// A group of so many events, if they ever fit.
fn group(pmu: &Pmu, event: Event, n: u32) -> Result<Vec<Counter>> {
    pmu.open_group(&vec![(event, Mode::User); n as usize])
}

/// Fails unless just `n` events fit in a group.
fn expect_most(pmu: &Pmu, event: Event, n: u32) -> Result<()> {
    group(pmu, event, n).with_context(|| format!("{n} events of {}", event.name()))?;
    ensure!(
        group(pmu, event, n + 1).is_err(),
        "{} events of {} fit",
        n + 1,
        event.name()
    );
    Ok(())
}

fn no_fixed_counters(ctx: &Ctx) -> Result<()> {
    let CpuPmu { general, fixed, .. } = CpuPmu::probe();
    if fixed == 0 {
        return skip("no fixed counters");
    }
    loaded(ctx, c"fixed=0", |pmu| {
        expect_most(pmu, Event::Instructions, general)?;
        ensure!(
            !pmu.dir().join("events/ref-cycles").exists(),
            "ref-cycles has no counter any more"
        );
        Ok(())
    })?;
    loaded(ctx, c"fixed=1", |pmu| {
        expect_most(pmu, Event::Instructions, general + 1)
    })
}

fn fewer_general_counters(ctx: &Ctx) -> Result<()> {
    for (parameters, n) in [(c"general=1", 1), (c"general=2", 2)] {
        loaded(ctx, parameters, |pmu| expect_most(pmu, Event::Branches, n))?;
    }
    Ok(())
}

fn more_than_there_are(ctx: &Ctx) -> Result<()> {
    let general = CpuPmu::probe().general;
    for parameters in [c"general=0", c"general=200"] {
        loaded(ctx, parameters, |pmu| {
            expect_most(pmu, Event::Branches, general)
        })?;
    }
    Ok(())
}

/// What the module calls each generation when it is loaded, from 1 on.
fn generations(vendor: Vendor) -> &'static [&'static str] {
    match vendor {
        Vendor::Intel | Vendor::Zhaoxin => &[
            "architectural perfmon v1,",
            "architectural perfmon v2 ",
            "architectural perfmon v2 ",
        ],
        Vendor::Amd | Vendor::Hygon => &["AMD legacy", "AMD PerfCtrExtCore", "AMD PerfMonV2"],
    }
}

/// Each works on newer hardware, with its counters, and overflows.
fn an_older_generation(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    let CpuPmu {
        vendor, general, ..
    } = CpuPmu::probe();
    for (name, (parameters, most)) in generations(vendor).iter().zip([
        (c"generation=1", 4),
        (c"generation=2", 6),
        (c"generation=3", 15),
    ]) {
        // AMD's older ones have so many counters and no more.
        let most = match vendor {
            Vendor::Intel | Vendor::Zhaoxin => general,
            Vendor::Amd | Vendor::Hygon => general.min(most),
        };
        let mut log = ctx.module_log()?;
        loaded(ctx, parameters, |pmu| {
            let lines = log.lines()?;
            ensure!(
                lines.iter().any(|line| line.contains(name)),
                "{lines:?} where {name:?} was due"
            );
            expect_most(pmu, Event::Branches, most)?;
            let code = workload::tight_loop(100_000);
            let sampler = pmu
                .event(Event::Instructions)
                .sample_period(PERIOD)
                .build()?;
            let nmis = super::interrupts("NMI")?;
            code.measure(&sampler)?;
            let nmis = super::interrupts("NMI")? - nmis;
            expect(code.name(), "NMIs", nmis, code.instructions() / PERIOD)
        })?;
    }
    Ok(())
}

fn refused_parameters(ctx: &Ctx) -> Result<()> {
    for (parameters, errno) in [
        (c"fixed=2", Errno::EINVAL),
        (c"fixed=yes", Errno::EINVAL),
        (c"general=-1", Errno::EINVAL),
        // One that this CPU does not reach, and one that nobody knows.
        (c"generation=5", Errno::ENODEV),
        (c"generation=200", Errno::ENODEV),
    ] {
        let result = module::insert_with(ctx, parameters)?;
        if result.is_ok() {
            module::remove().context("rmmod")?;
        }
        ensure!(
            result == Err(errno),
            "insmod {parameters:?}: {result:?}, not {errno}"
        );
    }
    Ok(())
}
