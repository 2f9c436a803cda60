// SPDX-License-Identifier: GPL-2.0
//! What a user who opens events all the time costs other CPUs.

use std::num::NonZeroUsize;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};
use nix::unistd::{fork, gettid, ForkResult};
use perf_event::events::Software;
use perf_event::Builder;

use super::super::compare::case::Unprivileged;
use super::super::user_read::{expect_child_succeeds, KilledProcess, Page};
use super::super::{cpus, interrupts_of};
use super::PARANOID;
use crate::ctx::Ctx;
use crate::pmu::Event;
use crate::setting::{pin, Setting};

/// The longest time in nanoseconds for which a program that always runs has not run.
struct LongestStall {
    nanoseconds: &'static AtomicU64,
    _program: KilledProcess,
}

impl LongestStall {
    /// Starts the program on this CPU.
    fn watch(cpu: usize) -> Result<Self> {
        // The program and this one share it. It is never unmapped.
        let shared = shared_word()?;
        // SAFETY: this program has only one thread here, so that no lock is held in the child.
        match unsafe { fork() }? {
            ForkResult::Child => {
                if pin(gettid(), cpu).is_err() {
                    process::exit(1);
                }
                let mut last = Instant::now();
                loop {
                    let now = Instant::now();
                    let stall = now.duration_since(last).as_nanos() as u64;
                    shared.fetch_max(stall, SeqCst);
                    last = now;
                }
            }
            ForkResult::Parent { child } => Ok(Self {
                nanoseconds: shared,
                _program: KilledProcess(child),
            }),
        }
    }

    /// The longest time since this was last called.
    fn take(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.swap(0, SeqCst))
    }
}

/// A word, 0, that this process shares with those that it forks.
fn shared_word() -> Result<&'static AtomicU64> {
    let length = NonZeroUsize::new(4096).expect("not 0");
    let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: the kernel chooses the address, so that no existing mapping is replaced.
    let page = unsafe { mmap_anonymous(None, length, prot, MapFlags::MAP_SHARED) }?;
    // SAFETY: the page is aligned, filled with 0, and stays mapped.
    Ok(unsafe { page.cast().as_ref() })
}

/// A user on CPU 0 opens, maps, unmaps and closes an event again and again, disabled or counting. The
/// other CPUs are interrupted less than once in a round, as with the in-tree PMU.
pub(super) fn storm_leaves_other_cpus_alone(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 500;
    let paranoid = Setting::change(PARANOID, 2)?;
    pin(gettid(), 0)?;
    let others = 1..cpus()?.max(2);
    let watched: Vec<_> = others
        .clone()
        .map(LongestStall::watch)
        .collect::<Result<_>>()?;
    // perf patches its code on all CPUs when the first event is opened, and a while after the last one is
    // closed.
    let _open = Builder::new(Software::DUMMY).build()?;
    for enabled in [false, true] {
        for pmu in [ctx.in_tree()?, ctx.pmu()?] {
            // The address space of the child has never been in use on other CPUs.
            expect_child_succeeds(|| {
                let _unprivileged = Unprivileged::new()?;
                let calls =
                    || -> Result<u64> { others.clone().map(|cpu| interrupts_of("CAL", cpu)).sum() };
                let before = calls()?;
                for it in &watched {
                    it.take();
                }
                let start = Instant::now();
                for _ in 0..ROUNDS {
                    let event = pmu.event(Event::Instructions).enabled(enabled).build()?;
                    Page::map(&event)?;
                }
                let time = start.elapsed();
                let stall = watched.iter().map(LongestStall::take).max();
                let calls = calls()? - before;
                println!(
                    "# {}, {}: {ROUNDS} rounds in {time:?}; on {} other CPUs {calls} interrupts, \
                     longest stall {:?}",
                    pmu.name,
                    if enabled { "enabled" } else { "disabled" },
                    watched.len(),
                    stall.unwrap_or_default()
                );
                ensure!(
                    calls < ROUNDS,
                    "{}: {calls} interrupts of other CPUs in {ROUNDS} rounds",
                    pmu.name
                );
                Ok(())
            })?;
        }
    }
    paranoid.restore()
}
