// SPDX-License-Identifier: GPL-2.0
//! Top-down analysis: the events that say how a CPU used its slots. From Ice Lake on they
//! are metrics, that is, fields of PERF_METRICS, and need the event of slots as their leader.

mod in_tree;

use in_tree::in_tree_events_leave_nothing;

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Barrier;
use std::thread;

use anyhow::{ensure, Context, Result};
use perf_event::{Builder, Counter, ReadFormat};
use pmu_model::msr::MSR_PERF_METRICS;

use super::compare::report::{name, Report};
use super::user_read::{rdpmc, Page};
use super::{expect, find_undisturbed, repeat, switches, undisturbed};
use crate::ctx::{skip, Ctx, Test};
use crate::msr::Msrs;
use crate::pmu::{core_type, read_all, signature, BuilderExt, CoreType, Event, Mode, Pmu, APART};
use crate::program::LOOP;
use crate::setting::{Affinity, Setting};
use crate::tests;
use crate::tool::Perf;
use crate::waiting;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [InTree, EmulatedPmu, Msrs];
    files,
    errors,
    metrics_of_an_exact_loop,
    slots_alone,
    reads_while_counting,
    group_reads_settle_once,
    context_switches,
    rdpmc_across_context_switches,
    kernel_mode,
    multiplexed,
    one_metric_at_a_time,
    without_a_leader,
    rdpmc_of_metrics,
    rdpmc_that_clears_metrics,
    cleared_for_other_tasks,
    in_tree_events_leave_nothing,
    overflow_of_metrics,
    read_by_samples,
    perf_stat,
];

/// The pseudo-encodings (`arch/x86/include/asm/perf_event.h`).
const SLOTS: u64 = 0x0400;
const METRICS: [u64; 8] = [
    0x8000, 0x8100, 0x8200, 0x8300, 0x8400, 0x8500, 0x8600, 0x8700,
];
const INSTRUCTIONS: u64 = 0xc0;
const BRANCHES: u64 = 0xc4;
/// The metrics of level 1.
const LEVEL_1: usize = 4;
/// The value of a field that all slots belong to.
const ALL: u64 = 0xff;

/// RDPMC of PERF_METRICS (SDM vol. 2B, RDPMC), and of fixed counter 3.
const RDPMC_METRICS: u32 = 1 << 29;
const RDPMC_SLOTS: u32 = (1 << 30) | 3;

/// The metrics of this CPU, by its model and PERF_CAPABILITIES: none, those of level 1, or
/// all. Skips the test if there are none.
fn metrics() -> Result<&'static [u64]> {
    match metrics_of_model() {
        0 => skip("needs a CPU with PERF_METRICS"),
        n => Ok(&METRICS[..n]),
    }
}

/// How many metrics this CPU has, by its model and on hybrid CPUs the type of the core.
pub(super) fn metrics_of_model() -> usize {
    match core_type() {
        Some(CoreType::Core) => return METRICS.len(),
        Some(CoreType::Atom) => return 0,
        None => {}
    }
    match signature() {
        (6, 0x6a | 0x6c | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7) => LEVEL_1,
        (6, 0x8f | 0xcf | 0xad | 0xae) | (0x13, 1) => METRICS.len(),
        _ => 0,
    }
}

/// The slots of each metric, and all slots, while a program retires these instructions: see
/// `pmu-model/src/event/mod.rs`.
fn truth(instructions: u64, branches: u64) -> ([u64; 8], u64) {
    let bad_speculation = 4 * 15 * (branches / 64);
    let back_end = 4 * 100 * (instructions / 4096);
    let parts = [
        instructions,
        bad_speculation,
        3 * instructions,
        back_end,
        branches,
        bad_speculation,
        instructions,
        back_end,
    ];
    (parts, parts[..LEVEL_1].iter().sum())
}

/// The counts of the metrics that eight bits allow: exact ones.
fn rounded(parts: [u64; 8], slots: u64) -> [u64; 8] {
    let nearest = |part: u64| (ALL * part + slots / 2) / slots;
    let mut fields = [0; 8];
    let (mut sum, mut below) = (0, 0);
    for (field, part) in fields.iter_mut().zip(parts).take(LEVEL_1) {
        sum += part;
        *field = nearest(sum) - below;
        below += *field;
    }
    for i in LEVEL_1..8 {
        fields[i] = nearest(parts[i]).min(fields[i - LEVEL_1]);
    }
    fields.map(|field| slots * field / ALL)
}

/// Opens slots and metrics as a group, disabled.
fn open(pmu: &Pmu, metrics: &[u64], mode: Mode) -> Result<Vec<Counter>> {
    open_with(pmu, metrics, mode, |_| ())
}

