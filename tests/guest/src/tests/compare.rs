// SPDX-License-Identifier: GPL-2.0
//! Thousands of calls of perf_event_open(), each for the in-tree PMU and for rust_pmu.
//! They return the same errno, and events that can be counted give the same count.
//! [`differences`] lists the intended differences.
//!
//! Random calls are generated from `--seed`, which the report shows.

mod attr;
pub(super) mod case;
mod differences;

pub(super) use self::case::Unprivileged;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{bail, ensure, Context, Result};
use fastrand::Rng;
use nix::errno::Errno;

use self::attr::{bits, Field};
use self::case::{
    eventsel, Case, Cpu, Group, Kind, Whose, World, FD_CLOEXEC, FD_NO_GROUP, FD_OUTPUT, PID_CGROUP,
};
use self::differences::{
    differs, is_refused, is_right, names, stale, taken_as, FileDifference, Text, FILES,
};
use crate::ctx::{Ctx, Test};
use crate::pmu::Pmu;
use crate::setting::Setting;
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

/// Makes calls for both PMUs, and collects the unexpected results.
struct Comparison {
    world: World,
    ours: Pmu,
    theirs: Pmu,
    /// Whether [`differences`] applies, because the PMU under test is rust_pmu.
    differs: bool,
    seed: u64,
    calls: usize,
    opened: usize,
    counted: usize,
    wrong: Vec<String>,
}

