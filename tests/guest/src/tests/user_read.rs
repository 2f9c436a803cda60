// SPDX-License-Identifier: GPL-2.0
//! Reading counters in user mode: the mapped page, RDPMC, and who may use it.

use std::arch::asm;
use std::collections::BTreeSet;
use std::fs::{self, File};
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
use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::signal::{kill, signal, SigHandler, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::{fork, gettid, pipe, ForkResult, Pid};
use perf_event::Counter;
use perf_event_open_sys::bindings::perf_event_mmap_page;

use super::counting::pin;
use super::{cpus, expect};
use crate::ctx::{Ctx, Test, IN_TREE};
use crate::pmu::{CpuPmu, Event, Mode, Pmu};
use crate::program::PEEK;
use crate::tests;
use crate::workload;

pub const TESTS: &[Test] = tests![
    rdpmc_is_exact,
    the_page_says_where,
    nothing_to_read_while_stopped,
    across_overflows,
    every_thread_may,
    nobody_else_may,
    no_longer_once_unmapped,
    counters_of_others_are_cleared,
    children_find_nothing_either,
    left_by_the_in_tree_driver,
    as_the_in_tree_pmu_says,
];

/// The first page of an event, mapped.
struct Page(NonNull<perf_event_mmap_page>);

/// What a page said at one time.
struct Snapshot {
    /// The counter's number for RDPMC.
    index: Option<u32>,
    offset: i64,
    width: u16,
    may_rdpmc: bool,
    may_time: bool,
    lock: u32,
}

impl Page {
    fn map(event: &Counter) -> Result<Self> {
        let length = NonZeroUsize::new(4096).expect("not 0");
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the descriptor is open as long as `event` lives.
        let fd = unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) };
        // SAFETY: a new mapping, wherever the kernel likes.
        let page = unsafe { mmap(None, length, prot, MapFlags::MAP_SHARED, fd, 0) };
        Ok(Self(page.context("mmap")?.cast()))
    }

    /// The kernel changes the page in interrupts of this CPU, and says so in
    /// `lock`.
    fn look(&self) -> Snapshot {
        let page = self.0.as_ptr();
        loop {
            // SAFETY: the page is mapped as long as `self` lives; whatever the kernel writes,
            // these are numbers.
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
            if lock == snapshot.lock {
                return snapshot;
            }
        }
    }

    /// The count, as `perf_event_open(2)` says how to work it out.
    fn count(&self) -> i64 {
        loop {
            let before = self.look();
            let mut count = before.offset;
            if let Some(index) = before.index {
                let unused = 64 - u32::from(before.width);
                // SAFETY: the page says that it may be read.
                let value = unsafe { rdpmc(index) };
                count += (value << unused) as i64 >> unused;
            }
            if self.look().lock == before.lock {
                return count;
            }
        }
    }

    /// The counter to read, where there has to be one.
    fn index(&self) -> Result<u32> {
        let page = self.look();
        ensure!(page.may_rdpmc, "the page does not allow RDPMC");
        page.index.context("the page has no counter")
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody has a reference into it.
        let _ = unsafe { munmap(self.0.cast(), 4096) };
    }
}

/// # Safety
///
/// CR4.PCE must be set and the counter exist, or this process dies of it.
unsafe fn rdpmc(index: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: by the caller.
    unsafe { asm!("rdpmc", in("ecx") index, out("eax") low, out("edx") high) };
    (u64::from(high) << 32) | u64::from(low)
}

/// Runs `f` in a process of its own, and returns how that ended.
fn in_child(f: impl FnOnce() -> Result<()>) -> Result<WaitStatus> {
    // SAFETY: this program has no other thread at this point that could hold a lock.
    match unsafe { fork() }? {
        ForkResult::Child => process::exit(match f() {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("{error:#}");
                1
            }
        }),
        ForkResult::Parent { child } => Ok(waitpid(child, None)?),
    }
}

/// As [`in_child`], and all must be well.
fn in_good_child(f: impl FnOnce() -> Result<()>) -> Result<()> {
    let status = in_child(f)?;
    ensure!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
    Ok(())
}

/// The status with which [`faults_in_child`]'s children end.
const FAULTED: i32 = 3;

