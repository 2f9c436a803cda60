// SPDX-License-Identifier: GPL-2.0
//! The calls that a program is in, from branch records.

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use perf_event::Sampler;

use super::super::expect;
use super::super::sampling::for_each_sample;
use super::hardware::{request, Hardware};
use super::{busy, drivers, errno, event, sampler, with_another_task};
use crate::ctx::Ctx;
use crate::workload;

/// The call stacks of a program that is in a known number of calls, alone on the CPU and with another
/// task in between: each call, the last one first.
pub fn call_stacks(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 6_000_000;
    const PERIOD: u64 = 100_003;
    let hardware = Hardware::of(&ctx.pmu()?)?;
    for (name, pmu) in drivers(ctx)? {
        if !hardware.has_call_stack {
            let error = event(&pmu, request::CALL_STACK, PERIOD).build();
            let found = errno(error);
            expect(name, "as its errno", found, Errno::EOPNOTSUPP as u64)?;
            continue;
        }
        for (depth, is_alone) in [(0, true), (5, true), (31, true), (5, false), (40, false)] {
            let mut sampler = sampler(&pmu, request::CALL_STACK, PERIOD)?;
            let workload = workload::nested_calls(depth, ROUNDS);
            match is_alone {
                true => workload.measure(&sampler)?,
                false => with_another_task(busy, || workload.measure(&sampler))?,
            }
            let what = format!("{name}, {depth} calls, alone: {is_alone}");
            compare_calls(&mut sampler, hardware.depth, depth, PERIOD, ROUNDS).context(what)?;
        }
    }
    Ok(())
}

/// Compares the records of each sample in the loop of [`workload::nested_calls`] with its calls. The event
/// has been enabled after the test has called what it measures, so there are no others.
fn compare_calls(
    sampler: &mut Sampler,
    all: usize,
    depth: u64,
    period: u64,
    rounds: u64,
) -> Result<()> {
    let start = workload::before_nested_loop(depth);
    let mut k = 0;
    for_each_sample(sampler, |sample| {
        k += 1;
        let is_in_loop = (start..start + 2 * rounds).contains(&(k * period));
        ensure!(is_in_loop, "sample {k} is not in the loop");
        let records = sample.lbr().context("no branch stack")?;
        let what = format!("sample {k}");
        // That of the function itself is the first call.
        let complete = (depth + 1).min(all as u64);
        expect(&what, "records", records.len() as u64, complete)?;
        let (from, to) = workload::nested_call();
        for (i, record) in records.iter().enumerate() {
            let what = format!("{what}, record {i}");
            expect(&what, "as its target", record.to(), to)?;
            if (i as u64) < depth {
                expect(&what, "as its source", record.from(), from)?;
            }
        }
        Ok(())
    })?;
    expect("in total", "samples", k, (start + 2 * rounds) / period)
}
