// SPDX-License-Identifier: GPL-2.0
//! The operations that are measured, each on a PMU or without events.
//!
//! All run on CPU 0 with a real-time priority, so that no other task interferes. Those of
//! [`of_several_cpus`] have events on other CPUs too.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::process;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::sched::sched_yield;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::WaitStatus;
use nix::unistd::{fork, pipe, ForkResult, Pid};
use perf_event::{Builder, Counter, ReadFormat, SampleFlag, Sampler};

use super::{cheapest, Window};
use crate::pmu::{BuilderExt, Event, Mode, Pmu};
use crate::setting::Affinity;
use crate::tests::cost::now;
use crate::tests::hotplug;
use crate::tests::sampling::RING;
use crate::tests::user_read::Page;
use crate::waiting;
use crate::workload;

/// How many windows are measured for a figure.
const WINDOWS: usize = 12;

/// Measures so many times of an operation. `None` if the PMU cannot do it.
type Measure = Box<dyn Fn(Option<&Pmu>, u32) -> Result<Option<Window>>>;

/// Something that is done with events, or without.
pub struct Operation {
    /// What it is.
    pub name: String,
    /// How often it is done in a window.
    pub times: u32,
    /// How long events are on the counters before perf rotates them.
    turn: Duration,
    /// Whether CPUs wait in a loop meanwhile, so that the number of instructions means nothing.
    pub spins: bool,
    measure: Measure,
}

/// An interval that no measurement lasts. With perf's own interval, the cost of a window would depend
/// on when it began.
const NO_TURN: Duration = Duration::from_secs(100);

/// The interval of rotations that are measured: perf's own with 250 ticks a second, as Debian's kernels
/// have them.
const TURN: Duration = Duration::from_millis(4);

/// How often perf rotates events in a window. After twice the number of events all of them are where
/// they were.
const TURNS: u32 = 32;

impl Operation {
    pub fn new(
        name: impl Into<String>,
        times: u32,
        measure: impl Fn(Option<&Pmu>, u32) -> Result<Option<Window>> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            times,
            turn: NO_TURN,
            spins: false,
            measure: Box::new(measure),
        }
    }

    /// While perf rotates the events.
    fn rotating(self) -> Self {
        Self { turn: TURN, ..self }
    }

    /// While CPUs wait in a loop.
    fn spinning(self) -> Self {
        Self {
            spins: true,
            ..self
        }
    }

    /// What a window of it costs with events of `pmu`, or without events.
    pub fn measure(&self, pmu: Option<&Pmu>) -> Result<Option<Window>> {
        let _affinity = Affinity::pinned_to(0)?;
        let _real_time = RealTime::begin()?;
        let _turn = pmu.map(|pmu| pmu.set_turn(self.turn)).transpose()?;
        // With an event of another task the driver keeps the counters meanwhile.
        let keep = |pmu: &Pmu| {
            let event = || pmu.open(Event::Instructions, Mode::User);
            Child::fork(event, |_event, mut go| {
                go.read_to_end(&mut Vec::new())?;
                Ok(())
            })
        };
        let _keeper = pmu.map(keep).transpose()?;
        (self.measure)(pmu, self.times)
    }
}

/// A real-time priority, until it is dropped. Children inherit it.
struct RealTime;

impl RealTime {
    fn begin() -> Result<Self> {
        Self::set(libc::SCHED_FIFO, 1)?;
        Ok(Self)
    }

