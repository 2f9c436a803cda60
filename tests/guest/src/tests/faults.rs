// SPDX-License-Identifier: GPL-2.0
//! Lost, late, repeated and spurious PMIs, injected by the CPU property
//! `pmu-fault` (qemu/README.md). Counts stay exact, no sample is duplicated, and no
//! NMI is unknown. The check of the kernel log after the tests would find an
//! unknown NMI.
//!
//! The PMU of each CPU numbers its PMIs from RESET on. So that the tests can
//! predict which PMI is hit, the guests have one CPU and run no other events.

use std::ops::RangeInclusive;

use anyhow::{bail, ensure, Context, Result};
use perf_event::Sampler;
use suites::{Defect, PmiFault};

use super::sampling::{drain, record, sampler, Records, FLAGS, RING};
use super::{expect, expect_count, find_undisturbed, interrupts, undisturbed};
use crate::ctx::{Ctx, Test};
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::{BuilderExt, CpuPmu, Event, Mode, Pmu};
use crate::tests;
use crate::workload::{self, Workload};

/// For a guest with `Fault::lose`.
pub const LOSE: &[Test] = tests![
    all need [EmulatedPmu];
    all_but_every_fifth_arrive,
    a_lost_pmi_ends_sampling_till_the_next_start,
    a_lost_overflow_is_found_with_the_next,
];

/// For a guest with `Fault::delay`.
pub const DELAY: &[Test] = tests![
    all need [EmulatedPmu];
    samples_are_late_and_all_there,
    a_late_pmi_whose_overflow_was_found: [NoChecks],
    late_for_a_disabled_event,
];

/// For a guest with a `Fault::delay` that outlasts the closing of an event.
pub const DELAY_LONG: &[Test] = tests![
    all need [EmulatedPmu];
    late_for_a_closed_event: [NoChecks],
];

/// For a guest with `Fault::repeat`.
pub const REPEAT: &[Test] = tests![
    all need [EmulatedPmu];
    a_repeated_pmi_is_no_sample: [NoChecks],
    repeated_for_a_disabled_event,
    repeated_for_a_closed_event,
];

/// For a guest with a `Fault::repeat` by one instruction.
pub const REPEAT_AT_ONCE: &[Test] = tests![
    all need [EmulatedPmu];
    repeated_while_it_is_handled,
];

/// For a guest with `Fault::spurious`.
pub const SPURIOUS: &[Test] = tests![
    all need [EmulatedPmu];
    spurious_pmis_while_counting,
    spurious_pmis_among_samples,
];

/// For a guest with a `Fault::status` of all counters.
pub const STATUS: &[Test] = tests![
    all need [EmulatedPmu];
    status_that_was_left_behind: [Root, Msrs],
];

/// What is wrong with the guest's PMU.
pub(super) fn defect(ctx: &Ctx) -> Option<Defect> {
    ctx.suite.fault.map(|fault| fault.defect)
}

/// Which PMIs the guest's PMU loses: every so many.
fn lose_every(ctx: &Ctx) -> Result<u64> {
    match defect(ctx) {
        Some(Defect::Pmi {
            every,
            fault: PmiFault::Lose,
        }) => Ok(every.get()),
        other => bail!("this test needs a PMU that loses PMIs, not {other:?}"),
    }
}

/// The late PMIs: which, and by how many instructions.
#[derive(Clone, Copy)]
pub(super) struct Delay {
    pub(super) every: u64,
    pub(super) late: u64,
}

impl Delay {
    pub(super) fn of(ctx: &Ctx) -> Result<Self> {
        match defect(ctx) {
            Some(Defect::Pmi {
                every,
                fault: PmiFault::Delay(late),
            }) => Ok(Self {
                every: every.get(),
                late,
            }),
            other => bail!("this test needs a PMU with late PMIs, not {other:?}"),
        }
    }
}

/// Which PMIs come twice: every so many.
fn repeat_every(ctx: &Ctx) -> Result<u64> {
    match defect(ctx) {
        Some(Defect::Pmi {
            every,
            fault: PmiFault::Repeat(_),
        }) => Ok(every.get()),
        other => bail!("this test needs a PMU that repeats PMIs, not {other:?}"),
    }
}

/// Instructions, of user and kernel mode, between two spurious PMIs.
fn spurious_every(ctx: &Ctx) -> Result<u64> {
    match defect(ctx) {
        Some(Defect::Spurious(instructions)) => Ok(instructions.get()),
        other => bail!("this test needs a PMU with spurious PMIs, not {other:?}"),
    }
}

