// SPDX-License-Identifier: GPL-2.0
//! PMIs that go astray, by the PMU's property `pmu-fault` (qemu/README.md): they
//! must cost no count, double no sample, and leave no NMI unknown. That last the
//! look at the kernel log finds, after the tests.
//!
//! A PMU belongs to one CPU and numbers its PMIs from reset on: the guests have
//! one CPU, and nothing else in them counts.

use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use perf_event::Sampler;

use super::sampling::{drain, record, sampler, Records, FLAGS, RING};
use super::{expect, expect_count, find_undisturbed, interrupts, undisturbed};
use crate::ctx::{Ctx, Test};
use crate::pmu::{BuilderExt, CpuPmu, Event, Mode, Pmu};
use crate::tests;
use crate::workload::{self, Workload};

/// With `lose:5`.
pub const LOSE: &[Test] = tests![
    all_but_every_fifth_arrive,
    a_lost_pmi_ends_sampling_till_the_next_start,
    a_lost_overflow_is_found_with_the_next,
];

/// With `delay:3:20000`.
pub const DELAY: &[Test] = tests![
    samples_are_late_and_all_there,
    a_late_pmi_whose_overflow_was_found,
    late_for_a_disabled_event,
];

/// With `delay:3:500000`.
pub const DELAY_LONG: &[Test] = tests![late_for_a_closed_event];

/// With `repeat:3:20000`.
pub const REPEAT: &[Test] = tests![
    a_repeated_pmi_is_no_sample,
    repeated_for_a_disabled_event,
    repeated_for_a_closed_event,
];

/// With `repeat:3:1`.
pub const REPEAT_AT_ONCE: &[Test] = tests![repeated_while_it_is_handled];

/// With `spurious:100003`.
pub const SPURIOUS: &[Test] = tests![spurious_pmis_while_counting, spurious_pmis_among_samples];

/// With `status:` and the bits of all counters.
pub const STATUS: &[Test] = tests![status_that_was_left_behind];

/// Which PMIs get lost.
const LOSE_EVERY: u64 = 5;
/// Which PMIs come late, and how many instructions.
const DELAY_EVERY: u64 = 3;
const LATE: u64 = 20_000;
/// The same where a PMI is to come after the event is closed.
const LATE_LONG: u64 = 500_000;
/// Which PMIs come twice. The second comes [`LATE`] later, or right away.
const REPEAT_EVERY: u64 = 3;
/// Instructions, in both modes, from one PMI that no counter asked for to the next.
const SPURIOUS_EVERY: u64 = 100_003;

/// A window with one overflow in its middle: its length beyond the period is more
/// than a PMI that is late takes, with its handling.
const ONE_PERIOD: u64 = 60_000;

fn one_overflow() -> Workload {
    workload::tight_loop(50_000)
}

/// A window that has its one overflow two instructions before its end, so that a PMI
/// that is late comes when the event is not enabled any more.
fn overflow_at_the_end(pmu: &Pmu) -> Result<(Sampler, Workload)> {
    let workload = one_overflow();
    let sampler = sampler(pmu, Event::Instructions, workload.instructions() - 2)?;
    Ok((sampler, workload))
}

/// What a run under a new sampling event of user instructions gives: samples, and NMIs,
/// the late ones too. The count must be right.
fn sample(pmu: &Pmu, period: u64, workload: &Workload) -> Result<(Records, u64)> {
    let mut sampler = sampler(pmu, Event::Instructions, period)?;
    let before = interrupts("NMI")?;
    let (records, count) = record(&mut sampler, workload)?;
    wait_for_late_pmis();
    let nmis = interrupts("NMI")? - before;
    expect_count(workload, count)?;
    Ok((records, nmis))
}

/// Longer than any PMI is late.
fn wait_for_late_pmis() {
    workload::tight_loop(2 * LATE).run();
}

/// Runs what has one overflow till `hit` says that something happened to its PMI: from
/// then on the number of a PMI is known. One in `every` is hit.
fn find_fault(every: u64, mut hit: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..every {
        if hit()? {
            return Ok(());
        }
    }
    bail!("of {every} PMIs none was hit: is this the guest for this test?")
}

/// Has the last PMI be one that was lost.
fn find_loss(pmu: &Pmu) -> Result<()> {
    find_fault(LOSE_EVERY, || {
        let (records, _) = sample(pmu, ONE_PERIOD, &one_overflow())?;
        Ok(records.samples.is_empty())
    })
}

