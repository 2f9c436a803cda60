// SPDX-License-Identifier: GPL-2.0
//! Hybrid CPUs: a PMU for each type of core, as in-tree.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use anyhow::{anyhow, bail, ensure, Context, Result};
use nix::errno::Errno;
use perf_event::events::Software;
use perf_event::{Builder, Counter, CounterData};

use super::compare::case::Cpu;
use super::compare::SYSFS;
use super::user_read::Page;
use super::{
    codes, constraints, expect, expect_exact, extra_registers, model_events, random_groups,
    topdown, user_read,
};
use crate::ctx::{in_tree_name, Ctx, Skipped, Test, IN_TREE, RUST_PMU};
use crate::generic_events::{PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE};
use crate::kmsg::{set_judged, Kmsg};
use crate::ktap::about_cores;
use crate::module;
use crate::msr::{self, Msrs};
use crate::pmu::{core_type, BuilderExt, CoreType, CpuPmu, Event, Mode, Pmu};
use crate::program::LOOP;
use crate::setting::{pin, Affinity, Setting};
use crate::tests;
use crate::tool::{parse_rows, Perf, Row};
use crate::trace::has_kcfi;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, ExactCounts, ZeroSkid];
    cores_of_each_type,
    files_as_in_tree,
    counters_of_each_type,
    models,
    extra_register_of_each_type,
    counts_on_its_cores_only,
    counts_a_task_that_moves,
    samples_on_each_cpu,
    events_of_cpus,
    no_pmu_of_a_core: [Module],
    groups_of_two_types,
    group_on_the_wrong_cpu,
    generic_events_as_in_tree,
    rdpmc_on_each_type,
    both_reserve_the_counters: [InTreeReserves],
    system_wide_with_the_tool,
    a_task_with_the_tool,
    hotplug_of_an_efficient_core,
    type_that_was_offline_when_loaded: [Module],
];

pub const CPU: &[Test] = tests![
    all need [Root, EmulatedPmu];
    tables_of_each_type,
];

/// On a machine whose efficient cores have a defect, so that their counters cannot be used.
pub const FAULT: &[Test] = tests![
    all need [Root, EmulatedPmu];
    type_that_cannot_be_driven,
];

/// The cores of one type.
struct Part {
    core_type: CoreType,
    ours: Pmu,
    in_tree: Pmu,
    cpus: Vec<usize>,
}

/// A type of core, before it is known whether it has PMUs.
struct Kind {
    core_type: CoreType,
    name: &'static str,
    suffix: &'static str,
    /// What the names of the PMUs under test begin with.
    driver: &'static str,
    cpus: Vec<usize>,
}

impl Kind {
    /// The types of cores, and which CPUs they are: the low-power ones are the last, and the
    /// efficient ones come before them.
    fn all(ctx: &Ctx) -> Vec<Self> {
        let all = ctx.suite.cpus;
        let low_power = all - ctx.suite.machine.low_power;
        let efficient = low_power - ctx.suite.machine.efficient;
        let kind = |core_type, name, suffix, from: u32, to: u32| Kind {
            core_type,
            name,
            suffix,
            driver: match ctx.is_rust_pmu() {
                true => RUST_PMU,
                false => IN_TREE,
            },
            cpus: (from as usize..to as usize).collect(),
        };
        let mut kinds = vec![
            kind(CoreType::Core, "performance cores", "core", 0, efficient),
            kind(
                CoreType::Atom,
                "efficient cores",
                "atom",
                efficient,
                low_power,
            ),
            kind(
                CoreType::Atom,
                "low-power cores",
                "lowpower",
                low_power,
                all,
            ),
        ];
        kinds.retain(|kind| !kind.cpus.is_empty());
        kinds
    }

    /// The name of the PMU under test.
    fn ours(&self) -> String {
        format!("{}_{}", self.driver, self.suffix)
    }

    fn in_tree(&self) -> Result<Pmu> {
        Pmu::find(&in_tree_name(&self.ours()))
    }

    fn part(self) -> Result<Part> {
        Ok(Part {
            core_type: self.core_type,
            in_tree: self.in_tree()?,
            ours: Pmu::find(&self.ours())?,
            cpus: self.cpus,
        })
    }
}

/// The two types of cores.
fn parts(ctx: &Ctx) -> Result<[Part; 2]> {
    let parts = Kind::all(ctx).into_iter().map(Kind::part);
    let parts: Vec<_> = parts.collect::<Result<_>>()?;
    parts
        .try_into()
        .map_err(|parts: Vec<_>| anyhow!("{} types of cores", parts.len()))
}

