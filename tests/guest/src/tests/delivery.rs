// SPDX-License-Identifier: GPL-2.0
//! Delivery of overflows: ring buffers of all kinds, wakeups, signals, BPF
//! programs.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{bail, ensure, Context, Result};
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use nix::sys::signal::SigSet;
use nix::unistd::{getpid, gettid};
use perf_event::data::Record;
use perf_event::{Builder, Counter, ReadFormat, SampleFlag, Sampler};
use perf_event_open_sys::{bindings, ioctls};

use super::sampling::{
    drain, for_each_record, for_each_sample, ioctl, open, record, sampler, with_sample_rate, RING,
};
use super::{expect, repeat};
use crate::bpf::{OverflowCounter, Overflows};
use crate::ctx::{Ctx, Test};
use crate::pmu::{Event, Pmu};
use crate::program::{EXEC_SELF, EXEC_SELF_BEFORE, FORK_WAIT, FORK_WAIT_CHILD};
use crate::setting::pin;
use crate::signals::POLL_HUP;
use crate::tests;
use crate::waiting::{self, Waiting};
use crate::workload::{self, Trap};

pub const TESTS: &[Test] = tests![
    all need [ExactCounts, ZeroSkid];
    new_period_while_running,
    signals,
    refresh_sends_hup,
    paused_output,
    one_buffer_for_two: [General(2)],
    overwritten_backward,
    overwritten_forward,
    wakeup_by_events,
    wakeup_by_watermark,
    poll_till_the_end,
    lost_samples,
    traps,
    bpf_program_counts,
    bpf_program_filters,
    inherited_samples,
    removed_on_exec,
    attributes_cannot_be_modified,
    throttled_counts_are_exact,
];

/// PERF_EVENT_IOC_PERIOD on a running event starts a new period at once.
fn new_period_while_running(ctx: &Ctx) -> Result<()> {
    const N: u64 = 50_000;
    let pmu = ctx.pmu()?;
    let before = workload::before_call(N);
    let behind = workload::after_call(N);
    for (first, second) in [
        (1_009, 4_001),
        (4_001, 1_009),
        (3_000, 3_000),
        // One of the two periods ends on the last instruction, the other does
        // not end.
        (before, behind + 1),
        (before + 1, behind),
    ] {
        let mut sampler = sampler(&pmu, Event::Instructions, first)?;
        let workload = workload::around_new_period(&*sampler, second, N);
        let (records, count) = record(&mut sampler, &workload)?;
        expect("in total", "instructions", count, workload.instructions())?;
        let of_first = before / first;
        let what = format!("period {first}, then {second}");
        records.expect(&what, of_first + behind / second)?;
        for (sample, k) in records.samples.iter().zip(0..) {
            let want = if k < of_first { first } else { second };
            expect("period of a sample", "instructions", sample.period, want)?;
        }
    }
    Ok(())
}

/// `si_code` of an overflow's signal (`asm-generic/siginfo.h`). The last overflow
/// of PERF_EVENT_IOC_REFRESH has [`POLL_HUP`].
const POLL_IN: libc::c_int = 1;

/// A queue of blocked signals, so that they can be counted later.
struct SignalQueue {
    signal: libc::c_int,
    before: SigSet,
}

impl SignalQueue {
    /// Directs the event's signals to this process, which has only one thread.
    fn of(event: &impl AsRawFd) -> Result<Self> {
        // `linux/fcntl.h`
        const F_SETSIG: libc::c_int = 10;
        let signal = libc::SIGRTMIN() + 1;
        let before = SigSet::thread_get_mask()?;
        let fd = event.as_raw_fd();
        // SAFETY: `set` lives on this stack frame during the calls, and
        // sigemptyset() initializes it. The fcntl() calls take numbers only.
        let status = unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut())
                | libc::fcntl(fd, F_SETSIG, signal)
                | libc::fcntl(fd, libc::F_SETOWN, getpid().as_raw())
                | libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC)
        };
        ensure!(status == 0, "fcntl: {}", io::Error::last_os_error());
        Ok(Self { signal, before })
    }

    /// Takes all signals out of the queue, and returns their `si_code`.
    fn drain(&self) -> Result<Vec<libc::c_int>> {
        let mut codes = Vec::new();
        let none = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        loop {
            // SAFETY: `set`, `info` and `none` live during the call, and all of
            // them are valid when zeroed.
            let (signal, info) = unsafe {
                let mut set = std::mem::zeroed();
                let mut info: libc::siginfo_t = std::mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, self.signal);
                (libc::sigtimedwait(&set, &mut info, &none), info)
            };
            match signal {
                -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) => {
                    return Ok(codes)
                }
                -1 => bail!("sigtimedwait: {}", io::Error::last_os_error()),
                _ => codes.push(info.si_code),
            }
        }
    }
}

