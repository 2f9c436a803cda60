// SPDX-License-Identifier: GPL-2.0
//! perf's generic events on a model: both drivers have the same ones, and program the same
//! for them.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context, Result};
use libc::ENOENT;
use nix::sched::sched_getcpu;
use perf_event::{Builder, Counter, SampleFlag};

use super::alone;
use super::compare::alike::set_period;
use super::compare::case::eventsel::CMASK_1;
use super::compare::case::Cpu;
use super::compare::differences;
use super::compare::report::{name, Report};
use super::extra_registers::Programmed;
use crate::ctx::{skip, Ctx, Test};
use crate::generic_events::{
    cache_event_names, HARDWARE_EVENTS, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE,
};
use crate::ktap::about;
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::{CpuPmu, Pmu};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [InTree, EmulatedPmu, Msrs];
    cache_events,
    cache_events_count: [ExactCounts],
    hardware_events,
    files,
    short_periods,
    first_periods: [InTreeCounts],
    low_frequencies: [Counters],
    data_sources: [Intel],
];

/// `PERF_COUNT_HW_REF_CPU_CYCLES`.
const REF_CYCLES: u64 = 9;

/// Opens a generic event on the CPU of `msrs`, by its name if the PMU has it by name only, and reads
/// what the registers say then. Returns the errno if the event is refused.
fn programmed(pmu: &Pmu, msrs: &Msrs, type_: u32, id: u64) -> Result<Result<Programmed, i32>> {
    Programmed::clear(msrs);
    let mut builder = pmu.generic(type_, id)?;
    builder
        .any_pid()
        .one_cpu(msrs.cpu())
        .pinned(true)
        .enabled(true);
    match builder.build() {
        Ok(_counter) => Programmed::on(msrs).map(Ok),
        Err(error) => Ok(Err(error.raw_os_error().context("no errno")?)),
    }
}

/// Compares the events of one type. `due` says what rust_pmu should make of an event that the
/// in-tree driver programs so.
fn compare(
    ctx: &Ctx,
    type_: u32,
    ids: impl Iterator<Item = u64>,
    due: impl Fn(u64, Programmed) -> Result<Programmed, i32>,
) -> Result<()> {
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let msrs = Msrs::of_cpu(sched_getcpu()?)?;
    let mut report = Report::new(ctx);
    let [mut opened, mut missing, mut invalid] = [0; 3];
    for id in ids {
        let found = programmed(&ours, &msrs, type_, id)?;
        let expected = match programmed(&theirs, &msrs, type_, id)? {
            Ok(programmed) if ctx.is_rust_pmu() => due(id, programmed),
            // Such an event has no name.
            Err(_) if ours.has_names_only() => Err(ENOENT),
            result => result,
        };
        report.called(found.as_ref().err().copied().unwrap_or(0));
        match expected {
            Ok(_) => opened += 1,
            Err(ENOENT) => missing += 1,
            Err(_) => invalid += 1,
        }
        if found != expected {
            let show = |result: &Result<Programmed, i32>| match result {
                Ok(programmed) => format!("{programmed:x?}"),
                Err(errno) => name(*errno),
            };
            report.wrong(format!(
                "{id:#x}: {}, expected {}",
                show(&found),
                show(&expected)
            ));
        }
    }
    if type_ == PERF_TYPE_HW_CACHE {
        about("cache events", opened);
    }
    println!("# {opened} events, {missing} that the model does not have, {invalid} invalid");
    if opened == 0 {
        return report.finish_refused();
    }
    report.finish()
}

/// perf's cache events: all that there are, and some that there are not.
fn cache_events(ctx: &Ctx) -> Result<()> {
    let ids = (0..8).flat_map(|cache| {
        (0..4).flat_map(move |operation| {
            (0..3).map(move |result| cache | (operation << 8) | (result << 16))
        })
    });
    // Those of nodes are the northbridge's: see "family 15H" in docs/differences.md.
    let family_15h = CpuPmu::probe().is_family_15h();
    let due = |id, programmed| match id & 0xff {
        differences::CACHE_NODE if family_15h => Err(ENOENT),
        _ => Ok(programmed),
    };
    compare(ctx, PERF_TYPE_HW_CACHE, ids, due)
}