/// What is given to a test of the PMU of one type of core.
fn ctx_of(ctx: &Ctx, pmu: String) -> Ctx {
    Ctx {
        suite: ctx.suite,
        pmu,
        seed: ctx.seed,
        no_counters: None,
        cpus: None,
    }
}

/// Runs `f` for each of the module's PMUs, on a CPU that it is on. The module need not be loaded.
pub fn on_each_type(ctx: &Ctx, mut f: impl FnMut(&Ctx) -> Result<()>) -> Result<()> {
    if ctx.suite.machine.efficient == 0 {
        return f(ctx);
    }
    for kind in Kind::all(ctx) {
        let _affinity = Affinity::pinned_to(kind.cpus[0])?;
        f(&ctx_of(ctx, kind.ours()))?;
    }
    Ok(())
}

/// Runs tests on a core of each type. Returns how many did not skip there.
fn run_on(ctx: &Ctx, part: &Part, tests: impl IntoIterator<Item = &'static Test>) -> Result<usize> {
    let _affinity = Affinity::pinned_to(part.cpus[0])?;
    let of_part = ctx_of(ctx, part.ours.name.clone());
    let mut passed = 0;
    for test in tests {
        match test.run(&of_part) {
            Err(error) if error.is::<Skipped>() => {}
            result => {
                let what = || format!("{} on {}", test.title(), part.ours.name);
                result.with_context(what)?;
                passed += 1;
            }
        }
    }
    Ok(passed)
}

/// The tables of each type are those of the in-tree driver: the counters for each code, the
/// files, and perf's events.
fn tables_of_each_type(ctx: &Ctx) -> Result<()> {
    for kind in Kind::all(ctx) {
        let name = kind.name;
        let part = kind.part()?;
        let tests = [
            codes::TESTS,
            SYSFS,
            model_events::TESTS,
            random_groups::TESTS,
        ];
        let tests: Vec<_> = tests.into_iter().flatten().collect();
        let all = tests.len();
        let passed = about_cores(name, || run_on(ctx, &part, tests))?;
        // An event of some models alone may be missing. `codes` needs a kernel without kCFI.
        let may_skip = 1 + codes::TESTS.len() * usize::from(has_kcfi());
        ensure!(passed + may_skip >= all, "{name}: {passed} of {all} tests");
    }
    Ok(())
}

/// The lines of a file, without the last line break.
fn content(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.trim_end().to_owned())
}

/// The CPUs of a list such as `0-1,3`.
fn list(text: &str) -> Result<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse()?..=last.parse::<usize>()?);
    }
    Ok(cpus)
}

/// The CPUs that a file of a PMU lists.
fn listed(pmu: &Pmu, file: &str) -> Result<Vec<usize>> {
    list(&content(&pmu.dir().join(file))?)
}

/// Both drivers agree which CPUs a PMU is on. The perf tool does not take ours for one of a type of core.
fn expect_cpus(part: &Part, want: &[usize]) -> Result<()> {
    for (pmu, file) in [(&part.ours, "cpulist"), (&part.in_tree, "cpus")] {
        let cpus = listed(pmu, file)?;
        ensure!(cpus == want, "{}: {cpus:?}, expected {want:?}", pmu.name);
    }
    let file = part.ours.dir().join("cpus");
    ensure!(!file.exists(), "there is {}", file.display());
    Ok(())
}

/// Leaf 1AH and both drivers agree. There is no PMU for all cores.
fn cores_of_each_type(ctx: &Ctx) -> Result<()> {
    let affinity = Affinity::save()?;
    for part in parts(ctx)? {
        for &cpu in &part.cpus {
            affinity.pin(cpu)?;
            let found = core_type();
            ensure!(found == Some(part.core_type), "CPU {cpu}: {found:?}");
        }
        expect_cpus(&part, &part.cpus)?;
    }
    ensure!(Pmu::find(RUST_PMU).is_err(), "there is also {RUST_PMU}");
    Ok(())
}

