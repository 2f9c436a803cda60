// SPDX-License-Identifier: GPL-2.0
//! Which counters of a model can count which events: rust_pmu and the in-tree driver
//! agree.
//!
//! perf refuses a group that cannot be on the counters at once. So the largest group of
//! equal events shows how many counters can count the event, and a group of different
//! events shows whether these are the same counters.
//!
//! The emulated PMU has lists of its own (`pmu-model/src/processor/constraint.rs`). There an
//! event of a list counts instructions, but for some that are misses, and nothing on a counter that
//! cannot count it. So a count of 0 shows an event on a wrong counter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;

use anyhow::{ensure, Context, Result};
use fastrand::Rng;
use perf_event::Counter;

use super::compare::case::eventsel::{CMASK, CMASK_1, EDGE, EVENT_UMASK, INV};
use super::compare::report::{name, Report};
use crate::ctx::{skip, Ctx, Test};
use crate::pmu::{CpuPmu, Event, Pmu};
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [InTree, EmulatedPmu];
    model_is_known,
    equal_events,
    different_events,
    counts: [ExactCounts, General(2)],
    every_member_counts: [ExactCounts],
];

/// Both drivers know the model, and have the same name for it, which is also the name of
/// the suite.
fn model_is_known(ctx: &Ctx) -> Result<()> {
    let model = |pmu: &Pmu| -> Result<String> {
        let file = pmu.dir().join("caps/pmu_name");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Ok(text.trim_end().to_string())
    };
    let (ours, theirs) = (model(&ctx.pmu()?)?, model(&ctx.in_tree()?)?);
    ensure!(ours == theirs, "{ours}, in-tree {theirs}");
    let letters = |name: &str| name.replace(['-', '_'], "");
    let suite = ctx.suite.name.trim_start_matches("models-");
    ensure!(
        letters(&ours) == letters(suite),
        "{ours} on the machine of {}",
        ctx.suite.name
    );
    Ok(())
}

/// The event selects of which some model binds only some unit masks to certain counters.
const BY_UNIT_MASK: &[u64] = &[
    0x00, 0x2e, 0x3c, 0x46, 0x47, 0x48, 0x73, 0x75, 0x76, 0x79, 0x9c, 0xa3, 0xa4, 0xb1, 0xb2, 0xb7,
    0xc0, 0xc2, 0xcd, 0xd0, 0xd3,
];

/// Events whose unmodified form a fixed counter or only some general counters count.
const MODIFIED: &[u64] = &[
    0x00c0, 0x003c, 0x0300, 0x013c, 0x0148, 0x01c0, 0x04a3, 0x08a3, 0x02c2, 0x0073, 0x019c, 0x000a,
    0x00d1,
];

/// What fixed counters 0 to 3 count, by the codes that no general counter has.
const PSEUDO: &[u64] = &[0x0100, 0x0200, 0x0300, 0x0400];

const MODIFIERS: &[u64] = &[EDGE, CMASK_1, INV | CMASK_1, EDGE | INV | CMASK];

/// The events to compare: all event selects, every unit mask that a constraint of any
/// model names, and random ones.
fn configs(rng: &mut Rng) -> Vec<u64> {
    const RANDOM: usize = 500;
    let unit_masks = (0..=0x14).chain([0x21, 0x22, 0x3f, 0x41, 0x4f, 0xff]);
    let unit_masks = unit_masks.chain(0x80..=0x88);
    let mut configs = BTreeSet::new();
    for event in 0..=0xff {
        configs.extend([0x00, 0x01, 0x10].map(|umask| (umask << 8) | event));
    }
    for umask in unit_masks {
        configs.extend(BY_UNIT_MASK.iter().map(|event| (umask << 8) | event));
    }
    for modifier in MODIFIERS {
        configs.extend(MODIFIED.iter().map(|config| config | modifier));
    }
    for _ in 0..RANDOM {
        let modifier = match rng.u8(..4) {
            0 => *rng.choice(MODIFIERS).unwrap_or(&0),
            _ => 0,
        };
        configs.insert(rng.u64(..) & EVENT_UMASK | modifier);
    }
    configs.into_iter().collect()
}

