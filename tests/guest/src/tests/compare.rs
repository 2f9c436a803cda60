// SPDX-License-Identifier: GPL-2.0
//! Thousands of calls of perf_event_open(), each for the in-tree PMU and for rust_pmu.
//! They return the same errno, and events that can be counted give the same count.
//! [`differences`] lists the intended differences.
//!
//! Random calls are generated from `--seed`, which the report shows.

pub(super) mod alike;
pub(crate) mod attr;
pub(super) mod calls;
pub(crate) mod case;
pub(super) mod differences;
pub(super) mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{bail, ensure, Context, Result};
use fastrand::Rng;

use self::calls::{Change, CHANGES};
use self::case::{eventsel, Case, Cpu, Kind, Side, World};
use self::differences::{
    differs, is_refused, is_right, names, stale, taken_as, FileDifference, Text, FILES,
};
use self::report::{name, Report};
use crate::ctx::{Ctx, Test};
use crate::generic_events::{cache_event_names, PERF_TYPE_HW_CACHE};
use crate::ktap::about;
use crate::pmu::Pmu;
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [InTree];
    every_field: [EmulatedPmu],
    pairs_of_fields: [EmulatedPmu],
    random_attrs: [EmulatedPmu],
    generic_events: [EmulatedPmu],
    raw_events: [EmulatedPmu],
    arguments: [EmulatedPmu],
    rights: [EmulatedPmu],
    random_groups: [EmulatedPmu],
    sysfs,
    every_difference_is_there: [Module, EmulatedPmu],
];

/// The part that needs no calls.
pub const SYSFS: &[Test] = tests![
    all need [InTree];
    sysfs,
];

/// Makes calls for both PMUs, and collects the unexpected results.
struct Comparison {
    world: World,
    ours: Side,
    theirs: Side,
    /// Whether [`differences`] applies, because the PMU under test is rust_pmu.
    differs: bool,
    seed: u64,
    report: Report,
}

impl Comparison {
    fn new(ctx: &Ctx) -> Result<Self> {
        Ok(Self {
            world: World::new()?,
            ours: Side::new(ctx.pmu()?, Cpu::probe().instructions()),
            theirs: Side::new(ctx.in_tree()?, Cpu::probe().instructions()),
            differs: ctx.is_rust_pmu(),
            seed: ctx.seed,
            report: Report::new(ctx),
        })
    }

    fn rng(&self) -> Rng {
        Rng::with_seed(self.seed)
    }

    /// Makes a call for each PMU, one after the other, because only one driver can
    /// hold the counters.
    fn call(&mut self, case: Case) -> Result<()> {
        // There is nothing to compare with the count if rust_pmu refuses the event.
        let count = !is_refused(&self.world.cpu, &case);
        let taken = taken_as(&self.world.cpu, &case).filter(|_| self.differs);
        let theirs = self
            .world
            .attempt(&taken.unwrap_or(case), &self.theirs, &self.ours, count)?;
        if taken.is_some() {
            let plain = self.world.attempt(&case, &self.theirs, &self.ours, count)?;
            if (plain.errno, plain.count) != (theirs.errno, theirs.count) {
                differs(&self.world.cpu, &case);
            }
        }
        let ours = self.world.attempt(&case, &self.ours, &self.theirs, count)?;
        if !self.compare(&case, ours.errno, theirs.errno, "") {
            return Ok(());
        }
        if let (Some(ours), Some(theirs)) = (ours.count, theirs.count) {
            self.report.counted += 1;
            let truth = self.world.truth(&taken.unwrap_or(case));
            if ours != truth.unwrap_or(theirs) {
                self.wrong(format!(
                    "counted {ours}, in-tree {theirs}, expected {truth:?}: {case}"
                ));
            }
        }
        Ok(())
    }

    /// Compares the errno of a call on both PMUs. Returns whether it is right.
    fn compare(&mut self, case: &Case, ours: i32, theirs: i32, group: &str) -> bool {
        self.report.called(ours);
        let cpu = &self.world.cpu;
        let right = if self.differs {
            is_right(cpu, case, ours, theirs)
        } else {
            ours == theirs
        };
        if !right {
            self.wrong(format!(
                "{}, in-tree {}{:?}: {case}{group}",
                name(ours),
                name(theirs),
                names(cpu, case),
            ));
        }
        right
    }

    fn wrong(&mut self, what: String) {
        self.report.wrong(what);
    }

    fn finish(self) -> Result<()> {
        self.report.finish()
    }
}

/// Each field of the attribute, at its interesting values, has the same result on both drivers, for
/// a counting event, for a sampling event, and with the fields that it depends on.
fn every_field(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let counting = Case::own(comparison.world.cpu.instructions());
    calls::every_field(counting, |case| comparison.call(case))?;
    comparison.finish()
}