fn open_with(
    pmu: &Pmu,
    metrics: &[u64],
    mode: Mode,
    change: impl Fn(&mut Builder),
) -> Result<Vec<Counter>> {
    let mut builder = pmu.raw(SLOTS);
    builder.filter(mode);
    change(&mut builder);
    let mut group = vec![builder.build().context("open slots")?];
    for metric in metrics {
        let mut builder = pmu.raw(*metric);
        builder.filter(mode).enabled(true);
        change(&mut builder);
        let counter = builder.build_with_group(&mut group[0]);
        group.push(counter.with_context(|| format!("open {metric:#x}"))?);
    }
    Ok(group)
}

/// Checks that `counts`, of slots and metrics, are those of a program. `rounds` is how often
/// metrics may have been rounded, each time to less than one 255th of the slots.
fn expect_near(what: &str, counts: &[u64], truth: ([u64; 8], u64), slack: u64) -> Result<()> {
    let (parts, slots) = truth;
    println!("# {what}: {counts:?}, expected about {slots} and {parts:?}");
    ensure!(
        counts[0].abs_diff(slots) <= slack,
        "{what}: {} slots, expected {slots}",
        counts[0]
    );
    for (i, (count, part)) in counts[1..].iter().zip(parts).enumerate() {
        let off = count.abs_diff(part);
        // Each field is off by less than one.
        ensure!(
            off <= slots / ALL + slack,
            "{what}: metric {i} is {count}, expected {part}: {off} off, of {slots} slots"
        );
    }
    Ok(())
}

/// The metrics of level 1 are all slots.
fn expect_sum(what: &str, counts: &[u64], slack: u64) -> Result<()> {
    let sum: u64 = counts[1..=LEVEL_1].iter().sum();
    ensure!(
        sum.abs_diff(counts[0]) <= slack,
        "{what}: level 1 is {sum} of {} slots",
        counts[0]
    );
    Ok(())
}

/// Both drivers have the same files, but for slots without PERF_METRICS: see docs/differences.md.
fn files(ctx: &Ctx) -> Result<()> {
    let of = |pmu: &Pmu| -> Result<BTreeMap<String, String>> {
        let mut files = BTreeMap::new();
        for file in fs::read_dir(pmu.dir().join("events"))? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            let name = name.strip_prefix(APART).unwrap_or(&name).to_owned();
            if name.starts_with("topdown") || name == "slots" {
                // The in-tree driver ends some of them without a new line, and on hybrid CPUs with
                // NUL bytes.
                let text = fs::read_to_string(file.path())?;
                files.insert(name, text.trim_end_matches('\0').trim_end().into());
            }
        }
        Ok(files)
    };
    let (mut ours, theirs) = (of(&ctx.pmu()?)?, of(&ctx.in_tree()?)?);
    println!("# {theirs:?}");
    let metrics = metrics_of_model();
    if metrics == 0 {
        ours.remove("slots");
    }
    ensure!(ours == theirs, "{ours:?}, in-tree {theirs:?}");
    let pseudo = theirs.values().filter(|text| text.contains("event=0x00,"));
    let expected = if metrics == 0 { 0 } else { metrics + 1 };
    expect(
        "events/",
        "files of metrics",
        pseudo.count() as u64,
        expected as u64,
    )
}

/// One event of a group: what is changed in its attributes, and whether it counts in user
/// mode only, like the others.
type Member = (u64, fn(&mut Builder));

const PLAIN: fn(&mut Builder) = |_| ();
const SAMPLED: fn(&mut Builder) = |builder| {
    builder.sample_period(100_003);
};

