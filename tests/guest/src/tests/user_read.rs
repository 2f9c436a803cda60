// SPDX-License-Identifier: GPL-2.0
//! Reading counters in user mode: the mapped page, RDPMC, and which tasks may use
//! it.

mod pages;

use pages::{mapping_interrupts_no_other_cpu, pages_are_as_in_tree};

use std::arch::asm;
use std::collections::BTreeSet;
use std::fs::File;
use std::hint::spin_loop;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::{self, Command};
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicBool, Ordering::SeqCst};
use std::thread;

use anyhow::{bail, ensure, Context, Result};
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use nix::sys::signal::{kill, signal, SigHandler, Signal};
use nix::sys::wait::WaitStatus;
use nix::unistd::{fork, gettid, pipe, ForkResult, Pid};
use perf_event::Counter;
use perf_event_open_sys::bindings::perf_event_mmap_page;
use pmc::period::sign_extend;

use super::{expect, switches};
use crate::ctx::{Ctx, Test, IN_TREE};
use crate::pmu::{cpuid, CpuPmu, Event, Mode, Pmu};
use crate::program::RDPMC_PROBE;
use crate::setting::{pin, Setting};
use crate::tests;
use crate::waiting::{self, Waiting};
use crate::workload;

/// The needs `InTree`: the kernel takes the width of the counters from the in-tree driver.
/// Without the width, pages do not allow RDPMC.
pub const TESTS: &[Test] = tests![
    all need [Counters];
    rdpmc_is_exact: [InTree, ExactCounts],
    page_is_as_in_tree,
    pages_are_as_in_tree: [Root, InTree, Cpus(2)],
    mapping_interrupts_no_other_cpu: [Guest("counts all interrupts of a CPU"), InTree, Cpus(2)],
    no_index_while_stopped: [InTree, ExactCounts],
    across_overflows: [InTree, ExactCounts],
    rdpmc_in_every_thread: [InTree, Cpus(2)],
    no_rdpmc_without_mapping: [InTree],
    no_rdpmc_after_munmap: [InTree],
    dirty_counters_are_cleared: [InTree],
    dirty_counters_are_cleared_for_children: [InTree],
    dirty_counters_are_cleared_for_threads: [InTree],
    dirty_counters_of_in_tree_driver: [InTreeCounts, ExactCounts],
    closing_keeps_the_counts_of_others: [InTree, ExactCounts, General(4)],
    follows_rdpmc_setting: [Root, InTree, ExactCounts],
];

/// For a CPU with RDPMC_USER_DISABLE.
pub const HIDDEN: &[Test] = tests![
    all need [Root, InTree, EmulatedPmu];
    events_of_a_cpu_are_hidden,
];

/// The mapped control page of an event.
pub struct Page(NonNull<perf_event_mmap_page>);

/// A consistent copy of a page's fields.
struct Snapshot {
    /// The counter's RDPMC index.
    index: Option<u32>,
    offset: i64,
    width: u16,
    may_rdpmc: bool,
    may_time: bool,
    lock: u32,
}

