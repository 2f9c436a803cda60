// SPDX-License-Identifier: GPL-2.0
//! Events that need a register besides EVENTSEL: both drivers take the same values, write
//! the same registers, and share them in the same way.
//!
//! The registers are those that the emulated CPU has, with or without an effect there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::thread;

use anyhow::{bail, ensure, Context, Result};
use fastrand::Rng;
use perf_event::{Builder, Counter};

use super::compare::case::eventsel::{CMASK_1, EDGE, EVENT_UMASK, INV};
use super::compare::report::{name, Report};
use crate::ctx::{Ctx, Test};
use crate::msr::{Msrs, PmuMsrs};
use crate::pmu::Pmu;
use crate::setting::Affinity;
use crate::tests;

pub const TESTS: &[Test] = tests![
    all need [InTree, EmulatedPmu, Msrs, Cpus(2)];
    fields,
    values,
    groups,
    registers,
    events_on_cpus,
    threads_of_a_core,
    free_after_a_storm,
];

/// The fields of `config1` that a model may have.
const FIELDS: [&str; 5] = [
    "offcore_rsp",
    "offmodule_rsp",
    "ldlat",
    "frontend",
    "snoop_rsp",
];

/// The events that need a register on some model.
const CODES: [u64; 28] = [
    0x01b7, 0x02b7, 0x04b7, 0x08b7, 0x01bb, 0x012a, 0x012b, 0x022a, 0x042a, 0x082a, 0x014f, 0x024f,
    0x044f, 0x084f, 0x01d6, 0x02d6, 0x04d6, 0x08d6, 0x100b, 0x01cd, 0x05d0, 0x01c6, 0x02c6, 0x03c6,
    0x40ad, 0x04c2, 0x0127, 0x0227,
];

/// An event that needs none.
const PLAIN: u64 = 0x01c4;

/// The registers, by the addresses in `arch/x86/include/asm/msr-index.h`.
const REGISTERS: [u32; 10] = [
    0x1a6, 0x1a7, 0x3e0, 0x3e1, 0x3e2, 0x3e3, 0x3f6, 0x3f7, 0x1328, 0x1329,
];

/// An event with a value for its register.
#[derive(Clone, Copy, Debug)]
struct Event {
    config: u64,
    config1: u64,
}

impl Event {
    fn builder(self, pmu: &Pmu) -> Builder<'static> {
        let mut builder = pmu.raw(self.config);
        builder.attrs_mut().__bindgen_anon_3.config1 = self.config1;
        builder
    }

    /// Opens the event. Returns the errno if it is refused.
    fn open(self, pmu: &Pmu) -> Result<Result<Counter, i32>> {
        opened(self.builder(pmu).build())
    }

    /// Opens the event on a CPU, where it counts if it can be on a counter.
    fn open_on(self, pmu: &Pmu, cpu: usize) -> Result<Result<Counter, i32>> {
        let mut builder = self.builder(pmu);
        builder.any_pid().one_cpu(cpu).pinned(true).enabled(true);
        opened(builder.build())
    }
}

fn opened(counter: io::Result<Counter>) -> Result<Result<Counter, i32>> {
    match counter {
        Ok(counter) => Ok(Ok(counter)),
        Err(error) => Ok(Err(error.raw_os_error().context("no errno")?)),
    }
}

fn errno<T>(result: &Result<T, i32>) -> i32 {
    result.as_ref().err().copied().unwrap_or(0)
}

/// Whether a pinned event is on a counter. perf ends the file of one that is not.
pub(super) fn is_on_counter(counter: &mut Counter) -> Result<bool> {
    match counter.read() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error).context("read"),
    }
}

/// The fields of `config1` in sysfs.
fn fields(ctx: &Ctx) -> Result<()> {
    let of = |pmu: &Pmu| -> Vec<Option<String>> {
        let file = |name| pmu.dir().join("format").join(name);
        FIELDS
            .map(|name| fs::read_to_string(file(name)).ok())
            .into()
    };
    let (ours, theirs) = (of(&ctx.pmu()?), of(&ctx.in_tree()?));
    println!("# {theirs:?}");
    ensure!(ours == theirs, "{ours:?}, in-tree {theirs:?}");
    Ok(())
}

