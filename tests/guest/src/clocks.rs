// SPDX-License-Identifier: GPL-2.0
//! The events `cpu-clock` and `task-clock`, of rust_clock and in the tree.

use std::hint::black_box;

use anyhow::{Context, Result};
use perf_event::{Builder, Counter, SampleFlag, Sampler};

use crate::pmu::Pmu;
use crate::workload;

/// The PMU that the module registers.
pub const RUST_CLOCK: &str = "rust_clock";
/// The in-tree PMU of all software events.
pub const SOFTWARE: &str = "software";

/// The shortest time between two samples, in nanoseconds.
pub const MIN_PERIOD: u64 = 10_000;

/// The size of a ring buffer in which no sample is lost.
pub const RING: usize = 1 << 20;

/// What an event counts. The number is `config` on both PMUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Cpu = 0,
    Task = 1,
}

impl Clock {
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Task];
}

/// Both PMUs.
pub struct Clocks {
    pub ours: Pmu,
    pub theirs: Pmu,
}

impl Clocks {
    /// Finds them. An error if the module is not loaded.
    pub fn find() -> Result<Self> {
        Ok(Self {
            ours: Pmu::find(RUST_CLOCK)?,
            theirs: Pmu::find(SOFTWARE)?,
        })
    }

    /// Both, ours first.
    pub fn both(&self) -> [&Pmu; 2] {
        [&self.ours, &self.theirs]
    }
}

/// An event of the calling thread, disabled, that samples user and kernel mode if it
/// samples.
pub fn event(pmu: &Pmu, clock: Clock) -> Builder<'static> {
    let mut builder = pmu.raw(clock as u64);
    builder.include_kernel();
    builder
}

/// Opens an event whose samples have these fields.
pub fn sampler(builder: &mut Builder, fields: SampleFlag) -> Result<Sampler> {
    let counter = builder
        .sample(fields)
        .build()
        .context("open for sampling")?;
    counter.sampled(RING).context("map the ring buffer")
}

/// Opens events of the calling thread as one group, whose first event is disabled.
pub fn group(events: &[(&Pmu, Clock)]) -> Result<Vec<Counter>> {
    group_with(events, |_| ())
}

/// Like [`group`], with `change` applied to each event.
pub fn group_with(events: &[(&Pmu, Clock)], change: impl Fn(&mut Builder)) -> Result<Vec<Counter>> {
    let mut group: Vec<Counter> = Vec::new();
    for &(pmu, clock) in events {
        let mut builder = event(pmu, clock);
        change(&mut builder);
        let counter = match group.first_mut() {
            None => builder.build(),
            Some(leader) => builder.enabled(true).build_with_group(leader),
        };
        group.push(counter.with_context(|| format!("open {} in a group", pmu.name))?);
    }
    Ok(group)
}

/// Keeps this thread busy in user mode until the event has counted `ns`.
pub fn busy_until(counter: &mut Counter, ns: u64) -> Result<()> {
    let workload = workload::tight_loop(black_box(250));
    while counter.read()? < ns {
        workload.run();
    }
    Ok(())
}