impl Page {
    pub fn map(event: &Counter) -> Result<Self> {
        let length = NonZeroUsize::new(4096).expect("not 0");
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: `event` keeps the descriptor open while it is borrowed.
        let fd = unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) };
        // SAFETY: the kernel chooses the address, so that no existing mapping is replaced.
        let page = unsafe { mmap(None, length, prot, MapFlags::MAP_SHARED, fd, 0) };
        Ok(Self(page.context("mmap")?.cast()))
    }

    /// Reads the page. The kernel changes it in interrupts of this CPU, or on another one, and
    /// increases `lock` before and after that.
    fn snapshot(&self) -> Snapshot {
        let page = self.0.as_ptr();
        loop {
            // SAFETY: the page is mapped as long as `self` lives. All fields are integers,
            // so that whatever the kernel writes is a valid value.
            let (snapshot, lock) = unsafe {
                let lock = (&raw const (*page).lock).read_volatile();
                fence(SeqCst);
                let flags = (&raw const (*page).__bindgen_anon_1.__bindgen_anon_1).read_volatile();
                let snapshot = Snapshot {
                    index: (&raw const (*page).index).read_volatile().checked_sub(1),
                    offset: (&raw const (*page).offset).read_volatile(),
                    width: (&raw const (*page).pmc_width).read_volatile(),
                    may_rdpmc: flags.cap_user_rdpmc() != 0,
                    may_time: flags.cap_user_time() != 0,
                    lock,
                };
                fence(SeqCst);
                (snapshot, (&raw const (*page).lock).read_volatile())
            };
            if lock == snapshot.lock && lock % 2 == 0 {
                return snapshot;
            }
        }
    }

    /// The count, computed as perf_event_open(2) describes.
    pub fn count(&self) -> i64 {
        loop {
            let before = self.snapshot();
            let mut count = before.offset;
            if let Some(index) = before.index {
                // SAFETY: a page has an index only while the kernel allows RDPMC of it.
                let value = unsafe { rdpmc(index) };
                count += sign_extend(value, before.width as u8);
            }
            if self.snapshot().lock == before.lock {
                return count;
            }
        }
    }

    /// `offset` and `lock`, if the page has an RDPMC index.
    pub fn offset_with_index(&self) -> Option<(i64, u32)> {
        let page = self.snapshot();
        page.index.map(|_| (page.offset, page.lock))
    }

    /// The width of the counters in bits.
    pub fn width(&self) -> u16 {
        self.snapshot().width
    }

    /// The RDPMC index. It is an error if the page has none.
    pub fn index(&self) -> Result<u32> {
        let page = self.snapshot();
        ensure!(page.may_rdpmc, "the page does not allow RDPMC");
        page.index.context("the page has no RDPMC index")
    }
}

/// What an event's page says of reading time and counters, and what does not change: for
/// comparing PMUs.
#[derive(Debug, PartialEq)]
pub(super) struct Constants {
    capabilities: u64,
    index: u32,
    width: u16,
    time_shift: u16,
    time_mult: u32,
    time_zero: u64,
    size: u32,
}

impl Constants {
    /// Maps the page of an event for a moment.
    pub fn of(event: &Counter) -> Result<Self> {
        let page = Page::map(event)?;
        // SAFETY: the page is mapped as long as `page` lives, and its fields are integers.
        // Those that are used do not change while the event is enabled.
        let copy = unsafe { page.0.as_ptr().read_volatile() };
        Ok(Self {
            // SAFETY: both variants of the union are integers.
            capabilities: unsafe { copy.__bindgen_anon_1.capabilities },
            index: copy.index,
            width: copy.pmc_width,
            time_shift: copy.time_shift,
            time_mult: copy.time_mult,
            time_zero: copy.time_zero,
            size: copy.size,
        })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: `map` mapped this page of 4096 bytes, and only `self` refers to it.
        let _ = unsafe { munmap(self.0.cast(), 4096) };
    }
}

/// Reads a counter.
///
/// # Safety
///
/// CR4.PCE must be set and the counter must exist, or the process gets SIGSEGV.
pub(super) unsafe fn rdpmc(index: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: RDPMC changes EAX and EDX only. It does not fault, because CR4.PCE is set and
    // the counter exists.
    unsafe { asm!("rdpmc", in("ecx") index, out("eax") low, out("edx") high) };
    (u64::from(high) << 32) | u64::from(low)
}

/// Runs `f` in a child process, and returns how that ended.
fn in_child(f: impl FnOnce() -> Result<()>) -> Result<WaitStatus> {
    // SAFETY: this program has only one thread here, so that no lock is held in the child.
    match unsafe { fork() }? {
        ForkResult::Child => process::exit(match f() {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("{error:#}");
                1
            }
        }),
        ForkResult::Parent { child } => Ok(waiting::process(child, None, "the end of a child")?),
    }
}

/// Like [`in_child`], but it is an error if the child fails.
pub(super) fn expect_child_succeeds(f: impl FnOnce() -> Result<()>) -> Result<()> {
    let status = in_child(f)?;
    ensure!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
    Ok(())
}

/// The exit status of a child of [`expect_child_faults`] after a fault.
const FAULTED: i32 = 3;

extern "C" fn end_faulted(_: i32) {
    // SAFETY: _exit() is async-signal-safe.
    unsafe { libc::_exit(FAULTED) }
}

