// SPDX-License-Identifier: GPL-2.0
//! Events that perf has throttled keep their counts while other events come and go.

use anyhow::{ensure, Result};
use nix::unistd::gettid;

use crate::ctx::{Ctx, Test};
use crate::pmu::Event;
use crate::setting::{pin, SampleRate};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, General(4)];
    other_events_come,
];

/// perf stops a group that takes too many samples, without reading it. Then another event is put
/// on the CPU, for which some models clear all counters.
fn other_events_come(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 20;
    let _rate = SampleRate::fixed(100)?;
    pin(gettid(), 0)?;
    let pmu = ctx.pmu()?;
    let workload = workload::branches(20_000);
    // It is never throttled.
    let mut all = pmu.event(Event::Branches).pinned(true).build()?;
    let mut builder = pmu.event(Event::Branches);
    let mut leader = builder.pinned(true).sample_period(1_000).build()?;
    let mut member = pmu
        .event(Event::Branches)
        .enabled(true)
        .build_with_group(&mut leader)?;
    all.enable()?;
    leader.enable()?;
    for round in 0..ROUNDS {
        workload.run();
        // An event that was not on this counter before.
        let code = 0x01cb | (round << 8);
        let _other = pmu.raw(code).enabled(true).build()?;
        workload.run();
    }
    leader.disable()?;
    all.disable()?;
    let (all, member) = (all.read()?, member.read()?);
    println!("# {member} of {all} branches");
    ensure!(
        (1..all).contains(&member),
        "a group that is throttled now and then counted {member} of {all} branches"
    );
    Ok(())
}