fn all_but_every_fifth_arrive(ctx: &Ctx) -> Result<()> {
    const RUNS: u64 = 4 * LOSE_EVERY;
    let pmu = ctx.pmu()?;
    find_loss(&pmu)?;
    for run in 1..=RUNS {
        let arrives = u64::from(run % LOSE_EVERY != 0);
        let (records, nmis) = sample(&pmu, ONE_PERIOD, &one_overflow())?;
        records.expect(&format!("PMI {run}"), arrives)?;
        expect(&format!("PMI {run}"), "NMIs", nmis, arrives)?;
    }
    Ok(())
}

/// The counter has wrapped and will not again for long: nobody asks whether a PMI was
/// lost. Counting goes on, and sampling too, once the event is started again.
fn a_lost_pmi_ends_sampling_till_the_next_start(ctx: &Ctx) -> Result<()> {
    const RUNS: u64 = 3;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(40_000);
    let (count, runs) = find_undisturbed(|| {
        find_loss(&pmu)?;
        let mut sampler = sampler(&pmu, Event::Instructions, 4_001)?;
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let before = interrupts("NMI")?;
            if !undisturbed(|| workload.measure(&*sampler))? {
                return Ok(None);
            }
            let nmis = interrupts("NMI")? - before;
            runs.push((drain(&mut sampler)?.samples.len() as u64, nmis));
        }
        Ok(Some((sampler.read()?, runs)))
    })?;
    let want = RUNS * workload.instructions();
    expect(workload.name(), "instructions", count, want)?;
    for (samples, nmis) in runs {
        expect("till one is lost", "samples", samples, LOSE_EVERY - 1)?;
        expect("one a sample", "NMIs", nmis, LOSE_EVERY - 1)?;
    }
    Ok(())
}

/// A PMI is for whatever counter has overflowed.
fn a_lost_overflow_is_found_with_the_next(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(100_000);
    for periods in [[5_003, 3_501], [5_000, 5_000], [20_021, 3_001]] {
        let got = find_undisturbed(|| {
            find_loss(&pmu)?;
            Pair::record(&pmu, periods, &workload)
        })?;
        let want = Losses::of(periods, workload.instructions());
        got.expect(&format!("{periods:?}"), want.samples, want.nmis)?;
    }
    Ok(())
}

/// What two events of user instructions in a group give, with a period each.
struct Pair {
    samples: [u64; 2],
    nmis: u64,
}

impl Pair {
    /// The counts must be right. `None` if another task ran in between: an event that is
    /// started again begins a new period if the last has ended unnoticed.
    fn record(pmu: &Pmu, periods: [u64; 2], workload: &Workload) -> Result<Option<Self>> {
        let mut leader = sampler(pmu, Event::Instructions, periods[0])?;
        let mut member = pmu
            .event(Event::Instructions)
            .enabled(true)
            .sample_period(periods[1])
            .sample(FLAGS)
            .build_with_group(&mut *leader)?
            .sampled(RING)?;
        let before = interrupts("NMI")?;
        let undisturbed = undisturbed(|| workload.measure(&*leader))?;
        let nmis = interrupts("NMI")? - before;
        expect_count(workload, leader.read()?)?;
        expect_count(workload, member.read()?)?;
        let samples =
            [drain(&mut leader)?, drain(&mut member)?].map(|records| records.samples.len() as u64);
        Ok(undisturbed.then_some(Self { samples, nmis }))
    }

    fn expect(&self, what: &str, samples: [u64; 2], nmis: u64) -> Result<()> {
        expect(what, "samples of the leader", self.samples[0], samples[0])?;
        expect(what, "samples of the member", self.samples[1], samples[1])?;
        expect(what, "NMIs", self.nmis, nmis)
    }
}

/// What becomes of two events that count the same when every so many PMIs are lost,
/// counted from one that was.
#[derive(Default)]
struct Losses {
    samples: [u64; 2],
    nmis: u64,
}

