// SPDX-License-Identifier: GPL-2.0
//! The registers and the events of a machine.

use anyhow::{Context, Result};
use perf_event::Counter;

use super::super::topdown::metrics_of_model;
use super::super::user_read::{expect_child_succeeds, rdpmc, Page};
use crate::ctx::Ctx;
use crate::pmu::{BuilderExt, CpuPmu, Event, Mode, Pmu};
use crate::workload;

/// The events of each task: each fixed counter but that of slots counts one, if there is any. A GP counter
/// counts the last one.
pub const EVENTS: [Event; 4] = [
    Event::Instructions,
    Event::CpuCycles,
    Event::RefCycles,
    Event::Branches,
];

/// RDPMC of fixed counter 3, which counts slots, and of PERF_METRICS (SDM vol. 2B, RDPMC).
pub const SLOTS: u32 = FIXED | 3;
pub const METRICS: u32 = 1 << 29;
const FIXED: u32 = 1 << 30;

/// What the tasks of a test have in common.
pub struct Machine {
    pub pmu: Pmu,
    pub in_tree: Pmu,
    /// The RDPMC indices of all counters, and of PERF_METRICS if there is one.
    pub registers: Vec<u32>,
    /// `offset` of an event that has been started afresh, and the width of the counters.
    pub fresh: (i64, u16),
}

impl Machine {
    pub fn new(ctx: &Ctx) -> Result<Self> {
        let pmu = ctx.pmu()?;
        let CpuPmu {
            general_mask,
            fixed_mask,
            ..
        } = CpuPmu::probe();
        let bits = |mask: u64| (0..32).filter(move |bit| mask & (1 << bit) != 0);
        let fixed = bits(fixed_mask).map(|bit| FIXED | bit);
        let metrics = has_metrics(&pmu).then_some(METRICS);
        Ok(Self {
            in_tree: ctx.in_tree()?,
            registers: bits(general_mask).chain(fixed).chain(metrics).collect(),
            fresh: fresh_page(&pmu)?,
            pmu,
        })
    }

    /// Fails if there is not each of the registers.
    pub fn check(&self) -> Result<()> {
        expect_child_succeeds(|| {
            let event = self.pmu.open(Event::Branches, Mode::User)?;
            let _page = Page::map(&event)?;
            for &index in &self.registers {
                // SAFETY: the mapping sets CR4.PCE. If the register is missing, the fault ends only this
                // child, and the test fails.
                unsafe { rdpmc(index) };
            }
            Ok(())
        })
    }
}

/// Whether the PMU has PERF_METRICS. It may be missing on a model that has it, and fixed counter 3 does
/// not tell.
pub fn has_metrics(pmu: &Pmu) -> bool {
    metrics_of_model() > 0 && pmu.event_file("topdown-retiring").exists()
}

/// Opens slots with the first metrics, enabled.
pub fn open_topdown(pmu: &Pmu) -> Result<Vec<Counter>> {
    const CODES: [u64; 5] = [0x0400, 0x8000, 0x8100, 0x8200, 0x8300];
    let mut group: Vec<Counter> = Vec::new();
    for code in CODES {
        let mut builder = pmu.raw(code);
        builder.filter(Mode::User);
        let event = match group.first_mut() {
            None => builder.build()?,
            Some(leader) => builder.enabled(true).build_with_group(leader)?,
        };
        group.push(event);
    }
    group[0].enable()?;
    Ok(group)
}

/// Has events of the in-tree driver count on all counters, and closes them.
pub fn count_in_tree(pmu: &Pmu) -> Result<()> {
    let topdown = has_metrics(pmu).then(|| open_topdown(pmu)).transpose()?;
    let once = EVENTS.into_iter().filter(|event| pmu.has(*event));
    let general = CpuPmu::probe().general as usize;
    let mut events = Vec::new();
    for event in once.chain([Event::Branches].repeat(general - 1)) {
        let mut event = pmu.open(event, Mode::User)?;
        event.enable()?;
        events.push(event);
    }
    workload::branches(10_000).run();
    for event in &mut events {
        event.read()?;
    }
    drop(topdown);
    Ok(())
}

/// `offset` in the page of an event that begins to count, and the width of the counters.
pub fn fresh_page(pmu: &Pmu) -> Result<(i64, u16)> {
    let mut event = pmu.open(Event::Branches, Mode::User)?;
    let page = Page::map(&event)?;
    event.enable()?;
    let (offset, _) = page.offset_with_index().context("no index in the page")?;
    Ok((offset, page.width()))
}
