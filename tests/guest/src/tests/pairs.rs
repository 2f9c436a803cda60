// SPDX-License-Identifier: GPL-2.0
//! AMD's floating-point operations (FLOPs), event 003H from family 17H on, of which more can
//! retire in a cycle than one counter adds. The event takes an even counter and the next one.
//!
//! The emulated PMU counts seven FLOPs for each instruction and each bit of the unit mask. From
//! three bits on, a counter that is not one of a pair counts 15 for an instruction. A pair has
//! 64 bits, so that an overflow is missing if the upper ones are not right, or if the second
//! counter is still programmed when the pair is gone.

use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use fastrand::Rng;
use perf_event::{Builder, Counter};

use super::compare::case::eventsel::EDGE;
use super::compare::report::{name, Report};
use super::sampling::{drain, open, record, FLAGS, RING};
use super::user_read::{rdpmc, Page};
use super::{cpus, expect, has_run, repeat};
use crate::ctx::{Ctx, Test};
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::{BuilderExt, CpuPmu, Event, Mode, Pmu};
use crate::setting::Affinity;
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [EmulatedPmu, LargeIncrements];
    every_unit_mask: [General(2)],
    counts_of_both_drivers: [InTree, General(2)],
    every_pair,
    groups_of_both_drivers: [InTree, General(3)],
    single_events_make_room: [General(4)],
    multiplexed: [General(2)],
    multiplexed_groups: [General(3)],
    samples: [General(2)],
    samples_of_every_pair: [General(2)],
    tasks_and_cpus: [General(6)],
    kernel_mode: [GlobalControl, General(3)],
    registers: [Root, Msrs, General(2)],
    counters_afterwards: [General(2)],
    user_mode_reads: [InTree, General(2)],
];

/// All bits of the unit mask.
const ALL: u8 = 0xff;

/// FLOPs with this unit mask.
const fn flops(umask: u8) -> u64 {
    ((umask as u64) << 8) | 0x03
}

/// The FLOPs of an instruction with this unit mask.
const fn per_instruction(umask: u8) -> u64 {
    7 * umask.count_ones() as u64
}

fn open_flops(pmu: &Pmu, umask: u8) -> Result<Counter> {
    let counter = pmu.raw(flops(umask)).build();
    counter.with_context(|| format!("open FLOPs with unit mask {umask:#x} of {}", pmu.name))
}

fn expect_flops(workload: &Workload, umask: u8, count: u64) -> Result<()> {
    let want = workload.instructions() * per_instruction(umask);
    expect(workload.name(), &format!("FLOPs ({umask:#x})"), count, want)
}

/// Adds an event to a group. Returns 0, or the errno if it is refused.
fn add(group: &mut Vec<Counter>, builder: &mut Builder) -> Result<i32> {
    let counter = match group.first_mut() {
        None => builder.build(),
        // A disabled member needs no counter.
        Some(leader) => builder.enabled(true).build_with_group(leader),
    };
    match counter {
        Ok(counter) => group.push(counter),
        Err(error) => return error.raw_os_error().context("no errno"),
    }
    Ok(0)
}

/// The number of pairs.
fn pairs() -> usize {
    CpuPmu::probe().general as usize / 2
}

/// Each unit mask of the event of floating-point operations counts exactly on a pair of counters.
fn every_unit_mask(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::branches(1_000);
    for umask in 0..=ALL {
        let mut event = open_flops(&pmu, umask)?;
        workload.measure(&event)?;
        expect_flops(&workload, umask, event.read()?)?;
    }
    Ok(())
}

/// Both drivers count the same, also with CMASK and EDGE.
fn counts_of_both_drivers(ctx: &Ctx) -> Result<()> {
    let workload = workload::branches(1_000);
    let cmask = |n: u64| n << 24;
    let modifiers = [0, EDGE, cmask(15), cmask(16), cmask(56), cmask(57)];
    let configs = || (0..=ALL).flat_map(|umask| modifiers.map(|bits| flops(umask) | bits));
    let counts = |pmu: &Pmu| -> Result<Vec<u64>> {
        let count = |config| {
            let mut event = pmu.raw(config).build()?;
            workload.measure(&event)?;
            Ok(event.read()?)
        };
        // So that the driver does not reserve the counters for each event anew.
        let _holder = pmu.event(Event::Instructions).build()?;
        configs().map(count).collect()
    };
    let (theirs, ours) = (counts(&ctx.in_tree()?)?, counts(&ctx.pmu()?)?);
    let mut report = Report::new(ctx);
    for ((config, ours), theirs) in configs().zip(&ours).zip(&theirs) {
        report.called(0);
        if ours != theirs {
            report.wrong(format!("{config:#x}: {ours}, in-tree {theirs}"));
        }
    }
    ensure!(ours.iter().any(|count| *count > 0), "nothing was counted");
    report.finish()
}

