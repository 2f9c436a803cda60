// SPDX-License-Identifier: GPL-2.0
//! A stress test of all PMUs of the module: processes that open, use and close events at random,
//! in rounds that follow from a seed.
//!
//! A round is a few sequences of operations, each for a process of its own. The sequences are made
//! before the round starts. After a round nothing may be left: see `quiet.rs`. Within a round,
//! counts are checked that are known: see `worker.rs`. If a round fails, it is repeated with parts
//! of its sequences until these are short, and `--round` and `--keep` repeat that.
//!
//! - `op.rs`: the operations
//! - `generate.rs`, `open.rs`: random ones
//! - `world.rs`: what they refer to
//! - `worker.rs`, `slot.rs`, `child.rs`, `signals.rs`, `suspend.rs`: doing them
//! - `round.rs`, `lanes.rs`: the processes of a round, and who watches them
//! - `quiet.rs`: what must be true after a round
//! - `cycles.rs`: many loads of the module, and CPUs that go offline many times
//! - `shrink.rs`: shorter sequences that fail as well

mod child;
mod cycles;
mod generate;
mod lanes;
mod op;
mod open;
mod quiet;
mod round;
mod shrink;
mod signals;
mod slot;
mod suspend;
mod worker;
mod world;

use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use self::generate::Limits;
use self::op::Op;
use self::quiet::Quiet;
use self::round::{Failure, Plan, Tally};
use self::world::World;
use crate::ctx::{Ctx, Test};
use crate::module;
use crate::setting::{SampleRate, Setting};
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [Root, Module];
    short,
];

/// The rounds between two checks of the counters and loads of the module.
const ROUNDS: u64 = 10;
/// The attempts to find a shorter sequence, and how long they may take.
const ATTEMPTS: usize = 150;
const SHRINKING: Duration = Duration::from_secs(300);
/// How often a shorter sequence is tried before it counts as good.
const TRIES: u32 = 3;
/// The samples a second: few enough that events are throttled.
const SAMPLE_RATE: u64 = 5_000;
/// The part of the time that samples may take before perf lowers that number. An emulated CPU on a
/// busy host could do nothing else.
const TIME_PERCENT: u32 = 25;

/// Stresses the module's PMUs with random operations.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The PMU of the CPU's counters to test, `cpu` for example (default: the module's).
    #[arg(long)]
    pub pmu: Option<String>,
    /// The seed of the sequences.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End after this many operations [default: 20000, if no other limit is given].
    #[arg(long)]
    operations: Option<u64>,
    /// End after this many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Run this round only.
    #[arg(long)]
    round: Option<u64>,
    /// Run it so many times.
    #[arg(long, requires = "round", default_value_t = 1)]
    repeat: u64,
    /// Of this round, do these operations only, such as 3,17,203.
    #[arg(long, requires = "round", value_delimiter = ',')]
    keep: Vec<u32>,
    /// Print the operations of the round, and run nothing.
    #[arg(long, requires = "round")]
    show: bool,
    /// Instead of rounds, unload and load the module so many times.
    #[arg(long, value_name = "CYCLES")]
    loads: Option<u64>,
    /// Instead of rounds, take CPUs offline and online so many times, while events count.
    #[arg(long, value_name = "CYCLES")]
    hotplug: Option<u64>,
    /// Take no CPU offline.
    #[arg(long)]
    no_hotplug: bool,
    /// Freeze the tasks as for suspend, now and then.
    #[arg(long)]
    suspend: bool,
    /// An operation that takes longer than this many seconds is a hang.
    #[arg(long, default_value_t = 180)]
    patience: u64,
    /// Print the progress every so many seconds.
    #[arg(long, default_value_t = 10)]
    progress: u64,
}

/// 5000 random operations of several processes on all PMUs end with the results that are due, and
/// leave nothing behind.
fn short(ctx: &Ctx) -> Result<()> {
    run(
        ctx,
        &Options {
            pmu: None,
            seed: ctx.seed,
            operations: Some(5_000),
            seconds: None,
            round: None,
            repeat: 1,
            keep: Vec::new(),
            show: false,
            loads: None,
            hotplug: None,
            no_hotplug: false,
            suspend: suspend::is_available(),
            patience: 180,
            progress: 10,
        },
    )
}

/// Runs rounds until a limit is reached. An error says how to repeat what failed.
pub fn run(ctx: &Ctx, options: &Options) -> Result<()> {
    if !module::is_loaded() {
        module::insert(ctx)?.context("insmod")?;
    }
    let rate = SampleRate::limit(SAMPLE_RATE)?;
    rate.set_percent(TIME_PERCENT)?;
    // Closing an event waits for RCU.
    let _expedited = Setting::change("/sys/kernel/rcu_expedited", 1)?;
    let _suspend = match options.suspend {
        true => suspend::prepare()?,
        false => Vec::new(),
    };
    let mut stress = Stress {
        ctx,
        options,
        world: World::new(ctx)?,
        quiet: Quiet::new()?,
    };
    if options.loads.is_some() || options.hotplug.is_some() {
        return stress.cycles();
    }
    if let (true, Some(number)) = (options.show, options.round) {
        stress.print(&stress.plan(number));
        return Ok(());
    }
    let start = Instant::now();
    let mut shown = start;
    let mut tally = Tally::default();
    let limit = options.operations.or(match options.seconds {
        Some(_) => None,
        None => Some(20_000),
    });
    for done in 1.. {
        let number = options.round.unwrap_or(done - 1);
        tally.add(&stress.round(number)?);
        let by_operations = limit.is_some_and(|limit| tally.operations >= limit);
        let by_time = options
            .seconds
            .is_some_and(|seconds| start.elapsed() >= Duration::from_secs(seconds));
        let ends = match options.round {
            Some(_) => done == options.repeat,
            None => by_operations || by_time,
        };
        if ends || shown.elapsed() >= Duration::from_secs(options.progress) {
            shown = Instant::now();
            show(&tally, done, start);
        }
        if ends {
            stress.check_machine()?;
            return quiet::no_memory_is_left();
        }
        if done % ROUNDS == 0 {
            stress.check_machine()?;
        }
    }
    Ok(())
}