/// `format/` and `caps/` are the in-tree driver's, but for the names of events that are bits of
/// `config2`. What is in `events/` has the in-tree driver, too, under the same name or the one that
/// docs/differences.md lists.
fn files_as_in_tree(ctx: &Ctx) -> Result<()> {
    for Part { ours, in_tree, .. } in parts(ctx)? {
        for folder in ["format", "caps"] {
            let files = |pmu: &Pmu| -> Result<Vec<(String, String)>> {
                let mut files = Vec::new();
                for file in fs::read_dir(pmu.dir().join(folder))? {
                    let file = file?;
                    let name = file.file_name().to_string_lossy().into_owned();
                    files.push((name, content(&file.path())?));
                }
                files.retain(|(_, text)| !text.starts_with("config2:"));
                files.sort();
                Ok(files)
            };
            let (found, mut want) = (files(&ours)?, files(&in_tree)?);
            if ctx.is_rust_pmu() && Cpu::probe().is_version(6..) {
                // See docs/differences.md.
                want.retain(|(name, _)| !name.starts_with("branch"));
            }
            ensure!(
                found == want,
                "{}/{folder}: {found:?}, in-tree {want:?}",
                ours.name
            );
        }
        let mut compared = 0;
        for event in Event::ALL {
            if in_tree.has(event) {
                ensure!(ours.has(event), "{} lacks {}", ours.name, event.name());
                let [found, want] = [&ours, &in_tree].map(|pmu| pmu.config(event));
                ensure!(
                    found == want,
                    "{}: {found:#x}, in-tree {want:#x}",
                    event.name()
                );
                compared += 1;
            }
        }
        ensure!(
            compared >= 6,
            "{} has only {compared} of the events",
            in_tree.name
        );
    }
    Ok(())
}

/// Events of a PMU that only general counters count, in one group.
fn branches(pmu: &Pmu, number: u32) -> Result<Vec<Counter>> {
    let group = vec![(Event::Branches, Mode::User); number as usize];
    pmu.open_group(&group)
}

/// As many events count at once as the core has general counters, and not one more.
fn counters_of_each_type(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(100_000);
    let mut numbers = Vec::new();
    for part in parts(ctx)? {
        let _affinity = Affinity::pinned_to(part.cpus[0])?;
        let number = CpuPmu::probe().general;
        let mut group = branches(&part.ours, number)?;
        workload.measure(&group[0])?;
        for counter in &mut group {
            expect(
                &part.ours.name,
                "branches",
                counter.read()?,
                workload.branches(),
            )?;
        }
        drop(group);
        for pmu in [&part.ours, &part.in_tree] {
            ensure!(
                branches(pmu, number + 1).is_err(),
                "{} counts {} events at once",
                pmu.name,
                number + 1
            );
        }
        numbers.push((number, CpuPmu::probe().fixed));
    }
    let want = match ctx.suite.name {
        "models-alder-lake-hybrid" => [(8, 4), (6, 3)],
        _ => [(8, 4), (8, 3)],
    };
    ensure!(numbers == want, "{numbers:?}, expected {want:?}");
    Ok(())
}

/// Tests of a model that need CPU 0.
const OF_CPU_0: &[&str] = &["threads_of_a_core"];

/// Runs tests that need a model on a core of each type, with the PMU of that type. Some do
/// not apply to a type.
fn models(ctx: &Ctx) -> Result<()> {
    for part in parts(ctx)? {
        let tests = [
            constraints::TESTS,
            extra_registers::TESTS,
            model_events::TESTS,
            topdown::TESTS,
        ];
        let has_cpu_0 = part.cpus.contains(&0);
        let tests = tests.into_iter().flatten();
        let tests = tests.filter(|test| has_cpu_0 || !OF_CPU_0.contains(&test.name));
        let passed = run_on(ctx, &part, tests)?;
        let least = if has_cpu_0 { 27 } else { 15 };
        ensure!(passed >= least, "only {passed} tests on {}", part.ours.name);
    }
    Ok(())
}

/// OFFCORE_RESPONSE has another code on each type, and its value goes into the register of the
/// CPU.
fn extra_register_of_each_type(ctx: &Ctx) -> Result<()> {
    const MSR_OFFCORE_RSP_0: u32 = 0x1a6;
    msr::load_driver()?;
    const MSR_OMR_0: u32 = 0x3e0;
    let [core, atom] = parts(ctx)?;
    let msr = match core.ours.dir().join("format/offmodule_rsp").exists() {
        true => MSR_OMR_0,
        false => MSR_OFFCORE_RSP_0,
    };
    for (part, config, value) in [(&core, 0x012a, 1), (&atom, 0x01b7, 2)] {
        for &cpu in &part.cpus {
            let msrs = Msrs::of_cpu(cpu)?;
            msrs.write(msr, 0)?;
            let mut event = part.ours.raw(config);
            event.attrs_mut().__bindgen_anon_3.config1 = value;
            let mut counter = event.any_pid().one_cpu(cpu).filter(Mode::Both).build()?;
            counter.enable()?;
            let found = msrs.read(msr)?;
            drop(counter);
            msrs.write(msr, 0)?;
            ensure!(found == value, "CPU {cpu}: {found:#x}, expected {value:#x}");
        }
    }
    Ok(())
}