/// Events that are counted together.
struct Group<'a> {
    pmu: &'a Pmu,
    events: Vec<Counter>,
}

impl<'a> Group<'a> {
    fn new(pmu: &'a Pmu) -> Self {
        let events = Vec::new();
        Self { pmu, events }
    }

    /// Opens one more event. Returns 0, or the errno if it is refused.
    fn add(&mut self, config: u64) -> Result<i32> {
        let mut event = self.pmu.raw(config);
        let counter = match self.events.first_mut() {
            None => event.build(),
            // A disabled member needs no counter.
            Some(leader) => event.enabled(true).build_with_group(leader),
        };
        match counter {
            Ok(counter) => self.events.push(counter),
            Err(error) => return error.raw_os_error().context("no errno"),
        }
        Ok(0)
    }
}

/// The largest group of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    /// How many events it has.
    events: usize,
    /// Why there cannot be one more.
    errno: i32,
}

impl Limit {
    /// Tries up to `most` events.
    fn of(pmu: &Pmu, config: u64, most: usize) -> Result<Self> {
        let mut group = Group::new(pmu);
        let mut errno = 0;
        while errno == 0 && group.events.len() < most {
            errno = group.add(config)?;
        }
        let events = group.events.len();
        Ok(Self { events, errno })
    }
}

/// Does this while the PMU's driver holds the counters, so that it does not reserve them
/// for each group anew.
fn holding<T>(pmu: &Pmu, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _holder = pmu.raw(0xc0).build()?;
    work()
}

/// The limits of events on both drivers.
struct Limits {
    /// By `config`: rust_pmu's limit and the in-tree driver's.
    both: BTreeMap<u64, (Limit, Limit)>,
}

/// The unit masks of event select 0 by which the in-tree driver names what is no counter:
/// the metrics of PERF_METRICS, and the branch stack of a guest.
const NO_COUNTER: &[u64] = &[0x1b, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87];

/// What the limits of an event should be.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// Those of the in-tree driver.
    Same,
    /// rust_pmu refuses the event: no counter counts it. See "event select 0" in docs/differences.md.
    Refused,
}

impl Limits {
    fn new(ctx: &Ctx, configs: &[u64]) -> Result<Self> {
        // One more than there are counters.
        let CpuPmu { general, fixed, .. } = CpuPmu::probe();
        let most = (general + fixed + 1) as usize;
        let all = |pmu: &Pmu| {
            let limits = configs.iter().map(|config| Limit::of(pmu, *config, most));
            holding(pmu, || limits.collect::<Result<Vec<_>>>())
        };
        let (theirs, ours) = (all(&ctx.in_tree()?)?, all(&ctx.pmu()?)?);
        let pairs = ours.into_iter().zip(theirs);
        Ok(Self {
            both: configs.iter().copied().zip(pairs).collect(),
        })
    }

    fn due(config: u64, theirs: Limit) -> Due {
        let (event, umask) = (config & 0xff, (config >> 8) & 0xff);
        // If one event fits, it is on the fixed counter that the unit mask stands for.
        let on_fixed = theirs.events <= 1 && !NO_COUNTER.contains(&umask);
        if event == 0 && umask != 0 && !on_fixed {
            return Due::Refused;
        }
        Due::Same
    }

    /// The events that both drivers count on the same number of counters.
    fn comparable(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.both.iter().filter_map(|(config, (ours, theirs))| {
            let same = Self::due(*config, *theirs) == Due::Same && ours.events > 0;
            same.then_some((*config, ours.events))
        })
    }
}