/// Prints how far the run is.
fn show(tally: &Tally, rounds: u64, start: Instant) {
    let kinds: Vec<_> = tally
        .kinds
        .iter()
        .map(|(kind, counted)| {
            let refused = match counted.refused {
                0 => String::new(),
                refused => format!(" ({refused} refused)"),
            };
            let seconds = counted.microseconds as f64 / 1e6;
            format!("{kind} {}{refused} {seconds:.1} s", counted.done)
        })
        .collect();
    println!(
        "# stress: {} s, {rounds} rounds, {} operations, {} events opened, {} exact counts, \
         {} records\n#   {}",
        start.elapsed().as_secs(),
        tally.operations,
        tally.opened,
        tally.exact,
        tally.records,
        kinds.join(", ")
    );
}

struct Stress<'a> {
    ctx: &'a Ctx,
    options: &'a Options,
    world: World,
    quiet: Quiet,
}

impl Stress<'_> {
    /// The operations of a round.
    fn plan(&self, number: u64) -> Plan {
        let limits = Limits {
            hotplug: !self.options.no_hotplug,
            suspend: self.options.suspend,
        };
        let seed = self.options.seed;
        let plan = round::number(generate::round(&self.world, limits, seed, number));
        if self.options.keep.is_empty() {
            return plan;
        }
        let mut keep = self.options.keep.clone();
        keep.sort();
        round::part(&plan, &keep)
    }

    /// Runs a round. If it fails, looks for a shorter one that does.
    fn round(&mut self, number: u64) -> Result<Tally> {
        let seed = self.options.seed;
        let plan = self.plan(number);
        let mut failure = match self.attempt(&plan) {
            Ok(tally) => return Ok(tally),
            Err(failure) => failure,
        };
        println!(
            "# round {number} of seed {seed}: {}",
            indented(&failure.what)
        );
        let all: Vec<u32> = plan.iter().flatten().map(|(number, _)| *number).collect();
        let (kind, start) = (failure.kind(), Instant::now());
        let kept = match failure.is_final {
            true => all,
            false => shrink::shrink(&all, ATTEMPTS, |keep| {
                if start.elapsed() > SHRINKING {
                    return false;
                }
                let part = round::part(&plan, keep);
                let failed = (0..TRIES).find_map(|_| self.attempt(&part).err());
                // Another failure is not what is looked for.
                match failed.filter(|failed| failed.kind() == kind) {
                    Some(failed) => {
                        println!("# {} operations fail", keep.len());
                        failure = failed;
                        true
                    }
                    None => {
                        println!("# {} operations pass", keep.len());
                        false
                    }
                }
            }),
        };
        self.print(&round::part(&plan, &kept));
        let list: Vec<_> = kept.iter().map(u32::to_string).collect();
        bail!(
            "{}\nrepeat it: guest-tests stress --seed {seed} --round {number}{} --keep {}",
            failure.what,
            if self.options.suspend {
                " --suspend"
            } else {
                ""
            },
            list.join(",")
        )
    }

    /// Runs a round, and checks what is left of it.
    fn attempt(&mut self, plan: &Plan) -> Result<Tally, Failure> {
        let settings = self.world.settings()?;
        let result = round::run(
            &self.world,
            plan,
            Duration::from_secs(self.options.patience),
        );
        drop(settings);
        // Even if the round failed: the next one must not be blamed for what is left.
        let quiet = self.quiet.check(&self.world);
        let tally = result?;
        quiet?;
        Ok(tally)
    }

    /// Prints the operations.
    fn print(&self, plan: &Plan) {
        for (worker, ops) in plan.iter().enumerate() {
            for (number, op) in ops {
                let event = match op {
                    Op::Open(open) => format!("{} ", self.world.events[open.event].name),
                    _ => String::new(),
                };
                println!("# worker {worker}, {number}: {event}{op:?}");
            }
        }
    }

    /// Does what is asked for instead of rounds.
    fn cycles(&mut self) -> Result<()> {
        let (seed, Options { loads, hotplug, .. }) = (self.options.seed, self.options);
        if let Some(loads) = *loads {
            cycles::loads(self.ctx, &mut self.world, &mut self.quiet, seed, loads)?;
        }
        if let Some(times) = *hotplug {
            cycles::hotplug(&self.world, &mut self.quiet, seed, times)?;
        }
        self.quiet.check(&self.world)?;
        quiet::no_memory_is_left()
    }

    /// Checks the counters, and loads the module again.
    fn check_machine(&mut self) -> Result<()> {
        self.quiet.check_counters(&self.world)?;
        self.quiet.reload(self.ctx, &mut self.world)
    }
}

fn indented(text: &str) -> String {
    text.replace('\n', "\n#   ")
}