/// On its cores an event of a task is exact, elsewhere it does not run.
fn counts_on_its_cores_only(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(1_000_000);
    let affinity = Affinity::save()?;
    let parts = parts(ctx)?;
    for part in &parts {
        for cpu in 0..ctx.suite.cpus as usize {
            affinity.pin(cpu)?;
            let mut counter = part.ours.open(Event::Instructions, Mode::User)?;
            workload.measure(&counter)?;
            let here = part.cpus.contains(&cpu);
            let want = if here { workload.instructions() } else { 0 };
            let what = format!("{} on CPU {cpu}", part.ours.name);
            let data = counter.read_full()?;
            expect(&what, "instructions", data.count(), want)?;
            expect_running(&what, &data, here)?;
        }
    }
    Ok(())
}

/// The counts of both PMUs add up, however often the task moves. How much of it runs on which type
/// of core is up to the host, which may keep a virtual CPU waiting: there are so many rounds that
/// each type has counted.
fn counts_a_task_that_moves(ctx: &Ctx) -> Result<()> {
    const ROUNDS: usize = 200;
    let cpus = ctx.suite.cpus as usize;
    let mut counted = [false; 2];
    for round in 0..ROUNDS {
        if round >= 3 && counted == [true; 2] {
            return Ok(());
        }
        let installed = LOOP.install()?;
        let child = installed.stopped()?;
        let open = |part: &Part| -> Result<Counter> {
            let mut event = part.ours.event(Event::Instructions);
            Ok(event
                .observe_pid(child.pid().as_raw())
                .enable_on_exec(true)
                .build()?)
        };
        let [core, atom] = parts(ctx)?;
        let mut counters = [open(&core)?, open(&atom)?];
        let pid = child.pid();
        // The moves end when the process has ended.
        let mover = thread::spawn(move || {
            let mut moves = 0;
            while pin(pid, (round + moves) % cpus).is_ok() {
                moves += 1;
                thread::yield_now();
            }
            moves
        });
        child.finish()?;
        let moves = mover.join().expect("the thread does not panic");
        let data = [counters[0].read_full()?, counters[1].read_full()?];
        let counts = [data[0].count(), data[1].count()];
        let sum = counts.iter().sum();
        expect(
            &format!("after {moves} moves, {counts:?}"),
            "instructions",
            sum,
            LOOP.instructions,
        )?;
        for (counted, count) in counted.iter_mut().zip(counts) {
            *counted |= count != 0;
        }
        let [enabled, other] = [0, 1].map(|i: usize| data[i].time_enabled());
        let running = [0, 1].map(|i: usize| data[i].time_running());
        let enabled = enabled.max(other).context("no time")?;
        let running = running[0].context("no time")? + running[1].context("no time")?;
        ensure!(running <= enabled, "{running:?} of {enabled:?}");
    }
    bail!("in {ROUNDS} rounds a type of core never counted: {counted:?}")
}

/// Counts and PMIs are right on each CPU.
fn samples_on_each_cpu(ctx: &Ctx) -> Result<()> {
    for part in parts(ctx)? {
        for &cpu in &part.cpus {
            expect_samples(&part.ours, cpu)?;
        }
    }
    Ok(())
}

/// Counts and samples on a CPU. The samples are as many as periods, and so are the NMIs.
fn expect_samples(pmu: &Pmu, cpu: usize) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let what = format!("{} on CPU {cpu}", pmu.name);
    let workload = workload::tight_loop(1_000_000);
    let _affinity = Affinity::pinned_to(cpu)?;
    expect_exact(pmu, &workload).context(what.clone())?;
    let nmis = super::interrupts("NMI")?;
    let mut sampler = pmu
        .event(Event::Instructions)
        .sample_period(PERIOD)
        .build()?;
    workload.measure(&sampler)?;
    let count = sampler.read()?;
    expect(&what, "instructions", count, workload.instructions())?;
    let nmis = super::interrupts("NMI")? - nmis;
    expect(&what, "NMIs", nmis, count / PERIOD)
}

fn event_of_cpu(pmu: &Pmu, cpu: usize) -> Builder<'static> {
    let mut event = pmu.event(Event::Instructions);
    event.any_pid().one_cpu(cpu).filter(Mode::Both);
    event
}

fn errno(result: io::Result<Counter>) -> Result<i32> {
    match result {
        Ok(_) => Ok(0),
        Err(error) => error.raw_os_error().context("no errno"),
    }
}