/// perf's cache events of data, instructions and their TLBs count what the emulated PMU derives from the
/// instructions, loads and stores that retire: the references by one rule of the cache, and the misses by the
/// same one.
fn cache_events_count(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let code = workload::whole_periods(2);
    let instructions = code.instructions();
    // The workload has 64 loads and 64 stores.
    let of_data = [64, 1];
    let of_each = [instructions, instructions / 64];
    let of_second_level = [instructions / 64, instructions / 4096];
    let caches = [
        (0, vec![of_data, of_each]),
        (1, vec![of_each]),
        (3, vec![of_data, of_each, of_second_level]),
        (4, vec![of_each, of_second_level]),
    ];
    let count = |id| -> Result<Option<u64>> {
        let Ok(mut counter) = pmu.generic(PERF_TYPE_HW_CACHE, id)?.build() else {
            return Ok(None);
        };
        // Where a rule begins depends on the CPU.
        alone(|| {
            counter.reset()?;
            code.measure(&counter)
        })?;
        Ok(Some(counter.read()?))
    };
    let mut counted = 0;
    for (cache, rules) in caches {
        for operation in [0, 1] {
            let id = cache | (operation << 8);
            let found = [count(id)?, count(id | (1 << 16))?];
            let is_by = |rule: &[u64; 2]| {
                let mut pairs = found.iter().zip(rule);
                pairs.all(|(found, due)| found.is_none_or(|it| it == *due))
            };
            ensure!(
                rules.iter().any(is_by),
                "event {id:#x}: {found:?} references and misses, expected one of {rules:?}"
            );
            counted += found.iter().flatten().count();
        }
    }
    println!("# {counted} events");
    match counted {
        0 => skip("the in-tree driver has no cache events of this CPU"),
        _ => Ok(()),
    }
}

/// perf's hardware events. See "event select 0" and "Hygon" in docs/differences.md for the exceptions.
fn hardware_events(ctx: &Ctx) -> Result<()> {
    let (pmu, cpu) = (ctx.pmu()?, Cpu::probe());
    let no_counter = !cpu.amd() && cpu.perfmon.fixed_mask & 0b100 == 0;
    let code =
        |file: &&str| differences::terms(&cpu, file).map(|terms| pmu.encode(terms.trim_end()));
    let others = HARDWARE_EVENTS.iter().map(|file| code(file).transpose());
    let others = others.collect::<Result<Vec<_>>>()?;
    let due = |id, programmed: Programmed| match others.get(id as usize) {
        _ if id == REF_CYCLES && no_counter => Err(ENOENT),
        Some(Some(code)) => Ok(programmed.with_code(*code)),
        _ => Ok(programmed),
    };
    compare(ctx, PERF_TYPE_HARDWARE, 0..11, due)
}

/// The files of the hardware events in sysfs. See docs/differences.md for the exceptions.
fn files(ctx: &Ctx) -> Result<()> {
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let cpu = Cpu::probe();
    let no_counter = !cpu.amd() && cpu.perfmon.fixed_mask & 0b100 == 0;
    let mut report = Report::new(ctx);
    for file in HARDWARE_EVENTS {
        let text = |pmu: &Pmu| fs::read_to_string(pmu.event_file(file)).ok();
        let (found, mut expected) = (text(&ours), text(&theirs));
        report.called(0);
        if ctx.is_rust_pmu() {
            if let Some(terms) = differences::terms(&cpu, file) {
                expected = Some(terms.to_owned());
            }
            if file == "ref-cycles" && no_counter {
                expected = None;
            }
        }
        if found != expected {
            report.wrong(format!("{file}: {found:?}, expected {expected:?}"));
        }
    }
    report.finish()
}

/// The value of the general counter that counts an event with this code.
fn counter_of(msrs: &Msrs, code: u64) -> Result<u64> {
    let general = PmuMsrs::of_this_cpu().running_general(msrs)?;
    let found = general
        .iter()
        .find(|(eventsel, _)| eventsel & 0xffff == code);
    let (_, counter) = found.context("no counter has the event")?;
    msrs.read(*counter)
}