/// Each group has the same errno on both drivers, apart from the known differences.
fn errors(ctx: &Ctx) -> Result<()> {
    metrics()?;
    const EDGE: u64 = 1 << 18;
    const PC: u64 = 1 << 19;
    const ANY: u64 = 1 << 21;
    const INV: u64 = 1 << 23;
    const CMASK: u64 = 1 << 24;
    let all: Vec<Member> = METRICS.map(|metric| (metric, PLAIN)).into();
    let slots: Member = (SLOTS, PLAIN);
    let with_slots = |members: &[Member]| [&[slots], members].concat();
    let mut groups: Vec<Vec<Member>> = Vec::new();
    for metric in &all {
        groups.push(vec![*metric]);
        groups.push(with_slots(&[*metric]));
        groups.push(vec![(INSTRUCTIONS, PLAIN), *metric]);
        groups.push(vec![(INSTRUCTIONS, PLAIN), slots, *metric]);
        groups.push(with_slots(&[(metric.0, SAMPLED)]));
        groups.push(vec![(SLOTS, SAMPLED), *metric]);
        groups.push(with_slots(&[*metric, *metric]));
        for modifier in [EDGE, PC, ANY, INV, CMASK] {
            groups.push(with_slots(&[(metric.0 | modifier, PLAIN)]));
        }
    }
    for modifier in [EDGE, PC, ANY, INV, CMASK] {
        groups.push(vec![(SLOTS | modifier, PLAIN)]);
    }
    groups.push(vec![(SLOTS, SAMPLED)]);
    groups.push(with_slots(&[slots]));
    const METRICS_CLEAR: fn(&mut Builder) = |builder| {
        builder.attrs_mut().__bindgen_anon_3.config1 = 1;
    };
    let config1: [fn(&mut Builder); 4] = [
        METRICS_CLEAR,
        |builder| {
            builder.attrs_mut().__bindgen_anon_3.config1 = 2;
        },
        |builder| {
            builder.attrs_mut().__bindgen_anon_3.config1 = 3;
        },
        |builder| {
            builder.attrs_mut().__bindgen_anon_4.config2 = 1;
        },
    ];
    for change in config1 {
        groups.push(vec![(SLOTS, change)]);
        groups.push(with_slots(&[(METRICS[0], change)]));
    }
    if clears_metrics(&ctx.in_tree()?) {
        groups.push([&[(SLOTS, METRICS_CLEAR)], &all[..]].concat());
    }
    // As much as there is: slots, metrics, and every other counter.
    let level_1 = &all[..LEVEL_1];
    let general: [Member; 8] = [(BRANCHES, PLAIN); 8];
    groups.push([&with_slots(level_1), &general[..]].concat());
    groups.push([&with_slots(level_1), &general[..], &[(BRANCHES, PLAIN)]].concat());
    let fixed = [(INSTRUCTIONS, PLAIN), (0x3c, PLAIN), (0x300, PLAIN)];
    groups.push([&with_slots(level_1), &general[..], &fixed[..]].concat());

    let mut report = Report::new(ctx);
    for group in &groups {
        let errno = |pmu: &Pmu| -> Result<Vec<i32>> {
            let mut events: Vec<Counter> = Vec::new();
            let mut errnos = Vec::new();
            for (config, change) in group {
                let mut builder = pmu.raw(*config);
                change(&mut builder);
                let result = match events.first_mut() {
                    None => builder.build(),
                    Some(leader) => builder.enabled(true).build_with_group(leader),
                };
                match result {
                    Ok(event) => {
                        events.push(event);
                        errnos.push(0);
                    }
                    Err(error) => errnos.push(error.raw_os_error().context("no errno")?),
                }
            }
            Ok(errnos)
        };
        let (ours, mut theirs) = (errno(&ctx.pmu()?)?, errno(&ctx.in_tree()?)?);
        for errno in &ours {
            report.called(*errno);
        }
        // See "event select 0" and `config1` in docs/differences.md: the in-tree driver counts nothing
        // for the metrics that the CPU does not have, sets a reserved bit for metrics_clear, and
        // ignores `config1` of events that have no use for it.
        if ctx.is_rust_pmu() {
            for ((config, change), errno) in group.iter().zip(&mut theirs) {
                let mut builder = ctx.pmu()?.raw(*config);
                change(&mut builder);
                // SAFETY: all variants of the union are integers.
                let config1 = unsafe { builder.attrs_mut().__bindgen_anon_3.config1 };
                let clear = *config == SLOTS && config1 == 1 && clears_metrics(&ctx.in_tree()?);
                if config1 != 0 && !clear {
                    *errno = libc::EINVAL;
                }
            }
            for ((config, _), errno) in group.iter().zip(&mut theirs) {
                let metric = METRICS.iter().position(|it| *it == config & 0xffff);
                if metric.is_some_and(|i| i >= metrics_of_model()) {
                    *errno = libc::EINVAL;
                }
            }
        }
        if ours != theirs {
            let codes: Vec<_> = group.iter().map(|(config, _)| config).collect();
            let names = |errnos: &[i32]| errnos.iter().copied().map(name).collect::<Vec<_>>();
            report.wrong(format!(
                "{codes:#x?}: {:?}, in-tree {:?}",
                names(&ours),
                names(&theirs)
            ));
        }
    }
    report.finish()?;
    if !ctx.is_rust_pmu() {
        return Ok(());
    }
    // Metrics in another mode than their slots, which docs/differences.md lists.
    let mut leader = ctx.pmu()?.raw(SLOTS).build()?;
    let mut metric = ctx.pmu()?.raw(METRICS[0]);
    let error = metric
        .filter(Mode::Both)
        .build_with_group(&mut leader)
        .err()
        .context("a metric of another mode opens")?;
    ensure!(error.raw_os_error() == Some(libc::EINVAL), "{error}");
    Ok(())
}

/// Whether RDPMC can clear the metrics of this PMU.
fn clears_metrics(pmu: &Pmu) -> bool {
    pmu.dir().join("format/metrics_clear").exists()
}

/// Measures a workload that no other task interrupts, with a new group each time.
fn measure(pmu: &Pmu, metrics: &[u64], workload: &Workload) -> Result<Vec<u64>> {
    find_undisturbed(|| {
        let mut group = open(pmu, metrics, Mode::User)?;
        let alone = undisturbed(|| workload.measure(&group[0]))?;
        Ok(alone.then_some(read_all(&mut group)?))
    })
}