/// Like [`in_child`], but `f` must raise SIGSEGV.
pub(super) fn expect_child_faults(f: impl FnOnce() -> Result<()>) -> Result<()> {
    let status = in_child(|| {
        // Without a handler the kernel would log the fault.
        let handler = SigHandler::Handler(end_faulted);
        // SAFETY: the handler only calls _exit(), which is async-signal-safe.
        unsafe { signal(Signal::SIGSEGV, handler) }?;
        f()
    })?;
    ensure!(
        matches!(status, WaitStatus::Exited(_, FAULTED)),
        "RDPMC did not fault: {status:?}"
    );
    Ok(())
}

/// A child process. Drop kills it.
pub(super) struct KilledProcess(pub Pid);

impl Drop for KilledProcess {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to kill.
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = waiting::process(self.0, None, "the end of a child that was killed");
    }
}

/// A process on CPU 0 that uses all counters.
struct CountingProcess(KilledProcess);

impl CountingProcess {
    /// Starts the process, and waits until it counts.
    fn spawn(ctx: &Ctx) -> Result<Self> {
        let (ready, tell) = pipe()?;
        // SAFETY: this program has only one thread here, so that no lock is held in the child.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(ready);
                process::exit(keep_counting(ctx, tell).is_err().into())
            }
            ForkResult::Parent { child } => {
                drop(tell);
                let other = Self(KilledProcess(child));
                let _waiting = Waiting::for_("a child to count");
                let told = File::from(ready).read(&mut [0])?;
                ensure!(told == 1, "the counting process does not count");
                Ok(other)
            }
        }
    }

    /// Fails if the process has ended.
    fn check(&self) -> Result<()> {
        let Self(KilledProcess(pid)) = self;
        let status = waiting::look_at(Some(*pid))?;
        ensure!(
            status == WaitStatus::StillAlive,
            "the counting process has ended: {status:?}"
        );
        Ok(())
    }
}

/// The RDPMC indices of all counters, from the pages of events that use all of them.
pub(super) fn counters(pmu: &Pmu) -> Result<Vec<u32>> {
    let CpuPmu { general, fixed, .. } = CpuPmu::probe();
    let mut found = BTreeSet::new();
    let (mut events, mut pages) = (Vec::new(), Vec::new());
    // Each fixed counter counts one of these events. Branches use general counters only.
    let mut on_fixed = vec![Event::Instructions, Event::CpuCycles, Event::RefCycles];
    on_fixed.retain(|event| pmu.has(*event));
    on_fixed.truncate(fixed.min(3) as usize);
    for event in on_fixed
        .into_iter()
        .chain((0..general).map(|_| Event::Branches))
    {
        let mut event = pmu.open(event, Mode::User)?;
        event.enable()?;
        let page = Page::map(&event)?;
        found.insert(page.index()?);
        events.push(event);
        pages.push(page);
    }
    Ok(found.into_iter().collect())
}

/// The setting of the in-tree PMU that says who may use RDPMC, for all PMUs.
pub(super) const SETTING: &str = "/sys/bus/event_source/devices/cpu/rdpmc";

/// Two RDPMCs differ by exactly the instructions between them. Page and read() give the
/// same count.
pub(super) fn rdpmc_is_exact(ctx: &Ctx) -> Result<()> {
    let mut event = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    let page = Page::map(&event)?;
    event.enable()?;
    for n in [1, 10, 1_000, 100_000] {
        let code = workload::tight_loop(n);
        let index = page.index()?;
        let (delta, want) = code.rdpmc_delta(index);
        // The difference means nothing if the event moved.
        ensure!(page.index()? == index, "the event moved to another counter");
        expect(code.name(), "instructions", delta, want)?;
    }
    event.disable()?;
    expect_same_count(&page, &mut event)
}

/// Checks that the page and read() give the same count.
fn expect_same_count(page: &Page, event: &mut Counter) -> Result<()> {
    let count = page.count() as u64;
    expect("the page", "instructions", count, event.read()?)
}

/// The page has the same fields as that of the in-tree PMU for the same event.
fn page_is_as_in_tree(ctx: &Ctx) -> Result<()> {
    let snapshot = |pmu: &str| -> Result<_> {
        let mut event = Pmu::find(pmu)?.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        event.enable()?;
        let Snapshot {
            index,
            width,
            may_rdpmc,
            may_time,
            ..
        } = page.snapshot();
        Ok((index, width, may_rdpmc, may_time))
    };
    let ours = snapshot(&ctx.pmu)?;
    if ctx.in_tree().is_err() {
        ensure!(
            matches!(ours, (None, 0, false, _)),
            "{ours:?} without the in-tree driver, expected no index and width 0"
        );
        return Ok(());
    }
    let in_tree = snapshot(IN_TREE)?;
    ensure!(ours == in_tree, "{ours:?}, but in-tree {in_tree:?}");
    Ok(())
}

