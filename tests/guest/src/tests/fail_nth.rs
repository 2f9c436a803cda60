// SPDX-License-Identifier: GPL-2.0
//! Allocations of a call fail, one in each attempt. The kernel must be built with fault injection, as that of
//! `KERNEL=debug` is: Documentation/fault-injection/fault-injection.rst.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use fastrand::Rng;
use nix::errno::Errno;
use perf_event::{Builder, Counter};

use super::probes::leaks::references;
use super::sampling::RING;
use super::{expect, expect_exact};
use crate::ctx::{skip, Ctx, Test};
use crate::kmsg::{self, Kmsg};
use crate::module;
use crate::pmu::{Event, Pmu};
use crate::probe::{c_path, place_of, Probe, Side};
use crate::setting::Setting;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module, ExactCounts];
    each_allocation_of_an_open: [TracePoints],
    each_allocation_of_a_ring_buffer,
    allocations_of_insmod,
];

/// What came of loading the module.
type Loaded = Result<(), Errno>;

/// What makes allocations fail.
struct FailNth {
    file: File,
    _settings: [Setting; 2],
}

impl FailNth {
    fn new() -> Result<Self> {
        const FAILSLAB: &str = "/sys/kernel/debug/failslab";
        if !Path::new(FAILSLAB).exists() {
            return skip("the kernel is built without CONFIG_FAILSLAB");
        }
        let file = File::options()
            .read(true)
            .write(true)
            .open("/proc/thread-self/fail-nth")
            .context("fail-nth")?;
        Ok(Self {
            file,
            _settings: [
                // Those that may wait fail as well.
                Setting::change(format!("{FAILSLAB}/ignore-gfp-wait"), "N")?,
                // No stack in the kernel log for each.
                Setting::change(format!("{FAILSLAB}/verbose"), 0)?,
            ],
        })
    }

    /// Makes a call whose allocation of number `n`, from 1 on, fails. `None` if there are fewer.
    fn call<T>(&self, n: usize, call: impl FnOnce() -> T) -> Result<Option<T>> {
        let (result, left) = self.left_of(n, call)?;
        Ok((left == 0).then_some(result))
    }

    /// Makes a call whose allocation of number `n` fails. Returns also how many it lacks of `n`.
    fn left_of<T>(&self, n: usize, call: impl FnOnce() -> T) -> Result<(T, usize)> {
        let mut left = [0; 16];
        self.file.write_all_at(n.to_string().as_bytes(), 0)?;
        let result = call();
        let length = self.file.read_at(&mut left, 0)?;
        self.file.write_all_at(b"0", 0)?;
        let left = std::str::from_utf8(&left[..length])?.trim();
        Ok((result, left.parse()?))
    }

    /// Makes a call again and again, so that each of its allocations fails once. `check` gets the
    /// results. Returns how many failed.
    fn each<T>(
        &self,
        mut call: impl FnMut() -> T,
        mut check: impl FnMut(usize, T) -> Result<()>,
    ) -> Result<usize> {
        // The kernel keeps some of what the first call allocates.
        drop(call());
        for n in 1.. {
            match self.call(n, &mut call)? {
                Some(result) => check(n, result)?,
                None => return Ok(n - 1),
            }
        }
        bail!("the allocations do not end")
    }
}

/// A call failed for want of memory, or did without what it could not allocate.
fn expect_no_memory<T>(what: &str, n: usize, result: io::Result<T>) -> Result<()> {
    let Err(error) = result else { return Ok(()) };
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
    ensure!(
        errno == Errno::ENOMEM,
        "{what}, allocation {n} failed: {errno}"
    );
    Ok(())
}

/// An event of each kind that the module has.
fn events(ctx: &Ctx) -> Result<Vec<(&'static str, Builder<'static>)>> {
    let pmu = ctx.pmu()?;
    let clock = Pmu::find("rust_clock")?;
    let trace = Pmu::find("rust_trace")?;
    let switch = fs::read_to_string(trace.event_file("sched_switch"))?;
    let (file, offset) = place_of(workload::tight_loop_head())?;
    let uprobe = Probe::path(Box::leak(Box::new(c_path(&file)?)), offset);
    let kprobe = Probe::symbol(c"do_sys_openat2", 0);
    let mut sampled = pmu.event(Event::Branches);
    sampled.sample_period(10_000);
    Ok(vec![
        ("rust_pmu", pmu.event(Event::Instructions)),
        ("rust_pmu, sampled", sampled),
        ("rust_clock", clock.raw(clock.encode("task-clock")?)),
        ("rust_trace", trace.raw(trace.encode(switch.trim_end())?)),
        ("kprobe", kprobe.event(Side::Ours)?),
        ("uprobe", uprobe.event(Side::Ours)?),
    ])
}

