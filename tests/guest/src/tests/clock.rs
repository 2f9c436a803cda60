// SPDX-License-Identifier: GPL-2.0
//! rust_clock: counts, which are held against the in-tree clocks in the same group, and
//! what samples contain.
//!
//! The task-clocks of a group are equal to the nanosecond, however busy the host is: perf
//! gives all of them the same time of their context when it starts and stops them.
//! clock_icount.rs tests what depends on how long something takes.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use perf_event::{Counter, SampleFlag};
use perf_event_open_sys::bindings::PERF_CONTEXT_USER;

use super::sampling::for_each_sample;
use super::user_read::Constants;
use super::{expect, find_undisturbed, undisturbed};
use crate::clocks::{
    busy_until, event, group, group_with, sampler, Clock, Clocks, MIN_PERIOD, RUST_CLOCK,
};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Mode};
use crate::program::{FORK_WAIT, STOPPED_LOOP};
use crate::setting::Affinity;
use crate::tests;
use crate::tool::Perf;
use crate::workload;

pub const TESTS: &[Test] = tests![
    sysfs,
    by_name,
    task_clocks_agree,
    cpu_clocks_agree,
    task_clock_is_the_running_time,
    agree_over_sleep,
    agree_over_children,
    agree_over_threads,
    agree_on_another_process,
    agree_on_two_cpus: [Cpus(2)],
    of_one_cpu,
    group_with_instructions: [ExactCounts],
    a_thousand_at_once: [Root],
    closed_while_sampling: [Root],
    contents_of_samples,
    excluded_samples,
    user_page,
    perf_stat: [PerfTool],
];

/// The files say what the perf tool needs to know, and nothing else.
fn sysfs(_: &Ctx) -> Result<()> {
    let dir = Clocks::find()?.ours.dir();
    let mut found = Vec::new();
    for folder in ["format", "events"] {
        for file in fs::read_dir(dir.join(folder))? {
            let path = file?.path();
            let text = fs::read_to_string(&path)?;
            found.push((path.strip_prefix(&dir)?.display().to_string(), text));
        }
    }
    found.sort();
    let want = [
        ("events/sw-cpu-clock", "event=0x00\n"),
        ("events/sw-cpu-clock.scale", "1e-6\n"),
        ("events/sw-cpu-clock.unit", "msec\n"),
        ("events/sw-task-clock", "event=0x01\n"),
        ("events/sw-task-clock.scale", "1e-6\n"),
        ("events/sw-task-clock.unit", "msec\n"),
        ("format/cpu-clock", "config:62\n"),
        ("format/event", "config:0-61\n"),
        ("format/task-clock", "config:63\n"),
    ];
    let want = want.map(|(file, text)| (file.to_string(), text.to_string()));
    ensure!(found == want, "{found:?}, expected {want:?}");
    Ok(())
}

/// A bit of `config` selects an event as its number does: perf sets it for
/// `rust_clock/task-clock/`.
fn by_name(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    let open = |config| clocks.ours.raw(config).include_kernel().build();
    let of_task = |name: &str| {
        let event = event(&clocks.theirs, Clock::Task);
        let mut leader = event.build()?;
        let mut by_name = clocks.ours.raw(clocks.ours.encode(name)?);
        let by_name = by_name.include_kernel().enabled(true);
        let mut by_name = by_name.build_with_group(&mut leader)?;
        workload::tight_loop(10_000).measure(&leader)?;
        anyhow::Ok([leader.read()?, by_name.read()?])
    };
    let [theirs, ours] = of_task("task-clock")?;
    expect("task-clock by its name", "ns", ours, theirs)?;
    let [_, ours] = of_task("cpu-clock")?;
    ensure!(ours > 0, "cpu-clock by its name counts nothing");
    for config in [3 << 62, (1 << 62) | 1, (1 << 63) | 1, 1 << 61] {
        ensure!(open(config).is_err(), "config {config:#x} opens");
    }
    Ok(())
}