impl Comparison {
    fn new(ctx: &Ctx) -> Result<Self> {
        Ok(Self {
            world: World::new()?,
            ours: ctx.pmu()?,
            theirs: ctx.in_tree()?,
            differs: ctx.is_rust_pmu(),
            seed: ctx.seed,
            calls: 0,
            opened: 0,
            counted: 0,
            wrong: Vec::new(),
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
            let plain = self.world.attempt(&case, &self.theirs, &self.ours, false)?;
            if plain.errno != theirs.errno {
                differs(&self.world.cpu, &case);
            }
        }
        let ours = self.world.attempt(&case, &self.ours, &self.theirs, count)?;
        if !self.compare(&case, ours.errno, theirs.errno, "") {
            return Ok(());
        }
        if let (Some(ours), Some(theirs)) = (ours.count, theirs.count) {
            self.counted += 1;
            let truth = self.world.truth(&case);
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
        self.calls += 1;
        self.opened += usize::from(ours == 0);
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
        self.wrong.push(what);
    }

    /// Returns an error that lists the first unexpected results, if there are any.
    fn finish(self) -> Result<()> {
        const SHOWN: usize = 40;
        let Self {
            calls,
            opened,
            counted,
            wrong,
            seed,
            ..
        } = self;
        println!("# {calls} calls, {opened} events opened, {counted} counted");
        ensure!(opened > 0, "no event was opened");
        if wrong.is_empty() {
            return Ok(());
        }
        bail!(
            "{} unexpected results of {calls} calls with seed {seed}\n{}",
            wrong.len(),
            wrong[..wrong.len().min(SHOWN)].join("\n")
        )
    }
}

fn name(errno: i32) -> String {
    match errno {
        0 => "success".into(),
        errno => format!("{:?}", Errno::from_raw(errno)),
    }
}

/// Modifies a call.
type Change = fn(&Cpu, &mut Case);

/// Makes the event sample, with a period that the workload hardly reaches.
fn sampling(_: &Cpu, case: &mut Case) {
    case.attr.set(attr::SAMPLE_PERIOD, 100_000);
    case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_IP);
}

fn sample(case: &mut Case, sample_type: u64) {
    case.attr.set(attr::SAMPLE_PERIOD, 100_000);
    case.attr
        .add(attr::SAMPLE_TYPE, bits::SAMPLE_IP | sample_type);
}

fn branch_stack(case: &mut Case, branches: u64) {
    sample(case, bits::SAMPLE_BRANCH_STACK);
    case.attr.add(attr::BRANCH_SAMPLE_TYPE, branches);
}

/// Fields that have an effect only together with other fields, which the change sets.
const COMPANIONS: &[(Field, Change)] = &[
    (attr::SAMPLE_PERIOD, |_, case| case.attr.set(attr::FREQ, 1)),
    (attr::BRANCH_SAMPLE_TYPE, |_, case| {
        sample(case, bits::SAMPLE_BRANCH_STACK)
    }),
    (attr::SAMPLE_REGS_USER, |_, case| {
        sample(case, bits::SAMPLE_REGS_USER)
    }),
    (attr::SAMPLE_REGS_INTR, |_, case| {
        sample(case, bits::SAMPLE_REGS_INTR)
    }),
    (attr::SAMPLE_STACK_USER, |_, case| {
        sample(case, bits::SAMPLE_STACK_USER)
    }),
    (attr::SAMPLE_MAX_STACK, |_, case| {
        sample(case, bits::SAMPLE_CALLCHAIN)
    }),
    (attr::AUX_SAMPLE_SIZE, |_, case| {
        sample(case, bits::SAMPLE_AUX)
    }),
    (attr::CLOCKID, |_, case| case.attr.set(attr::USE_CLOCKID, 1)),
    (attr::SIG_DATA, |_, case| {
        case.attr.set(attr::SIGTRAP, 1);
        case.attr.set(attr::REMOVE_ON_EXEC, 1);
    }),
    (attr::INHERIT_THREAD, |_, case| {
        case.attr.set(attr::INHERIT, 1)
    }),
    (attr::SAMPLE_TYPE, |_, case| {
        case.attr.set(attr::INHERIT, 1);
        case.attr.set(attr::SAMPLE_TYPE, bits::SAMPLE_TID);
    }),
    (attr::AUX_OUTPUT, |_, case| {
        case.attr.set(attr::PRECISE_IP, 1)
    }),
    (attr::PRECISE_IP, |_, case| {
        branch_stack(case, bits::BRANCH_ANY)
    }),
];

/// The interesting values of a field: each single bit, none, all, and limits of
/// periods, frequencies, clocks and sizes.
fn edge_values(field: Field) -> Vec<u64> {
    const EDGES: [u64; 22] = [
        0,
        3,
        5,
        7,
        9,
        10,
        11,
        12,
        127,
        1_000,
        4_095,
        100_000,
        999_999,
        1_000_000,
        1_000_001,
        (1 << 16) - 8,
        (1 << 16) - 1,
        (1 << 31) - 1,
        (1 << 32) - 1,
        (1 << 63) - 1,
        (1 << 63) + 1,
        u64::MAX,
    ];
    (0..field.bits)
        .map(|bit| 1 << bit)
        .chain(EDGES.into_iter().filter(|edge| *edge <= field.max()))
        .collect()
}

/// Sizes that `struct perf_event_attr` has had over time, and invalid ones.
const SIZES: [u64; 16] = [
    0, 1, 8, 56, 63, 64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152,
];
const HUGE_SIZES: [u64; 4] = [4_096, 4_097, 1 << 31, u32::MAX as u64];

/// Sets each field to its interesting values, for a counting event, for a sampling
/// event, and with the fields that it depends on.
fn every_field(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let cpu = comparison.world.cpu;
    let counting = Case::own(cpu.instructions());
    let mut sampled = counting;
    sampling(&cpu, &mut sampled);

    for size in SIZES.into_iter().chain(HUGE_SIZES) {
        for mut case in [counting, sampled] {
            case.attr.set(attr::SIZE, size);
            comparison.call(case)?;
            // Nonzero bytes after the end of the struct.
            case.attr.set(attr::CONFIG4, 1);
            comparison.call(case)?;
            case.attr.set(attr::CONFIG2, 1);
            case.attr.set(attr::BEYOND, 1);
            comparison.call(case)?;
        }
    }
    for &field in attr::FIELDS {
        // `open` sets the type, and the loop above has tested the size.
        if field == attr::TYPE || field == attr::SIZE {
            continue;
        }
        let mut bases = vec![counting, sampled];
        for (_, companion) in COMPANIONS.iter().filter(|(of, _)| *of == field) {
            for mut base in [counting, sampled] {
                companion(&cpu, &mut base);
                bases.push(base);
            }
        }
        for base in bases {
            for value in edge_values(field) {
                let mut case = base;
                case.attr.set(field, value);
                comparison.call(case)?;
                // Also keep the bits of the base, such as those of `sample_type`.
                let added = base.attr.get(field) | value;
                if added != value {
                    case.attr.set(field, added);
                    comparison.call(case)?;
                }
            }
        }
    }
    comparison.finish()
}

/// Changes to a call for which the result could depend on the driver.
const CHANGES: &[Change] = &[
    sampling,
    |_, case| {
        case.attr.set(attr::SAMPLE_PERIOD, 1);
    },
    |cpu, case| {
        sampling(cpu, case);
        case.attr.set(attr::FREQ, 1);
    },
    |_, case| case.attr.set(attr::SAMPLE_PERIOD, 1 << 63),
    |_, case| case.attr.set(attr::PRECISE_IP, 1),
    |_, case| case.attr.set(attr::PRECISE_IP, 2),
    |_, case| case.attr.set(attr::PRECISE_IP, 3),
    |_, case| branch_stack(case, bits::BRANCH_ANY),
    |_, case| branch_stack(case, bits::BRANCH_CALL_STACK),
    |_, case| branch_stack(case, bits::BRANCH_COUNTERS),
    |_, case| branch_stack(case, 0),
    |_, case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_BRANCH_STACK);
        case.attr.add(attr::BRANCH_SAMPLE_TYPE, bits::BRANCH_ANY);
    },
    |_, case| case.attr.add(attr::BRANCH_SAMPLE_TYPE, bits::BRANCH_ANY),
    |_, case| case.attr.set(attr::EXCLUDE_USER, 1),
    |_, case| case.attr.set(attr::EXCLUDE_KERNEL, 0),
    |_, case| case.attr.set(attr::EXCLUDE_HV, 1),
    |_, case| case.attr.set(attr::EXCLUDE_IDLE, 1),
    |_, case| case.attr.set(attr::EXCLUDE_HOST, 1),
    |_, case| case.attr.set(attr::EXCLUDE_GUEST, 1),
    |_, case| case.attr.set(attr::EXCLUDE_CALLCHAIN_USER, 1),
    |_, case| case.attr.set(attr::PINNED, 1),
    |_, case| case.attr.set(attr::EXCLUSIVE, 1),
    |_, case| case.attr.set(attr::INHERIT, 1),
    |_, case| case.attr.set(attr::INHERIT_STAT, 1),
    |_, case| case.attr.set(attr::INHERIT_THREAD, 1),
    |_, case| case.attr.set(attr::ENABLE_ON_EXEC, 1),
    |_, case| case.attr.set(attr::REMOVE_ON_EXEC, 1),
    |_, case| case.attr.set(attr::SIGTRAP, 1),
    |_, case| case.attr.set(attr::WRITE_BACKWARD, 1),
    |_, case| case.attr.set(attr::AUX_OUTPUT, 1),
    |_, case| case.attr.set(attr::AUX_ACTION, 1),
    |_, case| case.attr.set(attr::AUX_ACTION, 2),
    |_, case| case.attr.set(attr::AUX_ACTION, 6),
    |_, case| case.attr.set(attr::DEFER_CALLCHAIN, 1),
    |_, case| case.attr.set(attr::TEXT_POKE, 1),
    |_, case| case.attr.set(attr::RESERVED_1, 1),
    |_, case| case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_READ),
    |_, case| case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_WEIGHT),
    |_, case| case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_WEIGHT_STRUCT),
    |_, case| case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_PHYS_ADDR),
    |_, case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_AUX);
        case.attr.set(attr::AUX_SAMPLE_SIZE, 4_096);
    },
    |_, case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_REGS_USER);
        case.attr.add(attr::SAMPLE_REGS_USER, 1 << 32);
    },
    |_, case| case.attr.add(attr::SAMPLE_REGS_USER, 1 << 32),
    |_, case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_REGS_INTR);
        case.attr.add(attr::SAMPLE_REGS_INTR, 1 << 32);
    },
    |_, case| case.attr.add(attr::SAMPLE_REGS_INTR, 1 << 32),
    |_, case| {
        case.attr.add(attr::SAMPLE_TYPE, bits::SAMPLE_REGS_INTR);
        case.attr.add(attr::SAMPLE_REGS_INTR, 0xff);
    },
    |_, case| case.attr.add(attr::READ_FORMAT, bits::FORMAT_GROUP),
    |_, case| case.attr.add(attr::READ_FORMAT, 3),
    |_, case| case.attr.set(attr::SIZE, 64),
    |_, case| case.attr.set(attr::CONFIG1, 1),
    |_, case| case.attr.set(attr::CONFIG2, 1 << 63),
    |_, case| case.attr.set(attr::CONFIG3, 1),
    |_, case| case.attr.set(attr::CONFIG4, 1),
    |_, case| case.attr.add(attr::CONFIG, eventsel::EDGE),
    |_, case| case.attr.add(attr::CONFIG, eventsel::PC),
    |_, case| case.attr.add(attr::CONFIG, eventsel::ANY),
    |_, case| case.attr.add(attr::CONFIG, eventsel::INV),
    |_, case| case.attr.add(attr::CONFIG, eventsel::CMASK_1),
    |_, case| case.attr.add(attr::CONFIG, eventsel::CMASK),
    |_, case| case.attr.add(attr::CONFIG, 1 << 32),
    |_, case| case.attr.add(attr::CONFIG, 1 << 40),
    |_, case| case.attr.set(attr::CONFIG, 0),
    |_, case| case.attr.set(attr::CONFIG, 0x0300),
    |_, case| case.attr.set(attr::CONFIG, 0x0400),
    |_, case| case.attr.set(attr::CONFIG, 0xff),
    |cpu, case| case.attr.set(attr::CONFIG, cpu.branches()),
    |_, case| *case = with_kind(case, Kind::Hardware, 1),
    |_, case| *case = with_kind(case, Kind::Hardware, 9),
    |_, case| *case = with_kind(case, Kind::Hardware, 42),
    |_, case| *case = with_kind(case, Kind::HwCache, 0),
    |_, case| *case = with_kind(case, Kind::HwCache, 7),
    |_, case| {
        case.whose = Whose::Everyone;
        case.cpu = 0;
    },
    |_, case| case.group = Group::Own,
    |_, case| case.group = Group::Software,
];

