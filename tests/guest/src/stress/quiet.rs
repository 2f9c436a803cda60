// SPDX-License-Identifier: GPL-2.0
//! What must be true when no worker runs.

use std::fs;
use std::mem;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{ensure, Context, Result};

use super::world::World;
use crate::ctx::Ctx;
use crate::kmsg::{bad_lines, Kmsg};
use crate::module;
use crate::pmu::Pmu;
use crate::probe::kernel_probes;
use crate::setting::Affinity;
use crate::tests::expect_exact;
use crate::tests::foreign_fault::REPORT as FOREIGN_WRITES;
use crate::workload;

/// How often to look whether the last event has gone, and how long to wait each time.
const LOOKS: u32 = 200;
const INTERVAL: Duration = Duration::from_millis(50);

/// What a quiet machine had at first.
pub struct Quiet {
    log: Kmsg,
    /// A second reader of the kernel log, for the module's own lines.
    module_log: Kmsg,
    probes: Vec<String>,
    /// References to the module. 0 unless some have been left, which a check has reported.
    references: u64,
}

impl Quiet {
    /// Looks at the machine. No event of the module may be open.
    pub fn new() -> Result<Self> {
        Ok(Self {
            log: Kmsg::from_now()?,
            module_log: Kmsg::from_now()?,
            probes: kernel_probes().unwrap_or_default(),
            references: 0,
        })
    }

    /// What must be true after each round. What is left is reported once.
    pub fn check(&mut self, world: &World) -> Result<()> {
        let online = world.bring_cpus_online();
        let bad = bad_lines(&mut self.log)?;
        ensure!(bad.is_empty(), "in the kernel log:\n{}", bad.join("\n"));
        let records = self.module_log.records()?;
        let foreign = records.iter().find(|it| it.text.contains(FOREIGN_WRITES));
        ensure!(foreign.is_none(), "the module says: {foreign:?}");
        online?;
        if world.is_module {
            let before = self.references;
            self.references = references_after(before)?;
            ensure!(
                self.references == before,
                "references to the module: {}, expected {before}",
                self.references
            );
        }
        let before = mem::replace(&mut self.probes, kernel_probes().unwrap_or_default());
        ensure!(
            self.probes == before,
            "probes: {:?}, expected {before:?}",
            self.probes
        );
        Ok(())
    }

    /// Checks that both drivers get the counters, and that they count right.
    pub fn check_counters(&mut self, world: &World) -> Result<()> {
        if !world.exact {
            return Ok(());
        }
        let code = workload::tight_loop(10_000);
        for pmu in world.core.iter().chain(&world.other) {
            for cpu in cpus_of(pmu, world)? {
                let _affinity = Affinity::pinned_to(cpu)?;
                expect_exact(pmu, &code)
                    .with_context(|| format!("{} on CPU {cpu}, with no other event", pmu.name))?;
            }
        }
        Ok(())
    }

    /// Unloads the module and loads it again.
    pub fn reload(&mut self, ctx: &Ctx, world: &mut World) -> Result<()> {
        if !world.is_module {
            return Ok(());
        }
        module::remove().context("rmmod")?;
        module::insert(ctx)?.context("insmod")?;
        world.find_events(ctx)
    }
}

/// Fails if the kernel can look for memory that nothing refers to (CONFIG_DEBUG_KMEMLEAK), and the
/// module has left some.
pub fn no_memory_is_left() -> Result<()> {
    const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";
    // It does not report what is younger than five seconds.
    const MIN_AGE: Duration = Duration::from_secs(6);
    if !Path::new(KMEMLEAK).exists() {
        return Ok(());
    }
    sleep(MIN_AGE);
    // What one scan misses, because it moved meanwhile, a second one finds again.
    for _ in 0..2 {
        fs::write(KMEMLEAK, "scan").context(KMEMLEAK)?;
    }
    let report = fs::read_to_string(KMEMLEAK).context(KMEMLEAK)?;
    let ours: Vec<_> = report
        .split("unreferenced object")
        .filter(|object| object.contains("rust_perf"))
        .collect();
    ensure!(ours.is_empty(), "memory is left:\n{}", ours.join("\n"));
    Ok(())
}

/// Waits until nothing refers to the module.
pub fn nothing_refers_to_the_module() -> Result<()> {
    let references = references_after(0)?;
    ensure!(references == 0, "references to the module: {references}");
    Ok(())
}

/// The references to the module, after some time in which they can become `expected`.
fn references_after(expected: u64) -> Result<u64> {
    let mut references = 0;
    for _ in 0..LOOKS {
        references = fs::read_to_string("/sys/module/rust_perf/refcnt")?
            .trim()
            .parse()?;
        if references == expected {
            break;
        }
        sleep(INTERVAL);
    }
    Ok(references)
}

/// The CPUs that a PMU counts on.
fn cpus_of(pmu: &Pmu, world: &World) -> Result<Vec<usize>> {
    let list = ["cpulist", "cpus"]
        .iter()
        .find_map(|file| fs::read_to_string(pmu.dir().join(file)).ok());
    let Some(list) = list.filter(|_| world.is_hybrid) else {
        return Ok(world.cpus.clone());
    };
    super::world::parse_cpus(&list)
}