/// A group of both task-clocks, each twice, in turns.
fn task_clocks(clocks: &Clocks) -> Result<Vec<Counter>> {
    let pair = [(&clocks.theirs, Clock::Task), (&clocks.ours, Clock::Task)];
    group(&[pair[0], pair[1], pair[0], pair[1]])
}

/// Checks that all events of a stopped group have the same count, and returns it.
fn expect_equal(what: &str, group: &mut [Counter]) -> Result<u64> {
    let counts: Vec<u64> = group
        .iter_mut()
        .map(Counter::read)
        .collect::<Result<_, _>>()?;
    ensure!(
        counts.iter().all(|count| *count == counts[0]),
        "{what}: {counts:?}, expected equal counts"
    );
    ensure!(counts[0] > 0, "{what}: nothing was counted");
    Ok(counts[0])
}

/// After each of 200 loops rust_clock's task-clock and perf's own have the same count, which grows.
fn task_clocks_agree(_: &Ctx) -> Result<()> {
    let mut group = task_clocks(&Clocks::find()?)?;
    let mut before = 0;
    for round in 0..200 {
        workload::tight_loop(10_000).measure(&group[0])?;
        let count = expect_equal(&format!("round {round}"), &mut group)?;
        ensure!(count > before, "round {round} was not counted");
        before = count;
    }
    Ok(())
}

/// An event counts less than the one that is enabled before it and disabled after it,
/// whichever PMU has them. If perf restarts the outer event to enable the inner one, it
/// starts the inner one last.
fn cpu_clocks_agree(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    let [ours, theirs] = clocks.both();
    let workload = workload::tight_loop(100_000);
    for [outer, inner] in [[ours, theirs], [theirs, ours]] {
        for _ in 0..50 {
            let [outer_count, inner_count] = find_undisturbed(|| {
                let mut outer = event(outer, Clock::Cpu).build()?;
                let mut inner = event(inner, Clock::Cpu).build()?;
                let alone = undisturbed(|| {
                    outer.enable()?;
                    inner.enable()?;
                    workload.run();
                    inner.disable()?;
                    Ok(outer.disable()?)
                })?;
                Ok(alone.then_some([outer.read()?, inner.read()?]))
            })?;
            ensure!(
                0 < inner_count && inner_count < outer_count,
                "{}: {inner_count} ns within {outer_count} ns of {}",
                inner.name,
                outer.name
            );
        }
    }
    Ok(())
}

/// perf's own account of how long an event was on a CPU is made of the same times.
fn task_clock_is_the_running_time(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    let mut counter = event(&clocks.ours, Clock::Task).build()?;
    for _ in 0..100 {
        workload::tight_loop(10_000).measure(&counter)?;
        thread::yield_now();
        let data = counter.read_full()?;
        let running = data.time_running().context("no time_running")?;
        let running = running.as_nanos() as u64;
        expect("time running", "ns", data.count(), running)?;
    }
    Ok(())
}

/// Both task clocks have the same count over a loop and a sleep.
fn agree_over_sleep(_: &Ctx) -> Result<()> {
    let mut group = task_clocks(&Clocks::find()?)?;
    for milliseconds in [1, 10, 100] {
        let sleep = workload::around_sleep(milliseconds * 1_000_000, 10_000);
        sleep.measure(&group[0])?;
        expect_equal("with a sleep", &mut group)?;
    }
    Ok(())
}

/// Opens a group that other tasks inherit, of this process or another one.
fn inherited(clocks: &Clocks, pid: i32) -> Result<Vec<Counter>> {
    let [ours, theirs] = clocks.both().map(|pmu| (pmu, Clock::Task));
    group_with(&[ours, theirs, ours], |builder| {
        builder.inherit(true).observe_pid(pid);
    })
}

/// Both task clocks have the same count for a process and its five children.
fn agree_over_children(_: &Ctx) -> Result<()> {
    let installed = FORK_WAIT.install()?;
    let child = installed.stopped()?;
    let mut group = inherited(&Clocks::find()?, child.pid().as_raw())?;
    group[0].enable()?;
    child.finish()?;
    expect_equal("a process and its children", &mut group)?;
    Ok(())
}

