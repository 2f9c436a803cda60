// SPDX-License-Identifier: GPL-2.0
//! rust_trace: trace points count and sample as those of the in-tree PMU do.

use std::arch::asm;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;
use nix::unistd::{gettid, Pid};
use perf_event::events::Raw;
use perf_event::{Builder, ReadFormat, SampleFlag, Sampler};
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS, PERF_COUNT_SW_DUMMY,
    PERF_COUNT_SW_PAGE_FAULTS,
};
use perf_event_open_sys::ioctls;

use super::compare::case::{Unprivileged, World};
use super::sampling::{for_each_sample, RING};
use super::{cpus, expect, find_undisturbed};
use crate::ctx::{Ctx, Test};
use crate::module;
use crate::need::checks_itself;
use crate::pmu::{Event as Hardware, Pmu};
use crate::setting::{pin, Affinity, Setting};
use crate::tests;
use crate::trace::{number, tracefs, Event, Record, Same, RUST_TRACE};
use crate::waiting::{self, Waiting};
use crate::workload;

pub const TESTS: &[Test] = tests![
    all need [Module, Root, TracePoints];
    system_calls,
    renames,
    forks,
    signals,
    software_names: [Btf],
    software_events: [Btf],
    page_faults_by_mode: [Btf],
    migrations_between_cpus: [Btf, Cpus(2)],
    migrations_in_a_group: [Btf, Cpus(2)],
    migrations_of_a_cgroup: [Cpus(2), Guest("changes the controllers of all cgroups")],
    enabled_after_its_limit,
    inherited,
    wakeups_of_another_task: [Btf, Cpus(2)],
    runtime_as_count: [Btf],
    every_named_event: [Btf],
    numbers_are_unique,
    trace_points_at_once,
    instructions_at_each_switch: [Btf, ExactCounts],
    samples_of_each_period,
    record_of_an_unknown_prctl: [Btf],
    record_with_arguments_on_the_stack: [Btf],
    record_hides_kernel_addresses: [Btf],
    call_chain_as_in_tree,
    recursion: [Guest("clears the buffer of tracefs")],
    trace_point_of_a_module: [Guest("loads and unloads kvm"), KernelModule("kvm")],
    many_events_on_one_trace_point,
    closed_events_leave_nothing: [Guest("unloads the module")],
];