/// An event of a CPU of another type can be opened and never counts. In-tree it is refused.
fn events_of_cpus(ctx: &Ctx) -> Result<()> {
    for part in parts(ctx)? {
        for cpu in 0..ctx.suite.cpus as usize {
            if part.cpus.contains(&cpu) {
                expect_errno(&part.ours, cpu, 0)?;
                expect_errno(&part.in_tree, cpu, 0)?;
            } else {
                expect_never_counts(&part.ours, cpu)?;
                expect_errno(&part.in_tree, cpu, libc::ENOENT)?;
            }
        }
    }
    Ok(())
}

/// Opening an event of this CPU has this errno, or 0.
fn expect_errno(pmu: &Pmu, cpu: usize, want: i32) -> Result<()> {
    let found = errno(event_of_cpu(pmu, cpu).build())?;
    let name = &pmu.name;
    ensure!(
        found == want,
        "{name} on CPU {cpu}: errno {found}, expected {want}"
    );
    Ok(())
}

/// An event of this CPU is enabled, and has no counter.
fn expect_never_counts(pmu: &Pmu, cpu: usize) -> Result<()> {
    let what = format!("{} on CPU {cpu}", pmu.name);
    let _affinity = Affinity::pinned_to(cpu)?;
    let mut counter = event_of_cpu(pmu, cpu).build().context(what.clone())?;
    workload::tight_loop(100_000).measure(&counter)?;
    let data = counter.read_full()?;
    expect(&what, "instructions", data.count(), 0)?;
    expect_running(&what, &data, false)
}

/// An event was enabled, and on a counter all the time or never.
fn expect_running(what: &str, data: &CounterData, always: bool) -> Result<()> {
    let (enabled, running) = (data.time_enabled(), data.time_running());
    let (enabled, running) = (enabled.context("no time")?, running.context("no time")?);
    ensure!(!enabled.is_zero(), "{what}: not enabled");
    ensure!(
        if always {
            running == enabled
        } else {
            running.is_zero()
        },
        "{what}: runs {running:?} of {enabled:?}"
    );
    Ok(())
}

/// `named_events=1` is refused, with a line in the kernel log. With files `cpus` of PMUs that refuse
/// generic events perf would open those of `cpu_atom` on `cpu_core`.
fn no_pmu_of_a_core(ctx: &Ctx) -> Result<()> {
    module::remove()?;
    let result = (|| {
        let mut log = ctx.module_log()?;
        module::expect_refused(ctx, c"named_events=1", Errno::EINVAL)?;
        let lines = log.lines()?;
        let told = lines
            .iter()
            .filter(|line| line.contains("named_events=1: "));
        ensure!(told.count() == 1, "{lines:?}");
        Ok(())
    })();
    module::insert(ctx)??;
    result
}

/// Events of two types of cores cannot count at once, so they cannot be a group.
fn groups_of_two_types(ctx: &Ctx) -> Result<()> {
    let [core, atom] = parts(ctx)?;
    let refused = |leader: &Pmu, member: &Pmu| -> Result<i32> {
        let mut leader = leader.event(Event::Instructions).build()?;
        errno(member.event(Event::Branches).build_with_group(&mut leader))
    };
    for (leader, member) in [(&core, &atom), (&atom, &core)] {
        let found = refused(&leader.ours, &member.ours)?;
        let want = refused(&leader.in_tree, &member.in_tree)?;
        ensure!(found == want && want != 0, "errno {found}, in-tree {want}");
    }
    Ok(())
}

/// perf's generic events, which have the number of the in-tree PMU and the names of ours: all open or
/// fail as in-tree, and the instructions are exact. What the in-tree PMU refuses has no name.
fn generic_events_as_in_tree(ctx: &Ctx) -> Result<()> {
    let caches = (0..8u64).flat_map(|cache| {
        (0..4u64).flat_map(move |operation| {
            (0..3u64).map(move |result| cache | (operation << 8) | (result << 16))
        })
    });
    let hardware = (0..11).map(|id| (PERF_TYPE_HARDWARE, id));
    let all: Vec<_> = hardware
        .chain(caches.map(|id| (PERF_TYPE_HW_CACHE, id)))
        .collect();
    let workload = workload::tight_loop(1_000_000);
    for part in parts(ctx)? {
        let _affinity = Affinity::pinned_to(part.cpus[0])?;
        let mut opened = 0;
        for &(type_, id) in &all {
            let want = match errno(part.in_tree.generic(type_, id)?.build())? {
                0 => 0,
                _ => libc::ENOENT,
            };
            let found = errno(part.ours.generic(type_, id)?.build())?;
            ensure!(
                found == want,
                "{} type {type_} event {id:#x}: errno {found}, in-tree {want}",
                part.ours.name
            );
            opened += usize::from(want == 0);
        }
        ensure!(opened >= 12, "{}: only {opened} events", part.in_tree.name);
        let mut instructions = part.ours.generic(PERF_TYPE_HARDWARE, 1)?.build()?;
        workload.measure(&instructions)?;
        expect(
            &part.ours.name,
            "instructions",
            instructions.read()?,
            workload.instructions(),
        )?;
    }
    Ok(())
}