/// Whether the event needs a register. Without one, the in-tree driver takes every value.
/// There is one register in which every bit is valid.
fn needs_register(in_tree: &Pmu, code: u64) -> Result<bool> {
    let all = Event {
        config: code,
        config1: u64::MAX,
    };
    let snoop = in_tree.dir().join("format/snoop_rsp").exists() && matches!(code, 0x0127 | 0x0227);
    Ok(snoop || all.open(in_tree)?.is_err())
}

/// The codes of the events that need a register.
fn codes(in_tree: &Pmu) -> Result<Vec<u64>> {
    let mut codes = Vec::new();
    for code in CODES {
        if needs_register(in_tree, code)? {
            codes.push(code);
        }
    }
    println!("# events that need a register: {codes:04x?}");
    Ok(codes)
}

/// Each bit, and random values, of which some are valid.
fn config1_values(rng: &mut Rng) -> Vec<u64> {
    let bits = (0..64).map(|bit| 1 << bit);
    let random = (0..40).map(|_| rng.u64(..) & rng.u64(..) & rng.u64(..) & rng.u64(..));
    [0, u64::MAX, 0xffff, 0x11]
        .into_iter()
        .chain(bits)
        .chain(random)
        .collect()
}

/// A value has the same errno on both drivers, but for an event without a register: see
/// "config1" in docs/differences.md.
fn values(ctx: &Ctx) -> Result<()> {
    println!("# seed {}", ctx.seed);
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let mut rng = Rng::with_seed(ctx.seed);
    let mut report = Report::new(ctx);
    for code in CODES.into_iter().chain([PLAIN]) {
        let needed = needs_register(&theirs, code)?;
        for config1 in config1_values(&mut rng) {
            let modifier = rng.choice([0, 0, EDGE, INV | CMASK_1]).unwrap_or(0);
            let config = code | modifier;
            let event = Event { config, config1 };
            let found = errno(&event.open(&ours)?);
            report.called(found);
            let expected = match errno(&event.open(&theirs)?) {
                0 if !needed && config1 != 0 && ctx.is_rust_pmu() => libc::EINVAL,
                errno => errno,
            };
            if found != expected {
                report.wrong(format!(
                    "{event:#x?}: {}, expected {}",
                    name(found),
                    name(expected)
                ));
            }
        }
    }
    report.finish()
}

/// Some events that share registers, with few different values.
struct Choices {
    codes: Vec<u64>,
}

impl Choices {
    const VALUES: [u64; 3] = [1, 2, 4];

    /// Those that take all of the values.
    fn new(in_tree: &Pmu) -> Result<Self> {
        let config1 = Self::VALUES.iter().fold(0, |all, value| all | value);
        let mut codes = codes(in_tree)?;
        let mut refused = Vec::new();
        for config in &codes {
            let event = Event {
                config: *config,
                config1,
            };
            if event.open(in_tree)?.is_err() {
                refused.push(*config);
            }
        }
        codes.retain(|code| !refused.contains(code));
        Ok(Self { codes })
    }

    fn event(&self, rng: &mut Rng) -> Event {
        let plain = rng.u8(..8) == 0;
        let code = self.codes.get(rng.usize(..self.codes.len().max(1)));
        match code {
            Some(code) if !plain => Event {
                config: *code,
                config1: rng.choice(Self::VALUES).unwrap_or(1),
            },
            _ => Event {
                config: PLAIN,
                config1: 0,
            },
        }
    }
}