impl Drop for SignalQueue {
    fn drop(&mut self) {
        // Unblocking the signal would deliver those still in the queue.
        let _ = self.drain();
        let _ = self.before.thread_set_mask();
    }
}

/// There is a signal for each overflow, whatever `wakeup_events` is.
fn signals(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 20_011;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(500_000);
    for events in [1, 7] {
        let mut builder = pmu.event(Event::Instructions);
        builder.sample_period(PERIOD).wakeup_events(events);
        let mut sampler = open(&mut builder)?;
        let queue = SignalQueue::of(&*sampler)?;
        let (records, count) = record(&mut sampler, &workload)?;
        records.expect("signals", count / PERIOD)?;
        let codes = queue.drain()?;
        expect(
            "one per sample",
            "signals",
            codes.len() as u64,
            count / PERIOD,
        )?;
        ensure!(
            codes.iter().all(|&code| code == POLL_IN),
            "si_code {codes:?}, expected only POLL_IN"
        );
    }
    Ok(())
}

/// PERF_EVENT_IOC_REFRESH: the last overflow disables the event and signals
/// POLL_HUP.
fn refresh_sends_hup(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(100_000);
    for limit in [1, 2, 5] {
        let mut sampler = sampler(&pmu, Event::Instructions, PERIOD)?;
        let queue = SignalQueue::of(&*sampler)?;
        // Twice, because a stopped event can be refreshed.
        for round in 1..=2 {
            ioctl(&sampler, |fd| {
                // SAFETY: `fd` is an open event, and the argument is a number.
                unsafe { ioctls::REFRESH(fd, limit as libc::c_int) }
            })
            .context("PERF_EVENT_IOC_REFRESH")?;
            workload.run();
            drain(&mut sampler)?.expect("refresh", limit)?;
            let count = sampler.read()?;
            expect("refresh", "instructions", count, round * limit * PERIOD)?;
            let mut want = vec![POLL_IN; limit as usize - 1];
            want.push(POLL_HUP);
            let codes = queue.drain()?;
            ensure!(codes == want, "si_code {codes:?}, expected {want:?}");
        }
    }
    Ok(())
}

/// PERF_EVENT_IOC_PAUSE_OUTPUT stops the records but not the counting.
fn paused_output(ctx: &Ctx) -> Result<()> {
    const N: u64 = 50_000;
    const PERIOD: u64 = 1_009;
    let pmu = ctx.pmu()?;
    let mut sampler = sampler(&pmu, Event::Instructions, PERIOD)?;
    let workload = workload::around_ioctl(&*sampler, bindings::PAUSE_OUTPUT, 1, N);
    let (records, count) = record(&mut sampler, &workload)?;
    expect("paused", "instructions", count, workload.instructions())?;
    let before = workload::before_call(N) / PERIOD;
    records.expect("before the pause", before)?;

    // A LOST record tells how many samples there were meanwhile.
    let workload = workload::around_ioctl(&*sampler, bindings::PAUSE_OUTPUT, 0, N);
    workload.measure(&*sampler)?;
    let total = count + workload.instructions();
    expect("resumed", "instructions", sampler.read()?, total)?;
    let resumed = (count + workload::before_call(N)) / PERIOD;
    let (mut samples, mut lost) = (0, Vec::new());
    for_each_record(&mut sampler, |record| {
        match record {
            Record::Sample(_) => samples += 1,
            Record::Lost(record) => lost.push(record.lost),
            other => bail!("unexpected record {other:?}"),
        }
        Ok(())
    })?;
    ensure!(
        lost == [resumed - before],
        "lost {lost:?}, expected {} in the pause",
        resumed - before
    );
    expect("after resume", "samples", samples, total / PERIOD - resumed)
}