/// A mapped event of a task can be read by RDPMC on cores of its type, with the width that the
/// page says, and as in-tree. On other cores it has no counter.
fn rdpmc_on_each_type(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(100_000);
    let affinity = Affinity::save()?;
    let parts = parts(ctx)?;
    for part in &parts {
        for pmu in [&part.in_tree, &part.ours] {
            affinity.pin(part.cpus[0])?;
            let counter = pmu.open(Event::Instructions, Mode::User)?;
            let page = Page::map(&counter)?;
            let mut counter = counter;
            counter.enable()?;
            workload.run();
            let index = page.index()?;
            ensure!(index == 1 << 30, "{}: index {index:#x}", pmu.name);
            let before = page.count();
            workload.run();
            let gained = page.count() - before;
            let least = workload.instructions() as i64;
            ensure!(
                (least..least + 1_000).contains(&gained),
                "{}: {gained} instructions, expected {least}",
                pmu.name
            );
            counter.disable()?;
            let (count, mapped) = (counter.read()?, page.count() as u64);
            expect(&pmu.name, "instructions in the page", mapped, count)?;
            counter.enable()?;
            let other = parts.iter().find(|other| other.cpus != part.cpus);
            affinity.pin(other.context("one type")?.cpus[0])?;
            ensure!(page.index().is_err(), "{} on another core", pmu.name);
        }
    }
    // It uses CPU 0.
    let tests = user_read::TESTS.iter();
    let tests = tests.filter(|test| test.name == "dirty_counters_are_cleared");
    let passed = run_on(ctx, &parts[0], tests)?;
    expect(&parts[0].ours.name, "tests", passed as u64, 1)
}

/// The counters are reserved until the last event of both PMUs is closed.
fn both_reserve_the_counters(ctx: &Ctx) -> Result<()> {
    let [core, atom] = parts(ctx)?;
    let open = |pmu: &Pmu| pmu.event(Event::Instructions).build();
    for (first, last) in [(&core, &atom), (&atom, &core)] {
        let events = (open(&first.ours)?, open(&last.ours)?);
        for in_tree in [&core.in_tree, &atom.in_tree] {
            expect(
                "with both",
                "as errno",
                errno(open(in_tree))? as u64,
                libc::EBUSY as u64,
            )?;
        }
        drop(events.0);
        for in_tree in [&core.in_tree, &atom.in_tree] {
            expect(
                "with one",
                "as errno",
                errno(open(in_tree))? as u64,
                libc::EBUSY as u64,
            )?;
        }
        let _affinity = Affinity::pinned_to(last.cpus[0])?;
        let workload = workload::tight_loop(1_000_000);
        workload.measure(&events.1)?;
        let mut event = events.1;
        expect(
            "with one",
            "instructions",
            event.read()?,
            workload.instructions(),
        )?;
        drop(event);
        for part in [&core, &atom] {
            let _affinity = Affinity::pinned_to(part.cpus[0])?;
            let mut event = open(&part.in_tree)?;
            workload.measure(&event)?;
            expect(
                "in-tree",
                "instructions",
                event.read()?,
                workload.instructions(),
            )?;
        }
    }
    Ok(())
}

/// What `perf stat -a` counts on each CPU, and the CPUs that it prints without a count.
fn system_wide(pmu: &Pmu) -> Result<(Vec<Row>, Vec<String>)> {
    let event = pmu.tool_event(Event::Instructions, "");
    let stat = Perf::stat().args(["-a", "-A", "-e", &event, "true"]);
    let mut output = stat.run()?;
    let text = String::from_utf8(output.stderr)?;
    let is_not_counted = |line: &&str| line.contains("<not counted>");
    let (without, counted): (Vec<_>, Vec<_>) = text.lines().partition(is_not_counted);
    let cpu = |line: &str| line.split(',').next().unwrap_or_default().to_owned();
    output.stderr = counted.join("\n").into_bytes();
    let without = without.into_iter().map(cpu).collect();
    Ok((parse_rows(&output)?, without))
}