/// The largest group of equal events is the same on both drivers.
fn equal_events(ctx: &Ctx) -> Result<()> {
    let mut report = Report::new(ctx);
    let limits = Limits::new(ctx, &configs(&mut Rng::with_seed(ctx.seed)))?;
    let mut refused = 0;
    for (config, (ours, theirs)) in &limits.both {
        report.called(if ours.events == 0 { ours.errno } else { 0 });
        let due = if ctx.is_rust_pmu() {
            Limits::due(*config, *theirs)
        } else {
            Due::Same
        };
        let right = match due {
            Due::Same => ours == theirs,
            Due::Refused => {
                refused += 1;
                (ours.events, ours.errno) == (0, libc::EINVAL)
            }
        };
        if !right {
            report.wrong(format!(
                "{config:#06x}: {} events, then {}; in-tree {}, then {} ({due:?})",
                ours.events,
                name(ours.errno),
                theirs.events,
                name(theirs.errno),
            ));
        }
    }
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, size) in limits.comparable() {
        *sizes.entry(size).or_default() += 1;
    }
    println!("# number of counters: number of events that they can count: {sizes:?}");
    println!("# {refused} events that no counter counts");
    ensure!(sizes.len() > 1, "every event fits on every counter");
    report.finish()
}

/// What the emulated PMU of some model does not count once in each instruction: loads and stores, and what
/// misses in a cache or a TLB.
const OF_KIND: [u64; 24] = [
    0x81d0, 0x82d0, 0x0f40, 0x0f41, 0xf1d0, 0xf2d0, 0x0151, 0x0251, 0x024e, 0x0283, 0x0e08, 0x0e49,
    0x2085, 0x0e85, 0xe124, 0xe424, 0x0e11, 0x0e12, 0x0e13, 0x0141, 0x0167, 0x0081, 0x0385, 0x0746,
];

/// Events that not all counters can count are on counters that can: they count, alone and
/// behind a group of other events that leaves one counter. The other events, which may move to
/// make room, count as well.
fn counts(ctx: &Ctx) -> Result<()> {
    let mut report = Report::new(ctx);
    let general = CpuPmu::probe().general as usize;
    let pmu = ctx.pmu()?;
    // The first counts instructions or cycles on fixed counters, as the second can.
    let on_fixed = |config: &u64| matches!(config & 0xff, 0x00 | 0x3c);
    // Other unit masks count all instructions.
    let is_of_kind = |config: &u64| OF_KIND.contains(config);
    let mut rng = Rng::with_seed(ctx.seed);
    let configs: Vec<u64> = configs(&mut rng)
        .into_iter()
        .filter(|config| config & !EVENT_UMASK == 0 && !on_fixed(config) && !is_of_kind(config))
        .collect();
    let limits = Limits::new(ctx, &configs)?;
    let bound = limits.both.iter().filter_map(|(config, (_, theirs))| {
        let some = theirs.events > 0 && theirs.events < general;
        some.then_some((*config, theirs.events))
    });
    let mut bound: Vec<(u64, usize)> = bound.collect();
    if bound.is_empty() {
        return skip("every general counter of this model counts every event");
    }
    // Any unit mask of those that as many counters can count.
    rng.shuffle(&mut bound);
    let mut seen = BTreeSet::new();
    bound.retain(|(config, counters)| seen.insert((config & 0xff, *counters)));
    let workload = workload::branches(1_000);
    let filler = pmu.config(Event::Branches);
    holding(&pmu, || {
        for (config, _) in &bound {
            for fillers in [0, general - 1] {
                let mut group = Group::new(&pmu);
                for config in iter::repeat_n(&filler, fillers).chain([config]) {
                    let errno = group.add(*config)?;
                    report.called(errno);
                    ensure!(errno == 0, "{config:#06x}: {}", name(errno));
                }
                workload.measure(&group.events[0])?;
                let events = iter::repeat_n(("a filler", workload.branches()), fillers)
                    .chain([("the event", workload.instructions())]);
                for ((what, want), event) in events.zip(&mut group.events) {
                    let count = event.read()?;
                    if count != want {
                        report.wrong(format!(
                            "{config:#06x} behind {fillers} other events, {what}: {count}, \
                             not {want}"
                        ));
                    }
                }
            }
        }
        Ok(())
    })?;
    println!("# {} events that some counters cannot count", bound.len());
    report.finish()
}

