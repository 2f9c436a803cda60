// SPDX-License-Identifier: GPL-2.0
//! The pages of events that are not on this CPU, or on none, and what it takes to map one.

use std::io;
use std::process;
use std::thread;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use nix::unistd::{fork, gettid, pause, ForkResult};
use perf_event::{Builder, Counter};

use super::super::interrupts_of;
use super::{expect_child_succeeds, KilledProcess, Page, Snapshot, SETTING};
use crate::ctx::Ctx;
use crate::pmu::{Event, Pmu};
use crate::setting::{pin, Setting};
use crate::waiting;
use crate::workload;

/// An event, and when its page is mapped. This task runs on CPU 0.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Disabled,
    /// The page is mapped after the event has been enabled.
    Enabled,
    EnabledWhileMapped,
    /// The event has been enabled, and disabled again.
    Stopped,
    /// The page is mapped, unmapped, and mapped again.
    MappedAgain,
    MappedAgainEnabled,
    /// It counts CPU 1.
    OfCpu,
    OfCpuDisabled,
    /// It counts this task while that runs on CPU 1.
    BoundToCpu,
    /// It counts a task that sleeps.
    OfSleepingTask,
    OfSleepingTaskDisabled,
    /// It counts a task that runs on CPU 1.
    OfRunningTask,
}

impl Case {
    const ALL: [Self; 12] = [
        Self::Disabled,
        Self::Enabled,
        Self::EnabledWhileMapped,
        Self::Stopped,
        Self::MappedAgain,
        Self::MappedAgainEnabled,
        Self::OfCpu,
        Self::OfCpuDisabled,
        Self::BoundToCpu,
        Self::OfSleepingTask,
        Self::OfSleepingTaskDisabled,
        Self::OfRunningTask,
    ];

    /// Whether the page of such an event of this PMU allows RDPMC, and whether it has an index.
    fn shows(self, pmu: &Pmu) -> Result<(bool, bool)> {
        let task = match self {
            Self::OfSleepingTask | Self::OfSleepingTaskDisabled => Some(spawn(false)?),
            Self::OfRunningTask => Some(spawn(true)?),
            _ => None,
        };
        let mut builder = pmu.event(Event::Instructions);
        builder.exclude_kernel(true);
        match self {
            Self::OfCpu | Self::OfCpuDisabled => builder.any_pid().one_cpu(1),
            Self::BoundToCpu => builder.one_cpu(1),
            _ => &mut builder,
        };
        if let Some(KilledProcess(pid)) = &task {
            if self != Self::OfRunningTask {
                waiting::asleep(*pid)?;
            }
            builder.observe_pid(pid.as_raw());
        }
        let mut event = builder.build()?;
        match self {
            Self::Enabled
            | Self::MappedAgainEnabled
            | Self::OfCpu
            | Self::BoundToCpu
            | Self::OfSleepingTask
            | Self::OfRunningTask => event.enable()?,
            Self::Stopped => workload::branches(100).measure(&event)?,
            Self::Disabled
            | Self::EnabledWhileMapped
            | Self::MappedAgain
            | Self::OfCpuDisabled
            | Self::OfSleepingTaskDisabled => {}
        }
        if matches!(self, Self::MappedAgain | Self::MappedAgainEnabled) {
            drop(Page::map(&event)?);
        }
        let page = Page::map(&event)?;
        if self == Self::EnabledWhileMapped {
            event.enable()?;
        }
        let page = match self {
            // Other tasks may run there now and then.
            Self::OfRunningTask => wait_for_index(&page)?,
            _ => page.snapshot(),
        };
        Ok((page.may_rdpmc, page.index.is_some()))
    }
}

fn wait_for_index(page: &Page) -> Result<Snapshot> {
    for _ in 0..10_000 {
        let snapshot = page.snapshot();
        if snapshot.index.is_some() {
            return Ok(snapshot);
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!("the page of a task that runs has had no index for 10 seconds");
}

/// Starts a process on CPU 1, which runs or sleeps forever.
fn spawn(runs: bool) -> Result<KilledProcess> {
    // SAFETY: this program has only one thread here, so that no lock is held in the child.
    match unsafe { fork() }? {
        ForkResult::Child => {
            if pin(gettid(), 1).is_err() {
                process::exit(1);
            }
            loop {
                match runs {
                    true => workload::branches(1_000).run(),
                    false => pause(),
                }
            }
        }
        ForkResult::Parent { child } => Ok(KilledProcess(child)),
    }
}

/// The page of an event says that RDPMC is allowed, and that the event is on a counter, as that of the
/// in-tree PMU does: for events that are disabled, enabled or have been stopped, of this task, of another
/// and of another CPU, and after they have been unmapped; also if `rdpmc` forbids RDPMC.
pub(super) fn pages_are_as_in_tree(ctx: &Ctx) -> Result<()> {
    pin(gettid(), 0)?;
    for setting in [1, 0] {
        let _setting = Setting::change(SETTING, setting)?;
        for case in Case::ALL {
            // With 0, no page ever has an index.
            if setting == 0 && case == Case::OfRunningTask {
                continue;
            }
            let shows = |pmu: &Pmu| {
                case.shows(pmu)
                    .with_context(|| format!("{}: {case:?}", pmu.name))
            };
            let (in_tree, ours) = (shows(&ctx.in_tree()?)?, shows(&ctx.pmu()?)?);
            ensure!(
                ours == in_tree,
                "{case:?}, rdpmc={setting}: allowed and an index: {ours:?}, but in-tree {in_tree:?}"
            );
        }
    }
    Ok(())
}

/// How many events are mapped while interrupts are counted.
const EVENTS: u64 = 200;

/// Mapping and unmapping an event on CPU 0 does not interrupt CPU 1 each time, whether the event is
/// disabled or counts, and whether it is of a task or of CPU 1. It does not with the in-tree PMU.
pub(super) fn mapping_interrupts_no_other_cpu(ctx: &Ctx) -> Result<()> {
    pin(gettid(), 0)?;
    // To wake a task on a CPU that is idle the kernel calls a function there.
    let _busy = spawn(true)?;
    for pmu in [ctx.in_tree()?, ctx.pmu()?] {
        // The address space of the child has never been in use on CPU 1.
        expect_child_succeeds(|| {
            let event = || pmu.event(Event::Instructions);
            expect_few_calls(&pmu, "disabled", &mut event())?;
            expect_few_calls(&pmu, "of CPU 1, disabled", event().any_pid().one_cpu(1))?;
            expect_few_calls(&pmu, "enabled", event().enabled(true))
        })?;
    }
    Ok(())
}

/// Maps and unmaps some events, each for the first time. Fails if functions have been called on CPU 1 as
/// often: other parts of the kernel do that now and then.
fn expect_few_calls(pmu: &Pmu, what: &str, event: &mut Builder<'_>) -> Result<()> {
    let open = || event.build();
    let events: Vec<Counter> = (0..EVENTS).map(|_| open()).collect::<io::Result<_>>()?;
    let before = interrupts_of("CAL", 1)?;
    for event in &events {
        Page::map(event)?;
    }
    let calls = interrupts_of("CAL", 1)? - before;
    println!("# {}, {what}: {calls} calls on CPU 1", pmu.name);
    ensure!(
        calls < EVENTS,
        "{}, {what}: {calls} interrupts of CPU 1 for {EVENTS} mappings",
        pmu.name
    );
    Ok(())
}
