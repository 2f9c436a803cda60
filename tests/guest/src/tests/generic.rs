// SPDX-License-Identifier: GPL-2.0
//! Generic events that name no PMU are the in-tree driver's, whether the module is loaded beside it
//! or not, and its code never takes an event of rust_pmu for one of its own.

use std::fmt;
use std::fs;
use std::io;
use std::mem::MaybeUninit;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use perf_event::{Builder, Counter};

use super::hybrid::on_each_type;
use crate::ctx::{Ctx, Test};
use crate::generic_events::{
    cache_event_names, HARDWARE_EVENTS, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE,
};
use crate::module;
use crate::pmu::{Event, Pmu};
use crate::setting::{Affinity, Setting};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, InTree];
    events_of_tasks,
    events_of_cpus,
    events_beside_an_open_one,
    events_with_the_type_of_the_pmu,
    groups_with_the_in_tree_driver,
    child_of_an_event_of_an_offline_cpu: [Cpus(2)],
];

/// What is opened, and on which CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Call {
    type_: u32,
    id: u64,
    /// `None` for an event of the calling thread.
    cpu: Option<usize>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_, id, cpu } = self;
        write!(f, "type {type_} event {id:#x} on {cpu:?}")
    }
}

/// What opening a plain event returns, and whether it counts what runs on its CPU.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Refused(i32),
    Opened { counted: bool },
}

impl Call {
    /// perf's generic events, and some that do not exist, of the calling thread or of a CPU.
    fn all(cpu: Option<usize>) -> Vec<Self> {
        let hardware = (0..=HARDWARE_EVENTS.len() as u64).map(|id| (PERF_TYPE_HARDWARE, id));
        let cache = cache_event_names().map(|(id, _)| (PERF_TYPE_HW_CACHE, id));
        let all = hardware.chain(cache).chain([(PERF_TYPE_HW_CACHE, 7)]);
        all.map(|(type_, id)| Self { type_, id, cpu }).collect()
    }

    fn builder(self) -> Builder<'static> {
        let mut builder = Builder::new(perf_event::events::Raw::new(self.id));
        builder.attrs_mut().type_ = self.type_;
        builder.exclude_hv(false);
        if let Some(cpu) = self.cpu {
            builder.any_pid().one_cpu(cpu).include_kernel();
        }
        builder
    }

    fn outcome(self) -> Result<Outcome> {
        let mut counter = match self.builder().build() {
            Ok(counter) => counter,
            Err(error) => return Ok(Outcome::Refused(number(&error)?)),
        };
        // Whether there is a rare event in other code is no fact of the driver.
        let counts_always = self.type_ == PERF_TYPE_HARDWARE && self.id < 2;
        if self.cpu.is_some() && !counts_always {
            return Ok(Outcome::Opened { counted: true });
        }
        let _affinity = self.cpu.map(Affinity::pinned_to).transpose()?;
        // A rare event may not occur if another task or CPU has a part of the period.
        super::alone(|| {
            counter.reset()?;
            workload::whole_periods(1).measure(&counter)
        })?;
        Ok(Outcome::Opened {
            counted: counter.read()? != 0,
        })
    }
}

fn number(error: &io::Error) -> Result<i32> {
    error.raw_os_error().context("no errno")
}

/// The number of users of the module: each event of it is one.
fn users() -> Result<u64> {
    let text = fs::read_to_string("/sys/module/rust_perf/refcnt").context("refcnt")?;
    Ok(text.trim().parse()?)
}

/// Runs `f` with the module loaded, and unloads it.
fn loaded<T>(ctx: &Ctx, f: impl FnOnce() -> Result<T>) -> Result<T> {
    module::insert(ctx)?.context("insmod")?;
    let result = f();
    module::remove().context("rmmod")?;
    result
}

/// Runs `f` without the module. It is loaded afterwards if it was before.
fn unloaded<T>(ctx: &Ctx, f: impl FnOnce() -> Result<T>) -> Result<T> {
    if !module::is_loaded() {
        return f();
    }
    module::remove().context("rmmod")?;
    let result = f();
    module::insert(ctx)?.context("insmod")?;
    result
}

