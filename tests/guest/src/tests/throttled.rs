// SPDX-License-Identifier: GPL-2.0
//! Events that perf has throttled keep their counts while other events come and go.

use std::mem;

use anyhow::{ensure, Result};
use nix::unistd::gettid;
use suites::log::Machine;

use super::user_read::Page;
use crate::ctx::{Ctx, Test};
use crate::kmsg::{check_clean, Kmsg};
use crate::pmu::{Event, Mode};
use crate::setting::{pin, SampleRate};
use crate::tests;
use crate::waiting::Waiting;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, General(4)];
    other_events_come,
    counts_are_hidden: [InTree],
    member_that_is_disabled,
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

/// perf stops a group, without reading it. Then the kernel allows the task to use RDPMC, for which the
/// driver clears what earlier events have left in the counters, also in that of a member of the group.
fn counts_are_hidden(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u64 = 20;
    let _rate = SampleRate::fixed(100)?;
    pin(gettid(), 0)?;
    let pmu = ctx.pmu()?;
    let workload = workload::branches(20_000);
    // What is in the counters is known as long as the CPU has an event.
    let mut all = pmu.open(Event::Branches, Mode::User)?;
    all.enable()?;
    for _ in 0..ROUNDS {
        let mut earlier = (0..3)
            .map(|_| pmu.open(Event::Branches, Mode::User))
            .collect::<Result<Vec<_>>>()?;
        for event in &mut earlier {
            event.enable()?;
        }
        workload.run();
        drop(earlier);

        let mut builder = pmu.event(Event::Branches);
        let builder = builder.exclude_kernel(true).sample_period(1_000);
        let mut leader = builder.build()?;
        let mut member = pmu
            .event(Event::Branches)
            .exclude_kernel(true)
            .enabled(true)
            .build_with_group(&mut leader)?;
        // It is not enabled.
        let other = pmu.open(Event::Branches, Mode::User)?;
        leader.enable()?;
        workload.run();
        let _page = Page::map(&other)?;
        workload.run();
        leader.disable()?;
        let (of_leader, of_member) = (leader.read()?, member.read()?);
        ensure!(
            of_leader == of_member,
            "the leader has counted {of_leader} branches, and a member of its group {of_member}"
        );
    }
    Ok(())
}

/// perf stops and starts a group with a member that has never been enabled. That member counts nothing, and
/// the kernel has nothing to complain of.
fn member_that_is_disabled(ctx: &Ctx) -> Result<()> {
    const STARTS: u32 = 2;
    let _rate = SampleRate::fixed(100)?;
    pin(gettid(), 0)?;
    let mut log = Kmsg::from_now()?;
    let pmu = ctx.pmu()?;
    // Much less than perf's timer takes, which starts the group again.
    let workload = workload::branches(1_000);
    let mut leader = pmu.event(Event::Branches).sample_period(1_000).build()?;
    let mut member = pmu.event(Event::Branches).build_with_group(&mut leader)?;
    leader.enable()?;
    let (mut count, mut is_stopped, mut starts) = (0, false, 0);
    let _waiting = Waiting::for_("perf to stop and start a group twice");
    while starts < STARTS {
        workload.run();
        let before = mem::replace(&mut count, leader.read()?);
        starts += u32::from(is_stopped && count > before);
        is_stopped = count == before;
    }
    leader.disable()?;
    let counted = member.read()?;
    ensure!(
        counted == 0,
        "a disabled event has counted {counted} branches"
    );
    let machine = match ctx.suite.is_guest() {
        true => Machine::Guest,
        false => Machine::Any,
    };
    check_clean(&mut log, machine)
}