/// PERF_EVENT_IOC_SET_OUTPUT: two events write to one buffer, each with its id.
fn one_buffer_for_two(ctx: &Ctx) -> Result<()> {
    const PERIODS: [u64; 2] = [3_001, 1_009];
    let pmu = ctx.pmu()?;
    let builder = |event, period| {
        let mut builder = pmu.event(event);
        builder
            .sample(SampleFlag::IDENTIFIER | SampleFlag::PERIOD)
            .sample_period(period);
        builder
    };
    let mut leader = builder(Event::Instructions, PERIODS[0])
        .build()?
        .sampled(RING)?;
    let mut member = builder(Event::Branches, PERIODS[1])
        .enabled(true)
        .build_with_group(&mut *leader)?;
    // SAFETY: both descriptors are open events, and the kernel accesses no memory
    // of ours.
    let status = unsafe { ioctls::SET_OUTPUT(member.as_raw_fd(), leader.as_raw_fd()) };
    ensure!(status == 0, "SET_OUTPUT: {}", io::Error::last_os_error());

    let workload = workload::tight_loop(500_000);
    workload.measure(&*leader)?;
    let want = [leader.read()? / PERIODS[0], member.read()? / PERIODS[1]];
    expect(
        "leader",
        "instructions",
        leader.read()?,
        workload.instructions(),
    )?;
    expect("member", "branches", member.read()?, workload.branches())?;
    let ids = [leader.id(), member.id()];
    let mut samples = [0, 0];
    for_each_sample(&mut leader, |sample| {
        let id = sample.id().context("no id")?;
        let which = ids.iter().position(|&known| known == id);
        let which = which.with_context(|| format!("no event has id {id}"))?;
        expect(
            "period of a sample",
            "events",
            sample.period().context("no PERIOD")?,
            PERIODS[which],
        )?;
        samples[which] += 1;
        Ok(())
    })?;
    expect("leader", "samples", samples[0], want[0])?;
    expect("member", "samples", samples[1], want[1])
}

const PAGE: usize = 4096;

/// A ring buffer of one page, mapped read-only, so that the kernel overwrites old
/// records.
struct Overwritten {
    start: NonNull<std::ffi::c_void>,
    event: Counter,
}

impl Overwritten {
    fn map(event: Counter) -> Result<Self> {
        let len = (2 * PAGE).try_into()?;
        // SAFETY: `event` keeps the descriptor open while it is borrowed. The
        // kernel chooses the address, so that no existing mapping is replaced.
        let start = unsafe {
            let fd = BorrowedFd::borrow_raw(event.as_raw_fd());
            mmap(None, len, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, fd, 0)
        }
        .context("map the ring buffer")?;
        Ok(Self { start, event })
    }

    /// The words of the data page, and `data_head`.
    fn data(&self) -> (Vec<u64>, u64) {
        let page = self.start.as_ptr().cast::<bindings::perf_event_mmap_page>();
        // SAFETY: the mapping has two pages. The first is the control page, whose
        // `data_head` the kernel writes atomically. The second is the data page,
        // which the kernel does not write while the event is disabled.
        unsafe {
            let head = AtomicU64::from_ptr(&raw mut (*page).data_head).load(Ordering::Acquire);
            let data = self.start.as_ptr().cast::<u64>().add(PAGE / 8);
            (
                (0..PAGE / 8).map(|i| data.add(i).read_volatile()).collect(),
                head,
            )
        }
    }
}

impl Drop for Overwritten {
    fn drop(&mut self) {
        // SAFETY: `self` owns this mapping of two pages and hands out no reference
        // to it.
        let _ = unsafe { munmap(self.start, 2 * PAGE) };
    }
}