/// A period that ends once in [`one_overflow`], early enough for a late PMI to be
/// handled before the workload ends.
const ONE_PERIOD: u64 = 60_000;

fn one_overflow() -> Workload {
    workload::tight_loop(50_000)
}

/// An event and a workload with one overflow, two instructions before the event is
/// disabled. A late PMI comes after that.
fn overflow_at_the_end(pmu: &Pmu) -> Result<(Sampler, Workload)> {
    let workload = one_overflow();
    let sampler = sampler(pmu, Event::Instructions, workload.instructions() - 2)?;
    Ok((sampler, workload))
}

/// Runs a workload under a new sampling event of user instructions, and checks the
/// count. Returns the records and the number of NMIs, late ones included.
fn sample(ctx: &Ctx, period: u64, workload: &Workload) -> Result<(Records, u64)> {
    let mut sampler = sampler(&ctx.pmu()?, Event::Instructions, period)?;
    let before = interrupts("NMI")?;
    let (records, count) = record(&mut sampler, workload)?;
    wait_for_late_pmis(ctx);
    let nmis = interrupts("NMI")? - before;
    expect_count(workload, count)?;
    Ok((records, nmis))
}

/// Runs more instructions than a PMI is late, and many in any case.
pub(super) fn wait_for_late_pmis(ctx: &Ctx) {
    let late = match defect(ctx) {
        Some(Defect::Pmi {
            fault: PmiFault::Delay(instructions) | PmiFault::Repeat(instructions),
            ..
        }) => instructions,
        _ => 0,
    };
    workload::tight_loop(2 * late.max(20_000)).run();
}

/// Repeats `hit`, which causes one PMI, until it returns that the PMI was hit by the
/// fault. From then on the number of each PMI is known. One PMI in `every` is hit.
fn find_fault(every: u64, mut hit: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..every {
        if hit()? {
            return Ok(());
        }
    }
    bail!("none of {every} PMIs was hit: does this guest have the right pmu-fault?")
}

/// Returns right after a lost PMI.
fn find_loss(ctx: &Ctx) -> Result<()> {
    find_fault(lose_every(ctx)?, || {
        let (records, _) = sample(ctx, ONE_PERIOD, &one_overflow())?;
        Ok(records.samples.is_empty())
    })
}

/// The fault is what it should be: each PMI arrives with its sample, but for each fifth.
fn all_but_every_fifth_arrive(ctx: &Ctx) -> Result<()> {
    let every = lose_every(ctx)?;
    find_loss(ctx)?;
    for run in 1..=4 * every {
        let arrives = u64::from(run % every != 0);
        let (records, nmis) = sample(ctx, ONE_PERIOD, &one_overflow())?;
        records.expect(&format!("PMI {run}"), arrives)?;
        expect(&format!("PMI {run}"), "NMIs", nmis, arrives)?;
    }
    Ok(())
}