impl Losses {
    fn of(periods: [u64; 2], total: u64) -> Self {
        let periods = periods.map(|period| period as i64);
        let mut losses = Self::default();
        let mut left = periods;
        let mut overflowed = [false; 2];
        let (mut now, mut pmi) = (0, 0);
        // To the next overflow, again and again.
        while let Some(step) = (0..2).filter(|&i| !overflowed[i]).map(|i| left[i]).min() {
            now += step as u64;
            if now > total {
                break;
            }
            for i in 0..2 {
                left[i] -= step;
                overflowed[i] |= left[i] == 0;
            }
            pmi += 1;
            if pmi % LOSE_EVERY == 0 {
                continue;
            }
            losses.nmis += 1;
            for i in (0..2).filter(|&i| overflowed[i]) {
                losses.samples[i] += 1;
                // What was counted since belongs to the next period, if it does not fill it.
                left[i] += periods[i];
                if left[i] <= 0 {
                    left[i] = periods[i];
                }
            }
            overflowed = [false; 2];
        }
        losses
    }
}

/// Has the last PMI be one that came late.
fn find_delay(pmu: &Pmu) -> Result<()> {
    find_fault(DELAY_EVERY, || {
        let (mut sampler, workload) = overflow_at_the_end(pmu)?;
        let (records, count) = record(&mut sampler, &workload)?;
        expect_count(&workload, count)?;
        wait_for_late_pmis();
        // An interrupt may have kept the event enabled till the PMI came, in the kernel.
        Ok(records.samples.iter().all(|sample| !is_user(sample.ip)))
    })
}

/// Whether an address that a sample of an event of user mode has is one.
fn is_user(ip: u64) -> bool {
    ip != 0 && ip >> 63 == 0
}

/// Each sample shows where its PMI came, and the overflows stay where they are due.
fn samples_are_late_and_all_there(ctx: &Ctx) -> Result<()> {
    const N: u64 = 200_000;
    const PERIOD: u64 = 100_003;
    let pmu = ctx.pmu()?;
    let workload = workload::block(N);
    let (records, nmis, interrupted) = find_undisturbed(|| {
        find_delay(&pmu)?;
        let mut sampler = sampler(&pmu, Event::Instructions, PERIOD)?;
        let before = [interrupts("NMI")?, other_interrupts()?];
        let undisturbed = undisturbed(|| workload.measure(&*sampler))?;
        let nmis = interrupts("NMI")? - before[0];
        let interrupted = other_interrupts()? - before[1];
        expect_count(&workload, sampler.read()?)?;
        let records = drain(&mut sampler)?;
        Ok(undisturbed.then_some((records, nmis, interrupted)))
    })?;

    let samples = workload.instructions() / PERIOD;
    records.expect("late", samples)?;
    expect("one a sample", "NMIs", nmis, samples)?;
    let mut early = 0;
    for (sample, k) in records.samples.iter().zip(1..) {
        let place = k * PERIOD;
        let late = if k % DELAY_EVERY == 0 { LATE } else { 0 };
        if workload::block_ip(N, place + late) != Some(sample.ip) {
            // What an interrupt takes while the PMI is late is not of the loop.
            ensure!(late > 0, "sample {k}: IP {:#x}", sample.ip);
            early += 1;
        }
    }
    ensure!(
        early <= interrupted,
        "{early} PMIs came at another place, with {interrupted} interrupts"
    );
    Ok(())
}

/// Interrupts but for NMIs, and what these ask for to be done behind them.
fn other_interrupts() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/interrupts")?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(label, _)| !["NMI", "PMI", "IWI"].contains(&label.trim()))
        .flat_map(|(_, row)| row.split_whitespace().map_while(|n| n.parse::<u64>().ok()))
        .sum())
}

/// While the first event's PMI is on its way, the second's brings both samples: the
/// late one finds nothing to do. It must not come at the same address as the one before,
/// for the kernel then takes it for the second of two causes that one NMI was for.
fn a_late_pmi_whose_overflow_was_found(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    let pmu = ctx.pmu()?;
    let workload = workload::block(19_000);
    for _ in 0..3 {
        // Of the overflows at 1, 1.05, 2 and 2.1 periods the third's PMI is late.
        let got = find_undisturbed(|| {
            find_delay(&pmu)?;
            Pair::record(&pmu, [PERIOD, PERIOD + 5_000], &workload)
        })?;
        got.expect("four overflows", [2, 2], 4)?;
    }
    Ok(())
}

