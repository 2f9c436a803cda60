// SPDX-License-Identifier: GPL-2.0
//! rust_clock under `-icount`, where the guest's clock advances by its instructions: how
//! many samples there are, and when, does not depend on the host.

use std::arch::x86_64::_rdtsc;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use perf_event::data::Record;
use perf_event::{Counter, ReadFormat, SampleFlag, Sampler};

use super::sampling::{drain, for_each_record, for_each_sample, set_period, Records, FLAGS};
use super::{expect, find_undisturbed};
use crate::clocks::{busy_until, event, group, group_with, sampler, Clock, Clocks, MIN_PERIOD};
use crate::ctx::{Ctx, Test};
use crate::pmu::Pmu;
use crate::setting::SampleRate;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Icount];
    one_sample_a_period: [NoChecks],
    shortest_period: [NoChecks],
    frequency,
    samples_are_on_time: [NoChecks],
    rest_of_a_period: [NoChecks],
    new_period,
    new_period_of_a_frequency,
    task_clock_sleeps,
    cpu_clocks_agree_within_a_read: [NoChecks],
    idle_is_excluded,
    samples_of_children: [NoChecks],
    stops_after_refresh: [Root],
    throttled_as_in_tree: [Root, NoChecks],
    throttled_group_as_in_tree: [Root],
];

/// The number of samples that an event takes until it has counted `count`, with what is
/// over.
fn expect_samples(what: &str, sampler: &mut Sampler, period: u64) -> Result<()> {
    let count = sampler.read()?;
    let records = drain(sampler)?;
    records.expect(
        &format!("{what}, period {period}, {count} ns"),
        count / period,
    )
}

/// Samples until `ns` have passed, which is half a period after a sample. Returns whether
/// the kernel had no other work to do in the end, so that no further sample was due.
fn sample(sampler: &mut Sampler, period: u64, ns: u64) -> Result<bool> {
    sampler.enable()?;
    busy_until(sampler, ns)?;
    sampler.disable()?;
    let late = sampler.read()? - ns;
    Ok(late < period.max(MIN_PERIOD) * 9 / 20)
}

/// Samples until `periods` and a half have passed. Returns no records if that took longer.
fn samples(sampler: &mut Sampler, period: u64, periods: u64) -> Result<Option<Records>> {
    let on_time = sample(sampler, period, periods * period + period / 2)?;
    let records = drain(sampler)?;
    Ok(on_time.then_some(records))
}

/// Samples with a period until `ns` have passed. Repeats that if the kernel had other work to
/// do: in the end, or for so long that the timer missed one of `want` periods.
fn samples_within(pmu: &Pmu, clock: Clock, period: u64, ns: u64, want: u64) -> Result<Records> {
    find_undisturbed(|| {
        let mut builder = event(pmu, clock);
        let mut sampler = sampler(builder.sample_period(period), FLAGS)?;
        let on_time = sample(&mut sampler, period, ns)?;
        let records = drain(&mut sampler)?;
        let complete = records.samples.len() as u64 >= want;
        Ok((on_time && complete).then_some(records))
    })
}

/// Both PMUs take exactly one sample for each period that passes, at four periods.
fn one_sample_a_period(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        for (periods, period) in [
            (1, 1_000_000),
            (100, 100_003),
            (1_000, 50_000),
            (20, 5_000_000),
        ] {
            for pmu in clocks.both() {
                let what = format!("{}, {clock:?}, period {period}", pmu.name);
                let ns = periods * period + period / 2;
                let records = samples_within(pmu, clock, period, ns, periods)?;
                records.expect(&what, periods)?;
                for sample in &records.samples {
                    expect(&what, "as period", sample.period, period)?;
                }
            }
        }
    }
    Ok(())
}

/// Shorter periods are as long as the shortest one, although samples name theirs.
fn shortest_period(_: &Ctx) -> Result<()> {
    const PERIODS: u64 = 100;
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        for period in [1, 9_999, 10_000] {
            let ns = PERIODS * MIN_PERIOD + MIN_PERIOD / 2;
            // The first period is as short as asked for.
            let want = 1 + (ns - period) / MIN_PERIOD;
            let mut samples = Vec::new();
            for pmu in clocks.both() {
                let records = samples_within(pmu, clock, period, ns, want)?;
                for sample in &records.samples {
                    expect(&pmu.name, "as period", sample.period, period)?;
                }
                samples.push(records.samples.len() as u64);
            }
            let what = format!("{clock:?}, period {period}");
            expect(&what, "samples in-tree", samples[1], want)?;
            expect(&what, "samples", samples[0], want)?;
        }
    }
    Ok(())
}