/// A system call that does nothing else.
fn getppid() {
    // SAFETY: the system call has no arguments.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// Gives this thread a name.
fn rename() {
    let name = c"renamed";
    // SAFETY: the name is a string that is longer than the kernel reads.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// A system call with no such option, which has a trace point.
fn unknown_prctl(option: libc::c_int, args: [u64; 4]) -> i64 {
    // SAFETY: the kernel knows no such option, so that it does nothing.
    unsafe { libc::syscall(libc::SYS_prctl, option, args[0], args[1], args[2], args[3]) }
}

/// Runs `work` while a trace point of this thread is counted by both PMUs.
fn count(name: &str, work: impl FnOnce() -> Result<()>) -> Result<u64> {
    let mut same = Same::both(name, |_| ())?;
    same.enable()?;
    work()?;
    same.disable()?;
    same.count(name)
}

fn times(n: u64, work: impl Fn()) -> Result<()> {
    (0..n).for_each(|_| work());
    Ok(())
}

/// `sys_enter` and `sys_exit` count each system call.
fn system_calls(_: &Ctx) -> Result<()> {
    const N: u64 = 1_000;
    // The ioctl() that stops the events is entered while they count, and the one that has
    // started them returns.
    for name in ["sys_enter", "sys_exit"] {
        let counted = count(name, || times(N, getppid))?;
        expect(name, "hits", counted, N + 1)?;
    }
    Ok(())
}

/// `task_rename` counts each change of a thread's name.
fn renames(_: &Ctx) -> Result<()> {
    expect(
        "task_rename",
        "hits",
        count("task_rename", || times(100, rename))?,
        100,
    )
}

/// `sched_process_fork` counts each child.
fn forks(_: &Ctx) -> Result<()> {
    let fork = || -> Result<()> {
        for _ in 0..10 {
            waiting::status(&mut Command::new("/bin/true"))?;
        }
        Ok(())
    };
    expect("forks", "hits", count("sched_process_fork", fork)?, 10)
}

/// `signal_generate` counts each signal that is sent.
fn signals(_: &Ctx) -> Result<()> {
    // A signal that is ignored is generated.
    // SAFETY: ignoring a signal runs no code, and the signal goes to this thread.
    let send = || unsafe {
        libc::signal(libc::SIGURG, libc::SIG_IGN);
        libc::syscall(libc::SYS_tkill, libc::gettid(), libc::SIGURG);
    };
    expect(
        "signals",
        "hits",
        count("signal_generate", || times(50, send))?,
        50,
    )
}

/// Does something of many kinds.
fn mixed_work() -> Result<()> {
    waiting::status(&mut Command::new("/bin/true"))?;
    workload::touch(200)?.run();
    times(50, getppid)?;
    rename();
    let (to, from) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    for _ in 0..10 {
        from.send_to(b"datagram", to.local_addr()?)?;
        let _waiting = Waiting::for_("a datagram");
        to.recv(&mut [0; 16])?;
        thread::sleep(Duration::from_millis(1));
    }
    if cpus()? > 1 {
        let affinity = Affinity::save()?;
        for cpu in [0, 1, 0, 1, 0] {
            affinity.pin(cpu)?;
        }
    }
    Ok(())
}

/// perf's own software events and ours, by name.
const SOFTWARE: [(&str, u32); 3] = [
    ("page-faults", PERF_COUNT_SW_PAGE_FAULTS),
    ("cpu-migrations", PERF_COUNT_SW_CPU_MIGRATIONS),
    ("context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES),
];

/// What the files of these events begin with.
const SW: &str = "sw-";

/// The event that a file in `events/` describes. perf's own have a prefix there.
fn named(name: &str) -> Result<Event> {
    let events = Path::new(RUST_TRACE).join("events");
    let file = match SOFTWARE.iter().any(|(software, _)| *software == name) {
        true => events.join(format!("{SW}{name}")),
        false => events.join(name),
    };
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let number = text.trim().strip_prefix("point=0x").context("no point")?;
    Ok(Event {
        config: u64::from_str_radix(number, 16)?,
        ..Event::rust(name)?
    })
}

/// A bit of `config` selects an event as its number does: perf sets it for
/// `rust_trace/page-faults/`.
fn software_names(_: &Ctx) -> Result<()> {
    let pmu = Pmu::find("rust_trace")?;
    let mut all = 0;
    for (name, _) in SOFTWARE {
        let by_name = Event {
            config: pmu.encode(name)?,
            ..Event::rust(name)?
        };
        let mut same = Same::open(&[by_name, named(name)?], |_| ())?;
        same.enable()?;
        mixed_work()?;
        same.disable()?;
        ensure!(same.count(name)? > 0, "{name} by its name counts nothing");
        all |= by_name.config;
    }
    // Several names, and a name with each other field.
    let name = pmu.encode("page-faults")?;
    for config in [
        all,
        name | 1,
        name | (1 << 32),
        name | (1 << 34),
        name | (1 << 35),
    ] {
        let event = Event {
            config,
            ..Event::rust("page-faults")?
        };
        let error = event.builder().build().err().map(|it| it.raw_os_error());
        ensure!(
            error == Some(Some(libc::EINVAL)),
            "config {config:#x}: {error:?}, expected EINVAL"
        );
    }
    Ok(())
}

/// Whether events of a CPU count what perf's own event of that name counts.
///
/// The kernel hits the trace point of a page fault when that begins, and counts perf's own event
/// later, with interrupts enabled. In between the events of a CPU may start or stop, and the
/// task may move to another CPU. Events of the task go with it.
fn is_same_on_a_cpu(name: &str) -> bool {
    name != "page-faults"
}

/// Counts equal those of perf's own software events, for a task and for a CPU.
fn software_events(_: &Ctx) -> Result<()> {
    for (name, config) in SOFTWARE {
        let events = [named(name)?, Event::software(config)];
        let mut task = Same::open(&events, |_| ())?;
        let mut on_cpus = Vec::new();
        for cpu in 0..cpus()? {
            on_cpus.push(Same::open(&events, |builder| {
                builder.any_pid().one_cpu(cpu);
            })?);
        }
        for same in on_cpus.iter_mut().chain([&mut task]) {
            same.enable()?;
        }
        mixed_work()?;
        // In this order, nothing counts for the task alone.
        for same in [&mut task].into_iter().chain(&mut on_cpus) {
            same.disable()?;
        }
        let counted = task.count(name)?;
        let least = match name {
            "page-faults" => 200,
            "cpu-migrations" => 3 * (cpus()? as u64 - 1),
            _ => 10,
        };
        ensure!(counted >= least, "{name}: only {counted}");
        let mut sums = [0, 0];
        for same in &mut on_cpus {
            if is_same_on_a_cpu(name) {
                same.count(name)?;
            }
            for (sum, counter) in sums.iter_mut().zip(&mut same.0) {
                *sum += counter.read()?;
            }
        }
        // Those of the task are among those of the CPUs, whichever CPU they are on.
        ensure!(
            sums.iter().all(|sum| *sum >= counted),
            "{name}: {sums:?} on all CPUs, {counted} of the task"
        );
    }
    Ok(())
}

/// Pages that nothing has touched.
struct FreshPages {
    address: *mut libc::c_void,
    len: usize,
}

impl FreshPages {
    fn new(pages: usize) -> Result<Self> {
        let len = pages << 12;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_WRITE, flags, -1, 0) };
        ensure!(address != libc::MAP_FAILED, "mmap");
        // A huge page would fault once.
        // SAFETY: this does not change the contents.
        unsafe { libc::madvise(address, len, libc::MADV_NOHUGEPAGE) };
        Ok(Self { address, len })
    }

    /// Has the kernel write to them.
    fn write_by_kernel(&self) -> Result<()> {
        let zero = fs::File::open("/dev/zero")?;
        // SAFETY: the pages are this one's own.
        let read = unsafe { libc::read(zero.as_raw_fd(), self.address, self.len) };
        ensure!(read == self.len as isize, "read: {read}");
        Ok(())
    }
}

impl Drop for FreshPages {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the pages.
        unsafe { libc::munmap(self.address, self.len) };
    }
}

