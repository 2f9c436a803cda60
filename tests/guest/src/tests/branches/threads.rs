// SPDX-License-Identifier: GPL-2.0
//! Branch records of CPUs that are threads of a core.

use anyhow::{ensure, Context, Result};
use perf_event::ReadFormat;

use super::super::expect;
use super::hardware::{request, Hardware};
use super::{check, event, FILTERS, PERIOD};
use crate::ctx::Ctx;
use crate::msr::Msrs;
use crate::setting::Affinity;

const LBR_SELECT: u32 = 0x1c8;

/// Events on both threads of a core need different branches, and are on the CPUs at the same time. The threads
/// share the register that selects branches. So it lets all of them through, and each event shows its own.
pub fn both_threads_of_a_core(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let hardware = Hardware::of(&pmu)?;
    let _affinity = Affinity::pinned_to(0)?;
    let mut other = event(&pmu, request::IND_CALL, PERIOD);
    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    other.any_pid().one_cpu(1).read_format(times);
    let mut other = other.build().context("CPU 1")?;
    let mut own = event(&pmu, request::COND, PERIOD);
    let mut own = own.any_pid().one_cpu(0).build().context("CPU 0")?;
    other.enable()?;
    own.enable()?;
    for cpu in [0, 1] {
        let select = Msrs::of_cpu(cpu)?.read(LBR_SELECT)?;
        expect(&format!("CPU {cpu}"), "in LBR_SELECT", select, 0)?;
    }
    own.disable()?;
    for flags in FILTERS {
        check(&pmu, hardware, flags).with_context(|| format!("branch_sample_type {flags:#x}"))?;
    }
    let data = other.read_full()?;
    ensure!(
        data.time_running() == data.time_enabled(),
        "the event of CPU 1 did not always run"
    );
    Ok(other.disable()?)
}