fn late_for_a_disabled_event(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for _ in 0..3 {
        let samples = find_undisturbed(|| {
            find_delay(&pmu)?;
            let mut interrupted = 0;
            let mut samples = Vec::new();
            for _ in 0..DELAY_EVERY {
                let (mut sampler, workload) = overflow_at_the_end(&pmu)?;
                let before = [interrupts("NMI")?, other_interrupts()?];
                let (records, count) = record(&mut sampler, &workload)?;
                interrupted += other_interrupts()? - before[1];
                wait_for_late_pmis();
                expect("late or not", "NMIs", interrupts("NMI")? - before[0], 1)?;
                expect_count(&workload, count)?;
                drain(&mut sampler)?.expect("a disabled event", 0)?;
                samples.push(records.samples.len());
            }
            Ok((interrupted == 0).then_some(samples))
        })?;
        ensure!(samples == [1, 1, 0], "samples of three PMIs: {samples:?}");
    }
    Ok(())
}

/// When the PMI comes there is no event at all, and the counters are given back.
fn late_for_a_closed_event(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    find_undisturbed(|| {
        let mut behind = Vec::new();
        for _ in 0..DELAY_EVERY {
            let before = interrupts("NMI")?;
            close_after_overflow(&pmu)?;
            let closed = interrupts("NMI")?;
            workload::tight_loop(LATE_LONG).run();
            let after = interrupts("NMI")?;
            expect("late or not", "NMIs", after - before, 1)?;
            behind.push(after - closed);
        }
        // With interrupts in between it may have come before.
        ensure!(behind.iter().sum::<u64>() <= 1, "late: {behind:?}");
        Ok(behind.contains(&1).then_some(()))
    })
}

/// Has an event overflow, and closes it.
fn close_after_overflow(pmu: &Pmu) -> Result<()> {
    let workload = one_overflow();
    let event = pmu
        .event(Event::Instructions)
        .sample_period(workload.instructions() - 2)
        .build()?;
    workload.measure(&event)
}

/// Samples a loop with a number of overflows that `REPEAT_EVERY` divides, so that it
/// does not matter where the count of PMIs stands; every sample must be in its place.
/// Returns the number of samples and of NMIs.
fn samples_without_skid(pmu: &Pmu, period: u64) -> Result<(u64, u64)> {
    const N: u64 = 200_000;
    let workload = workload::block(N);
    let (records, nmis) = sample(pmu, period, &workload)?;
    let samples = workload.instructions() / period;
    records.expect(&format!("period {period}"), samples)?;
    for (sample, k) in records.samples.iter().zip(1..) {
        let want = workload::block_ip(N, k * period).context("a sample behind the loop")?;
        ensure!(sample.ip == want, "sample {k}: IP {:#x}", sample.ip);
    }
    Ok((samples, nmis))
}

fn a_repeated_pmi_is_no_sample(ctx: &Ctx) -> Result<()> {
    let (samples, nmis) = samples_without_skid(&ctx.pmu()?, 99_991)?;
    expect("samples", "in all", samples % REPEAT_EVERY, 0)?;
    let want = samples + samples / REPEAT_EVERY;
    expect("repeated", "NMIs", nmis, want)
}

fn repeated_for_a_disabled_event(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let before = interrupts("NMI")?;
    for _ in 0..REPEAT_EVERY {
        let (mut sampler, workload) = overflow_at_the_end(&pmu)?;
        let (records, count) = record(&mut sampler, &workload)?;
        wait_for_late_pmis();
        expect_count(&workload, count)?;
        records.expect("repeated", 1)?;
        drain(&mut sampler)?.expect("a disabled event", 0)?;
    }
    let nmis = interrupts("NMI")? - before;
    expect("repeated", "NMIs", nmis, REPEAT_EVERY + 1)
}

fn repeated_for_a_closed_event(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let before = interrupts("NMI")?;
    for _ in 0..REPEAT_EVERY {
        close_after_overflow(&pmu)?;
        wait_for_late_pmis();
    }
    let nmis = interrupts("NMI")? - before;
    expect("repeated", "NMIs", nmis, REPEAT_EVERY + 1)
}

/// Intel's LVTPC is masked by then, and the second goes nowhere. AMD's is not: the second
/// NMI comes as soon as the first has been handled.
fn repeated_while_it_is_handled(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let masks_lvtpc = CpuPmu::probe().version > 0;
    for period in [99_991, 9_001] {
        let (samples, nmis) = samples_without_skid(&pmu, period)?;
        expect("samples", "in all", samples % REPEAT_EVERY, 0)?;
        let again = if masks_lvtpc {
            0
        } else {
            samples / REPEAT_EVERY
        };
        expect("repeated", "NMIs", nmis, samples + again)?;
    }
    Ok(())
}