/// Opening an event whose allocations fail leaves nothing, and the next event counts.
fn each_allocation_of_an_open(ctx: &Ctx) -> Result<()> {
    let fail = FailNth::new()?;
    for (what, event) in events(ctx)? {
        let failed = fail.each(
            || event.build(),
            |n, result| expect_no_memory(what, n, result),
        )?;
        println!("# {what}: {failed} allocations");
        // perf itself allocates the event, its context and a file.
        ensure!(failed >= 3, "{what}: {failed} allocations");
        expect(what, "references", references()?, 0)?;
    }
    expect_exact(&ctx.pmu()?, &workload::tight_loop(100_000))
}

/// Mapping a ring buffer whose allocations fail leaves nothing, and the next event counts.
fn each_allocation_of_a_ring_buffer(ctx: &Ctx) -> Result<()> {
    let fail = FailNth::new()?;
    for (what, mut event) in events(ctx)? {
        event.sample_period(1_000);
        let open = || -> Result<Counter> { Ok(event.build()?) };
        let mut failed = 0;
        for n in 1.. {
            let counter = open()?;
            match fail.call(n, || counter.sampled(RING))? {
                Some(result) => {
                    expect_no_memory(what, n, result.map(drop))?;
                    failed += 1;
                }
                None => break,
            }
        }
        println!("# {what}: {failed} allocations");
        ensure!(failed >= 1, "{what}: no allocation");
        expect(what, "references", references()?, 0)?;
    }
    expect_exact(&ctx.pmu()?, &workload::tight_loop(100_000))
}

/// How many allocations the kernel makes when it loads the module with these parameters, and what
/// came of it.
fn allocations(ctx: &Ctx, fail: &FailNth, parameters: &CStr) -> Result<(usize, Loaded)> {
    const MANY: usize = 1 << 20;
    let insert = || module::insert_with(ctx, parameters);
    let (result, left) = fail.left_of(MANY, insert)?;
    Ok((MANY - left, result?))
}

/// If the allocation is one for a PMU's device, the kernel says that it cannot add that.
fn judge_failures(log: &mut Kmsg) -> Result<()> {
    let mut records = log.records()?;
    records.retain(|record| {
        let says = |words| record.text.contains(words);
        says("kobject_add_internal failed for rust_") && says("(error: -12 ")
    });
    kmsg::set_judged(&records);
    Ok(())
}

/// A module whose allocations fail is not loaded, or does without, and can be loaded afterwards.
/// Some of its allocations fail, one in each attempt; with another seed, others.
fn allocations_of_insmod(ctx: &Ctx) -> Result<()> {
    const ATTEMPTS: usize = 60;
    let fail = FailNth::new()?;
    module::remove()?;
    // The module refuses the parameter at once: all of these are the kernel's own.
    let (before, result) = allocations(ctx, &fail, c"named_events=2")?;
    ensure!(
        result == Err(Errno::EINVAL),
        "with a bad parameter: {result:?}"
    );
    let (all, result) = allocations(ctx, &fail, c"")?;
    result.context("insmod")?;
    module::remove()?;
    let own = all - before;
    println!("# {own} allocations, behind {before} of the kernel");
    ensure!(own >= ATTEMPTS, "only {own} allocations");
    let mut rng = Rng::with_seed(ctx.seed);
    let mut refused = 0;
    let mut log = Kmsg::from_now()?;
    let result = (0..ATTEMPTS).try_for_each(|attempt| {
        let part = own * attempt / ATTEMPTS..own * (attempt + 1) / ATTEMPTS;
        let n = before + 1 + rng.usize(part);
        let result = fail.call(n, || module::insert(ctx))?;
        match result.with_context(|| format!("no allocation {n}"))?? {
            Ok(()) => module::remove().with_context(|| format!("rmmod, after {n} failed"))?,
            Err(errno) => {
                ensure!(errno == Errno::ENOMEM, "allocation {n} failed: {errno}");
                ensure!(!module::is_loaded(), "allocation {n} failed: loaded");
                refused += 1;
            }
        }
        Ok(())
    });
    if !module::is_loaded() {
        module::insert(ctx)??;
    }
    judge_failures(&mut log)?;
    result?;
    println!("# {refused} of {ATTEMPTS} were needed");
    ensure!(refused >= ATTEMPTS / 4, "only {refused} were needed");
    expect_exact(&ctx.pmu()?, &workload::tight_loop(100_000))
}