/// As many as fit, in one group. With one more the group is too large; if no pair fits, the
/// event is refused.
fn every_pair(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::branches(100_000);
    let umask = |i| [ALL, 0x07, 0x7f, 0x01][i % 4];
    let mut group = Vec::new();
    for i in 0..pairs() {
        let errno = add(&mut group, &mut pmu.raw(flops(umask(i))))?;
        ensure!(errno == 0, "pair {i}: {}", name(errno));
    }
    let errno = add(&mut group, &mut pmu.raw(flops(ALL)))?;
    ensure!(errno == libc::EINVAL, "one more: {}", name(errno));
    let Some(leader) = group.first() else {
        return Ok(());
    };
    workload.measure(leader)?;
    for (i, event) in group.iter_mut().enumerate() {
        expect_flops(&workload, umask(i), event.read()?)?;
    }
    Ok(())
}

/// Groups of FLOPs and branches fit on both drivers, or on neither, and count exactly.
fn groups_of_both_drivers(ctx: &Ctx) -> Result<()> {
    const GROUPS: usize = 100;
    let general = CpuPmu::probe().general as usize;
    let workload = workload::branches(1_000);
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    // Whether each event is FLOPs.
    let groups: Vec<Vec<bool>> = (0..GROUPS)
        .map(|_| {
            (0..rng.usize(1..=general + 1))
                .map(|_| rng.bool())
                .collect()
        })
        .collect();
    let mut report = Report::new(ctx);
    let mut refused = 0;
    for pmu in [ctx.in_tree()?, ctx.pmu()?] {
        let _holder = pmu.event(Event::Instructions).build()?;
        for events in &groups {
            let mut free = general;
            let mut group = Vec::new();
            let mut of_group = Vec::new();
            for is_flops in events.iter().copied() {
                let mut builder = match is_flops {
                    true => pmu.raw(flops(ALL)),
                    false => pmu.event(Event::Branches),
                };
                let errno = add(&mut group, &mut builder)?;
                report.called(errno);
                let pairs = of_group.iter().filter(|is_flops| **is_flops).count();
                let fits = match is_flops {
                    true => free >= 2 && pairs < general / 2,
                    false => free >= 1,
                };
                let expected = if fits { 0 } else { libc::EINVAL };
                if errno != expected {
                    let errno = name(errno);
                    report.wrong(format!("{}: {events:?}: {errno}", pmu.name));
                }
                if errno == 0 {
                    free = free.saturating_sub(1 + usize::from(is_flops));
                    of_group.push(is_flops);
                }
                refused += usize::from(!fits);
            }
            workload.measure(&group[0])?;
            for (event, is_flops) in group.iter_mut().zip(&of_group) {
                let want = match is_flops {
                    true => workload.instructions() * per_instruction(ALL),
                    false => workload.branches(),
                };
                let count = event.read()?;
                if count != want {
                    let what = format!("{}: {of_group:?}", pmu.name);
                    report.wrong(format!("{what}: FLOPs {is_flops}: {count}, not {want}"));
                }
            }
        }
    }
    println!("# {refused} events did not fit");
    ensure!(refused > 0, "every group fits");
    report.finish()
}