/// Page faults have a mode: that of the access.
fn page_faults_by_mode(_: &Ctx) -> Result<()> {
    const PAGES: u64 = 100;
    let events = [
        named("page-faults")?,
        Event::software(PERF_COUNT_SW_PAGE_FAULTS),
    ];
    for (user, kernel) in [(true, false), (false, true), (true, true)] {
        let mut same = Same::open(&events, |builder| {
            builder.exclude_user(!user).exclude_kernel(!kernel);
        })?;
        let workload = workload::touch(PAGES)?;
        let fresh = FreshPages::new(PAGES as usize)?;
        same.enable()?;
        workload.run();
        fresh.write_by_kernel()?;
        same.disable()?;
        let counted = same.count("page faults")?;
        let least = PAGES * (u64::from(user) + u64::from(kernel));
        ensure!(
            counted >= least,
            "user {user}, kernel {kernel}: only {counted}"
        );
    }
    Ok(())
}

/// A thread that goes from one CPU to the other migrates each time.
fn migrations_between_cpus(_: &Ctx) -> Result<()> {
    let affinity = Affinity::pinned_to(0)?;
    let mut same = Same::open(
        &[
            named("cpu-migrations")?,
            Event::software(PERF_COUNT_SW_CPU_MIGRATIONS),
        ],
        |_| (),
    )?;
    same.enable()?;
    for round in 1..=20 {
        affinity.pin(round % 2)?;
    }
    same.disable()?;
    expect("20 moves", "migrations", same.count("migrations")?, 20)
}

/// A member of a group counts only while the leader is enabled. perf marks only the leader
/// as disabled.
fn migrations_in_a_group(_: &Ctx) -> Result<()> {
    let affinity = Affinity::pinned_to(0)?;
    let move_about = |times: usize| (1..=times).try_for_each(|i| affinity.pin(i % 2));
    let mut leader = Event::software(PERF_COUNT_SW_DUMMY).builder().build()?;
    let mut members = Vec::new();
    for event in [
        named("cpu-migrations")?,
        Event::software(PERF_COUNT_SW_CPU_MIGRATIONS),
    ] {
        let mut builder = event.builder();
        members.push(builder.enabled(true).build_with_group(&mut leader)?);
    }
    move_about(2)?;
    leader.enable()?;
    move_about(6)?;
    leader.disable()?;
    move_about(2)?;
    for member in &mut members {
        expect("while enabled", "migrations", member.read()?, 6)?;
    }
    Ok(())
}

/// Where a switch is traced, perf has not changed to the task's cgroup yet. So the event is
/// on no CPU, rather than wrong.
fn migrations_of_a_cgroup(_: &Ctx) -> Result<()> {
    let world = World::new()?;
    let affinity = Affinity::pinned_to(0)?;
    for (event, is_counted) in [
        (named("cpu-migrations")?, false),
        (Event::software(PERF_COUNT_SW_CPU_MIGRATIONS), true),
    ] {
        let mut builder = Builder::new(Raw::new(event.config));
        builder.attrs_mut().type_ = event.type_;
        builder
            .exclude_kernel(false)
            .exclude_hv(false)
            .read_format(ReadFormat::TOTAL_TIME_RUNNING)
            .observe_cgroup(&world.cgroup)
            .one_cpu(1);
        let mut counter = builder.build()?;
        counter.enable()?;
        (1..=6).try_for_each(|i| affinity.pin(i % 2))?;
        counter.disable()?;
        let full = counter.read_full()?;
        let ran = full.time_running().context("no time")?;
        ensure!(
            (full.count() > 0, !ran.is_zero()) == (is_counted, is_counted),
            "{event:x?}: {} in {ran:?}",
            full.count()
        );
    }
    Ok(())
}

/// An event that its limit has stopped counts when it is enabled again. With the in-tree
/// PMU it does not.
fn enabled_after_its_limit(_: &Ctx) -> Result<()> {
    for (event, more) in [
        (Event::rust("task_rename")?, 10),
        (Event::in_tree("task_rename")?, 0),
    ] {
        let mut counter = event.builder().sample_period(1).build()?;
        // SAFETY: the event is open, and the argument is a number.
        let status = unsafe { ioctls::REFRESH(counter.as_raw_fd(), 1) };
        Errno::result(status)?;
        // An interrupt stops it, soon after the first hit.
        let mut before = 0;
        loop {
            rename();
            let count = counter.read()?;
            if count == before {
                break;
            }
            before = count;
        }
        counter.enable()?;
        times(10, rename)?;
        let what = format!("{event:x?}, enabled again");
        expect(&what, "hits", counter.read()?, before + more)?;
    }
    Ok(())
}

