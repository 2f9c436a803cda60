// SPDX-License-Identifier: GPL-2.0
//! Thousands of calls of perf_event_open() on trace points, each for rust_trace and for the
//! in-tree PMU. They return the same errno, and so do the ioctls of events that are opened,
//! which count the same, apart from what docs/differences.md lists. What is only rust_trace's has
//! the errno that docs/rust-trace.md says.

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{ensure, Context, Result};
use fastrand::Rng;
use nix::errno::Errno;
use perf_event::Counter;
use perf_event_open_sys::bindings::{
    perf_event_attr, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_RAW, PERF_SAMPLE_STACK_USER,
};
use perf_event_open_sys::ioctls;

use super::compare::alike::{Comparison, Counts, Difference, Pair};
use super::compare::attr;
use super::compare::calls::{self, CHANGES};
use super::compare::case::{Case, Side, Unprivileged};
use crate::bpf;
use crate::ctx::{Ctx, Test};
use crate::pmu::Pmu;
use crate::setting::Setting;
use crate::tests;
use crate::trace::{number, rust_type, Event};

pub const TESTS: &[Test] = tests![
    all need [Module, Root, TracePoints];
    every_field,
    pairs_of_fields,
    random_attrs,
    arguments,
    rights,
    who_may_record,
    reserved_bits,
    unknown_trace_points,
    stacks_at_page_faults,
    samples_of_migrations,
    bpf_programs,
];

/// The trace points that are compared: an ordinary one, one that everyone may record, one
/// on every CPU, and the one that must not be sampled.
const POINTS: [&str; 4] = ["task_rename", "sys_enter", "sched_switch", "irq_work_exit"];

/// Those that a task hits only itself.
const OWN_POINTS: [&str; 2] = ["task_rename", "sys_enter"];

/// What docs/differences.md says.
const DIFFERENCES: &[Difference] = &[
    Difference::Open("config1 to config4", |case| {
        let words = [attr::CONFIG1, attr::CONFIG2, attr::CONFIG3, attr::CONFIG4];
        words.iter().any(|word| case.seen(*word) != 0)
    }),
    Difference::Ioctl("SET_FILTER"),
];

/// A comparison of trace points on both PMUs.
struct Points {
    comparison: Comparison,
    /// An event of each, so that the calls attach nothing.
    _kept: Vec<Counter>,
}

impl Points {
    fn new(ctx: &Ctx) -> Result<Self> {
        let mut kept = Vec::new();
        let mut numbers = Vec::new();
        for name in POINTS {
            let events = [Event::rust(name)?, Event::in_tree(name)?];
            numbers.push(events.map(|event| event.config).into());
            for event in events {
                kept.push(event.builder().build().context(name)?);
            }
        }
        let pair = Pair {
            ours: Side::new(Pmu::find("rust_trace")?, number(POINTS[0])),
            theirs: Side::with_configs(Pmu::find("tracepoint")?, &numbers, u64::MAX),
            load: || {
                // SAFETY: the first call has no arguments. The name of the second is a string.
                unsafe {
                    libc::syscall(libc::SYS_getppid);
                    libc::prctl(libc::PR_SET_NAME, c"name".as_ptr());
                }
            },
            counts: Counts::Same,
            counted: OWN_POINTS.map(number).to_vec(),
            differences: DIFFERENCES,
        };
        Ok(Self {
            comparison: Comparison::new(ctx, pair)?,
            _kept: kept,
        })
    }

    fn call(&mut self, case: Case) -> Result<()> {
        self.comparison.call(case)
    }

    fn finish(self) -> Result<()> {
        self.comparison.finish()
    }
}

/// An event of a trace point, in the kernel, too.
fn point(name: &str) -> Case {
    let mut case = Case::own(number(name));
    case.attr.set(attr::EXCLUDE_KERNEL, 0);
    case
}

/// Each field of the attribute, at its interesting values, has the result of the in-tree PMU, but
/// for the listed differences.
fn every_field(ctx: &Ctx) -> Result<()> {
    let mut points = Points::new(ctx)?;
    for name in OWN_POINTS {
        calls::every_field(point(name), |case| match case.config() {
            // perf's names of software events, of which the in-tree PMU has none.
            0x40_0000_0000 | 0x80_0000_0000 | 0x100_0000_0000 => Ok(()),
            _ => points.call(case),
        })?;
    }
    points.comparison.finish_with_all_differences()
}

