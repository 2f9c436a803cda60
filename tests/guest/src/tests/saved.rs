// SPDX-License-Identifier: GPL-2.0
//! The guest is saved while events count, and restored in another QEMU. Counts go on as if nothing
//! had been.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{bail, ensure, Context, Result};
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use perf_event::Builder;

use super::ref_cycles;
use super::sampling::{open, record};
use super::user_read::Page;
use super::{cpus, expect, kinds};
use crate::ctx::{Ctx, Test};
use crate::pmu::{read_all, Event, Mode};
use crate::setting::Affinity;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [ExactCounts, ZeroSkid, General(2)];
    counts_of_every_cpu,
    samples,
    running_counter,
];

/// Events that QEMU counts in another way.
pub const KINDS: &[Test] = tests![
    all need [ExactCounts];
    loads_stores_and_branches,
];

/// Events that count time.
pub const REF_CYCLES: &[Test] = tests![
    all need [EmulatedPmu, Icount];
    cycles_of_the_tsc,
];

/// How often the guest is saved in a test.
const TIMES: usize = 3;

/// The port by which xtask is asked to save the guest.
struct Host(File);

impl Host {
    fn connect() -> Result<Self> {
        const PORTS: &str = "/sys/class/virtio-ports";
        for port in fs::read_dir(PORTS).context(PORTS)? {
            let port = port?;
            if fs::read_to_string(port.path().join("name"))?.trim() == "save" {
                let device = Path::new("/dev").join(port.file_name());
                let file = File::options().read(true).write(true).open(&device)?;
                fcntl(file.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
                return Ok(Self(file));
            }
        }
        bail!("there is no port by which to have the guest saved")
    }

    /// Whether the guest has been restored since the last call.
    fn has_restored(&mut self) -> Result<bool> {
        match self.0.read(&mut [0]) {
            Ok(1) => Ok(true),
            Ok(_) => bail!("the host does not save the guest"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Has the guest saved and restored, while `round` is done again and again. Returns how often
    /// it was done.
    fn save_during(&mut self, mut round: impl FnMut() -> Result<()>) -> Result<u64> {
        let mut rounds = 0;
        for _ in 0..TIMES {
            self.0.write_all(b"s")?;
            let mut result = Ok(());
            // Until it is restored, also after an error: the next test is to have its own.
            while !self.has_restored()? {
                if result.is_ok() {
                    result = round();
                    rounds += 1;
                }
            }
            result?;
        }
        // Now in the QEMU that has restored it.
        round()?;
        Ok(rounds + 1)
    }
}

/// Each CPU counts its own program, without a pause between its rounds.
fn counts_of_every_cpu(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let is_over = AtomicBool::new(false);
    let count_on = |cpu| -> Result<()> {
        let _affinity = Affinity::pinned_to(cpu)?;
        let workload = workload::whole_periods(250);
        let events = [Event::Instructions, Event::Branches];
        let mut group = pmu.open_group(&events.map(|event| (event, Mode::User)))?;
        let mut rounds = 0;
        while !is_over.load(Ordering::Acquire) {
            workload.measure(&group[0])?;
            rounds += 1;
        }
        let counts = read_all(&mut group)?;
        let want = [workload.instructions(), workload.branches()];
        for ((event, count), want) in events.iter().zip(counts).zip(want) {
            let what = format!("CPU {cpu}, {rounds} rounds");
            expect(&what, event.name(), count, rounds * want)?;
        }
        Ok(())
    };
    let cpus = cpus()?;
    let _affinity = Affinity::pinned_to(0)?;
    thread::scope(|scope| {
        let others: Vec<_> = (1..cpus)
            .map(|cpu| scope.spawn(move || count_on(cpu)))
            .collect();
        let own = workload::tight_loop(1_000_000);
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        let saved = Host::connect().and_then(|mut host| host.save_during(|| own.measure(&event)));
        is_over.store(true, Ordering::Release);
        for other in others {
            match other.join() {
                Ok(result) => result?,
                Err(_) => bail!("a thread panicked"),
            }
        }
        let want = saved? * own.instructions();
        expect(own.name(), "instructions", event.read()?, want)
    })
}

/// Every period has its sample, and each sample is in its place.
fn samples(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    expect_samples(&mut pmu.event(Event::Instructions))
}

/// A user instruction takes a cycle of the TSC, and no cycle passes while the guest is saved.
fn cycles_of_the_tsc(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    expect_samples(&mut pmu.raw(ref_cycles::config(&pmu)))
}

/// Samples an event that counts user instructions. Periods that are not complete in a round go on
/// in the next one.
fn expect_samples(builder: &mut Builder) -> Result<()> {
    const N: u64 = 100_000;
    const PERIOD: u64 = 1_009;
    let workload = workload::block(N);
    let per_round = workload.instructions();
    let mut sampler = open(builder.sample_period(PERIOD))?;
    let (mut due, mut before) = (0, 0);
    Host::connect()?.save_during(|| {
        let (records, count) = record(&mut sampler, &workload)?;
        due += per_round;
        expect(workload.name(), "events", count, due)?;
        records.expect("period 1009", due / PERIOD - before / PERIOD)?;
        for (sample, k) in records.samples.iter().zip(before / PERIOD + 1..) {
            // The window around the loop has no known addresses.
            if let Some(want) = workload::block_ip(N, k * PERIOD - before) {
                ensure!(
                    sample.ip == want,
                    "sample {k}: IP {:#x}, expected {want:#x}",
                    sample.ip
                );
            }
        }
        before = due;
        Ok(())
    })?;
    Ok(())
}

/// A counter that nobody stops, as a program reads it by RDPMC.
fn running_counter(ctx: &Ctx) -> Result<()> {
    let workload = workload::tight_loop(1_000_000);
    let mut event = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    let page = Page::map(&event)?;
    event.enable()?;
    Host::connect()?.save_during(|| {
        let index = page.index()?;
        let (delta, want) = workload.rdpmc_delta(index);
        ensure!(page.index()? == index, "the event moved to another counter");
        expect(workload.name(), "instructions", delta, want)
    })?;
    event.disable()?;
    expect(
        "the page",
        "instructions",
        page.count() as u64,
        event.read()?,
    )
}

/// Each event of loads, stores and branches counts exactly while the guest is saved and restored.
fn loads_stores_and_branches(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let mut host = Host::connect()?;
    let (code, of_round) = workload::kinds(100_000)?;
    for (config, of) in kinds::events()? {
        let mut counter = pmu.raw(*config).build()?;
        let rounds = host.save_during(|| code.measure(&counter))?;
        let what = format!("{config:#06x}, {rounds} rounds");
        expect(&what, "events", counter.read()?, rounds * of(&of_round))?;
    }
    Ok(())
}