/// There are enough counters for a pair, but an event is on one of each. The single events are
/// pinned: perf takes the others off and adds them again when it adds one.
fn single_events_make_room(ctx: &Ctx) -> Result<()> {
    const N: u64 = 1_000_000;
    let pmu = ctx.pmu()?;
    let general = CpuPmu::probe().general as usize;
    let workload = workload::tight_loop(N);
    let mut events = Vec::new();
    for _ in 0..general {
        let mut builder = pmu.event(Event::Branches);
        let mut event = builder.filter(Mode::User).pinned(true).build()?;
        event.enable()?;
        events.push(event);
    }
    // Of the first two the first one stays, of the others the second one.
    let stays = |i: usize| i == 0 || i > 1 && i % 2 == 1;
    let mut i = 0..;
    events.retain(|_| i.next().is_some_and(stays));
    workload.run();
    let mut pair = open_flops(&pmu, ALL)?;
    workload.measure(&pair)?;
    expect_flops(&workload, ALL, pair.read()?)?;
    for event in &mut events {
        event.disable()?;
        let data = event.read_full()?;
        ensure!(
            data.time_running() == data.time_enabled(),
            "a single event was multiplexed"
        );
        // The excess is what runs between the ioctls.
        let (count, least) = (data.count(), 2 * N);
        let good = (least..least + 200_000).contains(&count);
        ensure!(good, "{count} branches, {least} of them in the loops");
    }
    Ok(())
}

/// Whether an event was multiplexed. It is an error if it never ran.
fn is_multiplexed(event: &mut Counter) -> Result<bool> {
    let data = event.read_full()?;
    let enabled = data.time_enabled().context("no time_enabled")?;
    let running = data.time_running().context("no time_running")?;
    ensure!(running > Duration::ZERO, "an event never ran");
    Ok(running.as_secs_f64() < 0.99 * enabled.as_secs_f64())
}

/// One pair more than there are counters. All but one count at any time.
fn multiplexed(ctx: &Ctx) -> Result<()> {
    const N: u64 = 50_000_000;
    let pmu = ctx.pmu()?;
    let mut events = Vec::new();
    for _ in 0..=pairs() {
        events.push(open_flops(&pmu, ALL)?);
    }
    for event in &mut events {
        event.enable()?;
    }
    let rounds = repeat("the turn of the last pair", || {
        workload::tight_loop(N).run();
        has_run(events.last_mut().context("no event")?)
    })?;
    for event in &mut events {
        event.disable()?;
    }
    let (mut sum, mut multiplexed) = (0, false);
    for event in &mut events {
        multiplexed |= is_multiplexed(event)?;
        sum += event.read()?;
    }
    ensure!(multiplexed, "none was multiplexed");
    let at_once = pairs() as u64;
    let least = at_once * rounds * (2 * N + 1) * per_instruction(ALL);
    // The excess is what runs between the ioctls, and between the rounds.
    let between = events.len() as u64 + rounds * at_once;
    let most = least + between * 20_000 * per_instruction(ALL);
    ensure!(
        (least..=most).contains(&sum),
        "{sum} FLOPs in total, {least} of them in the loop"
    );
    Ok(())
}

/// Instructions and FLOPs, in a group.
fn instructions_and_flops(pmu: &Pmu, build: impl Fn(&mut Builder)) -> Result<[Counter; 2]> {
    let mut leader = pmu.event(Event::Instructions);
    build(&mut leader);
    let mut leader = leader.build().context("open instructions")?;
    let mut flops = pmu.raw(flops(ALL));
    build(&mut flops);
    let flops = flops.enabled(true).build_with_group(&mut leader);
    Ok([leader, flops.context("open FLOPs")?])
}

/// The FLOPs are those of the instructions, of which there must be this many.
fn expect_flops_of(what: &str, group: &mut [Counter; 2], least: u64) -> Result<()> {
    let [leader, flops] = group;
    let (instructions, flops) = (leader.read()?, flops.read()?);
    ensure!(
        instructions >= least,
        "{what}: {instructions} instructions, {least} of them in the loop"
    );
    expect(what, "FLOPs", flops, instructions * per_instruction(ALL))
}

/// The events of a group count at the same time, however it is multiplexed, and whatever the
/// other groups have on the counters before and afterwards.
fn multiplexed_groups(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let general = CpuPmu::probe().general as usize;
    let mut groups = Vec::new();
    for _ in 0..=general / 3 {
        groups.push(instructions_and_flops(&pmu, |_| ())?);
    }
    let mut single = pmu.open(Event::Branches, Mode::User)?;
    for [leader, _] in &mut groups {
        leader.enable()?;
    }
    single.enable()?;
    repeat("the turn of the single event", || {
        workload::tight_loop(50_000_000).run();
        has_run(&mut single)
    })?;
    for [leader, _] in &mut groups {
        leader.disable()?;
    }
    single.disable()?;
    let mut multiplexed = false;
    for group in &mut groups {
        multiplexed |= is_multiplexed(&mut group[0])?;
        expect_flops_of("a group", group, 1)?;
    }
    is_multiplexed(&mut single)?;
    ensure!(multiplexed, "none was multiplexed");
    Ok(())
}