    fn set(policy: i32, priority: i32) -> io::Result<()> {
        let parameters = libc::sched_param {
            sched_priority: priority,
        };
        // SAFETY: `parameters` is valid for reads.
        match unsafe { libc::sched_setscheduler(0, policy, &parameters) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        if let Err(error) = Self::set(libc::SCHED_OTHER, 0) {
            eprintln!("sched_setscheduler: {error}");
        }
    }
}

/// The numbers of events of a task, from what fits on any PMU to more than any has.
const NUMBERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The numbers of groups of two events of a task.
const GROUPS: [usize; 4] = [1, 2, 4, 8];

/// How many CPUs have events.
const CPUS: [u32; 4] = [1, 2, 4, suites::BENCH_CPUS];

/// The operations on one CPU, in the order of the table.
pub fn of_one_cpu() -> Vec<Operation> {
    let mut all = Vec::new();
    for n in NUMBERS {
        all.push(Operation::new(
            format!("switch between two tasks, events each: {n}"),
            100,
            move |pmu, times| switch(times, || open(pmu, n), true),
        ));
    }
    for n in GROUPS {
        all.push(Operation::new(
            format!("switch between two tasks, groups of 2 events each: {n}"),
            100,
            move |pmu, times| switch(times, || open_groups(pmu, n), true),
        ));
    }
    all.extend([
        Operation::new(
            "switch, only one of the two has 4 events",
            100,
            |pmu, times| switch(times, || open(pmu, 4), false),
        ),
        Operation::new("switch, the same 4 events inherited", 100, inherited),
        Operation::new("disable and enable a group of 4", 50, group),
        Operation::new("open and close an event", 20, open_and_close),
        Operation::new("read a group of 4", 50, read_group),
        Operation::new("read an event by RDPMC", 100, read_by_rdpmc),
        Operation::new("PMI with a sample of IP", SAMPLES, |pmu, times| {
            samples(pmu, times, SampleFlag::IP)
        }),
        Operation::new("PMI with a call chain", SAMPLES, |pmu, times| {
            samples(pmu, times, SampleFlag::IP | SampleFlag::CALLCHAIN)
        }),
        Operation::new("exit of a task with 8 events", 1, exit),
        Operation::new("rotation of 16 events", TURNS, rotation).rotating(),
    ]);
    all
}

/// The operations on several CPUs, in the order of the table.
pub fn of_several_cpus() -> Vec<Operation> {
    let on_cpus = |n| {
        Operation::new(
            format!("disable and enable a group of 4 on each CPU, CPUs: {n}"),
            1,
            move |pmu, _| group_on_cpus(pmu, n as usize),
        )
    };
    let mut all: Vec<_> = CPUS.into_iter().map(on_cpus).collect();
    let replug = Operation::new(
        "take a CPU with 4 events offline and online",
        1,
        |pmu, _| replug(pmu),
    );
    all.push(replug.spinning());
    all
}

/// Events in the order in which a task gets them. Fixed counters count the first two, if there are
/// any.
const EVENTS: [Event; 8] = [
    Event::Instructions,
    Event::CpuCycles,
    Event::Branches,
    Event::BranchMisses,
    Event::CacheReferences,
    Event::CacheMisses,
    Event::RefCycles,
    Event::BusCycles,
];

/// So many events as the PMU has them.
fn events(pmu: &Pmu, n: usize) -> impl Iterator<Item = Event> + '_ {
    let has = EVENTS.into_iter().filter(|event| pmu.has(*event));
    let has: Vec<_> = has.collect();
    has.into_iter().cycle().take(n)
}

/// An event of the calling task, in user and kernel mode, enabled.
fn builder(pmu: &Pmu, event: Event) -> Builder<'static> {
    let mut builder = pmu.event(event);
    builder.filter(Mode::Both).enabled(true);
    builder
}

/// Opens events of the calling task. Without a PMU there are none.
fn open(pmu: Option<&Pmu>, n: usize) -> Result<Vec<Counter>> {
    let Some(pmu) = pmu else {
        return Ok(Vec::new());
    };
    let open = |event| Ok(builder(pmu, event).build()?);
    events(pmu, n).map(open).collect()
}

/// Opens groups of two events of the calling task.
fn open_groups(pmu: Option<&Pmu>, n: usize) -> Result<Vec<Vec<Counter>>> {
    (0..n).map(|_| open_group(pmu, 2, None)).collect()
}

/// Opens events of the calling task, or of a CPU, as a group.
fn open_group(pmu: Option<&Pmu>, n: usize, cpu: Option<usize>) -> Result<Vec<Counter>> {
    let mut group: Vec<Counter> = Vec::new();
    let Some(pmu) = pmu else {
        return Ok(group);
    };
    for event in events(pmu, n) {
        let mut builder = builder(pmu, event);
        builder.read_format(ReadFormat::GROUP);
        if let Some(cpu) = cpu {
            builder.any_pid().one_cpu(cpu);
        }
        let counter = match group.first_mut() {
            None => builder.build(),
            Some(leader) => builder.build_with_group(leader),
        };
        group.push(counter?);
    }
    Ok(group)
}

/// A child process. If it has not been waited for, it is killed when this is dropped.
pub struct Child {
    pid: Option<Pid>,
    /// The child ends or goes on when this is closed.
    go: Option<File>,
}