/// Sample periods that a CPU cannot count are refused, and what is left of a period is
/// lengthened: both drivers start a counter at the same value. The event counts nothing.
fn short_periods(ctx: &Ctx) -> Result<()> {
    const LONG: u64 = 1 << 20;
    // INST_RETIRED.ALL, for which there are errata, and an event like any other.
    const CODES: [u64; 2] = [0x01c0, 0x0149];
    // On some models a fixed counter counts the former, but not with a counter mask.
    // One sample in 2 is one in 1 for us: see docs/differences.md.
    let periods = || (2..=300).chain([1023, 1024, 4097, LONG]);
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let msrs = Msrs::of_cpu(sched_getcpu()?)?;
    let mut report = Report::new(ctx);
    let [mut refused, mut moved] = [0; 2];
    for code in CODES {
        let open = |pmu: &Pmu, period| {
            let mut builder = pmu.raw(code | CMASK_1);
            builder
                .exclude_user(true)
                .exclude_kernel(true)
                .sample_period(period)
                .any_pid()
                .one_cpu(msrs.cpu())
                .pinned(true)
                .enabled(true);
            builder.build()
        };
        let start = |pmu: &Pmu, period| match open(pmu, period) {
            Ok(_counter) => Ok(Ok(counter_of(&msrs, code)?)),
            Err(error) => Ok(Err(error.raw_os_error().context("no errno")?)),
        };
        let change = |pmu: &Pmu, period| -> Result<Result<u64, i32>> {
            let counter = open(pmu, LONG)?;
            match set_period(&counter, period) {
                0 => Ok(Ok(counter_of(&msrs, code)?)),
                errno => Ok(Err(errno)),
            }
        };
        for period in periods() {
            for (what, try_it) in [
                ("opened", &start as &dyn Fn(&Pmu, u64) -> Result<_>),
                ("changed", &change),
            ] {
                let (found, expected) = (try_it(&ours, period)?, try_it(&theirs, period)?);
                report.called(found.err().unwrap_or(0));
                match expected {
                    Err(_) => refused += 1,
                    Ok(value) => {
                        moved += u32::from(value as u32 != (period as u32).wrapping_neg());
                    }
                }
                if found != expected {
                    report.wrong(format!(
                        "{code:#x} {what}, period {period}: {found:x?}, in-tree {expected:x?}"
                    ));
                }
            }
        }
    }
    println!("# {refused} refused, {moved} started elsewhere");
    report.finish()
}

/// The values of the counters that a period was written to: they have bit 31 set. With the in-tree driver on
/// Nehalem and Westmere, others have counted a little: its workaround of an erratum lets them run, and does
/// not clear them afterwards (`intel_pmu_nhm_workaround()`).
fn started(msrs: &Msrs, addresses: &PmuMsrs) -> Result<Vec<u64>> {
    let mut values = Vec::new();
    for counter in addresses.all_counters() {
        let value = msrs.read(counter)?;
        if value & (1 << 31) != 0 {
            values.push(value);
        }
    }
    Ok(values)
}

/// An event may have any frequency, when it is opened and later. The model's shortest period does not apply
/// to frequencies.
fn low_frequencies(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for config in [0xc4, 0x01c0 | CMASK_1] {
        for frequency in [1, 2, 20, 31] {
            let open = |frequency| pmu.raw(config).sample_frequency(frequency).build();
            let what = || format!("{config:#x}, {frequency} Hz");
            open(frequency).with_context(what)?;
            let errno = set_period(&open(100)?, frequency);
            ensure!(errno == 0, "{}: set later: {}", what(), name(errno));
        }
    }
    Ok(())
}

