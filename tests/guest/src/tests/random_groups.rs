// SPDX-License-Identifier: GPL-2.0
//! Random groups of a model's events: rust_pmu and the in-tree driver accept the same ones, and
//! count alike. Where the in-tree driver is no reference, a test says what is right.

use std::collections::BTreeMap;

use anyhow::{ensure, Context, Result};
use fastrand::Rng;
use perf_event::Counter;
use pmc::counter::CounterSet;
use pmc::event::{EventSel, Modes};
use pmc::Capabilities;

use super::codes;
use super::compare::case::eventsel::EVENT_UMASK;
use super::compare::report::{name, Report};
use crate::ctx::{Ctx, Test};
use crate::pmu::{CpuPmu, Pmu, Vendor};
use crate::tests;
use crate::workload::{self, Workload};

pub const TESTS: &[Test] = tests![
    all need [InTree, EmulatedPmu, Root, Msrs];
    same_groups,
    groups_of_family_15h: [Family15h, Module],
];

/// How many groups a test tries.
const GROUPS: usize = 300;

/// Instructions, on every vendor's CPUs.
const INSTRUCTIONS: u64 = 0x00c0;

/// What a rounded count of a short workload may be off by: the slots of a miss of the last-level
/// cache and of a mispredicted branch (`pmu-model/src/event/mod.rs`).
const STEP: u64 = 4 * (100 + 15);

/// The counters that can count an event.
fn counters_for(capabilities: &Capabilities, config: u64) -> CounterSet {
    EventSel::from_config(config, capabilities.config_mask(), Modes::ALL)
        .map_or(CounterSet::EMPTY, |event| capabilities.counters_for(event))
}

/// The codes of a model.
struct Codes {
    /// Events with a name, which the emulated PMU counts.
    named: Vec<u64>,
    /// Every general counter, and perhaps a fixed one.
    any: Vec<u64>,
    /// Not every general counter.
    bound: Vec<u64>,
}

impl Codes {
    fn new(capabilities: &Capabilities) -> Self {
        let general = capabilities.counters.gp_part();
        let is_counted = |code: &u64| {
            let counters = counters_for(capabilities, *code);
            // PERF_METRICS needs a leader that is not random.
            !counters.is_empty() && counters.metrics_part().is_empty()
        };
        let codes = (0..=EVENT_UMASK).filter(is_counted);
        let is_bound = |code: &u64| counters_for(capabilities, *code).gp_part() != general;
        let (bound, any) = codes.partition(is_bound);
        let named = capabilities.events().map(|event| event.config);
        let named = named.filter(is_counted).collect();
        Self { named, any, bound }
    }

    /// Only those that every general counter can count.
    fn without_bound(mut self) -> Self {
        self.named.retain(|code| !self.bound.contains(code));
        self.bound.clear();
        self
    }

    /// A quarter of the events of a group have a name. Half of the others are of those that not
    /// all counters can count.
    fn group(&self, rng: &mut Rng) -> Vec<u64> {
        let size = rng.usize(2..=8);
        let code = |_| {
            let from = if rng.u8(..4) == 0 {
                &self.named
            } else if self.bound.is_empty() || rng.bool() {
                &self.any
            } else {
                &self.bound
            };
            rng.choice(from).copied()
        };
        (0..size).filter_map(code).collect()
    }
}

/// An event of a group.
struct Member {
    code: u64,
    /// The count, or the errno if the event is refused. The group goes on without it then.
    result: Result<u64, i32>,
}