/// The page of a stopped event has no RDPMC index, and `offset` is the whole count.
fn no_index_while_stopped(ctx: &Ctx) -> Result<()> {
    let mut event = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    let page = Page::map(&event)?;
    let code = workload::tight_loop(1000);
    for runs in 1..=3 {
        ensure!(
            page.snapshot().index.is_none(),
            "the page has an RDPMC index"
        );
        code.measure(&event)?;
        let count = page.snapshot().offset as u64;
        expect(
            "the page",
            "instructions",
            count,
            runs * code.instructions(),
        )?;
        expect("read()", "instructions", event.read()?, count)?;
    }
    Ok(())
}

/// The page stays right when overflows reload the counter.
fn across_overflows(ctx: &Ctx) -> Result<()> {
    let mut builder = ctx.pmu()?.event(Event::Instructions);
    builder.sample_period(997);
    let mut event = builder.build()?;
    let page = Page::map(&event)?;
    const LOOPS: u64 = 300;
    let code = workload::tight_loop(LOOPS);
    event.enable()?;
    let mut last = i64::MIN;
    for _ in 0..200 {
        let before = event.read()? as i64;
        let count = page.count();
        let after = event.read()? as i64;
        ensure!(
            (before..=after).contains(&count),
            "the page gives {count}, but read() {before} before and {after} after"
        );
        ensure!(
            count >= last,
            "the page gives {count}, expected at least {last}"
        );
        code.run();
        last = count + 2 * LOOPS as i64 + 1;
    }
    event.disable()?;
    expect_same_count(&page, &mut event)
}

/// A mapping allows RDPMC in all threads, also in those that are running on other CPUs.
fn rdpmc_in_every_thread(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    expect_child_succeeds(|| {
        let (running, mapped) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                running.store(true, SeqCst);
                while !mapped.load(SeqCst) {
                    spin_loop();
                }
                // SAFETY: counter 0 exists, and the mapping sets CR4.PCE. If it does not, the
                // fault ends only this child, and the test fails.
                unsafe { rdpmc(0) }
            });
            while !running.load(SeqCst) {
                spin_loop();
            }
            let event = pmu.open(Event::Instructions, Mode::User)?;
            let _page = Page::map(&event)?;
            mapped.store(true, SeqCst);
            reader.join().expect("the thread does not panic");
            Ok(())
        })
    })
}

/// RDPMC faults in a program without a mapping, even if another task has one.
fn no_rdpmc_without_mapping(ctx: &Ctx) -> Result<()> {
    let mut event = ctx.pmu()?.open(Event::Instructions, Mode::User)?;
    let page = Page::map(&event)?;
    event.enable()?;
    page.index()?;
    let status = waiting::status(&mut Command::new(RDPMC_PROBE.install()?.path()))?;
    ensure!(status.code() == Some(0), "RDPMC did not fault: {status}");
    Ok(())
}

/// RDPMC faults after a task has unmapped the last page of an event.
fn no_rdpmc_after_munmap(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    expect_child_faults(|| {
        let event = pmu.open(Event::Instructions, Mode::User)?;
        let first = Page::map(&event)?;
        let second = Page::map(&event)?;
        for page in [first, second] {
            // SAFETY: counter 0 exists, and `page` is still mapped.
            unsafe { rdpmc(0) };
            drop(page);
        }
        // SAFETY: this must fault, and the SIGSEGV handler of `expect_child_faults` ends the
        // process.
        unsafe { rdpmc(0) };
        Ok(())
    })
}

/// Uses all counters of CPU 0 for events of this task, forever. Writes a byte to `tell`
/// once it does.
fn keep_counting(ctx: &Ctx, tell: OwnedFd) -> Result<()> {
    pin(gettid(), 0)?;
    let pmu = ctx.pmu()?;
    let mut events = Vec::new();
    let CpuPmu { general, fixed, .. } = CpuPmu::probe();
    for _ in 0..general + fixed {
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        event.enable()?;
        events.push(event);
    }
    workload::tight_loop(1000).run();
    ensure!(events[0].read()? > 1000, "the event does not count");
    File::from(tell).write_all(&[1])?;
    loop {
        workload::tight_loop(1000).run();
        thread::yield_now();
    }
}