/// Each two changes of the attribute have the result of the in-tree PMU.
fn pairs_of_fields(ctx: &Ctx) -> Result<()> {
    let mut points = Points::new(ctx)?;
    for case in calls::pairs(point("sys_enter"), CHANGES) {
        points.call(case)?;
    }
    points.finish()
}

/// 4000 random attributes have the result of the in-tree PMU.
fn random_attrs(ctx: &Ctx) -> Result<()> {
    const CALLS: usize = 4_000;
    let mut points = Points::new(ctx)?;
    let mut rng = Rng::with_seed(ctx.seed);
    println!("# seed {}", ctx.seed);
    for _ in 0..CALLS {
        let mut case = point(rng.choice(POINTS).context("no trace point")?);
        calls::change_randomly(&mut rng, &mut case, CHANGES);
        points.call(case)?;
    }
    points.finish()
}

/// All combinations of the other arguments of the system call have the result of the in-tree PMU.
fn arguments(ctx: &Ctx) -> Result<()> {
    let mut points = Points::new(ctx)?;
    for case in calls::arguments(point("sched_switch")) {
        points.call(case)?;
    }
    points.finish()
}

/// Calls of an unprivileged user have the result of the in-tree PMU, at each level of
/// `perf_event_paranoid`.
fn rights(ctx: &Ctx) -> Result<()> {
    let mut points = Points::new(ctx)?;
    for name in POINTS {
        calls::rights(point(name), CHANGES, |case| points.call(case))?;
    }
    points.finish()
}

/// The result of a call.
type Outcome = Result<(), Errno>;

/// Opens an event.
fn open(attr: &perf_event_attr, pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
    let mut attr = *attr;
    // SAFETY: the attribute is valid, and `size` says how long it is.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw mut attr, pid, cpu, -1, 0) };
    Errno::result(fd)?;
    // SAFETY: the call has just returned this file descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn plain(event: Event) -> perf_event_attr {
    let mut attr = perf_event_attr::default();
    attr.size = size_of::<perf_event_attr>() as u32;
    event.set(&mut attr);
    attr.set_disabled(1);
    attr
}

fn sampling(attr: &mut perf_event_attr, sample_type: u64) {
    attr.__bindgen_anon_1.sample_period = 1;
    attr.sample_type |= sample_type;
}

/// Who may have records, told without the in-tree PMU.
fn who_may_record(_: &Ctx) -> Result<()> {
    let paranoid = Setting::save("/proc/sys/kernel/perf_event_paranoid")?;
    for (level, name, pid, outcome) in [
        (-1, "task_rename", 0, Ok(())),
        (-1, "task_rename", -1, Ok(())),
        (0, "task_rename", 0, Err(Errno::EPERM)),
        (0, "sys_enter", 0, Ok(())),
        (0, "sys_enter", -1, Err(Errno::EPERM)),
        (1, "task_rename", 0, Err(Errno::EPERM)),
        (1, "sys_enter", 0, Ok(())),
        (1, "sys_exit", 0, Ok(())),
        (1, "sys_enter", -1, Err(Errno::EPERM)),
        // The kernel must be excluded.
        (2, "sys_enter", 0, Err(Errno::EACCES)),
        (1, "page-faults", 0, Err(Errno::EPERM)),
    ] {
        paranoid.set(level)?;
        let mut attr = plain(Event::rust(name)?);
        sampling(&mut attr, PERF_SAMPLE_RAW.into());
        let cpu = if pid == 0 { -1 } else { 0 };
        open(&attr, pid, cpu)?;
        let _unprivileged = Unprivileged::new()?;
        let got = open(&attr, pid, cpu).map(drop);
        ensure!(
            got == outcome,
            "perf_event_paranoid={level}, {name}, pid {pid}: {got:?}, expected {outcome:?}"
        );
    }
    paranoid.restore()
}