/// Events of a task count for its children, and the counts are added when these end.
fn inherited(_: &Ctx) -> Result<()> {
    let mut same = Same::both("sys_enter", |builder| {
        builder.inherit(true);
    })?;
    same.enable()?;
    let child = thread::spawn(|| times(500, getppid));
    child.join().expect("the thread does not panic")?;
    same.disable()?;
    let counted = same.count("inherited")?;
    ensure!(counted > 500, "the child's calls are missing: {counted}");
    Ok(())
}

/// A wakeup counts for the task that is woken, if its event is bound to the CPU on which
/// the other task wakes it.
fn wakeups_of_another_task(_: &Ctx) -> Result<()> {
    const N: u64 = 100;
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut to, mut from) = (
        child.stdin.take().context("stdin")?,
        child.stdout.take().context("stdout")?,
    );
    let pid = child.id() as i32;
    let task = Pid::from_raw(pid);
    pin(task, 1)?;
    let _affinity = Affinity::pinned_to(0)?;
    let mut round_trip = || -> Result<()> {
        to.write_all(b"x")?;
        from.read_exact(&mut [0])?;
        Ok(waiting::asleep(task)?)
    };
    round_trip()?;
    // Not in groups: the in-tree PMU does not look for an event behind a leader of another PMU.
    let mut counters = Vec::new();
    for cpu in [Some(0), Some(1), None] {
        let mut pair = Vec::new();
        for event in [
            Event::rust("sched_waking")?,
            Event::in_tree("sched_waking")?,
        ] {
            let mut builder = event.builder();
            builder.observe_pid(pid);
            if let Some(cpu) = cpu {
                builder.one_cpu(cpu);
            }
            pair.push(builder.build()?);
        }
        counters.push(pair);
    }
    for counter in counters.iter_mut().flatten() {
        counter.enable()?;
    }
    for _ in 0..N {
        round_trip()?;
    }
    // An event that is disabled counts no wakeups. With the in-tree PMU it does.
    let mut counts = Vec::new();
    for pair in &mut counters {
        counts.push([pair[0].read()?, pair[1].read()?]);
    }
    for counter in counters.iter_mut().flatten() {
        counter.disable()?;
    }
    // On CPU 0 this task wakes the child. On CPU 1 the child wakes this one, and an event that
    // is bound to no CPU counts only that.
    let [here, there, anywhere] = counts[..] else {
        bail!("three pairs");
    };
    expect("here", "wakeups of the child", here[0], N)?;
    for [ours, theirs] in [here, there, anywhere] {
        expect("against the in-tree PMU", "wakeups", ours, theirs)?;
    }
    round_trip()?;
    expect("disabled", "wakeups", counters[0][0].read()?, N)?;
    expect(
        "in-tree, disabled",
        "wakeups",
        counters[0][1].read()?,
        N + 1,
    )?;
    drop(to);
    waiting::child(&mut child, "the end of cat")?;
    Ok(())
}

/// sched_stat_runtime counts nanoseconds, not hits.
fn runtime_as_count(_: &Ctx) -> Result<()> {
    let counted = count("sched_stat_runtime", || {
        workload::tight_loop(1_000_000).run();
        thread::sleep(Duration::from_millis(1));
        Ok(())
    })?;
    ensure!(counted > 1_000, "only {counted} ns");
    Ok(())
}

/// Every event in `events/` has the in-tree PMU's count on every CPU.
fn every_named_event(_: &Ctx) -> Result<()> {
    let mut all = Vec::new();
    for file in fs::read_dir(Path::new(RUST_TRACE).join("events"))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        let name = name.strip_prefix(SW).unwrap_or(&name).to_owned();
        if !is_same_on_a_cpu(&name) {
            continue;
        }
        let other = match SOFTWARE.iter().find(|(software, _)| *software == name) {
            Some((_, config)) => Event::software(*config),
            None => Event::in_tree(&name)?,
        };
        for cpu in 0..cpus()? {
            let same = Same::open(&[named(&name)?, other], |builder| {
                builder.any_pid().one_cpu(cpu);
            })?;
            all.push((name.clone(), same));
        }
    }
    ensure!(all.len() >= 30 * cpus()?, "only {} events", all.len());
    for (_, same) in &mut all {
        same.enable()?;
    }
    mixed_work()?;
    for (_, same) in &mut all {
        same.disable()?;
    }
    let mut sums = BTreeMap::new();
    for (name, same) in &mut all {
        *sums.entry(name.clone()).or_insert(0) += same.count(name)?;
    }
    for name in [
        "sched_switch",
        "sched_wakeup",
        "sys_enter",
        "sys_exit",
        "page_fault_user",
        "softirq_entry",
        "softirq_exit",
        "hrtimer_start",
        "hrtimer_expire_entry",
        "net_dev_queue",
        "net_dev_xmit",
        "netif_receive_skb",
        "task_rename",
        "sched_process_exec",
    ] {
        ensure!(sums[name] > 0, "{name} was never hit");
    }
    Ok(())
}

