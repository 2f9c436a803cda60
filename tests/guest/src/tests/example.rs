// SPDX-License-Identifier: GPL-2.0
//! The example of docs/write-a-pmu.md, built as a module of its own and loaded beside
//! rust_perf.

use std::env;
use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::unistd::{gettid, Pid};
use perf_event::events::Software;
use perf_event::{Builder, Counter};

use super::{expect, expect_exact, switches};
use crate::ctx::{Ctx, Test};
use crate::module;
use crate::pmu::Pmu;
use crate::tests;
use crate::tool::Perf;
use crate::waiting;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Root, Module];
    counts_switches,
    counts_nothing_while_disabled,
    another_thread,
    perf_stat: [PerfTool],
    refused_attributes,
    beside_rust_pmu: [ExactCounts],
    in_use,
    hundred_times,
];

const NAME: &str = "switch_pmu";
const MODULE: &CStr = c"switch_pmu";

fn file() -> Result<PathBuf> {
    env::var_os("RUST_PERF_EXAMPLE_KO")
        .map(PathBuf::from)
        .context("RUST_PERF_EXAMPLE_KO is not set")
}

/// Runs `f` beside the loaded example, and unloads that whatever `f` returns.
fn with_example(f: impl FnOnce(&Pmu) -> Result<()>) -> Result<()> {
    module::insert_file(&file()?)?.context("insmod")?;
    let result = Pmu::find(NAME).and_then(|pmu| f(&pmu));
    module::remove_named(MODULE).context("rmmod")?;
    ensure!(Pmu::find(NAME).is_err(), "the PMU is still in sysfs");
    result
}

/// The PMU excludes nothing, and perf-event2 excludes the kernel by default.
fn raw(pmu: &Pmu, config: u64) -> Builder<'static> {
    let mut builder = pmu.raw(config);
    builder.exclude_kernel(false);
    builder
}

/// An event of the calling thread, disabled.
fn open(pmu: &Pmu) -> Result<Counter> {
    raw(pmu, 0).build().context("open")
}

/// Gives the CPU away at least `n` times. Returns how often it was.
fn switch(n: i64) -> Result<i64> {
    let before = switches()?;
    loop {
        let done = switches()? - before;
        if done >= n {
            return Ok(done);
        }
        thread::sleep(Duration::from_micros(10));
    }
}

/// perf adds the event when it is enabled, and each time the thread is switched to again:
/// as often as the thread was switched from, and once.
fn counts_switches(_: &Ctx) -> Result<()> {
    with_example(|pmu| {
        for times in [0, 1, 10, 500] {
            let mut leader = Builder::new(Software::CONTEXT_SWITCHES)
                .include_kernel()
                .build()?;
            let mut event = raw(pmu, 0).enabled(true).build_with_group(&mut leader)?;
            let before = switches()?;
            leader.enable_group()?;
            let least = switch(times)?;
            leader.disable_group()?;
            let most = switches()? - before;
            let away = leader.read()?;
            expect("thread", "switches", event.read()?, away + 1)?;
            ensure!(
                (least as u64..=most as u64).contains(&away),
                "{away} switches counted, {least} to {most} by getrusage()"
            );
        }
        Ok(())
    })
}

/// The example's event does not count before it is enabled, nor after it is disabled.
fn counts_nothing_while_disabled(_: &Ctx) -> Result<()> {
    with_example(|pmu| {
        let mut event = open(pmu)?;
        switch(10)?;
        expect("before it is enabled", "switches", event.read()?, 0)?;
        event.enable()?;
        event.disable()?;
        let count = event.read()?;
        switch(10)?;
        expect("after it is disabled", "switches", event.read()?, count)
    })
}

/// How often a thread was switched from, by /proc.
fn switches_of(thread: Pid) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let value = line.with_context(|| format!("no {name} in {status}"))?;
        Ok(value.trim().parse()?)
    };
    Ok(field("voluntary_ctxt_switches:")? + field("nonvoluntary_ctxt_switches:")?)
}

/// Waits until a thread that has been woken sleeps again. Returns how often it was switched from until then.
///
/// Once the sender has let go of the channel, nothing but an empty channel makes the receiver sleep, and it
/// sleeps until the next message.
fn switches_until_asleep(thread: Pid) -> Result<u64> {
    waiting::asleep(thread)?;
    switches_of(thread)
}