extern "C" fn end_faulted(_: i32) {
    // SAFETY: ends the process, and may be called by a signal handler.
    unsafe { libc::_exit(FAULTED) }
}

/// As [`in_child`], and `f` must end with a fault.
fn faults_in_child(f: impl FnOnce() -> Result<()>) -> Result<()> {
    let status = in_child(|| {
        // The kernel logs faults that nobody handles.
        let handler = SigHandler::Handler(end_faulted);
        // SAFETY: all it does is to end the process.
        unsafe { signal(Signal::SIGSEGV, handler) }?;
        f()
    })?;
    ensure!(
        matches!(status, WaitStatus::Exited(_, FAULTED)),
        "RDPMC does not fault: {status:?}"
    );
    Ok(())
}

/// A process that counts all the time, on CPU 0; ended when this is dropped.
struct Rival(Pid);

impl Rival {
    /// Starts it, and waits till it counts.
    fn spawn(ctx: &Ctx) -> Result<Self> {
        let (ready, tell) = pipe()?;
        // SAFETY: as in `in_child`.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(ready);
                process::exit(keep_counting(ctx, tell).is_err().into())
            }
            ForkResult::Parent { child } => {
                drop(tell);
                let rival = Self(child);
                let told = File::from(ready).read(&mut [0])?;
                ensure!(told == 1, "the rival does not count");
                Ok(rival)
            }
        }
    }

    /// Fails unless it still counts.
    fn check(&self) -> Result<()> {
        let status = waitpid(self.0, Some(WaitPidFlag::WNOHANG))?;
        ensure!(status == WaitStatus::StillAlive, "the rival: {status:?}");
        Ok(())
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // Gone already if it failed, which its user finds out.
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = waitpid(self.0, None);
    }
}

/// The RDPMC numbers of all counters, as they are in events' pages when each has
/// one.
fn counters(pmu: &Pmu) -> Result<Vec<u32>> {
    let CpuPmu { general, fixed, .. } = CpuPmu::probe();
    let mut found = BTreeSet::new();
    let (mut events, mut pages) = (Vec::new(), Vec::new());
    // Branches have general counters only; each of the fixed ones counts one thing.
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

/// The in-tree PMU's setting, put back when dropped.
struct Setting(String);

const SETTING: &str = "/sys/bus/event_source/devices/cpu/rdpmc";

impl Setting {
    fn set(value: &str) -> Result<Self> {
        let before = fs::read_to_string(SETTING).context(SETTING)?;
        fs::write(SETTING, value).context(SETTING)?;
        Ok(Self(before))
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // The next test would see it.
        let _ = fs::write(SETTING, self.0.trim());
    }
}

/// The PMU, where its pages tell how wide the counters are: they have that from
/// the in-tree driver.
fn readable(ctx: &Ctx) -> Result<Pmu> {
    ctx.in_tree()?;
    ctx.pmu()
}

/// Two reads with code in between differ by just its instructions, and it is
/// the count that read() returns, too.
fn rdpmc_is_exact(ctx: &Ctx) -> Result<()> {
    let mut event = readable(ctx)?.open(Event::Instructions, Mode::User)?;
    let page = Page::map(&event)?;
    event.enable()?;
    for n in [1, 10, 1_000, 100_000] {
        let code = workload::tight_loop(n);
        let index = page.index()?;
        // Nothing else may move the event to another counter meanwhile.
        let (moved, due) = code.between(index);
        ensure!(page.index()? == index, "the event has moved");
        expect(code.name(), "instructions", moved, due)?;
    }
    event.disable()?;
    expect_same_count(&page, &mut event)
}

/// The count is the same by the page and by read().
fn expect_same_count(page: &Page, event: &mut Counter) -> Result<()> {
    let count = page.count() as u64;
    expect("the page", "instructions", count, event.read()?)
}

/// The page is as the in-tree driver's is for the same event.
fn the_page_says_where(ctx: &Ctx) -> Result<()> {
    let look = |pmu: &str| -> Result<_> {
        let mut event = Pmu::find(pmu)?.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        event.enable()?;
        let Snapshot {
            index,
            width,
            may_rdpmc,
            may_time,
            ..
        } = page.look();
        Ok((index, width, may_rdpmc, may_time))
    };
    let ours = look(&ctx.pmu)?;
    if ctx.in_tree().is_err() {
        ensure!(
            matches!(ours, (None, 0, false, _)),
            "{ours:?} where the width is not known"
        );
        return Ok(());
    }
    let in_tree = look(IN_TREE)?;
    ensure!(ours == in_tree, "{ours:?}, in-tree {in_tree:?}");
    Ok(())
}

/// An event that does not count has no counter to read; the page has it all.
fn nothing_to_read_while_stopped(ctx: &Ctx) -> Result<()> {
    let mut event = readable(ctx)?.open(Event::Instructions, Mode::User)?;
    let page = Page::map(&event)?;
    let code = workload::tight_loop(1000);
    for runs in 1..=3 {
        ensure!(page.look().index.is_none(), "there is a counter");
        code.measure(&event)?;
        let count = page.look().offset as u64;
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

/// The page stays right when periods end, which restarts the counter.
fn across_overflows(ctx: &Ctx) -> Result<()> {
    let mut builder = readable(ctx)?.event(Event::Instructions);
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
            "{count} in the page, read() {before} before and {after} after"
        );
        ensure!(count >= last, "{count} where {last} are due at least");
        code.run();
        last = count + 2 * LOOPS as i64 + 1;
    }
    event.disable()?;
    expect_same_count(&page, &mut event)
}

/// A mapping is for all threads, also those that run at that moment.
fn every_thread_may(ctx: &Ctx) -> Result<()> {
    if cpus()? < 2 {
        return crate::ctx::skip("one CPU");
    }
    let pmu = readable(ctx)?;
    in_good_child(|| {
        let (running, mapped) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                running.store(true, SeqCst);
                while !mapped.load(SeqCst) {
                    spin_loop();
                }
                // SAFETY: allowed, or else this process is the one that faults.
                unsafe { rdpmc(0) }
            });
            while !running.load(SeqCst) {
                spin_loop();
            }
            let event = pmu.open(Event::Instructions, Mode::User)?;
            let _page = Page::map(&event)?;
            mapped.store(true, SeqCst);
            reader.join().expect("no panic");
            Ok(())
        })
    })
}

