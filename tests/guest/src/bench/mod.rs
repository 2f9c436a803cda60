// SPDX-License-Identifier: GPL-2.0
//! `guest-tests bench`: what operations on events cost, on the module's PMU and on the in-tree one.
//!
//! Instructions are differences of the TSC, which counts them under `-icount`, less those of the
//! same run without events. Accesses to registers are counted by the emulated PMU. Both
//! are exact, but for what the kernel does besides: ticks and what they start. So each operation is
//! measured in many short windows, and the cheapest window counts.

pub mod operations;

use anyhow::{ensure, Context, Result};
use clap::Args;
use serde_json::{json, Value};

use crate::accesses::{Accesses, Since};
use crate::ctx::Ctx;
use crate::pmu::{CpuPmu, Pmu};
use crate::setting::SampleRate;
use crate::tests::cost::instructions;
use operations::Operation;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Measure only the operations whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
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

/// The cheapest of so many windows, in instructions and in each access. `prepare` is not part of
/// them.
fn cheapest<T>(
    windows: usize,
    mut prepare: impl FnMut() -> Result<T>,
    mut work: impl FnMut(&mut T) -> Result<()>,
) -> Result<Window> {
    // The first one finds cold caches of the kernel's.
    work(&mut prepare()?)?;
    let mut best: Option<Window> = None;
    for _ in 0..windows {
        let mut prepared = prepare()?;
        let since = Since::now()?;
        let window = Window {
            instructions: instructions(|| work(&mut prepared))?,
            accesses: since.until_now(),
        };
        best = Some(match best {
            Some(best) => best.least(&window),
            None => window,
        });
    }
    best.context("no window")
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

/// The cost of an operation as JSON, and whether two measurements agree. `None` if the PMU cannot do
/// it.
fn settled(operation: &Operation, pmu: &Pmu) -> Result<Option<Value>> {
    let Some(mut last) = cost(operation, pmu)? else {
        return Ok(None);
    };
    let mut agree = false;
    for _ in 1..ATTEMPTS {
        let Some(next) = cost(operation, pmu)? else {
            break;
        };
        agree = next == last;
        last = next;
        if agree {
            break;
        }
    }
    let total = last.accesses.iter().fold(0.0, |sum, (_, n)| sum + n);
    let by_register: serde_json::Map<_, _> = last
        .accesses
        .into_iter()
        .map(|(access, n)| (access, json!(n)))
        .collect();
    Ok(Some(json!({
        "instructions": last.instructions,
        "accesses": total,
        "by_register": by_register,
        "settled": agree,
    })))
}

/// Measures, and prints a line of JSON about the PMU, and one for each operation.
pub fn run(ctx: &Ctx, options: &Options) -> Result<()> {
    let sides = [ctx.pmu()?, ctx.in_tree()?];
    // No event is throttled, and none is by the timer.
    let _rate = SampleRate::fixed(1_000_000_000)?;
    let operations = operations::all();
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
    ensure!(any, "no operation's name contains {}", options.only);
    Ok(())
}
