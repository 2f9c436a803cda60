// SPDX-License-Identifier: GPL-2.0
//! What an unprivileged user cannot do with the PMUs: see docs/security.md.

mod storm;

use storm::storm_leaves_other_cpus_alone;

use std::io;

use anyhow::{ensure, Context, Result};
use nix::unistd::gettid;
use perf_event::data::Record;
use perf_event::{Builder, Counter, SampleFlag};

use super::compare::case::Unprivileged;
use super::cost::now;
use super::expect;
use super::sampling::{for_each_record, RING};
use crate::ctx::{Ctx, Test};
use crate::pmu::{CpuPmu, Event, Mode, Pmu};
use crate::setting::{pin, SampleRate, Setting};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root];
    no_kernel_address_in_samples,
    kernel_mode_and_cpus_need_privileges,
    user_cannot_starve_an_event_of_a_cpu,
    log_is_not_flooded: [InTree],
];

/// For a machine with several CPUs.
pub const STORM: &[Test] = tests![
    all need [Root, InTree, Cpus(2)];
    storm_leaves_other_cpus_alone,
];

/// These need `-icount`, so that time is instructions.
pub const COST: &[Test] = tests![
    all need [Root, InTreeCounts];
    share_of_time_in_nmis,
];

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// An event of a PMU that every user may open for a task of their own, in user mode.
struct Subject {
    name: String,
    pmu: Pmu,
    config: u64,
    period: u64,
}

impl Subject {
    fn event(&self) -> Builder<'static> {
        self.pmu.raw(self.config)
    }
}

/// Events of the module's PMUs that count in user mode.
fn subjects(ctx: &Ctx) -> Result<Vec<Subject>> {
    let pmu = ctx.pmu()?;
    let mut subjects = Vec::new();
    for event in [Event::Instructions, Event::Branches] {
        subjects.push(Subject {
            name: format!("{}/{}/", pmu.name, event.name()),
            config: pmu.config(event),
            pmu: pmu.clone(),
            period: 997,
        });
    }
    let clock = Pmu::find("rust_clock")?;
    for name in ["cpu-clock", "task-clock"] {
        subjects.push(Subject {
            name: format!("{}/{name}/", clock.name),
            config: clock.encode(name)?,
            pmu: clock.clone(),
            period: 50_000,
        });
    }
    Ok(subjects)
}

/// Whether a value of a sample is an address of the kernel's, and no marker in a call chain
/// (`enum perf_callchain_context`).
fn is_kernel_address(value: u64) -> bool {
    const MARKERS: u64 = -4095_i64 as u64;
    value >> 47 != 0 && value < MARKERS
}

/// A user who may not see the kernel samples programs that enter it all the time. PMIs and timers
/// come in the kernel as well, but no sample has an address of it.
fn no_kernel_address_in_samples(ctx: &Ctx) -> Result<()> {
    let paranoid = Setting::change(PARANOID, 2)?;
    let _rate = SampleRate::fixed(1_000_000)?;
    for subject in subjects(ctx)? {
        let unprivileged = Unprivileged::new()?;
        let mut event = subject.event();
        event.sample_period(subject.period);
        event.sample(SampleFlag::IP | SampleFlag::CALLCHAIN);
        event.exclude_callchain_kernel(true);
        let counter = event.build().context(subject.name.clone())?;
        let mut sampler = counter.sampled(RING)?;
        workload::syscalls(20_000).measure(&sampler)?;
        drop(unprivileged);
        let (mut samples, mut in_kernel) = (0, 0);
        for_each_record(&mut sampler, |record| {
            let Record::Sample(sample) = record else {
                return Ok(());
            };
            samples += 1;
            let ip = sample.ip().context("no IP")?;
            // perf hides the address of a sample that was taken in the kernel.
            in_kernel += u32::from(ip == 0);
            let chain = sample.callchain().context("no call chain")?;
            for address in chain.iter().copied().chain([ip]) {
                ensure!(
                    !is_kernel_address(address),
                    "{}: a sample has {address:#x}",
                    subject.name
                );
            }
            Ok(())
        })?;
        println!(
            "# {}: {samples} samples, {in_kernel} of them in the kernel",
            subject.name
        );
        ensure!(samples > 0, "{}: no samples", subject.name);
    }
    paranoid.restore()
}

/// What a user opens.
#[derive(Clone, Copy, Debug)]
enum Target {
    TaskInUserMode,
    Task,
    Cpu,
}

/// Kernel mode and whole CPUs are for those whom `perf_event_paranoid` lets. 3 is Debian's: no user
/// opens any event.
fn kernel_mode_and_cpus_need_privileges(ctx: &Ctx) -> Result<()> {
    use Target::{Cpu, Task, TaskInUserMode};
    let paranoid = Setting::save(PARANOID)?;
    for (level, allowed) in [
        (3, &[][..]),
        (2, &[TaskInUserMode][..]),
        (1, &[TaskInUserMode, Task][..]),
        (0, &[TaskInUserMode, Task, Cpu][..]),
    ] {
        paranoid.set(level)?;
        for subject in subjects(ctx)? {
            for target in [TaskInUserMode, Task, Cpu] {
                let mut event = subject.event();
                match target {
                    TaskInUserMode => {}
                    Task => {
                        event.include_kernel();
                    }
                    Cpu => {
                        event.any_pid().one_cpu(0);
                    }
                }
                let _unprivileged = Unprivileged::new()?;
                let errno = event
                    .build()
                    .map_or_else(|error| error.raw_os_error().unwrap_or_default(), |_| 0);
                let is_allowed = allowed
                    .iter()
                    .any(|it| std::mem::discriminant(it) == std::mem::discriminant(&target));
                let want = if is_allowed { 0 } else { libc::EACCES };
                ensure!(
                    errno == want,
                    "perf_event_paranoid={level}, {}, {target:?}: errno {errno}, expected {want}",
                    subject.name
                );
            }
        }
    }
    paranoid.restore()
}