fn with_kind(case: &Case, kind: Kind, config: u64) -> Case {
    let mut case = Case { kind, ..*case };
    case.attr.set(attr::CONFIG, config);
    case
}

fn pairs_of_fields(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let cpu = comparison.world.cpu;
    for first in CHANGES {
        // A change combined with itself is the change alone.
        for second in CHANGES {
            let mut case = Case::own(cpu.instructions());
            first(&cpu, &mut case);
            second(&cpu, &mut case);
            comparison.call(case)?;
        }
    }
    comparison.finish()
}

/// A random value of a field, which is often an interesting one.
fn value(rng: &mut Rng, field: Field) -> u64 {
    match rng.u8(..4) {
        0 => rng.u64(..) & field.max(),
        1 => rng.u64(..16),
        2 => 1 << rng.u32(..field.bits),
        _ => rng.choice(edge_values(field)).unwrap_or(0),
    }
}

/// The `config` of a PERF_TYPE_HW_CACHE event.
fn cache_event(cache: u64, op: u64, result: u64) -> u64 {
    cache | (op << 8) | (result << 16)
}

fn random_case(rng: &mut Rng, cpu: &Cpu) -> Case {
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
    for _ in 0..rng.usize(0..=6) {
        if rng.u8(..3) > 0 {
            if let Some(change) = rng.choice(CHANGES) {
                change(cpu, &mut case);
            }
        } else if let Some(&field) = rng.choice(&attr::FIELDS[2..]) {
            let value = value(rng, field);
            case.attr.set(field, value);
        }
    }
    // The event must not run before it is measured: its period could be so short that
    // each instruction raises a PMI.
    case.attr.set(attr::DISABLED, 1);
    case
}