/// Fails if any counter but `own` is ever not 0, while this task and another alternate on
/// the CPU. This task must be allowed to use RDPMC.
fn expect_cleared(counters: &[u32], own: Option<u32>) -> Result<()> {
    const SWITCHES: i64 = 150;
    // Not each sched_yield() switches: that depends on the time that both have had.
    const ROUNDS: usize = 1_000_000;
    let before = switches()?;
    for _ in 0..ROUNDS {
        for &index in counters {
            // SAFETY: the counter exists. The callers have a mapping, have inherited one, or
            // have set `rdpmc` to 2. If RDPMC faults all the same, only a child process ends.
            let value = unsafe { rdpmc(index) };
            if value != 0 && own != Some(index) {
                bail!("counter {index:#x} is {value:#x}, left by another task");
            }
        }
        if switches()? - before >= SWITCHES {
            return Ok(());
        }
        thread::yield_now();
    }
    bail!("less than {SWITCHES} context switches in {ROUNDS} rounds")
}

/// A task cannot read what the counters have counted for another.
pub(super) fn dirty_counters_are_cleared(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let counters = counters(&pmu)?;
    let other = CountingProcess::spawn(ctx)?;
    expect_child_succeeds(|| {
        pin(gettid(), 0)?;
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        expect_cleared(&counters, None)?;
        event.enable()?;
        expect_cleared(&counters, Some(page.index()?))
    })?;
    other.check()
}

/// When an event is closed, others keep their counts, even if the kernel then allows RDPMC, for which it
/// clears the counters that events have left.
fn closing_keeps_the_counts_of_others(ctx: &Ctx) -> Result<()> {
    const ROUNDS: u32 = 20;
    pin(gettid(), 0)?;
    let pmu = ctx.pmu()?;
    let workload = workload::branches(1_000);
    let enabled = || -> Result<Counter> {
        let mut event = pmu.open(Event::Branches, Mode::User)?;
        event.enable()?;
        Ok(event)
    };
    // It is not enabled.
    let other = pmu.open(Event::Branches, Mode::User)?;
    // Repeated, because a context switch in between programs all events anew.
    for _ in 0..ROUNDS {
        let earlier = (0..4).map(|_| enabled()).collect::<Result<Vec<_>>>()?;
        workload.run();
        drop(earlier);
        let first = enabled()?;
        let mut leader = pmu.open(Event::Branches, Mode::User)?;
        let mut member = pmu
            .event(Event::Branches)
            .exclude_kernel(true)
            .enabled(true)
            .build_with_group(&mut leader)?;
        leader.enable()?;
        workload.run();
        drop(first);
        let _page = Page::map(&other)?;
        workload.run();
        leader.disable()?;
        let (of_leader, of_member) = (leader.read()?, member.read()?);
        expect("a member", "branches", of_member, of_leader)?;
    }
    Ok(())
}

/// A child inherits the permission for RDPMC. It finds no count of others, even after its
/// parent has unmapped and closed the event.
pub(super) fn dirty_counters_are_cleared_for_children(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let counters = counters(&pmu)?;
    let other = CountingProcess::spawn(ctx)?;
    expect_child_succeeds(|| {
        pin(gettid(), 0)?;
        let event = pmu.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        let (gone, goes) = pipe()?;
        // SAFETY: this process has only one thread, so that no lock is held in the child.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(goes);
                // Wait until the parent has closed everything.
                File::from(gone).read_to_end(&mut Vec::new())?;
                expect_cleared(&counters, None)
            }
            ForkResult::Parent { child } => {
                drop((page, event, goes));
                let status = waiting::process(child, None, "the end of a child of the child")?;
                ensure!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
                Ok(())
            }
        }
    })?;
    other.check()
}

/// A thread finds no count of another of its process, although the kernel does not switch
/// address spaces between them.
pub(super) fn dirty_counters_are_cleared_for_threads(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let counters = counters(&pmu)?;
    expect_child_succeeds(|| {
        pin(gettid(), 0)?;
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        event.enable()?;
        let own = page.index()?;
        let (ready, tell) = pipe()?;
        // The end of the process ends it.
        thread::scope(|scope| {
            scope.spawn(|| {
                if keep_counting(ctx, tell).is_err() {
                    process::exit(1);
                }
            });
            let told = File::from(ready).read(&mut [0])?;
            ensure!(told == 1, "the other thread does not count");
            let cleared = expect_cleared(&counters, Some(own));
            if let Err(error) = &cleared {
                eprintln!("{error:#}");
            }
            process::exit(cleared.is_err().into())
        })
    })
}