/// The names of all trace points, those of modules too.
fn all_trace_points() -> Result<Vec<String>> {
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let name = |line: &str| {
        let symbol = line.split_whitespace().nth(2)?;
        let name = symbol.strip_prefix("__tracepoint_")?;
        // Functions of kernel/trace/trace_fprobe.c have such names.
        let functions = ["probe_module_cb", "user_free", "user_init"];
        (!functions.contains(&name)).then(|| name.to_string())
    };
    let mut names: Vec<_> = symbols.lines().filter_map(name).collect();
    names.sort();
    names.dedup();
    // What some trace points have besides (`struct tracepoint_ext`).
    let all: BTreeSet<_> = names.iter().cloned().collect();
    names.retain(|name| name.strip_prefix("ext_").is_none_or(|it| !all.contains(it)));
    // A debug kernel has few drivers.
    let least = if checks_itself() { 400 } else { 500 };
    ensure!(names.len() > least, "only {} trace points", names.len());
    Ok(names)
}

/// No two trace points have the same number, nor one of those that are none.
fn numbers_are_unique(_: &Ctx) -> Result<()> {
    let mut numbers = BTreeMap::new();
    let others = ["page-faults", "cpu-migrations"].map(String::from);
    for name in all_trace_points()?.into_iter().chain(others) {
        if let Some(other) = numbers.insert(number(&name), name.clone()) {
            bail!("{name} and {other} have the number {:#x}", number(&name));
        }
    }
    Ok(())
}

/// Each trace point of the kernel can be counted, a fortieth of them at once; `--seed`
/// chooses. The counts of a task equal those of the in-tree PMU where it has the trace point.
fn trace_points_at_once(ctx: &Ctx) -> Result<()> {
    const SHARE: u64 = 40;
    let mut all = Vec::new();
    let limit = libc::rlimit {
        rlim_cur: 8192,
        rlim_max: 8192,
    };
    // SAFETY: the structure is valid.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    let mut alone = 0;
    // All take minutes: the last event of each waits until no probe runs any more.
    let chosen = |name: &String| name == "sys_enter" || number(name) % SHARE == ctx.seed % SHARE;
    for name in all_trace_points()?.into_iter().filter(chosen) {
        let mut events = vec![Event::rust(&name)?];
        match Event::in_tree(&name) {
            Ok(event) => events.push(event),
            Err(_) => alone += 1,
        }
        all.push((name.clone(), Same::open(&events, |_| ()).context(name)?));
    }
    for (_, same) in &mut all {
        same.enable()?;
    }
    times(20, getppid)?;
    workload::touch(20)?.run();
    rename();
    for (_, same) in &mut all {
        same.disable()?;
    }
    let mut hit = 0;
    for (name, same) in &mut all {
        hit += u64::from(same.count(name)? > 0);
    }
    ensure!(all.len() > 10, "only {} trace points", all.len());
    ensure!(hit > 0, "none of {} trace points was hit", all.len());
    println!(
        "# {} trace points, {alone} of them not in tracefs, {hit} hit",
        all.len()
    );
    Ok(())
}

/// Opens an event that takes a sample at each hit.
fn sampler(builder: &mut Builder<'static>, fields: SampleFlag) -> Result<Sampler> {
    let counter = builder
        .sample_period(1)
        .sample(fields)
        .build()
        .context("open")?;
    counter.sampled(RING).context("map the ring buffer")
}

/// A sample of a context switch contains the counts of rust_pmu's events, which are exact.
fn instructions_at_each_switch(ctx: &Ctx) -> Result<()> {
    const N: u64 = 10_000;
    let workload = workload::around_sleep(10_000_000, N);
    // The task does not sleep if the host is so slow that the time is over before.
    find_undisturbed(|| {
        let mut switches = sampler(
            Event::rust("sched_switch")?
                .builder()
                .read_format(ReadFormat::GROUP | ReadFormat::ID),
            SampleFlag::READ | SampleFlag::RAW,
        )?;
        let mut builder = ctx.pmu()?.event(Hardware::Instructions);
        let instructions = builder
            .enabled(true)
            .exclude_kernel(true)
            .build_with_group(&mut *switches)?;
        let mut builder = ctx.pmu()?.event(Hardware::CpuCycles);
        let cycles = builder.enabled(true).build_with_group(&mut *switches);
        workload.measure(&*switches)?;
        let mut asleep = Vec::new();
        let mut samples = 0;
        for_each_sample(&mut switches, |sample| {
            let group = sample.values().context("no READ")?;
            ensure!(group.len() == 2 + usize::from(cycles.is_ok()), "{group:?}");
            let ids = [Some(switches_id(group)?), Some(instructions.id())];
            let mut pair = [0; 2];
            for (value, id) in pair.iter_mut().zip(ids) {
                let entry = group.entries().find(|entry| entry.id() == id);
                *value = entry.context("a member is missing")?.value();
            }
            let [switch, instructions] = pair;
            samples += 1;
            expect("in order", "switches", switch, samples)?;
            // Other tasks may preempt this one.
            let record = Record::of(&sample)?;
            let [preempt, _, _, prev_state] = record.args[..] else {
                bail!("{record:x?}");
            };
            if preempt == 0 && prev_state != 0 {
                asleep.push(instructions);
            }
            Ok(())
        })?;
        let [instructions] = asleep[..] else {
            return Ok(None);
        };
        let expected = workload::before_call(N);
        expect("asleep", "instructions", instructions, expected)?;
        Ok(Some(()))
    })
}