/// Groups in which events want different values: both drivers refuse the same events.
fn groups(ctx: &Ctx) -> Result<()> {
    const GROUPS: usize = 500;
    println!("# seed {}", ctx.seed);
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let choices = Choices::new(&theirs)?;
    let mut rng = Rng::with_seed(ctx.seed);
    let mut report = Report::new(ctx);
    let mut refused = 0;
    for _ in 0..GROUPS {
        let events: Vec<_> = (0..rng.usize(2..=5))
            .map(|_| choices.event(&mut rng))
            .collect();
        let all = |pmu: &Pmu| -> Result<Vec<i32>> {
            let mut group: Vec<Counter> = Vec::new();
            let mut errnos = Vec::new();
            for event in &events {
                let mut builder = event.builder(pmu);
                let counter = match group.first_mut() {
                    None => opened(builder.build())?,
                    // A disabled member needs no register.
                    Some(leader) => opened(builder.enabled(true).build_with_group(leader))?,
                };
                errnos.push(errno(&counter));
                group.extend(counter.ok());
            }
            Ok(errnos)
        };
        let (ours, theirs) = (all(&ours)?, all(&theirs)?);
        for errno in &ours {
            report.called(*errno);
        }
        refused += usize::from(theirs.iter().any(|errno| *errno != 0));
        if ours != theirs {
            report.wrong(format!("{events:#x?}: {ours:?}, in-tree {theirs:?}"));
        }
    }
    println!("# {GROUPS} groups, an event refused in {refused}");
    ensure!(
        choices.codes.is_empty() || refused > 0 && refused < GROUPS,
        "an event was refused in no group, or in all"
    );
    report.finish()
}

/// What a CPU's registers say that is counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Programmed {
    /// The EVENTSELs of the counters that count, in the order of their values: which counter
    /// has which is for the driver to choose.
    eventsels: Vec<u64>,
    /// FIXED_CTR_CTRL, of the counters that count.
    fixed: u64,
    /// The registers beside EVENTSEL, by their addresses.
    extra: BTreeMap<u32, u64>,
}

impl Programmed {
    /// The registers if every general counter counted the event with this code.
    pub fn with_code(mut self, code: u64) -> Self {
        for eventsel in &mut self.eventsels {
            *eventsel = *eventsel & !EVENT_UMASK | code;
        }
        self
    }

    /// Reads the registers.
    pub fn on(msrs: &Msrs) -> Result<Self> {
        let addresses = PmuMsrs::of_this_cpu();
        let running = addresses.running(msrs)?;
        let general = addresses.running_general(msrs)?;
        let mut eventsels: Vec<_> = general.iter().map(|(eventsel, _)| *eventsel).collect();
        eventsels.sort_unstable();
        let mut fixed = addresses.fixed_ctrl.map_or(Ok(0), |it| msrs.read(it))?;
        for i in (0..16).filter(|i| running & (1 << (32 + i)) == 0) {
            fixed &= !(0xf << (4 * i));
        }
        let extra = REGISTERS.into_iter().filter_map(|msr| {
            let value = msrs.read(msr).ok()?;
            Some((msr, value))
        });
        Ok(Self {
            eventsels,
            fixed,
            extra: extra.collect(),
        })
    }

    /// Clears the registers beside EVENTSEL. Nobody may be counting.
    pub fn clear(msrs: &Msrs) {
        for msr in REGISTERS {
            // Not every CPU has all of them.
            let _ = msrs.write(msr, 0);
        }
    }
}

/// Two CPUs that the PMU is on.
fn two_cpus(pmu: &Pmu) -> Result<[usize; 2]> {
    let file = pmu.dir().join("cpus");
    if !file.exists() {
        return Ok([0, 1]);
    }
    let text = fs::read_to_string(&file)?;
    let cpus = text.trim_end().split([',', '-']).map(str::parse);
    let cpus: Vec<usize> = cpus.collect::<Result<_, _>>()?;
    match cpus[..] {
        [first, second, ..] => Ok([first, second]),
        _ => bail!("{}: {text}", pmu.name),
    }
}