/// After a lost PMI the counter has wrapped and does not overflow again, so sampling
/// stops until the event is restarted. Counting continues.
fn a_lost_pmi_ends_sampling_till_the_next_start(ctx: &Ctx) -> Result<()> {
    const RUNS: u64 = 3;
    let pmu = ctx.pmu()?;
    let every = lose_every(ctx)?;
    let workload = workload::tight_loop(40_000);
    let (count, runs) = find_undisturbed(|| {
        find_loss(ctx)?;
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
        expect("until one is lost", "samples", samples, every - 1)?;
        expect("one per sample", "NMIs", nmis, every - 1)?;
    }
    Ok(())
}

/// The handler finds every counter that has overflowed, not only the one that caused
/// the PMI.
fn a_lost_overflow_is_found_with_the_next(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(100_000);
    for periods in [[5_003, 3_501], [5_000, 5_000], [20_021, 3_001]] {
        let got = find_undisturbed(|| {
            find_loss(ctx)?;
            Pair::record(&pmu, periods, &workload)
        })?;
        let want = Losses::of(periods, workload.instructions(), lose_every(ctx)?);
        got.expect(&format!("{periods:?}"), want.samples, want.nmis)?;
    }
    Ok(())
}

/// The samples and NMIs of a group of two events of user instructions.
struct Pair {
    samples: [u64; 2],
    nmis: u64,
}

impl Pair {
    /// Measures the workload and checks the counts. Returns `None` if another task ran
    /// meanwhile: an event that is restarted after a lost PMI begins a new period.
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

/// The expected samples and NMIs of two events that count the same, if every
/// `every`-th PMI is lost, counted from a lost one.
#[derive(Default)]
struct Losses {
    samples: [u64; 2],
    nmis: u64,
}

impl Losses {
    fn of(periods: [u64; 2], total: u64, every: u64) -> Self {
        let periods = periods.map(|period| period as i64);
        let mut losses = Self::default();
        let mut left = periods;
        let mut overflowed = [false; 2];
        let (mut now, mut pmi) = (0, 0);
        // Each round goes to the next overflow.
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
            if pmi % every == 0 {
                continue;
            }
            losses.nmis += 1;
            for i in (0..2).filter(|&i| overflowed[i]) {
                losses.samples[i] += 1;
                // Events since the overflow count towards the next period. If they fill
                // it, a new period starts.
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

/// Returns right after a late PMI.
pub(super) fn find_delay(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    find_fault(Delay::of(ctx)?.every, || {
        let (mut sampler, workload) = overflow_at_the_end(&pmu)?;
        let (records, count) = record(&mut sampler, &workload)?;
        expect_count(&workload, count)?;
        wait_for_late_pmis(ctx);
        // If an interrupt delayed the disabling of the event, the PMI came in the kernel.
        Ok(records.samples.iter().all(|sample| !is_user(sample.ip)))
    })
}

/// Whether the IP of a sample is a user address.
pub(super) fn is_user(ip: u64) -> bool {
    ip != 0 && ip >> 63 == 0
}

/// The IP of a sample is where its PMI came. A late PMI does not move the following
/// overflows.
fn samples_are_late_and_all_there(ctx: &Ctx) -> Result<()> {
    // As short as it can be with two late PMIs: no other task may run meanwhile.
    const N: u64 = 60_000;
    const PERIOD: u64 = 100_003;
    let pmu = ctx.pmu()?;
    let delay = Delay::of(ctx)?;
    let workload = workload::block(N);
    let (records, nmis, interrupted) = find_undisturbed(|| {
        find_delay(ctx)?;
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
    records.expect("with late PMIs", samples)?;
    expect("one per sample", "NMIs", nmis, samples)?;
    let mut early = 0;
    for (sample, k) in records.samples.iter().zip(1..) {
        let place = k * PERIOD;
        let late = if k % delay.every == 0 { delay.late } else { 0 };
        if workload::block_ip(N, place + late) != Some(sample.ip) {
            // The delay includes the instructions of interrupts that come meanwhile.
            ensure!(late > 0, "sample {k}: unexpected IP {:#x}", sample.ip);
            early += 1;
        }
    }
    ensure!(
        early <= interrupted,
        "{early} PMIs came early in the loop, but there were only {interrupted} interrupts"
    );
    Ok(())
}

/// The number of interrupts, without NMIs and the irq_work that these queue.
fn other_interrupts() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/interrupts")?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(label, _)| !["NMI", "PMI", "IWI"].contains(&label.trim()))
        .flat_map(|(_, row)| row.split_whitespace().map_while(|n| n.parse::<u64>().ok()))
        .sum())
}

/// While the PMI of the first event is late, the PMI of the second gives both samples,
/// and the late one finds nothing to do. It must not interrupt the same address as the NMI
/// before, because the kernel may swallow an unknown NMI that is back to back with another.
fn a_late_pmi_whose_overflow_was_found(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    let pmu = ctx.pmu()?;
    let workload = workload::block(19_000);
    let Delay { every, late } = Delay::of(ctx)?;
    ensure!(
        every == 3 && late > 10_000,
        "this test is about the third PMI, which the fourth must overtake"
    );
    for _ in 0..3 {
        // There are overflows at 1, 1.05, 2 and 2.1 periods. The third PMI is late.
        let got = find_undisturbed(|| {
            find_delay(ctx)?;
            Pair::record(&pmu, [PERIOD, PERIOD + 5_000], &workload)
        })?;
        got.expect("four overflows", [2, 2], 4)?;
    }
    Ok(())
}

/// A PMI that is late until its event is disabled gives no sample, its NMI is claimed, and the
/// count is exact.
fn late_for_a_disabled_event(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let every = Delay::of(ctx)?.every;
    // Of as many PMIs the last one is late.
    let want: Vec<_> = (1..=every).map(|pmi| usize::from(pmi < every)).collect();
    for _ in 0..3 {
        let samples = find_undisturbed(|| {
            find_delay(ctx)?;
            let mut interrupted = 0;
            let mut samples = Vec::new();
            for _ in 0..every {
                let (mut sampler, workload) = overflow_at_the_end(&pmu)?;
                let before = [interrupts("NMI")?, other_interrupts()?];
                let (records, count) = record(&mut sampler, &workload)?;
                interrupted += other_interrupts()? - before[1];
                wait_for_late_pmis(ctx);
                expect("per overflow", "NMIs", interrupts("NMI")? - before[0], 1)?;
                expect_count(&workload, count)?;
                drain(&mut sampler)?.expect("a disabled event", 0)?;
                samples.push(records.samples.len());
            }
            Ok((interrupted == 0).then_some(samples))
        })?;
        ensure!(samples == want, "samples {samples:?}, not {want:?}");
    }
    Ok(())
}

/// The PMI comes when there is no event and the counters have been released.
fn late_for_a_closed_event(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let Delay { every, late } = Delay::of(ctx)?;
    find_undisturbed(|| {
        let mut behind = Vec::new();
        for _ in 0..every {
            let before = interrupts("NMI")?;
            close_after_overflow(&pmu)?;
            let closed = interrupts("NMI")?;
            workload::tight_loop(late).run();
            let after = interrupts("NMI")?;
            expect("per overflow", "NMIs", after - before, 1)?;
            behind.push(after - closed);
        }
        // Interrupts may delay the close until after the PMI.
        ensure!(behind.iter().sum::<u64>() <= 1, "late NMIs: {behind:?}");
        Ok(behind.contains(&1).then_some(()))
    })
}

/// Closes an event after one overflow.
fn close_after_overflow(pmu: &Pmu) -> Result<()> {
    let workload = one_overflow();
    let event = pmu
        .event(Event::Instructions)
        .sample_period(workload.instructions() - 2)
        .build()?;
    workload.measure(&event)
}

/// Samples a loop, and checks that no sample has skid. Returns the number of samples and
/// of NMIs. The period must give a multiple of [`repeat_every`] overflows, so that the
/// number of the first PMI does not matter.
fn samples_without_skid(ctx: &Ctx, period: u64) -> Result<(u64, u64)> {
    const N: u64 = 200_000;
    let workload = workload::block(N);
    let (records, nmis) = sample(ctx, period, &workload)?;
    let samples = workload.instructions() / period;
    records.expect(&format!("period {period}"), samples)?;
    for (sample, k) in records.samples.iter().zip(1..) {
        let want = workload::block_ip(N, k * period).context("a sample after the loop")?;
        ensure!(
            sample.ip == want,
            "sample {k}: IP {:#x}, expected {want:#x}",
            sample.ip
        );
    }
    Ok((samples, nmis))
}

/// A PMI that is repeated gives no second sample, and its NMI is claimed.
fn a_repeated_pmi_is_no_sample(ctx: &Ctx) -> Result<()> {
    let every = repeat_every(ctx)?;
    let (samples, nmis) = samples_without_skid(ctx, 99_991)?;
    expect("samples", "beyond a multiple", samples % every, 0)?;
    let want = samples + samples / every;
    expect("repeated", "NMIs", nmis, want)
}

/// A PMI that is repeated after its event was disabled gives no second sample, and its NMI is
/// claimed.
fn repeated_for_a_disabled_event(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let every = repeat_every(ctx)?;
    let before = interrupts("NMI")?;
    for _ in 0..every {
        let (mut sampler, workload) = overflow_at_the_end(&pmu)?;
        let (records, count) = record(&mut sampler, &workload)?;
        wait_for_late_pmis(ctx);
        expect_count(&workload, count)?;
        records.expect("repeated", 1)?;
        drain(&mut sampler)?.expect("a disabled event", 0)?;
    }
    let nmis = interrupts("NMI")? - before;
    expect("repeated", "NMIs", nmis, every + 1)
}

/// A PMI that is repeated after its event was closed is an NMI that is claimed.
fn repeated_for_a_closed_event(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let every = repeat_every(ctx)?;
    let before = interrupts("NMI")?;
    for _ in 0..every {
        close_after_overflow(&pmu)?;
        wait_for_late_pmis(ctx);
    }
    let nmis = interrupts("NMI")? - before;
    expect("repeated", "NMIs", nmis, every + 1)
}

/// On Intel the local APIC has masked LVTPC, so the repeated PMI is dropped. On AMD it has
/// not, so the second NMI comes right after the first is handled.
fn repeated_while_it_is_handled(ctx: &Ctx) -> Result<()> {
    let every = repeat_every(ctx)?;
    let masks_lvtpc = CpuPmu::probe().version > 0;
    for period in [99_991, 9_001] {
        let (samples, nmis) = samples_without_skid(ctx, period)?;
        expect("samples", "beyond a multiple", samples % every, 0)?;
        let again = if masks_lvtpc { 0 } else { samples / every };
        expect("repeated", "NMIs", nmis, samples + again)?;
    }
    Ok(())
}

/// The expected number of spurious PMIs while an event counts `counted` instructions. It
/// depends on how many have retired since the last spurious PMI. Without GLOBAL_CTRL the
/// counters do not start at once, so some instructions are counted by another event only.
fn spurious(counted: u64, every: u64) -> RangeInclusive<u64> {
    counted / every..=counted / every + 2
}

/// PMIs without an overflow do not change counts, and are none in the row PMI of /proc/interrupts, as with
/// the in-tree driver.
fn spurious_pmis_while_counting(ctx: &Ctx) -> Result<()> {
    let every = spurious_every(ctx)?;
    let pmu = ctx.pmu()?;
    for workload in [workload::tight_loop(5_000_000), workload::syscalls(20_000)] {
        let events = [Mode::User, Mode::Both].map(|mode| (Event::Instructions, mode));
        let mut group = pmu.open_group(&events)?;
        let before = [interrupts("NMI")?, interrupts("PMI")?];
        workload.measure(&group[0])?;
        let nmis = interrupts("NMI")? - before[0];
        expect(
            "without an overflow",
            "PMIs",
            interrupts("PMI")? - before[1],
            0,
        )?;
        expect_count(&workload, group[0].read()?)?;
        let counted = group[1].read()?;
        ensure!(
            spurious(counted, every).contains(&nmis),
            "{}: {nmis} NMIs in {counted} instructions, expected {:?}",
            workload.name(),
            spurious(counted, every)
        );
    }
    Ok(())
}

/// PMIs without an overflow give no samples, and those of overflows are in their places.
fn spurious_pmis_among_samples(ctx: &Ctx) -> Result<()> {
    const N: u64 = 200_000;
    let every = spurious_every(ctx)?;
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
            let want = workload::block_ip(N, k * period).context("a sample after the loop")?;
            ensure!(
                sample.ip == want,
                "sample {k}: IP {:#x}, expected {want:#x}",
                sample.ip
            );
        }
        // A PMI that comes while another is being handled may share its NMI.
        let (samples, most) = (count / period, *spurious(all.read()?, every).end());
        ensure!(
            (samples..=samples + most).contains(&nmis),
            "{nmis} NMIs for {samples} samples and at most {most} spurious PMIs"
        );
    }
    Ok(())
}

/// Reads GLOBAL_STATUS of CPU 0.
fn global_status() -> Result<u64> {
    let address = PmuMsrs::of_this_cpu().global_status;
    Msrs::of_cpu(0)?.read(address.context("no GLOBAL_STATUS")?)
}

/// Status bits set before the driver used the counters cause no samples of events that
/// use them later.
fn status_that_was_left_behind(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let left_behind = global_status()?;
    ensure!(
        left_behind & 0b11 == 0b11,
        "GLOBAL_STATUS is {left_behind:#x} before the test"
    );

    let workload = workload::tight_loop(500_000);
    let mut leader = sampler(&pmu, Event::Instructions, PERIOD)?;
    let mut members = Vec::new();
    for _ in 1..left_behind.count_ones() {
        let mut builder = pmu.event(Event::Instructions);
        builder.enabled(true).sample_period(1 << 30).sample(FLAGS);
        // Fixed counters of other events cannot be used.
        match builder.build_with_group(&mut *leader) {
            Ok(member) => members.push(member.sampled(RING)?),
            Err(_) => break,
        }
    }
    ensure!(!members.is_empty(), "only one event fits");
    let before = interrupts("NMI")?;
    let (records, count) = record(&mut leader, &workload)?;
    let nmis = interrupts("NMI")? - before;
    expect_count(&workload, count)?;
    records.expect("period", count / PERIOD)?;
    expect("one per sample", "NMIs", nmis, count / PERIOD)?;
    for member in &mut members {
        expect_count(&workload, member.read()?)?;
        drain(member)?.expect("unfinished period", 0)?;
    }
    let cleared = global_status()?;
    ensure!(cleared == 0, "GLOBAL_STATUS is {cleared:#x} after the test");
    Ok(())
}