/// Opens a group and measures the workload with it.
fn count(pmu: &Pmu, codes: &[u64], workload: &Workload) -> Result<Vec<Member>> {
    let mut group: Vec<Counter> = Vec::new();
    let mut errnos = Vec::new();
    for code in codes {
        let mut event = pmu.raw(*code);
        let opened = match group.first_mut() {
            None => event.build(),
            Some(leader) => event.enabled(true).build_with_group(leader),
        };
        errnos.push(match opened {
            Ok(counter) => {
                group.push(counter);
                None
            }
            Err(error) => Some(error.raw_os_error().context("no errno")?),
        });
    }
    if let Some(leader) = group.first() {
        workload.measure(leader)?;
    }
    let mut group = group.iter_mut();
    let members = codes.iter().zip(errnos).map(|(code, errno)| {
        let result = match errno {
            Some(errno) => Err(errno),
            None => {
                let data = group
                    .next()
                    .context("a group that is too small")?
                    .read_full()?;
                ensure!(
                    data.time_running() == data.time_enabled(),
                    "a group that was accepted was not counted all the time: {codes:#06x?}"
                );
                Ok(data.count())
            }
        };
        Ok(Member {
            code: *code,
            result,
        })
    });
    members.collect()
}

fn text(members: &[Member]) -> String {
    let results = members.iter().map(|member| match member.result {
        Ok(count) => format!("{:#06x}: {count}", member.code),
        Err(errno) => format!("{:#06x}: {}", member.code, name(errno)),
    });
    results.collect::<Vec<_>>().join(", ")
}

/// Counts all groups on a driver, which holds the counters meanwhile.
fn count_all(pmu: &Pmu, groups: &[Vec<u64>], workload: &Workload) -> Result<Vec<Vec<Member>>> {
    let _holder = pmu.raw(INSTRUCTIONS).build()?;
    let counts = groups.iter().map(|group| count(pmu, group, workload));
    counts.collect()
}

/// Both drivers accept the same groups and count alike.
fn same_groups(ctx: &Ctx) -> Result<()> {
    let capabilities = codes::detect()?;
    let mut codes = Codes::new(&capabilities);
    let cpu = CpuPmu::probe();
    // A kernel without CONFIG_PERF_EVENTS_AMD_BRS puts all events on any counter there: see
    // "family 15H" in docs/differences.md.
    if cpu.is_family_15h() {
        codes = codes.without_bound();
    }
    let workload = workload::branches(1_000);
    // The in-tree driver has no address of Zhaoxin's fixed counters (`x86_pmu.fixedctr` is 0). It
    // takes counter 0 for none and reads 0. For counters 1 and 2 it writes MSRs 1 and 2 instead.
    let is_wrong_in_tree = |code| {
        cpu.vendor == Vendor::Zhaoxin && !counters_for(&capabilities, code).fixed_part().is_empty()
    };
    let is_like = |(ours, theirs): (&Member, &Member)| match (ours.result, theirs.result) {
        (Ok(count), Ok(_)) if is_wrong_in_tree(ours.code) => match ours.code {
            INSTRUCTIONS => count == workload.instructions(),
            _ => count != 0,
        },
        (Ok(ours), Ok(theirs)) => ours.abs_diff(theirs) <= STEP && (ours == 0) == (theirs == 0),
        (ours, theirs) => ours == theirs,
    };
    let mut report = Report::new(ctx);
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    println!(
        "# {} codes for any general counter, {} others",
        codes.any.len(),
        codes.bound.len()
    );
    let [mut refused, mut nonzero] = [0; 2];
    let groups: Vec<_> = (0..GROUPS).map(|_| codes.group(&mut rng)).collect();
    // One driver after the other, because each reserves the counters with its first event.
    let theirs = count_all(&ctx.in_tree()?, &groups, &workload)?;
    let ours = count_all(&ctx.pmu()?, &groups, &workload)?;
    for (ours, theirs) in ours.iter().zip(&theirs) {
        for member in ours {
            report.called(member.result.err().unwrap_or(0));
            report.counted += usize::from(member.result.is_ok());
            nonzero += usize::from(member.result.is_ok_and(|count| count != 0));
        }
        refused += usize::from(ours.iter().any(|member| member.result.is_err()));
        if !ours.iter().zip(theirs).all(is_like) {
            report.wrong(format!("{}; in-tree {}", text(ours), text(theirs)));
        }
    }
    println!(
        "# {GROUPS} groups, of {refused} of them an event was refused; {nonzero} counts are not 0"
    );
    ensure!(refused < GROUPS, "no group was accepted as a whole");
    ensure!(nonzero > 0, "nothing was counted");
    report.finish()
}