impl Child {
    /// Forks. The child calls `prepare`, which the parent waits for, and then `run`.
    pub fn fork<T>(
        prepare: impl FnOnce() -> Result<T>,
        run: impl FnOnce(T, File) -> Result<()>,
    ) -> Result<Self> {
        let (ready, set_ready) = pipe()?;
        let (wait, go) = pipe()?;
        // SAFETY: this program has one thread, so that the child may do anything.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop((ready, go));
                let prepared = prepare().and_then(|it| {
                    File::from(set_ready).write_all(&[1])?;
                    run(it, File::from(wait))
                });
                process::exit(i32::from(prepared.is_err()));
            }
            ForkResult::Parent { child } => {
                drop((set_ready, wait));
                let child = Self {
                    pid: Some(child),
                    go: Some(File::from(go)),
                };
                let mut byte = [0];
                File::from(ready)
                    .read_exact(&mut byte)
                    .context("the child could not open its events")?;
                Ok(child)
            }
        }
    }

    /// Lets it go, and waits for its end.
    fn finish(&mut self) -> Result<()> {
        self.go = None;
        if let Some(pid) = self.pid.take() {
            let status = waiting::process(pid, None, "the end of a child")?;
            ensure!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            // Errors: none, as nobody else waits for it.
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waiting::process(pid, None, "the end of a child that was killed");
        }
    }
}

/// Measures so many times of `work` in a window.
pub fn repeated(times: u32, mut work: impl FnMut() -> Result<()>) -> Result<Option<Window>> {
    let all = |(): &mut ()| (0..times).try_for_each(|_| work());
    cheapest(WINDOWS, 1, || Ok(()), all).map(Some)
}

/// Yields to another task of the same priority, again and again.
fn yield_forever() -> Result<()> {
    loop {
        sched_yield()?;
    }
}

/// Each yield of this task is a switch to the other one and one back.
fn switches(times: u32) -> Result<Option<Window>> {
    repeated(times / 2, || Ok(sched_yield()?))
}

/// Switches between two tasks, of which the other one opens events, or both do.
pub fn switch<E>(times: u32, open: impl Fn() -> Result<E>, both: bool) -> Result<Option<Window>> {
    let _other = Child::fork(&open, |_events, _| yield_forever())?;
    let _events = both.then(open).transpose()?;
    switches(times)
}

/// Switches between a task and its child, which has inherited its events: perf leaves them on their
/// counters.
fn inherited(pmu: Option<&Pmu>, times: u32) -> Result<Option<Window>> {
    let mut events = Vec::new();
    if let Some(pmu) = pmu {
        for event in self::events(pmu, 4) {
            events.push(builder(pmu, event).inherit(true).build()?);
        }
    }
    let _other = Child::fork(|| Ok(()), |(), _| yield_forever())?;
    switches(times)
}

fn group(pmu: Option<&Pmu>, times: u32) -> Result<Option<Window>> {
    let mut group = open_group(pmu, 4, None)?;
    repeated(times, || disable_and_enable(&mut group))
}

fn disable_and_enable(group: &mut [Counter]) -> Result<()> {
    if let Some(leader) = group.first_mut() {
        leader.disable()?;
        leader.enable()?;
    }
    Ok(())
}

/// A group of each of so many CPUs, this one among them.
fn group_on_cpus(pmu: Option<&Pmu>, cpus: usize) -> Result<Option<Window>> {
    let group = |cpu| open_group(pmu, 4, Some(cpu));
    let mut groups: Vec<_> = (0..cpus).map(group).collect::<Result<_>>()?;
    let all = |(): &mut ()| {
        groups
            .iter_mut()
            .try_for_each(|group| disable_and_enable(group))
    };
    cheapest(WINDOWS, cpus, || Ok(()), all).map(Some)
}

/// Another CPU goes offline and comes online again.
fn replug(pmu: Option<&Pmu>) -> Result<Option<Window>> {
    const CPU: usize = 1;
    let online = hotplug::online(CPU)?;
    let prepare = || open_group(pmu, 4, Some(CPU));
    let work = |_events: &mut Vec<Counter>| {
        online.set(0)?;
        online.set(1)
    };
    cheapest(WINDOWS, CPU + 1, prepare, work).map(Some)
}