/// Writes samples of two words, a header and the count, to a page that has room
/// for 256. Returns the counts in the page, starting at `data_head`, and the
/// number of samples.
fn overwritten(pmu: &Pmu, period: u64, backward: bool) -> Result<(Vec<u64>, u64)> {
    const RECORD: u64 = 16;
    const PER_PAGE: usize = PAGE / RECORD as usize;
    let mut builder = pmu.event(Event::Instructions);
    builder
        .sample_period(period)
        .sample(SampleFlag::READ)
        .read_format(ReadFormat::empty());
    builder.attrs_mut().set_write_backward(backward.into());
    let mut ring = Overwritten::map(builder.build()?)?;
    let workload = workload::tight_loop(300_000);
    workload.measure(&ring.event)?;
    expect(
        "overwritten",
        "instructions",
        ring.event.read()?,
        workload.instructions(),
    )?;
    let samples = workload.instructions() / period;
    ensure!(samples > 2 * PER_PAGE as u64, "the buffer did not wrap");

    let (data, head) = ring.data();
    let written = if backward { head.wrapping_neg() } else { head };
    expect("written", "bytes", written, samples * RECORD)?;
    let at = (head % PAGE as u64) as usize / 8;
    let header = u64::from(bindings::PERF_RECORD_SAMPLE)
        | (u64::from(bindings::PERF_RECORD_MISC_USER) << 32)
        | (RECORD << 48);
    let values = (0..PER_PAGE)
        .map(|i| {
            let place = (at + 2 * i) % (PAGE / 8);
            ensure!(
                data[place] == header,
                "header {:#x}, expected {header:#x}",
                data[place]
            );
            Ok(data[place + 1])
        })
        .collect::<Result<_>>()?;
    Ok((values, samples))
}

/// `write_backward`: the buffer holds the newest samples, newest first.
fn overwritten_backward(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    let (values, samples) = overwritten(&ctx.pmu()?, PERIOD, true)?;
    for (value, k) in values.into_iter().zip(0..) {
        expect(
            "newest first",
            "instructions",
            value,
            (samples - k) * PERIOD,
        )?;
    }
    Ok(())
}

/// The buffer holds the newest samples, oldest first.
fn overwritten_forward(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    let (values, samples) = overwritten(&ctx.pmu()?, PERIOD, false)?;
    let first = samples + 1 - values.len() as u64;
    for (value, k) in values.into_iter().zip(first..) {
        expect("oldest first", "instructions", value, k * PERIOD)?;
    }
    Ok(())
}

/// Returns the result of poll(), which is POLLIN once after each wakeup.
pub(super) fn poll(event: &impl AsRawFd, timeout_ms: libc::c_int) -> Result<libc::c_short> {
    let mut poll = libc::pollfd {
        fd: event.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `poll` is one `pollfd` and lives during the call.
    let status = unsafe { libc::poll(&mut poll, 1, timeout_ms) };
    ensure!(status >= 0, "poll: {}", io::Error::last_os_error());
    Ok(poll.revents)
}

/// Takes samples of two words, one by one. Returns the numbers of those after
/// which poll() reports a wakeup.
fn wakeups(builder: &mut Builder, samples: u64) -> Result<Vec<u64>> {
    // The period ends on the last instruction of each run.
    let workload = workload::tight_loop(1_000);
    builder
        .sample_period(workload.instructions())
        .sample(SampleFlag::READ)
        .read_format(ReadFormat::empty());
    let mut sampler = builder.build()?.sampled(PAGE)?;
    let mut wakeups = Vec::new();
    for k in 1..=samples {
        workload.measure(&*sampler)?;
        match poll(&*sampler, 0)? {
            0 => {}
            libc::POLLIN => wakeups.push(k),
            other => bail!("poll() returned {other:#x}"),
        }
    }
    let mut there = 0;
    for_each_sample(&mut sampler, |_| {
        there += 1;
        Ok(())
    })?;
    expect("one per run", "samples", there, samples)?;
    Ok(wakeups)
}

/// With `wakeup_events` N there is a wakeup at each Nth sample, and at no other.
fn wakeup_by_events(ctx: &Ctx) -> Result<()> {
    let pmu = ctx.pmu()?;
    for events in [1, 3, 10] {
        let wakeups = wakeups(pmu.event(Event::Instructions).wakeup_events(events), 40)?;
        let want: Vec<u64> = (1..=40).filter(|k| k % events as u64 == 0).collect();
        ensure!(
            wakeups == want,
            "wakeups at samples {wakeups:?}, expected {want:?}"
        );
    }
    Ok(())
}

/// There is a wakeup when the buffer grows past a mark. Each wakeup moves the mark
/// up by `wakeup_watermark`.
fn wakeup_by_watermark(ctx: &Ctx) -> Result<()> {
    const RECORD: u64 = 16;
    let pmu = ctx.pmu()?;
    for watermark in [16, 100, 160] {
        let wakeups = wakeups(
            pmu.event(Event::Instructions)
                .wakeup_watermark(watermark as usize),
            40,
        )?;
        let mut mark = 0;
        let mut want = Vec::new();
        for k in 1..=40 {
            if k * RECORD - mark > watermark {
                mark += watermark;
                want.push(k);
            }
        }
        ensure!(
            wakeups == want,
            "wakeups at samples {wakeups:?}, expected {want:?}"
        );
    }
    Ok(())
}

/// poll() sleeps until there are enough samples (POLLIN), then until the task has
/// exited (POLLHUP).
fn poll_till_the_end(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    const FOR_EVER: libc::c_int = -1;
    let pmu = ctx.pmu()?;
    let workload = workload::tight_loop(1_000_000);
    let samples = workload.instructions() / PERIOD;
    let (tell_tid, tid) = mpsc::channel();
    let (tell_fd, fd) = mpsc::channel::<RawFd>();
    let (tell_end, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Exits when told to, or if the other end of a channel is dropped.
        let watched = scope.spawn(move || -> Result<()> {
            tell_tid.send(gettid())?;
            workload::tight_loop(1_000_000).measure(&waiting::receive(&fd, "the event")?)?;
            Ok(waiting::receive(&end, "the thread to be told to exit")?)
        });
        let mut builder = pmu.event(Event::Instructions);
        builder
            .observe_pid(waiting::receive(&tid, "the ID of a thread")?.as_raw())
            .sample_period(PERIOD)
            .wakeup_events(samples as usize);
        let mut sampler = open(&mut builder)?;
        tell_fd.send(sampler.as_raw_fd())?;
        let waiting = Waiting::for_("poll() to return when there are samples");
        let events = poll(&*sampler, FOR_EVER)?;
        drop(waiting);
        ensure!(
            events == libc::POLLIN,
            "poll() returned {events:#x}, expected POLLIN"
        );
        drain(&mut sampler)?.expect("at the wakeup", samples)?;
        tell_end.send(())?;
        let waiting = Waiting::for_("poll() to return when the task has exited");
        let events = poll(&*sampler, FOR_EVER)?;
        drop(waiting);
        ensure!(
            events == libc::POLLHUP,
            "poll() returned {events:#x}, expected POLLHUP"
        );
        watched.join().expect("the thread does not panic")?;
        expect(
            "at the end",
            "instructions",
            sampler.read()?,
            workload.instructions(),
        )?;
        drain(&mut sampler)?.expect("after the wakeup", 0)
    })
}