/// The k-th sample is due at the end of the instruction in which k periods are reached.
fn samples(ctx: &Ctx) -> Result<()> {
    const N: u64 = 100_000;
    let pmu = ctx.pmu()?;
    let workload = workload::block(N);
    for umask in [0x01, 0x07, ALL] {
        for period in [7 * 1_009, 56_000, 100_003] {
            let mut builder = pmu.raw(flops(umask));
            let mut sampler = open(builder.sample_period(period))?;
            let (records, count) = record(&mut sampler, &workload)?;
            expect_flops(&workload, umask, count)?;
            records.expect(&format!("{umask:#x}, period {period}"), count / period)?;
            for (sample, k) in records.samples.iter().zip(1..) {
                let retired = (k * period).div_ceil(per_instruction(umask));
                let Some(want) = workload::block_ip(N, retired) else {
                    continue;
                };
                ensure!(
                    sample.ip == want,
                    "sample {k} of period {period}: IP {:#x}, expected {want:#x}",
                    sample.ip
                );
            }
        }
    }
    Ok(())
}

/// Events on all pairs of counters sample at once, and each has all its samples.
fn samples_of_every_pair(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000_000);
    let period = |i: usize| 56_000 + 1_003 * i as u64;
    let mut leader = open(pmu.raw(flops(ALL)).sample_period(period(0)))?;
    let mut members = Vec::new();
    for i in 1..pairs() {
        let mut builder = pmu.raw(flops(ALL));
        builder.sample_period(period(i)).enabled(true).sample(FLAGS);
        members.push(builder.build_with_group(&mut *leader)?.sampled(RING)?);
    }
    let (records, count) = record(&mut leader, &workload)?;
    expect_flops(&workload, ALL, count)?;
    records.expect("the leader", count / period(0))?;
    for (i, member) in (1..).zip(&mut members) {
        let count = member.read()?;
        expect_flops(&workload, ALL, count)?;
        drain(member)?.expect(&format!("member {i}"), count / period(i))?;
    }
    Ok(())
}

/// Events of a task that sleeps and moves, and of the CPU that it runs on meanwhile.
fn tasks_and_cpus(ctx: &Ctx) -> Result<()> {
    const N: u64 = 100_000;
    const ROUNDS: u64 = 50;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(N);
    let mut task = instructions_and_flops(&pmu, |_| ())?;
    let mut cpu = instructions_and_flops(&pmu, |builder| {
        builder.any_pid().one_cpu(0);
    })?;
    let cpus = cpus()?;
    let affinity = Affinity::pinned_to(0)?;
    task[0].enable()?;
    cpu[0].enable()?;
    for round in 0..ROUNDS {
        workload.run();
        thread::sleep(Duration::from_millis(1));
        affinity.pin(round as usize % cpus)?;
        workload.run();
        affinity.pin(0)?;
    }
    cpu[0].disable()?;
    task[0].disable()?;
    let loops = 2 * N * ROUNDS;
    expect_flops_of("the task", &mut task, 2 * loops)?;
    expect_flops_of("the CPU", &mut cpu, loops)
}

/// One write starts and stops both events of the group, in the kernel as well.
fn kernel_mode(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for mode in [Mode::Kernel, Mode::Both] {
        let mut group = instructions_and_flops(&pmu, |builder| {
            builder.filter(mode);
        })?;
        workload::syscalls(10_000).measure(&group[0])?;
        expect_flops_of(&format!("{mode:?}"), &mut group, 100_000)?;
    }
    Ok(())
}