/// What else the result could depend on: the fields of `config`, and generic events.
const EVENT_CHANGES: &[Change] = &[
    |case| case.attr.add(attr::CONFIG, eventsel::EDGE),
    |case| case.attr.add(attr::CONFIG, eventsel::PC),
    |case| case.attr.add(attr::CONFIG, eventsel::ANY),
    |case| case.attr.add(attr::CONFIG, eventsel::INV),
    |case| case.attr.add(attr::CONFIG, eventsel::CMASK_1),
    |case| case.attr.add(attr::CONFIG, eventsel::CMASK),
    |case| case.attr.add(attr::CONFIG, 1 << 32),
    |case| case.attr.add(attr::CONFIG, 1 << 40),
    |case| case.attr.set(attr::CONFIG, 0),
    |case| case.attr.set(attr::CONFIG, 0x0300),
    |case| case.attr.set(attr::CONFIG, 0x0400),
    |case| case.attr.set(attr::CONFIG, 0xff),
    |case| case.attr.set(attr::CONFIG, Cpu::probe().branches()),
    |case| *case = with_kind(case, Kind::Hardware, 1),
    |case| *case = with_kind(case, Kind::Hardware, 9),
    |case| *case = with_kind(case, Kind::Hardware, 42),
    |case| *case = with_kind(case, Kind::HwCache, 0),
    |case| *case = with_kind(case, Kind::HwCache, 7),
];

fn changes() -> Vec<Change> {
    [CHANGES, EVENT_CHANGES].concat()
}

fn with_kind(case: &Case, kind: Kind, config: u64) -> Case {
    let mut case = Case { kind, ..*case };
    case.attr.set(attr::CONFIG, config);
    case
}

/// Each two changes of the attribute have the same result on both drivers.
fn pairs_of_fields(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let base = Case::own(comparison.world.cpu.instructions());
    for case in calls::pairs(base, &changes()) {
        comparison.call(case)?;
    }
    comparison.finish()
}

/// The `config` of a PERF_TYPE_HW_CACHE event.
fn cache_event(cache: u64, op: u64, result: u64) -> u64 {
    cache | (op << 8) | (result << 16)
}

fn random_case(rng: &mut Rng, cpu: &Cpu, changes: &[Change]) -> Case {
    let mut case = match rng.u8(..10) {
        0..=2 => Case::own(cpu.instructions()),
        3 => Case::own(cpu.branches()),
        4 => Case::own(cpu.cycles()),
        5 => Case::own(rng.u64(..) & cpu.chosen()),
        6 => Case::own(rng.u64(..)),
        7 | 8 => Case::new(Kind::Hardware, rng.u64(..12)),
        _ => Case::new(
            Kind::HwCache,
            cache_event(rng.u64(..8), rng.u64(..4), rng.u64(..3)),
        ),
    };
    calls::change_randomly(rng, &mut case, changes);
    case
}

/// 4000 random attributes have the same result on both drivers.
fn random_attrs(ctx: &Ctx) -> Result<()> {
    const CALLS: usize = 4_000;
    let mut comparison = Comparison::new(ctx)?;
    let mut rng = comparison.rng();
    let changes = changes();
    println!("# seed {}", ctx.seed);
    for _ in 0..CALLS {
        let case = random_case(&mut rng, &comparison.world.cpu, &changes);
        comparison.call(case)?;
    }
    comparison.finish()
}

/// All PERF_TYPE_HARDWARE and PERF_TYPE_HW_CACHE events, and some that do not exist, have the same
/// result on both drivers: by number in-tree, and by name on rust_pmu.
fn generic_events(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let hardware = (0..16).chain([1 << 8, 1 << 31, u64::from(u32::MAX)]);
    let cache = (0..9).flat_map(|cache| {
        (0..4).flat_map(move |op| (0..3).map(move |result| cache_event(cache, op, result)))
    });
    let cache = cache.chain([0xff, 0xff00, 0xff_0000, 1 << 24, 1 << 31]);
    for (kind, configs) in [
        (Kind::Hardware, hardware.collect::<Vec<_>>()),
        (Kind::HwCache, cache.collect()),
    ] {
        for config in configs {
            comparison.call(Case::new(kind, config))?;
            let mut sampled = Case::new(kind, config);
            calls::sampling(&mut sampled);
            comparison.call(sampled)?;
        }
    }
    comparison.finish()
}