/// Both task clocks have the same count for a thread and four others that it starts.
fn agree_over_threads(_: &Ctx) -> Result<()> {
    let mut group = inherited(&Clocks::find()?, 0)?;
    group[0].enable()?;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| workload::tight_loop(1_000_000).run());
        }
    });
    group[0].disable()?;
    expect_equal("four threads", &mut group)?;
    Ok(())
}

/// Both task clocks have the same count for another process, which ends while it is counted.
fn agree_on_another_process(_: &Ctx) -> Result<()> {
    let installed = STOPPED_LOOP.install()?;
    let child = installed.spawn_self_stopping()?;
    let mut group = inherited(&Clocks::find()?, child.pid().as_raw())?;
    group[0].enable()?;
    child.finish()?;
    expect_equal("another process", &mut group)?;
    Ok(())
}

/// Both task clocks have the same count for a task that moves while it is counted.
fn agree_on_two_cpus(_: &Ctx) -> Result<()> {
    let mut group = task_clocks(&Clocks::find()?)?;
    let affinity = Affinity::save()?;
    group[0].enable()?;
    for round in 0..100 {
        affinity.pin(round % 2)?;
        workload::tight_loop(10_000).run();
    }
    group[0].disable()?;
    expect_equal("on two CPUs", &mut group)?;
    Ok(())
}

/// An event of a CPU counts whether or not a task runs there: no less than the time that
/// this thread slept.
fn of_one_cpu(_: &Ctx) -> Result<()> {
    const SLEEP: Duration = Duration::from_millis(50);
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        let mut builder = event(&clocks.ours, clock);
        let mut counter = builder.any_pid().one_cpu(0).build()?;
        counter.enable()?;
        thread::sleep(SLEEP);
        counter.disable()?;
        let count = counter.read()?;
        ensure!(
            u128::from(count) >= SLEEP.as_nanos(),
            "{clock:?}: {count} ns, expected at least {SLEEP:?}"
        );
    }
    Ok(())
}

/// Instructions are exact in a group with clocks, as its leader and as a member.
fn group_with_instructions(ctx: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    let workload = workload::tight_loop(100_000);
    let pmu = ctx.pmu()?;
    let mut instructions = pmu.open(Event::Instructions, Mode::User)?;
    let mut members = [&clocks.ours, &clocks.theirs]
        .into_iter()
        .map(|pmu| {
            let mut builder = event(pmu, Clock::Task);
            Ok(builder.enabled(true).build_with_group(&mut instructions)?)
        })
        .collect::<Result<Vec<Counter>>>()?;
    workload.measure(&instructions)?;
    let count = instructions.read()?;
    expect("leader", "instructions", count, workload.instructions())?;
    expect_equal("members", &mut members)?;

    let mut leader = event(&clocks.ours, Clock::Task).build()?;
    let mut instructions = pmu
        .event(Event::Instructions)
        .enabled(true)
        .build_with_group(&mut leader)?;
    let mut member = event(&clocks.theirs, Clock::Task)
        .enabled(true)
        .build_with_group(&mut leader)?;
    workload.measure(&leader)?;
    let count = instructions.read()?;
    expect("member", "instructions", count, workload.instructions())?;
    expect("leader", "ns", leader.read()?, member.read()?)
}

/// Raises the number of files that this process may open.
pub(super) fn allow_files(number: u64) -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, number, hard.max(number))?;
    Ok(())
}

/// There is no table of events that could be full.
fn a_thousand_at_once(_: &Ctx) -> Result<()> {
    const EVENTS: usize = 1_000;
    allow_files(2 * EVENTS as u64)?;
    let clocks = Clocks::find()?;
    let mut all = vec![(&clocks.theirs, Clock::Task)];
    all.extend(vec![(&clocks.ours, Clock::Task); EVENTS]);
    let mut group = group(&all)?;
    for _ in 0..3 {
        workload::tight_loop(10_000).measure(&group[0])?;
        expect_equal("a thousand events", &mut group)?;
    }
    Ok(())
}

