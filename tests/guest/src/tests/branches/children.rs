// SPDX-License-Identifier: GPL-2.0
//! The calls that threads and child processes are in, from branch records.

use std::process::Command;
use std::thread;

use anyhow::{ensure, Context, Result};
use nix::sys::wait::WaitStatus;
use nix::unistd::{fork, ForkResult};
use perf_event::{SampleFlag, Sampler};

use super::super::expect;
use super::super::sampling::for_each_sample;
use super::hardware::{request, Hardware};
use super::{busy, drivers, event, with_another_task, RING};
use crate::ctx::Ctx;
use crate::pmu::Pmu;
use crate::program::{Installed, NESTED, NESTED_CALLS, NESTED_LOOP, NESTED_ROUNDS};
use crate::waiting;
use crate::workload;

const DEPTH: u64 = 12;
const ROUNDS: u64 = NESTED_ROUNDS;
const PERIOD: u64 = 50_021;

/// A child, by how it comes to its code.
#[derive(Clone, Copy, Debug)]
enum Child {
    Thread,
    Fork,
    Exec,
}

/// What else runs on the CPU.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    /// A task without an event.
    Other,
    /// A task that has inherited the event, too. The kernel may switch to it by exchanging the events of the
    /// two.
    Sibling,
}

/// A loop in calls.
struct Calls {
    in_loop: [u64; 2],
    /// Source and target of each call, the last one first. That of the function itself may have any source.
    calls: Vec<(Option<u64>, u64)>,
}

impl Calls {
    fn of(child: Child, program: &Installed) -> Result<Self> {
        Ok(match child {
            Child::Thread | Child::Fork => {
                let (from, to) = workload::nested_call();
                let mut calls = vec![(Some(from), to); DEPTH as usize];
                calls.push((None, to));
                Self {
                    in_loop: workload::nested_loop(),
                    calls,
                }
            }
            Child::Exec => {
                let start = program.entry()?;
                let call = |(from, to)| (Some(start + from), start + to);
                Self {
                    in_loop: NESTED_LOOP.map(|offset| start + offset),
                    calls: NESTED_CALLS.map(call).to_vec(),
                }
            }
        })
    }

    /// Compares each sample in the loop. The calls before them are those of the libraries. If they
    /// `may_be_lost`, a sample may have no calls at all.
    fn compare(&self, sampler: &mut Sampler, hardware: Hardware, may_be_lost: bool) -> Result<()> {
        let known = &self.calls[..self.calls.len().min(hardware.depth)];
        let mut in_loop = 0;
        for_each_sample(sampler, |sample| {
            if !self.in_loop.contains(&sample.ip().context("no IP")?) {
                return Ok(());
            }
            in_loop += 1;
            let what = format!("sample {in_loop}");
            let records = sample.lbr().context("no branch stack")?;
            if may_be_lost && records.is_empty() {
                return Ok(());
            }
            ensure!(
                records.len() >= known.len(),
                "{what} has {} records, expected {}",
                records.len(),
                known.len()
            );
            for (i, (record, (from, to))) in records.iter().zip(known).enumerate() {
                let what = format!("{what}, record {i}");
                let from = from.unwrap_or(record.from());
                expect(&what, "as its source", record.from(), from)?;
                expect(&what, "as its target", record.to(), *to)?;
            }
            Ok(())
        })?;
        // A period may begin in one task and end in another one, because perf may exchange their events.
        let all = 2 * ROUNDS / PERIOD;
        ensure!(
            in_loop >= all * 9 / 10,
            "{in_loop} samples in the loop, expected {all}"
        );
        Ok(())
    }
}

/// Runs a child to its end.
fn run(child: Child, program: &Installed) -> Result<()> {
    let nested = || workload::nested_calls(DEPTH, ROUNDS).run();
    match child {
        Child::Thread => thread::scope(|scope| {
            scope.spawn(nested);
        }),
        // SAFETY: the child runs code in assembly, and what allocates no memory.
        Child::Fork => match unsafe { fork() }.context("fork")? {
            ForkResult::Child => {
                nested();
                // SAFETY: this ends the child without running code of this program.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => {
                let status = waiting::process(child, None, "the forked child")?;
                ensure!(status == WaitStatus::Exited(child, 0), "{status:?}");
            }
        },
        Child::Exec => {
            let status = waiting::status(&mut Command::new(program.path()))?;
            ensure!(status.success(), "{status}");
        }
    }
    Ok(())
}

/// An event of this task on CPU 0, and of its children: perf maps no inherited event of all CPUs.
fn inherited(pmu: &Pmu) -> Result<Sampler> {
    let mut event = event(pmu, request::CALL_STACK, PERIOD);
    event.sample(SampleFlag::IP).inherit(true).one_cpu(0);
    Ok(event.build().context("open")?.sampled(RING)?)
}

/// Samples a child.
fn sampled(pmu: &Pmu, child: Child, beside: Beside, program: &Installed) -> Result<Sampler> {
    let run = |sampler: &mut Sampler| -> Result<()> {
        sampler.enable()?;
        run(child, program)?;
        Ok(sampler.disable()?)
    };
    match beside {
        Beside::Nothing => {
            let mut sampler = inherited(pmu)?;
            run(&mut sampler)?;
            Ok(sampler)
        }
        Beside::Other => with_another_task(busy, || {
            let mut sampler = inherited(pmu)?;
            run(&mut sampler)?;
            Ok(sampler)
        }),
        Beside::Sibling => {
            let mut sampler = inherited(pmu)?;
            with_another_task(busy, || run(&mut sampler))?;
            Ok(sampler)
        }
    }
}

/// The call stacks of a thread, of a forked process and of a program that inherit the event: each call, the
/// last one first, alone and with another task in between.
pub fn call_chains_of_children(ctx: &Ctx) -> Result<()> {
    let hardware = Hardware::of(&ctx.pmu()?)?;
    if !hardware.has_call_stack {
        return Ok(());
    }
    let program = NESTED.install()?;
    for (name, pmu) in drivers(ctx)? {
        for child in [Child::Thread, Child::Fork, Child::Exec] {
            let calls = Calls::of(child, &program)?;
            for beside in [Beside::Nothing, Beside::Other, Beside::Sibling] {
                let what = || format!("{name}, {child:?}, beside: {beside:?}");
                let mut sampler = sampled(&pmu, child, beside, &program).with_context(what)?;
                // The in-tree driver loses the calls if perf has exchanged the events of parent and child,
                // and another task runs: see docs/upstream/findings.md.
                let may_be_lost = name == "in-tree";
                calls
                    .compare(&mut sampler, hardware, may_be_lost)
                    .with_context(what)?;
            }
        }
    }
    Ok(())
}