/// All event selects, with some unit masks, have the same result on both drivers.
fn raw_events(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let high: &[u64] = if comparison.world.cpu.amd() {
        &[0, 1 << 32, 0xf << 32]
    } else {
        &[0]
    };
    for event in 0..=0xff {
        for umask in [0x00, 0x01, 0x03, 0x04, 0x41, 0x4f, 0xff] {
            for high in high {
                comparison.call(Case::own(high | (umask << 8) | event))?;
            }
        }
        for bits in [
            eventsel::EDGE,
            eventsel::INV | eventsel::CMASK_1,
            eventsel::CMASK_1,
            eventsel::CMASK,
        ] {
            comparison.call(Case::own(event | bits))?;
        }
    }
    comparison.finish()
}

/// All combinations of the other arguments of the system call have the same result on both drivers.
fn arguments(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    for case in calls::arguments(Case::own(comparison.world.cpu.instructions())) {
        comparison.call(case)?;
    }
    comparison.finish()
}

/// Calls of an unprivileged user have the same result on both drivers, at each level of
/// `perf_event_paranoid`.
fn rights(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let base = Case::own(comparison.world.cpu.instructions());
    calls::rights(base, &changes(), |case| comparison.call(case))?;
    // AnyThread shows what other tasks do.
    let any = Case::own(base.config() | eventsel::ANY);
    calls::rights(any, &[], |case| comparison.call(case))?;
    comparison.finish()
}

/// Random groups of events that compete for the counters, some of them too large, have the same
/// result on both drivers.
fn random_groups(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 150;
    let mut comparison = Comparison::new(ctx)?;
    let cpu = comparison.world.cpu;
    let mut rng = comparison.rng();
    println!("# seed {}", ctx.seed);
    let general = cpu.perfmon.general.max(6);
    for _ in 0..ROUNDS {
        let mut cases = Vec::new();
        for _ in 0..rng.u32(1..=general + cpu.perfmon.fixed + 2) {
            let mut case = match rng.u8(..12) {
                0 | 1 => Case::own(cpu.instructions()),
                2 | 3 => Case::own(cpu.cycles()),
                4 => Case::own(cpu.branches()),
                5 => Case::own(0x0300),
                6 => Case::own(0x0400),
                7 => Case::own(cpu.instructions() | eventsel::EDGE),
                8 => Case::own(cpu.instructions() | eventsel::CMASK_1),
                9 => Case::own(rng.u64(..) & eventsel::EVENT_UMASK),
                10 => Case::new(Kind::Hardware, rng.u64(..10)),
                _ => Case::new(Kind::HwCache, rng.u64(..7)),
            };
            // A disabled member needs no counter.
            case.attr.set(attr::DISABLED, u64::from(rng.u8(..8) == 0));
            // An event that only one driver opens would make the groups differ.
            if !is_refused(&cpu, &case) {
                cases.push(case);
            }
        }
        comparison.group(&cases)?;
    }
    comparison.finish()
}

impl Comparison {
    /// Opens a group on each PMU, without the events that do not fit, and counts the
    /// workload, which shows whether the others really fit. Counts are compared with
    /// the expected ones, where these are known.
    fn group(&mut self, cases: &[Case]) -> Result<()> {
        let mut results = Vec::new();
        for pmu in [&self.theirs, &self.ours] {
            let mut events = Vec::new();
            let mut errnos = Vec::new();
            for case in cases {
                let mut case = *case;
                let leader = match events.first() {
                    Some((_, leader)) => OwnedFd::as_raw_fd(leader),
                    None => {
                        // A disabled leader disables the group.
                        case.attr.set(attr::DISABLED, 1);
                        -1
                    }
                };
                match self.world.open(pmu, &case, leader) {
                    Ok(event) => {
                        errnos.push(0);
                        events.push((case, event));
                    }
                    Err(errno) => errnos.push(errno),
                }
            }
            let mut counts = Vec::new();
            if let Some((_, leader)) = events.first() {
                self.world.count(leader, 0)?;
            }
            for (case, event) in &events {
                counts.push((*case, case::read(event, 0)?));
            }
            results.push((errnos, counts));
        }
        let [theirs, ours] = &results[..] else {
            bail!("not two PMUs");
        };
        let group: Vec<_> = cases.iter().map(|case| format!("\n    {case}")).collect();
        let group = format!("; in a group of{}", group.concat());
        for ((case, ours), theirs) in cases.iter().zip(&ours.0).zip(&theirs.0) {
            self.compare(case, *ours, *theirs, &group);
        }
        for (case, count) in &ours.1 {
            let runs = !case.attr.has(attr::DISABLED) || std::ptr::eq(case, &ours.1[0].0);
            if let Some(truth) = self.world.truth(case) {
                self.report.counted += 1;
                let truth = if runs { truth } else { 0 };
                if *count != truth {
                    self.wrong(format!("counted {count}, expected {truth}: {case}{group}"));
                }
            }
        }
        Ok(())
    }
}