/// A program that has no event mapped may not, whoever else has.
fn nobody_else_may(ctx: &Ctx) -> Result<()> {
    let mut event = readable(ctx)?.open(Event::Instructions, Mode::User)?;
    let page = Page::map(&event)?;
    event.enable()?;
    page.index()?;
    let status = Command::new(PEEK.install()?.path()).status()?;
    ensure!(status.code() == Some(0), "RDPMC does not fault: {status}");
    Ok(())
}

fn no_longer_once_unmapped(ctx: &Ctx) -> Result<()> {
    let pmu = readable(ctx)?;
    faults_in_child(|| {
        let event = pmu.open(Event::Instructions, Mode::User)?;
        let first = Page::map(&event)?;
        let second = Page::map(&event)?;
        for page in [first, second] {
            // SAFETY: there is still a mapping.
            unsafe { rdpmc(0) };
            drop(page);
        }
        // SAFETY: it is meant to fault.
        unsafe { rdpmc(0) };
        Ok(())
    })
}

/// Keeps the counters of CPU 0 busy with events of this task, for ever, and says
/// so once it does.
fn keep_counting(ctx: &Ctx, tell: OwnedFd) -> Result<()> {
    pin(gettid(), 0)?;
    let pmu = readable(ctx)?;
    let mut events = Vec::new();
    let CpuPmu { general, fixed, .. } = CpuPmu::probe();
    for _ in 0..general + fixed {
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        event.enable()?;
        events.push(event);
    }
    workload::tight_loop(1000).run();
    ensure!(events[0].read()? > 1000, "it counts nothing");
    File::from(tell).write_all(&[1])?;
    loop {
        workload::tight_loop(1000).run();
        thread::yield_now();
    }
}

