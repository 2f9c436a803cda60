// SPDX-License-Identifier: GPL-2.0
//! What must be true when no worker runs.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};

use super::world::World;
use crate::ctx::Ctx;
use crate::kmsg::{bad_lines, Kmsg};
use crate::module;
use crate::pmu::Pmu;
use crate::probe::kernel_probes;
use crate::setting::Affinity;
use crate::tests::expect_exact;
use crate::workload;

/// How often to look whether the last event has gone, and how long to wait each time.
const LOOKS: u32 = 200;
const INTERVAL: Duration = Duration::from_millis(50);

/// What a quiet machine had at first.
pub struct Quiet {
    log: Kmsg,
    probes: Vec<String>,
}

impl Quiet {
    /// Looks at the machine. No event of the module may be open.
    pub fn new() -> Result<Self> {
        Ok(Self {
            log: Kmsg::from_now()?,
            probes: kernel_probes().unwrap_or_default(),
        })
    }

    /// What must be true after each round.
    pub fn check(&mut self, world: &World) -> Result<()> {
        let online = world.bring_cpus_online();
        let bad = bad_lines(&mut self.log)?;
        ensure!(bad.is_empty(), "in the kernel log:\n{}", bad.join("\n"));
        online?;
        if world.is_module {
            nothing_refers_to_the_module()?;
        }
        let probes = kernel_probes().unwrap_or_default();
        ensure!(probes == self.probes, "probes are left: {probes:?}");
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
    let mut references = String::new();
    for _ in 0..LOOKS {
        references = fs::read_to_string("/sys/module/rust_perf/refcnt")?;
        if references.trim() == "0" {
            return Ok(());
        }
        sleep(INTERVAL);
    }
    bail!("references to the module are left: {}", references.trim())
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