/// The counts are exact, given the eight bits.
fn metrics_of_an_exact_loop(ctx: &Ctx) -> Result<()> {
    let metrics = metrics()?;
    let pmu = ctx.pmu()?;
    for periods in [1, 10, 250] {
        let workload = workload::whole_periods(periods);
        let (parts, slots) = truth(workload.instructions(), workload.branches());
        let expected = rounded(parts, slots);
        let counts = measure(&pmu, metrics, &workload)?;
        println!("# {}: {counts:?}", workload.name());
        expect(workload.name(), "slots", counts[0], slots)?;
        for (i, (count, expected)) in counts[1..].iter().zip(expected).enumerate() {
            let what = format!("{}, metric {i}", workload.name());
            expect(&what, "slots", *count, expected)?;
        }
    }
    Ok(())
}

/// Slots without metrics are an event like any other.
fn slots_alone(ctx: &Ctx) -> Result<()> {
    metrics()?;
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(100);
    let (_, slots) = truth(workload.instructions(), workload.branches());
    let counts = measure(&pmu, &[], &workload)?;
    expect(workload.name(), "slots", counts[0], slots)?;
    // Samples, too, and with a group of other events.
    let count = find_undisturbed(|| {
        let mut event = pmu.raw(SLOTS).sample_period(100_003).build()?;
        let alone = undisturbed(|| workload.measure(&event))?;
        Ok(alone.then_some(event.read()?))
    })?;
    expect(workload.name(), "sampled slots", count, slots)?;
    // Registers that metrics have left behind do not matter.
    let group = open(&pmu, metrics()?, Mode::User)?;
    workload.measure(&group[0])?;
    drop(group);
    let counts = measure(&pmu, &[], &workload)?;
    expect("after metrics", "slots", counts[0], slots)
}

/// The values of a group that its leader was opened to read at once.
fn read_group(group: &mut [Counter]) -> Result<Vec<u64>> {
    let values = group[0].read_group()?;
    Ok(group.iter().map(|counter| values[counter]).collect())
}

/// Opens a group that is read at once.
fn open_read_at_once(pmu: &Pmu, metrics: &[u64], mode: Mode) -> Result<Vec<Counter>> {
    open_with(pmu, metrics, mode, |builder| {
        builder.read_format(ReadFormat::GROUP | ReadFormat::ID);
    })
}

/// Each value that is read is right, and nothing is lost in between.
fn reads_while_counting(ctx: &Ctx) -> Result<()> {
    const READS: u64 = 20;
    let metrics = metrics()?;
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(250);
    for mode in [Mode::User, Mode::Both] {
        let mut group = open_read_at_once(&pmu, metrics, mode)?;
        let members = group.len();
        group[0].enable()?;
        let mut last = vec![0; members];
        for _ in 0..READS {
            workload.run();
            let values = read_group(&mut group)?;
            let gained: Vec<u64> = values
                .iter()
                .zip(&last)
                .map(|(now, then)| now - then)
                .collect();
            // In kernel mode the reads of the members come one after the other.
            let slack = 4 * members as u64 + gained[0] / 50;
            expect_sum("between two reads", &gained, slack)?;
            ensure!(gained[0] >= 4 * workload.instructions(), "{gained:?}");
            last = values;
        }
        group[0].disable()?;
        if mode == Mode::User {
            let n = READS * workload.instructions();
            let branches = READS * workload.branches();
            // What runs between the ioctls, and rounded branch misses.
            let slack = READS * 50_000;
            expect_near(
                "all reads",
                &read_group(&mut group)?,
                truth(n, branches),
                slack,
            )?;
        }
    }
    Ok(())
}

/// A read of a group settles all members at once, also while the kernel is counted. Each
/// settling rounds the metrics of level 1 down, together by at most three slots.
fn group_reads_settle_once(ctx: &Ctx) -> Result<()> {
    const READS: u64 = 200;
    let metrics = metrics()?;
    let pmu = ctx.pmu()?;
    let mut group = open_read_at_once(&pmu, metrics, Mode::Both)?;
    group[0].enable()?;
    let before = switches()?;
    let first = read_group(&mut group)?;
    let mut values = Vec::new();
    for _ in 0..READS {
        values = read_group(&mut group)?;
    }
    let switched = switches()? - before;
    let gained: Vec<u64> = values
        .iter()
        .zip(&first)
        .map(|(now, then)| now - then)
        .collect();
    let sum: u64 = gained[1..=LEVEL_1].iter().sum();
    let lost = gained[0].checked_sub(sum).context("more than all slots")?;
    println!(
        "# {lost} of {} slots lost in {READS} reads, {switched} switches",
        gained[0]
    );
    // A task that leaves the CPU is settled, too, and so is one that comes back.
    let settled = READS + 2 * switched as u64;
    ensure!(
        lost <= 3 * settled,
        "{lost} slots lost in {settled} settlings"
    );
    Ok(())
}

/// How often a part of a program gives way to the other task of [`with_competitor`].
const TURNS: u64 = 10;

