// SPDX-License-Identifier: GPL-2.0
//! Branch records in samples of the in-tree driver: they are the last branches of a program whose
//! branches are known, entry by entry.

use anyhow::{ensure, Context, Result};
use perf_event::{SampleBranchFlag, SampleFlag};

use super::expect;
use super::sampling::{for_each_sample, RING};
use crate::ctx::{Ctx, Test};
use crate::pmu::Event;
use crate::tests;
use crate::workload::{self, Branch, BranchKind};

pub const TESTS: &[Test] = tests![
    all need [ExactCounts, InTreeCounts];
    known_branches,
    filters,
];

/// The highest number of records.
const DEPTH: usize = 32;
const ITERATIONS: u64 = 20_000;
/// A sample comes after more branches of each kind than there are records.
const PERIOD: u64 = 1_009;

/// Samples user mode in the workload, and compares the records of each sample with the last branches that
/// `is_recorded`.
fn compare(
    ctx: &Ctx,
    flags: SampleBranchFlag,
    is_recorded: impl Fn(&Branch) -> bool,
) -> Result<()> {
    let far = SampleBranchFlag::ANY
        .union(SampleBranchFlag::ANY_CALL)
        .union(SampleBranchFlag::ANY_RETURN);
    let has_far = flags.bits() & far.bits() != 0;
    let mut event = ctx
        .in_tree()?
        .event(Event::Instructions)
        .sample_period(PERIOD)
        .sample(SampleFlag::BRANCH_STACK)
        .branch_sample_type(flags | SampleBranchFlag::USER)
        .build()
        .context("open")?
        .sampled(RING)?;
    let workload = workload::branches(ITERATIONS);
    workload.measure(&event)?;
    let mut k = 0;
    let mut short = 0;
    for_each_sample(&mut event, |sample| {
        k += 1;
        let what = format!("sample {k}");
        let records = sample.lbr().context("no branch stack")?;
        let expected = workload::last_branches(ITERATIONS, k * PERIOD);
        let expected: Vec<_> = expected.filter(&is_recorded).take(DEPTH).collect();
        if has_far && records.len() < expected.len() {
            short += 1;
        } else {
            expect(
                &what,
                "records",
                records.len() as u64,
                expected.len() as u64,
            )?;
        }
        for (i, (record, branch)) in records.iter().zip(&expected).enumerate() {
            let what = format!("{what}, record {i}");
            expect(&what, "as its source", record.from(), branch.from)?;
            expect(&what, "as its target", record.to(), branch.to)?;
        }
        Ok(())
    })?;
    // With far branches, the return from an interrupt takes a record, which the kernel drops because its source
    // is hidden. With -icount there is hardly more than one interrupt.
    ensure!(short <= 2, "{short} samples have too few records");
    expect("in total", "samples", k, workload.instructions() / PERIOD)
}

/// Each record has the addresses of a branch, and none is missing.
fn known_branches(ctx: &Ctx) -> Result<()> {
    compare(ctx, SampleBranchFlag::ANY, |_| true)
}

/// With a filter there are the branches of these kinds alone.
fn filters(ctx: &Ctx) -> Result<()> {
    use BranchKind::{Call, Conditional, Return};
    for (flags, kinds) in [
        (SampleBranchFlag::COND, &[Conditional][..]),
        (SampleBranchFlag::CALL, &[Call]),
        (SampleBranchFlag::ANY_CALL, &[Call]),
        (SampleBranchFlag::ANY_RETURN, &[Return]),
        (
            SampleBranchFlag::COND.union(SampleBranchFlag::ANY_RETURN),
            &[Conditional, Return],
        ),
    ] {
        let bits = flags.bits();
        compare(ctx, flags, |it| kinds.contains(&it.kind))
            .with_context(|| format!("branch_sample_type {bits:#x}"))?;
    }
    Ok(())
}