/// The queued timers whose handler is the module's, as /proc/timer_list has them.
fn timers() -> Result<usize> {
    let text = fs::read_to_string("/proc/timer_list")?;
    let timers = text.lines().filter(|line| line.contains("[rust_perf]"));
    Ok(timers.count())
}

/// Expects one timer. The list is not made at once: a timer is missing in it, or there twice,
/// if the task moves to another CPU meanwhile, or if a timer before it expires.
fn expect_timer() -> Result<()> {
    find_undisturbed(|| Ok((timers()? == 1).then_some(()))).context("an enabled event has no timer")
}

/// Events are closed while their timers run, some of them in the middle of a period and
/// some after samples. No timer is left.
fn closed_while_sampling(_: &Ctx) -> Result<()> {
    const EVENTS: usize = 10_000;
    let clocks = Clocks::find()?;
    expect("at first", "timers", timers()? as u64, 0)?;
    for i in 0..EVENTS {
        let mut builder = event(&clocks.ours, Clock::ALL[i % 2]);
        // The one whose timer is looked for must not be throttled meanwhile.
        let period = if i % 1_000 == 0 { 1_000_000 } else { 1 };
        let mut counter = builder
            .sample_period(period)
            .sample(SampleFlag::IP | SampleFlag::CALLCHAIN)
            .build()?;
        counter.enable()?;
        if i % 1_000 == 0 {
            expect_timer()?;
        }
        // From none to a few periods.
        workload::tight_loop(1 + (i as u64 * 37) % 20_000).run();
        drop(counter);
        if i % 100 == 0 {
            expect("a closed event", "timers", timers()? as u64, 0)?;
        }
    }
    expect("in the end", "timers", timers()? as u64, 0)
}

/// Samples of a loop in user mode have its call chain, its registers and the period.
fn contents_of_samples(_: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_000_000;
    // `asm/perf_regs.h`
    const PERF_REG_X86_IP: u64 = 8;
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        let mut builder = event(&clocks.ours, clock);
        builder
            .exclude_kernel(true)
            .sample_period(PERIOD)
            .sample_regs_user(1 << PERF_REG_X86_IP);
        // perf-event2's method for this field sets sample_regs_user instead.
        builder.attrs_mut().sample_regs_intr = 1 << PERF_REG_X86_IP;
        let fields = SampleFlag::IP
            | SampleFlag::PERIOD
            | SampleFlag::CALLCHAIN
            | SampleFlag::REGS_USER
            | SampleFlag::REGS_INTR;
        let mut sampler = sampler(&mut builder, fields)?;
        let [leaf, middle, outer] = workload::chain_of_calls();
        let mut inside = 0;
        // The kernel may excuse itself from a few samples; the host may be slow.
        for _ in 0..1_000 {
            workload::chain(1_000_000).measure(&*sampler)?;
            for_each_sample(&mut sampler, |sample| {
                expect(
                    "period",
                    "ns",
                    sample.period().context("no PERIOD")?,
                    PERIOD,
                )?;
                let ip = sample.ip().context("no IP")?;
                for registers in [sample.regs_user(), sample.regs_intr()] {
                    let registers = registers.context("no registers")?;
                    expect("RIP", "as IP", registers.regs[0], ip)?;
                }
                let chain = sample.callchain().context("no call chain")?;
                // The loop is DEC (three bytes) and JNZ.
                if [leaf, leaf + 3].contains(&ip) {
                    inside += 1;
                    let want = [PERF_CONTEXT_USER, ip, middle, outer];
                    ensure!(chain == want, "call chain {chain:x?}, expected {want:x?}");
                }
                Ok(())
            })?;
            if inside >= 20 {
                break;
            }
        }
        ensure!(inside >= 20, "{clock:?}: only {inside} samples in the loop");
    }
    Ok(())
}

/// Whether an address is the kernel's.
fn is_kernel(ip: u64) -> bool {
    ip >> 63 == 1
}