/// Calls `work` with a function that gives the CPU to another task, and gets it back. Whether the kernel would
/// switch by itself depends on how busy the host is.
fn with_competitor<T>(work: impl FnOnce(&dyn Fn()) -> Result<T>) -> Result<T> {
    let _pinned = Affinity::pinned_to(0)?;
    let stop = AtomicBool::new(false);
    let turn = Barrier::new(2);
    thread::scope(|scope| {
        // It has the affinity of this thread.
        scope.spawn(|| loop {
            waiting::meet(&turn, "the test to give way");
            if stop.load(Relaxed) {
                break;
            }
            workload::branches(1_000).run();
            waiting::meet(&turn, "the test to go on");
        });
        let result = work(&|| {
            waiting::meet(&turn, "the other task");
            waiting::meet(&turn, "the other task to be done");
        });
        stop.store(true, Relaxed);
        waiting::meet(&turn, "the other task to end");
        result
    })
}

/// Rounding at each switch adds up to no more than rounding once, also if the second half of
/// the program uses its slots differently.
fn context_switches(ctx: &Ctx) -> Result<()> {
    let metrics = metrics()?;
    let pmu = ctx.pmu()?;
    let halves = [workload::branches(500_000), workload::block(600_000)];
    let counts = with_competitor(|give_way| {
        let mut group = open(&pmu, metrics, Mode::User)?;
        group[0].enable()?;
        let before = switches()?;
        for part in &halves {
            for _ in 0..TURNS {
                part.run();
                give_way();
            }
        }
        let switched = switches()? - before;
        group[0].disable()?;
        println!("# {switched} context switches");
        ensure!(switched >= 5, "only {switched} context switches");
        Ok(read_all(&mut group)?)
    })?;
    let sum = |of: fn(&Workload) -> u64| TURNS * halves.iter().map(of).sum::<u64>();
    let n = sum(Workload::instructions);
    let branches = sum(Workload::branches);
    // At each switch a miss of either kind may be another task's.
    let (_, slots) = truth(n, branches);
    expect_near(
        "with context switches",
        &counts,
        truth(n, branches),
        slots / 200,
    )?;
    expect_sum("with context switches", &counts, slots / ALL)
}

/// What RDPMC reads goes on after a context switch, on either driver.
fn rdpmc_across_context_switches(ctx: &Ctx) -> Result<()> {
    let metrics = metrics()?;
    let workload = workload::branches(500_000);
    for pmu in [ctx.in_tree()?, ctx.pmu()?] {
        let gained = with_competitor(|give_way| {
            let mut group = open(&pmu, metrics, Mode::User)?;
            let _pages = group.iter().map(Page::map).collect::<Result<Vec<_>>>()?;
            group[0].enable()?;
            // SAFETY: the events are mapped, so the kernel allows RDPMC.
            let read = || unsafe { (rdpmc(RDPMC_SLOTS), rdpmc(RDPMC_METRICS)) };
            let retiring = |(slots, fields): (u64, u64)| slots * (fields & ALL) / ALL;
            let switched = switches()?;
            let before = read();
            for _ in 0..TURNS {
                workload.run();
                give_way();
            }
            let after = read();
            let switched = switches()? - switched;
            ensure!(switched >= 5, "only {switched} context switches");
            let slots = after.0.checked_sub(before.0);
            let slots = slots.with_context(|| format!("{}: they begin anew", pmu.name))?;
            let gained = retiring(after).checked_sub(retiring(before));
            let gained =
                gained.with_context(|| format!("{}: retiring slots begin anew", pmu.name))?;
            Ok([slots, gained])
        })?;
        let n = TURNS * workload.instructions();
        let (parts, slots) = truth(n, TURNS * workload.branches());
        println!("# {}: {gained:?} of {slots}, {}", pmu.name, parts[0]);
        ensure!(gained[0].abs_diff(slots) <= slots / 100, "{gained:?}");
        ensure!(gained[1].abs_diff(parts[0]) <= slots / 20, "{gained:?}");
    }
    Ok(())
}

/// Both modes: level 1 is all slots, however much runs in the kernel.
fn kernel_mode(ctx: &Ctx) -> Result<()> {
    let metrics = metrics()?;
    let pmu = ctx.pmu()?;
    for mode in [Mode::Kernel, Mode::Both] {
        let mut group = open(&pmu, metrics, mode)?;
        workload::syscalls(5_000).measure(&group[0])?;
        let counts = read_all(&mut group)?;
        println!("# {mode:?}: {counts:?}");
        ensure!(counts[0] > 1_000_000, "{mode:?}: {} slots", counts[0]);
        expect_sum("system calls", &counts, counts[0] / ALL)?;
        // Each instruction takes one slot, and the front end loses three.
        ensure!(
            counts[3].abs_diff(3 * counts[1]) <= 4 * counts[0] / ALL,
            "{mode:?}: {counts:?}"
        );
    }
    Ok(())
}

