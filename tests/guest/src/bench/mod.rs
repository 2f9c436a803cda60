// SPDX-License-Identifier: GPL-2.0
//! `guest-tests bench`: what operations on events cost, on the module's PMU and on the in-tree one.
//!
//! Instructions are differences of the TSC, which counts them under `-icount`, less those of the
//! same run without events. Accesses to registers are counted by the emulated PMU. Both
//! are exact, but for what the kernel does besides: ticks and what they start. So each operation is
//! measured in many short windows, and the cheapest window counts. With several CPUs the TSC counts
//! the instructions of all of them.

mod branches;
pub mod operations;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{ensure, Context, Result};
use clap::Args;
use nix::unistd::getppid;
use serde_json::{json, Value};

use crate::accesses::{Accesses, Since};
use crate::ctx::Ctx;
use crate::pmu::{CpuPmu, Pmu};
use crate::setting::{Affinity, SampleRate};
use crate::tests::branches::has_call_stacks;
use crate::tests::cost::instructions;
use crate::tests::cpus;
use operations::Operation;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Measure only the operations whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Do this operation with each driver and without events, while the instructions of the windows are
    /// traced.
    #[arg(long, requires = "while_exists")]
    traced: Option<String>,
    /// They are traced while there is this file.
    #[arg(long)]
    while_exists: Option<PathBuf>,
}

/// How often a figure is measured until two agree.
const ATTEMPTS: usize = 4;

/// What a window cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    instructions: f64,
    pub accesses: Accesses,
}

impl Window {
    /// What both windows have of each.
    fn least(self, other: &Self) -> Self {
        let both = |(access, n): (_, u32)| Some((access, n.min(*other.accesses.get(&access)?)));
        Self {
            instructions: self.instructions.min(other.instructions),
            accesses: self.accesses.into_iter().filter_map(both).collect(),
        }
    }
}

/// Calls `work` on each of so many CPUs, from the first one on.
fn on_each<T>(cpus: usize, mut work: impl FnMut(usize) -> Result<T>) -> Result<Vec<T>> {
    let affinity = Affinity::save()?;
    let on = |cpu| {
        affinity.pin(cpu)?;
        work(cpu)
    };
    (0..cpus).map(on).collect()
}

/// The cheapest of so many windows, in instructions and in each access to registers of the first `cpus`
/// CPUs. `prepare` is not part of them.
fn cheapest<T>(
    windows: usize,
    cpus: usize,
    mut prepare: impl FnMut() -> Result<T>,
    mut work: impl FnMut(&mut T) -> Result<()>,
) -> Result<Window> {
    // The first one finds cold caches of the kernel's.
    work(&mut prepare()?)?;
    let mut best: Option<Window> = None;
    for _ in 0..windows {
        let mut prepared = prepare()?;
        let since = on_each(cpus, |_| Since::now())?;
        trace("begin", true);
        let instructions = instructions(|| work(&mut prepared))?;
        trace("end", false);
        let mut accesses = Accesses::new();
        for (access, n) in on_each(cpus, |cpu| since[cpu].until_now())?
            .into_iter()
            .flatten()
        {
            *accesses.entry(access).or_default() += n;
        }
        let window = Window {
            instructions,
            accesses,
        };
        best = Some(match best {
            Some(best) => best.least(&window),
            None => window,
        });
    }
    best.context("no window")
}

/// Exists while instructions are traced, if they are to be.
static TRACE: OnceLock<PathBuf> = OnceLock::new();

/// Asks for the beginning or the end of a trace, and waits for it. A system call that nothing else here makes is
/// the first or the last thing in it.
fn trace(what: &str, on: bool) {
    let Some(file) = TRACE.get() else {
        return;
    };
    let mark = || {
        let _parent = getppid();
    };
    if !on {
        mark();
    }
    println!("{what}");
    // Without a sleep, in which another task might run for long in a trace.
    while file.exists() != on {}
    if on {
        mark();
    }
}

/// The cost of one operation.
#[derive(Clone, Debug, PartialEq)]
struct Cost {
    instructions: f64,
    /// By access.
    accesses: Vec<(String, f64)>,
}