/// exclude_user and exclude_kernel leave samples out. The count is that of all time.
fn excluded_samples(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    for pmu in clocks.both() {
        for (no_user, no_kernel) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut all = event(pmu, Clock::Task);
            all.sample_period(100_000);
            let mut all = sampler(&mut all, SampleFlag::IP)?;
            let mut some = event(pmu, Clock::Task);
            some.sample_period(100_000)
                .exclude_user(no_user)
                .exclude_kernel(no_kernel);
            let mut some = sampler(&mut some, SampleFlag::IP)?;
            // Wait until the event that excludes nothing has seen both sides.
            let (mut user, mut kernel) = (0, 0);
            let (mut some_user, mut some_kernel) = (0, 0);
            for _ in 0..1_000 {
                all.enable()?;
                some.enable()?;
                workload::tight_loop(100_000).run();
                workload::syscalls(1_000).run();
                some.disable()?;
                all.disable()?;
                for_each_ip(&mut all, &mut user, &mut kernel)?;
                for_each_ip(&mut some, &mut some_user, &mut some_kernel)?;
                let enough = (no_user || some_user >= 10) && (no_kernel || some_kernel >= 10);
                if user >= 10 && kernel >= 10 && enough {
                    break;
                }
            }
            let what = format!(
                "{}: {some_user} user, {some_kernel} kernel samples",
                pmu.name
            );
            ensure!(
                user >= 10 && kernel >= 10,
                "{what}; {user}, {kernel} of all"
            );
            ensure!(
                (some_user == 0) == no_user,
                "{what}, exclude_user={no_user}"
            );
            ensure!(
                (some_kernel == 0) == no_kernel,
                "{what}, exclude_kernel={no_kernel}"
            );
            ensure!(some.read()? > 0, "excluded time is not counted");
        }
    }
    Ok(())
}

/// Counts samples of user and kernel mode.
fn for_each_ip(sampler: &mut perf_event::Sampler, user: &mut u64, kernel: &mut u64) -> Result<()> {
    for_each_sample(sampler, |sample| {
        let ip = sample.ip().context("no IP")?;
        *(if is_kernel(ip) {
            &mut *kernel
        } else {
            &mut *user
        }) += 1;
        Ok(())
    })
}

/// What the mapped page says of time is the same as the in-tree event's, and no event
/// names a counter.
fn user_page(_: &Ctx) -> Result<()> {
    let clocks = Clocks::find()?;
    for clock in Clock::ALL {
        for period in [0, MIN_PERIOD] {
            let page = |pmu| {
                let mut counter = event(pmu, clock).sample_period(period).build()?;
                counter.enable()?;
                busy_until(&mut counter, 1_000_000)?;
                Constants::of(&counter)
            };
            let [ours, in_tree] = clocks.both();
            // The kernel may measure the TSC again, and then they change.
            let [ours, in_tree] = find_undisturbed(|| {
                let pages = [page(ours)?, page(in_tree)?];
                Ok((page(ours)? == pages[0]).then_some(pages))
            })?;
            ensure!(ours == in_tree, "{clock:?}: {ours:?}, in-tree {in_tree:?}");
        }
    }
    Ok(())
}

/// The perf tool shows milliseconds for the names of the files, and nanoseconds for perf's own.
fn perf_stat(_: &Ctx) -> Result<()> {
    let names = ["sw-cpu-clock", "sw-task-clock", "cpu-clock", "task-clock"];
    let events = names.map(|name| format!("{RUST_CLOCK}/{name}/"));
    let output = Perf::stat().args(["-e", &events.join(","), "true"]).run()?;
    let text = String::from_utf8_lossy(&output.stderr);
    for event in events {
        let row = text.lines().find(|line| line.contains(&event));
        let row = row.with_context(|| format!("no {event} in\n{text}"))?;
        let unit = if event.contains("/sw-") { "msec" } else { "" };
        ensure!(row.contains(&format!(",{unit},{event},")), "{row}");
    }
    Ok(())
}