/// Two groups share fixed counter 3 in turns. Each slot is counted by one of them. A member that is no metric says
/// when each has had its turn: reading it does not read the metrics.
fn multiplexed(ctx: &Ctx) -> Result<()> {
    let metrics = metrics()?;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(60_000_000);
    let mut groups = [
        open(&pmu, metrics, Mode::User)?,
        open(&pmu, &metrics[..LEVEL_1], Mode::User)?,
    ];
    let mut members = Vec::new();
    for group in &mut groups {
        let mut member = pmu.event(Event::Instructions);
        members.push(member.enabled(true).build_with_group(&mut group[0])?);
        group[0].enable()?;
    }
    let rounds = repeat("two groups that share a counter", || {
        workload.run();
        let instructions = read_all(&mut members)?;
        Ok(instructions.iter().all(|it| *it >= 300_000))
    })?;
    for group in &mut groups {
        group[0].disable()?;
    }
    let mut sum = 0;
    for group in &mut groups {
        let counts = read_all(group)?;
        println!("# {counts:?}");
        ensure!(counts[0] > 1_000_000, "a group did not run: {counts:?}");
        expect_sum("a group", &counts, 2 * counts[0] / ALL)?;
        sum += counts[0];
    }
    let (_, slots) = truth(
        rounds * workload.instructions(),
        rounds * workload.branches(),
    );
    ensure!(
        sum.abs_diff(slots) <= slots / 100,
        "{sum} slots, expected {slots}"
    );
    Ok(())
}

/// A metric that is disabled misses what runs meanwhile, and nothing else.
fn one_metric_at_a_time(ctx: &Ctx) -> Result<()> {
    metrics()?;
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(250);
    let retiring = workload.instructions();
    let mut group = open(&pmu, &METRICS[..LEVEL_1], Mode::User)?;
    // Retiring, then front-end bound, then both, then none.
    for [first, third] in [[true, false], [false, true], [true, true], [false, false]] {
        for (i, on) in [(1, first), (3, third)] {
            match on {
                true => group[i].enable()?,
                false => group[i].disable()?,
            }
        }
        group[0].enable()?;
        workload.run();
        group[0].disable()?;
    }
    let counts = read_all(&mut group)?;
    println!("# {counts:?}, {retiring} instructions at a time");
    let off = counts[0] / ALL + 20_000;
    for (count, expected) in [(counts[1], 2 * retiring), (counts[3], 6 * retiring)] {
        ensure!(
            count.abs_diff(expected) <= off,
            "{count}, expected {expected}"
        );
    }
    // A metric that joins a leader that counts already.
    let mut leader = pmu.raw(SLOTS).build()?;
    leader.enable()?;
    workload.run();
    let mut metric = pmu
        .raw(METRICS[0])
        .enabled(true)
        .build_with_group(&mut leader)?;
    workload.run();
    leader.disable()?;
    let counts = [leader.read()?, metric.read()?];
    let (_, slots) = truth(workload.instructions(), workload.branches());
    println!("# joined: {counts:?}");
    ensure!(counts[0].abs_diff(2 * slots) <= off, "{counts:?}");
    ensure!(counts[1].abs_diff(retiring) <= off, "{counts:?}");
    Ok(())
}

/// A metric that has lost its leader cannot be read any more, on either driver. rust_pmu leaves nothing
/// in PERF_METRICS.
fn without_a_leader(ctx: &Ctx) -> Result<()> {
    metrics()?;
    let _affinity = Affinity::pinned_to(0)?;
    let msrs = Msrs::of_cpu(0)?;
    let in_tree = ctx.in_tree()?;
    for pmu in [&in_tree, &ctx.pmu()?] {
        for is_mapped in [false, true] {
            let mut group = open(pmu, &METRICS[..1], Mode::User)?;
            // While user mode may read counters, those that events leave are cleared.
            let _page = is_mapped.then(|| Page::map(&group[1])).transpose()?;
            group[0].enable()?;
            let mut metric = group.pop().context("no metric")?;
            drop(group);
            ensure!(metric.read().is_err(), "{}: it can be read", pmu.name);
            metric.enable()?;
            ensure!(metric.read().is_err(), "{}: it is enabled", pmu.name);
            if is_mapped && pmu.name != in_tree.name {
                let metrics = msrs.read(MSR_PERF_METRICS)?;
                expect("mapped", "in PERF_METRICS", metrics, 0)?;
            }
        }
    }
    Ok(())
}