/// Samples that do not fit into the buffer are counted by PERF_FORMAT_LOST, and by
/// a LOST record that is written as soon as there is room.
fn lost_samples(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 1_009;
    const RECORD: usize = 16;
    let mut builder = ctx.pmu()?.event(Event::Instructions);
    builder
        .sample_period(PERIOD)
        .sample(SampleFlag::PERIOD)
        .read_format(ReadFormat::LOST);
    let mut sampler = builder.build()?.sampled(PAGE)?;
    let workload = workload::tight_loop(300_000);
    let mut written = 0;
    let mut lost = 0;
    for round in 1..=3 {
        workload.measure(&*sampler)?;
        let data = sampler.read_full()?;
        let count = round * workload.instructions();
        expect("in total", "instructions", data.count(), count)?;
        let format = data.lost().context("no PERF_FORMAT_LOST")?;
        let mut records = 0;
        for_each_record(&mut sampler, |record| {
            match record {
                Record::Sample(_) => records += 1,
                Record::Lost(record) => lost += record.lost,
                other => bail!("unexpected record {other:?}"),
            }
            Ok(())
        })?;
        if round == 1 {
            // The kernel never fills the buffer to its last byte.
            expect("round 1", "samples", records, (PAGE / RECORD - 1) as u64)?;
            expect("round 1", "samples lost, by records", lost, 0)?;
        }
        written += records;
        expect(
            "written and lost",
            "samples",
            written + format,
            count / PERIOD,
        )?;
    }
    // There is no LOST record yet for those of the third round.
    let room = sampler.read_full()?.lost().context("no PERF_FORMAT_LOST")?;
    workload::tight_loop(1_000).measure(&*sampler)?;
    for_each_record(&mut sampler, |record| {
        match record {
            Record::Sample(_) => written += 1,
            Record::Lost(record) => lost += record.lost,
            other => bail!("unexpected record {other:?}"),
        }
        Ok(())
    })?;
    expect("by records", "samples lost", lost, room)?;
    expect(
        "written and lost",
        "samples",
        written + lost,
        sampler.read()? / PERIOD,
    )
}

