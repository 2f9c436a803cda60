// SPDX-License-Identifier: GPL-2.0
//! Runs a round: forks the workers, watches them, and waits for their end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::WaitStatus;
use nix::unistd::{fork, setpgid, ForkResult, Pid};

use super::lanes::{Counted, Lanes};
use super::op::{Kind, Op};
use super::signals;
use super::worker::Worker;
use super::world::{Class, World};

use crate::waiting;

/// How often the watching process looks at the workers.
const INTERVAL: Duration = Duration::from_millis(20);
/// How long a killed worker may take to end.
const KILLED: Duration = Duration::from_secs(60);

/// What a round, or several, did.
#[derive(Default)]
pub struct Tally {
    pub operations: u64,
    pub opened: u64,
    pub exact: u64,
    pub records: u64,
    /// By kind.
    pub kinds: BTreeMap<&'static str, Counted>,
}

impl Tally {
    fn new(lanes: &Lanes) -> Self {
        let mut tally = Self::default();
        for lane in lanes.iter() {
            tally.opened += lane.opened.load(SeqCst);
            tally.exact += lane.exact.load(SeqCst);
            tally.records += lane.records.load(SeqCst);
            for kind in Kind::ALL {
                tally.add_kind(kind.name(), lane.counted(*kind));
            }
        }
        tally
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.exact += other.exact;
        self.records += other.records;
        for (kind, counted) in &other.kinds {
            self.add_kind(kind, *counted);
        }
    }

    fn add_kind(&mut self, kind: &'static str, counted: Counted) {
        let sum = self.kinds.entry(kind).or_default();
        sum.done += counted.done;
        sum.refused += counted.refused;
        sum.microseconds += counted.microseconds;
        self.operations += counted.done;
    }
}

/// Why a round failed.
#[derive(Debug)]
pub struct Failure {
    pub what: String,
    /// Whether processes are left that cannot be killed, so that nothing else can be tried.
    pub is_final: bool,
}

impl Failure {
    /// The reason without the operation and the numbers.
    pub fn kind(&self) -> String {
        let line = self.what.lines().next().unwrap_or_default();
        let reason = line.rsplit_once(": ").map_or(line, |(_, reason)| reason);
        reason.replace(|c: char| c.is_ascii_digit(), "")
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self {
            what: format!("{error:#}"),
            is_final: false,
        }
    }
}

/// The operations of a round, each with its number, by worker.
pub type Plan = Vec<Vec<(u32, Op)>>;

/// Numbers the operations of all workers.
pub fn number(workers: Vec<Vec<Op>>) -> Plan {
    let mut numbers = 0u32..;
    workers
        .into_iter()
        .map(|ops| {
            ops.into_iter()
                .map(|op| (numbers.next().unwrap_or(0), op))
                .collect()
        })
        .collect()
}

/// The part of a plan with these numbers.
pub fn part(plan: &Plan, keep: &[u32]) -> Plan {
    let kept = |(number, _): &&(u32, Op)| keep.binary_search(number).is_ok();
    plan.iter()
        .map(|ops| ops.iter().filter(kept).copied().collect())
        .collect()
}

/// Runs the workers of a round until all have ended. `patience` is how long an operation may take.
pub fn run(world: &World, plan: &Plan, patience: Duration) -> Result<Tally, Failure> {
    set_child_subreaper(true).context("PR_SET_CHILD_SUBREAPER")?;
    // For the workers: one may send another a signal as soon as that has a PID.
    signals::install()?;
    let lanes = Lanes::new(plan.len())?;
    let of_other = |op: &Op| match op {
        Op::Open(open) => world.events[open.event].class == Class::Other,
        Op::CountProgram { event, .. } => world.events[*event].class == Class::Other,
        _ => false,
    };
    let shared = plan.iter().flatten().any(|(_, op)| of_other(op));
    let mut workers = Vec::new();
    for (number, ops) in plan.iter().enumerate() {
        // SAFETY: this program has only one thread here, so that no lock is held in the child.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Parent { child } => {
                lanes[number].pid.store(child.as_raw(), SeqCst);
                let _ = setpgid(child, child);
                workers.push(child);
            }
            ForkResult::Child => work(world, &lanes, number, shared, ops),
        }
    }
    let failure = watch(&lanes, plan, &workers, patience);
    if let Some(failure) = failure {
        return Err(end_all(&workers, failure));
    }
    // Orphans of workers: all of them end by themselves.
    reap_orphans(patience)?;
    Ok(Tally::new(&lanes))
}