/// A thread that sleeps whenever its event is enabled and read: it is switched to as often
/// as it is switched from.
fn another_thread(_: &Ctx) -> Result<()> {
    const TIMES: u64 = 100;
    with_example(|pmu| {
        let (tell, told) = mpsc::channel::<()>();
        let (introduce, introduced) = mpsc::channel();
        let child = thread::spawn(move || {
            let _ = introduce.send(gettid());
            while waiting::receive(&told, "another message, or none").is_ok() {}
        });
        let thread = waiting::receive(&introduced, "the ID of a thread")?;
        let mut all = switches_until_asleep(thread)?;
        let result = (|| {
            let mut leader = Builder::new(Software::CONTEXT_SWITCHES)
                .include_kernel()
                .observe_pid(thread.as_raw())
                .build()?;
            let mut event = raw(pmu, 0)
                .observe_pid(thread.as_raw())
                .enabled(true)
                .build_with_group(&mut leader)?;
            leader.enable_group()?;
            let first = all;
            for _ in 0..TIMES {
                tell.send(())?;
                all = switches_until_asleep(thread)?;
            }
            leader.disable_group()?;
            let count = event.read()?;
            expect("thread", "switches", count, leader.read()?).context("as in-tree")?;
            expect("thread", "switches", count, all - first).context("as in /proc")?;
            ensure!(count >= TIMES, "{count} switches, woken {TIMES} times");
            Ok(())
        })();
        drop(tell);
        child
            .join()
            .map_err(|_| anyhow::anyhow!("the thread panicked"))?;
        result
    })
}

/// `perf stat` counts one switch more by the example than perf counts context switches.
fn perf_stat(_: &Ctx) -> Result<()> {
    with_example(|_| {
        let mut rows = Perf::stat()
            .args([
                "-e",
                "{switch_pmu/switches/,context-switches}",
                "sleep",
                "0.1",
            ])
            .rows()?;
        let mut value = |event: &str| -> Result<f64> {
            let place = rows.iter().position(|row| row.event.starts_with(event));
            let place = place.with_context(|| format!("no {event} in {rows:?}"))?;
            Ok(rows.swap_remove(place).value)
        };
        let count = value("switch_pmu/switches/")? as u64;
        let away = value("context-switches")? as u64;
        // The last switch is that of the exit, from which the program does not return. It is
        // not counted: perf has taken the events off by then.
        expect("sleep", "switches", count, away + 1)
    })
}

/// The example refuses other values of `config` and `exclude_kernel` with EINVAL, and sampling with
/// EOPNOTSUPP.
fn refused_attributes(_: &Ctx) -> Result<()> {
    with_example(|pmu| {
        let errno =
            |result: std::io::Result<Counter>| result.err().and_then(|error| error.raw_os_error());
        for config in [1, 2, 1 << 32, u64::MAX] {
            let error = errno(raw(pmu, config).build());
            ensure!(
                error == Some(Errno::EINVAL as i32),
                "config {config:#x}: {error:?}, expected EINVAL"
            );
        }
        let error = errno(raw(pmu, 0).exclude_kernel(true).build());
        ensure!(
            error == Some(Errno::EINVAL as i32),
            "exclude_kernel: {error:?}, expected EINVAL"
        );
        let error = errno(raw(pmu, 0).sample_period(1).build());
        ensure!(
            error == Some(Errno::EOPNOTSUPP as i32),
            "sampling: {error:?}, expected EOPNOTSUPP"
        );
        Ok(())
    })
}

/// Two modules have the same code of perf/ and bindings/, each its own.
fn beside_rust_pmu(ctx: &Ctx) -> Result<()> {
    with_example(|pmu| {
        let mut event = open(pmu)?;
        event.enable()?;
        expect_exact(&ctx.pmu()?, &workload::tight_loop(100_000))?;
        module::remove().context("rmmod rust_perf")?;
        let mut other = open(pmu)?;
        other.enable()?;
        other.disable()?;
        module::insert(ctx)?.context("insmod rust_perf")?;
        event.disable()?;
        expect_exact(&ctx.pmu()?, &workload::tight_loop(100_000))
    })
}

/// The example's module cannot be unloaded while an event is open, nor loaded twice.
fn in_use(_: &Ctx) -> Result<()> {
    with_example(|pmu| {
        let mut event = open(pmu)?;
        event.enable()?;
        let refused = module::remove_named(MODULE);
        ensure!(
            matches!(refused, Err(Errno::EAGAIN | Errno::EBUSY)),
            "rmmod with an open event: {refused:?}"
        );
        let again = module::insert_file(&file()?)?;
        ensure!(again == Err(Errno::EEXIST), "insmod again: {again:?}");
        Ok(())
    })
}

/// The example's module can be loaded, used and unloaded a hundred times.
fn hundred_times(_: &Ctx) -> Result<()> {
    for _ in 0..100 {
        with_example(|pmu| {
            let mut event = open(pmu)?;
            event.enable()?;
            event.disable()?;
            ensure!(event.read()? > 0, "the event was not put on the CPU");
            Ok(())
        })?;
    }
    Ok(())
}