fn cost(operation: &Operation, pmu: &Pmu) -> Result<Option<Cost>> {
    let Some(with) = operation.measure(Some(pmu))? else {
        return Ok(None);
    };
    let without = operation.measure(None)?.context("no baseline")?;
    let times = f64::from(operation.times);
    let per_time = |(access, n): (_, u32)| (format!("{access}"), f64::from(n) / times);
    Ok(Some(Cost {
        instructions: (with.instructions - without.instructions) / times,
        accesses: with.accesses.into_iter().map(per_time).collect(),
    }))
}

/// The cost of an operation as JSON, and which figures of two measurements agree. `None` if the PMU
/// cannot do it.
fn settled(operation: &Operation, pmu: &Pmu) -> Result<Option<Value>> {
    let Some(mut last) = cost(operation, pmu)? else {
        return Ok(None);
    };
    let mut accesses_agree = false;
    let mut instructions_agree = false;
    for _ in 1..ATTEMPTS {
        let Some(next) = cost(operation, pmu)? else {
            break;
        };
        accesses_agree = next.accesses == last.accesses;
        instructions_agree = next.instructions == last.instructions || operation.spins;
        last = next;
        if accesses_agree && instructions_agree {
            break;
        }
    }
    let instructions = (!operation.spins).then_some(last.instructions);
    let total = last.accesses.iter().fold(0.0, |sum, (_, n)| sum + n);
    let by_register: serde_json::Map<_, _> = last
        .accesses
        .into_iter()
        .map(|(access, n)| (access, json!(n)))
        .collect();
    Ok(Some(json!({
        "instructions": instructions,
        "instructions_settled": instructions_agree,
        "accesses": total,
        "accesses_settled": accesses_agree,
        "by_register": by_register,
    })))
}

/// Measures, and prints a line of JSON about the PMU, and one for each operation.
pub fn run(ctx: &Ctx, options: &Options) -> Result<()> {
    let sides = [ctx.pmu()?, ctx.in_tree()?];
    // No event is throttled, and none is by the timer.
    let _rate = SampleRate::fixed(1_000_000_000)?;
    let has_branches = sides[0].dir().join("caps/branches").exists();
    let operations = match cpus()? {
        // The other operations are measured on the other machines.
        1 if has_branches => branches::all(has_call_stacks(&sides[0])?),
        1 => operations::of_one_cpu(),
        n => {
            let most = suites::BENCH_CPUS;
            ensure!(n >= most as usize, "needs one CPU, or {most}: here are {n}");
            operations::of_several_cpus()
        }
    };
    if let (Some(name), Some(file)) = (&options.traced, &options.while_exists) {
        let operation = operations.iter().find(|it| it.name == *name);
        let operation = operation.with_context(|| no_operation(&operations, name))?;
        return traced(operation, &sides, file);
    }
    let chosen = operations
        .iter()
        .filter(|it| it.name.contains(&options.only));
    println!(
        "{}",
        json!({ "global_control": CpuPmu::probe().global_control })
    );
    let mut any = false;
    for operation in chosen {
        any = true;
        let of = |pmu| {
            settled(operation, pmu).with_context(|| format!("{} on {}", operation.name, pmu.name))
        };
        let [ours, theirs] = [of(&sides[0])?, of(&sides[1])?];
        let line = json!({ "operation": operation.name, "ours": ours, "in_tree": theirs });
        println!("{line}");
    }
    ensure!(any, no_operation(&operations, &options.only));
    Ok(())
}

fn no_operation(operations: &[Operation], name: &str) -> String {
    let names: Vec<_> = operations.iter().map(|it| it.name.as_str()).collect();
    format!(
        "no such operation: {name}; there are:\n{}",
        names.join("\n")
    )
}

/// Prints how often a window does the operation, and does it in as many windows with each PMU and without
/// events.
fn traced(operation: &Operation, sides: &[Pmu; 2], file: &Path) -> Result<()> {
    println!("{}", operation.times);
    TRACE.get_or_init(|| file.to_owned());
    for pmu in [Some(&sides[0]), Some(&sides[1]), None] {
        println!("kind");
        let window = operation.measure(pmu)?;
        let name = pmu.map_or("nothing", |pmu| &pmu.name);
        ensure!(window.is_some(), "{name} cannot do that");
    }
    Ok(())
}