/// Expects that an event counted on these CPUs all the time.
fn expect_places(rows: &[Row], cpus: &[usize]) -> Result<()> {
    let places: Vec<_> = rows.iter().map(|row| row.place.clone()).collect();
    let want: Vec<_> = cpus.iter().map(|cpu| format!("CPU{cpu}")).collect();
    ensure!(places == want, "{places:?}, expected {want:?}");
    ensure!(
        rows.iter().all(|row| row.running == 100.0),
        "not always on a counter: {rows:?}"
    );
    Ok(())
}

/// The tool opens an event on all CPUs. It counts on those of its PMU, and the tool prints their
/// sum as it is. A socket that has CPUs of both types has a count if the CPUs are named.
fn system_wide_with_the_tool(ctx: &Ctx) -> Result<()> {
    let installed = LOOP.install()?;
    for part in parts(ctx)? {
        let (rows, others) = system_wide(&part.ours)?;
        expect_places(&rows, &part.cpus)?;
        let all = 0..ctx.suite.cpus as usize;
        let want = all.filter(|cpu| !part.cpus.contains(cpu));
        let want: Vec<_> = want.map(|cpu| format!("CPU{cpu}")).collect();
        ensure!(
            others == want,
            "not counted on {others:?}, expected {want:?}"
        );

        let _affinity = Affinity::pinned_to(part.cpus[0])?;
        let event = part.ours.tool_event(Event::Instructions, "u");
        let count = |options: &[&str]| -> Result<Row> {
            let stat = Perf::stat().args(options).args(["-e", &event]);
            let mut rows = stat.args([installed.path()]).rows()?;
            ensure!(rows.len() == 1, "{rows:?}");
            // perf itself runs on these CPUs as well, for far fewer instructions than the program.
            let (count, least) = (rows[0].value as u64, LOOP.instructions);
            ensure!((least..least + least / 2).contains(&count), "{rows:?}");
            Ok(rows.remove(0))
        };
        let row = count(&["-a"])?;
        ensure!(row.running > 0.0 && row.running < 100.0, "{row:?}");
        let cpus = content(&part.ours.dir().join("cpulist"))?;
        let row = count(&["-C", &cpus, "--per-socket"])?;
        ensure!(row.running == 100.0, "{row:?}");
    }
    Ok(())
}

/// An event of another PMU counts nothing either, if it is in a group with one of a CPU of another
/// type.
fn group_on_the_wrong_cpu(ctx: &Ctx) -> Result<()> {
    for part in parts(ctx)? {
        for cpu in 0..ctx.suite.cpus as usize {
            let _affinity = Affinity::pinned_to(cpu)?;
            let of_cpu = |event: &mut Builder| {
                event.any_pid().one_cpu(cpu);
            };
            let mut clock = Builder::new(Software::CPU_CLOCK);
            of_cpu(&mut clock);
            let mut clock = clock.build()?;
            let mut event = part.ours.event(Event::Instructions);
            of_cpu(event.include_kernel());
            let _event = event.build_with_group(&mut clock)?;
            workload::tight_loop(100_000).measure(&clock)?;
            let what = format!("{} on CPU {cpu}", part.ours.name);
            let data = clock.read_full()?;
            let here = part.cpus.contains(&cpu);
            ensure!((data.count() != 0) == here, "{what}: {} ns", data.count());
            expect_running(&what, &data, here)?;
        }
    }
    Ok(())
}

/// `perf stat` of a program on the CPUs of each type.
fn a_task_with_the_tool(ctx: &Ctx) -> Result<()> {
    let installed = LOOP.install()?;
    let [core, atom] = parts(ctx)?;
    for (part, other) in [(&core, &atom), (&atom, &core)] {
        let _affinity = Affinity::pinned_to(part.cpus[0])?;
        let event = part.ours.tool_event(Event::Instructions, "u");
        let not_counted = other.ours.tool_event(Event::Instructions, "u");
        let rows = Perf::stat()
            .args(["-e", &event, "-e", &not_counted])
            .args([installed.path()])
            .counted_rows()?;
        ensure!(rows.len() == 1, "{rows:?}");
        expect(
            &event,
            "instructions",
            rows[0].value as u64,
            LOOP.instructions,
        )?;
    }
    Ok(())
}