/// `sigtrap`: each overflow raises SIGTRAP, before the next instruction.
fn traps(ctx: &Ctx) -> Result<()> {
    const N: u64 = 2_000;
    const PERIOD: u64 = 1_009;
    const DATA: u64 = 0x7e57_0000_1234_5678;
    let pmu = ctx.pmu()?;
    let mut event = pmu
        .event(Event::Instructions)
        .sample_period(PERIOD)
        .remove_on_exec(true)
        .sigtrap(true)
        .sig_data(DATA)
        .build()?;
    let workload = workload::trapped_block(N)?;
    workload.measure(&event)?;
    let traps = workload::traps();
    let count = workload.instructions() + traps.len() as u64 * workload::TRAP;
    expect("with handlers", "instructions", event.read()?, count)?;
    expect("per period", "traps", traps.len() as u64, count / PERIOD)?;
    for (trap, k) in traps.into_iter().zip(1..) {
        // The handlers have retired k - 1 times TRAP instructions so far.
        let place = k * PERIOD - (k - 1) * workload::TRAP;
        let want = Trap {
            code: libc::TRAP_PERF.into(),
            data: DATA,
            type_: pmu.type_,
            flags: 0,
            ip: workload::block_ip(N, place).context("a trap after the loop")?,
        };
        ensure!(trap == want, "trap {k}: {trap:x?}, expected {want:x?}");
    }
    Ok(())
}

/// Samples with a BPF program attached, which decides whether to keep the samples.
fn with_bpf(ctx: &Ctx, keep: bool) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let mut sampler = sampler(&ctx.pmu()?, Event::Instructions, PERIOD)?;
    let program = OverflowCounter::load(keep)?;
    sampler.set_bpf(program.as_raw_fd()).context("SET_BPF")?;
    let workload = workload::tight_loop(1_000_000);
    let (records, count) = record(&mut sampler, &workload)?;
    expect("in total", "instructions", count, workload.instructions())?;
    let want = Overflows {
        number: count / PERIOD,
        periods: count / PERIOD * PERIOD,
    };
    let got = program.read()?;
    ensure!(got == want, "the program saw {got:?}, expected {want:?}");
    records.expect("recorded", if keep { count / PERIOD } else { 0 })
}

/// The kernel calls a BPF program for each overflow.
fn bpf_program_counts(ctx: &Ctx) -> Result<()> {
    with_bpf(ctx, true)
}

/// An overflow is not recorded if the BPF program returns 0.
fn bpf_program_filters(ctx: &Ctx) -> Result<()> {
    with_bpf(ctx, false)
}

/// With `inherit`, each child starts a period of its own.
fn inherited_samples(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    let pmu = ctx.pmu()?;
    let installed = FORK_WAIT.install()?;
    let child = installed.stopped()?;
    // An inherited event can only have a ring buffer if it is bound to one CPU.
    pin(child.pid(), 0)?;
    let mut builder = pmu.event(Event::Instructions);
    builder
        .observe_pid(child.pid().as_raw())
        .one_cpu(0)
        .inherit(true)
        .enable_on_exec(true)
        .sample_period(PERIOD)
        // Without READ, perf core may swap the contexts of parent and child at a
        // context switch, as an optimization.
        .sample(SampleFlag::TID | SampleFlag::READ)
        .read_format(ReadFormat::empty());
    let mut sampler = builder.build()?.sampled(RING)?;
    let parent = child.pid().as_raw() as u32;
    child.finish()?;
    expect(
        "parent and children",
        "instructions",
        sampler.read()?,
        FORK_WAIT.instructions,
    )?;

    let mut counts: Vec<(u32, Vec<u64>)> = Vec::new();
    for_each_sample(&mut sampler, |sample| {
        let pid = sample.pid().context("no PID")?;
        ensure!(pid != parent, "the parent is too short for a sample");
        let values = sample.values().context("no READ")?;
        let value = values.entries().next().context("no value")?.value();
        match counts.iter_mut().find(|(known, _)| *known == pid) {
            Some((_, values)) => values.push(value),
            None => counts.push((pid, vec![value])),
        }
        Ok(())
    })?;
    expect("with samples", "children", counts.len() as u64, 5)?;
    for (_, values) in counts {
        let want: Vec<u64> = (1..=FORK_WAIT_CHILD / PERIOD).map(|k| k * PERIOD).collect();
        ensure!(values == want, "samples {values:?}, expected {want:?}");
    }
    Ok(())
}