fn random_attrs(ctx: &Ctx) -> Result<()> {
    const CALLS: usize = 4_000;
    let mut comparison = Comparison::new(ctx)?;
    let mut rng = comparison.rng();
    println!("# seed {}", ctx.seed);
    for _ in 0..CALLS {
        let case = random_case(&mut rng, &comparison.world.cpu);
        comparison.call(case)?;
    }
    comparison.finish()
}

/// All PERF_TYPE_HARDWARE and PERF_TYPE_HW_CACHE events, and some that do not exist,
/// with the PMU's type in `config`.
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
            sampling(&comparison.world.cpu, &mut sampled);
            comparison.call(sampled)?;
        }
    }
    comparison.finish()
}

/// All event selects, with some unit masks.
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

const WHOSE: [Whose; 7] = [
    Whose::Caller,
    Whose::Child,
    Whose::Init,
    Whose::Everyone,
    Whose::NoOne,
    Whose::Cgroup,
    Whose::NoCgroup,
];

/// Values of `cpu`: any, existing, missing and invalid ones.
const CPUS: [i32; 6] = [-1, 0, 1, 2, -2, i32::MAX];

const GROUPS: [Group; 7] = [
    Group::Alone,
    Group::Own,
    Group::Other,
    Group::Software,
    Group::Member,
    Group::NotPerf,
    Group::NotOpen,
];