/// Whether each event can have a counter of its own, by trying everything.
fn fits(events: &[CounterSet], used: CounterSet) -> bool {
    let Some((first, rest)) = events.split_first() else {
        return true;
    };
    let mut free = (*first & !used).into_iter();
    free.any(|counter| fits(rest, used | CounterSet::of(counter)))
}

/// The events of family 15H, by the counters that can count them.
struct Family15h {
    /// The codes with the same counters.
    pools: Vec<Vec<u64>>,
}

impl Family15h {
    const CYCLES: u64 = 0x0076;
    /// Other events that the emulated PMU has (`pmu-model/src/generation/amd_legacy.rs`). It counts
    /// instructions for those that are bound to some counters, and nothing for the rest.
    const MODELLED: [u64; 6] = [0x037d, 0x077d, 0x037e, 0x077e, 0xff60, 0x0964];
    /// Codes of more than 8 bits that the BKDG has.
    const LONG: [u64; 3] = [0x1_0000_0087, 0x1_0000_0088, 0x1_0000_00c0];

    fn new(capabilities: &Capabilities) -> Self {
        let mut pools: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for code in (0..=EVENT_UMASK).chain(Self::LONG) {
            let counters = counters_for(capabilities, code);
            if counters != capabilities.counters {
                pools.entry(counters.bits()).or_default().push(code);
            }
        }
        println!("# {} sets of counters, with the empty one", pools.len());
        let mut pools: Vec<_> = pools.into_values().collect();
        pools.push(vec![Self::CYCLES]);
        pools.push(Self::MODELLED.to_vec());
        pools.push(Self::LONG.to_vec());
        Self { pools }
    }

    fn group(&self, rng: &mut Rng) -> Vec<u64> {
        let size = rng.usize(2..=8);
        let code = |_| {
            let pool = rng.choice(&self.pools)?;
            rng.choice(pool).copied()
        };
        (0..size).filter_map(code).collect()
    }

    fn is_right(code: u64, count: u64, workload: &Workload) -> bool {
        match code {
            Self::CYCLES => count >= workload.instructions(),
            _ => count == workload.instructions() || Self::MODELLED.contains(&code),
        }
    }
}

/// A group is accepted if each of its events can have one of its counters, and then it is there:
/// an event counts nothing on another counter. codes.rs compares the sets of counters with the
/// in-tree driver's.
fn groups_of_family_15h(ctx: &Ctx) -> Result<()> {
    let capabilities = codes::detect()?;
    let events = Family15h::new(&capabilities);
    let workload = workload::branches(1_000);
    let mut report = Report::new(ctx);
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    let groups: Vec<_> = (0..GROUPS).map(|_| events.group(&mut rng)).collect();
    let mut refused = 0;
    for group in count_all(&ctx.pmu()?, &groups, &workload)? {
        let mut accepted = Vec::new();
        let mut right = true;
        for Member { code, result } in &group {
            report.called(result.err().unwrap_or(0));
            report.counted += usize::from(result.is_ok());
            accepted.push(counters_for(&capabilities, *code));
            let fits = fits(&accepted, CounterSet::EMPTY);
            if !fits {
                accepted.pop();
                refused += 1;
            }
            right &= match result {
                Ok(count) => fits && Family15h::is_right(*code, *count, &workload),
                Err(errno) => !fits && *errno == libc::EINVAL,
            };
        }
        if !right {
            report.wrong(text(&group));
        }
    }
    println!("# {GROUPS} groups, {refused} events refused");
    ensure!(
        report.counted > 0 && refused > 0,
        "no event was accepted, or all were"
    );
    report.finish()
}
