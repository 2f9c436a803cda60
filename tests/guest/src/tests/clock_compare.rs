// SPDX-License-Identifier: GPL-2.0
//! Thousands of calls of perf_event_open(), each for rust_clock and for the in-tree clocks.
//! They return the same errno, and so do the ioctls of events that are opened. There is no
//! intended difference. clock.rs compares the counts.

use anyhow::Result;
use fastrand::Rng;

use super::compare::alike::{Comparison, Counts, Pair};
use super::compare::calls::{self, CHANGES};
use super::compare::case::{Case, Side};
use crate::clocks::{Clock, Clocks};
use crate::ctx::{Ctx, Test};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root];
    every_field,
    pairs_of_fields,
    random_attrs,
    other_numbers,
    arguments,
    rights,
];

fn comparison(ctx: &Ctx) -> Result<Comparison> {
    let Clocks { ours, theirs } = Clocks::find()?;
    let clocks = Clock::ALL.map(|clock| clock as u64);
    let pair = Pair {
        ours: Side::new(ours, Clock::Cpu as u64),
        // The in-tree PMU has other events, too. rust_clock's two upper bits are names.
        theirs: Side::with_configs(
            theirs,
            &[(0, 0), (1, 1), (1 << 62, 0), (1 << 63, 1)],
            u64::MAX,
        ),
        load: || workload::tight_loop(100).run(),
        counts: Counts::Alike,
        counted: clocks.to_vec(),
        differences: &[],
    };
    Comparison::new(ctx, pair)
}

/// Each field of the attribute, at its interesting values, has the result of perf's own clocks.
fn every_field(ctx: &Ctx) -> Result<()> {
    let mut comparison = comparison(ctx)?;
    for clock in Clock::ALL {
        calls::every_field(Case::own(clock as u64), |case| comparison.call(case))?;
    }
    comparison.finish()
}

/// Each two changes of the attribute have the result of perf's own clocks.
fn pairs_of_fields(ctx: &Ctx) -> Result<()> {
    let mut comparison = comparison(ctx)?;
    for clock in Clock::ALL {
        for case in calls::pairs(Case::own(clock as u64), CHANGES) {
            comparison.call(case)?;
        }
    }
    comparison.finish()
}

/// 4000 random attributes have the result of perf's own clocks.
fn random_attrs(ctx: &Ctx) -> Result<()> {
    const CALLS: usize = 4_000;
    let mut comparison = comparison(ctx)?;
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    for _ in 0..CALLS {
        let mut case = Case::own(rng.u64(..3));
        calls::change_randomly(&mut rng, &mut case, CHANGES);
        comparison.call(case)?;
    }
    comparison.finish()
}

/// Numbers that neither PMU has a clock for, with the changes that could have another
/// error.
fn other_numbers(ctx: &Ctx) -> Result<()> {
    let mut comparison = comparison(ctx)?;
    let numbers = (0..16).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]);
    for number in numbers {
        comparison.call(Case::own(number))?;
        for change in CHANGES {
            let mut case = Case::own(number);
            change(&mut case);
            comparison.call(case)?;
        }
    }
    comparison.finish()
}

/// All combinations of the other arguments of the system call have the result of perf's own clock.
fn arguments(ctx: &Ctx) -> Result<()> {
    let mut comparison = comparison(ctx)?;
    for case in calls::arguments(Case::own(Clock::Task as u64)) {
        comparison.call(case)?;
    }
    comparison.finish()
}

/// Calls of an unprivileged user have the result of perf's own clocks, at each level of
/// `perf_event_paranoid`.
fn rights(ctx: &Ctx) -> Result<()> {
    let mut comparison = comparison(ctx)?;
    for clock in Clock::ALL {
        calls::rights(Case::own(clock as u64), CHANGES, |case| {
            comparison.call(case)
        })?;
    }
    comparison.finish()
}