/// A register has the event's value while the event is counted, and EVENTSEL is the same.
fn registers(ctx: &Ctx) -> Result<()> {
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let [cpu, _] = two_cpus(&theirs)?;
    let msrs = Msrs::of_cpu(cpu)?;
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    let mut report = Report::new(ctx);
    for code in codes(&theirs)? {
        let mut written = 0;
        for config1 in config1_values(&mut rng) {
            let config = code | rng.choice([0, EDGE, CMASK_1]).unwrap_or(0);
            let event = Event { config, config1 };
            let programmed = |pmu: &Pmu| -> Result<Option<Programmed>> {
                Programmed::clear(&msrs);
                match event.open_on(pmu, cpu)? {
                    Ok(_counter) => Programmed::on(&msrs).map(Some),
                    Err(_) => Ok(None),
                }
            };
            let (ours, theirs) = (programmed(&ours)?, programmed(&theirs)?);
            report.called(if ours.is_some() { 0 } else { libc::EINVAL });
            let extra = |it: &Programmed| it.extra.values().any(|it| *it == config1);
            if config1 != 0 && theirs.as_ref().is_some_and(extra) {
                written += 1;
            }
            if ours != theirs {
                report.wrong(format!("{event:#x?}: {ours:x?}, in-tree {theirs:x?}"));
            }
        }
        ensure!(written > 0, "{code:#x}: no register was ever written");
    }
    if codes(&theirs)?.is_empty() {
        return Ok(());
    }
    report.finish()
}

/// Several events on two CPUs: the same ones are counted, and the registers are the same.
fn events_on_cpus(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 100;
    println!("# seed {}", ctx.seed);
    let (ours, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let cpus = two_cpus(&theirs)?;
    let msrs = [Msrs::of_cpu(cpus[0])?, Msrs::of_cpu(cpus[1])?];
    let choices = Choices::new(&theirs)?;
    let mut rng = Rng::with_seed(ctx.seed);
    let mut report = Report::new(ctx);
    let mut left_out = 0;
    for _ in 0..ROUNDS {
        let events: Vec<_> = (0..rng.usize(2..=5))
            .map(|_| (choices.event(&mut rng), rng.usize(..2)))
            .collect();
        // An event in the middle goes, and the last one may have its register.
        let goes = rng.usize(..events.len());
        let run = |pmu: &Pmu| -> Result<(Vec<bool>, Vec<Programmed>)> {
            msrs.iter().for_each(Programmed::clear);
            let mut open = Vec::new();
            for (i, (event, cpu)) in events.iter().enumerate() {
                if i + 1 == events.len() {
                    open.remove(goes.min(i - 1));
                }
                let counter = event.open_on(pmu, cpus[*cpu])?;
                open.push(counter.map_err(|errno| anyhow::anyhow!("{}", name(errno)))?);
            }
            let counted = open.iter_mut().map(is_on_counter);
            let counted = counted.collect::<Result<_>>()?;
            let programmed = msrs.iter().map(Programmed::on).collect::<Result<_>>()?;
            Ok((counted, programmed))
        };
        let (ours, theirs) = (run(&ours)?, run(&theirs)?);
        for counted in &ours.0 {
            report.called(0);
            report.counted += usize::from(*counted);
        }
        left_out += usize::from(theirs.0.contains(&false));
        if ours != theirs {
            report.wrong(format!(
                "{events:x?}, {goes} goes: {ours:x?}, in-tree {theirs:x?}"
            ));
        }
    }
    println!("# {ROUNDS} rounds, an event left out in {left_out}");
    ensure!(
        choices.codes.is_empty() || left_out > 0 && left_out < ROUNDS,
        "an event was left out in no round, or in all"
    );
    report.finish()
}

/// The CPUs that are threads of CPU 0's core.
pub(super) fn siblings() -> Result<Vec<usize>> {
    let file = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    let text = fs::read_to_string(file).context(file)?;
    let mut cpus = Vec::new();
    for range in text.trim_end().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<usize>()?..=last.parse()?);
    }
    Ok(cpus)
}

/// The models whose threads of a core share the registers (`PMU_FL_NO_HT_SHARING` of the
/// in-tree driver is not set), of those with a suite.
const SHARED: [&str; 3] = ["models-nehalem", "models-westmere", "models-crestmont"];