/// A frequency is a period.
fn frequency(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        for (frequency, period) in [(1_000, 1_000_000), (7_777, 128_584), (100, 10_000_000)] {
            for pmu in clocks.both() {
                let what = format!("{}, {clock:?}, {frequency} Hz", pmu.name);
                let records = find_undisturbed(|| {
                    let mut builder = event(pmu, clock);
                    let mut sampler = sampler(builder.sample_frequency(frequency), FLAGS)?;
                    samples(&mut sampler, period, 10)
                })?;
                records.expect(&what, 10)?;
                for sample in &records.samples {
                    expect(&what, "as period", sample.period, period)?;
                }
            }
        }
    }
    Ok(())
}

/// However long the handler takes, the samples are a period apart: the time of each is
/// that of the first and whole periods, and less than the time of a few interrupts more.
fn samples_are_on_time(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 200_000;
    const PERIODS: usize = 500;
    const LATE: i64 = 60_000;
    let clocks = Clocks::find()?;
    let times = find_undisturbed(|| {
        let mut builder = event(&clocks.ours, Clock::Cpu);
        let mut sampler = sampler(builder.sample_period(PERIOD), SampleFlag::TIME)?;
        let ns = PERIODS as u64 * PERIOD + PERIOD / 2;
        let on_time = sample(&mut sampler, PERIOD, ns)?;
        let mut times = Vec::new();
        for_each_sample(&mut sampler, |sample| {
            times.push(sample.time().context("no TIME")? as i64);
            Ok(())
        })?;
        let off = |(time, k)| time - times[0] - k * PERIOD as i64;
        let most = times
            .iter()
            .zip(0..)
            .map(off)
            .max_by_key(|off: &i64| off.abs());
        let most = most.context("no samples")?;
        // The kernel can have other work to do in the middle, too. If that is all, it has none the next time.
        let on_time = on_time && most.abs() < LATE;
        println!("# the latest sample is off by {most} ns");
        Ok(on_time.then_some(times))
    })?;
    expect("in total", "samples", times.len() as u64, PERIODS as u64)
}

/// A period that is interrupted by a stop continues where it was, but for the instructions
/// between the timer and the count.
fn rest_of_a_period(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 5_000_000;
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        for pmu in clocks.both() {
            let mut builder = event(pmu, clock);
            let mut sampler = sampler(builder.sample_period(PERIOD), FLAGS)?;
            // A tenth of a period at a time, and a twentieth more.
            for part in 1..=100 {
                sampler.enable()?;
                busy_until(&mut sampler, part * PERIOD / 10 + PERIOD / 20)?;
                sampler.disable()?;
                workload::tight_loop(100_000).run();
            }
            expect_samples(&format!("{}, {clock:?}", pmu.name), &mut sampler, PERIOD)?;
        }
    }
    Ok(())
}

/// PERF_EVENT_IOC_PERIOD replaces what is left of the old period: then there is a sample each new
/// one.
fn new_period(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        for pmu in clocks.both() {
            let what = format!("{}, {clock:?}", pmu.name);
            let (before, after) = find_undisturbed(|| {
                let mut builder = event(pmu, clock);
                let mut sampler = sampler(builder.sample_period(1_000_000), FLAGS)?;
                let before = samples(&mut sampler, 1_000_000, 3)?;
                // Half a period is left, which a new period replaces.
                set_period(&sampler, 200_000)?;
                sampler.reset()?;
                let after = samples(&mut sampler, 200_000, 10)?;
                Ok(before.zip(after))
            })?;
            before.expect(&what, 3)?;
            after.expect(&what, 10)?;
        }
    }
    Ok(())
}

/// The argument of PERF_EVENT_IOC_PERIOD is a period, even if the event was opened with a
/// frequency.
fn new_period_of_a_frequency(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    for pmu in clocks.both() {
        let records = find_undisturbed(|| {
            let mut builder = event(pmu, Clock::Task);
            let mut sampler = sampler(builder.sample_frequency(1_000), FLAGS)?;
            set_period(&sampler, 300_000)?;
            samples(&mut sampler, 300_000, 10)
        })?;
        records.expect(&pmu.name, 10)?;
    }
    Ok(())
}

/// A task's events count while it runs. The idle CPU's clock advances meanwhile.
fn task_clock_sleeps(_: &Ctx) -> Result<()> {
    const SLEEP: u64 = 500_000_000;
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        let mut group = group(&[(&clocks.ours, clock), (&clocks.theirs, clock)])?;
        workload::around_sleep(SLEEP, 1_000_000).measure(&group[0])?;
        let (ours, theirs) = (group[0].read()?, group[1].read()?);
        for count in [ours, theirs] {
            ensure!(
                count < SLEEP / 10,
                "{clock:?}: {ours} ns, in-tree {theirs} ns"
            );
        }
        if clock == Clock::Task {
            expect("task-clock", "ns", ours, theirs)?;
        }
    }
    Ok(())
}