/// How many PMIs come for nothing while an event counts so many instructions. It depends on
/// where the last window ended; and without global control, as events are switched one by
/// one, there are some instructions that only another event counts.
fn spurious(counted: u64) -> RangeInclusive<u64> {
    counted / SPURIOUS_EVERY..=counted / SPURIOUS_EVERY + 2
}

fn spurious_pmis_while_counting(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for workload in [workload::tight_loop(5_000_000), workload::syscalls(20_000)] {
        let events = [Mode::User, Mode::Both].map(|mode| (Event::Instructions, mode));
        let mut group = pmu.open_group(&events)?;
        let before = interrupts("NMI")?;
        workload.measure(&group[0])?;
        let nmis = interrupts("NMI")? - before;
        expect_count(&workload, group[0].read()?)?;
        let counted = group[1].read()?;
        ensure!(
            spurious(counted).contains(&nmis),
            "{}: {nmis} NMIs with {counted} instructions",
            workload.name()
        );
    }
    Ok(())
}

fn spurious_pmis_among_samples(ctx: &Ctx) -> Result<()> {
    const N: u64 = 200_000;
    let pmu = ctx.pmu()?;
    let workload = workload::block(N);
    for period in [1_009, 65_537] {
        let mut sampler = sampler(&pmu, Event::Instructions, period)?;
        let mut builder = pmu.event(Event::Instructions);
        let mut all = builder
            .filter(Mode::Both)
            .enabled(true)
            .build_with_group(&mut *sampler)?;
        let before = interrupts("NMI")?;
        let (records, count) = record(&mut sampler, &workload)?;
        let nmis = interrupts("NMI")? - before;
        expect_count(&workload, count)?;
        records.expect(&format!("period {period}"), count / period)?;
        for (sample, k) in records.samples.iter().zip(1..) {
            let want = workload::block_ip(N, k * period).context("a sample behind the loop")?;
            ensure!(sample.ip == want, "sample {k}: IP {:#x}", sample.ip);
        }
        // One that comes while another is handled may be for both.
        let (samples, most) = (count / period, *spurious(all.read()?).end());
        ensure!(
            (samples..=samples + most).contains(&nmis),
            "{nmis} NMIs for {samples} samples and at most {most} spurious PMIs"
        );
    }
    Ok(())
}

/// GLOBAL_STATUS, Intel's and AMD's (SDM vol. 4, APM vol. 2).
fn global_status() -> Result<u64> {
    let msr = if CpuPmu::probe().version > 0 {
        0x38e
    } else {
        0xc000_0300
    };
    let mut value = [0; 8];
    File::open("/dev/cpu/0/msr")
        .context("/dev/cpu/0/msr")?
        .read_exact_at(&mut value, msr)
        .with_context(|| format!("RDMSR {msr:#x}"))?;
    Ok(u64::from_le_bytes(value))
}

/// Bits of counters that nobody uses are no overflows of events that then use them.
fn status_that_was_left_behind(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let status = Command::new("modprobe").arg("msr").status()?;
    ensure!(status.success(), "modprobe msr: {status}");
    let left_behind = global_status()?;
    ensure!(left_behind & 0b11 == 0b11, "status is {left_behind:#x}");

    let workload = workload::tight_loop(500_000);
    let mut leader = sampler(&pmu, Event::Instructions, PERIOD)?;
    let mut members = Vec::new();
    for _ in 1..left_behind.count_ones() {
        let mut builder = pmu.event(Event::Instructions);
        builder.enabled(true).sample_period(1 << 30).sample(FLAGS);
        // The fixed counters of other events stay free.
        match builder.build_with_group(&mut *leader) {
            Ok(member) => members.push(member.sampled(RING)?),
            Err(_) => break,
        }
    }
    ensure!(!members.is_empty(), "one event only");
    let before = interrupts("NMI")?;
    let (records, count) = record(&mut leader, &workload)?;
    let nmis = interrupts("NMI")? - before;
    expect_count(&workload, count)?;
    records.expect("period", count / PERIOD)?;
    expect("one a sample", "NMIs", nmis, count / PERIOD)?;
    for member in &mut members {
        expect_count(&workload, member.read()?)?;
        drain(member)?.expect("no period has ended", 0)?;
    }
    let cleared = global_status()?;
    ensure!(cleared == 0, "status is {cleared:#x} behind it");
    Ok(())
}