/// The pages say how to read both registers, as those of the in-tree driver do, and what
/// is read that way is what has been counted since the last read.
fn rdpmc_of_metrics(ctx: &Ctx) -> Result<()> {
    let metrics = metrics()?;
    let workload = workload::whole_periods(250);
    for pmu in [ctx.in_tree()?, ctx.pmu()?] {
        let mut group = open(&pmu, metrics, Mode::User)?;
        let pages = group.iter().map(Page::map).collect::<Result<Vec<_>>>()?;
        group[0].enable()?;
        expect(
            &pmu.name,
            "as the index",
            pages[0].index()?.into(),
            RDPMC_SLOTS.into(),
        )?;
        for page in &pages[1..] {
            expect(
                &pmu.name,
                "as the index",
                page.index()?.into(),
                RDPMC_METRICS.into(),
            )?;
        }
        workload.run();
        // SAFETY: the pages have an index, so the kernel allows RDPMC.
        let (slots, fields) = unsafe { (rdpmc(RDPMC_SLOTS), rdpmc(RDPMC_METRICS)) };
        let (_, least) = truth(workload.instructions(), workload.branches());
        ensure!((least..2 * least).contains(&slots), "{}: {slots}", pmu.name);
        let sum: u64 = fields.to_le_bytes()[..LEVEL_1]
            .iter()
            .copied()
            .map(u64::from)
            .sum();
        expect(&pmu.name, "in level 1", sum, ALL)?;
        group[0].disable()?;
    }
    if !ctx.is_rust_pmu() {
        return Ok(());
    }
    // The count of slots stays right when another thread's read begins them anew.
    let mut group = open(&ctx.pmu()?, metrics, Mode::User)?;
    let page = Page::map(&group[0])?;
    group[0].enable()?;
    let mut last = 0;
    for _ in 0..20 {
        workload.run();
        let mapped = page.count() as u64;
        let read = group[0].read()?;
        ensure!(mapped > last && read >= mapped, "{last}, {mapped}, {read}");
        ensure!(read - mapped < 200_000, "mapped {mapped}, read {read}");
        last = read;
    }
    Ok(())
}

/// With `metrics_clear`, RDPMC of the metrics clears them and the slots, on either driver, and
/// what it reads each time is what has been counted since. In the end, nothing that user mode has
/// not read is lost.
fn rdpmc_that_clears_metrics(ctx: &Ctx) -> Result<()> {
    let metrics = metrics()?;
    if !clears_metrics(&ctx.in_tree()?) {
        ensure!(
            !clears_metrics(&ctx.pmu()?),
            "only rust_pmu has metrics_clear"
        );
        return skip("needs a CPU on which RDPMC can clear metrics");
    }
    let file = |pmu: &Pmu| fs::read_to_string(pmu.dir().join("format/metrics_clear"));
    let (ours, theirs) = (file(&ctx.pmu()?)?, file(&ctx.in_tree()?)?);
    ensure!(ours == theirs, "{ours:?}, in-tree {theirs:?}");
    let workload = workload::whole_periods(250);
    let (parts, slots) = truth(workload.instructions(), workload.branches());
    for pmu in [ctx.in_tree()?, ctx.pmu()?] {
        let (gained, left) = find_undisturbed(|| {
            let mut group = open_with(&pmu, metrics, Mode::User, |builder| {
                let attrs = builder.attrs_mut();
                if attrs.config == SLOTS {
                    attrs.__bindgen_anon_3.config1 = 1;
                }
            })?;
            let _pages = group.iter().map(Page::map).collect::<Result<Vec<_>>>()?;
            group[0].enable()?;
            let mut gained = Vec::new();
            let alone = undisturbed(|| {
                for _ in 0..3 {
                    workload.run();
                    // SAFETY: the events are mapped, so the kernel allows RDPMC.
                    let read = unsafe { (rdpmc(RDPMC_SLOTS), rdpmc(RDPMC_METRICS)) };
                    gained.push(read);
                }
                workload.run();
                Ok(())
            })?;
            group[0].disable()?;
            Ok(alone.then_some((gained, read_all(&mut group)?)))
        })?;
        println!("# {}: {gained:x?}, left {left:?}", pmu.name);
        for (read, fields) in &gained {
            ensure!(
                (slots..slots + 20_000).contains(read),
                "{}: {read} slots at a time, expected {slots}",
                pmu.name
            );
            let sum: u64 = fields.to_le_bytes()[..LEVEL_1]
                .iter()
                .copied()
                .map(u64::from)
                .sum();
            expect(&pmu.name, "in level 1", sum, ALL)?;
        }
        if pmu.name == ctx.pmu()?.name {
            ensure!(
                left[0].abs_diff(slots) <= 10_000
                    && left[1].abs_diff(parts[0]) <= slots / ALL + 10_000,
                "{left:?} left, expected {slots}"
            );
        }
    }
    Ok(())
}

/// RDPMC finds nothing of an event that is closed.
fn cleared_for_other_tasks(ctx: &Ctx) -> Result<()> {
    const ALWAYS: u32 = 2;
    let metrics = metrics()?;
    let file = ctx.in_tree()?.dir().join("rdpmc");
    let _setting = Setting::change(file, ALWAYS)?;
    let _pinned = Affinity::pinned_to(0)?;
    let pmu = ctx.pmu()?;
    let group = open(&pmu, metrics, Mode::User)?;
    // Keeps the counters in our hands.
    let _other = pmu.raw(BRANCHES).build()?;
    workload::whole_periods(250).measure(&group[0])?;
    drop(group);
    // SAFETY: with this setting the kernel allows RDPMC to all.
    let left = unsafe { (rdpmc(RDPMC_SLOTS), rdpmc(RDPMC_METRICS)) };
    ensure!(left == (0, 0), "{left:#x?} are left");
    Ok(())
}