fn expect_errno(what: &str, attr: &perf_event_attr, errno: Errno) -> Result<()> {
    let got = open(attr, 0, -1).map(drop);
    ensure!(got == Err(errno), "{what}: {got:?}, expected {errno}");
    Ok(())
}

/// Bits of `config` that no field has, and the other words.
fn reserved_bits(_: &Ctx) -> Result<()> {
    let event = Event::rust("task_rename")?;
    for bit in 35..64 {
        let mut attr = plain(event);
        attr.config |= 1 << bit;
        expect_errno(&format!("config bit {bit}"), &attr, Errno::EINVAL)?;
    }
    // A trace point has no return.
    let mut attr = plain(event);
    attr.config |= 1 << 34;
    expect_errno("ret", &attr, Errno::EINVAL)?;
    for bit in 0..64 {
        let mut attr = plain(event);
        attr.__bindgen_anon_3.config1 = 1 << bit;
        expect_errno("config1", &attr, Errno::EINVAL)?;
        let mut attr = plain(event);
        attr.__bindgen_anon_4.config2 = 1 << bit;
        expect_errno("config2", &attr, Errno::EINVAL)?;
        let mut attr = plain(event);
        attr.config3 = 1 << bit;
        expect_errno("config3", &attr, Errno::EINVAL)?;
    }
    Ok(())
}

/// As for an unknown event of the in-tree PMU.
fn unknown_trace_points(_: &Ctx) -> Result<()> {
    for config in [
        0,
        u64::from(u32::MAX),
        number("there is no such trace point"),
    ] {
        let type_ = rust_type()?;
        let attr = plain(Event { type_, config });
        expect_errno("an unknown trace point", &attr, Errno::EINVAL)?;
    }
    let attr = plain(Event {
        config: u64::from(u32::MAX),
        ..Event::in_tree("task_rename")?
    });
    expect_errno("in-tree", &attr, Errno::EINVAL)
}

/// Where a page fault is traced, nothing reads user memory.
fn stacks_at_page_faults(_: &Ctx) -> Result<()> {
    for name in ["page_fault_user", "page_fault_kernel", "page-faults"] {
        let event = Event::rust(name)?;
        let mut attr = plain(event);
        sampling(&mut attr, PERF_SAMPLE_CALLCHAIN.into());
        expect_errno(name, &attr, Errno::EINVAL)?;
        attr.set_exclude_callchain_user(1);
        open(&attr, 0, -1).context("the call chain of the kernel")?;
        let mut attr = plain(event);
        sampling(&mut attr, PERF_SAMPLE_STACK_USER.into());
        attr.sample_stack_user = 64;
        expect_errno(name, &attr, Errno::EINVAL)?;
    }
    Ok(())
}

/// When a migration is counted, the task does not run yet.
fn samples_of_migrations(_: &Ctx) -> Result<()> {
    let mut attr = plain(Event::rust("cpu-migrations")?);
    open(&attr, 0, -1)?;
    sampling(&mut attr, 1);
    expect_errno("samples", &attr, Errno::EOPNOTSUPP)
}

/// Only PMUs that are part of the kernel may have the BPF programs of trace points. The
/// programs of any event attach to both.
fn bpf_programs(_: &Ctx) -> Result<()> {
    let of_trace_points = bpf::return_1(bpf::Kind::TracePoint)?;
    let of_events = bpf::return_1(bpf::Kind::PerfEvent)?;
    for (what, program, expected) in [
        (
            "of trace points",
            &of_trace_points,
            [Err(Errno::EINVAL), Ok(())],
        ),
        ("of events", &of_events, [Ok(()), Err(Errno::EINVAL)]),
    ] {
        let events = [Event::rust("task_rename")?, Event::in_tree("task_rename")?];
        for (event, expected) in events.into_iter().zip(expected) {
            let mut attr = plain(event);
            sampling(&mut attr, 0);
            let event = open(&attr, 0, -1)?;
            // SAFETY: both are open, and the argument is a number.
            let status = unsafe { ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32) };
            let got: Outcome = Errno::result(status).map(drop);
            ensure!(
                got == expected,
                "a program {what}, type {}: {got:?}, expected {expected:?}",
                attr.type_
            );
        }
    }
    Ok(())
}
