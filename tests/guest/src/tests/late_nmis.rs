// SPDX-License-Identifier: GPL-2.0
//! Late PMIs of AMD's CPUs beside other NMIs, which nmis.ko sends.
//!
//! Nothing tells a late PMI from another NMI there. An overflow may be found in an NMI that is somebody
//! else's, so that its own PMI finds nothing to do. The driver must claim each of these, and no other NMI.
//! The kernel says so of an NMI that nobody claims.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use perf_event::Sampler;

use super::faults::{find_delay, is_user, wait_for_late_pmis, Delay};
use super::sampling::{drain, sampler};
use super::{expect, expect_exact, find_undisturbed, interrupts, undisturbed};
use crate::ctx::{Ctx, Test};
use crate::kmsg::{set_judged, Kmsg};
use crate::module;
use crate::pmu::Event;
use crate::tests;
use crate::workload::{self, Workload};

/// For a guest with [`suites::Fault::delay`].
pub const TESTS: &[Test] = tests![
    all need [Amd, EmulatedPmu, Root, NoChecks, TestModule];
    a_late_pmi_after_two_other_nmis,
    the_nmi_of_another_is_left_to_it,
];

/// For a guest with a [`suites::Fault::delay`] that outlasts several overflows.
pub const LONG: &[Test] = tests![
    all need [Amd, EmulatedPmu, Root, NoChecks, TestModule];
    several_late_pmis_after_other_nmis,
];

/// What the kernel says of an NMI that nobody claims.
const UNKNOWN: &str = "NMI received for unknown reason";

/// nmis.ko, until dropped.
struct Nmis {
    claimed: File,
    unclaimed: File,
}

impl Nmis {
    fn load() -> Result<Self> {
        module::insert_of_tests(c"")?.context("nmis.ko")?;
        let parameter = |name: &str| {
            let file = format!("/sys/module/nmis/parameters/{name}");
            let opened = OpenOptions::new().write(true).open(&file);
            opened.context(file)
        };
        Ok(Self {
            claimed: parameter("claimed")?,
            unclaimed: parameter("unclaimed")?,
        })
    }

    /// Sends NMIs to this CPU, one after the other. The module claims them.
    fn send(&self, count: u8) -> Result<()> {
        let text = count.to_string();
        self.claimed
            .write_all_at(text.as_bytes(), 0)
            .context("send")
    }

    /// Sends an NMI to this CPU that the module does not claim.
    fn send_unclaimed(&self) -> Result<()> {
        self.unclaimed.write_all_at(b"1", 0).context("send")
    }
}

impl Drop for Nmis {
    fn drop(&mut self) {
        if let Err(error) = module::remove_named(c"nmis") {
            eprintln!("rmmod nmis: {error}");
        }
    }
}

/// Runs a workload under an event, and then sends other NMIs while the event is still enabled.
fn run_and_send(event: &mut Sampler, workload: &Workload, nmis: &Nmis, count: u8) -> Result<()> {
    event.enable()?;
    workload.run();
    nmis.send(count)?;
    event.disable()?;
    Ok(())
}

/// How many NMIs the kernel says nobody has claimed.
fn unclaimed(log: &mut Kmsg) -> Result<usize> {
    let lines = log.lines()?;
    Ok(lines.iter().filter(|line| line.contains(UNKNOWN)).count())
}

/// The PMI of every third overflow is late. The first of two other NMIs finds that overflow, and the
/// second comes before its PMI. All NMIs are claimed.
fn a_late_pmi_after_two_other_nmis(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let every = Delay::of(ctx)?.every;
    let nmis = Nmis::load()?;
    let mut log = Kmsg::from_now()?;
    let workload = workload::tight_loop(50_000);
    // The last overflow is within the last instructions of the workload.
    let period = workload.instructions() / every;
    for _ in 0..3 {
        let arrived = find_undisturbed(|| {
            find_delay(ctx)?;
            let mut event = sampler(&pmu, Event::Instructions, period)?;
            let before = interrupts("NMI")?;
            let alone = undisturbed(|| run_and_send(&mut event, &workload, &nmis, 2))?;
            wait_for_late_pmis(ctx);
            let arrived = interrupts("NMI")? - before;
            let samples = drain(&mut event)?.samples;
            let on_time = samples.iter().filter(|it| is_user(it.ip)).count() as u64;
            Ok((alone && on_time == every - 1).then_some(arrived))
        })?;
        expect("PMIs and others", "NMIs", arrived, every + 2)?;
    }
    let unclaimed = unclaimed(&mut log)?;
    ensure!(unclaimed == 0, "{unclaimed} unknown NMIs");
    Ok(())
}

/// The PMI of every third overflow is late, and each of these overflows is found in another NMI. All of
/// the PMIs arrive after that, and are claimed.
fn several_late_pmis_after_other_nmis(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 4;
    const PERIOD: u64 = 10_000;
    let pmu = ctx.pmu()?;
    let Delay { every, late } = Delay::of(ctx)?;
    // With what each round counts besides, the last overflow of each stays within the workload.
    let workload = workload::tight_loop((every * PERIOD + 1_000) / 2);
    let most = 2 * ROUNDS * workload.instructions();
    ensure!(late > most, "the first would arrive too early: {late}");
    let nmis = Nmis::load()?;
    let mut log = Kmsg::from_now()?;
    let arrived = find_undisturbed(|| {
        find_delay(ctx)?;
        let mut event = sampler(&pmu, Event::Instructions, PERIOD)?;
        let before = interrupts("NMI")?;
        let alone = undisturbed(|| {
            for _ in 0..ROUNDS {
                run_and_send(&mut event, &workload, &nmis, 1)?;
            }
            Ok(())
        })?;
        wait_for_late_pmis(ctx);
        let arrived = interrupts("NMI")? - before;
        let samples = drain(&mut event)?.samples;
        let on_time = samples.iter().filter(|it| is_user(it.ip)).count() as u64;
        Ok((alone && on_time == ROUNDS * (every - 1)).then_some(arrived))
    })?;
    expect("PMIs and others", "NMIs", arrived, ROUNDS * (every + 1))?;
    let unclaimed = unclaimed(&mut log)?;
    ensure!(unclaimed == 0, "{unclaimed} unknown NMIs");
    Ok(())
}

/// When no PMI can be late any more, the driver does not claim the NMI of another, although it has an event.
/// The kernel says once that it is unknown, and the event counts exactly.
fn the_nmi_of_another_is_left_to_it(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let nmis = Nmis::load()?;
    let mut event = sampler(&pmu, Event::Instructions, 10_000)?;
    run_and_send(&mut event, &workload::tight_loop(100_000), &nmis, 1)?;
    wait_for_late_pmis(ctx);
    event.enable()?;
    // Longer than the driver expects late PMIs.
    thread::sleep(Duration::from_millis(200));
    let mut log = Kmsg::from_now()?;
    nmis.send_unclaimed()?;
    event.disable()?;
    let records = log.records()?;
    let unknown = records.iter().filter(|it| it.text.contains(UNKNOWN));
    let unknown = unknown.count();
    ensure!(unknown == 1, "{unknown} unknown NMIs: {records:?}");
    set_judged(&records);
    expect_exact(&pmu, &workload::branches(10_000))
}