/// When a task becomes allowed to use RDPMC, the in-tree driver clears its own dirty
/// counters. It must not clear those that rust_pmu now uses.
fn dirty_counters_of_in_tree_driver(ctx: &Ctx) -> Result<()> {
    let in_tree = ctx.in_tree()?;
    expect_child_succeeds(|| {
        pin(gettid(), 0)?;
        let code = workload::tight_loop(10_000);
        let mut dirty = in_tree.open(Event::Branches, Mode::User)?;
        code.measure(&dirty)?;
        expect("in-tree", "branches", dirty.read()?, code.branches())?;
        drop(dirty);

        let mut event = ctx.pmu()?.open(Event::Branches, Mode::User)?;
        event.enable()?;
        code.run();
        // mmap() sets CR4.PCE and calls the in-tree driver.
        let page = Page::map(&event)?;
        event.disable()?;
        let count = event.read()?;
        // The branches of the loop, and some of this function. If the counter had been cleared,
        // the former would be missing or the counter would seem to have wrapped.
        ensure!(
            (10_000..15_000).contains(&count),
            "{count} branches, expected 10000 to 14999"
        );
        expect("the page", "branches", page.count() as u64, count)
    })
}

/// A task that may use RDPMC reads 0 from the counters of events that count a CPU, with both
/// drivers. Their pages have no index.
fn events_of_a_cpu_are_hidden(ctx: &Ctx) -> Result<()> {
    const RDPMC_USER_DISABLE: u32 = 1 << 2;
    let [_, fields, ..] = cpuid(0x23, 0);
    ensure!(
        fields & RDPMC_USER_DISABLE != 0,
        "CPUID leaf 23H does not have the flag"
    );
    for pmu in [ctx.pmu()?, ctx.in_tree()?] {
        let hidden = || -> Result<()> {
            pin(gettid(), 0)?;
            let counters = counters(&pmu)?;
            // On a fixed counter, and on a general one.
            let mut of_cpu = Vec::new();
            for event in [Event::Instructions, Event::Branches] {
                let mut counter = pmu.event(event).any_pid().one_cpu(0).build()?;
                let page = Page::map(&counter)?;
                counter.enable()?;
                let Snapshot {
                    index, may_rdpmc, ..
                } = page.snapshot();
                ensure!(!may_rdpmc && index.is_none(), "the page allows RDPMC");
                of_cpu.push(counter);
            }
            // It comes last: then the in-tree driver clears what events have left.
            let mut own = pmu.open(Event::Branches, Mode::User)?;
            let page = Page::map(&own)?;
            own.enable()?;
            let own = page.index()?;
            for &index in counters.iter().filter(|index| **index != own) {
                // SAFETY: the counter exists, and `page` allows RDPMC.
                let value = unsafe { rdpmc(index) };
                ensure!(value == 0, "counter {index:#x} is {value:#x}");
            }
            for event in &mut of_cpu {
                ensure!(event.read()? > 0, "an event is not counted");
            }
            Ok(())
        };
        hidden().context(pmu.name.clone())?;
    }
    Ok(())
}

/// The `rdpmc` setting of the in-tree PMU applies to all PMUs: with 0 no task may use
/// RDPMC, with 2 every task may.
fn follows_rdpmc_setting(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    let counters = counters(&pmu)?;
    {
        let _setting = Setting::change(SETTING, 0)?;
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        let code = workload::tight_loop(1000);
        event.enable()?;
        ensure!(!page.snapshot().may_rdpmc, "the page allows RDPMC");
        ensure!(
            page.snapshot().index.is_none(),
            "the page has an RDPMC index"
        );
        event.disable()?;
        event.reset()?;
        code.measure(&event)?;
        expect("read()", "instructions", event.read()?, code.instructions())?;
    }
    let _setting = Setting::change(SETTING, 2)?;
    let other = CountingProcess::spawn(ctx)?;
    expect_child_succeeds(|| {
        pin(gettid(), 0)?;
        expect_cleared(&counters, None)
    })?;
    other.check()
}