/// Fails if any of the counters but `own` has something to tell, at any time that
/// this task runs in turn with another.
fn find_nothing(counters: &[u32], own: Option<u32>) -> Result<()> {
    const TIMES: i64 = 300;
    let before = switches()?;
    for _ in 0..TIMES {
        for &index in counters {
            // SAFETY: the callers see to it that it is allowed.
            let value = unsafe { rdpmc(index) };
            if value != 0 && own != Some(index) {
                bail!("counter {index:#x} holds {value:#x} of another task");
            }
        }
        thread::yield_now();
    }
    let switches = switches()? - before;
    ensure!(
        switches >= TIMES / 2,
        "only {switches} turns with another task"
    );
    Ok(())
}

/// How often this task has given way to another.
fn switches() -> Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(usage.voluntary_context_switches() + usage.involuntary_context_switches())
}

/// What the counters have counted for one task no other can read.
fn counters_of_others_are_cleared(ctx: &Ctx) -> Result<()> {
    let pmu = readable(ctx)?;
    let counters = counters(&pmu)?;
    let rival = Rival::spawn(ctx)?;
    in_good_child(|| {
        pin(gettid(), 0)?;
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        find_nothing(&counters, None)?;
        event.enable()?;
        find_nothing(&counters, Some(page.index()?))
    })?;
    rival.check()
}

/// A child may use RDPMC as its parent did, whatever became of that, and of its
/// mapping.
fn children_find_nothing_either(ctx: &Ctx) -> Result<()> {
    let pmu = readable(ctx)?;
    let counters = counters(&pmu)?;
    let rival = Rival::spawn(ctx)?;
    in_good_child(|| {
        pin(gettid(), 0)?;
        let event = pmu.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        let (gone, goes) = pipe()?;
        // SAFETY: as in `in_child`.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(goes);
                // The end of the file is the parent's.
                File::from(gone).read_to_end(&mut Vec::new())?;
                find_nothing(&counters, None)
            }
            ForkResult::Parent { child } => {
                drop((page, event, goes));
                let status = waitpid(child, None)?;
                ensure!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
                Ok(())
            }
        }
    })?;
    rival.check()
}

/// The in-tree driver clears its leftovers when a task may read counters: not
/// when they are ours.
fn left_by_the_in_tree_driver(ctx: &Ctx) -> Result<()> {
    let in_tree = ctx.in_tree_counts()?;
    in_good_child(|| {
        pin(gettid(), 0)?;
        let code = workload::tight_loop(10_000);
        let mut left = in_tree.open(Event::Branches, Mode::User)?;
        code.measure(&left)?;
        expect("in-tree", "branches", left.read()?, code.branches())?;
        drop(left);

        let mut event = readable(ctx)?.open(Event::Branches, Mode::User)?;
        event.enable()?;
        code.run();
        // Here the kernel sets CR4.PCE, and calls the in-tree driver.
        let page = Page::map(&event)?;
        event.disable()?;
        let count = event.read()?;
        // Those of the loop, and some of this function's: cleared counters would have lost the
        // former, or seem to have wrapped.
        ensure!(
            (10_000..15_000).contains(&count),
            "{count} branches after a loop of 10000"
        );
        expect("the page", "branches", page.count() as u64, count)
    })
}

/// `rdpmc` of the in-tree PMU is for all PMUs: 0 forbids, 2 allows everyone.
fn as_the_in_tree_pmu_says(ctx: &Ctx) -> Result<()> {
    let pmu = readable(ctx)?;
    let counters = counters(&pmu)?;
    {
        let _setting = Setting::set("0")?;
        let mut event = pmu.open(Event::Instructions, Mode::User)?;
        let page = Page::map(&event)?;
        let code = workload::tight_loop(1000);
        event.enable()?;
        ensure!(!page.look().may_rdpmc, "the page allows it all the same");
        ensure!(page.look().index.is_none(), "the page has a counter");
        event.disable()?;
        event.reset()?;
        code.measure(&event)?;
        expect("read()", "instructions", event.read()?, code.instructions())?;
    }
    let _setting = Setting::set("2")?;
    let rival = Rival::spawn(ctx)?;
    in_good_child(|| {
        pin(gettid(), 0)?;
        find_nothing(&counters, None)
    })?;
    rival.check()
}