/// Expects that these calls have the same outcomes with and without the module, and that none of the
/// events is the module's.
fn expect_same(ctx: &Ctx, calls: &[Call]) -> Result<()> {
    let outcomes = || {
        calls
            .iter()
            .map(|call| call.outcome())
            .collect::<Result<Vec<_>>>()
    };
    let without = outcomes()?;
    let (with, taken) = loaded(ctx, || {
        let with = outcomes()?;
        let before = users()?;
        let mut taken = Vec::new();
        for call in calls {
            let event = call.builder().build();
            if event.is_ok() && users()? != before {
                taken.push(call.to_string());
            }
        }
        Ok((with, taken))
    })?;
    for ((call, without), with) in calls.iter().zip(&without).zip(&with) {
        ensure!(
            with == without,
            "{call}: {with:?}, without the module {without:?}"
        );
    }
    ensure!(taken.is_empty(), "the module's: {taken:?}");
    let opened = |it: &&Outcome| matches!(it, Outcome::Opened { .. });
    println!(
        "# {} of {} open",
        without.iter().filter(opened).count(),
        without.len()
    );
    ensure!(without.iter().any(|it| opened(&it)), "no event opens");
    Ok(())
}

/// Plain generic events of a task, on each type of core, have the same errno and count with the
/// module as without it, and are not the module's.
fn events_of_tasks(ctx: &Ctx) -> Result<()> {
    unloaded(ctx, || {
        on_each_type(ctx, |ctx| expect_same(ctx, &Call::all(None)))
    })
}

/// Plain generic events of each CPU have the same errno and count with the module as without it, and
/// are not the module's. The kernel's detector of hard lockups opens its events like this.
fn events_of_cpus(ctx: &Ctx) -> Result<()> {
    let calls = (0..ctx.suite.cpus as usize).flat_map(|cpu| Call::all(Some(cpu)));
    unloaded(ctx, || expect_same(ctx, &calls.collect::<Vec<_>>()))
}

/// While an in-tree event is open, plain events of each CPU have the same outcome with the module as
/// without it.
fn events_beside_an_open_one(ctx: &Ctx) -> Result<()> {
    let of_cpu_0 = Call {
        type_: PERF_TYPE_HARDWARE,
        id: 0,
        cpu: Some(0),
    };
    let calls = (0..ctx.suite.cpus as usize).map(|cpu| Call {
        cpu: Some(cpu),
        ..of_cpu_0
    });
    unloaded(ctx, || {
        let _open = of_cpu_0.builder().build().context("an event of CPU 0")?;
        expect_same(ctx, &calls.collect::<Vec<_>>())
    })
}

/// Runs `f` for each of the module's PMUs, on a CPU that it is on.
fn with_each_type(ctx: &Ctx, f: impl FnMut(&Ctx) -> Result<()>) -> Result<()> {
    unloaded(ctx, || loaded(ctx, || on_each_type(ctx, f)))
}

/// Generic events with the number of rust_pmu in `config` are ENOENT: it has its own of these names.
fn events_with_the_type_of_the_pmu(ctx: &Ctx) -> Result<()> {
    with_each_type(ctx, |ctx| {
        let pmu = ctx.pmu()?;
        for Call { type_, id, .. } in Call::all(None) {
            match pmu.generic_by_number(type_, id).build() {
                Ok(_) => anyhow::bail!("type {type_} event {id:#x} opens"),
                Err(error) => {
                    let errno = number(&error)?;
                    ensure!(errno == libc::ENOENT, "type {type_} event {id:#x}: {errno}");
                }
            }
        }
        Ok(())
    })
}

/// Opens an event in the group of another, and returns the errno.
fn member(leader: &mut Counter, event: Builder<'static>) -> Result<i32> {
    match event.build_with_group(leader) {
        Ok(_) => Ok(0),
        Err(error) => number(&error),
    }
}