/// A worker's process.
fn work(world: &World, lanes: &Lanes, number: usize, shared: bool, ops: &[(u32, Op)]) -> ! {
    let lane = &lanes[number];
    let result = catch_unwind(AssertUnwindSafe(|| -> Result<()> {
        set_pdeathsig(Signal::SIGKILL)?;
        Worker::new(world, lanes, number, shared).run(ops)
    }));
    let status = match result {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            lane.fail(&format!("{error:#}"));
            1
        }
        Err(_) => {
            lane.fail("panicked, see above");
            1
        }
    };
    // SAFETY: _exit() ends the process without running code of this program: what is there, is the
    // parent's.
    unsafe { libc::_exit(status) }
}

/// Waits until all workers have ended. Returns what is wrong.
fn watch(lanes: &Lanes, plan: &Plan, workers: &[Pid], patience: Duration) -> Option<String> {
    let mut running: Vec<usize> = (0..workers.len()).collect();
    let mut seen = vec![(0, Instant::now()); workers.len()];
    while !running.is_empty() {
        let mut failure = None;
        running.retain(|number| match waiting::look_at(Some(workers[*number])) {
            Ok(WaitStatus::StillAlive) => true,
            Ok(WaitStatus::Exited(_, 0)) => false,
            status => {
                let why = lanes[*number].message();
                let why = why.unwrap_or_else(|| format!("ended: {status:?}"));
                let at = lanes[*number].at.load(SeqCst);
                failure = Some(format!("worker {number}, operation {at}: {why}"));
                false
            }
        });
        if failure.is_some() {
            return failure;
        }
        for &number in &running {
            let steps = lanes[number].steps.load(SeqCst);
            let (before, since) = &mut seen[number];
            if *before != steps {
                (*before, *since) = (steps, Instant::now());
            } else if since.elapsed() > patience {
                return Some(hang(lanes, plan, workers, &running));
            }
        }
        sleep(INTERVAL);
    }
    None
}

/// Says which operations the workers are in.
fn hang(lanes: &Lanes, plan: &Plan, workers: &[Pid], running: &[usize]) -> String {
    let mut text = "a worker makes no progress".to_owned();
    for &number in running {
        let at = lanes[number].at.load(SeqCst);
        let ops = plan[number].iter();
        let op = ops.clone().find(|(it, _)| *it == at).map(|(_, op)| op);
        let _ = write!(text, "\nworker {number} is in operation {at}: {op:?}");
        for file in ["wchan", "syscall", "stack"] {
            let path = format!("/proc/{}/{file}", workers[number]);
            if let Ok(content) = fs::read_to_string(path) {
                let _ = write!(text, "\n{file}: {}", content.trim_end());
            }
        }
    }
    // The kernel log then has the stacks of blocked tasks and of all CPUs.
    for key in ["w", "l"] {
        let _ = fs::write("/proc/sysrq-trigger", key);
    }
    text
}

/// Kills what is left of the workers.
fn end_all(workers: &[Pid], what: String) -> Failure {
    for worker in workers {
        // Their children are killed when they end. Those in the group are children of children.
        let _ = kill(*worker, Signal::SIGKILL);
        let _ = kill(Pid::from_raw(-worker.as_raw()), Signal::SIGKILL);
    }
    match reap_orphans(KILLED) {
        Ok(()) => Failure {
            what,
            is_final: false,
        },
        Err(error) => Failure {
            what: format!("{what}\nafter SIGKILL: {error:#}"),
            is_final: true,
        },
    }
}

/// Waits until this process has no children.
fn reap_orphans(patience: Duration) -> Result<()> {
    let start = Instant::now();
    loop {
        match waiting::look_at(None) {
            Err(Errno::ECHILD) => return Ok(()),
            Ok(WaitStatus::StillAlive) => {
                anyhow::ensure!(start.elapsed() < patience, "a process does not end");
                sleep(INTERVAL);
            }
            Ok(_) => {}
            Err(errno) => return Err(errno).context("waitpid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_a_kind() {
        let kind = |what: &str| {
            let failure = Failure {
                what: what.to_owned(),
                is_final: false,
            };
            failure.kind()
        };
        let count =
            "worker 2, operation 148: Read { slot: 5, len: 512 }: cpu/cycles/: 9, expected 8";
        assert_eq!(kind(count), ", expected ");
        assert_eq!(kind("in the kernel log:\nBUG: what"), "in the kernel log:");
        assert_eq!(kind(""), "");
    }

    #[test]
    fn a_part_of_a_plan() {
        let plan = number(vec![vec![Op::Reap, Op::Loop(1)], vec![Op::Loop(2)]]);
        assert_eq!(plan[1], [(2, Op::Loop(2))]);
        let part = part(&plan, &[1, 2]);
        assert_eq!(part, [vec![(1, Op::Loop(1))], vec![(2, Op::Loop(2))]]);
    }
}