/// Pinned events of a user's task take all counters. A pinned event of a CPU, for which one needs
/// privileges, counts all the time nevertheless.
fn user_cannot_starve_an_event_of_a_cpu(ctx: &Ctx) -> Result<()> {
    let paranoid = Setting::change(PARANOID, 2)?;
    let pmu = ctx.pmu()?;
    pin(gettid(), 0)?;
    let counters = CpuPmu::probe().general;
    let unprivileged = Unprivileged::new()?;
    let open = || {
        pmu.event(Event::Branches)
            .pinned(true)
            .enabled(true)
            .build()
    };
    let _hogs: Vec<Counter> = (0..counters).map(|_| open()).collect::<io::Result<_>>()?;
    drop(unprivileged);
    let mut event = pmu.event(Event::Branches);
    let mut event = event.any_pid().one_cpu(0).pinned(true).build()?;
    let workload = workload::tight_loop(1_000_000);
    workload.measure(&event)?;
    let data = event.read_full()?;
    ensure!(
        data.count() >= workload.branches(),
        "{} of {} branches",
        data.count(),
        workload.branches()
    );
    ensure!(
        data.time_running() == data.time_enabled(),
        "it ran for {:?} of {:?}",
        data.time_running(),
        data.time_enabled()
    );
    paranoid.restore()
}

/// However often a user's calls fail, the kernel log gets one line at most.
fn log_is_not_flooded(ctx: &Ctx) -> Result<()> {
    const CALLS: u64 = 300;
    let paranoid = Setting::change(PARANOID, 2)?;
    let pmu = ctx.pmu()?;
    // Ours are refused as long as the in-tree driver has the counters.
    let in_tree = ctx.in_tree()?.open(Event::Instructions, Mode::User)?;
    let mut log = ctx.module_log()?;
    let unprivileged = Unprivileged::new()?;
    let mut refused = 0;
    for call in 0..CALLS {
        let mut busy = pmu.event(Event::Instructions);
        let mut unknown = pmu.raw(1 << 63);
        let mut unlikely = pmu.raw(call);
        unlikely.attrs_mut().__bindgen_anon_3.config1 = call + 1;
        for event in [&mut busy, &mut unknown, &mut unlikely] {
            refused += u64::from(event.build().is_err());
        }
    }
    drop((unprivileged, in_tree));
    expect("calls", "refused", refused, 3 * CALLS)?;
    let lines = log.lines()?;
    ensure!(lines.len() <= 1, "{} lines: {lines:?}", lines.len());
    paranoid.restore()
}

/// The instructions that a loop takes, with what the kernel does meanwhile.
fn instructions() -> u64 {
    let workload = workload::tight_loop(40_000_000);
    let before = now();
    workload.run();
    now() - before
}

/// The share of a CPU's time that its user takes from other tasks by samples, in thousandths: all
/// counters sample, with this period.
fn share(pmu: &Pmu, alone: u64, period: u64) -> Result<u64> {
    let counters = CpuPmu::probe().general;
    let unprivileged = Unprivileged::new()?;
    let mut events = Vec::new();
    for _ in 0..counters {
        // Intel's in-tree driver takes branches with a period of 1 for a branch trace.
        let mut event = pmu.event(Event::Instructions);
        event.sample_period(period).enabled(true);
        events.push(event.build()?);
    }
    drop(unprivileged);
    let with = instructions();
    Ok(1_000 - 1_000 * alone / with)
}

/// The worst that a user can do to a CPU by PMIs is what perf allows, as with the in-tree driver:
/// `perf_event_max_sample_rate` for each event, and less if that takes more than
/// `perf_cpu_time_max_percent`.
fn share_of_time_in_nmis(ctx: &Ctx) -> Result<()> {
    let paranoid = Setting::change(PARANOID, 2)?;
    pin(gettid(), 0)?;
    for period in [1, 100, 10_000] {
        let mut shares = Vec::new();
        for pmu in [ctx.in_tree()?, ctx.pmu()?] {
            let rate = SampleRate::limit(100_000)?;
            rate.set_percent(25)?;
            let alone = instructions();
            shares.push(share(&pmu, alone, period)?);
            println!(
                "# {}: period {period}: {} of 1000, then {} samples a second",
                pmu.name,
                shares[shares.len() - 1],
                SampleRate::now()?
            );
        }
        // perf aims at a quarter of the time, and checks it now and then.
        ensure!(
            shares[1] < 500,
            "period {period}: {} of 1000, in-tree {}",
            shares[1],
            shares[0]
        );
    }
    paranoid.restore()
}
