// SPDX-License-Identifier: GPL-2.0
//! Kinds of branches, loads and stores, which are counted exactly.

use anyhow::{bail, Result};

use super::sampling::{open, record};
use super::{expect, expect_count};
use crate::ctx::{Ctx, Test};
use crate::pmu::{signature, Event, Mode, Pmu};
use crate::tests;
use crate::workload::{self, Kinds, Workload};

pub const TESTS: &[Test] = tests![
    all need [ExactCounts];
    counted_exactly,
    of_whole_periods,
    counted_in_groups: [General(3)],
    faults_do_not_count,
    sampled_without_skid: [ZeroSkid],
];

/// An event of this CPU: its code, and its count of a workload.
pub(super) type OfKind = (u64, fn(&Kinds) -> u64);

fn conditional(kinds: &Kinds) -> u64 {
    kinds.conditional
}

fn conditional_taken(kinds: &Kinds) -> u64 {
    kinds.conditional_taken
}

fn not_taken(kinds: &Kinds) -> u64 {
    kinds.conditional - kinds.conditional_taken
}

fn near_taken(kinds: &Kinds) -> u64 {
    kinds.conditional_taken + kinds.near_unconditional
}

fn taken(kinds: &Kinds) -> u64 {
    near_taken(kinds) + kinds.far
}

fn loads(kinds: &Kinds) -> u64 {
    kinds.loads
}

fn stores(kinds: &Kinds) -> u64 {
    kinds.stores
}

/// The events of Kaby Lake and Gracemont are from Intel's lists, those of Zen 3 from its PPR.
pub(super) fn events() -> Result<&'static [OfKind]> {
    Ok(match signature() {
        (6, 0x9e) => &[
            (0x01c4, conditional),
            (0x10c4, not_taken),
            (0x20c4, near_taken),
            (0x81d0, loads),
            (0x82d0, stores),
        ],
        (6, 0xbe) => &[
            (0x7ec4, conditional),
            (0xfec4, conditional_taken),
            (0x80c4, taken),
            (0xc0c4, near_taken),
            (0x81d0, loads),
            (0x82d0, stores),
        ],
        (0x19, 0x21) => &[(0x00d1, conditional), (0x00c4, taken)],
        (family, model) => bail!("family {family:#x} model {model:#x} is not in the table"),
    })
}

/// Measures a workload with one event.
fn expect_alone(pmu: &Pmu, config: u64, code: &Workload, want: u64) -> Result<()> {
    let mut counter = pmu.raw(config).build()?;
    code.measure(&counter)?;
    let what = format!("{}, {config:#06x}", code.name());
    expect(&what, "instructions", counter.read()?, want)
}

/// Measures a workload with each event alone.
fn counted_exactly(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for rounds in [1, 2, 1_000, 100_000] {
        let (code, kinds) = workload::kinds(rounds)?;
        for (config, of) in events()? {
            expect_alone(&pmu, *config, &code, of(&kinds))?;
        }
    }
    Ok(())
}

/// The workload by which other tests compare events has as many branches, loads and stores as it
/// promises. Otherwise the misses of a cache would depend on where it starts.
fn of_whole_periods(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for periods in [1, 100] {
        let code = workload::whole_periods(periods);
        let conditional = code.branches() - 3;
        let kinds = Kinds {
            conditional,
            conditional_taken: conditional - 1,
            near_unconditional: 2,
            far: 1,
            loads: 64,
            stores: 64,
        };
        for (config, of) in events()? {
            expect_alone(&pmu, *config, &code, of(&kinds))?;
        }
    }
    Ok(())
}

/// Measures a workload with instructions and two of the events, in all pairs.
fn counted_in_groups(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let (code, kinds) = workload::kinds(1_000)?;
    for (i, (first, of_first)) in events()?.iter().enumerate() {
        for (second, of_second) in &events()?[i + 1..] {
            let mut leader = pmu.open(Event::Instructions, Mode::User)?;
            let mut of_group = |config| {
                let mut builder = pmu.raw(config);
                builder.enabled(true).build_with_group(&mut leader)
            };
            let mut members = [of_group(*first)?, of_group(*second)?];
            code.measure(&leader)?;
            expect_count(&code, leader.read()?)?;
            let want = [of_first(&kinds), of_second(&kinds)];
            for ((member, config), want) in members.iter_mut().zip([first, second]).zip(want) {
                let what = format!("{first:#06x} and {second:#06x}: {config:#06x}");
                expect(&what, "instructions", member.read()?, want)?;
            }
        }
    }
    Ok(())
}

/// A store that faults retires once, and so does one that is repeated.
fn faults_do_not_count(ctx: &Ctx) -> Result<()> {
    const PAGES: u64 = 500;
    let pmu = ctx.pmu()?;
    for (config, of) in events()? {
        // The window of a measurement calls the workload, which stores, and has a SYSCALL.
        for (code, kinds) in [
            (
                workload::touch(PAGES)?,
                Kinds {
                    conditional: PAGES,
                    conditional_taken: PAGES - 1,
                    near_unconditional: 2,
                    far: 1,
                    loads: 1,
                    stores: PAGES + 1,
                },
            ),
            (
                workload::rep_movsb(100_000)?,
                Kinds {
                    conditional: 0,
                    conditional_taken: 0,
                    near_unconditional: 2,
                    far: 1,
                    loads: 2,
                    stores: 2,
                },
            ),
        ] {
            expect_alone(&pmu, *config, &code, of(&kinds))?;
        }
    }
    Ok(())
}

/// A sample for each period.
fn sampled_without_skid(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 997;
    let pmu = ctx.pmu()?;
    let (code, kinds) = workload::kinds(20_000)?;
    for (config, of) in events()? {
        let mut builder = pmu.raw(*config);
        let mut sampler = open(builder.sample_period(PERIOD))?;
        let (records, count) = record(&mut sampler, &code)?;
        let what = format!("{}, {config:#06x}", code.name());
        expect(&what, "instructions", count, of(&kinds))?;
        records.expect(&what, count / PERIOD)?;
    }
    Ok(())
}