/// The id of the leader, which comes first.
fn switches_id(group: &perf_event::data::ReadGroup<'_>) -> Result<u64> {
    let leader = group.entries().next().context("an empty group")?;
    leader.id().context("no id")
}

/// N hits make N / period samples, each of the period.
fn samples_of_each_period(_: &Ctx) -> Result<()> {
    const N: u64 = 1_000;
    for period in [1, 2, 7, 100, N] {
        for event in [Event::rust("task_rename")?, Event::in_tree("task_rename")?] {
            let mut builder = event.builder();
            builder
                .sample_period(period)
                .sample(SampleFlag::TID | SampleFlag::PERIOD);
            let mut sampler = builder.build()?.sampled(RING)?;
            sampler.enable()?;
            times(N, rename)?;
            sampler.disable()?;
            expect("renames", "hits", sampler.read()?, N)?;
            let (mut samples, mut sum) = (0, 0);
            for_each_sample(&mut sampler, |sample| {
                samples += 1;
                sum += sample.period().context("no PERIOD")?;
                let tid = gettid().as_raw() as u32;
                ensure!(sample.tid() == Some(tid), "of another task");
                Ok(())
            })?;
            // With PERF_SAMPLE_PERIOD and a period, perf samples each hit of such events.
            expect(
                &format!("period {period}, {event:x?}"),
                "samples",
                samples,
                N,
            )?;
            expect("in total", "hits", sum, N)?;

            let mut builder = event.builder();
            builder.sample_period(period).sample(SampleFlag::TID);
            let mut sampler = builder.build()?.sampled(RING)?;
            sampler.enable()?;
            times(N, rename)?;
            sampler.disable()?;
            let mut samples = 0;
            for_each_sample(&mut sampler, |_| {
                samples += 1;
                Ok(())
            })?;
            let what = format!("period {period} without PERIOD, {event:x?}");
            expect(&what, "samples", samples, N / period)?;
        }
    }
    Ok(())
}