/// The instructions of a read of the group.
fn cost_of_a_read(leader: &mut Counter) -> Result<u64> {
    let mut lowest = u64::MAX;
    for _ in 0..50 {
        // SAFETY: RDTSC only reads the time-stamp counter.
        let start = unsafe { _rdtsc() };
        leader.read_group()?;
        // SAFETY: as above.
        let end = unsafe { _rdtsc() };
        lowest = lowest.min(end - start);
    }
    Ok(lowest)
}

/// The clocks of a group are started one after the other, and read one after the other.
/// Their counts differ by less than a read of the group takes.
fn cpu_clocks_agree_within_a_read(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        let pair = clocks.both().map(|pmu| (pmu, clock));
        let mut events = group_with(&pair, |builder| {
            builder.read_format(ReadFormat::GROUP | ReadFormat::ID);
        })?;
        let cost = {
            events[0].enable()?;
            let cost = cost_of_a_read(&mut events[0])?;
            events[0].disable()?;
            cost
        };
        let mut worst = 0;
        for round in 0..200 {
            events[0].reset_group()?;
            events[0].enable()?;
            workload::tight_loop(1_000 + round).run();
            let group = events[0].read_group()?;
            let running = (group[&events[0]], group[&events[1]]);
            events[0].disable()?;
            let group = events[0].read_group()?;
            let stopped = (group[&events[0]], group[&events[1]]);
            for (ours, theirs) in [running, stopped] {
                worst = worst.max(ours.abs_diff(theirs));
            }
        }
        println!("# {clock:?}: they differ by {worst} ns, a read takes {cost} ns");
        ensure!(worst <= cost, "{clock:?}: {worst} ns, a read takes {cost}");
    }
    Ok(())
}

/// The samples of an event of a CPU on which little runs, and how many of them are of the
/// idle task.
fn idle_samples(pmu: &Pmu, exclude_idle: bool) -> Result<(u64, u64)> {
    let mut builder = event(pmu, Clock::Cpu);
    builder.any_pid().one_cpu(0).sample_period(1_000_000);
    builder.attrs_mut().set_exclude_idle(exclude_idle.into());
    let mut sampler = sampler(&mut builder, FLAGS)?;
    sampler.enable()?;
    thread::sleep(Duration::from_millis(100));
    sampler.disable()?;
    let records = drain(&mut sampler)?;
    let idle = records.samples.iter().filter(|sample| sample.tid == 0);
    Ok((records.samples.len() as u64, idle.count() as u64))
}

/// An event of a CPU has samples of the idle task, and with `exclude_idle` none.
fn idle_is_excluded(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    for pmu in clocks.both() {
        let (all, idle) = idle_samples(pmu, false)?;
        ensure!(all >= 100, "{}: {all} samples in 100 ms", pmu.name);
        ensure!(idle >= 90, "{}: {idle} of {all} samples are idle", pmu.name);
        let (_, idle) = idle_samples(pmu, true)?;
        expect(&pmu.name, "samples of the idle task", idle, 0)?;
    }
    Ok(())
}

/// Each thread inherits its own copy of the event, with its own timer.
fn samples_of_children(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 4_000_000;
    const PERIODS: u64 = 5;
    const THREADS: u64 = 4;
    let clocks = Clocks::find()?;
    let mut totals = Vec::new();
    for pmu in clocks.both() {
        let mut builder = event(pmu, Clock::Task);
        builder
            .inherit(true)
            .inherit_thread(true)
            .sample_period(PERIOD);
        // The ring buffer of an inherited event must be of one CPU.
        builder.one_cpu(0);
        let mut sampler = sampler(&mut builder, FLAGS)?;
        sampler.enable()?;
        for _ in 0..THREADS {
            thread::scope(|scope| {
                let busy = scope.spawn(|| {
                    let mut own = event(&clocks.theirs, Clock::Task).build()?;
                    own.enable()?;
                    // The rest of a period is for the thread's beginning and end. The
                    // first one takes more than 0.5 ms, because of its page faults.
                    busy_until(&mut own, PERIODS * PERIOD + PERIOD / 4)
                });
                busy.join().expect("the thread does not panic")
            })?;
        }
        sampler.disable()?;
        let main = nix::unistd::gettid().as_raw() as u32;
        let records = drain(&mut sampler)?;
        let of_threads = records.samples.iter().filter(|sample| sample.tid != main);
        totals.push(of_threads.count() as u64);
    }
    let want = PERIODS * THREADS;
    expect("ours", "samples of threads", totals[0], want)?;
    expect("in-tree", "samples of threads", totals[1], want)
}