/// With `remove_on_exec`, an event ends when its task calls execve().
fn removed_on_exec(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 100_003;
    let pmu = ctx.pmu()?;
    let installed = EXEC_SELF.install()?;
    for (remove, want) in [(false, EXEC_SELF.instructions), (true, EXEC_SELF_BEFORE)] {
        let child = installed.spawn_self_stopping()?;
        let mut builder = pmu.event(Event::Instructions);
        builder
            .observe_pid(child.pid().as_raw())
            .enabled(true)
            .remove_on_exec(remove)
            .sample_period(PERIOD);
        let mut sampler = open(&mut builder)?;
        child.finish()?;
        let what = if remove {
            "before the exec"
        } else {
            "across the exec"
        };
        expect(what, "instructions", sampler.read()?, want)?;
        drain(&mut sampler)?.expect(what, want / PERIOD)?;
        let events = poll(&*sampler, 0)?;
        ensure!(
            events == libc::POLLHUP,
            "poll() returned {events:#x}, expected POLLHUP"
        );
    }
    Ok(())
}

/// PERF_EVENT_IOC_MODIFY_ATTRIBUTES is for breakpoints only. Here it fails and
/// changes nothing.
fn attributes_cannot_be_modified(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 10_007;
    let pmu = ctx.pmu()?;
    let mut sampler = sampler(&pmu, Event::Instructions, PERIOD)?;
    let mut attrs = *pmu.event(Event::Branches).attrs();
    // SAFETY: `sampler` is an open event. `attrs` is a whole `perf_event_attr` that
    // lives during the call.
    let status = unsafe { ioctls::MODIFY_ATTRIBUTES(sampler.as_raw_fd(), &mut attrs) };
    let error = io::Error::last_os_error();
    ensure!(
        status == -1 && error.raw_os_error() == Some(libc::EOPNOTSUPP),
        "ioctl returned {status} ({error}), expected EOPNOTSUPP"
    );
    let workload = workload::branches(50_000);
    let (records, count) = record(&mut sampler, &workload)?;
    expect("afterwards", "instructions", count, workload.instructions())?;
    records.expect("afterwards", count / PERIOD)
}

/// A throttled event later continues at the count where it was stopped.
fn throttled_counts_are_exact(ctx: &Ctx) -> Result<()> {
    const PERIOD: u64 = 20_011;
    let pmu = ctx.pmu()?;
    with_sample_rate(1_000, || {
        let mut builder = pmu.event(Event::Instructions);
        builder
            .sample_period(PERIOD)
            .sample(SampleFlag::READ)
            .read_format(ReadFormat::empty());
        let mut sampler = builder.build()?.sampled(RING)?;
        let workload = workload::tight_loop(30_000_000);
        let (mut samples, mut pairs, mut stopped) = (0, 0, false);
        let mut check = |record: Record<'_>| {
            match record {
                Record::Sample(sample) => {
                    samples += 1;
                    let values = sample.values().context("no READ")?;
                    let value = values.entries().next().context("no value")?.value();
                    expect("throttled", "instructions", value, samples * PERIOD)?;
                }
                Record::Throttle(_) => {
                    ensure!(!stopped, "two THROTTLE records in a row");
                    stopped = true;
                }
                Record::Unthrottle(_) => {
                    ensure!(stopped, "UNTHROTTLE without THROTTLE");
                    stopped = false;
                    pairs += 1;
                }
                other => bail!("unexpected record {other:?}"),
            }
            Ok(pairs > 0)
        };
        let mut has_pairs = false;
        let mut look = |sampler: &mut Sampler| {
            for_each_record(sampler, |record| {
                has_pairs = check(record)?;
                Ok(())
            })?;
            Ok(has_pairs)
        };
        sampler.enable()?;
        repeat("THROTTLE and UNTHROTTLE records", || {
            workload.run();
            look(&mut sampler)
        })?;
        sampler.disable()?;
        look(&mut sampler)?;
        expect("throttled", "samples", samples, sampler.read()? / PERIOD)
    })
}