fn online(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// An efficient core is on its PMU again when it comes back, and so are all of them.
fn hotplug_of_an_efficient_core(ctx: &Ctx) -> Result<()> {
    let [core, atom] = parts(ctx)?;
    let mut offline = Vec::new();
    let mut left = atom.cpus.clone();
    while let Some(cpu) = left.pop() {
        offline.push(Setting::change(online(cpu), 0)?);
        expect_cpus(&atom, &left)?;
        expect_cpus(&core, &core.cpus)?;
        for pmu in [&atom.ours, &atom.in_tree, &core.ours] {
            expect_errno(pmu, cpu, libc::ENOENT)?;
        }
        for &cpu in core.cpus.iter().chain(&left) {
            let part = if left.contains(&cpu) { &atom } else { &core };
            expect_samples(&part.ours, cpu)?;
        }
    }
    for setting in offline {
        setting.restore()?;
    }
    expect_cpus(&atom, &atom.cpus)?;
    samples_on_each_cpu(ctx)
}

/// If the counters of the efficient cores cannot be used, the performance cores have their PMU
/// all the same. One line in the kernel log says which type has none. The in-tree driver does so,
/// too: its PMU of that type is on no CPU.
fn type_that_cannot_be_driven(ctx: &Ctx) -> Result<()> {
    let mut kinds = Kind::all(ctx).into_iter();
    let (Some(core), Some(atom)) = (kinds.next(), kinds.next()) else {
        bail!("one type of core");
    };
    for (kind, want) in [(&core, &core.cpus[..]), (&atom, &[])] {
        let in_tree = kind.in_tree()?;
        let cpus = listed(&in_tree, "cpus")?;
        ensure!(cpus == want, "{}: {cpus:?}", in_tree.name);
    }
    let mut log = ctx.module_log()?;
    module::insert(ctx)??;
    let result = (|| {
        let lines = log.lines()?;
        let mut about = lines.iter().filter(|line| line.contains("not registered"));
        let line = about.next().context("nothing in the kernel log")?;
        println!("# {line}");
        ensure!(line.contains(&atom.ours()), "{line}");
        ensure!(about.next().is_none(), "{lines:?}");
        ensure!(Pmu::find(&atom.ours()).is_err(), "there is {}", atom.ours());
        let ours = Pmu::find(&core.ours())?;
        for &cpu in &core.cpus {
            expect_samples(&ours, cpu)?;
        }
        for &cpu in &atom.cpus {
            expect_never_counts(&ours, cpu)?;
        }
        // What has been said is not said again, but for the in-tree driver, which tries again.
        let mut all = Kmsg::from_now()?;
        Setting::change(online(atom.cpus[0]), 0)?.restore()?;
        let lines = log.lines()?;
        ensure!(lines.is_empty(), "{lines:?}");
        let mut in_tree = all.records()?;
        in_tree.retain(|record| record.text.contains("PMU not available"));
        expect("in-tree", "messages", in_tree.len() as u64, 1)?;
        set_judged(&in_tree);
        expect_samples(&ours, core.cpus[0])
    })();
    module::remove()?;
    result
}

/// A type that no core has when the module is loaded has no PMU, and the kernel log says so when
/// such a core comes online. Nothing counts there.
fn type_that_was_offline_when_loaded(ctx: &Ctx) -> Result<()> {
    let [core, atom] = parts(ctx)?;
    module::remove()?;
    let offline = atom.cpus.iter().map(|cpu| Setting::change(online(*cpu), 0));
    let offline: Vec<_> = offline.collect::<Result<_>>()?;
    let mut log = ctx.module_log()?;
    module::insert(ctx)??;
    ensure!(
        Pmu::find(&atom.ours.name).is_err(),
        "there is {}",
        atom.ours.name
    );
    expect_samples(&Pmu::find(&core.ours.name)?, core.cpus[0])?;
    for setting in offline {
        setting.restore()?;
    }
    let lines = log.lines()?;
    ensure!(
        lines
            .iter()
            .any(|line| line.contains("load the module again")),
        "nothing in the kernel log: {lines:?}"
    );
    let ours = Pmu::find(&core.ours.name)?;
    let workload = workload::tight_loop(100_000);
    let affinity = Affinity::pinned_to(atom.cpus[0])?;
    let mut counter = ours.open(Event::Instructions, Mode::User)?;
    workload.measure(&counter)?;
    expect("without a PMU", "instructions", counter.read()?, 0)?;
    drop((counter, affinity));
    expect_never_counts(&ours, atom.cpus[0])?;

    module::remove()?;
    module::insert(ctx)??;
    cores_of_each_type(ctx)?;
    samples_on_each_cpu(ctx)
}