/// PERF_EVENT_IOC_REFRESH enables an event for a number of samples: here a thousand events
/// for three each.
fn stops_after_refresh(_: &Ctx) -> Result<()> {
    const EVENTS: usize = 1_000;
    const PERIOD: u64 = 20_000_000;
    const LIMIT: libc::c_int = 3;
    use std::os::fd::AsRawFd;
    super::clock::allow_files(2 * EVENTS as u64)?;
    let clocks = Clocks::find()?;
    let mut events = (0..EVENTS)
        .map(|_| {
            let mut builder = event(&clocks.ours, Clock::Cpu);
            Ok(builder.sample_period(PERIOD).build()?)
        })
        .collect::<Result<Vec<Counter>>>()?;
    for event in &events {
        // SAFETY: the event is open, and the argument is a number.
        let status = unsafe { perf_event_open_sys::ioctls::REFRESH(event.as_raw_fd(), LIMIT) };
        ensure!(status == 0, "{}", std::io::Error::last_os_error());
    }
    let mut busy = event(&clocks.theirs, Clock::Cpu).build()?;
    busy.enable()?;
    busy_until(&mut busy, 10 * PERIOD)?;
    for (event, i) in events.iter_mut().zip(0..) {
        let count = event.read()?;
        // The timer's clock and that of the count may drift apart a little.
        let periods = (count + PERIOD / 4) / PERIOD;
        let what = format!("event {i}, {count} ns");
        expect(&what, "periods", periods, LIMIT as u64)?;
    }
    Ok(())
}

/// The numbers of samples from one THROTTLE record to the next.
fn between_throttles(sampler: &mut Sampler) -> Result<Vec<u64>> {
    let mut runs = vec![0];
    for_each_record(sampler, |record| {
        match record {
            Record::Sample(_) => *runs.last_mut().expect("never empty") += 1,
            Record::Throttle(_) => runs.push(0),
            _ => {}
        }
        Ok(())
    })?;
    Ok(runs)
}

/// An event that exceeds the sample rate is stopped until the next tick.
fn throttled_as_in_tree(_: &Ctx) -> Result<()> {
    const RATE: u64 = 5_000;
    const BUSY: u64 = 200_000_000;
    let clocks = Clocks::find()?;
    let _rate = SampleRate::fixed(RATE)?;
    for clock in Clock::ALL {
        let mut all = Vec::new();
        for pmu in clocks.both() {
            let mut builder = event(pmu, clock);
            let mut sampler = sampler(builder.sample_period(50_000), FLAGS)?;
            sampler.enable()?;
            workload::tight_loop(BUSY / 2).run();
            sampler.disable()?;
            let runs = between_throttles(&mut sampler)?;
            ensure!(
                runs.len() > 20,
                "{}: throttled {} times",
                pmu.name,
                runs.len() - 1
            );
            // The record comes before the sample that exceeds the rate. The first run and
            // the last one are cut off.
            all.push(runs[1..runs.len() - 1].to_vec());
        }
        let [ours, theirs] = &all[..] else {
            unreachable!()
        };
        let same = |runs: &[u64]| runs.iter().all(|run| *run == ours[0]);
        ensure!(
            same(ours) && same(theirs),
            "{clock:?}: {ours:?}, in-tree {theirs:?}"
        );
        // The kernel's other work changes in how many ticks the task runs.
        let off = ours.len().abs_diff(theirs.len());
        ensure!(
            off * 10 <= theirs.len(),
            "{} throttles, in-tree {}",
            ours.len(),
            theirs.len()
        );
    }
    Ok(())
}

/// A throttled event stops its group. The counts of both PMUs agree.
fn throttled_group_as_in_tree(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    let _rate = SampleRate::fixed(5_000)?;
    let mut leader = sampler(
        event(&clocks.ours, Clock::Task).sample_period(50_000),
        FLAGS,
    )?;
    let mut members = [&clocks.ours, &clocks.theirs]
        .into_iter()
        .map(|pmu| {
            let mut builder = event(pmu, Clock::Task);
            Ok(builder.enabled(true).build_with_group(&mut *leader)?)
        })
        .collect::<Result<Vec<Counter>>>()?;
    workload::tight_loop(50_000_000).measure(&*leader)?;
    let runs = between_throttles(&mut leader)?;
    ensure!(runs.len() > 10, "throttled {} times", runs.len() - 1);
    let counts = [members[0].read()?, members[1].read()?];
    expect("members", "ns", counts[0], counts[1])
}