/// Takes the records of the hits of a trace point in `work`.
fn records(name: &str, work: impl FnOnce() -> Result<()>) -> Result<Vec<Record>> {
    let mut sampler = sampler(&mut Event::rust(name)?.builder(), SampleFlag::RAW)?;
    sampler.enable()?;
    work()?;
    sampler.disable()?;
    let mut records = Vec::new();
    for_each_sample(&mut sampler, |sample| {
        let record = Record::of(&sample)?;
        expect(name, "as number", record.number, number(name))?;
        expect(name, "as pid", record.pid as u64, gettid().as_raw() as u64)?;
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

/// The arguments of this trace point are those of the system call. The first is an `int`.
fn record_of_an_unknown_prctl(_: &Ctx) -> Result<()> {
    const OPTION: libc::c_int = -0x0bad_0bad;
    const ARGS: [u64; 4] = [0x1111_2222_3333_4444, 0, u64::MAX, 0x8000_0000_0000_0000];
    let records = records("task_prctl_unknown", || {
        ensure!(unknown_prctl(OPTION, ARGS) == -1, "the option is known");
        Ok(())
    })?;
    let [record] = &records[..] else {
        bail!("{records:x?}");
    };
    let [a, b, c, d] = ARGS;
    let want = [u64::from(OPTION as u32), a, b, c, d];
    ensure!(
        record.args == want,
        "{:x?}, expected {want:x?}",
        record.args
    );
    Ok(())
}

/// A trace point with ten arguments, of which five are on the stack. The in-tree record of
/// the same hit has all of them.
fn record_with_arguments_on_the_stack(_: &Ctx) -> Result<()> {
    const NAME: &str = "percpu_alloc_percpu";
    let mut ours = sampler(&mut Event::rust(NAME)?.builder(), SampleFlag::RAW)?;
    let mut theirs = sampler(&mut Event::in_tree(NAME)?.builder(), SampleFlag::RAW)?;
    ours.enable()?;
    theirs.enable()?;
    // The first event of a trace point allocates a list for each CPU.
    let event = Event::rust("task_newtask")?.builder().build()?;
    theirs.disable()?;
    ours.disable()?;
    drop(event);

    let mut records = Vec::new();
    for_each_sample(&mut ours, |sample| {
        records.push(Record::of(&sample)?.args);
        Ok(())
    })?;
    let mut expected = Vec::new();
    for_each_sample(&mut theirs, |sample| {
        let raw = sample.raw().context("no RAW")?;
        let field = |at: usize, len: usize| {
            let bytes = &raw[at..at + len];
            bytes
                .iter()
                .rev()
                .fold(0, |word, byte| (word << 8) | u64::from(*byte))
        };
        // By the event's file `format` in tracefs.
        expected.push(vec![
            field(8, 8),
            field(16, 1),
            field(17, 1),
            field(24, 8),
            field(32, 8),
            field(40, 8),
            field(48, 4),
            field(56, 8),
            field(64, 8),
            field(72, 8),
        ]);
        Ok(())
    })?;
    ensure!(!records.is_empty(), "no allocation");
    ensure!(records == expected, "{records:x?}, expected {expected:x?}");
    let words: Vec<_> = records
        .iter()
        .filter(|args| args[3] == 8 && args[4] == 8)
        .collect();
    ensure!(
        words.len() == 2,
        "not two lists of a word each: {records:x?}"
    );
    Ok(())
}

/// Everyone may record the system calls of his own tasks. A record has no address of the
/// kernel.
fn record_hides_kernel_addresses(_: &Ctx) -> Result<()> {
    let paranoid = Setting::change("/proc/sys/kernel/perf_event_paranoid", 1)?;
    {
        let _unprivileged = Unprivileged::new()?;
        for (name, value) in [("sys_enter", libc::SYS_getppid as u64), ("sys_exit", 1)] {
            let value = match name {
                "sys_exit" => nix::unistd::getppid().as_raw() as u64,
                _ => value,
            };
            let records = records(name, || times(1, getppid))?;
            // Its registers and what the trace point is about.
            ensure!(
                records
                    .iter()
                    .all(|it| it.args.len() == 2 && it.args[0] == 0),
                "{records:x?}"
            );
            ensure!(records.iter().any(|it| it.args[1] == value), "{records:x?}");
        }
    }
    paranoid.restore()
}

/// The call chain and the address of a sample are where the trace point is.
fn call_chain_as_in_tree(_: &Ctx) -> Result<()> {
    let mut chains = Vec::new();
    for event in [Event::rust("task_rename")?, Event::in_tree("task_rename")?] {
        let fields = SampleFlag::IP | SampleFlag::CALLCHAIN;
        let mut sampler = sampler(&mut event.builder(), fields)?;
        sampler.enable()?;
        times(3, rename)?;
        sampler.disable()?;
        let mut samples = Vec::new();
        for_each_sample(&mut sampler, |sample| {
            let chain = sample.callchain().context("no CALLCHAIN")?.to_vec();
            samples.push((sample.ip().context("no IP")?, chain));
            Ok(())
        })?;
        expect("renames", "samples", samples.len() as u64, 3)?;
        ensure!(
            samples.iter().all(|it| it.0 == samples[0].0),
            "{samples:x?}"
        );
        chains.push(samples.swap_remove(0));
    }
    let [ours, theirs] = &chains[..] else {
        bail!("two PMUs");
    };
    // The call of the probe is the only instruction that may differ: with one probe a trace
    // point calls it directly.
    ensure!(
        ours.1.len() == theirs.1.len() && ours.1[2..] == theirs.1[2..],
        "{ours:x?}, in-tree {theirs:x?}"
    );
    Ok(())
}

/// The trace event of page faults in kernel mode as tracefs records it: without perf, and
/// so without what perf leaves out.
struct FaultsInTracefs(PathBuf);

impl FaultsInTracefs {
    const TRACEFS: &str = "/sys/kernel/tracing";

    /// Records those of this thread.
    fn start() -> Result<Self> {
        let event = tracefs("page_fault_kernel").context("no page_fault_kernel")?;
        fs::write(event.join("filter"), format!("common_pid == {}", gettid()))?;
        fs::write(Path::new(Self::TRACEFS).join("trace"), "")?;
        fs::write(event.join("enable"), "1")?;
        Ok(Self(event))
    }

    fn count(&self) -> Result<usize> {
        let trace = fs::read_to_string(Path::new(Self::TRACEFS).join("trace"))?;
        let faults = trace
            .lines()
            .filter(|line| line.contains("page_fault_kernel:"));
        Ok(faults.count())
    }
}

impl Drop for FaultsInTracefs {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("enable"), "0");
        let _ = fs::write(self.0.join("filter"), "0");
    }
}

/// A hit that taking a sample causes is not counted: a sample of the user call chain reads
/// the stack, and the frame pointer is one that faults.
fn recursion(_: &Ctx) -> Result<()> {
    const N: u64 = 50;
    let call = || {
        let number = libc::SYS_getppid;
        // SAFETY: the frame pointer is restored. The system call has no arguments, and
        // changes RAX, RCX and R11.
        unsafe {
            asm!(
                "push rbp",
                "mov rbp, 0x100000",
                "syscall",
                "pop rbp",
                inout("rax") number => _,
                out("rcx") _,
                out("r11") _,
            );
        }
    };
    let mut faults = Same::both("page_fault_kernel", |_| ())?;
    let mut samplers = Vec::new();
    for event in [Event::rust("sys_enter")?, Event::in_tree("sys_enter")?] {
        samplers.push(sampler(
            &mut event.builder(),
            SampleFlag::TID | SampleFlag::CALLCHAIN,
        )?);
    }
    for sampler in &mut samplers {
        sampler.enable()?;
    }
    let traced = FaultsInTracefs::start()?;
    faults.enable()?;
    times(N, call)?;
    faults.disable()?;
    for sampler in &mut samplers {
        sampler.disable()?;
    }
    let traced = traced.count()?;
    ensure!(traced >= N as usize, "only {traced} faults in tracefs");
    expect("while sampling", "faults", faults.count("faults")?, 0)?;
    for sampler in &mut samplers {
        let mut samples = 0;
        for_each_sample(sampler, |_| {
            samples += 1;
            Ok(())
        })?;
        ensure!(samples >= N, "only {samples} samples");
    }
    Ok(())
}

/// A module with trace points stays loaded while one of them has an event.
fn trace_point_of_a_module(_: &Ctx) -> Result<()> {
    const NAME: &str = "kvm_userspace_exit";
    let run = |program: &str, arguments: &[&str]| -> Result<bool> {
        let output = waiting::output(Command::new(program).args(arguments))?;
        Ok(output.status.success())
    };
    let open = || {
        Event::rust(NAME)?
            .builder()
            .build()
            .map_err(anyhow::Error::from)
    };
    let refused = || -> Result<()> {
        let error = open().err().context("there is no such trace point")?;
        let errno = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error);
        ensure!(errno == Some(libc::EINVAL), "{error}");
        Ok(())
    };
    refused()?;
    for _ in 0..3 {
        ensure!(run("modprobe", &["kvm"])?, "cannot load kvm");
        let events = [open()?, open()?];
        let [first, second] = events;
        ensure!(!run("rmmod", &["kvm"])?, "unloaded with two events");
        drop(first);
        ensure!(!run("rmmod", &["kvm"])?, "unloaded with an event");
        drop(second);
        ensure!(run("modprobe", &["-r", "kvm"])?, "cannot unload kvm");
        refused()?;
    }
    // A module that is in use: 9P serves the guest's files.
    let counted = count("9p_client_req", || {
        fs::read_dir("/mnt/checkout")?.count();
        Ok(())
    })?;
    ensure!(counted > 0, "no request");
    Ok(())
}