/// Events that are sampled at a frequency start at the same period on both drivers: raw events, and
/// perf's generic ones, which are events of this name on rust_pmu. They count nothing, so that what
/// perf has started is still in the counter.
fn first_periods(ctx: &Ctx) -> Result<()> {
    const FREQUENCIES: [u64; 4] = [1, 99, 4_000, 25_000];
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let msrs = Msrs::of_cpu(sched_getcpu()?)?;
    let addresses = PmuMsrs::of_this_cpu();
    let mut report = Report::new(ctx);
    let first = |mut builder: Builder<'static>, frequency| -> Result<Option<Vec<u64>>> {
        for counter in addresses.all_counters() {
            msrs.write(counter, 0)?;
        }
        builder
            .exclude_user(true)
            .exclude_kernel(true)
            .sample_frequency(frequency)
            .any_pid()
            .one_cpu(msrs.cpu())
            .pinned(true)
            .enabled(true);
        let Ok(_counter) = builder.build() else {
            return Ok(None);
        };
        // The upper bits of a counter are copies of bit 31.
        let period = |value| u64::from((value as u32).wrapping_neg());
        let values = started(&msrs, &addresses)?;
        Ok(Some(values.into_iter().map(period).collect()))
    };
    let named =
        |name: &str| -> Result<u64> { Ok(ours.named_config2(name)?.map_or(0, |bit| 1 << bit)) };
    let mut periods = BTreeSet::new();
    let mut compare = |what: String, our, their, frequency| -> Result<()> {
        let (found, expected) = (first(our, frequency)?, first(their, frequency)?);
        report.called(0);
        if let Some([period]) = expected.as_deref() {
            periods.insert(*period);
        }
        // The in-tree driver starts at 2 where perf asks for 1: see docs/differences.md.
        let due = expected.map(|it| {
            it.into_iter()
                .map(|it| if it == 2 { 1 } else { it })
                .collect()
        });
        if found.is_some() && found != due {
            report.wrong(format!(
                "{what} at {frequency} Hz: {found:?}, in-tree {due:?}"
            ));
        }
        Ok(())
    };
    for frequency in FREQUENCIES {
        for code in [0xc0, 0x3c, 0x01c0, 0x0149] {
            // On some models a fixed counter counts these, but not with a counter mask.
            let event = code | (1 << 24);
            compare(
                format!("{event:#x}"),
                ours.raw(event),
                theirs.raw(event),
                frequency,
            )?;
        }
        let hardware = (0..)
            .zip(HARDWARE_EVENTS)
            .map(|(id, name)| (PERF_TYPE_HARDWARE, id, name.to_owned()));
        let cache = cache_event_names().map(|(id, name)| (PERF_TYPE_HW_CACHE, id, name));
        for (type_, id, name) in hardware.chain(cache) {
            let bits = named(&name)?;
            if bits == 0 {
                continue;
            }
            let mut event = ours.raw(0);
            event.attrs_mut().__bindgen_anon_4.config2 = bits;
            compare(name, event, theirs.generic(type_, id)?, frequency)?;
        }
    }
    println!("# in-tree: {periods:?}");
    ensure!(!periods.is_empty(), "no event was compared");
    report.finish()
}

/// Samples of the latency of loads that contain the source of the data: a model may need
/// another event in the group.
fn data_sources(ctx: &Ctx) -> Result<()> {
    const LOAD_LATENCY: u64 = 0x01cd;
    const AUXILIARY: u64 = 0x8203;
    const OTHER: u64 = 0x01c4;
    // The members, and whether those behind the leader are enabled.
    let groups: [(&[u64], bool); 7] = [
        (&[], true),
        (&[AUXILIARY], true),
        (&[OTHER], true),
        (&[OTHER, AUXILIARY], true),
        (&[OTHER, AUXILIARY], false),
        (&[OTHER, OTHER], true),
        (&[LOAD_LATENCY], true),
    ];
    let mut report = Report::new(ctx);
    let mut all = Vec::new();
    for (members, enabled) in groups {
        let errno = |pmu: &Pmu| -> Result<i32> {
            let mut group: Vec<Counter> = Vec::new();
            for config in members {
                let mut builder = pmu.raw(*config);
                let counter = match group.first_mut() {
                    None => builder.build()?,
                    Some(leader) => builder.enabled(enabled).build_with_group(leader)?,
                };
                group.push(counter);
            }
            let mut builder = pmu.raw(LOAD_LATENCY);
            builder.sample(SampleFlag::DATA_SRC).sample_period(1000);
            let counter = match group.first_mut() {
                None => builder.build(),
                Some(leader) => builder.enabled(true).build_with_group(leader),
            };
            match counter {
                Ok(_) => Ok(0),
                Err(error) => error.raw_os_error().context("no errno"),
            }
        };
        let (ours, theirs) = (errno(&ctx.pmu()?)?, errno(&ctx.in_tree()?)?);
        report.called(ours);
        all.push(name(theirs));
        if ours != theirs {
            report.wrong(format!(
                "{members:#x?}: {}, in-tree {}",
                name(ours),
                name(theirs)
            ));
        }
    }
    println!("# {all:?}");
    report.finish()
}