/// The second counter has the merge event while there is a pair, and nothing afterwards.
fn registers(ctx: &Ctx) -> Result<()> {
    const CPU: usize = 0;
    const EN: u64 = 1 << 22;
    const EVENT: u64 = (0xf << 32) | 0xff;
    let pmu = ctx.pmu()?;
    let msrs = Msrs::of_cpu(CPU)?;
    let PmuMsrs {
        eventsels,
        global_ctrl,
        ..
    } = PmuMsrs::of_this_cpu();
    let on_cpu = |config: u64| {
        let mut builder = pmu.raw(config);
        builder.any_pid().one_cpu(CPU).pinned(true).enabled(true);
        builder.build()
    };
    let read = |addresses: &[u32]| -> Result<Vec<u64>> {
        addresses.iter().map(|msr| msrs.read(*msr)).collect()
    };
    let _single = match CpuPmu::probe().general {
        2 => None,
        _ => Some(on_cpu(pmu.config(Event::Branches))?),
    };
    for _ in 0..3 {
        let pair = on_cpu(flops(ALL))?;
        let programmed = read(&eventsels)?;
        let is_flops = |value: &u64| value & (EVENT | EN) == 0x03 | EN;
        let first = programmed.iter().position(is_flops);
        let first = first.with_context(|| format!("no FLOPs in {programmed:#x?}"))?;
        ensure!(first % 2 == 0, "FLOPs on counter {first}");
        let second = first + 1;
        let expected = EVENT | EN;
        ensure!(
            programmed.get(second) == Some(&expected),
            "{programmed:#x?}, expected {expected:#x} at {second}"
        );
        if let Some(msr) = global_ctrl {
            let enabled = msrs.read(msr)?;
            ensure!((enabled >> first) & 3 == 3, "enabled: {enabled:#x}");
        }
        drop(pair);
        let left = read(&eventsels)?;
        ensure!(left[second] == 0, "{left:#x?}, expected 0 at {second}");
    }
    Ok(())
}

/// After pairs were on all counters, other events count and overflow there as ever.
fn counters_afterwards(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(100_000);
    // So that the driver keeps the counters.
    let _holder = pmu.event(Event::Instructions).build()?;
    let mut pairs_of_all = Vec::new();
    for _ in 0..pairs() {
        let mut event = open_flops(&pmu, ALL)?;
        event.enable()?;
        pairs_of_all.push(event);
    }
    workload.run();
    drop(pairs_of_all);

    let sampled = || {
        let mut builder = pmu.event(Event::Instructions);
        builder.sample_period(PERIOD).sample(FLAGS);
        builder
    };
    let mut leader = sampled().build()?.sampled(RING)?;
    let mut members = Vec::new();
    for _ in 1..CpuPmu::probe().general {
        let mut builder = sampled();
        let member = builder.enabled(true).build_with_group(&mut *leader)?;
        members.push(member.sampled(RING)?);
    }
    let (records, count) = record(&mut leader, &workload)?;
    expect("leader", "instructions", count, workload.instructions())?;
    records.expect("leader", count / PERIOD)?;
    for member in &mut members {
        let count = member.read()?;
        expect("member", "instructions", count, workload.instructions())?;
        drain(member)?.expect("member", count / PERIOD)?;
    }
    Ok(())
}

/// RDPMC of the counter that the page names. When the event is gone, both counters are empty.
fn user_mode_reads(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let _affinity = Affinity::pinned_to(0)?;
    // It has the permission for RDPMC until the end.
    let single = pmu.open(Event::Branches, Mode::User)?;
    let _permission = Page::map(&single)?;
    let mut event = open_flops(&pmu, ALL)?;
    let page = Page::map(&event)?;
    event.enable()?;
    let index = page.index()?;
    ensure!(index % 2 == 0, "index {index}");
    for n in [1, 1_000, 100_000] {
        let code = workload::tight_loop(n);
        let (delta, instructions) = code.rdpmc_delta(index);
        ensure!(page.index()? == index, "the event moved");
        expect(
            code.name(),
            "FLOPs",
            delta,
            instructions * per_instruction(ALL),
        )?;
    }
    event.disable()?;
    let count = event.read()?;
    expect("the page", "FLOPs", page.count() as u64, count)?;
    drop((page, event));
    if ctx.is_rust_pmu() {
        for counter in [index, index + 1] {
            // SAFETY: the counter exists, and the mapped page of an event has set CR4.PCE.
            let left = unsafe { rdpmc(counter) };
            ensure!(left == 0, "counter {counter} has {left:#x}");
        }
    }
    Ok(())
}