/// Any number of events: each counts each hit.
fn many_events_on_one_trace_point(_: &Ctx) -> Result<()> {
    const N: u64 = 200;
    let mut same = Same::open(&[Event::rust("task_rename")?; 300], |_| ())?;
    same.enable()?;
    times(N, rename)?;
    same.disable()?;
    expect("300 events", "hits", same.count("300 events")?, N)
}

/// A number in a file such as /proc/meminfo, behind its name.
fn number_in(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let line = text
        .lines()
        .find(|line| line.split([' ', ':']).next() == Some(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(number
        .with_context(|| format!("no {name} in {file}"))?
        .parse()?)
}

/// Empties the caches of free events, which the kernel counts as in use.
fn shrink() -> Result<()> {
    Ok(fs::write("/sys/kernel/slab/perf_event/shrink", "1")?)
}

/// Waits until a number is at most what it was. RCU frees some things later.
fn wait_until_at_most(file: &str, name: &str, before: u64) -> Result<()> {
    for _ in 0..200 {
        shrink()?;
        if number_in(file, name)? <= before {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    let now = number_in(file, name)?;
    bail!("{name} in {file}: {now}, before {before}")
}

/// Opens and closes events while their trace point is hit on every CPU. In the end the
/// module can be unloaded, and no more memory is in use than before.
fn closed_events_leave_nothing(ctx: &Ctx) -> Result<()> {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stop = &stop;
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    let events = ["sys_enter", "sched_switch", "page-faults", "cpu-migrations"]
        .map(Event::rust)
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    // What the kernel allocates once, and keeps.
    for event in &events {
        drop(event.builder().build()?);
    }
    shrink()?;
    let perf_events = number_in("/proc/slabinfo", "perf_event")?;
    let per_cpu = number_in("/proc/meminfo", "Percpu")?;
    thread::scope(|scope| -> Result<()> {
        for _ in 0..cpus()? {
            scope.spawn(|| {
                while !stopped() {
                    getppid();
                }
            });
        }
        let rounds = || -> Result<()> {
            let start = std::time::Instant::now();
            // The first and last event of a trace point attaches and detaches.
            for round in 0..40 {
                let mut counter = events[round % events.len()].builder().build()?;
                counter.enable()?;
                getppid();
            }
            println!("# 40 times first and last: {:?}", start.elapsed());
            // Others come and go beside one that stays.
            let _stay = events
                .iter()
                .map(|it| it.builder().build())
                .collect::<Result<Vec<_>, _>>()?;
            for round in 0..2_000 {
                let event = events[round % events.len()];
                let mut builder = event.builder();
                builder.enabled(true);
                if round % 2 == 1 {
                    builder.any_pid().one_cpu(round % cpus()?);
                }
                drop(builder.build()?);
            }
            println!("# and 2,000 others: {:?}", start.elapsed());
            Ok(())
        };
        let result = rounds();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        result
    })?;
    wait_until_at_most("/proc/slabinfo", "perf_event", perf_events)?;
    wait_until_at_most("/proc/meminfo", "Percpu", per_cpu)?;
    match module::remove() {
        Ok(()) => {}
        Err(Errno::EBUSY) => bail!("events are left"),
        Err(error) => bail!("unload: {error}"),
    }
    module::insert(ctx)?.context("load again")?;
    Ok(())
}