/// Events on two threads of a core want different values of one register: where the
/// threads share it, only the first one is counted. When that has gone, the other one's
/// value is free to take.
fn threads_of_a_core(ctx: &Ctx) -> Result<()> {
    let theirs = ctx.in_tree()?;
    let codes = codes(&theirs)?;
    let threads = siblings()?;
    println!("# CPUs {threads:?} are threads of a core");
    let shared = threads.contains(&1) && SHARED.contains(&ctx.suite.name);
    // Load latency has one register only.
    let Some(code) = codes
        .into_iter()
        .find(|code| [0x100b, 0x01cd, 0x05d0].contains(code))
    else {
        return Ok(());
    };
    for pmu in [ctx.pmu()?, theirs] {
        let open = |config1, cpu| -> Result<Counter> {
            let event = Event {
                config: code,
                config1,
            };
            let counter = event.open_on(&pmu, cpu)?;
            counter.map_err(|errno| anyhow::anyhow!("{}", name(errno)))
        };
        let counts = |counter: &mut Counter, expected, what: &str| -> Result<()> {
            let found = is_on_counter(counter)?;
            ensure!(found == expected, "{}: {what}: {found}", pmu.name);
            Ok(())
        };
        let mut first = open(3, 0)?;
        counts(&mut first, true, "the first event")?;
        counts(&mut open(3, 1)?, true, "the same value on the other CPU")?;
        counts(&mut open(4, 0)?, false, "another value on the same CPU")?;
        counts(&mut open(4, 1)?, !shared, "another value on the other CPU")?;
        drop(first);
        counts(&mut open(4, 1)?, true, "another value afterwards")?;
    }
    Ok(())
}

/// Events of tasks come and go on all CPUs. Afterwards every register is free.
fn free_after_a_storm(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 300;
    let (pmu, theirs) = (ctx.pmu()?, ctx.in_tree()?);
    let cpus = two_cpus(&theirs)?;
    let choices = Choices::new(&theirs)?;
    println!("# seed {}", ctx.seed);
    // Two threads a CPU, so that the events leave the CPU and come back.
    thread::scope(|scope| {
        let storms: Vec<_> = (0..4usize)
            .map(|i| {
                let (pmu, choices) = (&pmu, &choices);
                let mut rng = Rng::with_seed(ctx.seed ^ i as u64);
                scope.spawn(move || -> Result<()> {
                    let _affinity = Affinity::pinned_to(cpus[i % 2])?;
                    let mut open = Vec::new();
                    for _ in 0..ROUNDS {
                        let mut builder = choices.event(&mut rng).builder(pmu);
                        open.push(builder.enabled(true).build()?);
                        if open.len() > 3 {
                            open.swap_remove(rng.usize(..open.len()));
                        }
                        if rng.u8(..8) == 0 {
                            thread::yield_now();
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for storm in storms {
            storm.join().expect("a panic in a thread")?;
        }
        anyhow::Ok(())
    })?;
    // No event of the storm had one of these values. Events that can do with each other's
    // register are next to each other, and have different ones: they need all of them.
    let values = [3, 5, 6, 7].into_iter().cycle();
    for cpu in cpus {
        let msrs = Msrs::of_cpu(cpu)?;
        let run = |pmu: &Pmu| -> Result<(Vec<bool>, Programmed)> {
            Programmed::clear(&msrs);
            let mut open = Vec::new();
            for (config, config1) in choices.codes.iter().zip(values.clone()) {
                let event = Event {
                    config: *config,
                    config1,
                };
                let counter = event.open_on(pmu, cpu)?;
                open.push(counter.map_err(|errno| anyhow::anyhow!("{}", name(errno)))?);
            }
            let counted = open.iter_mut().map(is_on_counter);
            Ok((counted.collect::<Result<_>>()?, Programmed::on(&msrs)?))
        };
        let (ours, theirs) = (run(&pmu)?, run(&theirs)?);
        ensure!(
            ours == theirs,
            "CPU {cpu}, {:x?}: {ours:x?}, in-tree {theirs:x?}",
            choices.codes
        );
    }
    Ok(())
}
