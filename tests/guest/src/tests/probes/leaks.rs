// SPDX-License-Identifier: GPL-2.0
//! What is left when events are closed: nothing.

use std::fs;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use nix::mount::{mount, umount, MsFlags};

use super::{first_byte, own_calls, own_place, probed, system_calls, SYSTEM_CALL};
use crate::ctx::Ctx;
use crate::probe::{c_path, kernel_probes, Probe, Side};
use crate::program::PROBED;
use crate::setting::Setting;
use crate::waiting::Waiting;

/// Closing an event waits for RCU, and many threads can do that together.
const THREADS: u64 = 40;
/// How often each thread opens and closes an event of each of five probes.
const ROUNDS: u64 = 20;
/// All cycles: 4,000.
const CYCLES: u64 = THREADS * ROUNDS * 5;

/// What the kernel has allocated: objects of slabs, if it tells (CONFIG_SLUB_DEBUG), and bytes of data
/// of each CPU.
fn allocated() -> Result<(u64, u64)> {
    let slabs = match fs::read_to_string("/proc/slabinfo") {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        slabs => slabs.context("/proc/slabinfo")?,
    };
    let objects = slabs
        .lines()
        .filter(|line| {
            ["kmalloc-", "perf_event", "mnt_", "task_"]
                .iter()
                .any(|name| line.starts_with(name))
        })
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    let percpu = fs::read_to_string("/proc/meminfo")?
        .lines()
        .find_map(|line| {
            line.strip_prefix("Percpu:")?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        })
        .context("no Percpu in /proc/meminfo")?;
    Ok((objects, percpu * 1024))
}

/// The references to the module.
pub(in crate::tests) fn references() -> Result<u64> {
    Ok(fs::read_to_string("/sys/module/rust_perf/refcnt")?
        .trim()
        .parse()?)
}

/// Opens and closes events while what they probe is called all the time.
fn open_and_close(probes: &[Probe]) -> Result<()> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                system_calls(100);
                own_calls(100);
            }
        });
        let cycle = || -> Result<()> {
            for _ in 0..ROUNDS {
                for probe in probes {
                    drop(probe.event(Side::Ours)?.enabled(true).build()?);
                }
            }
            Ok(())
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(cycle)).collect();
        let results: Vec<Result<()>> = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        done.store(true, Relaxed);
        results.into_iter().collect()
    })
}

/// After 4,000 cycles there is no probe, breakpoint, reference or memory left.
pub(super) fn opened_and_closed(_: &Ctx) -> Result<()> {
    let _expedited = Setting::change("/sys/kernel/rcu_expedited", 1)?;
    let dir = tempfile::tempdir()?;
    let none: Option<&str> = None;
    mount(none, dir.path(), Some("tmpfs"), MsFlags::empty(), none)?;
    let program = PROBED.install()?;
    let elsewhere = dir.path().join("program");
    fs::copy(program.path(), &elsewhere)?;
    let elsewhere = c_path(&elsewhere)?;
    let (path, offset) = own_place(probed())?;
    let kernel = Probe::symbol(SYSTEM_CALL, 0);
    let own = Probe::path(&path, offset);
    let probes = [
        kernel,
        kernel.of_return(),
        own,
        own.of_return(),
        Probe::path(&elsewhere, program.offset_behind(b"probed: ")?),
    ];
    // What is allocated once and kept.
    for probe in &probes {
        drop(probe.event(Side::Ours)?.build()?);
    }
    let (list, byte, modules) = (kernel_probes()?, first_byte(), references()?);
    ensure_no_growth(|| open_and_close(&probes))?;

    ensure!(
        kernel_probes()? == list,
        "probes are left: {:?}",
        kernel_probes()?
    );
    ensure!(
        first_byte() == byte,
        "a breakpoint is left: {:#x}",
        first_byte()
    );
    ensure!(
        references()? == modules,
        "references to the module: {}",
        references()?
    );
    umount(dir.path()).context("a reference to a file is left")
}

/// Runs cycles up to three times, and fails if memory grows each time.
///
/// What waits for a grace period while they run depends on how busy the host is. A peak can leave a page of
/// per-CPU memory that the kernel keeps. Another run does not take more then, but a leak grows again.
fn ensure_no_growth(cycles: impl Fn() -> Result<()>) -> Result<()> {
    let mut growth = Vec::new();
    for _ in 0..3 {
        let before = allocated()?;
        let _waiting = Waiting::for_("a run of cycles");
        cycles()?;
        // Memory is freed after a grace period. One object a cycle, or a word a CPU, would be
        // more than this.
        for _ in 0..100 {
            let after = allocated()?;
            if after.0 < before.0 + CYCLES / 2 && after.1 < before.1 + 8 * CYCLES {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
        }
        growth.push((before, allocated()?));
    }
    bail!("objects and bytes before and after {CYCLES} cycles, each time: {growth:?}")
}
