// SPDX-License-Identifier: GPL-2.0
//! Branch records of CPUs that are threads of a core.

use std::thread;

use anyhow::{Context, Result};

use super::super::{expect, extra_registers::siblings};
use super::hardware::{request, Hardware};
use super::{check, event, FILTERS, PERIOD};
use crate::ctx::Ctx;
use crate::msr::Msrs;
use crate::setting::Affinity;

const LBR_SELECT: u32 = 0x1c8;

/// Events on both threads of a core need different branches, and are on the CPUs at the same time. The threads
/// share the register that selects branches (but each emulated CPU has its own). So it must let all of them
/// through, and each event must show its own.
pub fn both_threads_of_a_core(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let hardware = Hardware::of(&pmu)?;
    let cpus = siblings()?;
    let mut events = Vec::new();
    for (cpu, flags) in cpus.iter().zip([request::COND, request::IND_CALL]) {
        let mut event = event(&pmu, flags, PERIOD);
        let mut event = event.any_pid().one_cpu(*cpu).build().context("open")?;
        event.enable()?;
        events.push(event);
    }
    for cpu in &cpus {
        let select = Msrs::of_cpu(*cpu)?.read(LBR_SELECT)?;
        expect(&format!("CPU {cpu}"), "in LBR_SELECT", select, 0)?;
    }
    drop(events);
    let all_filters = |cpu: usize, reversed: bool| -> Result<()> {
        let _affinity = Affinity::pinned_to(cpu)?;
        let mut filters = FILTERS;
        if reversed {
            filters.reverse();
        }
        filters.into_iter().try_for_each(|flags| {
            check(&pmu, hardware, flags)
                .with_context(|| format!("CPU {cpu}, branch_sample_type {flags:#x}"))
        })
    };
    thread::scope(|scope| {
        let threads = cpus.iter().enumerate();
        let threads: Vec<_> = threads
            .map(|(i, cpu)| scope.spawn(move || all_filters(*cpu, i > 0)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|it| it.join().expect("a thread panicked"))
    })
}

/// Events of one group ask for different branches. No register has to select them.
pub fn different_requests_in_a_group(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let leader = event(&pmu, request::COND, PERIOD)
        .build()
        .context("leader")?;
    let mut leader = leader.sampled(super::RING)?;
    event(&pmu, request::CALL, PERIOD)
        .build_with_group(&mut *leader)
        .context("member")?;
    Ok(())
}