/// The paths and contents of the files in the PMU's `format`, `events` and `caps`.
fn files(pmu: &Pmu) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for folder in ["format", "events", "caps"] {
        let dir = pmu.dir().join(folder);
        if !dir.exists() {
            continue;
        }
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let path = path.strip_prefix(pmu.dir())?;
            // Some of the in-tree driver's files do not end with a newline. On hybrid CPUs it pads
            // some with NUL bytes, as many as it has written of other types of core.
            let text = text.trim_end_matches('\0').trim_end();
            files.insert(path.display().to_string(), format!("{text}\n"));
        }
    }
    Ok(files)
}

/// Takes the fields of `config2` out of the files, and returns their names. Each is one bit.
fn take_bits(files: &mut BTreeMap<String, String>) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut bits = BTreeSet::new();
    for (file, text) in files.iter() {
        if let Some(bit) = text.strip_prefix("config2:") {
            let bit: u32 = bit.trim_end().parse()?;
            ensure!(bit < 64 && bits.insert(bit), "{file}: bit {bit}");
            names.insert(file.trim_start_matches("format/").to_owned());
        }
    }
    files.retain(|_, text| !text.starts_with("config2:"));
    Ok(names)
}

/// Whether the in-tree driver has a cache event that core counters count.
fn has_cache_event(in_tree: &Pmu, cpu: &Cpu, id: u64) -> Result<bool> {
    let is_northbridge = id & 0xff == differences::CACHE_NODE
        && (cpu.shares_northbridge() || cpu.perfmon.is_family_15h());
    Ok(!is_northbridge && in_tree.generic(PERF_TYPE_HW_CACHE, id)?.build().is_ok())
}

/// Both PMUs have the same `format`, `events` and `caps` in sysfs, apart from [`FILES`] and from the
/// files of the cache events that the in-tree driver has by number.
fn sysfs(ctx: &Ctx) -> Result<()> {
    let mut ours = files(&ctx.pmu()?)?;
    let mut due = files(&ctx.in_tree()?)?;
    let name = due.get("caps/pmu_name").map_or("", |name| name.trim_end());
    about("name", name);
    let events = ours.keys().filter(|file| file.starts_with("events/"));
    about("events", events.filter(|file| !file.contains('.')).count());
    if ctx.is_rust_pmu() {
        let cpu = Cpu::probe();
        for difference in FILES.iter().filter(|difference| (difference.on)(&cpu)) {
            let FileDifference {
                what, file, ours, ..
            } = difference;
            let text = match ours {
                Some(Text::Is(text)) => Some(text.to_string()),
                Some(Text::Of(other)) => Some(
                    due.get(*other)
                        .cloned()
                        .with_context(|| format!("{what}: no file {other}"))?,
                ),
                None => None,
            };
            let theirs = match &text {
                Some(text) => due.insert(file.to_string(), text.clone()),
                None => due.remove(*file),
            };
            ensure!(theirs != text, "{what}: {file} does not differ");
        }
        for (id, name) in cache_event_names() {
            // What is in the file of an event is compared by `model_events::cache_events`.
            if has_cache_event(&ctx.in_tree()?, &cpu, id)? {
                let text = fs::read_to_string(ctx.pmu()?.event_file(&name))
                    .with_context(|| name.clone())?;
                due.insert(format!("events/{name}"), format!("{}\n", text.trim_end()));
            }
        }
        if ctx.pmu()?.has_names_apart() {
            let bits;
            (due, bits) = differences::apart(due);
            let found = take_bits(&mut ours)?;
            ensure!(found == bits, "bits of names: {found:?}, expected {bits:?}");
        }
    }
    let mut wrong = Vec::new();
    for file in ours.keys().chain(due.keys()).collect::<BTreeSet<_>>() {
        let (ours, due) = (ours.get(file), due.get(file));
        if ours != due {
            wrong.push(format!("{file}: {ours:?}, expected {due:?}"));
        }
    }
    ensure!(wrong.is_empty(), "files differ\n{}", wrong.join("\n"));
    Ok(())
}

/// Each listed difference has occurred in the tests before this one. If it has not, the
/// list and docs/differences.md are out of date.
fn every_difference_is_there(_: &Ctx) -> Result<()> {
    let stale: Vec<_> = stale(&Cpu::probe())
        .iter()
        .map(|difference| format!("{}: {}", difference.what, difference.why))
        .collect();
    ensure!(
        stale.is_empty(),
        "listed differences that did not occur on this CPU\n{}",
        stale.join("\n")
    );
    Ok(())
}