/// Between two windows the kernel frees what it frees after a grace period of RCU. Otherwise a window
/// might do that, or allocate memory because of what is not free yet.
fn open_and_close(pmu: Option<&Pmu>, times: u32) -> Result<Option<Window>> {
    let once = || open(pmu, 1).map(drop);
    let prepare = || {
        thread::sleep(Duration::from_millis(200));
        // The first time after that is not like the others.
        once()
    };
    let all = |(): &mut ()| (0..times).try_for_each(|_| once());
    cheapest(WINDOWS, 1, prepare, all).map(Some)
}

fn read_group(pmu: Option<&Pmu>, times: u32) -> Result<Option<Window>> {
    let group = open_group(pmu, 4, None)?;
    let mut counts = [0u64; 16];
    repeated(times, || {
        if let Some(leader) = group.first() {
            let size = size_of_val(&counts);
            // SAFETY: `counts` is valid for writes of its size.
            let read = unsafe { libc::read(leader.as_raw_fd(), counts.as_mut_ptr().cast(), size) };
            ensure!(read > 0, "cannot read the group");
        }
        Ok(())
    })
}

fn read_by_rdpmc(pmu: Option<&Pmu>, times: u32) -> Result<Option<Window>> {
    let event = open(pmu, 1)?;
    let page = event.first().map(Page::map).transpose()?;
    if page.as_ref().is_some_and(|page| page.index().is_err()) {
        return Ok(None);
    }
    repeated(times, || {
        black_box(page.as_ref().map(Page::count));
        Ok(())
    })
}

/// The number of samples in a window.
pub const SAMPLES: u32 = 20;

/// Samples of instructions in user mode.
fn samples(pmu: Option<&Pmu>, times: u32, fields: SampleFlag) -> Result<Option<Window>> {
    const PERIOD: u64 = 20_000;
    let sampler = |pmu: &Pmu| -> Result<Sampler> {
        let mut builder = pmu.event(Event::Instructions);
        builder.sample_period(PERIOD).sample(fields);
        builder.enabled(true);
        Ok(builder.build()?.sampled(RING)?)
    };
    let _sampler = pmu.map(sampler).transpose()?;
    // A loop of two instructions.
    let periods = workload::tight_loop(PERIOD * u64::from(times) / 2);
    repeated(1, || {
        periods.run();
        Ok(())
    })
}

/// More windows than of other operations: what a task's end frees often takes longer paths.
const EXITS: usize = 60;

fn exit(pmu: Option<&Pmu>, _: u32) -> Result<Option<Window>> {
    let prepare = || {
        Child::fork(
            || open(pmu, 8),
            |_events, mut go| {
                // Until the parent closes it.
                go.read_to_end(&mut Vec::new())?;
                // SAFETY: this ends the process at once; the kernel closes what it has open.
                unsafe { libc::_exit(0) }
            },
        )
    };
    cheapest(EXITS, 1, prepare, Child::finish).map(Some)
}

/// A loop, while perf rotates more events than there are counters.
fn rotation(pmu: Option<&Pmu>, times: u32) -> Result<Option<Window>> {
    // perf's timer for the next rotation may still be that of another operation. An idle guest
    // sleeps this long in no time.
    thread::sleep(NO_TURN);
    let _events = open(pmu, 16)?;
    let turns = workload::tight_loop((TURN * times).as_nanos() as u64 / 2);
    let work = |(): &mut ()| {
        turns.run();
        Ok(())
    };
    cheapest(8, 1, await_interrupt, work).map(Some)
}

/// Waits for the end of a timer interrupt, of the tick or of a rotation. The next one comes in no less
/// than half of [`TURN`], so that a window that is little longer than a multiple of it always has the
/// same number of them.
fn await_interrupt() -> Result<()> {
    // An instruction takes a nanosecond.
    const TURN_LENGTH: u64 = TURN.as_nanos() as u64;
    /// More than the loop takes, and less than an interrupt.
    const INTERRUPT: u64 = 1_000;
    let mut last = now();
    let mut before_last = None;
    loop {
        let time = now();
        if time - last > INTERRUPT {
            let both = before_last.map(|before| time - before);
            // Either half a turn or less since the one before, or no other comes in between.
            if both.is_some_and(|it| it <= TURN_LENGTH / 2 || it > TURN_LENGTH * 9 / 10) {
                return Ok(());
            }
            before_last = Some(time);
        }
        last = time;
    }
}