/// GLOBAL_STATUS says that PERF_METRICS has overflowed, and another counter interrupts: the
/// handler clears the bit, and nothing is lost.
fn overflow_of_metrics(ctx: &Ctx) -> Result<()> {
    const GLOBAL_STATUS: u32 = 0x38e;
    const GLOBAL_STATUS_SET: u32 = 0x391;
    const OVF_PERF_METRICS: u64 = 1 << 48;
    const ROUNDS: u64 = 10;
    let metrics = metrics()?;
    let pmu = ctx.pmu()?;
    let _pinned = Affinity::pinned_to(0)?;
    let msrs = Msrs::of_cpu(0)?;
    let workload = workload::whole_periods(250);
    let mut group = open(&pmu, metrics, Mode::User)?;
    let mut sampled = pmu.raw(BRANCHES).sample_period(100_003).build()?;
    sampled.enable()?;
    group[0].enable()?;
    for _ in 0..ROUNDS {
        msrs.write(GLOBAL_STATUS_SET, OVF_PERF_METRICS)?;
        let status = msrs.read(GLOBAL_STATUS)?;
        ensure!(status & OVF_PERF_METRICS != 0, "{status:#x}");
        workload.run();
        let status = msrs.read(GLOBAL_STATUS)?;
        ensure!(status & OVF_PERF_METRICS == 0, "{status:#x} after a PMI");
    }
    group[0].disable()?;
    sampled.disable()?;
    let n = ROUNDS * workload.instructions();
    let branches = ROUNDS * workload.branches();
    let counts = read_all(&mut group)?;
    expect_near(
        "with overflows",
        &counts,
        truth(n, branches),
        ROUNDS * 4 * 10_000,
    )
}

/// Samples of another event of the group have the metrics: they are settled in an NMI.
fn read_by_samples(ctx: &Ctx) -> Result<()> {
    use super::sampling::{for_each_sample, RING};
    use perf_event::SampleFlag;
    const PERIOD: u64 = 50_021;
    let metrics = metrics()?;
    let pmu = ctx.pmu()?;
    let workload = workload::whole_periods(250);
    let mut group = open_read_at_once(&pmu, metrics, Mode::User)?;
    let mut builder = pmu.raw(INSTRUCTIONS);
    builder
        .sample_period(PERIOD)
        .enabled(true)
        .sample(SampleFlag::READ)
        .read_format(ReadFormat::GROUP | ReadFormat::ID);
    let mut samples = builder.build_with_group(&mut group[0])?.sampled(RING)?;
    workload.measure(&group[0])?;
    let mut k = 0;
    for_each_sample(&mut samples, |sample| {
        k += 1;
        let values = sample.values().context("no READ")?;
        let values: Vec<u64> = values.entries().map(|entry| entry.value()).collect();
        let what = format!("sample {k}");
        let (_, slots) = truth(k * PERIOD, k * PERIOD / 2);
        ensure!(
            values[0].abs_diff(slots) <= 2_000,
            "{what}: {} slots, expected {slots}",
            values[0]
        );
        expect_sum(&what, &values, values[0] / ALL)
    })?;
    expect("in total", "samples", k, workload.instructions() / PERIOD)?;
    let counts = read_group(&mut group)?;
    let expected = truth(workload.instructions(), workload.branches());
    expect_near("in the end", &counts, expected, 2_000)
}

/// The perf tool, unchanged, on a whole program.
fn perf_stat(ctx: &Ctx) -> Result<()> {
    let metrics = metrics()?;
    const NAMES: [&str; 9] = [
        "slots",
        "topdown-retiring",
        "topdown-bad-spec",
        "topdown-fe-bound",
        "topdown-be-bound",
        "topdown-heavy-ops",
        "topdown-br-mispredict",
        "topdown-fetch-lat",
        "topdown-mem-bound",
    ];
    let pmu = ctx.pmu()?;
    let names = &NAMES[..=metrics.len()];
    let events: Vec<_> = names
        .iter()
        .map(|event| format!("{}/{event}/u", pmu.name))
        .collect();
    let group = format!("{{{}}}", events.join(","));
    let program = LOOP.install()?;
    let perf = Perf::stat().args(["-e", &group]).args(["--"]);
    let rows = perf.args([program.path()]).rows()?;
    expect("perf stat", "rows", rows.len() as u64, names.len() as u64)?;
    let counts: Vec<u64> = rows.iter().map(|row| row.value as u64).collect();
    for (row, event) in rows.iter().zip(&events) {
        ensure!(row.event == *event, "{} instead of {event}", row.event);
        ensure!(row.running == 100.0, "{event} was multiplexed");
    }
    // One instruction in two is a branch.
    let expected = truth(LOOP.instructions, LOOP.instructions / 2);
    expect_near("perf stat", &counts, expected, expected.1 / 500)
}