/// An in-tree event does not join a group of rust_pmu's, nor the other way round: with `config2`, by
/// which auto counter reload names members of the group, as without it. rust_pmu's event counts
/// exactly afterwards.
fn groups_with_the_in_tree_driver(ctx: &Ctx) -> Result<()> {
    // All that the in-tree driver has a meaning for in some group: auto counter reload, slots that
    // lead metrics, a metric, counters in samples.
    let changes: [fn(&mut Builder); 5] = [
        |_| {},
        |event| event.attrs_mut().__bindgen_anon_4.config2 = 1,
        |event| event.attrs_mut().__bindgen_anon_4.config2 = 0b11,
        |event| event.attrs_mut().config = 0x8000,
        |event| {
            event.sample_period(1_000_003);
            event.attrs_mut().__bindgen_anon_4.config2 = 0b10;
        },
    ];
    let try_all = |leader: &Pmu, joins: &Pmu| -> Result<Vec<i32>> {
        let mut errnos = Vec::new();
        for change in changes {
            let mut first = leader
                .event(Event::Instructions)
                .build()
                .context("a leader")?;
            let mut event = joins.event(Event::Branches);
            change(&mut event);
            errnos.push(member(&mut first, event)?);
            let code = workload::tight_loop(10_000);
            code.measure(&first)?;
            super::expect(
                &leader.name,
                "instructions",
                first.read()?,
                code.instructions(),
            )?;
        }
        Ok(errnos)
    };
    with_each_type(ctx, |ctx| {
        let (ours, in_tree) = (ctx.pmu()?, ctx.in_tree()?);
        for (leader, joins) in [(&ours, &in_tree), (&in_tree, &ours)] {
            let errnos = try_all(leader, joins)?;
            println!("# {} in a group of {}: {errnos:?}", joins.name, leader.name);
            ensure!(
                !errnos.contains(&0),
                "{} is led by {}",
                joins.name,
                leader.name
            );
        }
        Ok(())
    })
}

/// Forks, and returns the errno of that.
fn fork() -> Result<i32> {
    // SAFETY: the child calls nothing but `_exit`.
    match unsafe { libc::fork() } {
        -1 => Ok(Errno::last_raw()),
        // SAFETY: this ends the child at once.
        0 => unsafe { libc::_exit(0) },
        child => {
            let mut status = MaybeUninit::<libc::c_int>::uninit();
            // SAFETY: `status` is valid for writes, and the child is this process's.
            let waited = unsafe { libc::waitpid(child, status.as_mut_ptr(), 0) };
            ensure!(waited == child, "waitpid: {}", io::Error::last_os_error());
            Ok(0)
        }
    }
}

/// A task's event of a CPU that has gone offline, which its children inherit: fork() has the same
/// result with the module as without it. If the parent's PMU refuses the child's event, perf offers it
/// to others.
fn child_of_an_event_of_an_offline_cpu(ctx: &Ctx) -> Result<()> {
    let cpu = ctx.suite.cpus as usize - 1;
    let forked = || -> Result<i32> {
        let call = Call {
            type_: PERF_TYPE_HARDWARE,
            id: 1,
            cpu: None,
        };
        let mut builder = call.builder();
        builder.inherit(true).one_cpu(cpu);
        // On a hybrid CPU the plain event is of the performance cores.
        let pmu = on_cpu(cpu)?;
        builder.attrs_mut().config |= u64::from(pmu) << 32;
        let event = builder.build().context("an event of the last CPU")?;
        let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        let offline = Setting::change(online, 0)?;
        let errno = fork();
        offline.restore()?;
        drop(event);
        errno
    };
    let (without, with, left) = unloaded(ctx, || {
        let without = forked()?;
        loaded(ctx, || {
            let before = users()?;
            let with = forked()?;
            Ok((without, with, users()? - before))
        })
    })?;
    println!("# fork: errno {without}");
    ensure!(
        with == without,
        "errno {with}, without the module {without}"
    );
    super::expect("after fork", "events of the module", left, 0)
}

/// The type of the in-tree PMU of a CPU, or 0 if the plain type means it.
fn on_cpu(cpu: usize) -> Result<u32> {
    for name in ["cpu_core", "cpu_atom", "cpu_lowpower"] {
        let Ok(pmu) = Pmu::find(name) else { continue };
        let event = Call {
            type_: PERF_TYPE_HARDWARE,
            id: 1 | (u64::from(pmu.type_) << 32),
            cpu: Some(cpu),
        };
        if event.builder().build().is_ok() {
            return Ok(pmu.type_);
        }
    }
    Ok(0)
}