/// Every member of the largest group of an event counts as the others do: none is on a counter that cannot
/// count it. Events that some counters cannot count are instructions here.
fn every_member_counts(ctx: &Ctx) -> Result<()> {
    const UMASK_1: u64 = 0x0100;
    let mut report = Report::new(ctx);
    let general = CpuPmu::probe().general as usize;
    let pmu = ctx.pmu()?;
    let workload = workload::branches(1_000);
    holding(&pmu, || {
        // A fixed counter counts some events of 0xc0 that general counters do not.
        for event in (1..=0xff).filter(|event| *event != 0xc0) {
            let config = UMASK_1 | event;
            let mut group = Group::new(&pmu);
            let errno = group.add(config)?;
            report.called(errno);
            if errno != 0 {
                continue;
            }
            while group.add(config)? == 0 {}
            workload.measure(&group.events[0])?;
            let counts = group.events.iter_mut().map(|event| Ok(event.read()?));
            let counts: Vec<u64> = counts.collect::<Result<_>>()?;
            let is_bound = counts.len() < general && event != 0x3c && !OF_KIND.contains(&config);
            let want = match is_bound {
                true => workload.instructions(),
                false => counts[0],
            };
            if counts.iter().any(|count| *count != want) {
                report.wrong(format!("{config:#06x}: {counts:?}, not {want}"));
            }
        }
        Ok(())
    })?;
    report.finish()
}

/// Random groups fit on both drivers, or on neither.
fn different_events(ctx: &Ctx) -> Result<()> {
    const GROUPS: usize = 600;
    const CONFIGS: usize = 500;
    let mut report = Report::new(ctx);
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    let mut configs = configs(&mut rng);
    rng.shuffle(&mut configs);
    configs.truncate(CONFIGS);
    configs.extend(MODIFIED);
    configs.extend(PSEUDO);
    let limits = Limits::new(ctx, &configs)?;
    let general = CpuPmu::probe().general as usize;
    let (any, bound): (Vec<_>, Vec<_>) = limits
        .comparable()
        .partition(|(_, counters)| *counters == general);
    let groups: Vec<Vec<u64>> = (0..GROUPS)
        .map(|_| {
            let size = rng.usize(2..=8);
            let event = |_| {
                let from = if rng.u8(..4) == 0 { &any } else { &bound };
                rng.choice(from).map(|(config, _)| *config)
            };
            (0..size).filter_map(event).collect()
        })
        .collect();
    let all = |pmu: &Pmu| {
        let errnos = groups.iter().map(|configs| {
            let mut group = Group::new(pmu);
            // An event that is refused is left out.
            let errnos = configs.iter().map(|config| group.add(*config));
            errnos.collect::<Result<Vec<_>>>()
        });
        holding(pmu, || errnos.collect::<Result<Vec<_>>>())
    };
    let (theirs, ours) = (all(&ctx.in_tree()?)?, all(&ctx.pmu()?)?);
    let mut too_large = 0;
    for ((group, ours), theirs) in groups.iter().zip(&ours).zip(&theirs) {
        for errno in ours {
            report.called(*errno);
        }
        too_large += usize::from(ours.iter().any(|errno| *errno != 0));
        if ours != theirs {
            let names = |errnos: &[i32]| -> Vec<_> { errnos.iter().map(|e| name(*e)).collect() };
            report.wrong(format!(
                "{group:#06x?}: {:?}, in-tree {:?}",
                names(ours),
                names(theirs)
            ));
        }
    }
    println!("# {GROUPS} groups, {too_large} of them too large");
    ensure!(
        too_large > 0 && too_large < GROUPS,
        "no group is too large, or all are"
    );
    report.finish()
}