const FLAGS: [u64; 8] = [
    0,
    FD_NO_GROUP,
    FD_OUTPUT,
    FD_NO_GROUP | FD_OUTPUT,
    PID_CGROUP,
    FD_CLOEXEC,
    1 << 4,
    1 << 63,
];

/// All combinations of the other arguments of the system call.
fn arguments(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    for whose in WHOSE {
        for cpu in CPUS {
            for group in GROUPS {
                for flags in FLAGS {
                    comparison.call(Case {
                        whose,
                        cpu,
                        group,
                        flags,
                        ..Case::own(comparison.world.cpu.instructions())
                    })?;
                }
            }
        }
    }
    comparison.finish()
}

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Calls of an unprivileged user, at each level of `perf_event_paranoid`.
fn rights(ctx: &Ctx) -> Result<()> {
    let mut comparison = Comparison::new(ctx)?;
    let cpu = comparison.world.cpu;
    let paranoid = Setting::save(PARANOID)?;
    for level in -1..=4 {
        paranoid.set(level)?;
        let mut cases = Vec::new();
        let base = Case {
            paranoid: Some(level),
            ..Case::own(cpu.instructions())
        };
        for change in CHANGES {
            let mut case = base;
            change(&cpu, &mut case);
            cases.push(case);
            case.attr.set(attr::EXCLUDE_KERNEL, 0);
            cases.push(case);
        }
        for whose in WHOSE {
            for cpu in CPUS {
                let mut case = Case { whose, cpu, ..base };
                cases.push(case);
                case.flags = PID_CGROUP;
                cases.push(case);
                case.flags = 0;
                case.attr.add(attr::CONFIG, eventsel::ANY);
                cases.push(case);
            }
        }
        let _unprivileged = Unprivileged::new()?;
        for case in cases {
            comparison.call(case)?;
        }
    }
    comparison.finish()
}

/// Random groups of events that compete for the counters, some of them too large.
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
                self.counted += 1;
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
            files.insert(path.display().to_string(), text);
        }
    }
    Ok(files)
}

/// Both PMUs have the same `format`, `events` and `caps` in sysfs, apart from [`FILES`].
fn sysfs(ctx: &Ctx) -> Result<()> {
    let ours = files(&ctx.pmu()?)?;
    let mut due = files(&ctx.in_tree()?)?;
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
            let is = text.is_some();
            let theirs = match text {
                Some(text) => due.insert(file.to_string(), text),
                None => due.remove(*file),
            };
            let was = theirs.is_some();
            ensure!(was != is, "{what}: {file} does not differ");
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
/// list and README are out of date.
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
